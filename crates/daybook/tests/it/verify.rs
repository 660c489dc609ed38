//! `verify` tells the truth: intact is 0, damaged is 1, and what could not be told is 2.

use serde_json::{Value, json};

use crate::support::Scratch;

fn codes(verdict: &Value) -> Vec<&str> {
    let findings = verdict["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|f| f["code"].as_str().unwrap())
        .collect()
}

#[test]
fn an_intact_run_is_0_and_the_report_says_what_is_proved_and_up_to_where() {
    let scratch = Scratch::new();
    scratch.run(200, None).seal().unwrap();
    let ran = scratch.daybook(&["verify", "run.omni"]).expect(0);
    assert!(
        ran.out
            .contains("by the chain, all 204 records (up to tick 200)"),
        "{}",
        ran.out
    );
    assert!(
        ran.out
            .contains("not proved: that nothing is missing at the end"),
        "{}",
        ran.out
    );
    assert!(
        ran.out
            .ends_with("run.omni: intact (everything that it can prove holds)\n"),
        "{}",
        ran.out
    );
    assert!(ran.err.is_empty(), "{}", ran.err);
    let verdict = scratch
        .daybook(&["verify", "--json", "run.omni"])
        .expect(0)
        .json();
    assert_eq!(verdict["verdict"], "intact");
    assert_eq!(verdict["kind"], "run");
    assert_eq!(verdict["path"], "run.omni");
    assert_eq!(verdict["facts"]["records"], 204);
    assert_eq!(verdict["facts"]["last_tick"], 200);
    assert_eq!(verdict["facts"]["segments"][0]["checkpoints"], 4);
}

#[test]
fn a_flipped_byte_is_1_and_the_finding_names_file_and_offset() {
    let scratch = Scratch::new();
    scratch.run(200, None).seal().unwrap();
    scratch.change("run.omni", |bytes| bytes[32 + 36 + 5] ^= 1);
    let ran = scratch.daybook(&["verify", "run.omni"]).expect(1);
    assert!(
        ran.out
            .contains("damage: run.omni byte 32: the payload does not have its checksum"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("run.omni: damaged"), "{}", ran.out);
    let verdict = scratch
        .daybook(&["verify", "--json", "run.omni"])
        .expect(1)
        .json();
    assert_eq!(verdict["verdict"], "damaged");
    assert!(codes(&verdict).contains(&"crc_mismatch"));
}

#[test]
fn an_unsealed_run_is_2_and_the_report_counts_what_no_checkpoint_covers() {
    let scratch = Scratch::new();
    let mut journal = scratch.run(100, None);
    journal.flush().unwrap();
    drop(journal);
    let ran = scratch.daybook(&["verify", "run.omni"]).expect(2);
    assert!(
        ran.out.contains("by the chain, 65 of 101 records"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("not proved: 36 of 101 records"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("run.omni: unproven"), "{}", ran.out);
}

#[test]
fn what_cannot_be_checked_is_2_with_one_document_that_says_why() {
    let scratch = Scratch::new();
    scratch.write("empty.omni", b"");
    scratch.write("short.omni", b"OMNILOG1");
    scratch.write("other.txt", b"some text that is no record at all");
    scratch.run(3, None).seal().unwrap();
    let mut newer = scratch.read("run.omni");
    newer[8] = 9;
    scratch.write("newer.omni", &newer);
    let cases = [
        ("missing.omni", "unreadable", "No such file or directory"),
        (".", "folder", "is a folder"),
        ("empty.omni", "empty_file", "is empty"),
        ("short.omni", "incomplete", "8 of 32 bytes"),
        ("other.txt", "unknown_kind", "no record that daybook knows"),
        ("newer.omni", "newer_version", "version 9"),
        ("/dev/null", "not_a_file", "a device"),
    ];
    for (path, code, what) in cases {
        let ran = scratch.daybook(&["verify", path]).expect(2);
        assert!(
            ran.out.contains(what) && ran.out.contains(path),
            "{path}: {}",
            ran.out
        );
        let verdict = scratch
            .daybook(&["verify", "--json", path])
            .expect(2)
            .json();
        assert_eq!(verdict["verdict"], "unproven", "{path}");
        assert_eq!(codes(&verdict), [code], "{path}");
        let told = verdict["findings"][0]["what"].as_str().unwrap();
        assert!(told.contains(what), "{path}: {told}");
        assert!(!told.contains("os error"), "{path}: {told}");
    }
}

#[test]
fn several_paths_give_an_array_and_the_gravest_exit_code() {
    let scratch = Scratch::new();
    scratch.run(10, None).seal().unwrap();
    scratch.write("other", b"no record");
    let verdicts = scratch
        .daybook(&["verify", "--json", "run.omni", "other"])
        .expect(2)
        .json();
    let words: Vec<&Value> = verdicts
        .as_array()
        .unwrap()
        .iter()
        .map(|v| &v["verdict"])
        .collect();
    assert_eq!(words, ["intact", "unproven"]);
    let bytes = scratch.read("run.omni");
    scratch.write("bad.omni", &bytes);
    scratch.change("bad.omni", |bytes| bytes[70] ^= 1);
    scratch
        .daybook(&["verify", "bad.omni", "other", "run.omni"])
        .expect(1);
    scratch
        .daybook(&["verify", "run.omni", "run.omni"])
        .expect(0);
}

#[test]
fn a_set_is_verified_as_a_whole_with_a_line_per_segment() {
    let scratch = Scratch::new();
    scratch.run(90, Some(30)).seal().unwrap();
    let ran = scratch.daybook(&["verify", "run.omni"]).expect(0);
    for line in [
        "segment 0: run.omni: 31 records",
        "segment 1: run.1.omni",
        "segment 2: run.2.omni",
    ] {
        assert!(ran.out.contains(line), "{}", ran.out);
    }
    scratch.remove("run.1.omni");
    let verdict = scratch
        .daybook(&["verify", "--json", "run.omni"])
        .expect(1)
        .json();
    assert!(codes(&verdict).contains(&"segment_missing"), "{verdict}");
}

#[test]
fn a_missing_signature_fails_when_a_key_is_given() {
    let scratch = Scratch::new();
    scratch.key();
    scratch.run(10, None).seal().unwrap();
    scratch.daybook(&["verify", "run.omni"]).expect(0);
    let args = ["verify", "--json", "run.omni", "--trust", "k.pub.pem"];
    let verdict = scratch.daybook(&args).expect(2).json();
    assert!(codes(&verdict).contains(&"not_signed_by_a_trusted_key"));
}

#[test]
fn strict_checks_the_times_that_nothing_else_covers() {
    let scratch = Scratch::new();
    scratch.run(10, None).seal().unwrap();
    let sound = scratch.read("run.omni");
    // The closing checkpoint is the last record: its wall time stands before its checksum.
    let index_offset =
        u64::from_le_bytes(sound[sound.len() - 16..sound.len() - 8].try_into().unwrap());
    let checkpoint = usize::try_from(index_offset).unwrap() - 68;
    scratch.change("run.omni", |bytes| bytes[checkpoint + 24] ^= 1);
    scratch.daybook(&["verify", "run.omni"]).expect(0);
    let verdict = scratch
        .daybook(&["verify", "--json", "--strict", "run.omni"])
        .expect(1)
        .json();
    assert!(codes(&verdict).contains(&"closing_stamps"));
}

#[test]
fn omniloop_verify_speaks_the_words_of_the_format() {
    let scratch = Scratch::new();
    scratch.run(100, None).seal().unwrap();
    let result = scratch
        .omniloop(&["verify", "run.omni", "--json"])
        .expect(0)
        .json();
    assert_eq!(result["ok"], true);
    assert_eq!(result["declared_chained"], true);
    assert_eq!(result["checkpoints"], 2);
    assert_eq!(result["head"].as_str().unwrap().len(), 64);
    assert_eq!(result["break_at"], Value::Null);
    assert_eq!(result["records"], 102);
    assert_eq!(result["finalized"], true);
    assert_eq!(result["unverified_tail"], 0);
    assert_eq!(result["index"], "consistent");
    scratch.omniloop(&["verify", "run.omni"]).expect(0);
    scratch.change("run.omni", |bytes| bytes[70] ^= 1);
    let result = scratch
        .omniloop(&["verify", "run.omni", "--json"])
        .expect(1)
        .json();
    assert_eq!(result["ok"], false);
    assert_eq!(
        result["break_at"],
        json!({ "type": "CrcMismatch", "offset": 32, "tick": 1 })
    );
    let missing = scratch
        .omniloop(&["verify", "missing.omni", "--json"])
        .expect(2);
    assert_eq!(missing.json()["ok"], false);
    assert!(
        missing
            .err
            .starts_with("omniloop: cannot open missing.omni: No such file"),
        "{}",
        missing.err
    );
}

#[test]
fn omniloop_verify_sums_up_a_set_and_names_the_file_of_the_first_break() {
    let scratch = Scratch::new();
    scratch.run(90, Some(30)).seal().unwrap();
    let result = scratch
        .omniloop(&["verify", "run.omni", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (&result["checkpoints"], &result["records"]),
        (&json!(3), &json!(93))
    );
    assert_eq!(result["head"], result["segments"][2]["head"]);
    scratch.change("run.1.omni", |bytes| bytes[70] ^= 1);
    let result = scratch
        .omniloop(&["verify", "run.omni", "--json"])
        .expect(1)
        .json();
    assert_eq!(result["break_at"]["type"], "CrcMismatch");
    assert_eq!(result["break_at"]["path"], "run.1.omni");
    scratch.remove("run.1.omni");
    let result = scratch
        .omniloop(&["verify", "run.omni", "--json"])
        .expect(1)
        .json();
    assert_eq!(result["ok"], false);
}
