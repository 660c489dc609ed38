//! The leaves that a journal gives, collected while it is verified.

use std::path::{Path, PathBuf};

use durable::Fs;
use durable::digest::{Digest, Sha256, from_hex};

use super::leaf::{Leaf, LeafKind};
use crate::journal::layout::{
    FILE_MAGIC, INDEX_EVERY, file_header, index_entry, index_header, trailer,
};
use crate::journal::segments::segment_paths_on;
use crate::journal::{
    ChainBreak, ChainPoint, ChainVerification, Error, IndexState, Observer, Result, VerifyOptions,
    verify_chain_with,
};

/// Why no leaf is derived beyond a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The segment.
    pub segment: u64,
    /// Where in its file, in bytes.
    pub offset: u64,
    /// What is wrong there.
    pub what: &'static str,
}

/// Collects the leaves of a run: it watches the walk of each file, in the order of the set, and is
/// told the result of each. One 56-byte leaf per chain checkpoint is held in memory.
#[derive(Clone, Debug, Default)]
pub struct LeafCollector {
    leaves: Vec<Leaf>,
    points: Vec<ChainPoint>,
    segment_count: u64,
    records: u64,
    seals: SealDigest,
    /// The `run closed` leaf, as long as the last segment seen is sealed.
    closing: Option<Leaf>,
    stopped: Option<Stop>,
}

/// The value of a `run closed` leaf: SHA-256 over the values of all seals, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct SealDigest(Sha256);

impl SealDigest {
    pub(super) fn add(&mut self, seal: &Leaf) {
        self.0.update(&seal.value);
    }

    /// The leaf that closes a run whose last segment has this seal and file length.
    pub(super) fn close(&self, seal: &Leaf, file_len: u64) -> Leaf {
        Leaf {
            kind: LeafKind::RunClosed,
            offset: file_len,
            value: self.0.clone().finish(),
            ..*seal
        }
    }
}

/// The leaf of a proved checkpoint; `earlier` records stand in the segments before.
pub(super) fn point_leaf(segment: u64, earlier: u64, point: &ChainPoint, end: u64) -> Leaf {
    Leaf {
        kind: LeafKind::ChainPoint,
        segment,
        records: earlier.saturating_add(point.record_count),
        offset: end,
        value: point.after,
    }
}

/// Header and payload of a checkpoint record, in bytes.
const CHECKPOINT_RECORD_LEN: u64 = 36 + 32;

impl Observer for LeafCollector {
    fn checkpoint(&mut self, point: &ChainPoint) {
        self.points.push(*point);
    }
}

impl LeafCollector {
    /// A collector that has seen no file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the result of the file whose walk was watched last.
    pub fn finish_segment(&mut self, result: &ChainVerification) {
        let points = std::mem::take(&mut self.points);
        let segment = self.segment_count;
        let earlier = self.records;
        self.segment_count += 1;
        self.records = earlier.saturating_add(result.records);
        if self.stopped.is_some() {
            return;
        }
        let Some(genesis) = result.genesis.as_deref().and_then(digest_of) else {
            return self.stop(segment, 0, "a legacy file has no chain");
        };
        if segment > 0 && self.closing.take().is_none() {
            return self.stop(segment, 0, "the segment before it was never sealed");
        }
        if result.segment_index.unwrap_or(0) != segment {
            return self.stop(segment, 0, "another segment stands in its place");
        }
        self.leaves.push(Leaf {
            kind: LeafKind::SegmentOpen,
            segment,
            records: earlier,
            offset: file_header::LEN as u64,
            value: genesis,
        });
        let leaf = |point: &ChainPoint| {
            let end = point.offset.saturating_add(CHECKPOINT_RECORD_LEN);
            point_leaf(segment, earlier, point, end)
        };
        self.leaves.extend(points.iter().map(leaf));
        let whole = result.index != IndexState::Absent && result.unverified_tail == 0;
        match (
            &result.break_at,
            result.chain_end.as_deref().and_then(digest_of),
        ) {
            (None, Some(value)) if whole => self.seal(result, value),
            (None, _) => {}
            // So young that its first checkpoint is still to come.
            (Some(ChainBreak::ChainedButNoCheckpoints), _) if !result.finalized => {}
            (Some(_), _) => self.stop(segment, result.records_end, "the chain breaks"),
        }
    }

    fn seal(&mut self, result: &ChainVerification, value: Digest) {
        let seal = Leaf {
            kind: LeafKind::SegmentSeal,
            segment: self.segment_count.saturating_sub(1),
            records: self.records,
            offset: result.records_end,
            value,
        };
        self.leaves.push(seal);
        self.seals.add(&seal);
        let file_len = result
            .records_end
            .saturating_add(seal_len(result.records))
            .saturating_add(result.trailing_bytes);
        self.closing = Some(self.seals.close(&seal, file_len));
    }

    fn stop(&mut self, segment: u64, offset: u64, what: &'static str) {
        self.closing = None;
        self.stopped = Some(Stop {
            segment,
            offset,
            what,
        });
    }

    /// Says that a further segment was begun: the run is not complete, though all seen are sealed.
    pub fn keep_open(&mut self) {
        self.closing = None;
    }

    /// The leaves so far, without the one that closes the run.
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// The leaf that closes the run, when every segment seen is sealed.
    pub fn closing(&self) -> Option<Leaf> {
        self.closing
    }

    /// Records of all files seen, of every kind.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Why no leaf was derived beyond a place, if that is so.
    pub fn stopped(&self) -> Option<&Stop> {
        self.stopped.as_ref()
    }

    /// All leaves, the closing one included.
    pub(super) fn all(&self) -> Vec<Leaf> {
        self.leaves.iter().copied().chain(self.closing).collect()
    }
}

/// Length of the index and trailer of a file with so many records.
fn seal_len(records: u64) -> u64 {
    let fixed_len = (index_header::LEN + trailer::LEN) as u64;
    let entries = records.div_ceil(INDEX_EVERY);
    entries
        .saturating_mul(index_entry::LEN as u64)
        .saturating_add(fixed_len)
}

fn digest_of(text: &str) -> Option<Digest> {
    from_hex(text)?.try_into().ok()
}

/// Walks the files of the set that starts at `base` and collects their leaves. Reads and hashes
/// every record.
///
/// # Errors
/// As [`verify_chain`](crate::journal::verify_chain), for any file. What is wrong behind a header
/// only ends the leaves: see [`LeafCollector::stopped`].
pub fn derive_leaves(fs: &dyn Fs, base: &Path, options: VerifyOptions) -> Result<LeafCollector> {
    let mut collector = LeafCollector::new();
    let files = RunFiles::find(fs, base)?;
    for path in &files.whole {
        let result = verify_chain_with(fs, path, options, &mut collector)?;
        collector.finish_segment(&result);
    }
    if files.begun.is_some() {
        collector.keep_open();
    }
    Ok(collector)
}

/// The files of a run.
#[derive(Clone, Debug)]
pub(super) struct RunFiles {
    /// Those that have a file header, in order.
    pub(super) whole: Vec<PathBuf>,
    /// A last segment that a crash left without one: a file is named before its header is durable.
    pub(super) begun: Option<PathBuf>,
}

impl RunFiles {
    pub(super) fn find(fs: &dyn Fs, base: &Path) -> Result<Self> {
        let mut whole = segment_paths_on(fs, base)?;
        let begun = match whole.last() {
            Some(last) if whole.len() > 1 && !has_header(fs, last)? => whole.pop(),
            _ => None,
        };
        Ok(Self { whole, begun })
    }
}

/// False for a file that holds no more than a header, and not even that.
fn has_header(fs: &dyn Fs, path: &Path) -> Result<bool> {
    let read = |e| Error::io("read", path)(e);
    let file = fs.open(path).map_err(Error::io("open", path))?;
    let len = file.len().map_err(read)?;
    if len != file_header::LEN as u64 {
        return Ok(len > file_header::LEN as u64);
    }
    let mut magic = [0; FILE_MAGIC.len()];
    file.read_exact_at(0, &mut magic).map_err(read)?;
    Ok(magic == FILE_MAGIC)
}
