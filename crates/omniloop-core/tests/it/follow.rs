//! Promised: a reader may be attached to a journal that is being written. It sees whole records
//! only, each once and in order, and sees the end when the journal is sealed.
//!
//! Attacked by letting the files grow byte by byte, so that the reader looks at every torn state there
//! is, and by a writer that flushes, rotates and seals between the looks.
//!
//! The oracle is the finished journal.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use durable::{Access, Fs, FsFile, Metadata};
use durable_sim::SimFs;
use omniloop_core::journal::{
    FrameKind, FrameRecord, JournalOptions, JournalPlayer, PlayerOptions, RotationPolicy,
    SegmentedPlayer, StateJournal, segment_path,
};

use crate::support::{append_in_turn, bytes_of, options, path, read, sealed};

/// All records that are there now.
fn drain(player: &mut JournalPlayer, seen: &mut Vec<FrameRecord>) {
    player.refresh().unwrap();
    while let Some(record) = player.read_next_record().unwrap() {
        seen.push(record);
    }
}

fn drain_set(player: &mut SegmentedPlayer, seen: &mut Vec<FrameRecord>) {
    player.refresh().unwrap();
    while let Some(record) = player.read_next_record().unwrap() {
        seen.push(record);
    }
}

#[test]
fn a_file_that_grows_byte_by_byte_shows_each_record_when_it_is_whole() {
    let bytes = sealed(66);
    let (records, _) = read(&bytes);
    let fs = SimFs::new();
    let mut file = fs.create_new(path(), Access::Shared).unwrap();
    file.append(&bytes[..32]).unwrap();
    let mut player = JournalPlayer::open_with(&fs, path(), PlayerOptions::default()).unwrap();
    let mut seen = Vec::new();
    for at in 32..bytes.len() {
        drain(&mut player, &mut seen);
        let whole = records
            .iter()
            .filter(|r| r.offset + 36 + r.payload.len() as u64 <= at as u64)
            .count();
        assert!(seen == records[..whole], "at={at}");
        assert!(!player.is_finalized(), "at={at}");
        file.append(&bytes[at..=at]).unwrap();
    }
    drain(&mut player, &mut seen);
    assert_eq!(seen, records);
    assert!(player.is_finalized() && !player.is_truncated());
}

fn rotating(fs: &SimFs) -> JournalOptions {
    JournalOptions {
        rotation: Some(RotationPolicy {
            max_records: Some(5),
            ..RotationPolicy::default()
        }),
        ..options(fs)
    }
}

#[test]
fn a_set_that_grows_byte_by_byte_shows_each_record_once_and_in_order() {
    let finished = SimFs::new();
    let mut journal = StateJournal::create_with(path(), rotating(&finished)).unwrap();
    append_in_turn(&mut journal, 13);
    assert_eq!(journal.seal().unwrap().paths.len(), 3);
    let expected: Vec<FrameRecord> =
        SegmentedPlayer::open_with(Arc::new(finished.clone()), path(), PlayerOptions::default())
            .unwrap()
            .map(Result::unwrap)
            .collect();

    let fs = SimFs::new();
    let mut player = None;
    let mut seen = Vec::new();
    for ordinal in 0..3 {
        let file_path = segment_path(path(), ordinal);
        let bytes = bytes_of(&finished, &file_path);
        let mut file = fs.create_new(&file_path, Access::Shared).unwrap();
        for (at, byte) in bytes.iter().enumerate() {
            file.append(&[*byte]).unwrap();
            if player.is_none() && at == 31 {
                let open = PlayerOptions::default();
                player =
                    Some(SegmentedPlayer::open_with(Arc::new(fs.clone()), path(), open).unwrap());
            }
            if let Some(player) = &mut player {
                drain_set(player, &mut seen);
                assert!(expected.starts_with(&seen), "segment {ordinal} byte {at}");
            }
        }
    }
    assert_eq!(seen, expected);
    assert!(player.unwrap().is_sealed_at_end());
}

#[test]
fn what_is_flushed_is_seen_and_what_is_buffered_is_not() {
    let fs = SimFs::new();
    let mut journal = StateJournal::create_with(path(), options(&fs)).unwrap();
    let mut player = JournalPlayer::open_with(&fs, path(), PlayerOptions::default()).unwrap();
    let mut seen = Vec::new();
    for n in 0..5u64 {
        journal.append(FrameKind::Telemetry, b"{}").unwrap();
        drain(&mut player, &mut seen);
        assert_eq!(seen.len() as u64, n, "not flushed yet");
        journal.flush().unwrap();
        drain(&mut player, &mut seen);
        assert_eq!(seen.len() as u64, n + 1);
    }
    journal.seal().unwrap();
    drain(&mut player, &mut seen);
    assert_eq!(seen.last().unwrap().kind, FrameKind::Chain);
    assert!(player.is_finalized());
}

#[test]
fn a_rotation_between_the_looks_of_a_follower_costs_no_record() {
    // The follower looks after every so many records; rotation falls anywhere between.
    for look_every in 1..12u64 {
        let fs = SimFs::new();
        let mut journal = StateJournal::create_with(path(), rotating(&fs)).unwrap();
        let options = PlayerOptions::default();
        let mut player = SegmentedPlayer::open_with(Arc::new(fs.clone()), path(), options).unwrap();
        let mut seen = Vec::new();
        for n in 0..40u64 {
            let payload = format!("{{\"n\":{n}}}");
            journal
                .append(FrameKind::Telemetry, payload.as_bytes())
                .unwrap();
            if n % look_every == 0 {
                drain_set(&mut player, &mut seen);
            }
        }
        journal.seal().unwrap();
        drain_set(&mut player, &mut seen);
        let ticks: Vec<u64> = seen
            .iter()
            .filter(|r| r.kind == FrameKind::Telemetry)
            .map(|r| r.tick)
            .collect();
        assert_eq!(
            ticks,
            (1..=40).collect::<Vec<_>>(),
            "look_every={look_every}"
        );
        assert!(player.is_sealed_at_end());
    }
}

/// The disk as a follower sees it, with something happening right before it looks for segment 1.
struct Meddled {
    fs: SimFs,
    meddle: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Debug for Meddled {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.fs.fmt(f)
    }
}

impl Fs for Meddled {
    fn create_new(&self, path: &Path, access: Access) -> io::Result<Box<dyn FsFile>> {
        self.fs.create_new(path, access)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.fs.open(path)
    }
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.fs.open_append(path)
    }
    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        if path == segment_path(crate::support::path(), 1) {
            let meddle = self.meddle.lock().unwrap().take();
            if let Some(meddle) = meddle {
                meddle();
            }
        }
        self.fs.metadata(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs.rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs.hard_link(from, to)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.fs.create_dir(path)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.fs.remove_file(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.fs.remove_dir(path)
    }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.fs.read_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.fs.sync_dir(path)
    }
}

#[test]
fn a_rotation_in_the_middle_of_a_look_costs_no_record() {
    let fs = SimFs::new();
    let mut journal = StateJournal::create_with(path(), rotating(&fs)).unwrap();
    append_in_turn(&mut journal, 3);
    journal.flush().unwrap();
    let meddled = Arc::new(Meddled {
        fs,
        meddle: Mutex::default(),
    });
    let open = PlayerOptions::default();
    let mut player = SegmentedPlayer::open_with(meddled.clone(), path(), open).unwrap();
    // The follower has looked at segment 0, with three records in it, and looks for segment 1. In
    // between, segment 0 gets two more and is sealed, and segment 1 appears.
    *meddled.meddle.lock().unwrap() = Some(Box::new(move || {
        append_in_turn(&mut journal, 4);
        journal.seal().unwrap();
    }));
    let mut seen = Vec::new();
    drain_set(&mut player, &mut seen);
    assert!(meddled.meddle.lock().unwrap().is_none(), "it has happened");
    let data = seen.iter().filter(|r| r.kind.is_data()).count();
    assert_eq!(data, 7);
}

#[test]
fn a_follower_of_a_torn_segment_that_has_a_successor_is_told() {
    let fs = SimFs::new();
    let mut journal = StateJournal::create_with(path(), rotating(&fs)).unwrap();
    append_in_turn(&mut journal, 8);
    journal.seal().unwrap();
    let first = bytes_of(&fs, path());
    fs.remove_file(path()).unwrap();
    let mut file: Box<dyn FsFile> = fs.create_new(Path::new(path()), Access::Shared).unwrap();
    file.append(&first[..first.len() / 2]).unwrap();
    let open = PlayerOptions::default();
    let player = SegmentedPlayer::open_with(Arc::new(fs), path(), open).unwrap();
    let last = player.last().unwrap();
    assert!(last.is_err(), "records are missing between the segments");
}

#[test]
fn the_record_count_of_a_set_is_the_total_across_its_sealed_segments() {
    let fs = SimFs::new();
    let rotation = Some(RotationPolicy {
        max_records: Some(4),
        ..RotationPolicy::default()
    });
    let options = JournalOptions {
        rotation,
        ..options(&fs)
    };
    let mut journal = StateJournal::create_with(path(), options).unwrap();
    let count = || {
        let set =
            SegmentedPlayer::open_with(Arc::new(fs.clone()), path(), PlayerOptions::default());
        set.unwrap().record_count().unwrap()
    };
    append_in_turn(&mut journal, 3);
    assert_eq!(count(), None, "nothing is sealed yet");
    append_in_turn(&mut journal, 7);
    // Four records and a closing checkpoint each; the third segment is still open.
    assert_eq!(count(), Some(10));
    let sealed = journal.seal().unwrap();
    assert_eq!(count(), Some(sealed.record_count));
}
