//! A bounded queue in front of a journal, emptied by a thread of its own.
//!
//! A call reads the clock, copies the payload and pushes it; it makes no system call, takes no lock
//! and never touches the disk. The writer thread polls: it sleeps at most [`IDLE_MAX`] between looks,
//! so that no caller ever has to wake it.
//!
//! Order of locks: `failed` alone, never while writing.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::payload::Payload;
use crate::journal::layout::PAYLOAD_LEN_MAX;
use crate::journal::{Error, FrameKind, JournalOptions, Result, Sealed, StateJournal};
use crossbeam_queue::ArrayQueue;
use durable::Clock;

/// The longest sleep of the writer thread while nothing comes in.
const IDLE_MAX: Duration = Duration::from_millis(2);
const IDLE_MIN: Duration = Duration::from_micros(50);

/// What happens to a record when the queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The caller waits for a place: nothing is lost, the loop may be held up.
    #[default]
    Block,
    /// Telemetry is dropped, counted, and the loss recorded; every other kind waits for a place.
    DropTelemetry,
}

/// How a [`Recorder`] works.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// The journal behind it.
    pub journal: JournalOptions,
    /// Most records in the queue.
    pub queue_records: usize,
    /// Most payload bytes in the queue (one record may exceed it alone).
    pub queue_bytes: usize,
    /// What happens when it is full.
    pub policy: Policy,
    /// At the latest so long after a record came in, another process can read it.
    pub flush_interval: Duration,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        Self {
            journal: JournalOptions::default(),
            queue_records: 8192,
            queue_bytes: 64 << 20,
            policy: Policy::default(),
            flush_interval: Duration::from_millis(200),
        }
    }
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Recorded {
    /// It is in the queue and will be written in order.
    Queued,
    /// It was telemetry, the queue was full, and the policy says so.
    Dropped,
}

/// What a closed recorder leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The sealed journal.
    pub sealed: Sealed,
    /// Telemetry records that were dropped, all told.
    pub dropped: u64,
}

/// A journal that does not hold up its callers. Shared between threads by reference.
///
/// Dropping it without [`close`](Self::close) writes what is queued and leaves the journal unsealed.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<Result<Sealed>>>,
    clock: Arc<dyn Clock>,
    policy: Policy,
    queue_bytes: usize,
}

#[derive(Debug)]
struct Shared {
    queue: ArrayQueue<Item>,
    queued_bytes: AtomicUsize,
    dropped: AtomicU64,
    written: AtomicU64,
    stop: AtomicU64,
    has_failed: AtomicBool,
    failed: Mutex<Option<Error>>,
}

/// Values of `Shared::stop`.
const RUN: u64 = 0;
const SEAL: u64 = 1;
const ABANDON: u64 = 2;

#[derive(Debug)]
struct Item {
    kind: FrameKind,
    clock_ns: u64,
    payload: Vec<u8>,
}

impl Recorder {
    /// Creates the journal at `path` and starts the writer thread.
    ///
    /// # Errors
    /// As [`StateJournal::create_with`].
    pub fn create(path: impl AsRef<Path>, options: RecorderOptions) -> Result<Self> {
        let clock = Arc::clone(&options.journal.clock);
        let journal = StateJournal::create_with(path, options.journal)?;
        let shared = Arc::new(Shared {
            queue: ArrayQueue::new(options.queue_records.max(1)),
            queued_bytes: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            written: AtomicU64::new(0),
            stop: AtomicU64::new(RUN),
            has_failed: AtomicBool::new(false),
            failed: Mutex::new(None),
        });
        let writer = Writer {
            shared: Arc::clone(&shared),
            journal,
            clock: Arc::clone(&clock),
            flush_interval: options.flush_interval,
            reported_drops: 0,
        };
        let thread = std::thread::Builder::new()
            .name("omni-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| Error::Io {
                op: "start the writer of",
                path: "journal".into(),
                source,
            })?;
        Ok(Self {
            shared,
            writer: Some(thread),
            clock,
            policy: options.policy,
            queue_bytes: options.queue_bytes,
        })
    }

    /// Hands over a record, stamped with the time of this call.
    ///
    /// # Errors
    /// The first failure of the writer, ever after it happened; `Misuse` for a chain or signature
    /// record; `Limit` for a payload over [`PAYLOAD_LEN_MAX`].
    #[inline]
    pub fn record(&self, kind: FrameKind, payload: impl Into<Vec<u8>>) -> Result<Recorded> {
        let clock_ns = self.clock.mono_ns();
        if !kind.is_data() {
            return Err(Error::Misuse {
                what: "chain and signature records are the journal's own",
            });
        }
        let mut item = Item {
            kind,
            clock_ns,
            payload: payload.into(),
        };
        let len = item.payload.len();
        if len > PAYLOAD_LEN_MAX {
            // The journal would refuse it too, and with it end the recording.
            return Err(Error::Limit {
                what: "payload in bytes",
                value: len as u64,
                max: PAYLOAD_LEN_MAX as u64,
            });
        }
        loop {
            self.check()?;
            let queued = self.shared.queued_bytes.fetch_add(len, Ordering::AcqRel);
            let fits = queued == 0 || queued.saturating_add(len) <= self.queue_bytes;
            if fits {
                match self.shared.queue.push(item) {
                    Ok(()) => return Ok(Recorded::Queued),
                    Err(back) => item = back,
                }
            }
            self.shared.queued_bytes.fetch_sub(len, Ordering::AcqRel);
            if self.policy == Policy::DropTelemetry && kind == FrameKind::Telemetry {
                self.shared.dropped.fetch_add(1, Ordering::AcqRel);
                return Ok(Recorded::Dropped);
            }
            std::thread::sleep(IDLE_MIN);
        }
    }

    /// Telemetry records dropped so far.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Acquire)
    }

    /// Records written to the journal so far (not necessarily durable).
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Acquire)
    }

    /// Answers the writer's first failure, if there was one.
    pub fn check(&self) -> Result<()> {
        if !self.shared.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let failed = self
            .shared
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        failed.as_ref().map_or(Ok(()), |first| Err(first.again()))
    }

    /// Writes what is queued and seals the journal.
    ///
    /// # Durability
    /// When it returns `Ok`, the whole journal is durable.
    pub fn close(mut self) -> Result<Closed> {
        let sealed = self.stop(SEAL)?;
        Ok(Closed {
            sealed,
            dropped: self.dropped(),
        })
    }

    fn stop(&mut self, how: u64) -> Result<Sealed> {
        self.shared.stop.store(how, Ordering::Release);
        let Some(writer) = self.writer.take() else {
            return Err(Error::Misuse {
                what: "the recorder is closed",
            });
        };
        match writer.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.writer.is_some() {
            // An abandoned journal stays unsealed: that is what its reader must see.
            self.stop(ABANDON).ok();
        }
    }
}

struct Writer {
    shared: Arc<Shared>,
    journal: StateJournal,
    clock: Arc<dyn Clock>,
    flush_interval: Duration,
    reported_drops: u64,
}

impl Writer {
    fn run(mut self) -> Result<Sealed> {
        let result = self.write_all();
        if let Err(error) = &result {
            let mut failed = self
                .shared
                .failed
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *failed = Some(error.again());
            self.shared.has_failed.store(true, Ordering::Release);
        }
        match result? {
            SEAL => self.journal.seal(),
            _ => Err(Error::Misuse {
                what: "the recorder was dropped without closing it",
            }),
        }
    }

    /// Writes until told to stop and the queue is empty; answers what it was told.
    fn write_all(&mut self) -> Result<u64> {
        let mut idle = IDLE_MIN;
        let mut unflushed_since: Option<u64> = None;
        loop {
            // Read before the queue is emptied: what was pushed before the stop is then seen.
            let stop = self.shared.stop.load(Ordering::Acquire);
            let wrote = self.drain()?;
            if stop != RUN {
                self.report_drops(self.clock.mono_ns())?;
                return Ok(stop);
            }
            let now = self.clock.mono_ns();
            if wrote {
                unflushed_since.get_or_insert(now);
                idle = IDLE_MIN;
            }
            let age = unflushed_since.map_or(0, |since| now.saturating_sub(since));
            if u128::from(age) >= self.flush_interval.as_nanos() && unflushed_since.is_some() {
                self.journal.flush()?;
                unflushed_since = None;
            }
            self.journal.sync_if_due()?;
            if !wrote {
                std::thread::sleep(idle);
                idle = (idle * 2).min(IDLE_MAX);
            }
        }
    }

    /// Writes a bounded number of records, so that flushing and stopping get their turn.
    fn drain(&mut self) -> Result<bool> {
        let mut wrote = false;
        let stopping = self.shared.stop.load(Ordering::Acquire) != RUN;
        for _ in 0..if stopping { usize::MAX } else { 4096 } {
            let Some(item) = self.shared.queue.pop() else {
                break;
            };
            self.shared
                .queued_bytes
                .fetch_sub(item.payload.len(), Ordering::AcqRel);
            // With the time of the record behind it: one from now would be later than those that wait.
            self.report_drops(item.clock_ns)?;
            self.journal
                .append_read_at(item.kind, &item.payload, item.clock_ns)?;
            self.shared.written.fetch_add(1, Ordering::AcqRel);
            wrote = true;
        }
        Ok(wrote)
    }

    fn report_drops(&mut self, clock_ns: u64) -> Result<()> {
        let total = self.shared.dropped.load(Ordering::Acquire);
        if total == self.reported_drops {
            return Ok(());
        }
        let payload = Payload::new("command", "drop")
            .with("kind", "telemetry")
            .with("count", total - self.reported_drops)
            .with("total", total);
        self.journal
            .append_read_at(FrameKind::Control, &payload.bytes(), clock_ns)?;
        self.reported_drops = total;
        Ok(())
    }
}
