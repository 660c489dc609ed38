//! Vectors of `.omni` journals.

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use durable::checksum::crc32;
use durable::digest::hex;
use durable::{ManualClock, Outcome, RealFs, Verdict, read_all};
use omniloop_core::journal::layout::record_header;
use omniloop_core::journal::{
    Error, FrameKind, JournalOptions, JournalPlayer, JournalSigner, RotationPolicy,
    SegmentVerification, SetOptions, StateJournal, segment_paths, verify_set,
};
use serde_json::{Value, json};

use crate::case::{Case, Cases, Change, Files, flip};

const RUN: &str = "run.omni";
const KINDS: [FrameKind; 7] = [
    FrameKind::Lifecycle,
    FrameKind::Input,
    FrameKind::Telemetry,
    FrameKind::Mutation,
    FrameKind::Control,
    FrameKind::Hash,
    FrameKind::Guardrail,
];

fn payload(kind: FrameKind, n: u64) -> String {
    match kind {
        FrameKind::Lifecycle => r#"{"event":"start","argv":["loop"],"run":{"id":"00ff"}}"#.into(),
        FrameKind::Input => format!(r#"{{"channel":"seed:loop","value":{n}}}"#),
        FrameKind::Telemetry => format!(r#"{{"loss":{}.25,"gain":"NaN","ü":[{n},null]}}"#, 100 - n),
        FrameKind::Mutation => {
            format!(r#"{{"name":"gain","old":1,"new":2,"source":"ui","correlation_id":"c-{n}"}}"#)
        }
        FrameKind::Control => r#"{"command":"halt","reason":"operator"}"#.into(),
        FrameKind::Hash => format!(r#"{{"algorithm":"sha256","hash":"{n:064x}"}}"#),
        _ => r#"{"name":"gain","requested":9,"applied":2,"min":0,"max":2,"cause":"limit","principal":"ops"}"#.into(),
    }
}

/// The files of a journal of so many records of all kinds in turn.
fn journal(records: u64, seal: bool, adjust: impl Fn(&mut JournalOptions)) -> Files {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join(RUN);
    let mut options = JournalOptions {
        clock: Arc::new(ManualClock::new(1_700_000_000_000_000_000, 1_000_000)),
        ..JournalOptions::default()
    };
    adjust(&mut options);
    let mut journal = StateJournal::create_with(&base, options).unwrap();
    for (n, kind) in (0..records).zip(KINDS.into_iter().cycle()) {
        journal.append(kind, payload(kind, n).as_bytes()).unwrap();
    }
    if seal {
        journal.seal().unwrap();
    } else {
        drop(journal);
    }
    let paths = segment_paths(&base).unwrap();
    let file = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, read_all(&RealFs, path, 1 << 20).unwrap())
    };
    paths.iter().map(file).collect()
}

/// What our own reader says of the files that start at `base`, in the members that the vectors have.
fn facts(base: &Path) -> Value {
    let set = verify_set(&RealFs, base, &SetOptions::default(), &mut |_, _, _| {}).unwrap();
    let files: Vec<Value> = set.segments.iter().map(file_facts).collect();
    json!({ "verdict": set.outcome().as_str(), "files": files })
}

fn file_facts(segment: &SegmentVerification) -> Value {
    let result = segment.result.as_ref().unwrap();
    let chain = &result.chain;
    let mut player = JournalPlayer::open(&segment.path).unwrap();
    let mut records = Vec::new();
    while let Some(record) = player.read_next_record().unwrap() {
        records.push(json!({
            "offset": record.offset, "kind": record.kind.as_str(), "tick": record.tick,
            "mono_ns": record.mono_ns, "wall_ns": record.wall_ns, "payload": hex(&record.payload),
        }));
    }
    let signers: Vec<&str> = result.signers.iter().map(|s| s.key.as_str()).collect();
    json!({
        "version": chain.version,
        "segmented": chain.segment_index.is_some(),
        "chained": chain.declared_chained,
        "created_wall_ns": chain.created_wall_ns,
        "segment_index": chain.segment_index.unwrap_or(0),
        "sealed": chain.finalized,
        "truncated": chain.truncated,
        "head": chain.head,
        "signers": signers,
        "records": records,
        "verdict": outcome(segment).as_str(),
        "damage": null,
    })
}

fn outcome(segment: &SegmentVerification) -> Outcome {
    let chain = segment.result.iter().flat_map(|r| &r.chain.findings);
    let all: Vec<_> = chain.chain(&segment.findings).cloned().collect();
    Verdict::outcome_of(&all)
}

fn whole(cases: &mut Cases, name: &'static str, files: Files) {
    let folder = tempfile::tempdir().unwrap();
    cases.add(name, files, Value::Null);
    let case = cases.all.last_mut().unwrap();
    case.place(folder.path());
    case.expect = facts(&folder.path().join(RUN));
}

/// Where each record of a file starts.
fn offsets(bytes: &[u8]) -> Vec<usize> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(RUN);
    durable::publish(&RealFs, &path, bytes).unwrap();
    let mut player = JournalPlayer::open(&path).unwrap();
    let mut found = Vec::new();
    while let Some(record) = player.read_next_record().unwrap() {
        found.push(usize::try_from(record.offset).unwrap());
    }
    found
}

/// What is expected of damage: the verdict, what it is, and which record it is first found at.
fn damaged(what: &str, record: Option<usize>) -> Value {
    json!({ "verdict": "damaged", "files": [{ "verdict": "damaged", "damage": { "what": what, "record": record } }] })
}

fn cases() -> Cases {
    let mut cases = Cases::new("omni", 2);
    whole(&mut cases, "sealed", journal(70, true, |_| {}));
    whole(
        &mut cases,
        "sealed without a record",
        journal(0, true, |_| {}),
    );
    whole(&mut cases, "never sealed", journal(66, false, |_| {}));
    whole(
        &mut cases,
        "never sealed and without a checkpoint",
        journal(3, false, |_| {}),
    );
    whole(
        &mut cases,
        "a rotated set",
        journal(12, true, |options| {
            options.rotation = Some(RotationPolicy {
                max_records: Some(5),
                ..RotationPolicy::default()
            });
        }),
    );
    whole(
        &mut cases,
        "signed",
        journal(70, true, |options| {
            options.signer = Some(JournalSigner::from_seed(&[7; 32]));
            options.sign_every = NonZeroU64::new(1);
        }),
    );
    let legacy: Vec<u8> = (0..3_u64)
        .flat_map(|n| {
            let payload = payload(FrameKind::Telemetry, n).into_bytes();
            let len = u32::try_from(payload.len()).unwrap().to_le_bytes();
            [&len[..], &payload].concat()
        })
        .collect();
    whole(
        &mut cases,
        "older than version 2",
        Files::from([(RUN.to_owned(), legacy)]),
    );
    unsealed(&mut cases);
    changed_records(&mut cases);
    changed_files(&mut cases);
    cases
}

/// Files that end where they should not, and are no lie.
fn unsealed(cases: &mut Cases) {
    let open = cases.bytes("never sealed", RUN);
    let starts = offsets(&open);
    let torn = |len: usize| vec![Change::Cut(len)];
    for (name, changes) in [
        ("torn inside a payload", torn(open.len() - 3)),
        ("torn inside a header", torn(starts[60] + 20)),
        (
            "zeros at the end, as a crash leaves them",
            vec![Change::Append(vec![0; 500])],
        ),
    ] {
        cases.change(name, ("never sealed", RUN), changes, Value::Null);
        let folder = tempfile::tempdir().unwrap();
        let case = cases.all.last_mut().unwrap();
        case.place(folder.path());
        case.expect = facts(&folder.path().join(RUN));
    }
}

fn changed_records(cases: &mut Cases) {
    let bytes = cases.bytes("sealed", RUN);
    let starts = offsets(&bytes);
    let at = |record: usize, field: usize| starts[record] + field;
    let of = ("sealed", RUN);
    let put = |at: usize, bytes: &[u8]| vec![Change::Put(at, bytes.to_vec())];
    // The 65th record is the checkpoint that covers those before it.
    let covers = 64;
    cases.change(
        "a bit of a payload",
        of,
        vec![flip(&bytes, at(9, record_header::LEN + 5))],
        damaged("crc", Some(9)),
    );
    let len = starts[10] - starts[9] - record_header::LEN;
    let mut forged = bytes[at(9, record_header::LEN)..][..len].to_vec();
    forged[8] ^= 1;
    let crc = crc32(&forged).to_le_bytes();
    let mut both = put(at(9, 32), &crc);
    both.extend(put(at(9, record_header::LEN), &forged));
    cases.change(
        "a payload and its checksum",
        of,
        both,
        damaged("chain", Some(covers)),
    );
    cases.change(
        "the wall time of a record",
        of,
        vec![flip(&bytes, at(20, 24))],
        damaged("chain", Some(covers)),
    );
    cases.change(
        "a tick that goes back",
        of,
        put(at(40, 8), &1_u64.to_le_bytes()),
        damaged("order", Some(40)),
    );
    cases.change(
        "a padding byte",
        of,
        vec![flip(&bytes, at(30, 6))],
        damaged("padding", Some(30)),
    );
    cases.change(
        "a kind that does not exist",
        of,
        put(at(30, 4), &[9]),
        damaged("kind", Some(30)),
    );
    cases.change(
        "a length beyond the records",
        of,
        put(at(70, 0), &[255, 255, 0, 0]),
        damaged("length", Some(70)),
    );
    let value = at(covers, record_header::LEN);
    let mut other = bytes[value..value + 32].to_vec();
    other[0] ^= 1;
    let mut both = put(at(covers, 32), &crc32(&other).to_le_bytes());
    both.extend(put(value, &other));
    cases.change(
        "a checkpoint and its checksum",
        of,
        both,
        damaged("chain", Some(covers)),
    );
    cases.change(
        "the time of creation",
        of,
        vec![flip(&bytes, 16)],
        damaged("chain", Some(covers)),
    );
}

fn changed_files(cases: &mut Cases) {
    let bytes = cases.bytes("sealed", RUN);
    let of = ("sealed", RUN);
    let len = bytes.len();
    let unreadable = json!({ "unreadable": true });
    cases.change("the magic", of, vec![flip(&bytes, 0)], unreadable.clone());
    let newer = vec![Change::Put(8, vec![3])];
    cases.change("a newer version", of, newer, unreadable);
    cases.change(
        "an index entry",
        of,
        vec![flip(&bytes, len - 24 - 16)],
        damaged("index", None),
    );
    cases.change(
        "the count of the trailer",
        of,
        vec![flip(&bytes, len - 8)],
        damaged("index", None),
    );
    let set = ("a rotated set", "run.1.omni");
    let bytes = cases.bytes(set.0, set.1);
    let first = json!({ "verdict": "damaged", "files": [
        { "verdict": "intact" },
        { "verdict": "damaged", "damage": { "what": "crc", "record": 2 } },
        { "verdict": "intact" },
    ] });
    let at = offsets(&bytes)[2] + record_header::LEN + 3;
    cases.change(
        "a bit in a segment of a set",
        set,
        vec![flip(&bytes, at)],
        first,
    );
}

/// Our own reader says of a case what the vector says.
fn assert_read(case: &Case) {
    let folder = tempfile::tempdir().unwrap();
    case.place(folder.path());
    let base = folder.path().join(RUN);
    let set = verify_set(&RealFs, &base, &SetOptions::default(), &mut |_, _, _| {});
    let name = case.name();
    if case.expect.get("unreadable").is_some() {
        // What has the name of a journal, and not its magic, is damage to whoever verifies.
        let is_refused = match &set {
            Ok(set) => set.segments.iter().all(|segment| segment.result.is_none()),
            Err(error) => matches!(error, Error::Unsupported { .. }),
        };
        assert!(is_refused, "{name}: {set:?}");
        return;
    }
    let set = set.unwrap();
    assert_eq!(
        case.expect["verdict"],
        set.outcome().as_str(),
        "{name}: {set:#?}"
    );
    let files = case.expect["files"].as_array().unwrap();
    assert_eq!(files.len(), set.segments.len(), "{name}");
    for (file, segment) in files.iter().zip(&set.segments) {
        assert_eq!(file["verdict"], outcome(segment).as_str(), "{name}");
    }
}

#[test]
fn the_vectors_of_runs_are_what_our_writer_gives_and_our_reader_says() {
    let cases = cases();
    cases.all.iter().for_each(assert_read);
    cases.check();
}
