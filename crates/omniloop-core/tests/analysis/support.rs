//! Runs on a simulated disk.

use std::path::Path;
use std::sync::Arc;

use durable::ManualClock;
use durable_sim::SimFs;
use omniloop_core::journal::{
    FrameKind, FrameRecord, JournalOptions, PlayerOptions, RotationPolicy, SegmentedPlayer,
    StateJournal,
};
use serde_json::Value;

/// A disk with runs on it.
pub(crate) struct Disk {
    pub(crate) fs: SimFs,
}

pub(crate) fn path(name: &str) -> std::path::PathBuf {
    Path::new("/runs").join(name)
}

impl Disk {
    pub(crate) fn new() -> Self {
        let fs = SimFs::new();
        durable::Fs::create_dir_all(&fs, Path::new("/runs")).unwrap();
        Self { fs }
    }

    /// A journal that starts a new file after so many records.
    pub(crate) fn journal(&self, name: &str, records_per_file: Option<u64>) -> StateJournal {
        let options = JournalOptions {
            fs: Arc::new(self.fs.clone()),
            clock: Arc::new(ManualClock::new(1_700_000_000_000_000_000, 1_000_000)),
            rotation: records_per_file.map(|records| RotationPolicy {
                max_records: Some(records),
                ..RotationPolicy::default()
            }),
            ..JournalOptions::default()
        };
        StateJournal::create_with(path(name), options).unwrap()
    }

    /// A sealed run of these records.
    pub(crate) fn run(&self, name: &str, records: &[(FrameKind, Value)], rotate: Option<u64>) {
        let mut journal = self.journal(name, rotate);
        for (kind, payload) in records {
            journal
                .append(*kind, payload.to_string().as_bytes())
                .unwrap();
        }
        journal.seal().unwrap();
    }

    pub(crate) fn open(&self, name: &str) -> SegmentedPlayer {
        let fs = Arc::new(self.fs.clone());
        SegmentedPlayer::open_with(fs, path(name), PlayerOptions::default()).unwrap()
    }

    /// Every record that describes the run, with its segment.
    pub(crate) fn records(&self, name: &str) -> Vec<(u64, FrameRecord)> {
        let mut player = self.open(name);
        let mut records = Vec::new();
        while let Some((segment, frame)) = player.next_placed_frame().unwrap() {
            if frame.kind.is_data() {
                records.push((segment, frame.to_record()));
            }
        }
        records
    }

    /// Flips a bit in the middle of a record's payload.
    pub(crate) fn damage(&self, file: &str, offset_of_record: u64) {
        let path = path(file);
        let mut bytes = durable::read_all(&self.fs, &path, u64::MAX).unwrap();
        let at = usize::try_from(offset_of_record).unwrap() + 36 + 3;
        bytes[at] ^= 1;
        durable::Fs::remove_file(&self.fs, &path).unwrap();
        let mut file = durable::Fs::create_new(&self.fs, &path, durable::Access::Shared).unwrap();
        file.append(&bytes).unwrap();
    }
}
