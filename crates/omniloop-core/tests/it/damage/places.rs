//! What may stand at a path instead of a sound file, and what a reader may spend on it.

use std::path::{Path, PathBuf};
use std::process::Command;

use durable::{Access, Fs as _, Outcome, RealFs};
use durable_sim::SimFs;
use omniloop_core::journal::{
    Error, ErrorKind, JournalPlayer, PlayerOptions, SignatureVerification, StateJournal,
    VerifyOptions, segment_paths, verify_chain, verify_chain_with, verify_signed_with,
};

use crate::forge::{CHAINED, Forge, Rec};
use crate::support::{append_in_turn, options, outcome, path};

/// Far more than any buffer of the reading side, far less than what a forged length asks for.
const GROWTH_KIB_MAX: u64 = 32 * 1024;
const SPARSE_LEN: u64 = 5 << 30;
/// Where every byte has to be looked at, so that the kernel has to fill pages with zeros.
const ZERO_TAIL_LEN: u64 = 256 << 20;

#[test]
fn a_folder_is_an_error_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    for error in [
        JournalPlayer::open(dir.path()).unwrap_err(),
        verify_chain(dir.path()).unwrap_err(),
    ] {
        let Error::Io { source, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(source.kind(), std::io::ErrorKind::IsADirectory);
    }
}

#[test]
fn a_missing_file_is_not_found_and_names_the_path() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("run.omni");
    for error in [
        JournalPlayer::open(&missing).unwrap_err(),
        verify_chain(&missing).unwrap_err(),
        segment_paths(&missing).unwrap_err(),
    ] {
        let Error::Io { path, source, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
        assert_eq!(path, missing);
    }
}

#[test]
fn an_empty_file_is_incomplete_and_other_bytes_are_no_journal() {
    let dir = tempfile::tempdir().unwrap();
    for (bytes, kind) in [
        (&b""[..], ErrorKind::Incomplete),
        (b"OMNI", ErrorKind::Incomplete),
        (b"{\"json\": true}", ErrorKind::Unsupported),
        (&[0; 4096], ErrorKind::Unsupported),
    ] {
        let path = file(dir.path(), bytes, None);
        assert_eq!(JournalPlayer::open(&path).unwrap_err().kind(), kind);
        assert_eq!(verify_chain(&path).unwrap_err().kind(), kind);
        RealFs.remove_file(&path).unwrap();
    }
}

#[test]
fn a_read_that_fails_is_an_error_and_never_a_shorter_answer() {
    let fs = SimFs::new();
    let mut journal = StateJournal::create_with(path(), options(&fs)).unwrap();
    append_in_turn(&mut journal, 70);
    journal.seal().unwrap();
    let whole = count(&fs).unwrap();
    let read_once = |fs: &SimFs| fs.read_count();
    let reads = {
        let before = read_once(&fs);
        count(&fs).unwrap();
        verify(&fs).unwrap();
        read_once(&fs) - before
    };
    assert!(reads > 2);
    for number in 1..=reads {
        let fs = fs.fork();
        fs.fail_nth_read(fs.read_count() + number);
        let (counted, verified) = (count(&fs), verify(&fs));
        let errors: Vec<_> = [counted.as_ref().err(), verified.as_ref().err()]
            .into_iter()
            .flatten()
            .map(Error::kind)
            .collect();
        assert_eq!(errors, [ErrorKind::Io], "read {number}");
        assert!(counted.is_err() || counted.is_ok_and(|n| n == whole));
    }
}

fn count(fs: &SimFs) -> Result<u64, Error> {
    let mut player = JournalPlayer::open_with(fs, path(), PlayerOptions::default())?;
    let mut count = 0;
    while player.read_next_record()?.is_some() {
        count += 1;
    }
    Ok(count)
}

fn verify(fs: &SimFs) -> Result<(), Error> {
    verify_chain_with(fs, path(), VerifyOptions::default(), &mut ()).map(|_| ())
}

#[test]
fn a_huge_file_of_zeros_is_no_journal_and_costs_nothing() {
    within_memory(
        "a_huge_file_of_zeros_is_no_journal_and_costs_nothing",
        || {
            let dir = tempfile::tempdir().unwrap();
            let path = file(dir.path(), b"", Some(SPARSE_LEN));
            assert!(matches!(
                JournalPlayer::open(&path),
                Err(Error::NotAJournal { .. })
            ));
            assert!(matches!(
                verify_chain(&path),
                Err(Error::NotAJournal { .. })
            ));
        },
    );
}

#[test]
fn a_huge_file_of_zeros_behind_records_is_a_torn_tail_within_bounded_memory() {
    within_memory(
        "a_huge_file_of_zeros_behind_records_is_a_torn_tail_within_bounded_memory",
        || {
            let dir = tempfile::tempdir().unwrap();
            let mut forge = Forge::new(CHAINED, 5, 0);
            let path = file(
                dir.path(),
                &forge.telemetry().checkpoint().bytes,
                Some(ZERO_TAIL_LEN),
            );
            let mut player = JournalPlayer::open(&path).unwrap();
            assert_eq!(player.by_ref().map(Result::unwrap).count(), 2);
            assert!(player.is_truncated());
            let verdict = judge(&path);
            assert_eq!(outcome(&verdict), Some(Outcome::Unproven));
        },
    );
}

#[test]
fn a_forged_length_reserves_no_memory() {
    within_memory("a_forged_length_reserves_no_memory", || {
        let dir = tempfile::tempdir().unwrap();
        let mut rec = Rec::new(0, 2, b"{}");
        rec.len = u32::MAX;
        let mut forge = Forge::new(CHAINED, 5, 0);
        forge.telemetry().push(&rec).telemetry().checkpoint();
        for bytes in [forge.bytes.clone(), forge.seal()] {
            let path = file(dir.path(), &bytes, None);
            let player = JournalPlayer::open(&path).unwrap();
            assert_eq!(player.filter_map(Result::ok).count(), 1);
            let verdict = judge(&path);
            assert_eq!(outcome(&verdict), Some(Outcome::Damaged));
            RealFs.remove_file(&path).unwrap();
        }
    });
}

#[test]
fn a_forged_index_reserves_no_memory() {
    within_memory("a_forged_index_reserves_no_memory", || {
        let dir = tempfile::tempdir().unwrap();
        // The index claims the whole sparse file: as many entries as fit it, all zero.
        let entries = (SPARSE_LEN - 32 - 16 - 24) / 16;
        let mut head = Forge::new(CHAINED, 5, 0).bytes;
        head.extend(b"OMNIIDX1");
        head.extend(entries.to_le_bytes());
        let mut tail = b"OMNIEND1".to_vec();
        tail.extend(32u64.to_le_bytes());
        tail.extend((entries * 64).to_le_bytes());
        let path = file(dir.path(), &head, Some(32 + 16 + entries * 16));
        RealFs.open_append(&path).unwrap().append(&tail).unwrap();
        let sought = JournalPlayer::open(&path).and_then(|mut p| p.seek_to_tick(9));
        assert_eq!(sought.unwrap_err().kind(), ErrorKind::Corrupt);
        let verdict = judge(&path);
        assert_eq!(outcome(&verdict), Some(Outcome::Damaged));
    });
}

/// On this thread: another would take address space of its own.
fn judge(path: &Path) -> Result<SignatureVerification, Error> {
    let options = VerifyOptions {
        threads: 1,
        ..VerifyOptions::default()
    };
    verify_signed_with(&RealFs, path, &[], options, &mut ())
}

/// A file of these bytes, extended by a hole.
fn file(dir: &Path, bytes: &[u8], len: Option<u64>) -> PathBuf {
    let path = dir.join("run.omni");
    let mut file = RealFs.create_new(&path, Access::Shared).unwrap();
    file.append(bytes).unwrap();
    if let Some(len) = len {
        file.set_len(len).unwrap();
    }
    path
}

/// Runs `work` in a process of its own, in which nothing else asks for memory, and checks how much
/// address space it took at its peak. Reserved memory counts, touched or not.
fn within_memory(test: &str, work: impl FnOnce()) {
    const CHILD: &str = "OMNI_TEST_WITHIN_MEMORY";
    if std::env::var_os(CHILD).is_some() {
        let before = peak_kib();
        work();
        let grown = peak_kib() - before;
        assert!(grown <= GROWTH_KIB_MAX, "the process grew by {grown} KiB");
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("damage::places::{test}")])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{out}");
    assert!(out.contains("1 passed"), "the child ran the test: {out}");
}

fn peak_kib() -> u64 {
    let status = RealFs.open(Path::new("/proc/self/status")).unwrap();
    let mut text = vec![0; 1 << 16];
    let len = status.read_at(0, &mut text).unwrap();
    String::from_utf8_lossy(&text[..len])
        .lines()
        .find_map(|line| line.strip_prefix("VmPeak:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap()
}
