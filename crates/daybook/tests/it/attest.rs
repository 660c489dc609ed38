//! What the attestation catches that no file can prove of itself, through the command line.

use serde_json::Value;

use crate::support::Scratch;

fn attested(segments_of: Option<u64>) -> Scratch {
    let scratch = Scratch::new();
    scratch.key();
    scratch.run(200, segments_of).seal().unwrap();
    let args = ["attest", "run.omni", "--key", "k.pem", "--json"];
    let signed = scratch.daybook(&args).expect(0).json();
    assert_eq!(
        (&signed["closed"], &signed["changed"]),
        (&true.into(), &true.into())
    );
    verify(&scratch, 0);
    scratch
}

fn verify(scratch: &Scratch, code: i32) -> Value {
    let args = ["verify", "--json", "run.omni", "--trust", "k.pub.pem"];
    scratch.daybook(&args).expect(code).json()
}

fn has_code(verdict: &Value, code: &str) -> bool {
    let findings = verdict["findings"].as_array().unwrap();
    findings.iter().any(|finding| finding["code"] == code)
}

/// Cuts a sealed file after so many bytes of records and without a trailer, as an attacker would.
fn cut_after_tick(scratch: &Scratch, ticks: usize) {
    let record = 36 + 7;
    scratch.change("run.omni", |bytes| bytes.truncate(32 + ticks * record));
}

#[test]
fn a_run_that_was_attested_says_what_its_note_proves() {
    let scratch = attested(None);
    let ran = scratch
        .daybook(&["verify", "run.omni", "--trust", "k.pub.pem"])
        .expect(0);
    assert!(
        ran.out.contains("none missing, none replaced"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("it is complete"), "{}", ran.out);
    let again = scratch
        .daybook(&["attest", "run.omni", "--key", "k.pem"])
        .expect(0);
    assert!(
        again.out.starts_with("already signed: run.omni.checkpoint"),
        "{}",
        again.out
    );
}

#[test]
fn a_tail_that_was_cut_is_caught() {
    let scratch = attested(None);
    cut_after_tick(&scratch, 50);
    let verdict = verify(&scratch, 1);
    assert!(has_code(&verdict, "cut_below_signed_size"), "{verdict}");
    let ran = scratch
        .daybook(&["attest", "run.omni", "--key", "k.pem"])
        .expect(1);
    assert!(
        ran.err.contains("run.omni.checkpoint"),
        "a cut run is not signed anew: {}",
        ran.err
    );
}

#[test]
fn a_removed_last_segment_is_caught() {
    let scratch = attested(Some(50));
    scratch.remove("run.3.omni");
    let verdict = verify(&scratch, 1);
    assert!(has_code(&verdict, "cut_below_signed_size"), "{verdict}");
}

#[test]
fn a_run_that_was_written_anew_as_a_whole_is_caught() {
    let scratch = attested(None);
    scratch.remove("run.omni");
    scratch.run_of("run.omni", 200, None, "y").seal().unwrap();
    let verdict = verify(&scratch, 1);
    assert!(has_code(&verdict, "root_mismatch"), "{verdict}");
}

#[test]
fn a_run_and_its_note_rewritten_with_another_key_prove_nothing_to_who_trusts_the_first() {
    let scratch = attested(None);
    for name in ["run.omni", "run.omni.checkpoint", "run.omni.leaves"] {
        scratch.remove(name);
    }
    scratch.run_of("run.omni", 200, None, "y").seal().unwrap();
    scratch
        .daybook(&["key", "new", "-o", "thief.pem"])
        .expect(0);
    scratch
        .daybook(&["attest", "run.omni", "--key", "thief.pem"])
        .expect(0);
    let verdict = verify(&scratch, 2);
    assert!(
        has_code(&verdict, "not_signed_by_a_trusted_key"),
        "{verdict}"
    );
}

#[test]
fn a_note_kept_elsewhere_catches_run_and_note_set_back_together() {
    let scratch = attested(None);
    let note = scratch.read("run.omni.checkpoint");
    scratch.write("kept", &note);
    let with_note = [
        "verify",
        "run.omni",
        "--trust",
        "k.pub.pem",
        "--note",
        "kept",
    ];
    let ran = scratch.daybook(&with_note).expect(0);
    assert!(ran.out.contains("by the older note"), "{}", ran.out);
    for name in ["run.omni", "run.omni.checkpoint", "run.omni.leaves"] {
        scratch.remove(name);
    }
    scratch.run_of("run.omni", 100, None, "x").seal().unwrap();
    scratch
        .daybook(&["attest", "run.omni", "--key", "k.pem"])
        .expect(0);
    verify(&scratch, 0);
    scratch.daybook(&with_note).expect(1);
}

#[test]
fn a_signed_recording_is_attested_while_it_runs_and_complete_when_it_ends() {
    let scratch = Scratch::new();
    scratch.key();
    let script = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo \"{\\\"i\\\":$i}\"; done";
    let options = [
        "--key",
        "k.pem",
        "--rotate",
        "100r",
        "--origin",
        "lab/run-7",
    ];
    let ran = scratch.record(&options, script).expect(0);
    assert!(ran.err.contains("the attestation covers"), "{}", ran.err);
    let verdict = verify(&scratch, 0);
    let report = &verdict["facts"]["attestation"];
    assert_eq!(
        (&report["closed"], &report["origin"]),
        (&true.into(), &"lab/run-7".into())
    );
    assert_eq!(report["covers_records"], verdict["facts"]["records"]);
    scratch.remove("run.3.omni");
    verify(&scratch, 1);
}

#[test]
fn a_damaged_run_is_not_signed() {
    let scratch = Scratch::new();
    scratch.key();
    scratch.run(10, None).seal().unwrap();
    scratch.change("run.omni", |bytes| bytes[70] ^= 1);
    let ran = scratch
        .daybook(&["attest", "run.omni", "--key", "k.pem"])
        .expect(1);
    assert!(ran.err.contains("does not verify"), "{}", ran.err);
    assert!(!scratch.has("run.omni.checkpoint"));
}
