//! `inspect` shows what is there, up to any damage, in bounded output.

use serde_json::json;

use crate::support::{Scratch, lines};

#[test]
fn the_summary_tells_where_a_run_came_from_what_it_holds_and_how_it_ended() {
    let scratch = Scratch::new();
    let script = "echo starting; for i in 1 2 3; do echo \"{\\\"loss\\\":0.$i}\"; done; exit 3";
    scratch.record(&[], script).expect(3);
    let ran = scratch.daybook(&["inspect", "run.omni"]).expect(0);
    for part in [
        "run, .omni version 2, 1 file",
        "sealed",
        "sh -c",
        "exit code 3",
        "3 telemetry",
        "0 to 3",
        "loss",
        "starting",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert_eq!(ran.err, "");
}

#[test]
fn the_json_document_holds_counts_times_variables_and_the_timeline() {
    let scratch = Scratch::new();
    scratch
        .record(
            &["--rotate", "3r"],
            "echo a; for i in 1 2 3; do echo \"{\\\"v\\\":{\\\"x\\\":$i}}\"; done",
        )
        .expect(0);
    let facts = scratch
        .daybook(&["inspect", "run.omni", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (&facts["kind"], &facts["version"], &facts["sealed"]),
        (&json!("run"), &json!(2), &json!(true))
    );
    assert_eq!(facts["counts"]["telemetry"], 3);
    assert_eq!(facts["segments"].as_array().unwrap().len(), 2);
    assert_eq!(facts["start"]["argv"][0], "sh");
    assert_eq!(facts["stop"]["exit"]["code"], 0);
    assert_eq!(facts["last"]["tick"], 3);
    let variable = &facts["variables"][0];
    assert_eq!(
        (&variable["name"], &variable["min"], &variable["max"]),
        (&json!("v.x"), &json!(1.0), &json!(3.0))
    );
    let kinds: Vec<&str> = facts["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["lifecycle", "control", "lifecycle"]);
    assert_eq!(facts["damage"], json!(null));
}

#[test]
fn chosen_records_stand_one_per_line_and_a_list_that_was_cut_says_so() {
    let scratch = Scratch::new();
    scratch.run(100, Some(30)).seal().unwrap();
    let ran = scratch
        .daybook(&["inspect", "run.omni", "--ticks", "31..33"])
        .expect(0);
    let ticks: Vec<&str> = ran
        .out
        .lines()
        .filter_map(|l| l.split_whitespace().next())
        .collect();
    assert_eq!(ticks, ["31", "32", "33"]);
    assert_eq!(ran.err, "");
    let ran = scratch
        .daybook(&["inspect", "run.omni", "--kind", "telemetry"])
        .expect(0);
    assert_eq!(ran.out.lines().count(), 50);
    assert!(ran.err.contains("there are more"), "{}", ran.err);
    let ran = scratch
        .daybook(&["inspect", "run.omni", "--kind", "telemetry", "--limit", "0"])
        .expect(0);
    assert_eq!(ran.out.lines().count(), 100);
    let args = [
        "inspect",
        "run.omni",
        "--kind",
        "telemetry",
        "--limit",
        "7",
        "--json",
    ];
    let facts = scratch.daybook(&args).expect(0).json();
    assert_eq!(facts["records"].as_array().unwrap().len(), 7);
    assert_eq!(facts["records_chosen"], 100);
    let chain = scratch
        .daybook(&["inspect", "run.omni", "--kind", "chain"])
        .expect(0);
    assert!(chain.out.contains("0x"), "{}", chain.out);
}

#[test]
fn variables_are_drawn_when_asked_and_numbers_that_are_none_are_marked() {
    let scratch = Scratch::new();
    scratch
        .record(
            &[],
            "for v in 0 1 2 NaN 3; do echo \"{\\\"x\\\":$v}\"; done",
        )
        .expect(0);
    let plain = scratch.daybook(&["inspect", "run.omni"]).expect(0);
    assert!(
        !plain.out.contains('█') && plain.out.contains("1 value not finite"),
        "{}",
        plain.out
    );
    let drawn = scratch
        .daybook(&["inspect", "run.omni", "--plot"])
        .expect(0);
    assert!(drawn.out.contains("▁▃▆×█"), "{}", drawn.out);
}

#[test]
fn a_damaged_run_is_shown_up_to_the_damage_which_is_named() {
    let scratch = Scratch::new();
    scratch.run(100, None).seal().unwrap();
    scratch.change("run.omni", |bytes| bytes[32 + 4 * 43 + 38] ^= 1);
    let ran = scratch.daybook(&["inspect", "run.omni"]).expect(1);
    assert!(ran.out.contains("4 telemetry"), "{}", ran.out);
    assert!(
        ran.err
            .contains("corrupt payload in run.omni at byte 240, tick 5"),
        "{}",
        ran.err
    );
    let ran = scratch
        .daybook(&["inspect", "run.omni", "--json"])
        .expect(1);
    assert_eq!(ran.json()["counts"]["telemetry"], 4);
    assert!(ran.json()["damage"].as_str().unwrap().contains("byte 240"));
}

#[test]
fn a_damaged_index_hides_no_record_and_is_told() {
    let scratch = Scratch::new();
    scratch.run(100, None).seal().unwrap();
    scratch.change("run.omni", |bytes| {
        let at = bytes.len() - 16;
        bytes[at] ^= 1;
    });
    let ran = scratch.daybook(&["inspect", "run.omni"]).expect(1);
    assert!(ran.out.contains("100 telemetry"), "{}", ran.out);
    assert!(ran.err.contains("trailer"), "{}", ran.err);
}

#[test]
fn files_behind_a_missing_one_are_named() {
    let scratch = Scratch::new();
    scratch.run(90, Some(30)).seal().unwrap();
    scratch.remove("run.1.omni");
    let ran = scratch.daybook(&["inspect", "run.omni"]).expect(1);
    assert!(ran.out.contains("not read: run.2.omni"), "{}", ran.out);
    assert!(ran.err.contains("segment 1 is missing"), "{}", ran.err);
    let all = ["--kind", "telemetry", "--limit", "0"];
    let listed = [&["inspect", "run.omni"], &all[..]].concat();
    let ran = scratch.daybook(&listed).expect(1);
    assert_eq!(ran.out.lines().count(), 30);
    assert!(ran.err.contains("segment 1 is missing"), "{}", ran.err);
}

#[test]
fn what_a_run_holds_cannot_steer_the_terminal() {
    let scratch = Scratch::new();
    scratch
        .record(&[], r"printf 'a\233[2Jb\303\233c\177d\n'")
        .expect(0);
    let ran = scratch.daybook(&["inspect", "run.omni"]).expect(0);
    assert!(
        !ran.out.contains(['\u{1b}', '\u{9b}', '\u{7f}']),
        "{:?}",
        ran.out
    );
    let exported = scratch
        .daybook(&["export", "run.omni", "--to", "jsonl"])
        .expect(0);
    let text = lines(&exported.out)[1]["payload"]["line"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        text.contains('\u{7f}'),
        "an export keeps every byte: {text:?}"
    );
}
