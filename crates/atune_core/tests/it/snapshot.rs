//! What is promised: a history that is written as a new study is there whole and durable, or not at all.
//! The disk is stopped and made to fail at every call; the oracle reads the study back.

use std::path::Path;
use std::sync::Arc;

use atune_core::replica::Replica;
use atune_core::storage::journal::record::{Header, OpLine};
use atune_core::storage::journal::{JournalError, JournalReader, data_folder, write_study};
use atune_core::trial::WorkerId;
use durable::Fs;
use durable_sim::{BoxError, Image, Ledger, SimFs, for_each_crash, for_each_failure};

use crate::journal::{A, OPS, PATH, put, state_after};

fn header() -> Header {
    let (created_at_millis, created_by) = (5, WorkerId(0));
    Header {
        format: 6,
        atune: "1.0.0".to_owned(),
        created_at_millis,
        created_by,
    }
}

fn history() -> Vec<OpLine> {
    let line = |(seq, op): (u64, &&str)| OpLine {
        seq,
        worker: WorkerId(0),
        at_millis: 1_000_000 + seq,
        op: serde_json::from_str(op).unwrap(),
    };
    (1..).zip(&OPS).map(line).collect()
}

fn write(fs: &dyn Fs) -> Result<(), JournalError> {
    let history = history();
    let mut extents = history.chunks(3).map(<[OpLine]>::to_vec);
    write_study(fs, Path::new(PATH), &header(), A, &mut extents).map(drop)
}

/// The study on this disk, if there is one. Under its name stands a whole one or nothing.
fn study_on(fs: &SimFs) -> Result<Option<Replica>, BoxError> {
    if !fs.exists(Path::new(PATH))? {
        return Ok(None);
    }
    let reader = JournalReader::open_on(Arc::new(fs.clone()), PATH)?;
    assert_eq!((reader.extent_count(), reader.head().ops), (3, 8));
    assert_eq!(*reader.header(), header());
    Ok(Some(reader.replica().clone()))
}

fn workload(fs: &SimFs, ledger: &mut Ledger<&'static str>) -> Result<(), BoxError> {
    ledger.submit("study");
    write(fs)?;
    ledger.acknowledge("study");
    Ok(())
}

fn absent_or_whole(image: &Image, ledger: &Ledger<&'static str>) -> Result<(), BoxError> {
    match study_on(&image.fs)? {
        Some(replica) => assert_eq!(replica, state_after(8)),
        None => assert!(
            ledger.acknowledged().is_empty(),
            "an acknowledged study is lost"
        ),
    }
    Ok(())
}

#[test]
fn after_a_crash_at_any_call_the_study_is_absent_or_whole() {
    let swept = for_each_crash(workload, absent_or_whole).unwrap();
    assert!(swept.calls >= 10 && swept.images > swept.calls, "{swept:?}");
}

#[test]
fn after_an_error_of_any_call_the_study_is_absent_or_whole() {
    let swept = for_each_failure(workload, absent_or_whole).unwrap();
    assert!(swept.calls >= 10, "{swept:?}");
}

#[test]
fn a_full_disk_is_an_error_and_leaves_no_study() {
    let fs = SimFs::new();
    write(&fs).unwrap();
    let needed = fs.used();
    for capacity in 0..needed {
        let fs = SimFs::with_capacity(capacity);
        let found = write(&fs);
        assert!(
            matches!(found, Err(JournalError::Io { .. })),
            "{capacity}: {found:?}"
        );
        assert!(study_on(&fs).unwrap().is_none(), "{capacity}");
    }
}

#[test]
fn what_stands_there_is_not_replaced() {
    let fs = SimFs::new();
    put(&fs, Path::new(PATH), b"mine");
    let is_refused = |fs: &SimFs| match write(fs) {
        Err(JournalError::Io { source, .. }) => source.kind() == std::io::ErrorKind::AlreadyExists,
        other => panic!("{other:?}"),
    };
    let before = fs.contents();
    assert!(is_refused(&fs));
    assert_eq!(fs.contents(), before);
    let fs = SimFs::new();
    fs.create_dir(&data_folder(Path::new(PATH))).unwrap();
    assert!(is_refused(&fs));
    assert!(!fs.exists(Path::new(PATH)).unwrap());
}

#[test]
fn a_history_without_operations_is_a_study_too() {
    let fs = SimFs::new();
    write_study(&fs, Path::new(PATH), &header(), A, &mut std::iter::empty()).unwrap();
    let reader = JournalReader::open_on(Arc::new(fs), PATH).unwrap();
    assert_eq!(*reader.replica(), Replica::new());
}

#[test]
fn the_same_history_gives_the_same_bytes_and_leaves_nothing_else_behind() {
    let (one, two) = (SimFs::new(), SimFs::new());
    write(&one).unwrap();
    write(&two).unwrap();
    assert_eq!(one.contents(), two.contents());
    let files = one
        .contents()
        .values()
        .filter(|bytes| bytes.is_some())
        .count();
    assert_eq!(files, 2);
}

#[test]
fn a_history_that_a_reader_would_refuse_is_not_written_and_nothing_stays_behind() {
    let fs = SimFs::new();
    let before = fs.contents();
    let without_the_third: Vec<OpLine> = history().into_iter().filter(|op| op.seq != 3).collect();
    let mut extents = without_the_third.chunks(3).map(<[OpLine]>::to_vec);
    let refused = write_study(&fs, Path::new(PATH), &header(), A, &mut extents);
    assert!(
        matches!(refused, Err(JournalError::Corrupt { .. })),
        "{refused:?}"
    );
    assert_eq!(fs.contents(), before);
    write(&fs).unwrap();
    assert!(study_on(&fs).unwrap().is_some());
}

#[test]
fn a_data_file_whose_name_no_reader_takes_is_refused_before_anything_is_written() {
    let fs = SimFs::new();
    let before = fs.contents();
    for name in ["../data-1", "other", "data-/x", ""] {
        let mut extents = history().into_iter().map(|op| vec![op]);
        let refused = write_study(&fs, Path::new(PATH), &header(), name, &mut extents);
        assert!(
            matches!(refused, Err(JournalError::Corrupt { .. })),
            "{name:?}"
        );
    }
    assert_eq!(fs.contents(), before);
}
