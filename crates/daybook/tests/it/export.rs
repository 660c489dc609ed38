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

#[test]
fn an_mcap_export_in_protobuf_has_every_record_and_reads_back() {
    let scratch = Scratch::new();
    varied(&scratch);
    let args = [
        "export",
        "run.omni",
        "--to",
        "mcap",
        "--encoding",
        "protobuf",
        "-o",
        "run.mcap",
    ];
    scratch.daybook(&args).expect(0);
    let records = scratch.records("run.omni").len() as u64;
    let bytes = scratch.read("run.mcap");
    assert_eq!(omniloop_core::export::count_mcap(&bytes).unwrap(), records);
    let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
    for channel in summary.channels.values() {
        let schema = channel.schema.as_ref().unwrap();
        assert_eq!(channel.message_encoding, "protobuf", "{}", channel.topic);
        assert_eq!(schema.encoding, "protobuf", "{}", channel.topic);
    }
    // Of the whole message: tick 2, the field of `gain` as a whole number, and NaN as a double.
    let second: Vec<Vec<u8>> = mcap::MessageStream::new(&bytes)
        .unwrap()
        .map(|message| message.unwrap())
        .filter(|message| message.channel.topic == "/telemetry")
        .map(|message| message.data.to_vec())
        .collect();
    let nan = f64::NAN.to_le_bytes();
    assert_eq!(second[1], [&[0x08, 2, 0x18, 2, 0x21][..], &nan].concat());
    let refused = [
        "export",
        "run.omni",
        "--to",
        "csv",
        "--encoding",
        "protobuf",
    ];
    scratch.daybook(&refused).expect(2);
}

/// A table that was exported: names and types of its columns, and its rows.
fn table(scratch: &Scratch, name: &str) -> arrow_array::RecordBatch {
    let bytes = bytes::Bytes::from(scratch.read(name));
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(bytes);
    let batches: Vec<_> = reader
        .unwrap()
        .build()
        .unwrap()
        .map(|batch| batch.unwrap())
        .collect();
    assert_eq!(batches.len(), 1);
    batches[0].clone()
}

#[test]
fn a_parquet_export_of_telemetry_has_a_typed_column_for_every_variable() {
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
    let scratch = Scratch::new();
    let script = r#"echo '{"loss":1,"done":false,"tick":"a"}'; echo '{"loss":"NaN","arm":{"q":[1]},"tick":2}'; echo '{"loss":-0.5}'"#;
    scratch.record(&[], script).expect(0);
    let args = ["export", "run.omni", "--to", "parquet", "-o", "run.parquet"];
    let ran = scratch.daybook(&args).expect(0);
    assert!(ran.err.contains("3 records written"), "{}", ran.err);
    let rows = table(&scratch, "run.parquet");
    let columns: Vec<String> = rows
        .schema()
        .fields()
        .iter()
        .map(|field| format!("{} {}", field.name(), field.data_type()))
        .collect();
    assert_eq!(
        columns,
        [
            "tick UInt64",
            "mono_ns UInt64",
            "wall_ns UInt64",
            "done Boolean",
            "loss Float64",
            "telemetry.tick Utf8",
            "arm.q.0 Int64",
            "payload_hex Utf8",
        ]
    );
    assert_eq!(
        rows.column(0).as_primitive::<UInt64Type>().values(),
        &[1, 2, 3]
    );
    let loss = rows.column(4).as_primitive::<Float64Type>();
    assert!(loss.value(1).is_nan());
    assert_eq!(
        (loss.value(0).to_bits(), loss.value(2).to_bits()),
        (1_f64.to_bits(), (-0.5_f64).to_bits())
    );
    let names = rows.column(5).as_string::<i32>();
    assert_eq!((names.value(0), names.value(1)), ("a", "2"));
    let joint = rows.column(6).as_primitive::<Int64Type>();
    let is_there: Vec<bool> = (0..3)
        .map(|row| arrow_array::Array::is_valid(joint, row))
        .collect();
    assert_eq!(is_there, [false, true, false]);
    let args = [
        "export",
        "run.omni",
        "--to",
        "parquet",
        "--kind",
        "lifecycle",
        "--kind",
        "control",
        "-o",
        "rest.parquet",
    ];
    scratch.daybook(&args).expect(0);
    let rest = table(&scratch, "rest.parquet");
    assert_eq!(rest.num_rows(), 2);
    let payload = rest.column(6).as_string::<i32>();
    assert!(payload.value(0).starts_with("{\"event\":\"start\""));
}

#[test]
fn an_otlp_export_is_a_trace_that_a_store_takes_in_and_the_trail_finds() {
    let scratch = Scratch::new();
    let script = r#"echo '{"loss":1,"step":1}'; echo words; echo '{"loss":0.5,"step":2}'; exit 3"#;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let ran = scratch
        .command(&["record", "-q", "-o", "run.omni", "--", "sh", "-c", script])
        .env("TRACEPARENT", parent)
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(3));
    let args = ["export", "run.omni", "--to", "otlp", "-o", "run.jsonl"];
    scratch.daybook(&args).expect(0);
    scratch
        .daybook(&["trace", "ingest", "s", "run.jsonl"])
        .expect(0);
    // The same run gives the same spans again.
    scratch
        .daybook(&[&args[..], &["--force"]].concat())
        .expect(0);
    scratch
        .daybook(&["trace", "ingest", "s", "run.jsonl"])
        .expect(0);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let found = scratch
        .daybook(&["trace", "get", "s", trace, "--json"])
        .expect(0)
        .json();
    let spans = found["spans"].as_array().unwrap();
    assert_eq!(spans.len(), 2, "{found:#}");
    let run = spans
        .iter()
        .find(|span| span["parent_span_id"] == "00f067aa0ba902b7")
        .unwrap();
    let phase = spans
        .iter()
        .find(|span| span["parent_span_id"] == run["span_id"])
        .unwrap();
    assert_eq!(
        (&run["name"], &run["status"]),
        (&"run sh".into(), &"error".into())
    );
    assert_eq!(run["attributes"]["omni.verdict"], "intact");
    let start = &crate::support::payloads(&scratch.records("run.omni"), "lifecycle")[0].clone();
    assert_eq!(run["attributes"]["run.id"], start["run"]["id"]);
    assert_eq!(phase["name"], "running");
    assert_eq!(phase["attributes"]["omni.telemetry"], 2);
    assert_eq!(phase["attributes"]["telemetry.loss"], 0.5);
    let events: Vec<&str> = phase["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["name"].as_str().unwrap())
        .collect();
    assert_eq!(events, ["lifecycle start", "control log", "lifecycle stop"]);
    scratch.daybook(&["trail", "run.omni", "s"]).expect(0);
}

#[test]
fn phases_of_an_otlp_export_end_where_the_loop_was_halted_or_resumed() {
    use omniloop_core::journal::FrameKind;
    let scratch = Scratch::new();
    let mut journal = scratch.run(3, None);
    let mut put = |kind, payload: &str| journal.append(kind, payload.as_bytes()).unwrap();
    put(
        FrameKind::Control,
        r#"{"command":"halt","reason":"too hot"}"#,
    );
    put(FrameKind::Mutation, r#"{"name":"gain","old":1,"new":2}"#);
    put(FrameKind::Control, r#"{"command":"resume"}"#);
    for _ in 0..1500 {
        put(FrameKind::Input, r#"{"channel":"a","value":1}"#);
    }
    put(FrameKind::Telemetry, r#"{"x":9}"#);
    journal.seal().unwrap();
    let spans = scratch
        .daybook(&["export", "run.omni", "--to", "otlp"])
        .expect(0)
        .out;
    let spans: Vec<traza::span::Span> = spans
        .lines()
        .flat_map(|line| traza::otlp::spans_from_json(line.as_bytes()).unwrap())
        .collect();
    let told: Vec<(&str, usize)> = spans
        .iter()
        .map(|span| (span.name.as_str(), span.events.len()))
        .collect();
    assert_eq!(
        told,
        [
            ("running", 0),
            ("halted", 2),
            ("running", 1000),
            ("running", 501),
            ("run run.omni", 0)
        ]
    );
    let parents: Vec<_> = spans
        .iter()
        .map(|span| span.parent_span_id.clone())
        .collect();
    let run = &spans[4];
    assert!(
        parents[..4]
            .iter()
            .all(|parent| parent.as_ref() == Some(&run.span_id))
    );
    assert_eq!(parents[4], None);
    assert_eq!(run.attributes["run.tick"].as_u64(), Some(4));
}

#[test]
fn an_export_of_damage_in_every_format_is_1_and_whole_up_to_there() {
    let scratch = Scratch::new();
    scratch.run(90, None).seal().unwrap();
    scratch.change("run.omni", |bytes| bytes[32 + 4 * 43 + 38] ^= 1);
    for (format, name) in [("parquet", "a"), ("otlp", "b"), ("mcap", "c")] {
        let args = ["export", "run.omni", "--to", format, "-o", name];
        let ran = scratch.daybook(&args).expect(1);
        assert!(ran.err.contains("stopped after 4 records"), "{}", ran.err);
    }
    assert_eq!(table(&scratch, "a").num_rows(), 4);
}
