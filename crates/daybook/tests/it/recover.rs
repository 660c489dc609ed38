//! `recover` saves what can be read, says what cannot, and never touches its input.

use crate::support::Scratch;

#[test]
fn an_intact_run_needs_nothing_and_gets_nothing() {
    let scratch = Scratch::new();
    scratch.run(10, None).seal().unwrap();
    let ran = scratch.daybook(&["recover", "run.omni"]).expect(0);
    assert!(ran.out.contains("nothing to recover"), "{}", ran.out);
    assert_eq!(scratch.names(), ["run.omni"]);
    let done = scratch
        .daybook(&["recover", "--json", "run.omni"])
        .expect(0)
        .json();
    assert_eq!(
        (&done["output"], &done["verdict"]),
        (&serde_json::Value::Null, &"intact".into())
    );
}

#[test]
fn a_damaged_run_loses_one_record_and_the_gap_is_told_with_its_neighbours() {
    let scratch = Scratch::new();
    scratch.run(100, None).seal().unwrap();
    let record = 36 + 7;
    scratch.change("run.omni", |bytes| bytes[32 + 4 * record + 38] ^= 1);
    let before = scratch.read("run.omni");
    let ran = scratch
        .daybook(&["recover", "run.omni", "-o", "saved.omni"])
        .expect(0);
    assert!(ran.out.contains("gap: bytes 204..247"), "{}", ran.out);
    assert!(
        ran.out.contains("after telemetry of tick 4 at byte 161"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("before telemetry of tick 6 at byte 247"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("saved.omni: written, read back, intact"),
        "{}",
        ran.out
    );
    assert_eq!(scratch.read("run.omni"), before);
    scratch.daybook(&["verify", "saved.omni"]).expect(0);
    let ticks = scratch
        .records("saved.omni")
        .iter()
        .filter(|r| r["kind"] == "telemetry")
        .count();
    assert_eq!(ticks, 99);
}

#[test]
fn what_was_done_is_told_as_json_and_an_earlier_recovery_is_not_replaced() {
    let scratch = Scratch::new();
    let mut journal = scratch.run(100, None);
    journal.flush().unwrap();
    drop(journal);
    let done = scratch
        .daybook(&["recover", "--json", "run.omni"])
        .expect(0)
        .json();
    assert_eq!(done["verdict"], "intact");
    assert_eq!(done["output"], "run.recovered.omni");
    assert_eq!(done["segments"][0]["action"], "finalised");
    let again = scratch.daybook(&["recover", "run.omni"]).expect(2);
    assert!(again.err.contains("-o"), "{}", again.err);
}

#[test]
fn a_set_whose_writer_was_killed_right_after_it_began_a_file_is_recovered() {
    let scratch = Scratch::new();
    scratch.run(90, Some(30)).seal().unwrap();
    let mut header = scratch.read("run.2.omni");
    header.truncate(32);
    header[24] = 3;
    scratch.write("run.3.omni", &header);
    scratch.daybook(&["verify", "run.omni"]).expect(2);
    scratch.daybook(&["recover", "run.omni"]).expect(0);
    scratch
        .daybook(&["verify", "--strict", "run.recovered.omni"])
        .expect(0);
}

#[test]
fn what_holds_no_record_cannot_be_recovered() {
    let scratch = Scratch::new();
    scratch.write("other", b"no record");
    scratch.write("empty.omni", b"");
    scratch.write("short.omni", b"OMNILOG1");
    for path in ["other", "empty.omni", "short.omni", "missing.omni"] {
        let ran = scratch.daybook(&["recover", path]).expect(2);
        assert!(
            ran.err.starts_with("daybook: ") && ran.err.contains(path),
            "{}",
            ran.err
        );
        assert_eq!(ran.out, "");
    }
}
