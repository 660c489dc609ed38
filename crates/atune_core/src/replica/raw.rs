//! Operations on studies and on raw trials, which no lifecycle manages.

use std::collections::HashSet;

use super::{
    Applied, NewTrial, Refusal, Replica, Study, Trial, TrialReport, check_identity, check_key,
    check_params,
};
use crate::space::SpaceFault;
use crate::storage::journal::record::{
    CreateStudy, CreateTrial, Heartbeat, ParamsBatch, PutState, Report, SetError, SetStudyUserAttr,
    SetTrialUserAttr, SetValues, Transition,
};
use crate::trial::{SpaceEntry, StateScope, TrialId, TrialState};

impl Replica {
    pub(super) fn create_study(&mut self, op: &CreateStudy) -> Applied {
        check_identity("study", self.studies.len() as u64, op.study.0)?;
        let config = &op.config;
        if config.name.is_empty() {
            return Err(Refusal::BadConfig("a study needs a name"));
        }
        if self.by_name.contains_key(&config.name) {
            return Err(Refusal::NameTaken(config.name.clone()));
        }
        if config.directions.is_empty() {
            return Err(Refusal::BadConfig("a study needs a direction"));
        }
        let names = config.metric_names.len();
        if names != 0 && names != config.directions.len() {
            return Err(Refusal::BadConfig(
                "a study needs one metric name per direction, or none",
            ));
        }
        check_space(config.space.as_deref().unwrap_or_default())?;
        self.by_name.insert(config.name.clone(), op.study);
        self.studies.push(Study::new(op.study, config.clone()));
        Ok(())
    }

    pub(super) fn create_trial(&mut self, op: &CreateTrial, at_millis: u64) -> Applied {
        self.add_trial(&NewTrial {
            study: op.study,
            trial: op.trial,
            number: op.number,
            template: op.template.as_ref(),
            managed: false,
            at_millis,
        })
    }

    pub(super) fn transition(&mut self, op: &Transition, at_millis: u64) -> Applied {
        let trial = self.raw(op.trial)?;
        if trial.state != op.from {
            let (trial, found) = (op.trial, trial.state);
            return Err(Refusal::WrongFrom {
                trial,
                expected: op.from,
                found,
            });
        }
        let allowed = match (op.from, op.to) {
            (TrialState::Waiting, to) => matches!(to, TrialState::Running | TrialState::Failed),
            (TrialState::Running, to) => to.is_terminal(),
            _ => false,
        };
        if !allowed {
            return Err(Refusal::ForbiddenMove {
                from: op.from,
                to: op.to,
            });
        }
        let trial = self.trial_mut(op.trial)?;
        trial.state = op.to;
        if op.to == TrialState::Running {
            trial.times.started = Some(at_millis);
        } else {
            trial.times.ended = Some(at_millis);
        }
        Ok(())
    }

    pub(super) fn params_batch(&mut self, op: &ParamsBatch) -> Applied {
        check_params(self.raw_open(op.trial)?, &op.params)?;
        self.set_params(op.trial, &op.params)
    }

    pub(super) fn report(&mut self, op: &Report) -> Applied {
        self.check_values(self.raw_open(op.trial)?, &op.values)?;
        let report = TrialReport {
            step: op.step,
            values: op.values.as_slice().into(),
        };
        self.trial_mut(op.trial)?.reports.push(report);
        Ok(())
    }

    pub(super) fn set_values(&mut self, op: &SetValues) -> Applied {
        self.check_values(self.raw_open(op.trial)?, &op.values)?;
        self.trial_mut(op.trial)?.values = Some(op.values.as_slice().into());
        Ok(())
    }

    pub(super) fn set_error(&mut self, op: &SetError) -> Applied {
        self.raw_open(op.trial)?;
        self.trial_mut(op.trial)?.rare_mut().error = Some(op.message.clone());
        Ok(())
    }

    pub(super) fn heartbeat(&mut self, op: &Heartbeat) -> Applied {
        self.raw_open(op.trial)?;
        let trial = self.trial_mut(op.trial)?;
        trial.heartbeat_millis = Some(op.at_millis);
        trial.heartbeat_seq += 1;
        Ok(())
    }

    pub(super) fn set_study_user_attr(&mut self, op: &SetStudyUserAttr) -> Applied {
        check_key(&op.key)?;
        self.study_mut(op.study)?
            .user_attrs
            .insert(op.key.clone(), op.value.clone());
        Ok(())
    }

    pub(super) fn set_trial_user_attr(&mut self, op: &SetTrialUserAttr) -> Applied {
        check_key(&op.key)?;
        self.raw(op.trial)?;
        let trial = self.trial_mut(op.trial)?;
        trial
            .rare_mut()
            .user_attrs
            .insert(op.key.clone(), op.value.clone());
        Ok(())
    }

    pub(super) fn put_state(&mut self, op: &PutState) -> Applied {
        match op.scope {
            StateScope::Sampler(study) | StateScope::Scheduler(study) => {
                self.study(study)?;
            }
            StateScope::TrialSampler(trial)
            | StateScope::TrialScheduler(trial)
            | StateScope::TrialUser(trial) => {
                self.raw(trial)?;
            }
        }
        self.states.insert(op.scope, op.blob.clone());
        Ok(())
    }

    fn raw(&self, id: TrialId) -> Result<&Trial, Refusal> {
        let trial = self.trial(id)?;
        if trial.managed {
            Err(Refusal::Managed(id))
        } else {
            Ok(trial)
        }
    }

    fn raw_open(&self, id: TrialId) -> Result<&Trial, Refusal> {
        let trial = self.raw(id)?;
        if trial.state.is_terminal() {
            Err(Refusal::Ended(id))
        } else {
            Ok(trial)
        }
    }
}

/// A space names each parameter once, and each has values.
fn check_space(space: &[SpaceEntry]) -> Applied {
    let mut names = HashSet::new();
    for SpaceEntry { name, dist } in space {
        let is_new = names.insert(name);
        let checked = dist.check();
        let checked = checked.and(if is_new {
            Ok(())
        } else {
            Err(SpaceFault::Repeated)
        });
        checked.map_err(|fault| Refusal::BadParam {
            name: name.clone(),
            fault,
        })?;
    }
    Ok(())
}
