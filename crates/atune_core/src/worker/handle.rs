//! What an objective sees of its trial.

use std::sync::Arc;

use serde_json::Value;

use super::commit::{Entry, Tail};
use super::slot::Slot;
use super::{Result, Shared, WorkerError, nanos};
use crate::lifecycle::{FencedMutation, Outcome};
use crate::number::JsonF64;
use crate::outbox::Intent;
use crate::replica::{RESERVED_PREFIX, Refusal, Trial, check_new_params};
use crate::space::Param;
use crate::storage::Fence;
use crate::trial::{ScopedBlob, StateBlob, StateScope, TrialId, TrialState};

/// Attributes of a study that keep results which came too late start so; trial and epoch follow:
/// `late-result/7/1`. The value is an object of `worker`, `state`, `values` and `error`.
pub const LATE_RESULT_PREFIX: &str = "late-result/";

/// Gathered changes that are written without waiting for more.
const GATHERED_MAX: usize = 1024;

/// A trial that this worker runs.
///
/// Parameters, reports, attributes and state are gathered, to share a commit with others.
///
/// # Durability
/// A gathered change is as durable as the storage makes it once [`flush`](Self::flush),
/// [`pause`](Self::pause) or [`finish`](Self::finish) returned, or the worker's thread wrote it: after
/// [`gather`](super::WorkerSettings::gather), and at each heartbeat. What can be checked without the
/// storage is refused by the call itself; if a gathered change fails later, the next call on the handle
/// tells so, and does nothing else when it only gathers.
///
/// Dropping a handle that neither finished nor paused its trial fails the trial, as well as it can.
#[derive(Debug)]
pub struct TrialHandle {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    before: Trial,
}

impl TrialHandle {
    pub(super) fn new(shared: Arc<Shared>, slot: Arc<Slot>, before: Trial) -> Self {
        Self {
            shared,
            slot,
            before,
        }
    }

    /// The trial.
    pub fn id(&self) -> TrialId {
        self.slot.fence.trial
    }

    /// Its number within its study.
    pub fn number(&self) -> u64 {
        self.before.number
    }

    /// What shows the ownership.
    pub fn fence(&self) -> Fence {
        self.slot.fence
    }

    /// The trial as the claim found it: its template, what earlier owners left, which attempt it is.
    pub fn before(&self) -> &Trial {
        &self.before
    }

    /// A state blob of the trial, as the storage has it.
    pub fn state(&self, scope: StateScope) -> Result<Option<StateBlob>> {
        let mut found = None;
        let storage = &self.shared.storage;
        storage.read(&mut |replica| found = replica.state(scope).cloned())?;
        Ok(found)
    }

    /// Records sampled parameters, all or nothing.
    ///
    /// # Errors
    /// [`Refusal::ParamTaken`] and [`Refusal::BadParam`]; otherwise as [`report`](Self::report).
    pub fn set_params(&self, params: &[Param]) -> Result<()> {
        check_new_params(params)?;
        self.gather(FencedMutation::ParamsBatch {
            params: params.to_vec(),
        })
    }

    /// Records an intermediate value, one number per direction. Any number is kept, `NaN` too.
    ///
    /// # Errors
    /// [`Refusal::ValueCount`], [`WorkerError::FenceLost`], and what befell earlier gathered changes.
    pub fn report(&self, step: u64, values: &[JsonF64]) -> Result<()> {
        let expected = self.slot.value_count;
        if values.len() != expected {
            let found = values.len();
            return Err(Refusal::ValueCount { expected, found }.into());
        }
        let values = values.to_vec();
        self.gather(FencedMutation::Report { step, values })
    }

    /// Sets a user attribute of the trial.
    ///
    /// # Errors
    /// [`Refusal::ReservedKey`]; otherwise as [`report`](Self::report).
    pub fn set_user_attr(&self, key: &str, value: Value) -> Result<()> {
        if key.starts_with(RESERVED_PREFIX) {
            return Err(Refusal::ReservedKey(key.to_owned()).into());
        }
        let key = key.to_owned();
        self.gather(FencedMutation::SetUserAttr { key, value })
    }

    /// Writes a state blob of the trial.
    ///
    /// # Errors
    /// [`Refusal::WrongScope`]; otherwise as [`report`](Self::report).
    pub fn put_state(&self, scope: StateScope, blob: StateBlob) -> Result<()> {
        if scope.trial() != Some(self.id()) {
            return Err(Refusal::WrongScope(scope).into());
        }
        self.gather(FencedMutation::PutState { scope, blob })
    }

    fn gather(&self, mutation: FencedMutation) -> Result<()> {
        let shared = &self.shared;
        shared.check_process()?;
        let due_ns = shared
            .clock
            .mono_ns()
            .saturating_add(nanos(shared.settings.gather));
        let mut state = self.slot.lock();
        self.slot.tell(&mut state)?;
        if state.is_over {
            return Err(WorkerError::Over { trial: self.id() });
        }
        if let FencedMutation::ParamsBatch { params } = &mutation {
            let taken = params.iter().find(|p| state.param_names.contains(&p.name));
            if let Some(taken) = taken {
                return Err(Refusal::ParamTaken(taken.name.clone()).into());
            }
            state
                .param_names
                .extend(params.iter().map(|p| p.name.clone()));
        }
        state.gathered.push(mutation);
        let is_first = state.due_ns.is_none();
        state.due_ns.get_or_insert(due_ns);
        let is_full = state.gathered.len() >= GATHERED_MAX;
        drop(state);
        if is_full || shared.settings.gather.is_zero() || shared.lock().is_closed {
            return self.flush();
        }
        if is_first {
            shared.expect_flush(due_ns);
        }
        Ok(())
    }

    /// Writes what was gathered.
    ///
    /// # Errors
    /// [`WorkerError::FenceLost`], [`WorkerError::NotKept`] or the storage's.
    pub fn flush(&self) -> Result<()> {
        self.commit(&Tail::Nothing)??;
        self.slot.tell(&mut self.slot.lock())
    }

    /// Sets the trial aside, with state of this trial, for any worker to
    /// [claim](super::Worker::claim) again.
    ///
    /// # Errors
    /// As [`flush`](Self::flush). A blob of another trial is refused, and the trial goes on.
    pub fn pause(&self, state: Option<ScopedBlob>) -> Result<()> {
        self.shared.check_process()?;
        let trial = self.id();
        if self.slot.lock().is_over {
            return Err(WorkerError::Over { trial });
        }
        let answer = self.commit(&Tail::Pause(state))?;
        self.slot.tell(&mut self.slot.lock())?;
        Ok(answer?)
    }

    /// Ends the trial, in one commit with what was gathered. Answers the state that was recorded: a
    /// final value that is not a number fails the trial, as does an outcome that the state machine
    /// refuses.
    ///
    /// # Errors
    /// - [`WorkerError::FenceLost`]: the result came too late. It is in the error, and stands in an
    ///   attribute of the study, see [`LATE_RESULT_PREFIX`]; its reports are lost.
    /// - [`WorkerError::NotKept`]: the trial has ended as it should.
    /// - [`WorkerError::Refused`]: the outcome was refused and the trial failed for this reason.
    /// - [`WorkerError::Storage`]: the trial has not ended, or that is uncertain. Calling again with the
    ///   same outcome does no harm either way.
    pub fn finish(&self, outcome: &Outcome, intent: &Intent) -> Result<TrialState> {
        self.shared.check_process()?;
        let trial = self.id();
        let outcome = without_nan(outcome);
        if self.slot.lock().is_over {
            return Err(self.with_late(WorkerError::Over { trial }, outcome));
        }
        let tail = Tail::End(outcome.clone(), intent.clone());
        let answer = self.commit(&tail)?;
        let state = outcome.state;
        if self.slot.lock().lost.is_some() {
            self.slot.lock().is_over = true;
            return Err(self.with_late(WorkerError::Over { trial }, outcome));
        }
        if let Err(refusal) = answer {
            let failed = Outcome::failed(format!("its outcome was refused: {refusal}"));
            self.commit(&Tail::End(failed, intent.clone()))??;
            return Err(refusal.into());
        }
        self.slot.tell(&mut self.slot.lock())?;
        Ok(state)
    }

    /// The error of a trial that was lost, with its late result; `otherwise` if it was not lost.
    fn with_late(&self, otherwise: WorkerError, outcome: Outcome) -> WorkerError {
        match self.slot.lock().lost.clone() {
            None => otherwise,
            Some(why) => WorkerError::FenceLost {
                trial: self.id(),
                why,
                late: Some(Box::new(outcome)),
            },
        }
    }

    fn commit(&self, tail: &Tail) -> Result<std::result::Result<(), Refusal>> {
        self.shared.check_process()?;
        let slot = &*self.slot;
        let entry = Entry {
            slot,
            tail,
            _order: slot.order(),
        };
        let mut answers = self.shared.commit(&[entry])?;
        if !slot.is_alive() {
            self.retire();
        }
        let answer = answers.pop().unwrap_or(Ok(()));
        // Without its fence every answer is a refusal, and the slot knows the reason.
        let is_lost = slot.lock().lost.is_some();
        Ok(if is_lost { Ok(()) } else { answer })
    }
}

impl TrialHandle {
    /// The worker renews the trial no longer.
    fn retire(&self) {
        let mut state = self.shared.lock();
        // A later owner of this trial may be this same worker, with another slot.
        let is_mine = |slot: &Arc<Slot>| Arc::ptr_eq(slot, &self.slot);
        if state.running.get(&self.id()).is_some_and(is_mine) {
            state.running.remove(&self.id());
        }
    }
}

impl Drop for TrialHandle {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            return;
        }
        if self.slot.is_alive() {
            let why = if std::thread::panicking() {
                "its objective panicked"
            } else {
                "its worker dropped it"
            };
            let intent = self.shared.settings.failed_intent.clone();
            // If this fails too, the trial goes stale and is failed by another.
            self.commit(&Tail::End(Outcome::failed(why), intent)).ok();
        }
        self.retire();
    }
}

/// A trial whose final value is not a number has failed.
fn without_nan(outcome: &Outcome) -> Outcome {
    let values = outcome.values.as_deref().unwrap_or_default();
    match values.iter().position(|value| value.0.is_nan()) {
        Some(at) if outcome.state == TrialState::Complete => Outcome {
            blob: outcome.blob.clone(),
            ..Outcome::failed(format!("final value {at} is not a number"))
        },
        _ => outcome.clone(),
    }
}
