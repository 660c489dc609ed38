//! What is promised: a damaged study is refused with an error that names the file, or it reads as it was
//! written; never a panic, never a shorter history. Every file of a small study is cut at every length,
//! and every byte of it is changed in several ways. The oracle is the state of the whole study.
//!
//! Every byte of a data file is covered, for all of them are published. In the file at the study's path
//! three values are plain text that nothing covers: `atune`, `created_at_millis` and `created_by`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use atune_core::storage::journal::{JournalError, JournalReader};
use durable::Fs;

use crate::journal::{A, B, Files, HEADER, Journal, PATH, put, state_after};

/// Bits that are turned: single ones, case, all.
const PATTERNS: [u8; 5] = [0x01, 0x04, 0x10, 0x20, 0xff];

/// Opens damaged files; answers whether they read as if they were whole.
fn reads_whole(files: &Files, what: &str) -> bool {
    let path = match files.open() {
        Ok(reader) => {
            assert_eq!(*reader.replica(), state_after(8), "{what}");
            assert_eq!(reader.head().ops, 8, "{what}");
            return true;
        }
        Err(
            JournalError::Io { path, .. }
            | JournalError::Corrupt { path, .. }
            | JournalError::NotAStudy { path, .. }
            | JournalError::Unsupported { path, .. },
        ) => path,
        Err(other) => panic!("{what}: {other}"),
    };
    let names_a_file = path == Path::new(PATH) || path.starts_with("/study.atj.d");
    assert!(names_a_file, "{what}: {}", path.display());
    false
}

/// The bytes of the header's values that nothing covers.
fn uncovered() -> BTreeSet<usize> {
    let mut bytes = BTreeSet::new();
    for (before, value) in [
        (r#""atune":""#, "0.0.0"),
        (r#""created_at_millis":"#, "1000000"),
        (r#""created_by":"#, "0"),
    ] {
        let start = HEADER.find(before).unwrap() + before.len();
        bytes.extend(start..start + value.len());
    }
    bytes
}

#[test]
fn a_study_written_by_hand_is_read_whole() {
    let journal = Journal::small();
    assert!(reads_whole(&journal.files(), "whole"));
    let reader = journal.open().unwrap();
    assert_eq!(
        (reader.extent_count(), reader.head().bytes),
        (4, journal.bytes)
    );
}

#[test]
fn a_head_file_cut_at_any_length_is_refused() {
    let files = Journal::small().files();
    for len in 0..files.head.len() {
        let mut cut = files.clone();
        cut.head.truncate(len);
        assert!(!reads_whole(&cut, &format!("head cut at {len}")));
    }
}

#[test]
fn a_data_file_cut_at_any_length_is_refused() {
    let files = Journal::small().files();
    for name in [A, B] {
        for len in 0..files.data[name].len() {
            let mut cut = files.clone();
            cut.data.get_mut(name).unwrap().truncate(len);
            assert!(!reads_whole(&cut, &format!("{name} cut at {len}")));
        }
    }
}

#[test]
fn a_changed_byte_of_the_head_file_is_refused_except_in_the_three_plain_values() {
    let files = Journal::small().files();
    let mut harmless = BTreeSet::new();
    for at in 0..files.head.len() {
        for pattern in PATTERNS {
            let mut changed = files.clone();
            changed.head[at] ^= pattern;
            if reads_whole(&changed, &format!("head byte {at} ^ {pattern:#x}")) {
                harmless.insert(at);
            }
        }
    }
    assert_eq!(harmless, uncovered());
}

#[test]
fn a_changed_byte_of_a_data_file_is_refused() {
    let files = Journal::small().files();
    for name in [A, B] {
        for at in 0..files.data[name].len() {
            for pattern in PATTERNS {
                let mut changed = files.clone();
                changed.data.get_mut(name).unwrap()[at] ^= pattern;
                let what = format!("{name} byte {at} ^ {pattern:#x}");
                assert!(!reads_whole(&changed, &what));
            }
        }
    }
}

#[test]
fn unpublished_bytes_are_never_read_and_are_told() {
    let mut files = Journal::small().files();
    let published: u64 = files.data[B].len() as u64;
    files
        .data
        .get_mut(B)
        .unwrap()
        .extend_from_slice(b"{\"magic\":\"atune.ext\xff\0");
    files
        .data
        .insert("data-never-published".to_owned(), b"torn".to_vec());
    assert!(reads_whole(&files, "torn append"));
    let uses = files.open().unwrap().data_files().unwrap();
    let told: Vec<_> = uses
        .iter()
        .map(|file| (file.extents, file.published, file.unpublished))
        .collect();
    let a = files.data[A].len() as u64;
    assert_eq!(told, [(2, a, 0), (2, published, 21), (0, 0, 4)]);
    assert!(uses.iter().all(|f| f.len == f.published + f.unpublished));
}

#[test]
fn a_failing_read_is_an_error_of_the_system_and_the_next_open_succeeds() {
    let files = Journal::small().files();
    let healthy = files.disk();
    JournalReader::open_on(Arc::new(healthy.clone()), PATH).unwrap();
    let reads = healthy.read_count();
    assert!(reads >= 4, "{reads}");
    for number in 1..=reads {
        let fs = files.disk();
        fs.fail_nth_read(number);
        let found = JournalReader::open_on(Arc::new(fs.clone()), PATH);
        assert!(
            matches!(found, Err(JournalError::Io { .. })),
            "{number}: {found:?}"
        );
        JournalReader::open_on(Arc::new(fs), PATH).unwrap();
    }
}

#[test]
fn a_failing_read_of_the_list_of_data_files_is_an_error_of_the_system() {
    let fs = Journal::small().files().disk();
    let reader = JournalReader::open_on(Arc::new(fs.clone()), PATH).unwrap();
    let before = fs.read_count();
    reader.data_files().unwrap();
    for number in 1..=fs.read_count() - before {
        let fs = Journal::small().files().disk();
        let reader = JournalReader::open_on(Arc::new(fs.clone()), PATH).unwrap();
        fs.fail_nth_read(fs.read_count() + number);
        let found = reader.data_files();
        assert!(
            matches!(found, Err(JournalError::Io { .. })),
            "{number}: {found:?}"
        );
    }
}

#[test]
fn a_study_without_its_folder_names_the_missing_data_file() {
    let fs = durable_sim::SimFs::new();
    put(&fs, Path::new(PATH), &Journal::small().head_file());
    assert!(!fs.exists(Path::new("/study.atj.d")).unwrap());
    let found = JournalReader::open_on(Arc::new(fs), PATH);
    let Err(JournalError::Corrupt { path, fault, .. }) = found else {
        panic!("{found:?}")
    };
    assert_eq!(path, Path::new("/study.atj.d").join(B));
    assert_eq!(fault, atune_core::storage::journal::Fault::MissingFile);
}
