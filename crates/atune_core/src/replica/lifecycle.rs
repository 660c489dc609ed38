//! Operations on managed trials: who owns one, and what the owner may do.

use super::{
    Applied, NewTrial, Refusal, Replica, Trial, TrialReport, check_blob, check_key, check_params,
    check_scope,
};
use crate::lifecycle::{FencedMutation, Outcome};
use crate::outbox::OutboxKey;
use crate::storage::journal::record::{
    LifecycleAbandon, LifecycleClaim, LifecycleFailStale, LifecycleFenced, LifecycleFinalizedState,
    LifecycleRenew, LifecycleReserve, LifecycleTerminal,
};
use crate::trial::{ScopedBlob, TrialId, TrialState, WorkerId};

impl Replica {
    pub(super) fn reserve(&mut self, op: &LifecycleReserve, at_millis: u64) -> Applied {
        self.add_trial(&NewTrial {
            study: op.study,
            trial: op.trial,
            number: op.number,
            template: op.template.as_ref(),
            managed: op.managed,
            at_millis,
        })
    }

    pub(super) fn abandon(&mut self, op: &LifecycleAbandon, at_millis: u64) -> Applied {
        let trial = self.managed(op.trial)?;
        if trial.state != TrialState::Waiting {
            let (expected, found) = (TrialState::Waiting, trial.state);
            return Err(Refusal::WrongFrom {
                trial: op.trial,
                expected,
                found,
            });
        }
        // A retry never counted.
        let (study, counted) = (trial.study, trial.retry_of().is_none());
        self.study_mut(study)?.uncounted += u64::from(counted);
        let trial = self.trial_mut(op.trial)?;
        trial.state = TrialState::Failed;
        trial.times.ended = Some(at_millis);
        let rare = trial.rare_mut();
        rare.error = Some(op.reason.clone());
        rare.is_abandoned = true;
        Ok(())
    }

    pub(super) fn claim(&mut self, op: &LifecycleClaim, at_millis: u64) -> Applied {
        let trial = self.managed(op.trial)?;
        if trial.state != op.from {
            let (expected, found) = (op.from, trial.state);
            return Err(Refusal::WrongFrom {
                trial: op.trial,
                expected,
                found,
            });
        }
        if !matches!(op.from, TrialState::Waiting | TrialState::Paused) {
            return Err(Refusal::ForbiddenMove {
                from: op.from,
                to: TrialState::Running,
            });
        }
        if op.epoch != trial.epoch + 1 {
            let (current, found) = (trial.epoch + 1, op.epoch);
            return Err(Refusal::WrongEpoch {
                trial: op.trial,
                current,
                found,
            });
        }
        check_heartbeat_seq(trial, op.heartbeat_seq)?;
        check_params(trial, &op.params)?;
        check_blob(op.trial, op.state.as_ref())?;
        self.set_params(op.trial, &op.params)?;
        self.put_blob(op.state.as_ref());
        let trial = self.trial_mut(op.trial)?;
        trial.state = TrialState::Running;
        trial.owner = Some(op.worker);
        trial.epoch = op.epoch;
        trial.heartbeat_millis = Some(op.heartbeat_millis);
        trial.heartbeat_seq = op.heartbeat_seq;
        trial.times.started.get_or_insert(at_millis);
        Ok(())
    }

    pub(super) fn renew(&mut self, op: &LifecycleRenew) -> Applied {
        let trial = self.owned(op.trial, op.worker, op.epoch)?;
        check_heartbeat_seq(trial, op.heartbeat_seq)?;
        let trial = self.trial_mut(op.trial)?;
        trial.heartbeat_millis = Some(op.heartbeat_millis);
        trial.heartbeat_seq = op.heartbeat_seq;
        Ok(())
    }

    pub(super) fn fail_stale(&mut self, op: &LifecycleFailStale, at_millis: u64) -> Applied {
        let trial = self.managed(op.trial)?;
        let is_as_observed = trial.state == op.observed_state
            && trial.owner == op.owner
            && trial.epoch == op.epoch
            && trial.heartbeat_millis == op.heartbeat_millis
            && trial.heartbeat_seq == op.heartbeat_seq;
        if !is_as_observed {
            return Err(Refusal::ObservationChanged(op.trial));
        }
        if trial.state != TrialState::Running {
            return Err(Refusal::ForbiddenMove {
                from: trial.state,
                to: TrialState::Failed,
            });
        }
        let heartbeat = trial.heartbeat_millis.unwrap_or_default();
        let age_millis = op.now_millis.saturating_sub(heartbeat);
        if age_millis <= op.grace_millis {
            let grace_millis = op.grace_millis;
            return Err(Refusal::NotStale {
                trial: op.trial,
                age_millis,
                grace_millis,
            });
        }
        let key = OutboxKey {
            trial: op.trial,
            epoch: op.epoch,
        };
        self.open_outbox(key, op.intent.as_ref());
        let trial = self.trial_mut(op.trial)?;
        end(trial, TrialState::Failed, at_millis);
        trial.rare_mut().error = Some(op.reason.clone());
        Ok(())
    }

    pub(super) fn fenced(&mut self, op: &LifecycleFenced) -> Applied {
        let trial = self.owned(op.trial, op.worker, op.epoch)?;
        match &op.mutation {
            FencedMutation::ParamsBatch { params } => {
                check_params(trial, params)?;
                self.set_params(op.trial, params)
            }
            FencedMutation::Report { step, values } => {
                self.check_values(trial, values)?;
                let report = TrialReport {
                    step: *step,
                    values: values.as_slice().into(),
                };
                self.trial_mut(op.trial)?.reports.push(report);
                Ok(())
            }
            FencedMutation::SetUserAttr { key, value } => {
                check_key(key)?;
                let attrs = &mut self.trial_mut(op.trial)?.rare_mut().user_attrs;
                attrs.insert(key.clone(), value.clone());
                Ok(())
            }
            FencedMutation::PutState { scope, blob } => {
                check_scope(op.trial, *scope)?;
                self.states.insert(*scope, blob.clone());
                Ok(())
            }
            FencedMutation::Pause { state } => {
                check_blob(op.trial, state.as_ref())?;
                self.put_blob(state.as_ref());
                let trial = self.trial_mut(op.trial)?;
                trial.state = TrialState::Paused;
                trial.owner = None;
                Ok(())
            }
        }
    }

    pub(super) fn terminal(&mut self, op: &LifecycleTerminal, at_millis: u64) -> Applied {
        let trial = self.owned(op.trial, op.worker, op.epoch)?;
        let outcome = &op.outcome;
        check_outcome(outcome)?;
        if let Some(values) = &outcome.values {
            self.check_values(trial, values)?;
        }
        check_blob(op.trial, outcome.blob.as_ref())?;
        self.put_blob(outcome.blob.as_ref());
        let key = OutboxKey {
            trial: op.trial,
            epoch: op.epoch,
        };
        self.open_outbox(key, op.intent.as_ref());
        let trial = self.trial_mut(op.trial)?;
        end(trial, outcome.state, at_millis);
        trial.values = outcome.values.as_deref().map(Into::into);
        if let Some(error) = &outcome.error {
            trial.rare_mut().error = Some(error.clone());
        }
        Ok(())
    }

    pub(super) fn finalized_state(&mut self, op: &LifecycleFinalizedState) -> Applied {
        let trial = self.managed(op.trial)?;
        if !trial.state.is_terminal() {
            return Err(Refusal::NotEnded(op.trial));
        }
        check_scope(op.trial, op.scope)?;
        self.states.insert(op.scope, op.blob.clone());
        Ok(())
    }

    pub(super) fn managed(&self, id: TrialId) -> Result<&Trial, Refusal> {
        let trial = self.trial(id)?;
        if trial.managed {
            Ok(trial)
        } else {
            Err(Refusal::NotManaged(id))
        }
    }

    /// The trial, if this worker owns it in this epoch.
    fn owned(&self, id: TrialId, worker: WorkerId, epoch: u64) -> Result<&Trial, Refusal> {
        let trial = self.managed(id)?;
        if trial.state.is_terminal() {
            return Err(Refusal::Ended(id));
        }
        if trial.epoch != epoch {
            return Err(Refusal::WrongEpoch {
                trial: id,
                current: trial.epoch,
                found: epoch,
            });
        }
        if trial.owner != Some(worker) {
            return Err(Refusal::WrongWorker {
                trial: id,
                owner: trial.owner,
                found: worker,
            });
        }
        Ok(trial)
    }

    fn put_blob(&mut self, blob: Option<&ScopedBlob>) {
        if let Some(ScopedBlob { scope, blob }) = blob {
            self.states.insert(*scope, blob.clone());
        }
    }
}

fn end(trial: &mut Trial, state: TrialState, at_millis: u64) {
    trial.state = state;
    trial.owner = None;
    trial.times.ended = Some(at_millis);
}

fn check_heartbeat_seq(trial: &Trial, found: u64) -> Applied {
    let expected = trial.heartbeat_seq + 1;
    if found == expected {
        Ok(())
    } else {
        Err(Refusal::HeartbeatSeq { expected, found })
    }
}

fn check_outcome(outcome: &Outcome) -> Applied {
    let why = match (outcome.state, &outcome.values, &outcome.error) {
        (TrialState::Complete, Some(_), None)
        | (TrialState::Pruned, _, None)
        | (TrialState::Failed, None, Some(_)) => return Ok(()),
        (TrialState::Complete, ..) => "a complete trial has values and no error",
        (TrialState::Pruned, ..) => "a pruned trial has no error",
        (TrialState::Failed, ..) => "a failed trial has an error and no values",
        _ => "a trial ends complete, pruned or failed",
    };
    Err(Refusal::BadOutcome(why))
}
