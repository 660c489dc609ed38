//! Where operations are kept. A backend keeps a [`Replica`] and a history, and is asked for two things:
//! to [commit](Storage::commit) an operation that a plan derives from the present state, and to let
//! the state be [looked at](Storage::read). Everything else follows from these.

pub mod conformance;
pub mod journal;
mod memory;

use std::fmt::Debug;

use serde_json::Value;

pub use memory::MemoryStorage;

use crate::lifecycle::{FencedMutation, Outcome};
use crate::number::JsonF64;
use crate::outbox::{Attempt, Effect, EffectKey, Intent, OutboxKey, Phase};
use crate::replica::{Refusal, Replica, Study, Trial};
use crate::space::{Param, Template};
use crate::storage::journal::record::{
    CreateStudy, CreateTrial, Heartbeat, LifecycleAbandon, LifecycleClaim, LifecycleFailStale,
    LifecycleFenced, LifecycleFinalizedState, LifecycleRenew, LifecycleReserve, LifecycleTerminal,
    Op, OutboxAdvance, OutboxEffectComplete, OutboxReplacement, ParamsBatch, PutState, Report,
    SetError, SetStudyUserAttr, SetTrialUserAttr, SetValues, Transition,
};
use crate::study::constraints;
use crate::trial::{
    Direction, ScopedBlob, StateBlob, StateScope, StudyConfig, StudyId, TrialId, TrialState,
    WorkerId,
};

/// Why a storage did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The state machine refuses the operation; nothing was written.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No study has this name.
    #[error("no study named {name:?}; there are {}", list(.existing))]
    UnknownName {
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        existing: Vec<String>,
    },
    /// A storage in memory came from another process, by a fork. It is that process's alone.
    #[error(
        "the study is in the memory of process {process}, which this one was forked from; keep it in a file to share it"
    )]
    Forked {
        /// The process that it belongs to.
        process: u32,
    },
    /// The journal under the storage.
    #[error(transparent)]
    Journal(#[from] journal::JournalError),
    /// What another backend says.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// A result of a storage.
pub type Result<T> = std::result::Result<T, StorageError>;

/// Derives an operation from the present state, or refuses to.
pub type Plan<'a> = dyn FnMut(&Replica) -> std::result::Result<Op, Refusal> + 'a;

/// A claim's fence: what every later operation of the owner must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The trial.
    pub trial: TrialId,
    /// Its owner.
    pub worker: WorkerId,
    /// The epoch of the ownership.
    pub epoch: u64,
}

/// A store of studies. One method per mutating operation, and reads.
///
/// Every mutating method is atomic: it is committed whole, or it is refused and nothing changed.
pub trait Storage: Send + Sync + Debug {
    /// Brings the replica up to date, lets each plan in turn derive an operation from it, checks them, and
    /// keeps all that are accepted together: each plan sees the state that those before it led to, and
    /// one that is refused is left out. Answers for each plan its sequence number, or the refusal. A
    /// backend may call the plans again when another writer was first.
    ///
    /// # Errors
    /// The backend's own. None of the operations is kept then, unless the error says that this is uncertain.
    fn commit_batch(
        &self,
        plans: &mut [&mut Plan<'_>],
    ) -> Result<Vec<std::result::Result<u64, Refusal>>>;

    /// Brings the replica up to date and lets `look` see it. Nothing is copied. A backend may call `look`
    /// again when what it saw did not last.
    fn read(&self, look: &mut dyn FnMut(&Replica)) -> Result<()>;

    /// As [`commit_batch`](Self::commit_batch), for one operation. Answers its sequence number.
    ///
    /// # Errors
    /// What `plan` refuses, or the state machine; otherwise the backend's own.
    fn commit(&self, plan: &mut Plan<'_>) -> Result<u64> {
        let answers = self.commit_batch(&mut [plan])?;
        match answers.into_iter().next() {
            Some(answer) => Ok(answer?),
            None => Err(StorageError::Other("a backend that does not answer".into())),
        }
    }

    /// Creates a study.
    fn create_study(&self, config: &StudyConfig) -> Result<StudyId> {
        let mut study = StudyId(0);
        self.commit(&mut |replica| {
            study = StudyId(replica.studies().len() as u64);
            Ok(CreateStudy {
                study,
                config: config.clone(),
            }
            .into())
        })?;
        Ok(study)
    }

    /// Creates a raw trial.
    fn create_trial(&self, study: StudyId, template: Option<&Template>) -> Result<TrialId> {
        let mut trial = TrialId(0);
        self.commit(&mut |replica| {
            let number;
            (trial, number) = replica.next_trial(study)?;
            Ok(CreateTrial {
                study,
                trial,
                number,
                template: template.cloned(),
            }
            .into())
        })?;
        Ok(trial)
    }

    /// Moves a raw trial from one state to another. Of several callers, one succeeds.
    fn transition(&self, trial: TrialId, from: TrialState, to: TrialState) -> Result<()> {
        self.commit(&mut |_| Ok(Transition { trial, from, to }.into()))
            .map(drop)
    }

    /// Records sampled parameters of a raw trial, all or nothing.
    fn params_batch(&self, trial: TrialId, params: &[Param]) -> Result<()> {
        self.commit(&mut |_| {
            Ok(ParamsBatch {
                trial,
                params: params.to_vec(),
            }
            .into())
        })
        .map(drop)
    }

    /// Records an intermediate value of a raw trial, one number per direction.
    fn report(&self, trial: TrialId, step: u64, values: &[JsonF64]) -> Result<()> {
        self.commit(&mut |_| {
            Ok(Report {
                trial,
                step,
                values: values.to_vec(),
            }
            .into())
        })
        .map(drop)
    }

    /// Records the final values of a raw trial, one number per direction.
    fn set_values(&self, trial: TrialId, values: &[JsonF64]) -> Result<()> {
        self.commit(&mut |_| {
            Ok(SetValues {
                trial,
                values: values.to_vec(),
            }
            .into())
        })
        .map(drop)
    }

    /// Records what went wrong in a raw trial.
    fn set_error(&self, trial: TrialId, message: &str) -> Result<()> {
        self.commit(&mut |_| {
            Ok(SetError {
                trial,
                message: message.to_owned(),
            }
            .into())
        })
        .map(drop)
    }

    /// Records a heartbeat of a raw trial. The time is the caller's.
    fn heartbeat(&self, trial: TrialId, at_millis: u64) -> Result<()> {
        self.commit(&mut |_| Ok(Heartbeat { trial, at_millis }.into()))
            .map(drop)
    }

    /// Sets a user attribute of a study.
    fn set_study_user_attr(&self, study: StudyId, key: &str, value: &Value) -> Result<()> {
        self.commit(&mut |_| {
            Ok(SetStudyUserAttr {
                study,
                key: key.to_owned(),
                value: value.clone(),
            }
            .into())
        })
        .map(drop)
    }

    /// Sets a user attribute of a raw trial.
    fn set_trial_user_attr(&self, trial: TrialId, key: &str, value: &Value) -> Result<()> {
        self.commit(&mut |_| {
            Ok(SetTrialUserAttr {
                trial,
                key: key.to_owned(),
                value: value.clone(),
            }
            .into())
        })
        .map(drop)
    }

    /// Writes a state blob of a study or of a raw trial.
    fn put_state(&self, scope: StateScope, blob: &StateBlob) -> Result<()> {
        self.commit(&mut |_| {
            Ok(PutState {
                scope,
                blob: blob.clone(),
            }
            .into())
        })
        .map(drop)
    }

    /// Reserves a managed trial, if the study has fewer than `budget` of them.
    fn reserve(
        &self,
        study: StudyId,
        template: Option<&Template>,
        budget: Option<u64>,
    ) -> Result<TrialId> {
        let mut trial = TrialId(0);
        self.commit(&mut |replica| {
            budget.map_or(Ok(()), |budget| replica.check_budget(study, budget))?;
            let number;
            (trial, number) = replica.next_trial(study)?;
            let template = template.cloned();
            Ok(LifecycleReserve {
                study,
                trial,
                number,
                template,
                managed: true,
            }
            .into())
        })?;
        Ok(trial)
    }

    /// Gives up a reservation that nobody claimed.
    fn abandon(&self, trial: TrialId, reason: &str) -> Result<()> {
        self.commit(&mut |_| {
            Ok(LifecycleAbandon {
                trial,
                reason: reason.to_owned(),
            }
            .into())
        })
        .map(drop)
    }

    /// Claims a reserved or paused trial for `worker` and starts it, with its parameters.
    fn claim(
        &self,
        trial: TrialId,
        worker: WorkerId,
        heartbeat_millis: u64,
        params: &[Param],
        state: Option<&ScopedBlob>,
    ) -> Result<Fence> {
        let mut epoch = 0;
        self.commit(&mut |replica| {
            let found = replica.trial(trial)?;
            epoch = found.epoch + 1;
            Ok(LifecycleClaim {
                trial,
                from: found.state,
                worker,
                heartbeat_millis,
                epoch,
                heartbeat_seq: found.heartbeat_seq + 1,
                params: params.to_vec(),
                state: state.cloned(),
            }
            .into())
        })?;
        Ok(Fence {
            trial,
            worker,
            epoch,
        })
    }

    /// Reserves a trial under the budget and claims it in the same commit, with its parameters.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve) and [`claim`](Self::claim). Parameters that are no values of their
    /// distributions are refused before anything is reserved.
    fn start(
        &self,
        study: StudyId,
        budget: Option<u64>,
        worker: WorkerId,
        heartbeat_millis: u64,
        params: &[Param],
    ) -> Result<Fence> {
        let trial = std::cell::Cell::new(None);
        let mut reserve = |replica: &Replica| {
            trial.set(None);
            crate::replica::check_new_params(params)?;
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
            let found = replica.trial(trial.get().ok_or(Refusal::UnknownStudy(study))?)?;
            Ok(LifecycleClaim {
                trial: found.id,
                from: found.state,
                worker,
                heartbeat_millis,
                epoch: found.epoch + 1,
                heartbeat_seq: found.heartbeat_seq + 1,
                params: params.to_vec(),
                state: None,
            }
            .into())
        };
        for answer in self.commit_batch(&mut [&mut reserve, &mut claim])? {
            answer?;
        }
        let trial = trial.get().ok_or(Refusal::UnknownStudy(study))?;
        Ok(Fence {
            trial,
            worker,
            epoch: 1,
        })
    }

    /// Renews an owner's heartbeat.
    fn renew(&self, fence: Fence, heartbeat_millis: u64) -> Result<()> {
        let Fence {
            trial,
            worker,
            epoch,
        } = fence;
        self.commit(&mut |replica| {
            let heartbeat_seq = replica.trial(trial)?.heartbeat_seq + 1;
            Ok(LifecycleRenew {
                trial,
                worker,
                epoch,
                heartbeat_millis,
                heartbeat_seq,
            }
            .into())
        })
        .map(drop)
    }

    /// Fails a trial whose owner's heartbeat is older than `grace_millis`, if it is still as `observed`.
    fn fail_stale(
        &self,
        observed: &Observation,
        now_millis: u64,
        grace_millis: u64,
        reason: &str,
        intent: &Intent,
    ) -> Result<()> {
        self.commit(&mut |_| {
            Ok(LifecycleFailStale {
                trial: observed.trial,
                observed_state: observed.state,
                owner: observed.owner,
                epoch: observed.epoch,
                heartbeat_millis: observed.heartbeat_millis,
                heartbeat_seq: observed.heartbeat_seq,
                now_millis,
                grace_millis,
                reason: reason.to_owned(),
                intent: Some(intent.clone()),
            }
            .into())
        })
        .map(drop)
    }

    /// Changes a trial that the caller owns.
    fn fenced(&self, fence: Fence, mutation: &FencedMutation) -> Result<()> {
        let Fence {
            trial,
            worker,
            epoch,
        } = fence;
        self.commit(&mut |_| {
            Ok(LifecycleFenced {
                trial,
                worker,
                epoch,
                mutation: mutation.clone(),
            }
            .into())
        })
        .map(drop)
    }

    /// Ends a trial that the caller owns, and says what must happen next.
    fn terminal(&self, fence: Fence, outcome: &Outcome, intent: &Intent) -> Result<()> {
        let Fence {
            trial,
            worker,
            epoch,
        } = fence;
        self.commit(&mut |_| {
            let (outcome, intent) = (outcome.clone(), Some(intent.clone()));
            Ok(LifecycleTerminal {
                trial,
                worker,
                epoch,
                outcome,
                intent,
            }
            .into())
        })
        .map(drop)
    }

    /// Takes an outbox to a later phase, with what its callbacks left behind.
    fn outbox_advance(
        &self,
        key: OutboxKey,
        phase: Phase,
        sampler_state: Option<&StateBlob>,
        scheduler_state: Option<&StateBlob>,
        effects: &[Effect],
    ) -> Result<()> {
        self.commit(&mut |_| {
            Ok(OutboxAdvance {
                key,
                phase,
                sampler_state: sampler_state.cloned(),
                scheduler_state: scheduler_state.cloned(),
                effects: effects.to_vec(),
            }
            .into())
        })
        .map(drop)
    }

    /// Acknowledges an effect that was executed. A second acknowledgement is refused.
    fn outbox_effect_complete(&self, key: EffectKey) -> Result<()> {
        self.commit(&mut |_| Ok(OutboxEffectComplete { key }.into()))
            .map(drop)
    }

    /// Creates the trial that a retry or exploit effect asks for, and acknowledges the effect with it.
    fn outbox_replacement(
        &self,
        effect: EffectKey,
        template: Option<&Template>,
        attempt: Attempt,
    ) -> Result<TrialId> {
        let mut trial = TrialId(0);
        self.commit(&mut |replica| {
            let source = replica.trial(effect.trial)?;
            let study = source.study;
            let number;
            (trial, number) = replica.next_trial(study)?;
            let is_retry = replica
                .outbox(effect.outbox())
                .and_then(|outbox| {
                    outbox
                        .open_effects()
                        .find(|(index, _)| *index == effect.index)
                })
                .is_some_and(|(_, effect)| matches!(effect, Effect::Retry {}));
            let retry_of = is_retry.then_some(effect.trial);
            let template = template.cloned();
            Ok(OutboxReplacement {
                effect,
                study,
                trial,
                number,
                template,
                attempt,
                retry_of,
            }
            .into())
        })?;
        Ok(trial)
    }

    /// Replaces a state blob of a managed trial that has ended.
    fn finalized_state(&self, trial: TrialId, scope: StateScope, blob: &StateBlob) -> Result<()> {
        self.commit(&mut |_| {
            Ok(LifecycleFinalizedState {
                trial,
                scope,
                blob: blob.clone(),
            }
            .into())
        })
        .map(drop)
    }

    /// The identity of the study with this name.
    ///
    /// # Errors
    /// [`StorageError::UnknownName`], which lists the names that exist.
    fn study_named(&self, name: &str) -> Result<StudyId> {
        let mut found = Err(StorageError::UnknownName {
            name: name.to_owned(),
            existing: Vec::new(),
        });
        self.read(&mut |replica| {
            found = replica
                .study_by_name(name)
                .map(|study| study.id)
                .ok_or_else(|| {
                    let existing = replica
                        .studies()
                        .iter()
                        .map(|s| s.config.name.clone())
                        .collect();
                    StorageError::UnknownName {
                        name: name.to_owned(),
                        existing,
                    }
                });
        })?;
        found
    }

    /// A copy of one study's configuration and attributes; its list of trials is empty.
    fn study(&self, id: StudyId) -> Result<Study> {
        let mut found = Err(Refusal::UnknownStudy(id));
        self.read(&mut |replica| found = replica.study(id).map(Study::without_trials))?;
        Ok(found?)
    }

    /// A copy of one trial.
    fn trial(&self, id: TrialId) -> Result<Trial> {
        let mut found = Err(Refusal::UnknownTrial(id));
        self.read(&mut |replica| found = replica.trial(id).cloned())?;
        Ok(found?)
    }

    /// Shows the trials of a study whose numbers are in `numbers` and whose state is one of `states`
    /// (any, when empty), by number. Like [`Self::read`], a backend may start again when what it showed did
    /// not last: what is kept is kept by the trial's id.
    fn each_trial(
        &self,
        study: StudyId,
        numbers: std::ops::Range<u64>,
        states: &[TrialState],
        look: &mut dyn FnMut(&Trial),
    ) -> Result<()> {
        let mut known = Ok(());
        self.read(&mut |replica| {
            known = replica.trials_in(study, numbers.clone()).map(|trials| {
                let wanted = |t: &&Trial| states.is_empty() || states.contains(&t.state);
                trials.filter(wanted).for_each(&mut *look);
            });
        })?;
        Ok(known?)
    }

    /// Shows every trial that changed after sequence number `seq`, the last changed first, and answers
    /// the sequence number to ask with next time. The cost is that of the changes, not of the history.
    /// May start again, as [`Self::each_trial`] does.
    fn changes_since(&self, seq: u64, look: &mut dyn FnMut(&Trial)) -> Result<u64> {
        let mut now = seq;
        self.read(&mut |replica| {
            now = replica.seq();
            replica.changed_since(seq).for_each(&mut *look);
        })?;
        Ok(now)
    }

    /// Shows the best trials of a study: the one with the best value, the earliest of equals, or for
    /// several directions all that no other trial dominates, by number. Trials with a value that is not
    /// a number, or that miss a constraint, are never best. May start again, as [`Self::each_trial`] does.
    fn each_best_trial(&self, study: StudyId, look: &mut dyn FnMut(&Trial)) -> Result<()> {
        let mut known = Ok(());
        self.read(&mut |replica| {
            known = replica
                .best_trials(study)
                .map(|best| best.into_iter().for_each(&mut *look));
        })?;
        Ok(known?)
    }
}

/// All that a caller saw of a trial's ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The trial.
    pub trial: TrialId,
    /// Its state.
    pub state: TrialState,
    /// Its owner.
    pub owner: Option<WorkerId>,
    /// Its epoch.
    pub epoch: u64,
    /// Its last heartbeat.
    pub heartbeat_millis: Option<u64>,
    /// How many heartbeats there were.
    pub heartbeat_seq: u64,
}

impl From<&Trial> for Observation {
    fn from(trial: &Trial) -> Self {
        Self {
            trial: trial.id,
            state: trial.state,
            owner: trial.owner,
            epoch: trial.epoch,
            heartbeat_millis: trial.heartbeat_millis,
            heartbeat_seq: trial.heartbeat_seq,
        }
    }
}

impl Replica {
    /// The best trials of a study: see [`Storage::each_best_trial`].
    ///
    /// # Errors
    /// [`Refusal::UnknownStudy`].
    pub fn best_trials(&self, study: StudyId) -> std::result::Result<Vec<&Trial>, Refusal> {
        let directions = &self.study(study)?.config.directions;
        let finished = self.trials_of(study)?.filter(|trial| {
            let is_number = |values: &[JsonF64]| values.iter().all(|v| !v.0.is_nan());
            trial.state == TrialState::Complete
                && trial.values.as_deref().is_some_and(is_number)
                && constraints::are_met(trial)
        });
        if let [direction] = directions.as_slice() {
            let better = |a: &Trial, b: &Trial| dominates(a, b, &[*direction]);
            let best =
                finished.reduce(|best, trial| if better(trial, best) { trial } else { best });
            return Ok(best.into_iter().collect());
        }
        let mut front: Vec<&Trial> = Vec::new();
        for trial in finished {
            if front
                .iter()
                .any(|other| dominates(other, trial, directions))
            {
                continue;
            }
            front.retain(|other| !dominates(trial, other, directions));
            front.push(trial);
        }
        Ok(front)
    }
}

/// True when `a` is nowhere worse than `b` and somewhere better.
fn dominates(a: &Trial, b: &Trial, directions: &[Direction]) -> bool {
    let values = |trial: &'_ Trial| trial.values.clone().unwrap_or_default();
    let (a, b) = (values(a), values(b));
    let mut is_better = false;
    for ((a, b), direction) in a.iter().zip(&*b).zip(directions) {
        let (a, b) = match direction {
            Direction::Minimize => (a.0, b.0),
            Direction::Maximize => (-a.0, -b.0),
        };
        if a > b {
            return false;
        }
        is_better |= a < b;
    }
    is_better
}
