//! Group commit: one sync of the log acknowledges every frame that was appended before it began.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use durable::FsFile;

use crate::store::metrics::{Stage, Timed};

/// Who waits for which frames to become durable. Frames are counted by *tickets*, from 1 on, in the order in which they
/// were appended.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    state: Mutex<State>,
    changed: Condvar,
    syncs: Stage,
}

#[derive(Debug, Default)]
struct State {
    /// The log's second handle; away while somebody syncs with it.
    file: Option<Box<dyn FsFile>>,
    /// The frames that were appended.
    appended: u64,
    /// All frames up to this ticket are durable.
    durable: u64,
    /// The sync of the frames up to this ticket failed.
    failed: u64,
    /// Counts the files: a sync that began with another one says nothing of this.
    generation: u64,
    is_syncing: bool,
}

impl Commit {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Its fields are set together with nothing that can panic in between.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the syncs took.
    pub(crate) fn syncs(&self) -> Timed {
        self.syncs.read()
    }

    /// The log is this file from now on. Every frame so far is durable, in it or in a segment.
    pub(crate) fn adopt(&self, file: Box<dyn FsFile>) {
        let mut state = self.lock();
        state.file = Some(file);
        state.generation += 1;
        state.durable = state.appended;
        self.changed.notify_all();
    }

    /// Every frame so far is durable.
    pub(crate) fn all_durable(&self) {
        let mut state = self.lock();
        state.durable = state.appended;
        self.changed.notify_all();
    }

    /// Takes the ticket of a frame that was just appended. Under the lock of the log's writer.
    pub(crate) fn ticket(&self) -> u64 {
        let mut state = self.lock();
        state.appended += 1;
        state.appended
    }

    /// Waits until the frame with this ticket is durable; syncs the log if nobody does so already. `window` is how
    /// long to wait for company before a sync.
    pub(crate) fn wait(&self, ticket: u64, window: Duration) -> io::Result<()> {
        let mut state = self.lock();
        loop {
            if state.durable >= ticket {
                return Ok(());
            }
            if state.failed >= ticket {
                return Err(io::Error::other("the sync of the write-ahead log failed"));
            }
            if !state.is_syncing {
                break;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.is_syncing = true;
        if !window.is_zero() {
            drop(state);
            std::thread::sleep(window);
            state = self.lock();
        }
        let (target, generation) = (state.appended, state.generation);
        let Some(mut file) = state.file.take() else {
            state.is_syncing = false;
            state.failed = state.failed.max(target);
            self.changed.notify_all();
            return Err(io::Error::other(
                "the write-ahead log must be rewritten first",
            ));
        };
        drop(state);
        let synced = self.syncs.time(|| file.sync_data());
        let mut state = self.lock();
        state.is_syncing = false;
        if state.generation == generation {
            match &synced {
                Ok(()) => {
                    state.durable = state.durable.max(target);
                    state.file = Some(file);
                }
                Err(_) => state.failed = target,
            }
        }
        self.changed.notify_all();
        // A rewrite meanwhile has made the frame durable by itself.
        if state.durable >= ticket {
            Ok(())
        } else {
            synced
        }
    }
}
