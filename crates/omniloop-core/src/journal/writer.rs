//! Writing a journal: one file, or a rotated set.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use durable::digest::Digest;
use durable::{Access, Clock, Fs, FsFile, RealFs, SystemClock, checksum, sync_parent};

use super::chain::{ChainHasher, genesis};
use super::codec::{FILE_HEADER_LEN, FileHeader, IndexEntry, RecordHeader, encode_seal};
use super::error::{Error, Result};
use super::frame::FrameKind;
use super::layout::{CHECKPOINT_EVERY, FLAG_CHAINED, FLAG_SEGMENTED, INDEX_EVERY, PAYLOAD_LEN_MAX};
use super::segments::{segment_path, segments_on_disk, sidecar_paths, starts_a_set};
#[cfg(feature = "signing")]
use super::sign::JournalSigner;

/// Bytes held back before they go to the operating system.
const BUFFER_LEN: usize = 256 * 1024;
/// The wall clock is read again at each checkpoint, and at the latest after this long.
const WALL_REREAD_NS: u64 = 1_000_000_000;
/// A wall clock that is off by more than this at a reading was set, and that is recorded.
const CLOCK_STEP_NS: u64 = 500_000_000;

/// When appended records become durable. `docs/durability.md` has the ladder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// At seal. Until then records reach the operating system when the buffer of 256 KiB is full.
    #[default]
    Buffered,
    /// After every so many records.
    EveryN(u64),
    /// When so many milliseconds have passed since the last sync, at the next record or
    /// [`StateJournal::sync_if_due`].
    EveryMs(u64),
    /// Before each append returns.
    EachRecord,
}

/// When to start a new segment. Checked before a record is appended; records are never split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RotationPolicy {
    /// Most bytes of file header and records in a segment. A larger record gets a segment of its own.
    pub max_bytes: Option<u64>,
    /// Most records in a segment, chain and signature records not counted.
    pub max_records: Option<u64>,
    /// Longest time from a segment's creation to a record in it.
    pub max_age: Option<Duration>,
}

/// How a journal is written.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Where the files go.
    pub fs: Arc<dyn Fs>,
    /// Where the stamps come from.
    pub clock: Arc<dyn Clock>,
    /// When appended records become durable.
    pub durability: Durability,
    /// `Some` writes a rotated set, whose every segment is marked as such.
    pub rotation: Option<RotationPolicy>,
    /// Removes what stands at the path (the whole set and its attestation) instead of refusing.
    pub overwrite: bool,
    /// Signs the closing checkpoint of every segment.
    #[cfg(feature = "signing")]
    pub signer: Option<JournalSigner>,
    /// Signs every so many checkpoints too.
    #[cfg(feature = "signing")]
    pub sign_every: Option<std::num::NonZeroU64>,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self {
            fs: Arc::new(RealFs),
            clock: Arc::new(SystemClock::start()),
            durability: Durability::default(),
            rotation: None,
            overwrite: false,
            #[cfg(feature = "signing")]
            signer: None,
            #[cfg(feature = "signing")]
            sign_every: None,
        }
    }
}

/// What the journal stamped onto a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Frame counter.
    pub tick: u64,
    /// Nanoseconds since the journal was created.
    pub mono_ns: u64,
    /// Nanoseconds since the Unix epoch.
    pub wall_ns: u64,
}

/// What a sealed journal consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Its files, in order.
    pub paths: Vec<PathBuf>,
    /// Records in all of them, of every kind.
    pub record_count: u64,
    /// The value that the last checkpoint carries, and that a signature covers.
    pub head: Digest,
}

/// An open journal. Appends are synchronous and return errors; after the first error every later
/// call returns that error again, so that nothing is silently skipped.
///
/// Dropping it without [`seal`](Self::seal) leaves a valid file without index and trailer.
#[derive(Debug)]
pub struct StateJournal {
    base: PathBuf,
    options: JournalOptions,
    clock_start_ns: u64,
    last: Stamp,
    wall: WallOffset,
    /// The record of a step of the wall clock, to be written before the next one.
    clock_step: Option<String>,
    segment: SegmentWriter,
    earlier_records: u64,
    hasher: ChainHasher,
    since_sync: u64,
    last_sync_ns: u64,
    #[cfg(feature = "signing")]
    checkpoints_since_signature: u64,
    failed: Option<Error>,
}

/// The wall clock as of one reading, carried on by the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct WallOffset {
    wall_ns: u64,
    mono_ns: u64,
}

impl WallOffset {
    fn at(self, mono_ns: u64) -> u64 {
        self.wall_ns
            .saturating_add(mono_ns.saturating_sub(self.mono_ns))
    }
}

/// One file of a journal. Knows the format; the caller decides stamps and when to checkpoint.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    path: PathBuf,
    ordinal: u64,
    file: Box<dyn FsFile>,
    buffer: Vec<u8>,
    /// Bytes of the file, the buffered ones included.
    len: u64,
    start_mono_ns: u64,
    chain: Digest,
    head: Digest,
    record_count: u64,
    data_count: u64,
    since_checkpoint: u32,
    index: Vec<IndexEntry>,
}

impl StateJournal {
    /// Creates a journal of one file at `path`, which must not exist yet.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        Self::create_with(path, JournalOptions::default())
    }

    /// Creates a rotated set whose segment 0 is `path`.
    pub fn create_rotating(path: impl AsRef<Path>, policy: RotationPolicy) -> Result<Self> {
        let rotation = Some(policy);
        Self::create_with(
            path,
            JournalOptions {
                rotation,
                ..JournalOptions::default()
            },
        )
    }

    /// Creates a journal.
    ///
    /// # Errors
    /// `Io` with `AlreadyExists` when `path`, or for a rotated set any segment of it, exists and
    /// `overwrite` was not asked for.
    ///
    /// # Durability
    /// When it returns, the file's name and header are durable.
    pub fn create_with(path: impl AsRef<Path>, options: JournalOptions) -> Result<Self> {
        let base = path.as_ref().to_owned();
        clear_the_way(&base, &options)?;
        let clock_start_ns = options.clock.mono_ns();
        let created_wall_ns = options.clock.wall_ns();
        let segment = new_segment(&base, 0, created_wall_ns, 0, &options)?;
        Ok(Self {
            base,
            clock_start_ns,
            last: Stamp {
                wall_ns: created_wall_ns,
                ..Stamp::default()
            },
            wall: WallOffset {
                wall_ns: created_wall_ns,
                mono_ns: 0,
            },
            clock_step: None,
            segment,
            earlier_records: 0,
            hasher: ChainHasher::new(),
            since_sync: 0,
            last_sync_ns: 0,
            #[cfg(feature = "signing")]
            checkpoints_since_signature: 0,
            failed: None,
            options,
        })
    }

    /// The path of segment 0.
    pub fn path(&self) -> &Path {
        &self.base
    }

    /// The stamp of the last record.
    pub fn last_stamp(&self) -> Stamp {
        self.last
    }

    /// Ordinal of the segment that is being written.
    pub fn segment_ordinal(&self) -> u64 {
        self.segment.ordinal
    }

    /// Appends a record, stamped with the time of this call.
    ///
    /// A telemetry record advances the tick by one; every other record carries the current tick.
    ///
    /// # Errors
    /// `Misuse` for a chain or signature record, which the journal writes itself; `Limit` for a
    /// payload over [`PAYLOAD_LEN_MAX`]; `Io` as the first failure of the disk, ever after.
    #[inline]
    pub fn append(&mut self, kind: FrameKind, payload: &[u8]) -> Result<Stamp> {
        let clock_ns = self.options.clock.mono_ns();
        self.append_read_at(kind, payload, clock_ns)
    }

    /// Appends a record, stamped with an earlier reading of the journal's own clock: for callers
    /// that queue records between their event and this call. A reading older than the record before
    /// is taken as equal to it.
    pub fn append_read_at(
        &mut self,
        kind: FrameKind,
        payload: &[u8],
        clock_ns: u64,
    ) -> Result<Stamp> {
        self.usable()?;
        if !kind.is_data() {
            return Err(Error::Misuse {
                what: "chain and signature records are the journal's own",
            });
        }
        if payload.len() > PAYLOAD_LEN_MAX {
            return Err(Error::Limit {
                what: "payload in bytes",
                value: payload.len() as u64,
                max: PAYLOAD_LEN_MAX as u64,
            });
        }
        let ready = self.make_ready(payload.len(), clock_ns);
        let mono_ns = self.remember(ready)?;
        // The three stamps stay numbers of their own on the way down: returned or passed as a struct
        // they would be read back as one wide word before their stores have retired, and every append
        // would wait for the hash of the one before (about 40 ns; `cargo dev bench omni`).
        let tick = self.last.tick + u64::from(kind == FrameKind::Telemetry);
        let wall_ns = self.wall.at(mono_ns);
        let written = self.write_record(kind, payload, tick, mono_ns, wall_ns);
        if written.is_err() {
            self.remember(written)?;
        }
        Ok(Stamp {
            tick,
            mono_ns,
            wall_ns,
        })
    }

    /// Sees to the clocks and to rotation; answers the record's monotonic time.
    #[inline]
    fn make_ready(&mut self, payload_len: usize, clock_ns: u64) -> Result<u64> {
        let mono_ns = clock_ns
            .saturating_sub(self.clock_start_ns)
            .max(self.last.mono_ns);
        if mono_ns.saturating_sub(self.wall.mono_ns) > WALL_REREAD_NS {
            self.reread_wall_clock();
        }
        if let Some(step) = self.clock_step.take() {
            self.rotate_if_due(step.len(), mono_ns)?;
            let (tick, wall_ns) = (self.last.tick, self.wall.at(mono_ns));
            self.write_record(FrameKind::Control, step.as_bytes(), tick, mono_ns, wall_ns)?;
        }
        self.rotate_if_due(payload_len, mono_ns)?;
        Ok(mono_ns)
    }

    #[inline]
    fn write_record(
        &mut self,
        kind: FrameKind,
        payload: &[u8],
        tick: u64,
        mono_ns: u64,
        wall_ns: u64,
    ) -> Result<()> {
        let stamp = Stamp {
            tick,
            mono_ns,
            wall_ns,
        };
        self.segment.push(&mut self.hasher, kind, payload, stamp)?;
        self.last = stamp;
        if self.segment.checkpoint_is_due() {
            self.checkpoint()?;
            self.reread_wall_clock();
        }
        self.since_sync += 1;
        let due = match self.options.durability {
            Durability::Buffered => false,
            Durability::EachRecord => true,
            Durability::EveryN(n) => self.since_sync >= n,
            Durability::EveryMs(ms) => self.sync_age_ms(mono_ns) >= ms,
        };
        if due {
            self.sync_at(mono_ns)?;
        }
        Ok(())
    }

    #[inline]
    fn rotate_if_due(&mut self, payload_len: usize, mono_ns: u64) -> Result<()> {
        if self.rotation_is_due(payload_len, mono_ns) {
            self.rotate(mono_ns)?;
        }
        Ok(())
    }

    fn reread_wall_clock(&mut self) {
        let mono_ns = self
            .options
            .clock
            .mono_ns()
            .saturating_sub(self.clock_start_ns);
        let wall_ns = self.options.clock.wall_ns();
        let expected_ns = self.wall.at(mono_ns);
        if wall_ns.abs_diff(expected_ns) > CLOCK_STEP_NS {
            let step = format!(
                r#"{{"command":"clock_step","expected_wall_ns":{expected_ns},"wall_ns":{wall_ns}}}"#
            );
            self.clock_step = Some(step);
        }
        self.wall = WallOffset { wall_ns, mono_ns };
    }

    fn rotation_is_due(&self, payload_len: usize, mono_ns: u64) -> bool {
        let Some(policy) = self.options.rotation else {
            return false;
        };
        if self.segment.data_count == 0 {
            return false;
        }
        let record_len = payload_len as u64 + 36;
        let age_ns = mono_ns.saturating_sub(self.segment.start_mono_ns);
        policy
            .max_bytes
            .is_some_and(|max| self.segment.len.saturating_add(record_len) > max)
            || policy
                .max_records
                .is_some_and(|max| self.segment.data_count >= max)
            || policy
                .max_age
                .is_some_and(|max| u128::from(age_ns) >= max.as_nanos())
    }

    fn rotate(&mut self, mono_ns: u64) -> Result<()> {
        self.seal_segment()?;
        let ordinal = self.segment.ordinal + 1;
        let created_wall_ns = self.wall.at(mono_ns);
        self.earlier_records += self.segment.record_count;
        self.segment = new_segment(&self.base, ordinal, created_wall_ns, mono_ns, &self.options)?;
        self.since_sync = 0;
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.segment.checkpoint(&mut self.hasher, self.last)?;
        #[cfg(feature = "signing")]
        {
            self.checkpoints_since_signature += 1;
            let every = self
                .options
                .sign_every
                .map_or(u64::MAX, std::num::NonZeroU64::get);
            if self.checkpoints_since_signature >= every {
                self.sign()?;
            }
        }
        Ok(())
    }

    #[cfg(feature = "signing")]
    fn sign(&mut self) -> Result<()> {
        if let Some(signer) = &self.options.signer {
            let payload = signer.sign_checkpoint(&self.segment.head);
            self.segment
                .push(&mut self.hasher, FrameKind::Signature, &payload, self.last)?;
            self.checkpoints_since_signature = 0;
        }
        Ok(())
    }

    fn seal_segment(&mut self) -> Result<()> {
        self.segment.checkpoint(&mut self.hasher, self.last)?;
        #[cfg(feature = "signing")]
        self.sign()?;
        self.segment.finish(self.options.fs.as_ref())
    }

    /// Hands everything appended so far to the operating system: another process can read it, and
    /// it survives the end of this one.
    pub fn flush(&mut self) -> Result<()> {
        self.usable()?;
        let result = self.segment.flush();
        self.remember(result)
    }

    /// Makes everything appended so far durable.
    pub fn sync(&mut self) -> Result<()> {
        self.usable()?;
        let mono_ns = self
            .options
            .clock
            .mono_ns()
            .saturating_sub(self.clock_start_ns);
        let result = self.sync_at(mono_ns);
        self.remember(result)
    }

    /// Syncs when [`Durability::EveryMs`] says that it is time: for a caller whose records pause.
    pub fn sync_if_due(&mut self) -> Result<()> {
        self.usable()?;
        let Durability::EveryMs(ms) = self.options.durability else {
            return Ok(());
        };
        let mono_ns = self
            .options
            .clock
            .mono_ns()
            .saturating_sub(self.clock_start_ns);
        if self.since_sync == 0 || self.sync_age_ms(mono_ns) < ms {
            return Ok(());
        }
        let result = self.sync_at(mono_ns);
        self.remember(result)
    }

    fn sync_age_ms(&self, mono_ns: u64) -> u64 {
        mono_ns.saturating_sub(self.last_sync_ns) / 1_000_000
    }

    fn sync_at(&mut self, mono_ns: u64) -> Result<()> {
        self.segment.flush()?;
        self.segment
            .file
            .sync_data()
            .map_err(Error::io("sync", &self.segment.path))?;
        self.since_sync = 0;
        self.last_sync_ns = mono_ns;
        Ok(())
    }

    /// Writes the closing checkpoint (and signature), index and trailer.
    ///
    /// # Durability
    /// When it returns, the whole journal and its names are durable.
    pub fn seal(mut self) -> Result<Sealed> {
        self.usable()?;
        let result = self.seal_segment();
        self.remember(result)?;
        let paths = (0..=self.segment.ordinal)
            .map(|n| segment_path(&self.base, n))
            .collect();
        let record_count = self.earlier_records + self.segment.record_count;
        Ok(Sealed {
            paths,
            record_count,
            head: self.segment.head,
        })
    }

    fn usable(&self) -> Result<()> {
        self.failed
            .as_ref()
            .map_or(Ok(()), |first| Err(first.again()))
    }

    fn remember<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.failed = Some(error.again());
        }
        result
    }
}

impl Drop for StateJournal {
    fn drop(&mut self) {
        if self.failed.is_none() {
            // Nobody is left to tell; the reader will see a file that was not sealed.
            self.segment.flush().ok();
        }
    }
}

fn new_segment(
    base: &Path,
    ordinal: u64,
    created_wall_ns: u64,
    start_mono_ns: u64,
    options: &JournalOptions,
) -> Result<SegmentWriter> {
    let segmented = if options.rotation.is_some() {
        FLAG_SEGMENTED
    } else {
        0
    };
    let header = FileHeader {
        flags: FLAG_CHAINED | segmented,
        created_wall_ns,
        segment_index: ordinal,
    };
    let path = segment_path(base, ordinal);
    SegmentWriter::create(options.fs.as_ref(), &path, header, start_mono_ns)
}

impl SegmentWriter {
    pub(super) fn create(
        fs: &dyn Fs,
        path: &Path,
        header: FileHeader,
        start_mono_ns: u64,
    ) -> Result<Self> {
        let header_bytes = header.encode();
        let mut file = fs
            .create_new(path, Access::Shared)
            .map_err(Error::io("create", path))?;
        file.append(&header_bytes)
            .map_err(Error::io("write", path))?;
        file.sync().map_err(Error::io("sync", path))?;
        sync_parent(fs, path).map_err(Error::io("sync the folder of", path))?;
        let chain = genesis(&header_bytes);
        Ok(Self {
            path: path.to_owned(),
            ordinal: header.segment_index,
            file,
            buffer: Vec::with_capacity(BUFFER_LEN),
            len: FILE_HEADER_LEN,
            start_mono_ns,
            chain,
            head: chain,
            record_count: 0,
            data_count: 0,
            since_checkpoint: 0,
            index: Vec::new(),
        })
    }

    /// True when the next thing to write is a checkpoint.
    #[inline]
    pub(super) fn checkpoint_is_due(&self) -> bool {
        self.since_checkpoint == CHECKPOINT_EVERY
    }

    #[inline]
    pub(super) fn push(
        &mut self,
        hasher: &mut ChainHasher,
        kind: FrameKind,
        payload: &[u8],
        stamp: Stamp,
    ) -> Result<()> {
        let payload_len = u32::try_from(payload.len()).map_err(|_| Error::Misuse {
            what: "a payload does not fit 32 bits",
        })?;
        let header = RecordHeader {
            payload_len,
            kind: kind.code(),
            padding: [0; 3],
            tick: stamp.tick,
            mono_ns: stamp.mono_ns,
            wall_ns: stamp.wall_ns,
            crc32: checksum::crc32(payload),
        };
        let header_bytes = header.encode();
        self.chain = hasher.step(&self.chain, &header_bytes, payload);
        if self.record_count.is_multiple_of(INDEX_EVERY) {
            self.index.push(IndexEntry {
                tick: stamp.tick,
                offset: self.len,
            });
        }
        if self.buffer.len() + header_bytes.len() + payload.len() > BUFFER_LEN {
            self.flush()?;
        }
        self.buffer.extend_from_slice(&header_bytes);
        if payload.len() > BUFFER_LEN {
            self.flush()?;
            self.file
                .append(payload)
                .map_err(Error::io("write", &self.path))?;
        } else {
            self.buffer.extend_from_slice(payload);
        }
        self.len += header.record_len();
        self.record_count += 1;
        if kind.is_data() {
            self.data_count += 1;
            self.since_checkpoint += 1;
        }
        Ok(())
    }

    pub(super) fn checkpoint(&mut self, hasher: &mut ChainHasher, stamp: Stamp) -> Result<()> {
        self.head = self.chain;
        let payload = self.chain;
        self.push(hasher, FrameKind::Chain, &payload, stamp)?;
        self.since_checkpoint = 0;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = self.file.append(&self.buffer);
        self.buffer.clear();
        written.map_err(Error::io("write", &self.path))
    }

    /// Writes index and trailer and makes the file durable.
    pub(super) fn finish(&mut self, fs: &dyn Fs) -> Result<()> {
        let seal = encode_seal(&self.index, self.len, self.record_count);
        self.flush()?;
        self.file
            .append(&seal)
            .map_err(Error::io("write", &self.path))?;
        self.file.sync().map_err(Error::io("sync", &self.path))?;
        sync_parent(fs, &self.path).map_err(Error::io("sync the folder of", &self.path))
    }
}

/// Refuses to write over a record, or removes it when that was asked for.
fn clear_the_way(base: &Path, options: &JournalOptions) -> Result<()> {
    let fs = options.fs.as_ref();
    let exists = fs.exists(base).map_err(Error::io("look at", base))?;
    // `run.1.omni` beside a `run.omni` without rotation is a journal of its own.
    let takes_segments =
        options.rotation.is_some() || (exists && options.overwrite && starts_a_set(fs, base)?);
    let segments = segments_on_disk(fs, base)?;
    let in_the_way: Vec<PathBuf> = exists
        .then(|| base.to_owned())
        .into_iter()
        .chain(
            segments
                .into_iter()
                .filter(|_| takes_segments)
                .map(|(_, p)| p),
        )
        .collect();
    let Some(first) = in_the_way.first() else {
        return Ok(());
    };
    if !options.overwrite {
        let source = io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a record stands there already; choose another name or ask to overwrite it",
        );
        return Err(Error::Io {
            op: "create",
            path: first.clone(),
            source,
        });
    }
    // Attestation first: a note without its journal would look like a removed record.
    for path in sidecar_paths(base).iter().chain(in_the_way.iter().rev()) {
        match fs.remove_file(path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => {
                return Err(Error::Io {
                    op: "remove",
                    path: path.clone(),
                    source: e,
                });
            }
        }
    }
    sync_parent(fs, base).map_err(Error::io("sync the folder of", base))
}
