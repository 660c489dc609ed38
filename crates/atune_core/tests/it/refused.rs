//! What is promised: what the reader refuses, the writer refuses too, when it opens the study and when
//! it is about to commit to one that was sound before. Neither changes a byte of the study.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atune_core::storage::journal::{
    Fault, JournalError, JournalOptions, JournalReader, JournalStorage,
};
use atune_core::storage::{Storage, StorageError};
use atune_core::trial::StudyId;
use durable::{Access, Fs, RealFs, publish};
use durable_sim::SimFs;
use serde_json::Value;

use crate::journal::{A, B, Files, HEADER, Journal, PATH, Pointer, lines, op_line, put};
use crate::shared::{on_sim, unthreaded};

/// Bits that are turned: one, and all.
const PATTERNS: [u8; 2] = [0x01, 0xff];

fn open(fs: &SimFs) -> Result<JournalStorage, JournalError> {
    let (fs, clock, identity) = on_sim(fs, 5);
    JournalStorage::open_on(fs, clock, identity, PATH, unthreaded())
}

fn commit(storage: &JournalStorage) -> Result<(), JournalError> {
    match storage.set_study_user_attr(StudyId(0), "note", &Value::Null) {
        Ok(()) => Ok(()),
        Err(StorageError::Journal(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}

/// The files that hold the study, without those of the lease.
fn study(fs: &SimFs) -> BTreeMap<PathBuf, Vec<u8>> {
    let holds_it = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path == Path::new(PATH) || name.starts_with("data-") || name.starts_with("legacy-")
    };
    fs.contents()
        .into_iter()
        .filter(|(path, _)| holds_it(path))
        .filter_map(|(path, bytes)| Some((path, bytes?)))
        .collect()
}

/// Puts these files on the disk, in the place of those that are there.
fn replace(fs: &SimFs, files: &Files) {
    for (name, bytes) in &files.data {
        publish(fs, &Path::new("/study.atj.d").join(name), bytes).unwrap();
    }
    publish(fs, Path::new(PATH), &files.head).unwrap();
}

/// The reader's refusal, which must be the writer's as well. `None`: it reads as if it were whole.
fn refused_by_both(files: &Files, what: &str) -> Option<JournalError> {
    let refusal = files.open().err()?;
    let fs = files.disk();
    let calls = fs.calls().len();
    let writer = open(&fs).expect_err(what);
    assert_eq!(writer.to_string(), refusal.to_string(), "{what}");
    assert_eq!(fs.calls().len(), calls, "{what}: nothing is touched");
    Some(refusal)
}

/// A handle that found `sound` meets `files` at its next commit; answers what it says.
fn next_commit(sound: &Files, files: &Files, what: &str) -> Result<(), JournalError> {
    let fs = sound.disk();
    let storage = open(&fs).unwrap();
    replace(&fs, files);
    let before = study(&fs);
    let found = commit(&storage);
    let after = study(&fs);
    if found.is_err() {
        assert_eq!(after, before, "{what}");
        replace(&fs, sound);
        // The damage is gone, and the same handle goes on.
        commit(&storage).unwrap();
    } else {
        // What it did not read again it did not touch either: its own data file is a new one.
        let is_kept = |(path, bytes): (&PathBuf, &Vec<u8>)| {
            path == Path::new(PATH) || after.get(path) == Some(bytes)
        };
        assert!(before.iter().all(is_kept), "{what}");
        assert_eq!(after.len(), before.len() + 1, "{what}");
    }
    found
}

/// The first extents of [`Journal::small`], which a handle has read when the others come.
fn first_three() -> Journal {
    let mut journal = Journal::new();
    journal.extent(A, 2, &lines(1, 2));
    journal.extent(B, 3, &lines(3, 3));
    journal
}

/// Every cut and every flip of one file of the small study.
fn damages(name: Option<&str>) -> Vec<(String, Files)> {
    let whole = Journal::small().files();
    let bytes = |files: &Files| match name {
        Some(name) => files.data[name].clone(),
        None => files.head.clone(),
    };
    let with = |bytes: Vec<u8>| {
        let mut files = whole.clone();
        match name {
            Some(name) => drop(files.data.insert(name.to_owned(), bytes)),
            None => files.head = bytes,
        }
        files
    };
    let name = name.unwrap_or("head");
    let mut all = Vec::new();
    for at in 0..bytes(&whole).len() {
        let mut cut = bytes(&whole);
        cut.truncate(at);
        all.push((format!("{name} cut at {at}"), with(cut)));
        for pattern in PATTERNS {
            let mut flipped = bytes(&whole);
            flipped[at] ^= pattern;
            all.push((format!("{name} byte {at} ^ {pattern:#x}"), with(flipped)));
        }
    }
    all
}

#[test]
fn a_writer_opens_nothing_that_is_cut_or_changed_anywhere() {
    let mut harmless = 0;
    for name in [None, Some(A), Some(B)] {
        for (what, files) in damages(name) {
            let refusal = refused_by_both(&files, &what);
            assert!(name.is_none() || refusal.is_some(), "{what}");
            harmless += usize::from(refusal.is_none());
        }
    }
    // The three values of the header that are plain text: see `damage`.
    assert!(harmless <= 13 * PATTERNS.len(), "{harmless}");
}

#[test]
fn a_commit_replaces_no_head_that_is_cut_or_changed_anywhere() {
    let sound = Journal::small().files();
    for (what, files) in damages(None) {
        assert!(next_commit(&sound, &files, &what).is_err(), "{what}");
    }
}

#[test]
fn a_commit_builds_upon_no_extent_that_is_cut_or_changed_anywhere() {
    let first = first_three();
    let sound = first.files();
    for name in [A, B] {
        let known = first.data[name].len();
        for (what, files) in damages(Some(name)) {
            let at = files.data[name]
                .iter()
                .zip(&Journal::small().data[name])
                .position(|(is, was)| is != was)
                .unwrap_or(files.data[name].len());
            let found = next_commit(&sound, &files, &what);
            if at >= known {
                assert!(
                    matches!(found, Err(JournalError::Corrupt { .. })),
                    "{what}: {found:?}"
                );
            }
        }
    }
}

/// Journals that begin as [`first_three`] and go on with a lie.
fn forgeries() -> Vec<(&'static str, Journal)> {
    let third = |forge: &dyn Fn(&mut crate::journal::Meta)| {
        let mut journal = first_three();
        journal.forged(A, 6, &lines(4, 6), forge);
        journal.extent(B, 8, &lines(7, 8));
        journal
    };
    let with_last = |payload: String| {
        let mut journal = first_three();
        journal.extent(A, 6, &lines(4, 6));
        journal.extent(B, 8, &payload);
        journal
    };
    let small = Journal::small;
    let tip = small().tip.unwrap();
    let mut all = Vec::new();
    let mut add = |what, journal| all.push((what, journal));
    let mut journal = small();
    let file = "data-000000000000000c-0000000c-000000000000000c".to_owned();
    journal.tip.as_mut().unwrap().file = file;
    add("a data file that is missing", journal);
    let mut journal = small();
    let len = first_three().data[A].len();
    let foreign = small().data[B].clone();
    journal.data.get_mut(A).unwrap().splice(len.., foreign);
    add("a foreign extent", journal);
    for name in ["../study.atj", "data-a/b", "..", "/etc/passwd"] {
        let mut journal = small();
        journal.tip.as_mut().unwrap().file = name.to_owned();
        add("a name in the head that leads elsewhere", journal);
        let journal = third(&|meta| meta.previous.as_mut().unwrap().file = name.to_owned());
        add("a name in an extent that leads elsewhere", journal);
    }
    add("a loop", third(&|meta| meta.previous = Some(tip.clone())));
    for (ops, bytes) in [(1, 0), (-1, 0), (0, 1), (0, -1)] {
        let mut journal = small();
        journal.ops = journal.ops.checked_add_signed(ops).unwrap();
        journal.bytes = journal.bytes.checked_add_signed(bytes).unwrap();
        add("totals that do not add up", journal);
    }
    let mut journal = small();
    (journal.ops, journal.bytes) = (u64::MAX, u64::MAX);
    add("the largest totals", journal);
    let eight = lines(8, 8);
    let twice = lines(7, 7) + &eight.replace(r#""seq":8"#, r#""seq":7"#);
    add("a sequence number twice", with_last(twice));
    let missing = lines(7, 7) + &eight.replace(r#""seq":8"#, r#""seq":9"#);
    add("a sequence number that is missing", with_last(missing));
    let illegal = op_line(8, r#"{"kind":"heartbeat","trial":0,"at_millis":1}"#);
    add("an illegal operation", with_last(lines(7, 7) + &illegal));
    add("a checksum that lies", third(&|meta| meta.checksum ^= 1));
    add("a long metadata line", third(&|meta| meta.padding = 2048));
    add(
        "a payload of three gigabytes",
        third(&|meta| meta.payload_len = 3 << 30),
    );
    let mut journal = small();
    let file = B.to_owned();
    journal.tip = Some(Pointer {
        file,
        offset: u64::MAX,
        len: u64::MAX,
    });
    add("a pointer beyond everything", journal);
    let mut journal = small();
    journal.header = HEADER.replace("\"format\":6", "\"format\":7");
    add("a newer version", journal);
    all
}

#[test]
fn a_forged_history_is_refused_by_reader_and_writer_alike() {
    let sound = first_three().files();
    for (what, journal) in forgeries() {
        let files = journal.files();
        let refusal = refused_by_both(&files, what).expect(what);
        let is_typed = matches!(
            refusal,
            JournalError::Corrupt { .. } | JournalError::Unsupported { found: 7, .. }
        );
        assert!(is_typed, "{what}: {refusal:?}");
        let found = next_commit(&sound, &files, what).expect_err(what);
        let is_typed = matches!(
            found,
            JournalError::Corrupt { .. }
                | JournalError::Unsupported { found: 7, .. }
                | JournalError::HistoryChanged { .. }
        );
        assert!(is_typed, "{what}: {found:?}");
    }
}

#[test]
fn a_head_that_goes_back_or_leads_elsewhere_is_not_replaced() {
    let sound = Journal::small().files();
    let mut elsewhere = Journal::new();
    elsewhere.extent(B, 2, &lines(1, 2));
    elsewhere.extent(B, 8, &lines(3, 8));
    for journal in [first_three(), Journal::new(), elsewhere] {
        let found = next_commit(&sound, &journal.files(), "another history");
        let is_typed = matches!(
            found,
            Err(JournalError::HistoryChanged { .. } | JournalError::Corrupt { .. })
        );
        assert!(is_typed, "{found:?}");
    }
}

#[test]
fn an_old_file_that_is_damaged_is_not_migrated() {
    let header = HEADER.replace("\"format\":6", "\"format\":3") + "\n";
    let bad = lines(1, 8).replace("create-trial", "create-planet");
    let seq_twice = lines(1, 3) + &lines(3, 3);
    for body in [bad, seq_twice, "\n".to_owned(), "\0".repeat(3000) + "\n"] {
        let files = Files {
            head: (header.clone() + &body).into_bytes(),
            data: BTreeMap::new(),
        };
        let refusal = refused_by_both(&files, &body).unwrap();
        assert!(
            matches!(refusal, JournalError::Corrupt { .. }),
            "{refusal:?}"
        );
    }
}

#[test]
fn what_is_no_study_is_not_opened_for_writing() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("study.atj");
    let open = || JournalStorage::open(&path, JournalOptions::default());
    assert!(matches!(open(), Err(JournalError::Io { .. })));
    RealFs.create_dir(&path).unwrap();
    let Err(JournalError::Io {
        path: named,
        source,
        ..
    }) = open()
    else {
        panic!("a folder was opened");
    };
    assert_eq!(named, path);
    assert_eq!(source.kind(), std::io::ErrorKind::IsADirectory);
    RealFs.remove_dir(&path).unwrap();
    put(&RealFs, &path, b"notes\n");
    assert!(matches!(open(), Err(JournalError::NotAStudy { .. })));
    // Nor is anything made beside it.
    assert_eq!(
        RealFs.read_dir(temp.path()).unwrap(),
        std::slice::from_ref(&path)
    );
}

#[test]
fn three_gigabytes_without_a_newline_are_refused_wherever_they_stand() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("study.atj");
    let data = temp.path().join("study.atj.d");
    RealFs.create_dir(&data).unwrap();
    let hole = |path: &Path, text: &str| {
        RealFs.remove_file(path).ok();
        let mut file = RealFs.create_new(path, Access::Shared).unwrap();
        file.append(text.as_bytes()).unwrap();
        file.set_len(3 << 30).unwrap();
    };
    let refused = |what: &str| {
        let reader = JournalReader::open_on(Arc::new(RealFs), &path).expect_err(what);
        let writer = JournalStorage::open(&path, JournalOptions::default()).expect_err(what);
        assert_eq!(reader.to_string(), writer.to_string(), "{what}");
        match reader {
            JournalError::Corrupt { fault, .. } => fault,
            other => panic!("{what}: {other:?}"),
        }
    };
    hole(&path, HEADER);
    assert_eq!(refused("the header"), Fault::LineTooLong { max: 2048 });
    hole(&path, &format!("{HEADER}\n{{\"tip\":"));
    assert_eq!(refused("the head"), Fault::NotTwoLines);
    let old = HEADER.replace("\"format\":6", "\"format\":2");
    hole(&path, &format!("{old}\n{}", lines(1, 2)));
    assert_eq!(
        refused("an old line"),
        Fault::LineTooLong { max: 256 << 20 }
    );

    let mut journal = Journal::new();
    journal.extent(A, 2, &lines(1, 2));
    hole(&data.join(A), "{\"magic\":");
    publish(&RealFs, &path, &journal.head_file()).unwrap();
    refused("an extent of which the pointer knows better");
    journal.tip.as_mut().unwrap().len = 3 << 30;
    publish(&RealFs, &path, &journal.head_file()).unwrap();
    assert_eq!(refused("a metadata line"), Fault::LineTooLong { max: 2048 });

    let mut journal = Journal::new();
    journal.forged(A, 2, "", |meta| meta.payload_len = 3 << 30);
    hole(
        &data.join(A),
        std::str::from_utf8(&journal.data[A]).unwrap(),
    );
    let tip = journal.tip.as_mut().unwrap();
    tip.len += 3 << 30;
    RealFs
        .open_append(&data.join(A))
        .unwrap()
        .set_len(tip.len)
        .unwrap();
    publish(&RealFs, &path, &journal.head_file()).unwrap();
    let too_long = Fault::TooLong {
        what: "an extent's payload",
        len: 3 << 30,
        max: 256 << 20,
    };
    assert_eq!(refused("a payload"), too_long);
}
