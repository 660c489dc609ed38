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

/// A run with something of every kind, and numbers that JSON does not have.
fn varied(scratch: &Scratch) {
    let script = r#"echo '{"loss":0.5,"gain":1}'; echo '{"loss":"NaN","gain":2}'; echo words; echo '{"loss":0.25,"gain":3}'"#;
    scratch.record(&[], script).expect(0);
}

#[test]
fn an_mcap_export_has_every_record_and_reads_back() {
    let scratch = Scratch::new();
    varied(&scratch);
    let args = ["export", "run.omni", "--to", "mcap", "-o", "run.mcap"];
    let ran = scratch.daybook(&args).expect(0);
    let records = lines(
        &scratch
            .daybook(&["export", "run.omni", "--to", "jsonl"])
            .expect(0)
            .out,
    )
    .len();
    assert!(
        ran.err.contains(&format!("{records} records written")),
        "{}",
        ran.err
    );
    let bytes = scratch.read("run.mcap");
    assert_eq!(
        omniloop_core::export::count_mcap(&bytes).unwrap(),
        records as u64
    );
    let messages: Vec<(String, serde_json::Value, u64)> = mcap::MessageStream::new(&bytes)
        .unwrap()
        .map(|message| message.unwrap())
        .map(|m| {
            (
                m.channel.topic.clone(),
                serde_json::from_slice(&m.data).unwrap(),
                m.log_time,
            )
        })
        .collect();
    let losses: Vec<_> = messages
        .iter()
        .filter(|(topic, _, _)| topic == "/telemetry")
        .map(|(_, message, _)| (message["tick"].clone(), message["payload"]["loss"].clone()))
        .collect();
    assert_eq!(losses.len(), 3);
    assert_eq!(losses[1], (serde_json::json!(2), serde_json::Value::Null));
    let log: Vec<&str> = messages
        .iter()
        .filter(|(topic, _, _)| topic == "/log")
        .map(|(_, line, _)| line["message"].as_str().unwrap())
        .collect();
    assert_eq!(log.first(), Some(&"start"));
    assert_eq!(log.last(), Some(&"stop"));
    assert!(
        messages.is_sorted_by_key(|(_, _, time)| *time),
        "times go forward"
    );
    let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
    let schema = summary
        .schemas
        .values()
        .find(|schema| schema.name == "omni.telemetry")
        .unwrap();
    let schema: serde_json::Value = serde_json::from_slice(&schema.data).unwrap();
    assert!(
        schema["properties"]["payload"]["properties"]["gain"].is_object(),
        "{schema}"
    );
    let metadata = mcap::read::metadata(&bytes, &summary.metadata_indexes[0])
        .unwrap()
        .metadata;
    assert_eq!(metadata["verdict"], "intact");
    assert_eq!(metadata["records"], records.to_string());
    assert_eq!(metadata["heads"].len(), 64);
}

#[test]
fn an_mcap_export_of_a_damaged_run_is_finished_and_says_where_it_stopped() {
    let scratch = Scratch::new();
    scratch.run(90, None).seal().unwrap();
    let mut bytes = scratch.read("run.omni");
    let payload = b"{\"x\":45}";
    let at = bytes
        .windows(payload.len())
        .position(|found| found == payload);
    bytes[at.unwrap() + 5] ^= 1;
    scratch.write("run.omni", &bytes);
    let args = ["export", "run.omni", "--to", "mcap", "-o", "run.mcap"];
    let ran = scratch.daybook(&args).expect(1);
    assert!(ran.err.contains("stopped after"), "{}", ran.err);
    let bytes = scratch.read("run.mcap");
    assert!(omniloop_core::export::count_mcap(&bytes).unwrap() < 90);
    let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
    let metadata = mcap::read::metadata(&bytes, &summary.metadata_indexes[0])
        .unwrap()
        .metadata;
    assert_ne!(metadata["stopped"], "");
    assert_eq!(metadata["verdict"], "damaged");
}

#[test]
fn a_signed_run_takes_its_attestation_along() {
    let scratch = Scratch::new();
    scratch.daybook(&["key", "new", "-o", "k.pem"]).expect(0);
    scratch.record(&["--key", "k.pem"], "echo '{}'").expect(0);
    scratch
        .daybook(&["export", "run.omni", "--to", "mcap", "-o", "run.mcap"])
        .expect(0);
    let bytes = scratch.read("run.mcap");
    let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
    let names: Vec<_> = summary
        .attachment_indexes
        .iter()
        .map(|a| a.name.as_str())
        .collect();
    assert_eq!(names, ["run.omni.checkpoint", "run.omni.leaves"]);
}
