//! Opens a store, and brings it to where its writer stopped.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, RwLock};

use durable::{Clock, Fs, RealFs, SystemClock};

use super::blobs::BlobLocks;
use super::buffer::Buffer;
use super::columns::ColumnFiles;
use super::erase::{Failures, Mask};
use super::error::{During as _, Result, StoreError};
use super::generation::{self, Manifest};
use super::line_logs::{HealedLogs, LineLogs};
use super::lock::StoreLock;
use super::migrate::{self, Migrated, Migration, Progress};
use super::options::{Durability, StoreOptions, Upkeep};
use super::sealed::{Home, Sealed};
use super::{Shared, Store, View, Writer, compact, layout, leftovers, restore, upkeep};
use crate::segment::BlockCache;
use crate::span::Span;
use crate::wal::{self, Commit, FrameFault, Log, Recovered, ScanError, Stamp};

/// What opening a store has found and done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opened {
    /// The generation that is live.
    pub generation: u64,
    /// True when there was no generation before: a new store, or one of an older release.
    pub is_adopted: bool,
    /// Frames of the log that no segment held.
    pub replayed_frames: u64,
    /// Spans in them.
    pub replayed_spans: u64,
    /// Bytes of whole frames in the log, those that a segment holds already included.
    pub log_bytes: u64,
    /// Bytes at the end of the log that were cut off: of an append that was never acknowledged.
    pub torn_bytes: u64,
    /// True when a restore that was interrupted was brought to its end.
    pub is_restored: bool,
    /// Merges that were interrupted, and were brought to one of their ends.
    pub resolved_merges: usize,
    /// Unfinished files that were removed.
    pub swept_files: usize,
    /// What was converted of a store of an older release; `None` when it was of the present format.
    pub migrated: Option<Migrated>,
    /// What was put right in the logs of what is not a span.
    pub healed_logs: HealedLogs,
}

impl Store {
    /// Opens the store in `dir`, and creates it when there is none. One of an older release is brought to the present
    /// format first; when that is interrupted, the next opening goes on with it.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when somebody writes it; [`StoreError::Damaged`] and [`StoreError::Segment`] naming a file
    /// that is not as it was written; [`StoreError::Unreadable`] naming those that no format fits; [`StoreError::Io`].
    pub fn open(dir: &Path, options: StoreOptions) -> Result<Self> {
        Self::open_with(
            Arc::new(RealFs),
            Arc::new(SystemClock::start()),
            dir,
            options,
        )
    }

    /// [`Store::open`] on another file system and with another clock.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn open_with(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        dir: &Path,
        options: StoreOptions,
    ) -> Result<Self> {
        Self::open_with_progress(fs, clock, dir, options, &mut |_| ())
    }

    /// [`Store::open_with`], telling `report` of every file that a migration has done.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn open_with_progress(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        dir: &Path,
        options: StoreOptions,
        report: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Self> {
        durable::create_folder(fs.as_ref(), dir).during("create", dir)?;
        let lock = StoreLock::take(fs.as_ref(), dir)?;
        let home = Home {
            fs,
            dir: dir.to_owned(),
            pricing: Arc::clone(&options.pricing),
            blocks: BlockCache::new(options.block_cache_len),
            meters: Arc::default(),
            is_writable: true,
        };
        let opening = Opening {
            home: &home,
            fs: home.fs.as_ref(),
            clock: clock.as_ref(),
            dir,
            options: &options,
        };
        let (loaded, opened) = match opening.load(report) {
            Ok(loaded) => loaded,
            Err(error) => {
                lock.release(home.fs.as_ref());
                return Err(error);
            }
        };
        let background = options.upkeep == Upkeep::Background;
        let mut store = Self::of(home, clock, options, loaded, Some(lock), opened);
        store.drain_foreign_log()?;
        if background {
            let started = upkeep::start(&store.shared);
            store.upkeep = started.during("start a thread for", dir)?;
        }
        Ok(store)
    }

    pub(super) fn of(
        home: Home,
        clock: Arc<dyn Clock>,
        options: StoreOptions,
        loaded: Loaded,
        lock: Option<StoreLock>,
        opened: Opened,
    ) -> Self {
        let shared = Shared {
            erasure_failures: Failures::read(home.fs.as_ref(), &home.dir),
            blob_locks: BlobLocks::default(),
            meters: Arc::clone(&home.meters),
            home,
            clock,
            maintenance: Mutex::new(()),
            gate: RwLock::new(()),
            permit: Mutex::new(()),
            logs: loaded.logs,
            writer: Mutex::new(loaded.writer),
            sealed: Condvar::new(),
            work: Condvar::new(),
            commit: loaded.commit,
            view: RwLock::new(Arc::new(loaded.view)),
            columns: ColumnFiles::default(),
            lock: Mutex::new(lock),
            options,
        };
        Self {
            shared: Arc::new(shared),
            upkeep: Vec::new(),
            opened,
        }
    }

    /// What opening has found and done.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// A store that keeps no log may find one, of a time when it kept it. What is in there was acknowledged: it goes into a
    /// segment, and the log ends empty.
    fn drain_foreign_log(&self) -> Result<()> {
        if self.shared.options.durability != Durability::Buffered {
            return Ok(());
        }
        if self.shared.writer().log.is_some() {
            self.shared.seal()?;
            self.shared.writer().log = None;
        }
        Ok(())
    }
}

struct Opening<'o> {
    home: &'o Home,
    fs: &'o dyn Fs,
    clock: &'o dyn Clock,
    dir: &'o Path,
    options: &'o StoreOptions,
}

/// What a store begins with.
pub(super) struct Loaded {
    pub(super) writer: Writer,
    pub(super) commit: Commit,
    pub(super) logs: LineLogs,
    pub(super) view: View,
}

impl Opening<'_> {
    fn load(&self, report: migrate::Report<'_>) -> Result<(Loaded, Opened)> {
        let mut opened = Opened {
            is_restored: restore::finish(self.fs, self.dir)?,
            ..Opened::default()
        };
        // Before anything is digested: a torn end is no part of a generation.
        let (logs, healed_logs) = LineLogs::open(&self.home.fs, self.dir)?;
        opened.healed_logs = healed_logs;
        let current = generation::current(self.fs, self.dir)?;
        opened.is_adopted = current.is_none();
        opened.generation = match current {
            Some(generation) => generation,
            None => self.adopt(&mut opened)?,
        };
        opened.swept_files = layout::sweep_temporaries(self.fs, self.dir)?
            + leftovers::sweep_payloads(self.fs, self.dir)?;
        opened.resolved_merges = compact::recover(self.fs, self.dir)?;
        let migration = Migration {
            fs: self.fs,
            clock: self.clock,
            dir: self.dir,
            pricing: &self.home.pricing,
        };
        let manifest = Manifest::read(self.fs, self.dir, opened.generation)?;
        let (manifest, migrated) = migration.run(manifest, report)?;
        opened.generation = manifest.generation;
        opened.migrated = migrated;
        let segments = self.segments()?;
        let next_segment = match segments.last() {
            Some(last) => last.id().saturating_add(1),
            None => 0,
        };
        self.sweep_sidecars(&segments)?;
        let (buffer, log) = self.replay(&manifest, &mut opened)?;
        let commit = Commit::default();
        if let Some(log) = &log {
            let file = log.for_sync(self.fs);
            commit.adopt(file.during("open", &self.dir.join(wal::FILE_NAME))?);
        }
        let writer = Writer {
            log,
            taken_in: buffer.len(),
            oldest_ns: (!buffer.is_empty()).then(|| self.clock.mono_ns()),
            next_segment,
            generation: opened.generation,
            ..Writer::default()
        };
        let view = View {
            buffer,
            segments: segments.into(),
            // From the first answer on.
            mask: Arc::new(Mask::of(logs.tombstones().pending())),
        };
        let loaded = Loaded {
            writer,
            commit,
            logs,
            view,
        };
        Ok((loaded, opened))
    }

    /// Makes the first generation of a folder that has none.
    fn adopt(&self, opened: &mut Opened) -> Result<u64> {
        opened.torn_bytes = migrate::adopt_log(self.fs, self.dir)?;
        // The logs were healed: all of them that is there is acknowledged.
        let files = generation::digest_files(self.fs, self.dir, &[], &|_| None)?;
        let pins = self.dir.join("pins");
        let has_pins = self.fs.exists(&pins).during("look for", &pins)?;
        let payloads = layout::payloads_path(self.dir);
        let has_payloads = self.fs.exists(&payloads).during("look for", &payloads)?;
        // What is not known to be current is declared after it was looked at.
        let declares = !has_pins && !has_payloads && migrate::are_current(self.fs, self.dir)?;
        let manifest = Manifest::first(self.clock.wall_ns(), files, declares);
        manifest.publish(self.fs, self.dir)?;
        Ok(manifest.generation)
    }

    fn segments(&self) -> Result<Vec<Arc<Sealed>>> {
        layout::segments(self.fs, self.dir)?
            .into_iter()
            .map(|(id, _)| Ok(Arc::new(Sealed::open(self.home, id)?)))
            .collect()
    }

    /// Removes sidecars whose segment is gone.
    fn sweep_sidecars(&self, segments: &[Arc<Sealed>]) -> Result<()> {
        for path in self.fs.read_dir(self.dir).during("list", self.dir)? {
            let name = layout::file_name(&path);
            if !layout::is_sidecar(name) {
                continue;
            }
            let segment = path.with_extension("seg");
            let id = layout::segment_id(layout::file_name(&segment));
            if !segments.iter().any(|sealed| Some(sealed.id()) == id) {
                // It is only a cache; the next opening tries again.
                self.fs.remove_file(&path).ok();
            }
        }
        Ok(())
    }

    fn replay(&self, manifest: &Manifest, opened: &mut Opened) -> Result<(Buffer, Option<Log>)> {
        let path = self.dir.join(wal::FILE_NAME);
        let fold = Stamp::from(manifest.folded_through);
        let logged = Logged::read(self.fs, self.dir, fold)?;
        opened.take(&logged);
        let found = logged.found.unwrap_or_default();
        let last = found.last.unwrap_or_default();
        let stamp = Stamp {
            epoch: last.epoch.max(opened.generation),
            sequence: last.sequence.max(fold.sequence),
        };
        let keeps_log = self.options.durability != Durability::Buffered;
        let log = if found.len > 0 && (keeps_log || found.frames > 0) {
            Some(Log::open(self.fs, self.dir, found.len, stamp).during("open", &path)?)
        } else if keeps_log {
            Some(Log::create(self.fs, self.dir, stamp).during("create", &path)?)
        } else {
            None
        };
        Ok((logged.buffer, log))
    }
}

/// What the log of a store holds beyond its live generation.
#[derive(Debug, Default)]
pub(super) struct Logged {
    /// The spans.
    pub(super) buffer: Buffer,
    /// What the scan has found; `None` without a log.
    found: Option<Recovered>,
    frames: u64,
    spans: u64,
}

impl Logged {
    /// Reads the frames behind `fold`.
    pub(super) fn read(fs: &dyn Fs, dir: &Path, fold: Stamp) -> Result<Self> {
        let path = dir.join(wal::FILE_NAME);
        let file = match fs.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            other => other.during("open", &path)?,
        };
        let mut logged = Self::default();
        let found = wal::scan(file.as_ref(), &mut |frame| {
            if frame.stamp <= fold {
                return Ok(());
            }
            let spans = spans_of(frame.payload)?;
            logged.frames += 1;
            logged.spans += spans.len() as u64;
            logged.buffer.upsert_all(spans.into_iter().map(Arc::new));
            Ok(())
        });
        logged.found = Some(found.map_err(|error| unreadable(&path, error))?);
        Ok(logged)
    }
}

impl Opened {
    pub(super) fn take(&mut self, logged: &Logged) {
        self.replayed_frames = logged.frames;
        self.replayed_spans = logged.spans;
        let found = logged.found.unwrap_or_default();
        self.log_bytes = found.len.saturating_sub(wal::MAGIC.len() as u64);
        self.torn_bytes += found.torn_len;
    }
}

pub(super) fn spans_of(payload: &[u8]) -> Result<Vec<Span>, FrameFault> {
    let fault = |reason: String| FrameFault::Spans { reason };
    let spans = Span::batch_from_json(payload).map_err(|error| fault(error.to_string()))?;
    for span in &spans {
        span.validate().map_err(|error| fault(error.to_string()))?;
    }
    Ok(spans)
}

fn unreadable(path: &Path, error: ScanError) -> StoreError {
    match error {
        ScanError::Damaged { offset, fault } => StoreError::Damaged {
            path: path.to_owned(),
            offset: Some(offset),
            what: fault.to_string(),
        },
        ScanError::Io(source) => StoreError::Io {
            op: "read",
            path: path.to_owned(),
            source,
        },
    }
}
