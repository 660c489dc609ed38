//! A study on the real disk, and its files in the hands of somebody who damages them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use atune_core::lifecycle::Outcome as Ending;
use atune_core::number::JsonF64;
use atune_core::storage::conformance::{example_config, example_param};
use atune_core::storage::journal::record::{Op, OpLine};
use atune_core::storage::journal::{
    Identity, JournalError, JournalOptions, JournalReader, JournalStorage, data_folder,
    verify_study,
};
use atune_core::storage::{Fence, Storage};
use atune_core::trial::{Direction, StudyId, WorkerId};
use durable::checksum::fnv1a_64;
use durable::{Access, Fs, Outcome, RealFs, SystemClock, Verdict, read_all};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::disk::WatchedDisk;

/// The one study of these tests.
pub(crate) const STUDY: StudyId = StudyId(0);
const LEN_MAX: u64 = 64 << 20;

pub(crate) fn options(worker: u64) -> JournalOptions {
    JournalOptions {
        worker: WorkerId(worker),
        ..JournalOptions::default()
    }
}

/// Options of a holder that is given up after this time without a sign of life.
pub(crate) fn leased(worker: u64, lease: Duration) -> JournalOptions {
    JournalOptions {
        lease,
        ..options(worker)
    }
}

/// A folder with one study file in it.
#[derive(Debug)]
pub(crate) struct Scratch {
    _dir: TempDir,
    pub(crate) path: PathBuf,
}

impl Scratch {
    /// An empty folder, and the path of a study that is not there yet.
    pub(crate) fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("study.atj");
        Self { _dir: dir, path }
    }

    /// A file with one study in it.
    pub(crate) fn new() -> Self {
        let scratch = Self::empty();
        let storage = JournalStorage::create(&scratch.path, options(0)).unwrap();
        create_study(&storage);
        scratch
    }

    pub(crate) fn open(&self, worker: u64) -> JournalStorage {
        JournalStorage::open(&self.path, options(worker)).unwrap()
    }

    pub(crate) fn reader(&self) -> JournalReader {
        JournalReader::open(&self.path).unwrap()
    }

    pub(crate) fn verdict(&self) -> Verdict {
        verify_study(Arc::new(RealFs), &self.path).unwrap()
    }

    /// Asserts that everything that was published is whole.
    pub(crate) fn assert_intact(&self) {
        let verdict = self.verdict();
        assert_eq!(verdict.verdict, Outcome::Intact, "{:?}", verdict.findings);
    }

    /// Why the study cannot be read.
    pub(crate) fn error(&self) -> JournalError {
        JournalReader::open(&self.path).unwrap_err()
    }

    /// Every operation, in order.
    pub(crate) fn ops(&self) -> Vec<OpLine> {
        let mut ops = Vec::new();
        let mut watch = |line: &OpLine, _: u64| ops.push(line.clone());
        JournalReader::open_watched(Arc::new(RealFs), &self.path, &mut watch).unwrap();
        ops
    }

    /// How many operations are such.
    pub(crate) fn count(&self, is_such: impl Fn(&Op) -> bool) -> usize {
        self.ops().iter().filter(|line| is_such(&line.op)).count()
    }

    /// The data files, the oldest first.
    pub(crate) fn data_files(&self) -> Vec<PathBuf> {
        let mut files = RealFs.read_dir(&data_folder(&self.path)).unwrap();
        files.retain(|path| {
            let name = path.file_name().unwrap().as_encoded_bytes();
            name.starts_with(b"data-")
        });
        files
    }

    /// The bytes of the study's file and of its data files.
    pub(crate) fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = self.data_files();
        files.push(self.path.clone());
        files
            .into_iter()
            .map(|path| (path.clone(), read(&path)))
            .collect()
    }
}

/// Opens a study on a disk that is watched.
pub(crate) fn open_on(disk: WatchedDisk, path: &Path, options: JournalOptions) -> JournalStorage {
    let (clock, identity) = (Arc::new(SystemClock::start()), Identity::of_this_process());
    JournalStorage::open_on(Arc::new(disk), clock, identity, path, options).unwrap()
}

pub(crate) fn create_study(storage: &dyn Storage) {
    let study = storage
        .create_study(&example_config("s", &[Direction::Minimize]))
        .unwrap();
    assert_eq!(study, STUDY);
}

pub(crate) fn complete(value: f64) -> Ending {
    Ending::complete(vec![JsonF64(value)])
}

/// Starts a trial of one parameter.
pub(crate) fn start(storage: &dyn Storage, worker: u64) -> Fence {
    let params = [example_param("x", 0.25)];
    storage
        .start(STUDY, None, WorkerId(worker), 1, &params)
        .unwrap()
}

pub(crate) fn read(path: &Path) -> Vec<u8> {
    read_all(&RealFs, path, LEN_MAX).unwrap()
}

/// Writes behind what a file has.
pub(crate) fn append(path: &Path, bytes: &[u8]) {
    RealFs.open_append(path).unwrap().append(bytes).unwrap();
}

/// Gives a file other bytes.
pub(crate) fn replace(path: &Path, bytes: &[u8]) {
    if RealFs.exists(path).unwrap() {
        RealFs.remove_file(path).unwrap();
    }
    let mut file = RealFs.create_new(path, Access::Shared).unwrap();
    file.append(bytes).unwrap();
}

/// Writes the history anew with other operation lines, one extent for each, so that every pointer, number,
/// length and checksum is right: what a program would do that moves records about. The lines are given
/// and taken without their ends. A study with one data file only.
pub(crate) fn rewrite(scratch: &Scratch, change: impl FnOnce(Vec<String>) -> Vec<String>) {
    let data = scratch.data_files().remove(0);
    let name = data.file_name().unwrap().to_str().unwrap();
    let head_file = String::from_utf8(read(&scratch.path)).unwrap();
    let header = head_file.lines().next().unwrap().to_owned() + "\n";
    let lines = String::from_utf8(read(&data)).unwrap();
    let is_op = |line: &&str| line.starts_with(r#"{"record":"op""#);
    let lines = change(lines.lines().filter(is_op).map(str::to_owned).collect());
    let (mut bytes, mut tip, mut start) = (String::new(), Value::Null, header.len());
    for (line, number) in lines.iter().zip(1..) {
        let payload = format!("{line}\n");
        let extent = json!({
            "magic": "atune.extent/6",
            "previous": tip,
            "first": number,
            "last": number,
            "start": start,
            "payload_len": payload.len(),
            "checksum": fnv1a_64(payload.as_bytes()),
        });
        let extent = format!("{extent}\n{payload}");
        tip = json!({ "file": name, "offset": bytes.len(), "len": extent.len() });
        start += payload.len();
        bytes += &extent;
    }
    let head = json!({ "tip": tip, "ops": lines.len(), "bytes": start });
    replace(&data, bytes.as_bytes());
    replace(&scratch.path, format!("{header}{head}\n").as_bytes());
}
