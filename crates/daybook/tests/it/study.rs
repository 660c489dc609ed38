//! Studies are shown, exported and verified as their files tell, and damage is named.

use durable::{Fs as _, RealFs};
use serde_json::json;

use crate::support::Scratch;

/// A journal of five trials with its data file behind it.
const GOLDEN: &str = include_str!("../../../atune_core/tests/goldens/journal_full_study_v6.jsonl");
const DATA_FILE: &str = "study.atj.d/data-0000000000000000-00000000-0000000000000000";

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    let head_len = GOLDEN.match_indices('\n').nth(1).unwrap().0 + 1;
    scratch.write("study.atj", &GOLDEN.as_bytes()[..head_len]);
    RealFs.create_dir(&scratch.path("study.atj.d")).unwrap();
    scratch.write(DATA_FILE, &GOLDEN.as_bytes()[head_len..]);
    scratch
}

#[test]
fn a_study_is_intact_and_tells_what_it_holds() {
    let scratch = scratch();
    let verdict = scratch
        .daybook(&["verify", "study.atj", "--json"])
        .expect(0)
        .json();
    assert_eq!(verdict["kind"], "study");
    assert_eq!(verdict["verdict"], "intact");
    assert_eq!(verdict["facts"]["operations"], 27);
    assert_eq!(verdict["facts"]["trials_by_state"]["complete"], 2);
    let shown = scratch.daybook(&["inspect", "study.atj"]).expect(0);
    assert!(
        shown.out.contains("27 operations in 27 extents"),
        "{}",
        shown.out
    );
}

#[test]
fn unpublished_bytes_are_a_fact_and_a_changed_byte_is_damage_with_its_place() {
    let scratch = scratch();
    let whole = scratch.read(DATA_FILE);
    scratch.write(DATA_FILE, &[&whole[..], b"half an append"].concat());
    let verdict = scratch
        .daybook(&["verify", "study.atj", "--json"])
        .expect(0)
        .json();
    assert_eq!(verdict["facts"]["data_files"][0]["unpublished"], 14);

    let at = GOLDEN.find("[0.42,0.58]").unwrap() - GOLDEN.match_indices('\n').nth(1).unwrap().0 - 1;
    let mut damaged = whole.clone();
    damaged[at + 4] = b'3';
    scratch.write(DATA_FILE, &damaged);
    let verdict = scratch
        .daybook(&["verify", "study.atj", "--json"])
        .expect(1)
        .json();
    assert_eq!(verdict["findings"][0]["code"], "operations_damaged");
    let place = verdict["findings"][0]["where"].as_str().unwrap();
    assert!(
        place.contains("data-0000") && place.contains("byte 3"),
        "{place}"
    );
    let shown = scratch.daybook(&["study", "show", "study.atj"]).expect(1);
    assert!(shown.err.contains("checksum"), "{}", shown.err);
}

#[test]
fn the_verbs_of_a_study_print_one_json_document_each() {
    let scratch = scratch();
    let json = |args: &[&str]| scratch.daybook(args).expect(0).json();
    let show = json(&["study", "show", "study.atj", "--json"]);
    assert_eq!(show["directions"], json!(["minimize", "maximize"]));
    assert_eq!(show["best"][0]["params"]["opt"], "adam");
    let trials = json(&[
        "study",
        "trials",
        "study.atj",
        "--state",
        "failed",
        "--json",
    ]);
    assert_eq!(
        trials["trials"][0]["error"],
        "objective panicked: NaN loss at step 3"
    );
    let last = json(&["study", "trials", "study.atj", "--limit", "1", "--json"]);
    assert_eq!(last["skipped"], 4);
    assert_eq!(last["trials"][0]["values"], json!(["NaN", "-Infinity"]));
    let attrs = json(&["study", "attrs", "study.atj", "--json"]);
    assert_eq!(attrs["trials"]["0"]["dataset"]["fold"], 2);
    let ops = json(&["study", "ops", "study.atj", "--after", "25", "--json"]);
    assert_eq!(ops[0]["op"]["kind"], "set-values");
    assert_eq!(ops.as_array().unwrap().len(), 2);
    let lines = scratch
        .daybook(&["study", "ops", "study.atj"])
        .expect(0)
        .out;
    assert!(GOLDEN.contains(lines.lines().nth(4).unwrap().trim_start_matches('{')));
}

#[test]
fn an_export_of_a_study_has_a_row_for_every_trial() {
    let scratch = scratch();
    let csv = scratch
        .daybook(&["study", "export", "study.atj", "--to", "csv"])
        .expect(0)
        .out;
    let titles = csv.lines().next().unwrap();
    assert!(
        titles.ends_with("value_loss,value_reward,param_lr,param_opt,param_layers,param_use_bn")
    );
    assert_eq!(csv.lines().count(), 6);
    let to_file = [
        "study",
        "export",
        "study.atj",
        "--to",
        "jsonl",
        "-o",
        "out.jsonl",
    ];
    scratch.daybook(&to_file).expect(0);
    assert_eq!(scratch.read("out.jsonl").split(|b| *b == b'\n').count(), 6);
    scratch.daybook(&to_file).expect(2);
    let over_input = [
        "study",
        "export",
        "study.atj",
        "--to",
        "csv",
        "-o",
        "study.atj",
        "--force",
    ];
    scratch.daybook(&over_input).expect(2);
    scratch.daybook(&["verify", "study.atj"]).expect(0);
}

#[test]
fn a_verb_for_runs_sends_a_study_to_the_right_one() {
    let scratch = scratch();
    for args in [
        &["export", "study.atj", "--to", "csv"][..],
        &["recover", "study.atj"],
        &["inspect", "study.atj", "--kind", "control"],
    ] {
        let ran = scratch.daybook(args).expect(2);
        assert!(
            ran.err.contains("study") && ran.err.contains("hint:"),
            "{}",
            ran.err
        );
    }
    scratch.run(3, None).seal().unwrap();
    let ran = scratch.daybook(&["study", "show", "run.omni"]).expect(2);
    assert!(ran.err.contains("is a run, not a study"), "{}", ran.err);
}

#[test]
fn a_newer_study_and_a_missing_data_file_are_told_apart() {
    let scratch = scratch();
    let text = String::from_utf8(scratch.read("study.atj")).unwrap();
    scratch.write(
        "study.atj",
        text.replace("\"format\":6", "\"format\":7").as_bytes(),
    );
    let ran = scratch.daybook(&["verify", "study.atj"]).expect(2);
    assert!(ran.out.contains("version 7"), "{}", ran.out);
    scratch.write("study.atj", text.as_bytes());
    RealFs.remove_file(&scratch.path(DATA_FILE)).unwrap();
    let ran = scratch.daybook(&["verify", "study.atj"]).expect(1);
    assert!(ran.out.contains("the data file is missing"), "{}", ran.out);
}

#[test]
fn a_study_is_created_once_and_tells_who_wrote_it() {
    let scratch = Scratch::new();
    let create = ["study", "create", "new.atj", "--minimize", "loss", "--json"];
    let made = scratch.daybook(&create).expect(0).json();
    assert_eq!((&made["study"], &made["name"]), (&json!(0), &json!("new")));
    let again = scratch.daybook(&create).expect(2);
    assert!(again.err.contains("new"), "{}", again.err);
    let more = [
        "study",
        "create",
        "new.atj",
        "--name",
        "b",
        "--maximize",
        "r",
    ];
    scratch.daybook(&more).expect(0);
    let facts = scratch
        .daybook(&["inspect", "new.atj", "--json"])
        .expect(0)
        .json();
    assert_eq!(facts["facts"]["studies"], json!(["new", "b"]));
    assert_eq!(facts["lease"]["is_held"], false);
    assert_eq!(facts["lease"]["owner"]["durability"], "full");
    scratch.daybook(&["verify", "new.atj"]).expect(0);
    let none = scratch.daybook(&["study", "create", "other.atj"]).expect(2);
    assert!(none.err.contains("--minimize"), "{}", none.err);
}

#[test]
fn an_older_file_is_migrated_once_and_its_bytes_are_kept() {
    let scratch = Scratch::new();
    let ops = GOLDEN
        .lines()
        .filter(|line| line.contains("\"record\":\"op\""));
    let header =
        r#"{"record":"header","format":2,"atune":"0.1.0","created_at_millis":5,"created_by":0}"#;
    let lines: Vec<&str> = std::iter::once(header).chain(ops).collect();
    let old = lines.join("\n") + "\n";
    scratch.write("study.atj", old.as_bytes());
    let best = |scratch: &Scratch| {
        scratch
            .daybook(&["study", "trials", "study.atj", "--json"])
            .expect(0)
            .out
    };
    let before = best(&scratch);
    let done = scratch
        .daybook(&["migrate", "study.atj", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (&done["from"], &done["operations"]),
        (&json!(2), &json!(27))
    );
    assert_eq!(best(&scratch), before);
    assert_eq!(scratch.read("study.atj.d/legacy-v2.jsonl"), old.as_bytes());
    scratch.daybook(&["verify", "study.atj"]).expect(0);
    let again = scratch
        .daybook(&["migrate", "study.atj", "--json"])
        .expect(0)
        .json();
    assert_eq!(again["migrated"], false);
}
