//! Exports lose nothing that was recorded, and say where they had to stop.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{Access, Fs as _, ManualClock, RealFs, read_all};
use serde_json::{Value, json};

use super::*;
use crate::journal::{Fault, JournalOptions, RotationPolicy, Section, StateJournal};

struct Run {
    dir: tempfile::TempDir,
}

impl Run {
    fn new(records: &[(FrameKind, &[u8])], records_per_segment: Option<u64>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let rotation = records_per_segment.map(|n| RotationPolicy {
            max_records: Some(n),
            ..RotationPolicy::default()
        });
        let options = JournalOptions {
            clock: Arc::new(ManualClock::new(1_000, 5)),
            rotation,
            ..JournalOptions::default()
        };
        let mut journal = StateJournal::create_with(dir.path().join("run.omni"), options).unwrap();
        for (kind, payload) in records {
            journal.append(*kind, payload).unwrap();
        }
        journal.seal().unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn player(&self) -> SegmentedPlayer {
        SegmentedPlayer::open(self.path("run.omni")).unwrap()
    }

    fn jsonl(&self, selection: &Selection) -> (Vec<Value>, Exported) {
        let mut out = Vec::new();
        let exported = write_jsonl(&mut out, &mut self.player(), selection).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines = text.lines().map(|l| serde_json::from_str(l).unwrap());
        (lines.collect(), exported)
    }

    fn csv(&self, selection: &Selection) -> (String, Exported) {
        let mut out = Vec::new();
        let exported = write_csv(&mut out, &mut self.player(), selection).unwrap();
        (String::from_utf8(out).unwrap(), exported)
    }
}

fn telemetry(payloads: &[&'static str]) -> Vec<(FrameKind, &'static [u8])> {
    payloads
        .iter()
        .map(|p| (FrameKind::Telemetry, p.as_bytes()))
        .collect()
}

fn rewrite(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = read_all(&RealFs, path, 1 << 20).unwrap();
    change(&mut bytes);
    RealFs.remove_file(path).unwrap();
    let mut file = RealFs.create_new(path, Access::Shared).unwrap();
    file.append(&bytes).unwrap();
}

#[test]
fn json_lines_keep_every_payload_as_it_was_spelled_on_one_line() {
    let run = Run::new(
        &[
            (FrameKind::Input, b"{\n \"b\": 1.50,\r\n \"a\": 1e-3}"),
            (FrameKind::Hash, b"\xffnot json"),
            (FrameKind::Telemetry, b"[1]"),
        ],
        None,
    );
    let mut out = Vec::new();
    let exported = write_jsonl(&mut out, &mut run.player(), &Selection::default()).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), exported.records), (3, 3));
    assert!(exported.stopped.is_none());
    assert!(
        lines[0].ends_with(r#""payload":{  "b": 1.50,   "a": 1e-3}}"#),
        "{}",
        lines[0]
    );
    let second: Value = serde_json::from_str(lines[1]).unwrap();
    assert_eq!(second["payload"], Value::Null);
    assert_eq!(second["payload_hex"], hex(b"\xffnot json"));
    let third: Value = serde_json::from_str(lines[2]).unwrap();
    assert_eq!(
        (&third["kind"], &third["tick"]),
        (&json!("telemetry"), &json!(1))
    );
}

fn hex(bytes: &[u8]) -> String {
    durable::digest::hex(bytes)
}

#[test]
fn a_selection_names_kinds_and_an_inclusive_range_of_ticks_across_segments() {
    let payloads = ["{\"x\":1}"; 20];
    let run = Run::new(&telemetry(&payloads), Some(3));
    let selection = Selection {
        kinds: vec![],
        first_tick: Some(5),
        last_tick: Some(8),
    };
    let (lines, exported) = run.jsonl(&selection);
    let ticks: Vec<u64> = lines.iter().map(|l| l["tick"].as_u64().unwrap()).collect();
    assert_eq!(ticks, [5, 6, 7, 8]);
    assert_eq!(exported.records, 4);
    assert_eq!(lines[0]["segment"], 1);
    let chain = Selection {
        kinds: vec![FrameKind::Chain],
        ..Selection::default()
    };
    assert_eq!(
        run.jsonl(&chain).0.len(),
        7,
        "one closing checkpoint per segment"
    );
}

#[test]
fn telemetry_becomes_a_table_of_all_variables_of_all_records() {
    let run = Run::new(
        &telemetry(&[
            r#"{"loss":0.5,"arm":{"q":[1,2]}}"#,
            r#"{"loss":"NaN","note":"a,\"b\"","tick":7}"#,
            r#"{"a.b":null,"empty":[],"done":true}"#,
        ]),
        Some(2),
    );
    let (text, exported) = run.csv(&Selection::default());
    let expected = "tick,mono_ns,wall_ns,arm.q.0,arm.q.1,loss,note,telemetry.tick,a\\.b,done,empty\n\
                    1,10,1015,1,2,0.5,,,,,\n\
                    2,25,1030,,,NaN,\"a,\"\"b\"\"\",7,,,\n\
                    3,35,1040,,,,,,,true,[]\n";
    let strip = |text: &str| -> Vec<String> {
        let cells = text.lines().map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            [&cells[..1], &cells[3..]].concat().join(",")
        });
        cells.collect()
    };
    assert_eq!(strip(&text), strip(expected));
    assert_eq!(exported.records, 3);
}

#[test]
fn records_of_other_kinds_become_a_table_with_their_payloads() {
    let run = Run::new(
        &[
            (FrameKind::Input, b"{\"channel\":\"a\"}"),
            (FrameKind::Input, b"\xff"),
            (FrameKind::Telemetry, b"{}"),
        ],
        None,
    );
    let selection = Selection {
        kinds: vec![FrameKind::Input],
        ..Selection::default()
    };
    let (text, _) = run.csv(&selection);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "segment,offset,kind,tick,mono_ns,wall_ns,payload,payload_hex"
    );
    assert!(
        lines[1].starts_with("0,32,input,0,") && lines[1].ends_with(r#","{""channel"":""a""}","#)
    );
    assert!(lines[2].ends_with(",,ff"), "{}", lines[2]);
    assert_eq!(lines.len(), 3);
}

#[test]
fn more_variables_than_a_table_can_have_are_refused() {
    let members: Vec<String> = (0..=COLUMNS_MAX).map(|i| format!("\"v{i}\":1")).collect();
    let payload = format!("{{{}}}", members.join(","));
    let run = Run::new(&[(FrameKind::Telemetry, payload.as_bytes())], None);
    let result = write_csv(Vec::new(), &mut run.player(), &Selection::default());
    assert!(matches!(
        result,
        Err(ExportError::TooManyColumns { max: COLUMNS_MAX })
    ));
    let fits = format!("{{{}}}", members[1..].join(","));
    let run = Run::new(&[(FrameKind::Telemetry, fits.as_bytes())], None);
    assert_eq!(run.csv(&Selection::default()).1.records, 1);
}

#[test]
fn damage_ends_an_export_with_the_place_after_everything_before_it() {
    let run = Run::new(&telemetry(&["{\"x\":1}"; 9]), Some(3));
    rewrite(&run.path("run.1.omni"), |bytes| bytes[32 + 43 + 37] ^= 1);
    let (lines, exported) = run.jsonl(&Selection::default());
    assert_eq!(lines.len(), 4);
    let Some(Error::Corrupt {
        path,
        section,
        offset,
        ..
    }) = exported.stopped
    else {
        panic!("{exported:?}");
    };
    assert_eq!(
        (path, section, offset),
        (run.path("run.1.omni"), Section::Payload, 32 + 43 + 36)
    );
    let (text, exported) = run.csv(&Selection::default());
    assert_eq!(text.lines().count(), 5);
    assert!(matches!(
        exported.stopped,
        Some(Error::Corrupt { offset: 111, .. })
    ));
}

#[test]
fn a_missing_segment_is_damage_and_not_the_end_of_the_run() {
    let run = Run::new(&telemetry(&["{\"x\":1}"; 9]), Some(3));
    RealFs.remove_file(&run.path("run.1.omni")).unwrap();
    let (lines, exported) = run.jsonl(&Selection::default());
    assert_eq!(lines.len(), 3);
    let Some(Error::Corrupt { fault, .. }) = exported.stopped else {
        panic!("{exported:?}");
    };
    let later = run.path("run.2.omni");
    assert_eq!(fault, Fault::SegmentMissing { missing: 1, later });
}

#[test]
fn a_segment_that_lost_its_end_stops_an_export_though_later_segments_exist() {
    let run = Run::new(&telemetry(&["{\"x\":1}"; 9]), Some(3));
    rewrite(&run.path("run.1.omni"), |bytes| bytes.truncate(100));
    let (lines, exported) = run.jsonl(&Selection::default());
    assert_eq!(lines.len(), 4);
    let fault = match exported.stopped {
        Some(Error::Corrupt { fault, .. }) => fault,
        other => panic!("{other:?}"),
    };
    assert_eq!(fault, Fault::NotSealed);
}

#[test]
fn flattened_names_stay_distinct_whatever_members_are_called() {
    let value = json!({ "a": { "b": 1 }, "a.b": 2, "a\\": { "b": 3 }, "l": [[], {}] });
    let mut names = Vec::new();
    flatten(&value, &mut |name, _| names.push(name.to_owned()));
    assert_eq!(names, ["a.b", "a\\.b", "a\\\\.b", "l.0", "l.1"]);
    let mut scalars = Vec::new();
    flatten(&json!(3), &mut |name, value| {
        scalars.push((name.to_owned(), value.clone()));
    });
    assert_eq!(scalars, [("payload".to_owned(), json!(3))]);
}

#[test]
fn the_words_for_non_finite_numbers_count_as_numbers() {
    assert!(number_of(&json!("NaN")).unwrap().is_nan());
    assert_eq!(number_of(&json!("-Infinity")), Some(f64::NEG_INFINITY));
    assert_eq!(number_of(&json!(2)), Some(2.0));
    assert_eq!(number_of(&json!("2")), None);
}
