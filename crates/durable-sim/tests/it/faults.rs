//! Promise: a fault happens at the call that was named, once, with the error that was asked for, and
//! has the effect that a real one may have. Oracle: written down by hand.

use std::io;
use std::path::Path;

use durable::{Access, Fs as _, FsFile, read_all};
use durable_sim::{Action, EIO, ENOSPC, EROFS, ShortWrite, SimFs, Survival, is_stopped};

fn create(fs: &SimFs, path: &str) -> Box<dyn FsFile> {
    fs.create_new(Path::new(path), Access::Shared).unwrap()
}

fn content(fs: &SimFs, path: &str) -> Vec<u8> {
    read_all(fs, Path::new(path), 1 << 20).unwrap()
}

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|e| e.raw_os_error())
}

#[test]
fn every_mutating_call_is_numbered_and_described() {
    let fs = SimFs::new();
    let mut file = create(&fs, "f");
    file.append(b"12345").unwrap();
    file.append(b"678").unwrap();
    file.sync_data().unwrap();
    file.set_len(4).unwrap();
    file.sync().unwrap();
    fs.hard_link(Path::new("f"), Path::new("g")).unwrap();
    fs.rename(Path::new("g"), Path::new("h")).unwrap();
    fs.remove_file(Path::new("h")).unwrap();
    fs.create_dir(Path::new("d")).unwrap();
    fs.sync_dir(Path::new("d")).unwrap();
    fs.remove_dir(Path::new("d")).unwrap();
    fs.remove_dir(Path::new("d")).unwrap_err();
    let calls = fs.calls();
    assert!(
        calls
            .iter()
            .zip(1..)
            .all(|(call, number)| call.number == number)
    );
    assert_eq!(calls[2].action, Action::Append { offset: 5, len: 3 });
    let texts: Vec<String> = calls.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "call 1: create f",
            "call 2: append 5 bytes at 0 to f",
            "call 3: append 3 bytes at 5 to f",
            "call 4: sync the data of f",
            "call 5: set the length of f to 4",
            "call 6: sync f",
            "call 7: link f as g",
            "call 8: rename g to h",
            "call 9: remove h",
            "call 10: create folder d",
            "call 11: sync folder d",
            "call 12: remove folder d",
            "call 13: remove folder d",
        ]
    );
}

#[test]
fn the_named_call_fails_once_and_changes_nothing() {
    let fs = SimFs::new();
    fs.fail_nth(2, EIO, ShortWrite::Nothing);
    create(&fs, "a");
    let refused = fs.create_new(Path::new("b"), Access::Shared);
    assert_eq!(errno(refused), Some(EIO));
    assert!(!fs.exists(Path::new("b")).unwrap());
    create(&fs, "b");
}

#[test]
fn a_failed_append_may_have_written_a_part() {
    let fs = SimFs::new();
    fs.fail_nth(2, ENOSPC, ShortWrite::Bytes(3));
    let mut file = create(&fs, "f");
    let error = file.append(b"abcdef").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(content(&fs, "f"), b"abc");
    for seed in 0..50 {
        let fs = SimFs::new();
        fs.fail_nth(2, EIO, ShortWrite::Seeded(seed));
        create(&fs, "f").append(b"abcdef").unwrap_err();
        assert!((1..6).contains(&content(&fs, "f").len()));
    }
}

#[test]
fn a_failed_sync_poisons_its_handle() {
    let fs = SimFs::new();
    fs.fail_nth(3, EIO, ShortWrite::Nothing);
    let mut file = create(&fs, "f");
    file.append(b"bytes").unwrap();
    assert_eq!(errno(file.sync()), Some(EIO));
    file.sync().unwrap_err();
    file.append(b"more").unwrap_err();
    file.set_len(0).unwrap_err();
    assert_eq!(content(&fs, "f"), b"bytes", "reads go on");
    assert_eq!(
        fs.calls().len(),
        3,
        "a poisoned handle does not reach the disk"
    );
}

#[test]
fn a_failed_sync_loses_its_bytes_although_a_later_sync_succeeds() {
    let fs = SimFs::new();
    let mut file = create(&fs, "f");
    fs.sync_dir(Path::new("/")).unwrap();
    file.append(b"one").unwrap();
    file.sync().unwrap();
    file.append(b"two").unwrap();
    fs.fail_nth(fs.calls().len() as u64 + 1, EIO, ShortWrite::Nothing);
    file.sync().unwrap_err();

    let mut other = fs.open_append(Path::new("f")).unwrap();
    other.append(b"three").unwrap();
    other.sync().unwrap();
    assert_eq!(
        content(&fs, "f"),
        b"onetwothree",
        "the page cache still shows it"
    );
    for survival in [Survival::Nothing, Survival::Seeded(1), Survival::Seeded(2)] {
        assert_eq!(content(&fs.after_crash(survival), "f"), b"one\0\0\0three");
    }

    // Writing the bytes anew is what helps.
    other.set_len(3).unwrap();
    other.append(b"twothree").unwrap();
    other.sync().unwrap();
    assert_eq!(
        content(&fs.after_crash(Survival::Nothing), "f"),
        b"onetwothree"
    );
}

#[test]
fn a_failed_folder_sync_loses_its_names_although_a_later_one_succeeds() {
    let fs = SimFs::new();
    create(&fs, "f").sync().unwrap();
    fs.fail_nth(3, EIO, ShortWrite::Nothing);
    fs.sync_dir(Path::new("/")).unwrap_err();
    fs.sync_dir(Path::new("/")).unwrap();
    assert!(fs.exists(Path::new("f")).unwrap());
    assert!(fs.after_crash(Survival::Nothing).contents().is_empty());

    fs.rename(Path::new("f"), Path::new("g")).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    assert!(
        fs.after_crash(Survival::Nothing)
            .exists(Path::new("g"))
            .unwrap()
    );
}

#[test]
fn a_full_disk_refuses_bytes_and_takes_them_again_after_a_removal() {
    let fs = SimFs::with_capacity(10);
    let mut a = create(&fs, "a");
    a.append(&[1; 6]).unwrap();
    let mut b = create(&fs, "b");
    assert_eq!(errno(b.append(&[2; 6])), Some(ENOSPC));
    assert_eq!(content(&fs, "b"), [2; 4], "what fits is written");
    assert_eq!(errno(b.set_len(5)), Some(ENOSPC));
    assert_eq!(fs.used(), 10);

    fs.remove_file(Path::new("a")).unwrap();
    assert_eq!(
        errno(b.append(&[2])),
        Some(ENOSPC),
        "an open file keeps its room"
    );
    drop(a);
    b.append(&[2; 2]).unwrap();
    assert_eq!(fs.used(), 6);

    fs.set_capacity(None);
    b.append(&[2; 100]).unwrap();
}

#[test]
fn the_named_read_fails_once() {
    let fs = SimFs::new();
    let mut file = create(&fs, "f");
    file.append(b"bytes").unwrap();
    fs.fail_nth_read(2);
    assert_eq!(content(&fs, "f"), b"bytes");
    assert_eq!(errno(read_all(&fs, Path::new("f"), 100)), Some(EIO));
    assert_eq!(content(&fs, "f"), b"bytes");
    assert_eq!(fs.read_count(), 3);
}

#[test]
fn a_read_only_disk_refuses_every_change_and_serves_reads() {
    let fs = SimFs::new();
    let mut file = create(&fs, "f");
    file.append(b"bytes").unwrap();
    fs.set_read_only(true);
    let f = Path::new("f");
    assert_eq!(errno(file.append(b"x")), Some(EROFS));
    assert_eq!(errno(file.set_len(0)), Some(EROFS));
    assert_eq!(
        errno(fs.create_new(Path::new("g"), Access::Shared)),
        Some(EROFS)
    );
    assert_eq!(errno(fs.open_append(f)), Some(EROFS));
    assert_eq!(errno(fs.rename(f, Path::new("g"))), Some(EROFS));
    assert_eq!(errno(fs.hard_link(f, Path::new("g"))), Some(EROFS));
    assert_eq!(errno(fs.remove_file(f)), Some(EROFS));
    assert_eq!(errno(fs.create_dir(Path::new("d"))), Some(EROFS));
    assert_eq!(content(&fs, "f"), b"bytes");
    fs.set_read_only(false);
    file.append(b"x").unwrap();
}

#[test]
fn a_stopped_machine_fails_every_change_recognisably_and_keeps_what_was_there() {
    let fs = SimFs::new();
    fs.stop_at(3, ShortWrite::Bytes(2));
    let mut file = create(&fs, "f");
    file.append(b"one").unwrap();
    for _ in 0..2 {
        assert!(is_stopped(&file.append(b"two").unwrap_err()));
    }
    assert!(is_stopped(&file.sync().unwrap_err()));
    assert!(is_stopped(&fs.sync_dir(Path::new("/")).unwrap_err()));
    assert!(is_stopped(&fs.remove_file(Path::new("f")).unwrap_err()));
    assert!(!is_stopped(&io::Error::from_raw_os_error(EIO)));
    assert_eq!(content(&fs, "f"), b"onetw");
    assert!(fs.after_crash(Survival::Nothing).contents().is_empty());
}

#[test]
fn a_fork_is_a_disk_of_its_own() {
    let fs = SimFs::new();
    let mut file = create(&fs, "f");
    file.append(b"bytes").unwrap();
    let fork = fs.fork();
    file.append(b"more").unwrap();
    file.sync().unwrap();
    assert_eq!(content(&fork, "f"), b"bytes");
    assert!(fork.calls().is_empty());
    assert!(fork.after_crash(Survival::Nothing).contents().is_empty());
}
