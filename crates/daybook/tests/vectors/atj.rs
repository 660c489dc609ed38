//! Vectors of `.atj` studies.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use atune_core::storage::journal::record::{Header, OpLine};
use atune_core::storage::journal::{
    JournalError, JournalReader, data_folder, study_id, verify_study, write_study,
};
use atune_core::trial::WorkerId;
use durable::{Outcome, RealFs, read_all};
use serde_json::{Value, json};

use crate::case::{Case, Cases, Change, Files, flip};

const STUDY: &str = "study.atj";
const DATA: &str = "data-0000000000000000-00000000-0000000000000000";
const IN_FOLDER: &str = "study.atj.d/data-0000000000000000-00000000-0000000000000000";
/// The worked example of the format, which the goldens of the writer hold.
const EXAMPLE: &str = include_str!("../../../atune_core/tests/goldens/journal_full_study_v6.jsonl");

/// A study whose trials are owned, paused, ended, and failed from outside.
const OWNED: [&str; 14] = [
    r#"{"kind":"create-study","study":0,"config":{"name":"owned","directions":["Minimize"],"seed":1,"space":null,"resource_unit":"Steps","metric_names":["loss"]}}"#,
    r#"{"kind":"lifecycle-reserve","study":0,"trial":0,"number":0,"managed":true}"#,
    r#"{"kind":"lifecycle-claim","trial":0,"from":"Waiting","worker":1,"heartbeat_millis":10,"epoch":1,"heartbeat_seq":1,"params":[{"name":"x","dist":{"Float":{"low":0.0,"high":1.0,"log":false,"step":null}},"value":{"F64":0.5}}]}"#,
    r#"{"kind":"lifecycle-fenced","trial":0,"worker":1,"epoch":1,"mutation":{"kind":"report","step":1,"values":["Infinity"]}}"#,
    r#"{"kind":"lifecycle-renew","trial":0,"worker":1,"epoch":1,"heartbeat_millis":20,"heartbeat_seq":2}"#,
    r#"{"kind":"lifecycle-terminal","trial":0,"worker":1,"epoch":1,"outcome":{"state":"Complete","values":[0.25]}}"#,
    r#"{"kind":"lifecycle-reserve","study":0,"trial":1,"number":1,"managed":true}"#,
    r#"{"kind":"lifecycle-claim","trial":1,"from":"Waiting","worker":2,"heartbeat_millis":10,"epoch":1,"heartbeat_seq":1,"params":[]}"#,
    r#"{"kind":"lifecycle-fenced","trial":1,"worker":2,"epoch":1,"mutation":{"kind":"pause"}}"#,
    r#"{"kind":"lifecycle-reserve","study":0,"trial":2,"number":2,"managed":true}"#,
    r#"{"kind":"lifecycle-abandon","trial":2,"reason":"the sampler has no further points"}"#,
    r#"{"kind":"create-study","study":1,"config":{"name":"zweite \"Ü\"","directions":["Maximize","Minimize"],"seed":18446744073709551615,"space":null,"resource_unit":"Epochs","metric_names":[]}}"#,
    r#"{"kind":"lifecycle-reserve","study":1,"trial":3,"number":0,"managed":true}"#,
    r#"{"kind":"set-study-user-attr","study":1,"key":"note","value":{"deep":[1,2.5,null,true]}}"#,
];

fn history() -> Vec<OpLine> {
    let line = |(seq, op): (u64, &&str)| OpLine {
        seq,
        worker: WorkerId(7),
        at_millis: 1_700_000_000_000 + seq,
        op: serde_json::from_str(op).unwrap(),
    };
    (1..).zip(&OWNED).map(line).collect()
}

/// A study of these operations, so many in an extent.
fn written(history: &[OpLine], in_extent: usize) -> Files {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(STUDY);
    let header = Header {
        format: 6,
        atune: "0.0.0".to_owned(),
        created_at_millis: 1_700_000_000_000,
        created_by: WorkerId(7),
    };
    let mut extents = history.chunks(in_extent.max(1)).map(<[OpLine]>::to_vec);
    write_study(&RealFs, &path, &header, DATA, &mut extents).unwrap();
    let read = |path: &Path| read_all(&RealFs, path, 1 << 20).unwrap();
    let data = data_folder(&path).join(DATA);
    Files::from([
        (STUDY.to_owned(), read(&path)),
        (IN_FOLDER.to_owned(), read(&data)),
    ])
}

/// A line with its name, as it stands in the file.
fn named(name: &str, line: &impl serde::Serialize) -> Value {
    let mut members = serde_json::Map::from_iter([("record".to_owned(), Value::from(name))]);
    if let Value::Object(line) = serde_json::to_value(line).unwrap() {
        members.extend(line);
    }
    Value::Object(members)
}

fn placed(case: &Case) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    case.place(folder.path());
    let path = folder.path().join(STUDY);
    (folder, path)
}

/// What our own reader says of a study, in the members that the vectors have.
fn facts(case: &Case, torn: bool) -> Value {
    let (_folder, path) = placed(case);
    let mut operations = Vec::new();
    let reader = JournalReader::open_watched(Arc::new(RealFs), &path, &mut |line, _| {
        operations.push(named("op", line));
    });
    let reader = reader.unwrap();
    let replica = reader.replica();
    let studies = replica.studies();
    let names: Vec<String> = studies
        .iter()
        .map(|study| study_id(reader.header(), study))
        .collect();
    let mut trials: Vec<_> = studies
        .iter()
        .flat_map(|study| replica.trials_of(study.id).unwrap())
        .collect();
    trials.sort_by_key(|trial| trial.id);
    let trials: Vec<Value> = trials
        .iter()
        .map(|trial| {
            json!({
                "study": trial.study, "number": trial.number, "state": trial.state, "values": trial.values,
            })
        })
        .collect();
    json!({
        "header": named("header", reader.header()), "operations": operations, "names": names, "trials": trials, "torn": torn,
    })
}

fn whole(cases: &mut Cases, name: &'static str, files: Files, torn: bool) {
    cases.add(name, files, Value::Null);
    let case = cases.all.last_mut().unwrap();
    case.expect = facts(case, torn);
}

fn cases() -> Cases {
    let mut cases = Cases::new("atj", 6);
    let end = EXAMPLE.match_indices('\n').nth(1).unwrap().0 + 1;
    let (study, data) = EXAMPLE.as_bytes().split_at(end);
    let example = Files::from([
        (STUDY.to_owned(), study.to_vec()),
        (IN_FOLDER.to_owned(), data.to_vec()),
    ]);
    whole(&mut cases, "the worked example", example, false);
    let history = history();
    whole(
        &mut cases,
        "owned trials, three operations in an extent",
        written(&history, 3),
        false,
    );
    whole(&mut cases, "without an operation", written(&[], 1), false);
    older(&mut cases, &history);

    let of = ("the worked example", IN_FOLDER);
    let bytes = cases.bytes(of.0, of.1);
    let never = [&bytes[..331], b"and half a line"].concat();
    cases.change(
        "an append that was never published",
        of,
        vec![Change::Append(never)],
        Value::Null,
    );
    let case = cases.all.last_mut().unwrap();
    case.expect = facts(case, false);
    changed_data(&mut cases, of, &bytes);
    changed_head(&mut cases);
    cases
}

/// Version 5: one file of lines.
fn older(cases: &mut Cases, history: &[OpLine]) {
    let mut text =
        "{\"record\":\"header\",\"format\":5,\"atune\":\"0.0.0\",\"created_at_millis\":1700000000000,\"created_by\":7}\n"
            .to_owned();
    for line in history.iter().take(6) {
        // The name of the line stands first.
        text.push_str(&named("op", line).to_string());
        text.push('\n');
    }
    let file = |text: &str| Files::from([(STUDY.to_owned(), text.as_bytes().to_vec())]);
    whole(cases, "version 5", file(&text), false);
    let torn = format!("{text}{{\"record\":\"op\",\"se");
    whole(cases, "version 5 with a torn append", file(&torn), true);
}

fn damaged(what: &str) -> Value {
    json!({ "damaged": what })
}

fn changed_data(cases: &mut Cases, of: (&'static str, &str), bytes: &[u8]) {
    let place = |text: &[u8]| bytes.windows(text.len()).position(|w| w == text).unwrap();
    let put = |at: usize, text: &str| vec![Change::Put(at, text.as_bytes().to_vec())];
    let value = place(b"\"team\",\"value\":\"control\"");
    cases.change(
        "a letter of an operation",
        of,
        put(value + 1, "T"),
        damaged("checksum"),
    );
    let magic = place(b"atune.extent/6");
    cases.change(
        "the magic of an extent",
        of,
        put(magic + 13, "7"),
        damaged("extent"),
    );
    let first = place(b"\"first\":2");
    cases.change(
        "the numbers of an extent",
        of,
        put(first + 8, "3"),
        damaged("sequence"),
    );
    let start = place(b"\"start\":329");
    cases.change(
        "the place of an extent",
        of,
        put(start + 10, "8"),
        damaged("stream"),
    );
    cases.change(
        "the last extent cut off",
        of,
        vec![Change::Cut(bytes.len() - 5)],
        damaged("pointer"),
    );
}

fn changed_head(cases: &mut Cases) {
    let of = ("the worked example", STUDY);
    let bytes = cases.bytes(of.0, of.1);
    let text = String::from_utf8(bytes.clone()).unwrap();
    let put = |at: usize, text: &str| vec![Change::Put(at, text.as_bytes().to_vec())];
    let at = |part: &str| text.find(part).unwrap() + part.len();
    cases.change(
        "a newer version",
        of,
        put(at("\"format\":"), "7"),
        damaged("version"),
    );
    cases.change(
        "the count of operations",
        of,
        put(at("\"ops\":2"), "6"),
        damaged("sequence"),
    );
    cases.change(
        "the length of the stream",
        of,
        put(at("\"bytes\":416"), "7"),
        damaged("stream"),
    );
    cases.change(
        "the file of the tip",
        of,
        put(at("\"file\":\"data-"), "1"),
        damaged("pointer"),
    );
    cases.change(
        "no line feed at the end",
        of,
        vec![Change::Cut(bytes.len() - 1)],
        damaged("head"),
    );
    cases.change("no header", of, vec![flip(&bytes, 2)], damaged("header"));
}

/// Our own reader says of a case what the vector says.
fn assert_read(case: &Case) {
    let (_folder, path) = placed(case);
    let (name, opened) = (case.name(), JournalReader::open(&path));
    match case.expect.get("damaged").and_then(Value::as_str) {
        None => {
            opened.unwrap();
            if case.files.contains_key(IN_FOLDER) {
                let verdict = verify_study(Arc::new(RealFs), &path).unwrap();
                assert_ne!(verdict.verdict, Outcome::Damaged, "{name}: {verdict:?}");
            }
        }
        Some("version") => {
            let is_newer = matches!(opened, Err(JournalError::Unsupported { .. }));
            assert!(is_newer, "{name}: {opened:?}");
        }
        Some("header") => {
            let is_none = matches!(opened, Err(JournalError::NotAStudy { .. }));
            assert!(is_none, "{name}: {opened:?}");
        }
        Some(_) => {
            let is_damage = matches!(opened, Err(JournalError::Corrupt { .. }));
            assert!(is_damage, "{name}: {opened:?}");
        }
    }
}

#[test]
fn the_vectors_of_studies_are_what_our_writer_gives_and_our_reader_says() {
    let cases = cases();
    cases.all.iter().for_each(assert_read);
    cases.check();
}
