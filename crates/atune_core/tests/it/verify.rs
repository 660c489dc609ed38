//! What is promised: a verdict says of each damage where it is and of what kind, says what it could not
//! prove, and counts what is there. Every finding that `verify_study` has, from files on a real disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use atune_core::storage::journal::{JournalError, JournalReader, facts_of, verify_study};
use durable::{Fs, Outcome, RealFs, Severity, Verdict};
use serde_json::{Value, json};

use crate::journal::{A, B, Files, HEADER, Journal, lines, op_line, put};

/// A study in a folder of the real disk.
struct Disk {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Disk {
    fn new(files: &Files) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("study.atj");
        put(&RealFs, &path, &files.head);
        let data = path.with_extension("atj.d");
        if !files.data.is_empty() {
            RealFs.create_dir(&data).unwrap();
        }
        for (name, bytes) in &files.data {
            put(&RealFs, &data.join(name), bytes);
        }
        Self {
            _folder: folder,
            path,
        }
    }

    fn data(&self, name: &str) -> PathBuf {
        self.path.with_extension("atj.d").join(name)
    }

    fn verify(&self) -> Verdict {
        verify_study(Arc::new(RealFs), &self.path).unwrap()
    }
}

fn verdict(files: &Files) -> Verdict {
    Disk::new(files).verify()
}

fn codes(verdict: &Verdict) -> Vec<(&'static str, Severity)> {
    verdict
        .findings
        .iter()
        .map(|finding| (finding.code, finding.severity))
        .collect()
}

/// The one finding of a damaged study: its code, and the file and offset that it names.
fn damage(files: &Files) -> (&'static str, String) {
    let disk = Disk::new(files);
    let verdict = disk.verify();
    assert_eq!(verdict.verdict, Outcome::Damaged);
    let [finding] = verdict.findings.as_slice() else {
        panic!("{:?}", verdict.findings)
    };
    assert_eq!(finding.severity, Severity::Damage);
    assert!(!finding.what.is_empty());
    let folder = format!("{}/", disk.path.parent().unwrap().display());
    (finding.code, finding.place.replace(&folder, ""))
}

fn old(version: u32, body: &str) -> Files {
    let header = HEADER.replace("\"format\":6", &format!("\"format\":{version}"));
    Files {
        head: format!("{header}\n{body}").into_bytes(),
        data: [].into(),
    }
}

const NOT_AUTHENTICATED: (&str, Severity) = ("not_authenticated", Severity::Note);

#[test]
fn a_sound_study_is_intact_and_says_what_no_checksum_proves() {
    let verdict = verdict(&Journal::small().files());
    assert_eq!(verdict.verdict, Outcome::Intact);
    assert_eq!(verdict.kind, "study");
    assert_eq!(codes(&verdict), [NOT_AUTHENTICATED]);
}

#[test]
fn the_facts_count_what_is_there() {
    let mut files = Journal::small().files();
    files.data.get_mut(A).unwrap().extend_from_slice(b"torn");
    let disk = Disk::new(&files);
    let facts = disk.verify().facts;
    let expected = [
        ("format", json!(6)),
        ("atune", json!("0.0.0")),
        ("created_at_millis", json!(1_000_000)),
        ("operations", json!(8)),
        ("stream_bytes", json!(Journal::small().bytes)),
        ("extents", json!(4)),
        ("studies", json!(["small"])),
        ("trials", json!(2)),
        ("trials_by_state", json!({ "complete": 1, "waiting": 1 })),
    ];
    for (name, value) in expected {
        assert_eq!(facts.get(name), Some(&value), "{name}");
    }
    let uses = facts["data_files"].as_array().unwrap();
    let told = |at: usize, name: &str| uses[at].get(name).and_then(Value::as_u64).unwrap();
    assert_eq!(uses.len(), 2);
    assert_eq!(uses[0]["path"], json!(disk.data(A)));
    assert_eq!((told(0, "extents"), told(0, "unpublished")), (2, 4));
    assert_eq!((told(1, "extents"), told(1, "unpublished")), (2, 0));
    assert_eq!(told(0, "published") + 4, told(0, "len"));
    let reader = JournalReader::open(&disk.path).unwrap();
    assert_eq!(facts_of(&reader).unwrap(), facts);
}

#[test]
fn unpublished_bytes_are_no_damage() {
    let mut files = Journal::small().files();
    files
        .data
        .get_mut(B)
        .unwrap()
        .extend_from_slice(b"{\"magic\":");
    files.data.insert("data-orphan".to_owned(), vec![0; 100]);
    assert_eq!(verdict(&files).verdict, Outcome::Intact);
}

#[test]
fn header_damaged() {
    let mut files = Journal::small().files();
    let at = files.head.iter().position(|&b| b == b'6').unwrap();
    files.head[at] = b'x';
    let place = "study.atj byte 0".to_owned();
    assert_eq!(damage(&files), ("header_damaged", place.clone()));
    files.head.truncate(HEADER.len());
    assert_eq!(damage(&files), ("header_damaged", place));
}

#[test]
fn head_damaged() {
    let start = HEADER.len() + 1;
    let place = format!("study.atj byte {start}");
    let whole = Journal::small().files();
    for len in [start, start + 1, whole.head.len() - 1] {
        let mut files = whole.clone();
        files.head.truncate(len);
        assert_eq!(damage(&files), ("head_damaged", place.clone()));
    }
    let mut journal = Journal::small();
    (journal.tip, journal.ops) = (None, 0);
    assert_eq!(damage(&journal.files()), ("head_damaged", place));
}

#[test]
fn extent_damaged() {
    let mut files = Journal::small().files();
    files.data.get_mut(A).unwrap()[0] = b'[';
    assert_eq!(
        damage(&files),
        ("extent_damaged", format!("study.atj.d/{A} byte 0"))
    );
    // A missing file is damage of the extent that should be in it.
    let mut journal = Journal::small();
    let offset = journal.tip.as_ref().unwrap().offset;
    journal.data.remove(B);
    let place = format!("study.atj.d/{B} byte {offset}");
    assert_eq!(damage(&journal.files()), ("extent_damaged", place));
    // So is one that ends before its extent does.
    let mut files = Journal::small().files();
    let last = files.data.get_mut(B).unwrap();
    last.truncate(last.len() - 1);
    let place = format!("study.atj.d/{B} byte {offset}");
    assert_eq!(damage(&files), ("extent_damaged", place));
}

#[test]
fn operations_damaged_by_a_changed_byte() {
    let mut files = Journal::small().files();
    let data = files.data.get_mut(B).unwrap();
    let payload = data.iter().position(|&b| b == b'\n').unwrap() + 1;
    data[payload + 40] ^= 0x20;
    let place = format!("study.atj.d/{B} byte {payload}");
    assert_eq!(damage(&files), ("operations_damaged", place));
}

#[test]
fn operations_damaged_by_one_that_the_state_machine_refuses() {
    let mut journal = Journal::new();
    journal.extent(A, 2, &lines(1, 2));
    let illegal = op_line(4, r#"{"kind":"heartbeat","trial":5,"at_millis":1}"#);
    journal.extent(A, 4, &(lines(3, 3) + &illegal));
    let at = journal.data[A].len() - illegal.len();
    let verdict = verdict(&journal.files());
    assert_eq!(verdict.verdict, Outcome::Damaged);
    let finding = &verdict.findings[0];
    assert_eq!(finding.code, "operations_damaged");
    assert!(
        finding.place.ends_with(&format!("{A} byte {at}")),
        "{}",
        finding.place
    );
    assert!(
        finding.what.contains("operation 4 is refused: no trial 5"),
        "{}",
        finding.what
    );
}

#[test]
fn no_checksums_and_torn_tail() {
    let files = old(4, &(lines(1, 8) + "{\"record\":\"op\",\"se"));
    let verdict = verdict(&files);
    assert_eq!(verdict.verdict, Outcome::Unproven);
    let torn = ("torn_tail", Severity::Note);
    let unproven = ("no_checksums", Severity::Unproven);
    assert_eq!(codes(&verdict), [unproven, torn, NOT_AUTHENTICATED]);
    let end = HEADER.len() + 1 + lines(1, 8).len();
    let finding = &verdict.findings[1];
    assert!(
        finding.place.ends_with(&format!("study.atj byte {end}")),
        "{}",
        finding.place
    );
    assert!(finding.what.contains("18 bytes"), "{}", finding.what);
    assert_eq!(verdict.facts["format"], 4);
    assert_eq!(verdict.facts["data_files"], json!([]));
}

#[test]
fn an_old_file_without_a_torn_tail_is_unproven_and_a_damaged_one_is_damaged() {
    let whole = verdict(&old(1, &lines(1, 8)));
    assert_eq!(whole.verdict, Outcome::Unproven);
    let unproven = ("no_checksums", Severity::Unproven);
    assert_eq!(codes(&whole), [unproven, NOT_AUTHENTICATED]);
    let body = lines(1, 2) + "\n" + &lines(3, 8);
    let at = HEADER.len() + 1 + lines(1, 2).len();
    let place = format!("study.atj byte {at}");
    assert_eq!(damage(&old(1, &body)), ("operations_damaged", place));
}

#[test]
fn where_nothing_can_be_checked_there_is_no_verdict() {
    let verify = |path: &Path| verify_study(Arc::new(RealFs), path);
    let disk = Disk::new(&Journal::small().files());
    let missing = verify(&disk.path.with_file_name("absent.atj"));
    assert!(
        matches!(missing, Err(JournalError::Io { .. })),
        "{missing:?}"
    );
    let folder = verify(disk.path.parent().unwrap());
    assert!(matches!(folder, Err(JournalError::Io { .. })), "{folder:?}");
    let data = verify(&disk.data(A));
    assert!(
        matches!(data, Err(JournalError::NotAStudy { .. })),
        "{data:?}"
    );
    let mut newer = Journal::small();
    newer.header = HEADER.replace("\"format\":6", "\"format\":7");
    let newer = verify(&Disk::new(&newer.files()).path);
    assert!(
        matches!(newer, Err(JournalError::Unsupported { found: 7, .. })),
        "{newer:?}"
    );
}
