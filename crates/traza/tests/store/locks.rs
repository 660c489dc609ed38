//! One writer for each folder.

use std::path::Path;
use std::sync::Arc;

use durable::{Access, Fs as _, RealFs, SystemClock, read_all};
use durable_sim::SimFs;
use traza::store::{Store, StoreError};

use super::support::{DIR, inline, open};

#[test]
fn a_second_store_on_the_same_folder_is_refused_at_once_and_may_follow_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let clock = Arc::new(SystemClock::start());
        Store::open_with(Arc::new(RealFs), clock, dir.path(), inline())
    };
    let first = open().unwrap();
    let pid = read_all(&RealFs, &dir.path().join("LOCK"), 100).unwrap();
    assert_eq!(pid, format!("{}\n\n", std::process::id()).into_bytes());
    let error = open().unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    drop(first);
    assert!(!RealFs.exists(&dir.path().join("LOCK")).unwrap());
    open().unwrap();
}

#[test]
fn what_a_killed_process_leaves_is_taken_over() {
    // The last is what this implementation writes: whoever has that process id now does not hold its lock.
    for left in [
        "",
        "0\n",
        "4194303999\n",
        "not a number",
        "4194303\n",
        "1",
        "1\n\n",
    ] {
        let fs = SimFs::new();
        drop(open(&fs, &inline()).unwrap());
        let path = Path::new(DIR).join("LOCK");
        let mut file = fs.create_new(&path, Access::Shared).unwrap();
        file.append(left.as_bytes()).unwrap();
        drop(file);
        open(&fs, &inline()).unwrap();
    }
}

#[test]
fn a_lock_file_of_our_own_process_id_is_taken_over() {
    // In a container every start has the same process id.
    let fs = SimFs::new();
    drop(open(&fs, &inline()).unwrap());
    let path = Path::new(DIR).join("LOCK");
    let mut file = fs.create_new(&path, Access::Shared).unwrap();
    file.append(format!("{}\n", std::process::id()).as_bytes())
        .unwrap();
    drop(file);
    open(&fs, &inline()).unwrap();
}

#[test]
fn a_lock_file_that_names_a_living_process_is_respected_and_names_it() {
    let fs = SimFs::new();
    drop(open(&fs, &inline()).unwrap());
    let path = Path::new(DIR).join("LOCK");
    let mut file = fs.create_new(&path, Access::Shared).unwrap();
    // The first process of the machine.
    file.append(b"1\n").unwrap();
    drop(file);
    match open(&fs, &inline()) {
        Err(StoreError::Busy { owner, .. }) => assert_eq!(owner, Some(1)),
        other => panic!("{other:?}"),
    }
    assert_eq!(read_all(&fs, &path, 100).unwrap(), b"1\n");
}

#[test]
fn an_opening_that_fails_gives_the_folder_up() {
    let fs = SimFs::new();
    drop(open(&fs, &inline()).unwrap());
    let current = Path::new(DIR).join("CURRENT");
    fs.remove_file(&current).unwrap();
    let mut file = fs.create_new(&current, Access::Shared).unwrap();
    file.append(b"none").unwrap();
    drop(file);
    for _ in 0..2 {
        match open(&fs, &inline()) {
            Err(StoreError::Damaged { path, .. }) => assert_eq!(path, current),
            other => panic!("{other:?}"),
        }
    }
    assert!(!fs.exists(&Path::new(DIR).join("LOCK")).unwrap());
}
