//! What a worker keeps of a trial that it runs, between its handle and the worker's thread.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::{Lost, Result, WorkerError};
use crate::lifecycle::FencedMutation;
use crate::replica::{Refusal, Trial};
use crate::space::Param;
use crate::storage::{Fence, StorageError};
use crate::trial::StudyId;

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) fence: Fence,
    pub(super) study: StudyId,
    /// How many values a report has.
    pub(super) value_count: usize,
    order: Mutex<()>,
    state: Mutex<SlotState>,
}

#[derive(Debug, Default)]
pub(super) struct SlotState {
    /// Changes that are not written yet, in order.
    pub(super) gathered: Vec<FencedMutation>,
    /// When they are to be written.
    pub(super) due_ns: Option<u64>,
    /// Parameters that the trial has, or will have.
    pub(super) param_names: BTreeSet<String>,
    pub(super) lost: Option<Lost>,
    /// Refusals that nobody was told yet.
    pub(super) not_kept: Vec<Refusal>,
    pub(super) unsaved: Option<Arc<StorageError>>,
    pub(super) is_over: bool,
}

impl Slot {
    /// The slot of a trial that was claimed with `params`.
    pub(super) fn new(fence: Fence, trial: &Trial, params: &[Param], value_count: usize) -> Self {
        let earlier = trial.params.iter().map(|p| &p.key.name);
        let param_names = earlier
            .chain(params.iter().map(|p| &p.name))
            .cloned()
            .collect();
        Self {
            fence,
            study: trial.study,
            value_count,
            order: Mutex::new(()),
            state: Mutex::new(SlotState {
                param_names,
                ..SlotState::default()
            }),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to commit changes of this trial: held over the commit.
    pub(super) fn order(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn try_order(&self) -> Option<MutexGuard<'_, ()>> {
        match self.order.try_lock() {
            Ok(order) => Some(order),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(super) fn due_ns(&self) -> Option<u64> {
        self.lock().due_ns
    }

    pub(super) fn is_alive(&self) -> bool {
        let state = self.lock();
        !state.is_over && state.lost.is_none()
    }

    pub(super) fn take_gathered(&self) -> Vec<FencedMutation> {
        let mut state = self.lock();
        state.due_ns = None;
        std::mem::take(&mut state.gathered)
    }

    /// Takes back what could not be written, before what was gathered since.
    pub(super) fn put_back(&self, taken: Vec<FencedMutation>, due_ns: u64) {
        let mut state = self.lock();
        if !taken.is_empty() {
            state.gathered.splice(0..0, taken);
            state.due_ns = Some(due_ns);
        }
    }

    pub(super) fn note_unsaved(&self, error: &Arc<StorageError>) {
        self.lock().unsaved = Some(Arc::clone(error));
    }

    /// Tells what went wrong since the last call on the handle. A lost trial is told by every call.
    pub(super) fn tell(&self, state: &mut SlotState) -> Result<()> {
        let trial = self.fence.trial;
        if let Some(why) = state.lost.clone() {
            return Err(WorkerError::FenceLost {
                trial,
                why,
                late: None,
            });
        }
        if !state.not_kept.is_empty() {
            let refusals = std::mem::take(&mut state.not_kept);
            return Err(WorkerError::NotKept { trial, refusals });
        }
        match state.unsaved.take() {
            Some(error) => Err(WorkerError::Storage(error)),
            None => Ok(()),
        }
    }
}
