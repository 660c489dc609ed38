//! `export` loses nothing silently and writes over nothing.

use crate::support::{Scratch, lines};

#[test]
fn an_export_goes_to_standard_output_or_whole_into_a_new_file() {
    let scratch = Scratch::new();
    scratch.run(5, None).seal().unwrap();
    let to_stdout = scratch
        .daybook(&["export", "run.omni", "--to", "csv"])
        .expect(0);
    assert_eq!(to_stdout.out.lines().next(), Some("tick,mono_ns,wall_ns,x"));
    assert_eq!(to_stdout.out.lines().count(), 6);
    assert_eq!(to_stdout.err, "");
    let args = ["export", "run.omni", "--to", "csv", "-o", "run.csv"];
    let to_file = scratch.daybook(&args).expect(0);
    assert_eq!(to_file.out, "");
    assert_eq!(
        String::from_utf8(scratch.read("run.csv")).unwrap(),
        to_stdout.out
    );
    assert_eq!(scratch.names(), ["run.csv", "run.omni"]);
}

#[test]
fn an_export_never_writes_over_a_file_unless_forced_and_never_over_its_input() {
    let scratch = Scratch::new();
    scratch.run(90, Some(30)).seal().unwrap();
    scratch.write("out", b"precious");
    let to = |name: &'static str| ["export", "run.omni", "--to", "jsonl", "-o", name];
    let ran = scratch.daybook(&to("out")).expect(2);
    assert!(ran.err.contains("--force"), "{}", ran.err);
    assert_eq!(scratch.read("out"), b"precious");
    let forced = |name| [&to(name)[..], &["--force"]].concat();
    scratch.daybook(&forced("out")).expect(0);
    assert_ne!(scratch.read("out"), b"precious");
    let before = scratch.read("run.1.omni");
    for input in ["run.omni", "./run.1.omni"] {
        let ran = scratch.daybook(&forced(input)).expect(2);
        assert!(ran.err.contains("is the run itself"), "{}", ran.err);
    }
    assert_eq!(scratch.read("run.1.omni"), before);
    scratch.daybook(&["verify", "run.omni"]).expect(0);
}

#[test]
fn kinds_and_ticks_choose_records() {
    let scratch = Scratch::new();
    scratch
        .record(&[], "echo log; for i in 1 2 3 4; do echo '{}'; done")
        .expect(0);
    let args = [
        "export",
        "run.omni",
        "--to",
        "jsonl",
        "--ticks",
        "2..3",
        "--kind",
        "telemetry",
    ];
    let ran = scratch.daybook(&args).expect(0);
    let ticks: Vec<u64> = lines(&ran.out)
        .iter()
        .map(|r| r["tick"].as_u64().unwrap())
        .collect();
    assert_eq!(ticks, [2, 3]);
    let args = ["export", "run.omni", "--to", "csv", "--kind", "control"];
    let ran = scratch.daybook(&args).expect(0);
    assert!(ran.out.contains("\"\"line\"\":\"\"log\"\""), "{}", ran.out);
    let ran = scratch
        .daybook(&["export", "run.omni", "--to", "csv", "--kind", "nothing"])
        .expect(2);
    assert!(
        ran.err.contains("guardrail"),
        "the kinds are listed: {}",
        ran.err
    );
}

#[test]
fn damage_in_the_middle_is_1_with_the_place_and_what_stood_before_is_written() {
    let scratch = Scratch::new();
    scratch.run(100, None).seal().unwrap();
    scratch.change("run.omni", |bytes| bytes[32 + 4 * 43 + 38] ^= 1);
    for format in ["jsonl", "csv"] {
        let args = ["export", "run.omni", "--to", format, "-o", format];
        let ran = scratch.daybook(&args).expect(1);
        assert!(ran.err.contains("stopped after 4 records"), "{}", ran.err);
        assert!(
            ran.err.contains("run.omni at byte 240, tick 5"),
            "{}",
            ran.err
        );
        assert!(
            ran.err.contains("hint: `daybook verify run.omni`"),
            "{}",
            ran.err
        );
        let written = String::from_utf8(scratch.read(format)).unwrap();
        assert_eq!(written.lines().count(), if format == "csv" { 5 } else { 4 });
    }
}

#[test]
fn a_missing_segment_is_1_and_not_a_shorter_export() {
    let scratch = Scratch::new();
    scratch.run(90, Some(30)).seal().unwrap();
    scratch.remove("run.1.omni");
    let ran = scratch
        .daybook(&["export", "run.omni", "--to", "jsonl"])
        .expect(1);
    assert_eq!(ran.out.lines().count(), 30);
    assert!(
        ran.err
            .contains("segment 1 is missing, though run.2.omni is there"),
        "{}",
        ran.err
    );
}
