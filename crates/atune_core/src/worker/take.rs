//! How a worker gets a trial: a new one, a given one, or one that waits.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use serde_json::Value;

use super::drive::STOPPED_KEY;
use super::slot::Slot;
use super::{Result, TrialHandle, Worker, WorkerError};
use crate::replica::{Refusal, Replica, Trial, check_new_params};
use crate::space::Param;
use crate::storage::Fence;
use crate::storage::journal::record::{LifecycleClaim, LifecycleReserve, Op};
use crate::trial::{StudyId, TrialId, TrialState};

/// What the plans of a claim saw, the last time they were called.
#[derive(Default)]
struct Seen {
    stopped: RefCell<Option<String>>,
    /// The trial as the claim finds it, and how many values its reports have.
    claimed: RefCell<Option<(Trial, usize)>>,
}

impl Worker {
    /// Reserves a trial under the budget and starts it with its parameters, in one commit.
    ///
    /// # Errors
    /// [`Refusal::OverBudget`] when the study has `budget` trials; [`WorkerError::Stopped`].
    pub fn start(
        &self,
        study: StudyId,
        budget: Option<u64>,
        params: &[Param],
    ) -> Result<TrialHandle> {
        check_new_params(params)?;
        let seen = Seen::default();
        let trial = Cell::new(None);
        let mut reserve = |replica: &Replica| {
            trial.set(None);
            seen.check_stopped(replica, study)?;
            budget.map_or(Ok(()), |budget| replica.check_budget(study, budget))?;
            let (next, number) = replica.next_trial(study)?;
            trial.set(Some(next));
            Ok(LifecycleReserve {
                study,
                trial: next,
                number,
                template: None,
                managed: true,
            }
            .into())
        };
        let mut claim = |replica: &Replica| {
            let trial = trial.get().ok_or(Refusal::UnknownStudy(study))?;
            self.claim_op(replica, trial, params, &seen)
        };
        let storage = &self.shared.storage;
        for answer in storage.commit_batch(&mut [&mut reserve, &mut claim])? {
            answer.map_err(|refusal| seen.explain(study, refusal))?;
        }
        self.handle(&seen, params, Refusal::UnknownStudy(study))
    }

    /// Claims a trial that was reserved or enqueued and waits, or that was paused, with further parameters.
    ///
    /// # Errors
    /// [`Refusal::ForbiddenMove`] when it neither waits nor is paused; [`WorkerError::Stopped`] when it
    /// waits in a study that was stopped. A paused trial may go on in one.
    pub fn claim(&self, trial: TrialId, params: &[Param]) -> Result<TrialHandle> {
        let seen = Seen::default();
        let study = Cell::new(StudyId::default());
        let claimed = self.shared.storage.commit(&mut |replica| {
            let found = replica.trial(trial)?;
            study.set(found.study);
            seen.stopped.replace(None);
            if found.state == TrialState::Waiting {
                seen.check_stopped(replica, found.study)?;
            }
            self.claim_op(replica, trial, params, &seen)
        });
        match claimed.map_err(WorkerError::from) {
            Ok(_) => self.handle(&seen, params, Refusal::UnknownTrial(trial)),
            Err(WorkerError::Refused(refusal)) => Err(seen.explain(study.get(), refusal)),
            Err(other) => Err(other),
        }
    }

    /// Claims the trial of a study that waits longest, if one does: those with a template or with parameters
    /// first (enqueued trials, replacements, and what others paused), then bare reservations. Its
    /// parameters are set through the handle.
    ///
    /// # Errors
    /// [`WorkerError::Stopped`], or the storage's.
    pub fn claim_waiting(&self, study: StudyId) -> Result<Option<TrialHandle>> {
        self.claim_waiting_within(study, None)
    }

    /// As [`claim_waiting`](Self::claim_waiting), but no trial that counts against the budget once `budget`
    /// of those were started. Retries do not count, and are claimed all the same.
    ///
    /// # Errors
    /// As [`claim_waiting`](Self::claim_waiting).
    pub fn claim_waiting_within(
        &self,
        study: StudyId,
        budget: Option<u64>,
    ) -> Result<Option<TrialHandle>> {
        self.check_process()?;
        let list = self.shared.lock().studies.entry(study).or_default().clone();
        let mut now = list.clone();
        // The list is kept only as of what was seen to last, which no plan knows of what it sees.
        self.shared.storage.read(&mut |r| now = list.at(r, study))?;
        let waiting: Vec<TrialId> = now.trials().collect();
        self.shared.lock().studies.insert(study, now);
        if waiting.is_empty() {
            return Ok(None);
        }
        let seen = Seen::default();
        let is_taken = Cell::new(false);
        let claimed = self.shared.storage.commit(&mut |replica| {
            is_taken.set(false);
            seen.check_stopped(replica, study)?;
            let is_free = |id: &TrialId| {
                let trial = replica.trial(*id).ok();
                trial
                    .filter(|trial| matches!(trial.state, TrialState::Waiting | TrialState::Paused))
            };
            // A trial that was paused had begun: going on with it takes no more of the budget.
            let counts =
                |trial: &Trial| trial.retry_of().is_none() && trial.state == TrialState::Waiting;
            let is_spent = match budget {
                None => false,
                Some(budget) => {
                    let left = waiting.iter().filter_map(is_free).filter(|t| counts(t));
                    let used = replica.budget_used(study)?;
                    used.saturating_sub(left.count() as u64) >= budget
                }
            };
            let mut left = waiting.iter().filter_map(is_free);
            let Some(first) = left.find(|trial| !(is_spent && counts(trial))) else {
                // Others took all of them meanwhile, or none may be started any more.
                is_taken.set(true);
                return Err(Refusal::UnknownStudy(study));
            };
            self.claim_op(replica, first.id, &[], &seen)
        });
        match claimed.map_err(WorkerError::from) {
            Ok(_) => self
                .handle(&seen, &[], Refusal::UnknownStudy(study))
                .map(Some),
            Err(WorkerError::Refused(_)) if is_taken.get() => Ok(None),
            Err(WorkerError::Refused(refusal)) => Err(seen.explain(study, refusal)),
            Err(other) => Err(other),
        }
    }

    fn claim_op(
        &self,
        replica: &Replica,
        trial: TrialId,
        params: &[Param],
        seen: &Seen,
    ) -> std::result::Result<Op, Refusal> {
        let found = replica.trial(trial)?;
        let value_count = replica.study(found.study)?.config.directions.len();
        seen.claimed.replace(Some((found.clone(), value_count)));
        Ok(LifecycleClaim {
            trial,
            from: found.state,
            worker: self.shared.id,
            heartbeat_millis: self.shared.now_millis(),
            epoch: found.epoch + 1,
            heartbeat_seq: found.heartbeat_seq + 1,
            params: params.to_vec(),
            state: None,
        }
        .into())
    }

    /// The handle of the trial that was claimed. From now on the worker renews it.
    fn handle(&self, seen: &Seen, params: &[Param], otherwise: Refusal) -> Result<TrialHandle> {
        let (before, value_count) = seen.claimed.take().ok_or(otherwise)?;
        let fence = Fence {
            trial: before.id,
            worker: self.shared.id,
            epoch: before.epoch + 1,
        };
        let slot = Arc::new(Slot::new(fence, &before, params, value_count));
        let mut state = self.shared.lock();
        state.running.insert(before.id, Arc::clone(&slot));
        state.studies.entry(before.study).or_default();
        drop(state);
        Ok(TrialHandle::new(Arc::clone(&self.shared), slot, before))
    }
}

impl Seen {
    fn check_stopped(&self, replica: &Replica, study: StudyId) -> std::result::Result<(), Refusal> {
        let stopped = replica.study(study)?.user_attrs.get(STOPPED_KEY);
        let reason = match stopped {
            None | Some(Value::Null) => None,
            Some(Value::String(reason)) => Some(reason.clone()),
            Some(other) => Some(other.to_string()),
        };
        let is_stopped = reason.is_some();
        self.stopped.replace(reason);
        if is_stopped {
            // No refusal of the state machine says this: `explain` puts the reason in its place.
            return Err(Refusal::UnknownStudy(study));
        }
        Ok(())
    }

    fn explain(&self, study: StudyId, refusal: Refusal) -> WorkerError {
        match self.stopped.take() {
            Some(reason) => WorkerError::Stopped { study, reason },
            None => refusal.into(),
        }
    }
}
