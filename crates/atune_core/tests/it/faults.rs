//! What is promised: what the disk refuses is told with the file and the system's reason, the study stays
//! as it was, and the same handle goes on when the disk does.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atune_core::storage::conformance::example_config;
use atune_core::storage::journal::{JournalError, JournalReader, JournalStorage, data_folder};
use atune_core::storage::{Storage, StorageError};
use atune_core::trial::{Direction, StudyId};
use durable_sim::{EIO, ENOSPC, EROFS, ShortWrite, SimFs};
use rustix::fs::Mode;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::crash::PATH;
use crate::journal::{Files, HEADER, Journal, lines, state_after};
use crate::shared::{on_sim, unthreaded};

fn open(fs: &SimFs) -> Result<JournalStorage, JournalError> {
    let (fs, clock, identity) = on_sim(fs, 5);
    JournalStorage::open_on(fs, clock, identity, PATH, unthreaded())
}

fn note(storage: &JournalStorage, value: u64) -> Result<(), JournalError> {
    match storage.set_study_user_attr(StudyId(0), &format!("k{value}"), &value.into()) {
        Ok(()) => Ok(()),
        Err(StorageError::Journal(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}

/// The notes of the study, read from the disk.
fn notes(fs: &SimFs) -> Vec<u64> {
    let reader = JournalReader::open_on(Arc::new(fs.clone()), PATH).unwrap();
    let attrs = &reader.replica().studies()[0].user_attrs;
    attrs
        .values()
        .map(|value| value.as_u64().unwrap())
        .collect()
}

/// The system's reason, and the file, of an error that must have both.
fn reason(error: &JournalError) -> (i32, PathBuf) {
    let (path, source) = match error {
        JournalError::Io { path, source, .. } | JournalError::Unsettled { path, source } => {
            (path, source)
        }
        other => panic!("{other:?}"),
    };
    let names_it = error.to_string().contains(&*path.to_string_lossy());
    assert!(names_it, "{error}");
    (source.raw_os_error().unwrap(), path.clone())
}

fn is_of_the_study(path: &Path) -> bool {
    path == Path::new("/")
        || path == Path::new(PATH)
        || path.starts_with(data_folder(Path::new(PATH)))
}

#[test]
fn a_read_only_disk_is_told_and_the_study_is_read_and_goes_on_afterwards() {
    let fs = Journal::small().files().disk();
    let early = open(&fs).unwrap();
    fs.set_read_only(true);
    let before = fs.contents();
    let late = open(&fs).unwrap();
    for storage in [&early, &late] {
        let error = note(storage, 1).unwrap_err();
        let (errno, path) = reason(&error);
        assert_eq!(errno, EROFS);
        assert!(is_of_the_study(&path), "{error}");
        assert_eq!(storage.study(StudyId(0)).unwrap().config.name, "small");
    }
    assert_eq!(fs.contents(), before);
    let reader = JournalReader::open_on(Arc::new(fs.clone()), PATH).unwrap();
    assert_eq!(*reader.replica(), state_after(8));
    fs.set_read_only(false);
    note(&early, 2).unwrap();
    assert_eq!(notes(&fs), [2]);
}

#[test]
fn nothing_is_created_or_migrated_on_a_read_only_disk() {
    let fs = SimFs::new();
    fs.set_read_only(true);
    let (disk, clock, identity) = on_sim(&fs, 1);
    let made = JournalStorage::create_on(disk, clock, identity, PATH, unthreaded());
    let (errno, path) = reason(&made.unwrap_err());
    assert_eq!(errno, EROFS);
    assert!(
        path.to_string_lossy().starts_with(PATH),
        "{}",
        path.display()
    );
    assert!(fs.contents().is_empty());

    let header = HEADER.replace("\"format\":6", "\"format\":2");
    let fs = Files {
        head: format!("{header}\n{}", lines(1, 8)).into_bytes(),
        data: [].into(),
    }
    .disk();
    fs.set_read_only(true);
    let before = fs.contents();
    let (errno, path) = reason(&open(&fs).unwrap_err());
    assert_eq!(errno, EROFS);
    assert!(is_of_the_study(&path), "{}", path.display());
    assert_eq!(fs.contents(), before);
    let reader = JournalReader::open_on(Arc::new(fs), PATH).unwrap();
    assert_eq!(*reader.replica(), state_after(8));
}

/// On a thread whose user may not pass over permissions, even when that is root.
fn without_privileges(run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, sets).unwrap();
        run();
    });
    thread.join().unwrap();
}

#[test]
fn a_folder_that_may_not_be_written_is_told_and_the_study_goes_on_when_it_may() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().to_owned();
    without_privileges(move || {
        let path = folder.join("study.atj");
        let allow = |path: &Path, mode: u32| {
            rustix::fs::chmod(path, Mode::from_raw_mode(mode)).unwrap();
        };
        let denied = |found: Result<(), JournalError>| {
            let error = found.unwrap_err();
            let JournalError::Io { path, source, .. } = &error else {
                panic!("{error:?}")
            };
            assert_eq!(source.kind(), ErrorKind::PermissionDenied);
            assert!(path.starts_with(&folder), "{error}");
        };
        allow(&folder, 0o555);
        denied(JournalStorage::create(&path, unthreaded()).map(drop));
        allow(&folder, 0o755);
        let storage = JournalStorage::create(&path, unthreaded()).unwrap();
        let config = example_config("a", &[Direction::Minimize]);
        storage.create_study(&config).unwrap();
        // The folder of the data files, and the one of the head, each on its own.
        for (value, closed) in [(1, data_folder(&path)), (2, folder.clone())] {
            allow(&closed, 0o555);
            let other = JournalStorage::open(&path, unthreaded()).unwrap();
            for storage in [&storage, &other] {
                denied(note(storage, value));
                let reader = JournalReader::open(&path).unwrap();
                assert_eq!(reader.head().ops, value);
            }
            allow(&closed, 0o755);
            note(&storage, value).unwrap();
        }
        assert_eq!(JournalReader::open(&path).unwrap().head().ops, 3);
    });
}

/// Opens the study, if need be twice, and notes four numbers, each once.
fn work(fs: &SimFs, told: &mut Vec<JournalError>) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    let storage = loop {
        match open(fs) {
            Ok(storage) => break storage,
            Err(error) => told.push(error),
        }
    };
    for value in 1..=4 {
        match note(&storage, value) {
            Ok(()) => acknowledged.push(value),
            Err(error) => told.push(error),
        }
    }
    acknowledged
}

#[test]
fn every_call_that_fails_is_told_with_its_file_and_reason_or_does_no_harm() {
    let fs = Journal::small().files().disk();
    let done = fs.calls().len() as u64;
    work(&fs, &mut Vec::new());
    let calls = fs.calls().len() as u64;
    let mut told_count = 0;
    for errno in [EIO, ENOSPC, EROFS] {
        for number in done + 1..=calls {
            let fs = Journal::small().files().disk();
            fs.fail_nth(number, errno, ShortWrite::Bytes(7));
            let mut told = Vec::new();
            let acknowledged = work(&fs, &mut told);
            for error in &told {
                let (found, path) = reason(error);
                assert_eq!(found, errno, "{error}");
                assert!(is_of_the_study(&path), "{error}");
            }
            assert!(told.len() <= 1, "{told:?}");
            told_count += told.len();
            let found = notes(&fs);
            assert!(acknowledged.iter().all(|value| found.contains(value)));
            let is_unsettled =
                |error: &JournalError| matches!(error, JournalError::Unsettled { .. });
            let uncertain = told.iter().filter(|error| is_unsettled(error)).count();
            assert_eq!(
                found.len(),
                acknowledged.len() + uncertain,
                "{errno} at {number}"
            );
        }
    }
    assert!(told_count > 30, "{told_count}");
}

#[test]
fn every_read_that_fails_is_told_with_its_file_and_reason_or_does_no_harm() {
    let healthy = Journal::small().files().disk();
    work(&healthy, &mut Vec::new());
    let mut told_count = 0;
    for number in 1..=healthy.read_count() {
        let fs = Journal::small().files().disk();
        fs.fail_nth_read(number);
        let mut told = Vec::new();
        let acknowledged = work(&fs, &mut told);
        for error in &told {
            let (errno, path) = reason(error);
            assert_eq!(errno, EIO);
            assert!(is_of_the_study(&path), "{error}");
        }
        assert!(told.len() <= 1, "{told:?}");
        told_count += told.len();
        assert_eq!(notes(&fs), acknowledged, "{number}");
    }
    assert!(told_count > 5, "{told_count}");
}
