//! Recovering a journal that was cut off or damaged. The input is never touched.
//!
//! A file that is merely cut off is finalised: the same bytes that a clean close after its last whole
//! record would have given. A file with damage inside is salvaged into a new chain whose first record
//! names the source, its digest and every gap.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::digest::{Digest, Sha256, hex};
use durable::{Clock, Fs, FsFile, Outcome, RealFs, Severity, SystemClock, checksum, sync_parent};
use serde::Serialize;
use serde_json::json;

use super::chain::{ChainHasher, genesis};
use super::codec::{FileHeader, IndexEntry, RecordHeader, encode_seal};
use super::error::{Error, Fault, Result, Section};
use super::frame::FrameKind;
use super::layout::{
    CHECKPOINT_EVERY, FLAG_CHAINED, FLAG_SEGMENTED, INDEX_EVERY, LEGACY_VERSION, file_header,
};
use super::player::{open_window, read_identity};
use super::segments::{segment_path, segments_on_disk, starts_a_set};
use super::set::{SetOptions, verify_set};
use super::verify::{ChainVerification, VerifyOptions, verify_chain_with};
use super::walk::{End, Walk, walk};
use super::writer::{SegmentWriter, Stamp};

mod scan;

use scan::{Scan, Seen, Take};

/// Bytes copied at a time.
const COPY_LEN: usize = 1 << 20;
/// Gaps that are listed one by one in the first record of a salvage; the rest are counted.
const GAPS_LISTED_MAX: usize = 200;

/// How a journal is recovered.
#[derive(Clone, Debug)]
pub struct RecoverOptions {
    /// Where the files are.
    pub fs: Arc<dyn Fs>,
    /// Stamps the record that names the source of a salvage.
    pub clock: Arc<dyn Clock>,
    /// Segment 0 of the output; `run.recovered.omni` beside `run.omni` when not given.
    pub output: Option<PathBuf>,
}

impl Default for RecoverOptions {
    fn default() -> Self {
        Self {
            fs: Arc::new(RealFs),
            clock: Arc::new(SystemClock::start()),
            output: None,
        }
    }
}

/// What was done with one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RecoveryAction {
    /// It was intact, and was copied byte for byte.
    Copied,
    /// It was cut off, or its index was damaged: its records stand, closed as a clean close would.
    Finalised,
    /// It was damaged inside: what could be read stands in a new chain.
    Salvaged,
    /// It was missing: a segment that says so stands in its place.
    Replaced,
}

/// A record beside a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Neighbour {
    /// Where it stands in the source.
    pub offset: u64,
    /// Its tick.
    pub tick: u64,
    /// What it is.
    pub kind: FrameKind,
}

/// Bytes of the source from which no record could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// The last record before it.
    pub before: Option<Neighbour>,
    /// The first record after it.
    pub after: Option<Neighbour>,
}

/// Records that were read and have their checksums, but whose chain does not hold: one of them was
/// altered in a way that only the chain sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unproven {
    /// Offset of the first of them in the source.
    pub start: u64,
    /// Offset of the checkpoint that contradicts them.
    pub end: u64,
}

/// What became of one segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecoveredSegment {
    /// The file that was read.
    pub source: PathBuf,
    /// The file that was written.
    pub output: PathBuf,
    /// How.
    pub action: RecoveryAction,
    /// Data records in the output that come from the source.
    pub records: u64,
    /// Bytes that could not be read as records.
    pub gaps: Vec<Gap>,
    /// Records that could be read but are not vouched for by the chain.
    pub unproven: Vec<Unproven>,
}

/// The result of a recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recovery {
    /// Segment 0 of the output; `None` when the journal is intact and nothing was written.
    pub output: Option<PathBuf>,
    /// Every segment, in order.
    pub segments: Vec<RecoveredSegment>,
}

/// Recovers the journal (or the rotated set) at `base`.
///
/// # Errors
/// `Io` with `AlreadyExists` when the output exists; `NotAJournal`, `Unsupported` and `Incomplete` when
/// there is nothing to recover from; `Corrupt` when the output does not verify.
///
/// # Durability
/// When it returns, the output was read back, verified, and is durable under its name.
pub fn recover(base: impl AsRef<Path>, options: &RecoverOptions) -> Result<Recovery> {
    let base = base.as_ref();
    let fs = options.fs.as_ref();
    let sources = sources(fs, base)?;
    let all_intact = verify_set(fs, base, &SetOptions::default(), &mut |_, _, _| {})
        .is_ok_and(|set| set.outcome() == Outcome::Intact);
    if all_intact {
        return Ok(Recovery {
            output: None,
            segments: Vec::new(),
        });
    }
    let output = options
        .output
        .clone()
        .unwrap_or_else(|| recovered_name(base));
    for ordinal in 0..sources.len() as u64 {
        let path = segment_path(&output, ordinal);
        if fs.exists(&path).map_err(Error::io("look at", &path))? {
            let why = "an earlier recovery stands there; move it away or name another output";
            let source = io::Error::new(io::ErrorKind::AlreadyExists, why);
            return Err(Error::Io {
                op: "create",
                path,
                source,
            });
        }
    }
    let mut floor = Stamp::default();
    let mut segments = Vec::new();
    for (ordinal, source) in (0u64..).zip(&sources) {
        let work = Work {
            options,
            source: source.as_deref(),
            named: segment_path(base, ordinal),
            output: segment_path(&output, ordinal),
            ordinal,
            in_set: sources.len() > 1,
        };
        let (segment, last) = work.recover(floor)?;
        floor = last;
        segments.push(segment);
    }
    check_output(fs, &output)?;
    Ok(Recovery {
        output: Some(output),
        segments,
    })
}

/// Every ordinal's file up to the highest on disk; `None` for one that is missing.
fn sources(fs: &dyn Fs, base: &Path) -> Result<Vec<Option<PathBuf>>> {
    let mut sources = vec![Some(base.to_owned())];
    let is_set = starts_a_set(fs, base)?;
    // With a damaged header the first file cannot say that it starts a set; its neighbours can.
    let damaged_first = open_window(fs, base)
        .and_then(|mut window| read_identity(&mut window, base))
        .is_err_and(|e| {
            matches!(
                e,
                Error::Corrupt {
                    section: Section::FileHeader,
                    ..
                }
            )
        });
    if is_set || damaged_first {
        for (ordinal, path) in segments_on_disk(fs, base)? {
            let ordinal = usize::try_from(ordinal).unwrap_or(usize::MAX);
            // A stray file with a huge ordinal is no reason to write millions of placeholders.
            if ordinal > sources.len() + 1000 {
                return Err(Error::Limit {
                    what: "number of missing segments",
                    value: (ordinal - sources.len()) as u64,
                    max: 1000,
                });
            }
            sources.resize(ordinal, None);
            sources.push(Some(path));
        }
    }
    Ok(sources)
}

fn recovered_name(base: &Path) -> PathBuf {
    let mut name = base.file_stem().unwrap_or_default().to_owned();
    name.push(".recovered");
    if let Some(extension) = base.extension() {
        name.push(".");
        name.push(extension);
    }
    base.with_file_name(name)
}

/// A recovery that says "done" has read its own output back.
fn check_output(fs: &dyn Fs, output: &Path) -> Result<()> {
    let set = verify_set(fs, output, &SetOptions::default(), &mut |_, _, _| {})?;
    if set.outcome() != Outcome::Damaged {
        return Ok(());
    }
    let what = set
        .findings()
        .find(|f| f.severity == Severity::Damage)
        .map(|f| f.what.clone())
        .unwrap_or_default();
    Err(Error::Corrupt {
        path: output.to_owned(),
        section: Section::SegmentSet,
        offset: 0,
        tick: None,
        fault: Fault::Malformed(format!("the recovered journal does not verify: {what}")),
    })
}

/// The recovery of one segment.
struct Work<'a> {
    options: &'a RecoverOptions,
    source: Option<&'a Path>,
    named: PathBuf,
    output: PathBuf,
    ordinal: u64,
    in_set: bool,
}

impl Work<'_> {
    fn recover(&self, floor: Stamp) -> Result<(RecoveredSegment, Stamp)> {
        let temporary = self.prepare_temporary()?;
        let done = self.write(&temporary, floor)?;
        let fs = self.options.fs.as_ref();
        fs.rename(&temporary, &self.output)
            .map_err(Error::io("rename", &temporary))?;
        sync_parent(fs, &self.output).map_err(Error::io("sync the folder of", &self.output))?;
        Ok(done)
    }

    fn write(&self, temporary: &Path, floor: Stamp) -> Result<(RecoveredSegment, Stamp)> {
        let Some(source) = self.source else {
            return self.replace(temporary, floor);
        };
        let fs = self.options.fs.as_ref();
        match verify_chain_with(fs, source, VerifyOptions::default(), &mut ()) {
            Ok(found) if found.version == LEGACY_VERSION => Err(Error::Misuse {
                what: "a legacy file has no structure to recover; read it as it is",
            }),
            Ok(found) => {
                let file = fs.open(source).map_err(Error::io("open", source))?;
                let walked = walk_source(source, file.as_ref())?;
                if is_only_cut_off(&found, &walked) {
                    self.finalise(source, file.as_ref(), &walked, temporary, floor)
                } else {
                    self.salvage(source, walked.head, temporary, floor)
                }
            }
            Err(Error::Corrupt {
                section: Section::FileHeader,
                ..
            }) => self.salvage(source, None, temporary, floor),
            Err(Error::Incomplete { .. } | Error::NotAJournal { .. }) if self.ordinal > 0 => {
                self.replace(temporary, floor)
            }
            Err(other) => Err(other),
        }
    }

    fn prepare_temporary(&self) -> Result<PathBuf> {
        let mut name = self.output.as_os_str().to_owned();
        name.push(durable::TEMPORARY_SUFFIX);
        let path = PathBuf::from(name);
        match self.options.fs.remove_file(&path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => {
                return Err(Error::Io {
                    op: "remove",
                    path,
                    source: e,
                });
            }
        }
        Ok(path)
    }

    /// Copies the whole records and closes the file as a clean close would have.
    fn finalise(
        &self,
        source: &Path,
        file: &dyn FsFile,
        walked: &Walk,
        temporary: &Path,
        floor: Stamp,
    ) -> Result<(RecoveredSegment, Stamp)> {
        // A writer that closes a segment without records stamps it as the segment before ended.
        let last = match walked.record_count {
            0 if self.ordinal > 0 => floor,
            0 => Stamp {
                wall_ns: self.created(source)?,
                ..Stamp::default()
            },
            _ => walked.last,
        };
        let fs = self.options.fs.as_ref();
        let file_len = file.len().map_err(Error::io("read", source))?;
        let mut out = fs
            .create_new(temporary, durable::Access::Shared)
            .map_err(Error::io("create", temporary))?;
        copy(file, walked.end_offset, source, out.as_mut(), temporary)?;
        let mut index = walked.index.clone();
        let mut end = walked.end_offset;
        let mut record_count = walked.record_count;
        let mut chain = walked.chain;
        for _ in 0..missing_checkpoints(walked, self.is_chained(source)?) {
            let header = RecordHeader {
                payload_len: 32,
                kind: FrameKind::Chain.code(),
                padding: [0; 3],
                tick: last.tick,
                mono_ns: last.mono_ns,
                wall_ns: last.wall_ns,
                crc32: checksum::crc32(&chain),
            };
            if record_count.is_multiple_of(INDEX_EVERY) {
                index.push(IndexEntry {
                    tick: header.tick,
                    offset: end,
                });
            }
            let header_bytes = header.encode();
            let bytes = [&header_bytes[..], &chain].concat();
            out.append(&bytes).map_err(Error::io("write", temporary))?;
            chain = ChainHasher::new().step(&chain, &header_bytes, &chain);
            end += header.record_len();
            record_count += 1;
        }
        let seal = encode_seal(&index, end, record_count);
        out.append(&seal).map_err(Error::io("write", temporary))?;
        out.sync().map_err(Error::io("sync", temporary))?;
        let unchanged = end.saturating_add(seal.len() as u64) == file_len
            && walked.end == End::Index
            && same_tail(file, walked.end_offset, &seal).map_err(Error::io("read", source))?;
        let torn = matches!(walked.end, End::Torn | End::Zeros);
        let gaps = torn.then(|| Gap {
            start: walked.end_offset,
            end: file_len,
            before: walked.recent.last().map(|r| Neighbour {
                offset: r.offset,
                tick: r.stamp.tick,
                kind: r.kind,
            }),
            after: None,
        });
        let segment = RecoveredSegment {
            source: source.to_owned(),
            output: self.output.clone(),
            action: if unchanged {
                RecoveryAction::Copied
            } else {
                RecoveryAction::Finalised
            },
            records: walked.data_count,
            gaps: gaps.into_iter().collect(),
            unproven: Vec::new(),
        };
        Ok((segment, last))
    }

    fn header_of(&self, source: &Path) -> Result<Option<FileHeader>> {
        let fs = self.options.fs.as_ref();
        let mut window = open_window(fs, source)?;
        match read_identity(&mut window, source) {
            Ok((_, header)) => Ok(Some(header)),
            Err(Error::Corrupt { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    fn is_chained(&self, source: &Path) -> Result<bool> {
        Ok(self.header_of(source)?.is_some_and(|h| h.is_chained()))
    }

    fn created(&self, source: &Path) -> Result<u64> {
        Ok(self.header_of(source)?.map_or(0, |h| h.created_wall_ns))
    }

    /// A segment that says that the one of its place is missing.
    fn replace(&self, temporary: &Path, floor: Stamp) -> Result<(RecoveredSegment, Stamp)> {
        let payload = json!({
            "command": "recovered",
            "source": self.named.display().to_string(),
            "missing": true,
        });
        let mut writer = NewChain::create(self, temporary, None, floor)?;
        writer.push(
            FrameKind::Control,
            payload.to_string().as_bytes(),
            writer.first_stamp,
        )?;
        let last = writer.close()?;
        let segment = RecoveredSegment {
            source: self.named.clone(),
            output: self.output.clone(),
            action: RecoveryAction::Replaced,
            records: 0,
            gaps: Vec::new(),
            unproven: Vec::new(),
        };
        Ok((segment, last))
    }

    /// Copies every record that can be read into a new chain.
    fn salvage(
        &self,
        source: &Path,
        last_verified: Option<Digest>,
        temporary: &Path,
        floor: Stamp,
    ) -> Result<(RecoveredSegment, Stamp)> {
        let header = self.header_of(source)?;
        // Twice the same reading: the first record of the output must name the gaps.
        let mut records = 0;
        let seen = self.scan(source, floor, header.as_ref(), &mut |_, _, _| {
            records += 1;
            Ok(())
        })?;
        let listed = seen
            .gaps
            .get(..seen.gaps.len().min(GAPS_LISTED_MAX))
            .unwrap_or_default();
        let payload = json!({
            "command": "recovered",
            "source": source.display().to_string(),
            "sha256": self.source_digest(source)?,
            "last_verified_chain": last_verified.map(|head| hex(&head)),
            "gap_count": seen.gaps.len(),
            "gaps": listed,
            "unproven_count": seen.unproven.len(),
        });
        let mut writer = NewChain::create(self, temporary, header, floor)?;
        writer.push(
            FrameKind::Control,
            payload.to_string().as_bytes(),
            writer.first_stamp,
        )?;
        self.scan(
            source,
            floor,
            header.as_ref(),
            &mut |kind, payload, stamp| writer.push(kind, payload, stamp),
        )?;
        let last = writer.close()?;
        let segment = RecoveredSegment {
            source: source.to_owned(),
            output: self.output.clone(),
            action: RecoveryAction::Salvaged,
            records,
            gaps: seen.gaps,
            unproven: seen.unproven,
        };
        Ok((segment, last))
    }

    fn source_digest(&self, source: &Path) -> Result<String> {
        let read = |e| Error::io("read", source)(e);
        let file = self.options.fs.open(source).map_err(read)?;
        let mut buffer = vec![0; COPY_LEN];
        let mut hasher = Sha256::default();
        let mut at = 0;
        loop {
            let len = file.read_at(at, &mut buffer).map_err(read)?;
            if len == 0 {
                return Ok(hex(&hasher.finish()));
            }
            hasher.update(buffer.get(..len).unwrap_or_default());
            at += len as u64;
        }
    }

    fn scan(
        &self,
        source: &Path,
        floor: Stamp,
        header: Option<&FileHeader>,
        take: &mut Take<'_>,
    ) -> Result<Seen> {
        let read = |e| Error::io("read", source)(e);
        Scan::open(self.options.fs.as_ref(), source, floor, header)?.run(take, &read)
    }
}

/// A salvage's output: data records with their old stamps in a chain of their own.
struct NewChain<'a> {
    work: &'a Work<'a>,
    segment: SegmentWriter,
    hasher: ChainHasher,
    first_stamp: Stamp,
    last: Stamp,
}

impl<'a> NewChain<'a> {
    fn create(
        work: &'a Work<'a>,
        temporary: &Path,
        source_header: Option<FileHeader>,
        floor: Stamp,
    ) -> Result<Self> {
        let now = work.options.clock.wall_ns();
        let segmented = if work.in_set || source_header.is_some_and(|h| h.is_segmented()) {
            FLAG_SEGMENTED
        } else {
            0
        };
        let header = FileHeader {
            flags: FLAG_CHAINED | segmented,
            created_wall_ns: source_header.map_or(now, |h| h.created_wall_ns),
            segment_index: work.ordinal,
        };
        let fs = work.options.fs.as_ref();
        let segment = SegmentWriter::create(fs, temporary, header, 0)?;
        let first_stamp = Stamp {
            wall_ns: now,
            ..floor
        };
        Ok(Self {
            work,
            segment,
            hasher: ChainHasher::new(),
            first_stamp,
            last: first_stamp,
        })
    }

    fn push(&mut self, kind: FrameKind, payload: &[u8], stamp: Stamp) -> Result<()> {
        self.segment.push(&mut self.hasher, kind, payload, stamp)?;
        self.last = stamp;
        if self.segment.checkpoint_is_due() {
            self.segment.checkpoint(&mut self.hasher, stamp)?;
        }
        Ok(())
    }

    fn close(mut self) -> Result<Stamp> {
        self.segment.checkpoint(&mut self.hasher, self.last)?;
        self.segment.finish(self.work.options.fs.as_ref())?;
        Ok(self.last)
    }
}

/// True when every byte before the end of the records is vouched for: what is wrong, if anything, is
/// only that the end, or the index, is missing or damaged.
fn is_only_cut_off(found: &ChainVerification, walked: &Walk) -> bool {
    let chain_holds = matches!(walked.end, End::File | End::Index | End::Torn | End::Zeros);
    let damage_inside = found.findings.iter().any(|f| {
        f.severity == Severity::Damage && !matches!(f.code, "index_inconsistent" | "trailing_bytes")
    });
    chain_holds && !damage_inside
}

/// Walks a file whose header was read before.
fn walk_source(source: &Path, file: &dyn FsFile) -> Result<Walk> {
    let read = |e| Error::io("read", source)(e);
    let mut header = [0; file_header::LEN];
    file.read_exact_at(0, &mut header).map_err(read)?;
    let file_len = file.len().map_err(read)?;
    walk(file, file_len, genesis(&header), 1, &mut ()).map_err(read)
}

/// How many checkpoints a clean close would have written after the last whole record. It always writes
/// one of its own. The last record may already be that one: then it does not follow a full 64 records,
/// or it is a signature behind such a checkpoint, or the index has begun. And the cut may have taken the
/// regular one too, when it came right behind the 64th record.
fn missing_checkpoints(walked: &Walk, declared_chained: bool) -> usize {
    if !declared_chained && walked.checkpoint_count == 0 {
        return 0;
    }
    let ends_in_checkpoint = match walked.recent.as_slice() {
        [.., last] if last.kind == FrameKind::Chain => true,
        [.., before, last] => last.kind == FrameKind::Signature && before.kind == FrameKind::Chain,
        _ => false,
    };
    let closing = walked.end == End::Index || walked.last_interval != u64::from(CHECKPOINT_EVERY);
    if ends_in_checkpoint && closing {
        return 0;
    }
    1 + usize::from(walked.interval == u64::from(CHECKPOINT_EVERY))
}

fn copy(
    from: &dyn FsFile,
    len: u64,
    source: &Path,
    to: &mut dyn FsFile,
    target: &Path,
) -> Result<()> {
    let mut buffer = vec![0; COPY_LEN];
    let mut at = 0;
    while at < len {
        let want = usize::try_from(len - at).map_or(COPY_LEN, |left| left.min(COPY_LEN));
        let piece = buffer.get_mut(..want).unwrap_or_default();
        from.read_exact_at(at, piece)
            .map_err(Error::io("read", source))?;
        to.append(piece).map_err(Error::io("write", target))?;
        at += want as u64;
    }
    Ok(())
}

fn same_tail(file: &dyn FsFile, at: u64, expected: &[u8]) -> io::Result<bool> {
    let mut found = vec![0; expected.len()];
    file.read_exact_at(at, &mut found)?;
    Ok(found == expected)
}
