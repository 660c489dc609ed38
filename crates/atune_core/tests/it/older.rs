//! What is promised: files of versions 1 to 5, one JSON line after another, are read; a torn last line is
//! ignored and told. The state is compared with that of the same operations.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use atune_core::storage::Storage;
use atune_core::storage::journal::{
    Fault, JournalError, JournalReader, JournalStorage, Section, data_folder,
};
use atune_core::trial::{StudyId, TrialId};
use durable::{Access, Fs, RealFs, publish, read_all};
use durable_sim::SimFs;

use crate::journal::{Files, HEADER, OPS, PATH, lines, op_line, put, state_after};
use crate::shared::{on_sim, unthreaded};
use crate::tap::{Tap, Tapped};

fn old_header(version: u32) -> String {
    HEADER.replace("\"format\":6", &format!("\"format\":{version}"))
}

fn old(version: u32, body: &str) -> Files {
    let header = old_header(version);
    let (head, data) = (format!("{header}\n{body}").into_bytes(), BTreeMap::new());
    Files { head, data }
}

/// Opens the study for writing, which migrates it.
fn write(fs: &SimFs) -> Result<JournalStorage, JournalError> {
    // No two handles have the same names.
    static SEED: AtomicU64 = AtomicU64::new(0);
    let (fs, clock, identity) = on_sim(fs, SEED.fetch_add(1, Ordering::Relaxed));
    JournalStorage::open_on(fs, clock, identity, PATH, unthreaded())
}

fn append(fs: &SimFs, text: &str) {
    let mut file = fs.open_append(Path::new(PATH)).unwrap();
    file.append(text.as_bytes()).unwrap();
}

fn is_history_changed(found: &Result<u64, JournalError>) -> bool {
    matches!(found, Err(JournalError::HistoryChanged { .. }))
}

/// The sequence numbers that a refresh shows.
fn refreshed(reader: &mut JournalReader) -> Result<Vec<u64>, JournalError> {
    let mut seqs = Vec::new();
    let count = reader.refresh_watched(&mut |line, _| seqs.push(line.seq))?;
    assert_eq!(count, seqs.len() as u64);
    Ok(seqs)
}

fn open(version: u32, body: &str) -> Result<JournalReader, JournalError> {
    old(version, body).open()
}

#[test]
fn every_older_version_is_read_whole() {
    for version in 1..=5 {
        let mut reader = open(version, &lines(1, 8)).unwrap();
        assert_eq!(*reader.replica(), state_after(8));
        assert_eq!(reader.header().format, version);
        assert_eq!((reader.head().ops, reader.torn_tail()), (8, 0));
        assert_eq!(
            reader.head().bytes,
            (HEADER.len() + 1 + lines(1, 8).len()) as u64
        );
        assert_eq!(reader.extent_count(), 0);
        assert_eq!(reader.data_files().unwrap(), []);
        assert_eq!(reader.refresh().unwrap(), 0);
    }
}

#[test]
fn a_last_line_torn_at_any_length_is_ignored_and_told() {
    let whole = lines(1, 7);
    let last = op_line(8, OPS[7]);
    for len in 0..last.len() {
        // Bytes, for a tear can fall into the middle of a letter.
        let mut files = old(5, &whole);
        files.head.extend_from_slice(&last.as_bytes()[..len]);
        let reader = files.open().unwrap();
        assert_eq!(*reader.replica(), state_after(7));
        assert_eq!(reader.torn_tail(), len as u64);
        assert_eq!(reader.head().bytes, (HEADER.len() + 1 + whole.len()) as u64);
    }
}

#[test]
fn damage_before_the_last_line_is_refused_and_named() {
    let first = lines(1, 1);
    let offset = (HEADER.len() + 1 + first.len()) as u64;
    for bad in ["\n", "{}\n", "null\n", &format!("{HEADER}\n"), "\u{0}\n"] {
        match open(3, &format!("{first}{bad}{}", lines(2, 3))) {
            Err(JournalError::Corrupt {
                section: Section::Operations,
                offset: at,
                fault: Fault::BadRecord(_),
                ..
            }) => {
                assert_eq!(at, offset);
            }
            other => panic!("{bad:?}: {other:?}"),
        }
    }
    for body in [
        lines(2, 3),
        lines(1, 2) + &lines(4, 4),
        lines(1, 2) + &lines(2, 2),
    ] {
        let found = open(3, &body);
        let is_refused = matches!(
            found,
            Err(JournalError::Corrupt {
                fault: Fault::Refused { .. },
                ..
            })
        );
        assert!(is_refused, "{found:?}");
    }
}

#[test]
fn a_reservation_without_its_marker_is_a_raw_trial() {
    let reserve = |members: &str| {
        let op =
            format!(r#"{{"kind":"lifecycle-reserve","study":0,"trial":0,"number":0{members}}}"#);
        lines(1, 1) + &op_line(2, &op)
    };
    let managed = |body: &str| {
        open(1, body)
            .unwrap()
            .replica()
            .trial(TrialId(0))
            .unwrap()
            .managed
    };
    assert!(!managed(&reserve("")));
    assert!(managed(&reserve(r#","managed":true"#)));
}

#[test]
fn an_ending_without_an_intent_owes_nothing() {
    let ops = [
        r#"{"kind":"lifecycle-reserve","study":0,"trial":0,"number":0,"managed":true}"#,
        r#"{"kind":"lifecycle-claim","trial":0,"from":"Waiting","worker":3,"heartbeat_millis":5,"epoch":1,"heartbeat_seq":1,"params":[]}"#,
        r#"{"kind":"lifecycle-terminal","trial":0,"worker":3,"epoch":1,"outcome":{"state":"Complete","values":[1.0]}}"#,
    ];
    let body: String = (2..).zip(ops).map(|(seq, op)| op_line(seq, op)).collect();
    let reader = open(3, &(lines(1, 1) + &body)).unwrap();
    assert!(
        reader
            .replica()
            .trial(TrialId(0))
            .unwrap()
            .state
            .is_terminal()
    );
    assert_eq!(reader.replica().outboxes().count(), 0);
}

#[test]
fn a_reader_of_an_old_file_sees_what_an_older_writer_appends() {
    let fs = old(4, &lines(1, 3)).disk();
    let mut reader = JournalReader::open_on(Arc::new(fs.clone()), PATH).unwrap();
    assert!(refreshed(&mut reader).unwrap().is_empty());
    append(&fs, &lines(4, 5));
    assert_eq!(refreshed(&mut reader).unwrap(), [4, 5]);
    let six = lines(6, 6);
    let (start, rest) = six.split_at(30);
    append(&fs, start);
    assert!(refreshed(&mut reader).unwrap().is_empty());
    assert_eq!(reader.torn_tail(), 30);
    append(&fs, &[rest, &lines(7, 8)].concat());
    assert_eq!(refreshed(&mut reader).unwrap(), [6, 7, 8]);
    assert_eq!(reader.torn_tail(), 0);
    assert_eq!(*reader.replica(), state_after(8));
    assert_eq!(
        reader.head().bytes,
        (HEADER.len() + 1 + lines(1, 8).len()) as u64
    );
}

#[test]
fn an_old_file_that_is_shorter_or_another_one_than_before_is_refused() {
    let whole = old(4, &lines(1, 5));
    let fs = whole.disk();
    let mut reader = JournalReader::open_on(Arc::new(fs.clone()), PATH).unwrap();
    let mut other = whole.clone();
    other.head = String::from_utf8(other.head)
        .unwrap()
        .replace("1000000", "2000000")
        .into_bytes();
    for files in [old(4, &lines(1, 4)), old(5, &lines(1, 5)), other] {
        publish(&fs, Path::new(PATH), &files.head).unwrap();
        assert!(is_history_changed(&reader.refresh()));
        assert_eq!(*reader.replica(), state_after(5));
    }
    publish(&fs, Path::new(PATH), &whole.head).unwrap();
    assert_eq!(reader.refresh().unwrap(), 0);
}

#[test]
fn a_line_that_is_refused_is_read_anew_when_it_was_put_right() {
    let fs = old(2, &lines(1, 3)).disk();
    let mut reader = JournalReader::open_on(Arc::new(fs.clone()), PATH).unwrap();
    let bad = lines(4, 4) + &op_line(5, OPS[2]);
    publish(&fs, Path::new(PATH), &old(2, &(lines(1, 3) + &bad)).head).unwrap();
    let found = reader.refresh();
    let is_refused = matches!(
        found,
        Err(JournalError::Corrupt {
            fault: Fault::Refused { seq: 5, .. },
            ..
        })
    );
    assert!(is_refused, "{found:?}");
    publish(&fs, Path::new(PATH), &old(2, &lines(1, 8)).head).unwrap();
    assert_eq!(refreshed(&mut reader).unwrap(), [5, 6, 7, 8]);
    assert_eq!(*reader.replica(), state_after(8));
}

#[test]
fn a_reader_goes_on_in_the_new_files_after_somebody_migrated_the_study() {
    for version in 1..=5 {
        let fs = old(version, &lines(1, 3)).disk();
        let mut reader = JournalReader::open_on(Arc::new(fs.clone()), PATH).unwrap();
        // Two more by the older writer before the migration, one by the newer writer after it.
        append(&fs, &(lines(4, 5) + "{\"record\":\"op\",\"se"));
        let writer = write(&fs).unwrap();
        writer
            .set_study_user_attr(StudyId(0), "note", &"after".into())
            .unwrap();
        assert_eq!(refreshed(&mut reader).unwrap(), [4, 5, 6]);
        assert_eq!(reader.header().format, 6);
        assert_eq!((reader.head().ops, reader.torn_tail()), (6, 0));
        let noted = &reader.replica().studies()[0].user_attrs;
        assert_eq!(noted["note"], "after");
        writer
            .set_study_user_attr(StudyId(0), "note", &"again".into())
            .unwrap();
        assert_eq!(refreshed(&mut reader).unwrap(), [7]);
        let afresh = JournalReader::open_on(Arc::new(fs), PATH).unwrap();
        assert_eq!(reader.replica(), afresh.replica());
        assert_eq!(reader.data_files().unwrap(), afresh.data_files().unwrap());
    }
}

#[test]
fn a_reader_that_had_read_all_sees_nothing_new_in_the_migration_itself() {
    let fs = old(3, &lines(1, 8)).disk();
    let mut reader = JournalReader::open_on(Arc::new(fs.clone()), PATH).unwrap();
    drop(write(&fs).unwrap());
    assert!(refreshed(&mut reader).unwrap().is_empty());
    assert_eq!((reader.header().format, reader.head().ops), (6, 8));
    assert_eq!(*reader.replica(), state_after(8));
}

#[test]
fn a_migration_of_another_history_is_refused_and_nothing_of_it_is_shown() {
    let another = lines(1, 8).replace("0.5", "0.25");
    let another_study = lines(1, 5).replace("small", "other");
    for body in [another, another_study, lines(1, 4), String::new()] {
        let fs = old(3, &lines(1, 5)).disk();
        let mut reader = JournalReader::open_on(Arc::new(fs.clone()), PATH).unwrap();
        publish(&fs, Path::new(PATH), &old(3, &body).head).unwrap();
        drop(write(&fs).unwrap());
        let mut shown = 0;
        let found = reader.refresh_watched(&mut |_, _| shown += 1);
        assert!(is_history_changed(&found), "{found:?}");
        assert_eq!((shown, reader.replica().seq()), (0, 5));
    }
}

#[test]
fn a_read_that_fails_while_a_migration_is_followed_is_an_error_and_the_next_refresh_goes_on() {
    for number in 1.. {
        let fs = old(3, &lines(1, 5)).disk();
        let mut reader = JournalReader::open_on(Arc::new(fs.clone()), PATH).unwrap();
        let writer = write(&fs).unwrap();
        writer
            .set_study_user_attr(StudyId(0), "note", &"after".into())
            .unwrap();
        fs.fail_nth_read(fs.read_count() + number);
        match refreshed(&mut reader) {
            Ok(seqs) => {
                assert!(number > 3, "no read was met");
                assert_eq!(seqs, [6]);
                return;
            }
            Err(error) => assert!(matches!(error, JournalError::Io { .. }), "{error}"),
        }
        assert_eq!(reader.replica().seq(), 5);
        assert_eq!(refreshed(&mut reader).unwrap(), [6]);
    }
}

#[test]
fn a_migration_between_two_steps_of_a_reader_is_never_mistaken_for_damage() {
    let count_steps = |at: usize| {
        let fs = old(3, &lines(1, 8)).disk();
        let steps = Arc::new(AtomicUsize::new(0));
        let (disk, taken) = (fs.clone(), Arc::clone(&steps));
        let tap = Tap::new(Arc::new(fs), move |call| {
            if matches!(call, Tapped::Metadata | Tapped::Open | Tapped::Read { .. })
                && taken.fetch_add(1, Ordering::SeqCst) == at
            {
                drop(write(&disk).unwrap());
            }
            Ok(())
        });
        let mut reader = JournalReader::open_on(Arc::new(tap), PATH).unwrap();
        assert_eq!(*reader.replica(), state_after(8), "{at}");
        assert!(refreshed(&mut reader).unwrap().is_empty(), "{at}");
        steps.load(Ordering::SeqCst)
    };
    let steps = count_steps(usize::MAX);
    assert!(steps > 5, "{steps}");
    for at in 0..steps {
        count_steps(at);
    }
}

/// Reads a real file and tells how many bytes were read, and the longest read.
fn metered(path: &Path) -> (Result<JournalReader, JournalError>, u64, u64) {
    let (read, longest) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (sum, max) = (Arc::clone(&read), Arc::clone(&longest));
    let tap = Tap::new(Arc::new(RealFs), move |call| {
        if let Tapped::Read { len, .. } = call {
            sum.fetch_add(len as u64, Ordering::Relaxed);
            max.fetch_max(len as u64, Ordering::Relaxed);
        }
        Ok(())
    });
    let found = JournalReader::open_on(Arc::new(tap), path);
    let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
    (found, load(&read), load(&longest))
}

#[test]
fn a_long_old_file_is_read_in_one_pass_and_in_small_pieces() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("study.atj");
    let mut text = old_header(5) + "\n" + &lines(1, 1);
    let note = "x".repeat(3000);
    let mut seq = 1;
    while text.len() < 8 << 20 {
        seq += 1;
        // Now and then one that is longer than the pieces.
        let note = if seq == 1000 {
            note.repeat(200)
        } else {
            note.clone()
        };
        let key = seq % 10;
        let op =
            format!(r#"{{"kind":"set-study-user-attr","study":0,"key":"{key}","value":"{note}"}}"#);
        text += &op_line(seq, &op);
    }
    put(&RealFs, &path, text.as_bytes());
    let (reader, read, longest) = metered(&path);
    let reader = reader.unwrap();
    assert_eq!(
        (reader.head().ops, reader.head().bytes),
        (seq, text.len() as u64)
    );
    let len = text.len() as u64;
    assert!(read < len + len / 4, "{read} bytes read of {len}");
    assert!(longest < 1 << 20, "{longest} bytes at a time");
}

#[test]
fn a_line_of_three_gigabytes_is_refused_without_being_kept() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("study.atj");
    let mut file = RealFs.create_new(&path, Access::Shared).unwrap();
    let whole = old_header(2) + "\n" + &lines(1, 3);
    file.append(whole.as_bytes()).unwrap();
    file.set_len(3 << 30).unwrap();
    // Not a torn append either: no record is that long.
    for with_end in [false, true] {
        if with_end {
            file.append(b"\n").unwrap();
        }
        let (found, read, longest) = metered(&path);
        let Err(JournalError::Corrupt {
            section,
            offset,
            fault,
            ..
        }) = found
        else {
            panic!("{found:?}")
        };
        assert_eq!((section, offset), (Section::Operations, whole.len() as u64));
        assert_eq!(fault, Fault::LineTooLong { max: 256 << 20 });
        assert!(read < 300 << 20, "{read} bytes read");
        assert!(longest < 1 << 20, "{longest} bytes at a time");
    }
}

#[test]
fn the_old_file_is_kept_byte_for_byte_and_another_one_is_not_replaced() {
    let legacy = data_folder(Path::new(PATH)).join("legacy-v3.jsonl");
    let files = old(3, &(lines(1, 5) + "{\"rec"));
    let fs = files.disk();
    drop(write(&fs).unwrap());
    assert_eq!(read_all(&fs, &legacy, 1 << 20).unwrap(), files.head);
    // Somebody puts an older copy back, which differs from the one that is kept.
    for body in [lines(1, 4), lines(1, 5) + "{\"reX", String::new()] {
        let copy = old(3, &body);
        publish(&fs, Path::new(PATH), &copy.head).unwrap();
        let found = write(&fs);
        let is_told = matches!(
            &found,
            Err(JournalError::Io { path, source, .. })
                if *path == legacy && source.kind() == std::io::ErrorKind::AlreadyExists
        );
        assert!(is_told, "{found:?}");
        assert_eq!(read_all(&fs, Path::new(PATH), 1 << 20).unwrap(), copy.head);
        assert_eq!(read_all(&fs, &legacy, 1 << 20).unwrap(), files.head);
    }
    // The same bytes again are no loss.
    publish(&fs, Path::new(PATH), &files.head).unwrap();
    drop(write(&fs).unwrap());
    let reader = JournalReader::open_on(Arc::new(fs), PATH).unwrap();
    assert_eq!(*reader.replica(), state_after(5));
}
