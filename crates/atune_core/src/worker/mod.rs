//! Everything between a storage and a tuner's loop: a [`Worker`] starts trials and keeps them alive, a
//! [`TrialHandle`] is what an objective sees of its trial, and [`Outboxes`] does what endings left to do.
//!
//! A trial takes two commits: [`Worker::start`] reserves and claims it in one, and
//! [`TrialHandle::finish`] writes what was gathered and the ending in the other.
//!
//! **Renewal.** One thread per worker renews all its running trials in one commit per heartbeat, writes
//! what was gathered and waited long enough, and fails trials whose owner fell silent ([`fail_stale`]) in
//! the studies that the worker took trials of. A worker that was itself silent for longer than the grace
//! may find a trial taken from it: the next call on the handle says so with [`WorkerError::FenceLost`],
//! the result that came too late is kept as an attribute of the study, and the worker goes on.
//!
//! Locks, in the order they are taken: a trial's `order` (held over a commit, so that its changes keep
//! their order), its `state`, the worker's `state`. The last two are never held over a commit.
//!
//! ```
//! use std::sync::Arc;
//! use atune_core::lifecycle::Outcome;
//! use atune_core::number::JsonF64;
//! use atune_core::outbox::Intent;
//! use atune_core::storage::{MemoryStorage, Storage, conformance::{example_config, example_param}};
//! use atune_core::trial::{Direction, TrialState, WorkerId};
//! use atune_core::worker::{Worker, WorkerSettings};
//!
//! let clock = Arc::new(durable::SystemClock::start());
//! let storage = Arc::new(MemoryStorage::new(clock.clone(), WorkerId(1)));
//! let study = storage.create_study(&example_config("demo", &[Direction::Minimize]))?;
//! let worker = Worker::new(storage, clock, WorkerId(1), WorkerSettings::default())?;
//! let trial = worker.start(study, Some(100), &[example_param("x", 0.25)])?;
//! trial.report(1, &[JsonF64(0.9)])?;
//! let state = trial.finish(&Outcome::complete(vec![JsonF64(0.5)]), &Intent::default())?;
//! assert_eq!(state, TrialState::Complete);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod commit;
mod drive;
mod error;
mod handle;
mod slot;
mod stale;
mod take;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use durable::Clock;

pub use drive::{Callbacks, Outboxes, RetryPolicy, STOPPED_KEY, Said, Undone};
pub use error::{Lost, Result, WorkerError};
pub use handle::{LATE_RESULT_PREFIX, TrialHandle};
pub use stale::fail_stale;

use crate::outbox::Intent;
use crate::storage::Storage;
use crate::trial::{StudyId, TrialId, WorkerId};
use commit::{Entry, Tail};
use slot::Slot;
use waiting::WaitingList;

/// How long changes wait at least before they are tried again after the storage failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How a worker keeps its trials alive.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// How often running trials are renewed and stale ones looked for. At most a third of `grace` is
    /// taken, so that one late heartbeat costs no trial.
    pub heartbeat_interval: Duration,
    /// How old a heartbeat may get before its trial is failed. It is compared between the wall clocks
    /// of machines, so it must be longer than they differ.
    pub grace: Duration,
    /// How long a gathered change waits for others at most; zero writes each at once.
    pub gather: Duration,
    /// What must happen after a trial was failed as stale, or its handle was dropped.
    pub failed_intent: Intent,
    /// Whether there is a thread for all this. Without it, somebody has to call [`Worker::tick`].
    pub threads: bool,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            heartbeat_interval: Duration::from_secs(10),
            grace: Duration::from_mins(1),
            gather: Duration::from_millis(5),
            failed_intent: Intent::default(),
            threads: true,
        }
    }
}

/// Starts trials and keeps them alive. Its threads share it; dropping it stops and joins its own.
///
/// Trials whose handles outlive it are not renewed any more, and their changes are written at once.
/// In a process that was forked off its own, dropping it and its handles does nothing.
#[derive(Debug)]
pub struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    id: WorkerId,
    settings: WorkerSettings,
    /// The process that it was made in.
    process: u32,
    state: Mutex<State>,
    /// Something is due earlier than the thread knew, or the worker is closed.
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: BTreeMap<TrialId, Arc<Slot>>,
    /// Studies that a trial was taken of, and their trials that wait to be claimed.
    studies: BTreeMap<StudyId, WaitingList>,
    heartbeat_at_ns: u64,
    /// When the first gathered change is due.
    flush_at_ns: Option<u64>,
    is_closed: bool,
    error: Option<WorkerError>,
}

impl Worker {
    /// A worker without trials. `id` must differ from those of all other workers that live.
    ///
    /// # Errors
    /// [`WorkerError::Thread`] when the system gives no thread.
    pub fn new(
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        id: WorkerId,
        settings: WorkerSettings,
    ) -> Result<Self> {
        let interval = settings.heartbeat_interval.min(settings.grace / 3);
        let settings = WorkerSettings {
            heartbeat_interval: interval.max(Duration::from_millis(1)),
            ..settings
        };
        let state = State {
            heartbeat_at_ns: clock
                .mono_ns()
                .saturating_add(nanos(settings.heartbeat_interval)),
            ..State::default()
        };
        let shared = Arc::new(Shared {
            storage,
            clock,
            id,
            settings,
            process: std::process::id(),
            state: Mutex::new(state),
            wake: Condvar::new(),
        });
        let spawn = || {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("atune-worker-{id}"))
                .spawn(move || shared.run())
                .map_err(WorkerError::Thread)
        };
        let thread = shared.settings.threads.then(spawn).transpose()?;
        Ok(Self { shared, thread })
    }

    /// Who it is.
    pub fn id(&self) -> WorkerId {
        self.shared.id
    }

    /// Refuses in a child that was forked off the worker's process. Whoever has a lock of its own around the
    /// worker asks before taking it: in the child, a thread that is not there may hold it.
    ///
    /// # Errors
    /// The storage's, in such a child.
    pub fn check_process(&self) -> Result<()> {
        self.shared.check_process()
    }

    /// Does what is due by the worker's clock: heartbeats, gathered changes, stale trials. Its
    /// thread calls this.
    ///
    /// # Errors
    /// The storage's. What could not be written is tried again later.
    pub fn tick(&self) -> Result<()> {
        self.check_process()?;
        self.shared.tick()
    }

    /// What went wrong last in the worker's thread, once.
    pub fn take_error(&self) -> Option<WorkerError> {
        if self.shared.is_forked() {
            return None;
        }
        self.shared.lock().error.take()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            // The thread is not here to be joined, and may have been at the locks.
            std::mem::forget(self.thread.take());
            return;
        }
        self.shared.lock().is_closed = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
        // Handles may live on: nobody else will write what they gathered so far. What fails is kept in
        // the trial and told by the next call on its handle.
        self.shared.flush_all().ok();
    }
}

impl Shared {
    /// Whether this is a child that was forked off the worker's process: the trials are not its own.
    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// Asks the storage whether a forked child may use it, before a lock is taken that a thread of the
    /// parent may have been at.
    fn check_process(&self) -> Result<()> {
        if self.is_forked() {
            self.storage.read(&mut |_| {})?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.is_closed {
            let due = state
                .heartbeat_at_ns
                .min(state.flush_at_ns.unwrap_or(u64::MAX));
            let wait = due.saturating_sub(self.clock.mono_ns());
            if wait > 0 {
                let woken = self.wake.wait_timeout(state, Duration::from_nanos(wait));
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            drop(state);
            let done = self.tick();
            state = self.lock();
            if let Err(error) = done {
                state.error = Some(error);
            }
        }
    }

    /// Makes sure that what was gathered is written by then.
    fn expect_flush(&self, due_ns: u64) {
        let mut state = self.lock();
        if state.flush_at_ns.is_none_or(|at| at > due_ns) {
            state.flush_at_ns = Some(due_ns);
            self.wake.notify_all();
        }
    }

    fn tick(&self) -> Result<()> {
        let now = self.clock.mono_ns();
        let mut state = self.lock();
        let is_heartbeat = state.heartbeat_at_ns <= now;
        if is_heartbeat {
            let interval = nanos(self.settings.heartbeat_interval);
            state.heartbeat_at_ns = now.saturating_add(interval);
        }
        state.flush_at_ns = None;
        let slots: Vec<_> = state.running.values().cloned().collect();
        let studies: BTreeSet<_> = state.studies.keys().copied().collect();
        drop(state);

        let due = |slot: &&Arc<Slot>| is_heartbeat || slot.due_ns().is_some_and(|at| at <= now);
        let tail = if is_heartbeat {
            Tail::Renew
        } else {
            Tail::Nothing
        };
        // Own trials first: after a long sleep they must not be found stale by their own worker.
        // A trial that its owner is just writing comes again later.
        let written = self.write(slots.iter().filter(due), &tail, Slot::try_order);
        let later = now.saturating_add(nanos(self.settings.gather));
        let due = slots.iter().filter_map(|slot| slot.due_ns());
        if let Some(next) = due.map(|at| if at > now { at } else { later }).min() {
            self.expect_flush(next);
        }
        if is_heartbeat {
            let (now_millis, grace) = (self.now_millis(), self.settings.grace.as_millis());
            let grace = u64::try_from(grace).unwrap_or(u64::MAX);
            for study in studies {
                let intent = &self.settings.failed_intent;
                fail_stale(self.storage.as_ref(), study, now_millis, grace, intent)?;
            }
        }
        written
    }

    fn flush_all(&self) -> Result<()> {
        let slots: Vec<_> = self.lock().running.values().cloned().collect();
        self.write(&slots, &Tail::Nothing, |slot| Some(slot.order()))
    }

    /// Commits what these trials gathered, and `tail` for each, together: for those whose `order`
    /// it gets.
    fn write<'a>(
        &self,
        slots: impl IntoIterator<Item = &'a Arc<Slot>>,
        tail: &'a Tail,
        order: impl Fn(&'a Slot) -> Option<MutexGuard<'a, ()>>,
    ) -> Result<()> {
        let entry = |slot: &'a Arc<Slot>| {
            let entry = Entry {
                slot,
                tail,
                _order: order(slot)?,
            };
            slot.is_alive().then_some(entry)
        };
        let entries: Vec<_> = slots.into_iter().filter_map(entry).collect();
        let failed = match self.commit(&entries) {
            Ok(_) => return Ok(()),
            Err(error) => Arc::new(error),
        };
        for entry in &entries {
            entry.slot.note_unsaved(&failed);
        }
        Err(WorkerError::Storage(failed))
    }

    fn now_millis(&self) -> u64 {
        self.clock.wall_ns() / 1_000_000
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
