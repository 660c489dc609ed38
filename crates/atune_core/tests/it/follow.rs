//! What is promised: a reader that is refreshed sees exactly what was published since, refuses a history
//! that is not a continuation of what it read, and goes on when a wrong file was put right.

use std::path::Path;
use std::sync::Arc;

use atune_core::storage::journal::{Fault, JournalError, JournalReader};
use durable::{Fs, publish};
use durable_sim::SimFs;

use crate::journal::{A, B, Journal, OPS, PATH, lines, op_line, put, state_after};

fn data_path(name: &str) -> std::path::PathBuf {
    Path::new("/study.atj.d").join(name)
}

/// Appends what `journal` has more than the disk, and publishes its head.
fn go_on(fs: &SimFs, journal: &Journal) {
    append(fs, journal);
    publish(fs, Path::new(PATH), &journal.head_file()).unwrap();
}

fn append(fs: &SimFs, journal: &Journal) {
    for (name, bytes) in &journal.data {
        let path = data_path(name);
        if !fs.exists(&path).unwrap() {
            put(fs, &path, b"");
        }
        let mut file = fs.open_append(&path).unwrap();
        let len = usize::try_from(file.len().unwrap()).unwrap();
        file.append(bytes.get(len..).unwrap_or_default()).unwrap();
    }
}

/// Makes the data files and the head those of `journal`, whatever stood there.
fn replace(fs: &SimFs, journal: &Journal) {
    for (name, bytes) in &journal.data {
        publish(fs, &data_path(name), bytes).unwrap();
    }
    publish(fs, Path::new(PATH), &journal.head_file()).unwrap();
}

fn first_three() -> Journal {
    let mut journal = Journal::new();
    journal.extent(A, 2, &lines(1, 2));
    journal.extent(A, 3, &lines(3, 3));
    journal
}

fn reader_of(journal: &Journal) -> (SimFs, JournalReader) {
    let fs = journal.files().disk();
    let reader = JournalReader::open_on(Arc::new(fs.clone()), PATH).unwrap();
    (fs, reader)
}

fn is_history_changed(found: &Result<u64, JournalError>) -> bool {
    matches!(found, Err(JournalError::HistoryChanged { .. }))
}

#[test]
fn a_refresh_reads_exactly_the_new_operations() {
    let mut journal = first_three();
    let (fs, mut reader) = reader_of(&journal);
    assert_eq!(reader.refresh().unwrap(), 0);
    assert_eq!(*reader.replica(), state_after(3));
    journal.extent(A, 4, &lines(4, 4));
    go_on(&fs, &journal);
    assert_eq!(reader.refresh().unwrap(), 1);
    assert_eq!(*reader.replica(), state_after(4));
    journal.extent(B, 6, &lines(5, 6));
    journal.extent(A, 8, &lines(7, 8));
    go_on(&fs, &journal);
    assert_eq!(reader.refresh().unwrap(), 4);
    assert_eq!(*reader.replica(), state_after(8));
    assert_eq!((reader.head().ops, reader.extent_count()), (8, 5));
    assert_eq!(reader.refresh().unwrap(), 0);
}

#[test]
fn a_study_without_operations_is_followed_from_its_first() {
    let mut journal = Journal::new();
    let (fs, mut reader) = reader_of(&journal);
    journal.extent(A, 8, &lines(1, 8));
    go_on(&fs, &journal);
    assert_eq!(reader.refresh().unwrap(), 8);
    assert_eq!(*reader.replica(), state_after(8));
}

#[test]
fn appended_bytes_without_a_head_change_nothing() {
    let mut journal = first_three();
    let (fs, mut reader) = reader_of(&journal);
    journal.extent(A, 8, &lines(4, 8));
    append(&fs, &journal);
    assert_eq!(reader.refresh().unwrap(), 0);
    assert_eq!(*reader.replica(), state_after(3));
}

#[test]
fn a_head_that_went_back_is_refused() {
    let short = first_three();
    let mut long = short.clone();
    long.extent(A, 8, &lines(4, 8));
    let (fs, mut reader) = reader_of(&long);
    for earlier in [short.clone(), Journal::new()] {
        go_on(&fs, &earlier);
        assert!(is_history_changed(&reader.refresh()));
        assert_eq!(*reader.replica(), state_after(8));
    }
    go_on(&fs, &long);
    assert_eq!(reader.refresh().unwrap(), 0);
}

#[test]
fn another_history_of_any_length_is_refused() {
    for last in [3, 4, 8] {
        // The same numbers and lengths, but another extent where the last one was read.
        let mut other = Journal::new();
        other.extent(B, 2, &lines(1, 2));
        other.extent(B, 3, &lines(3, 3));
        if last > 3 {
            other.extent(B, last, &lines(4, last));
        }
        let (fs, mut reader) = reader_of(&first_three());
        go_on(&fs, &other);
        let found = reader.refresh();
        assert!(is_history_changed(&found), "{last}: {found:?}");
        assert_eq!(*reader.replica(), state_after(3));
    }
    // Extents cut otherwise: none ends where the last one was read.
    let mut other = Journal::new();
    other.extent(B, 2, &lines(1, 2));
    other.extent(B, 4, &lines(3, 4));
    let (fs, mut reader) = reader_of(&first_three());
    go_on(&fs, &other);
    assert!(is_history_changed(&reader.refresh()));
}

#[test]
fn another_header_is_another_study() {
    let mut journal = first_three();
    let (fs, mut reader) = reader_of(&journal);
    journal.header = journal.header.replace("1000000", "2000000");
    go_on(&fs, &journal);
    assert!(is_history_changed(&reader.refresh()));
}

#[test]
fn a_refresh_recovers_when_a_damaged_extent_was_put_right() {
    let short = first_three();
    let mut good = short.clone();
    good.extent(B, 5, &lines(4, 5));
    good.extent(A, 8, &lines(6, 8));
    let mut bad = good.clone();
    let last = bad.data[A].len() - 2;
    bad.data.get_mut(A).unwrap()[last] ^= 1;
    let (fs, mut reader) = reader_of(&short);
    go_on(&fs, &bad);
    assert!(matches!(
        reader.refresh(),
        Err(JournalError::Corrupt { .. })
    ));
    assert_eq!(*reader.replica(), state_after(5));
    replace(&fs, &good);
    assert_eq!(reader.refresh().unwrap(), 3);
    assert_eq!(*reader.replica(), state_after(8));
}

#[test]
fn a_refresh_recovers_when_a_missing_data_file_came_back() {
    let mut journal = first_three();
    let (fs, mut reader) = reader_of(&journal);
    journal.extent(B, 8, &lines(4, 8));
    publish(&fs, Path::new(PATH), &journal.head_file()).unwrap();
    let found = reader.refresh();
    let is_missing = matches!(
        found,
        Err(JournalError::Corrupt {
            fault: Fault::MissingFile,
            ..
        })
    );
    assert!(is_missing, "{found:?}");
    assert_eq!(*reader.replica(), state_after(3));
    go_on(&fs, &journal);
    assert_eq!(reader.refresh().unwrap(), 5);
    assert_eq!(*reader.replica(), state_after(8));
}

#[test]
fn an_extent_that_was_refused_half_way_is_read_anew_when_it_was_put_right() {
    let short = first_three();
    let mut good = short.clone();
    good.extent(A, 6, &lines(4, 6));
    let mut bad = short.clone();
    // Operation 4 reports another value, 5 is not allowed.
    let other = op_line(4, &OPS[3].replace("0.5", "7.5"));
    let illegal = op_line(5, OPS[2]);
    bad.extent(A, 6, &[other, illegal, lines(6, 6)].concat());
    let (fs, mut reader) = reader_of(&short);
    go_on(&fs, &bad);
    let found = reader.refresh();
    let is_refused = matches!(
        found,
        Err(JournalError::Corrupt {
            fault: Fault::Refused { seq: 5, .. },
            ..
        })
    );
    assert!(is_refused, "{found:?}");
    assert_eq!(reader.replica().seq(), 4);
    replace(&fs, &good);
    reader.refresh().unwrap();
    assert_eq!(*reader.replica(), state_after(6));
}

#[test]
fn a_refresh_after_a_failed_read_sees_the_same_as_without() {
    let mut journal = first_three();
    journal.extent(B, 5, &lines(4, 5));
    journal.extent(A, 8, &lines(6, 8));
    for number in 1.. {
        let (fs, mut reader) = reader_of(&first_three());
        go_on(&fs, &journal);
        fs.fail_nth_read(fs.read_count() + number);
        match reader.refresh() {
            Ok(count) => {
                assert!(number > 3, "no read was met");
                assert_eq!(count, 5);
                break;
            }
            Err(error) => assert!(matches!(error, JournalError::Io { .. }), "{error}"),
        }
        reader.refresh().unwrap();
        assert_eq!(*reader.replica(), state_after(8), "{number}");
    }
}
