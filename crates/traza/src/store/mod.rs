//! The store: a folder that takes spans in and answers questions about them
//! (`docs/formats/traza-store.md`).
//!
//! # Locks, in the order in which they are taken
//! 1. *maintenance*: one checkpoint, pin, merge, expiry or erasure at a time;
//! 2. the *gate*: whoever takes something in shares it; who must know that nothing is on its way takes it alone;
//! 3. the *seal permit*: one change of the segments at a time;
//! 4. one of the *logs* of what is not a span: annotations, evals, tombstones;
//! 5. the *writer*: the log and what decides when to seal. Ingest holds it while it appends a frame, never while it syncs;
//! 6. the *view*: swapped under the writer, read by everybody, held for a pointer's copy only.
//!
//! Those of the *blobs* are held while one of them is written, under the gate and with no other.
//!
//! A reader takes the view once and keeps it: it sees one version of every span, whatever happens meanwhile.

pub mod analytics;
mod annotations;
mod blobs;
mod budget;
mod buffer;
mod checkpoint;
pub mod columns;
mod compact;
mod erase;
pub mod error;
mod evals;
mod filter;
pub mod generation;
mod ingest;
pub(crate) mod layout;
mod leftovers;
mod line_logs;
mod liveness;
mod lock;
pub mod metrics;
mod migrate;
mod open;
mod open_read_only;
mod options;
mod pacing;
mod pin;
mod query;
mod read;
mod restore;
mod retain;
mod seal;
mod sealed;
mod snapshot;
mod spans;
mod stats;
mod survey;
mod upkeep;
mod verify;
mod verify_generation;
mod write;

pub use annotations::{Annotated, AnnotationFilter};
pub use compact::Compacted;
pub use erase::{Domain, ErasureFailure, Receipt, Standing};
pub use error::{Result, StoreError, UnreadableFile};
pub use evals::ExperimentSummary;
pub use filter::Filter;
pub use ingest::Ingested;
pub use line_logs::HealedLogs;
pub use migrate::{Migrated, Progress};
pub use open::Opened;
pub use options::{Compaction, Durability, Retention, StoreOptions, Upkeep};
pub use pin::Pin;
pub use query::{Cost, Cursor, Page, Query, SORT_MAX, Sort};
pub use restore::{Restored, restore};
pub use retain::Expired;
pub use snapshot::SnapshotView;
pub use spans::Spans;
pub use stats::Stats;
pub use survey::{SegmentFacts, StoreSurvey, survey};
pub use verify::verify;
pub use verify_generation::GenerationCheck;

use std::path::{Path, PathBuf};
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::thread::JoinHandle;

use durable::{Clock, Fs};

use crate::wal::{Commit, Log, Place};
use blobs::BlobLocks;
use buffer::Buffer;
use erase::{Failures, Mask};
use line_logs::LineLogs;
use lock::StoreLock;
use pacing::Pacing;
use sealed::{Home, Sealed};

/// An open store. Shared between threads; the one writer of its folder.
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
    upkeep: Vec<JoinHandle<()>>,
    opened: Opened,
}

/// What the threads of a store share.
#[derive(Debug)]
struct Shared {
    home: Home,
    clock: Arc<dyn Clock>,
    options: StoreOptions,
    maintenance: Mutex<()>,
    gate: RwLock<()>,
    permit: Mutex<()>,
    logs: LineLogs,
    erasure_failures: Failures,
    blob_locks: BlobLocks,
    writer: Mutex<Writer>,
    /// A seal has ended, or has failed.
    sealed: Condvar,
    /// The upkeep thread has something to do.
    work: Condvar,
    commit: Commit,
    view: RwLock<Arc<View>>,
    columns: columns::ColumnFiles,
    meters: Arc<metrics::Meters>,
    /// Taken when the store is closed.
    lock: Mutex<Option<StoreLock>>,
}

/// What only one thread at a time may change.
#[derive(Debug, Default)]
struct Writer {
    /// None for a store that keeps no log.
    log: Option<Log>,
    /// Where the frames began that no segment held after the last seal.
    sealed_up_to: Option<Place>,
    /// The log is so long that those before that place should be taken out of it.
    is_trim_due: bool,
    /// Spans taken in since the last seal, repeated ones too.
    taken_in: usize,
    /// When the oldest buffered span came, on the monotonic clock.
    oldest_ns: Option<u64>,
    next_segment: u64,
    /// The generation that is live.
    generation: u64,
    /// How often sealing has failed.
    failures: u64,
    /// Why it failed the last time, until it succeeds.
    failure: Option<String>,
    pacing: Pacing,
    is_closing: bool,
}

/// What a reader sees.
#[derive(Clone, Debug, Default)]
struct View {
    buffer: Buffer,
    /// The oldest first.
    segments: Arc<[Arc<Sealed>]>,
    /// What is being erased; whoever answers from the view leaves it out.
    mask: Arc<Mask>,
}

impl Shared {
    fn fs(&self) -> &dyn Fs {
        self.home.fs.as_ref()
    }

    /// Refuses what would change a store that is open for reading only.
    fn check_writable(&self) -> Result<()> {
        if self.home.is_writable {
            return Ok(());
        }
        Err(StoreError::ReadOnly {
            path: self.home.dir.clone(),
        })
    }

    fn log_path(&self) -> PathBuf {
        self.home.dir.join(crate::wal::FILE_NAME)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A panic in between leaves a log that is at worst longer than it says, which its next use finds.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For taking something in. Not twice in one thread: somebody may be waiting for it alone in between.
    fn gate(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// While it is held, nothing is on its way into the store.
    fn gate_alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> Arc<View> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&view)
    }

    /// Under the writer's lock.
    fn set_view(&self, view: View) {
        let shown = self.meters.view_wait.time(|| self.view.write());
        *shown.unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }
}

impl Store {
    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.shared.home.dir
    }

    /// How it works.
    pub fn options(&self) -> &StoreOptions {
        &self.shared.options
    }
}

impl Drop for Store {
    /// Ends the upkeep and gives the folder up. What is buffered stays in the log; at [`Durability::Buffered`] it is
    /// lost unless [`Store::flush`] came before.
    fn drop(&mut self) {
        self.shared.writer().is_closing = true;
        self.shared.work.notify_all();
        self.shared.mend_log();
        for thread in self.upkeep.drain(..) {
            // They report their failures through the store.
            thread.join().ok();
        }
        let lock = self
            .shared
            .lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(lock) = lock {
            lock.release(self.shared.fs());
        }
    }
}
