//! A naive model of the state machine, written from the format page and the rules of the lifecycle, not
//! from the product's code. It answers the kind of a refusal by name.

use std::collections::BTreeMap;

use atune_core::lifecycle::{FencedMutation, Outcome};
use atune_core::outbox::{Effect, Intent, OutboxKey, Phase};
use atune_core::space::{Param, Template};
use atune_core::storage::journal::record::Op;
use atune_core::trial::{
    ScopedBlob, StateBlob, StateScope, StudyConfig, StudyId, TrialId, TrialState, WorkerId,
};
use serde_json::Value;

pub(crate) type Answer = Result<(), &'static str>;

#[derive(Clone, Debug)]
pub(crate) struct ModelTrial {
    pub(crate) study: StudyId,
    pub(crate) number: u64,
    pub(crate) managed: bool,
    pub(crate) state: TrialState,
    pub(crate) owner: Option<WorkerId>,
    pub(crate) epoch: u64,
    pub(crate) heartbeat: Option<u64>,
    pub(crate) heartbeats: u64,
    pub(crate) params: Vec<String>,
    pub(crate) steps: Vec<u64>,
    pub(crate) values: Option<Vec<f64>>,
    pub(crate) error: Option<String>,
    pub(crate) attrs: BTreeMap<String, Value>,
    pub(crate) counts: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) studies: Vec<StudyConfig>,
    pub(crate) trials: Vec<ModelTrial>,
    pub(crate) states: BTreeMap<StateScope, StateBlob>,
    pub(crate) outboxes: BTreeMap<OutboxKey, (Phase, Vec<(Effect, bool)>)>,
    pub(crate) accepted: u64,
}

fn need(holds: bool, refusal: &'static str) -> Answer {
    if holds { Ok(()) } else { Err(refusal) }
}

fn user_key(key: &str) -> Answer {
    need(!key.starts_with("atune:"), "ReservedKey")
}

impl Model {
    /// Applies the operation to a copy, and keeps the copy if nothing was refused.
    pub(crate) fn apply(&mut self, op: &Op) -> Answer {
        let mut next = self.clone();
        next.change(op)?;
        next.accepted += 1;
        *self = next;
        Ok(())
    }

    fn trial(&mut self, id: TrialId) -> Result<&mut ModelTrial, &'static str> {
        let at = usize::try_from(id.0).unwrap();
        self.trials.get_mut(at).ok_or("UnknownTrial")
    }

    fn raw(&mut self, id: TrialId) -> Result<&mut ModelTrial, &'static str> {
        let trial = self.trial(id)?;
        need(!trial.managed, "Managed")?;
        Ok(trial)
    }

    fn raw_open(&mut self, id: TrialId) -> Result<&mut ModelTrial, &'static str> {
        let trial = self.raw(id)?;
        need(!trial.state.is_terminal(), "Ended")?;
        Ok(trial)
    }

    fn managed(&mut self, id: TrialId) -> Result<&mut ModelTrial, &'static str> {
        let trial = self.trial(id)?;
        need(trial.managed, "NotManaged")?;
        Ok(trial)
    }

    fn owned(
        &mut self,
        id: TrialId,
        worker: WorkerId,
        epoch: u64,
    ) -> Result<&mut ModelTrial, &'static str> {
        let trial = self.managed(id)?;
        need(!trial.state.is_terminal(), "Ended")?;
        need(trial.epoch == epoch, "WrongEpoch")?;
        need(trial.owner == Some(worker), "WrongWorker")?;
        Ok(trial)
    }

    fn study(&self, id: StudyId) -> Result<&StudyConfig, &'static str> {
        let at = usize::try_from(id.0).unwrap();
        self.studies.get(at).ok_or("UnknownStudy")
    }

    fn value_count(&mut self, id: TrialId, count: usize) -> Answer {
        let study = self.trial(id)?.study;
        need(self.study(study)?.directions.len() == count, "ValueCount")
    }

    fn add(
        &mut self,
        study: StudyId,
        id: TrialId,
        number: u64,
        template: Option<&Template>,
        managed: bool,
        counts: bool,
    ) -> Answer {
        self.study(study)?;
        let numbers = self.trials.iter().filter(|t| t.study == study).count() as u64;
        let next = (self.trials.len() as u64, numbers);
        need((id.0, number) == next, "WrongIdentity")?;
        if let Some(parent) = template.and_then(|t| t.parent) {
            self.trial(parent)?;
        }
        self.trials.push(ModelTrial {
            study,
            number,
            managed,
            state: TrialState::Waiting,
            owner: None,
            epoch: 0,
            heartbeat: None,
            heartbeats: 0,
            params: Vec::new(),
            steps: Vec::new(),
            values: None,
            error: None,
            attrs: BTreeMap::new(),
            counts,
        });
        Ok(())
    }

    fn add_params(&mut self, id: TrialId, params: &[Param]) -> Answer {
        let names = &mut self.trial(id)?.params;
        for param in params {
            need(!names.contains(&param.name), "ParamTaken")?;
            param
                .dist
                .check()
                .and_then(|()| param.dist.check_value(&param.value))
                .map_err(|_| "BadParam")?;
            names.push(param.name.clone());
        }
        Ok(())
    }

    fn keep(&mut self, id: TrialId, blob: Option<&ScopedBlob>) -> Answer {
        if let Some(ScopedBlob { scope, blob }) = blob {
            need(scope.trial() == Some(id), "WrongScope")?;
            self.states.insert(*scope, blob.clone());
        }
        Ok(())
    }

    fn open_outbox(&mut self, trial: TrialId, epoch: u64, intent: Option<&Intent>) {
        if intent.is_some() {
            let key = OutboxKey { trial, epoch };
            self.outboxes.insert(key, (Phase::Sampler, Vec::new()));
        }
    }

    fn end(&mut self, id: TrialId, outcome: &Outcome) -> Answer {
        let is_whole = match outcome.state {
            TrialState::Complete => outcome.values.is_some() && outcome.error.is_none(),
            TrialState::Pruned => outcome.error.is_none(),
            TrialState::Failed => outcome.values.is_none() && outcome.error.is_some(),
            _ => false,
        };
        need(is_whole, "BadOutcome")?;
        if let Some(values) = &outcome.values {
            self.value_count(id, values.len())?;
        }
        self.keep(id, outcome.blob.as_ref())?;
        let trial = self.trial(id)?;
        trial.state = outcome.state;
        trial.owner = None;
        trial.values = outcome
            .values
            .as_ref()
            .map(|v| v.iter().map(|v| v.0).collect());
        trial.error.clone_from(&outcome.error);
        Ok(())
    }

    fn change(&mut self, op: &Op) -> Answer {
        match op {
            Op::CreateStudy(op) => {
                need(op.study.0 == self.studies.len() as u64, "WrongIdentity")?;
                let is_taken = self.studies.iter().any(|s| s.name == op.config.name);
                need(!op.config.name.is_empty(), "BadConfig")?;
                need(!is_taken, "NameTaken")?;
                need(!op.config.directions.is_empty(), "BadConfig")?;
                let space = op.config.space.as_deref().unwrap_or_default();
                for (at, entry) in space.iter().enumerate() {
                    let is_new = space[..at].iter().all(|other| other.name != entry.name);
                    need(is_new && entry.dist.check().is_ok(), "BadParam")?;
                }
                self.studies.push(op.config.clone());
                Ok(())
            }
            Op::CreateTrial(op) => self.add(
                op.study,
                op.trial,
                op.number,
                op.template.as_ref(),
                false,
                true,
            ),
            Op::Transition(op) => {
                use TrialState::{Failed, Running, Waiting};
                let trial = self.raw(op.trial)?;
                need(trial.state == op.from, "WrongFrom")?;
                let is_move = match op.from {
                    Waiting => op.to == Running || op.to == Failed,
                    Running => op.to.is_terminal(),
                    _ => false,
                };
                need(is_move, "ForbiddenMove")?;
                trial.state = op.to;
                Ok(())
            }
            Op::ParamsBatch(op) => {
                self.raw_open(op.trial)?;
                self.add_params(op.trial, &op.params)
            }
            Op::Report(op) => {
                self.raw_open(op.trial)?;
                self.value_count(op.trial, op.values.len())?;
                self.trial(op.trial)?.steps.push(op.step);
                Ok(())
            }
            Op::SetValues(op) => {
                self.raw_open(op.trial)?;
                self.value_count(op.trial, op.values.len())?;
                self.trial(op.trial)?.values = Some(op.values.iter().map(|v| v.0).collect());
                Ok(())
            }
            Op::SetError(op) => {
                self.raw_open(op.trial)?.error = Some(op.message.clone());
                Ok(())
            }
            Op::Heartbeat(op) => {
                let trial = self.raw_open(op.trial)?;
                trial.heartbeat = Some(op.at_millis);
                trial.heartbeats += 1;
                Ok(())
            }
            Op::SetStudyUserAttr(op) => {
                user_key(&op.key)?;
                self.study(op.study).map(drop)
            }
            Op::SetTrialUserAttr(op) => {
                user_key(&op.key)?;
                let attrs = &mut self.raw(op.trial)?.attrs;
                attrs.insert(op.key.clone(), op.value.clone());
                Ok(())
            }
            Op::PutState(op) => {
                match (op.scope, op.scope.trial()) {
                    (_, Some(trial)) => self.raw(trial).map(drop)?,
                    (StateScope::Sampler(study) | StateScope::Scheduler(study), None) => {
                        self.study(study).map(drop)?;
                    }
                    _ => {}
                }
                self.states.insert(op.scope, op.blob.clone());
                Ok(())
            }
            other => self.change_managed(other),
        }
    }

    fn change_managed(&mut self, op: &Op) -> Answer {
        match op {
            Op::LifecycleReserve(op) => self.add(
                op.study,
                op.trial,
                op.number,
                op.template.as_ref(),
                op.managed,
                true,
            ),
            Op::LifecycleAbandon(op) => {
                let trial = self.managed(op.trial)?;
                need(trial.state == TrialState::Waiting, "WrongFrom")?;
                trial.state = TrialState::Failed;
                trial.error = Some(op.reason.clone());
                trial.counts = false;
                Ok(())
            }
            Op::LifecycleClaim(op) => {
                let trial = self.managed(op.trial)?;
                need(trial.state == op.from, "WrongFrom")?;
                let may_start = matches!(trial.state, TrialState::Waiting | TrialState::Paused);
                need(may_start, "ForbiddenMove")?;
                need(op.epoch == trial.epoch + 1, "WrongEpoch")?;
                need(op.heartbeat_seq == trial.heartbeats + 1, "HeartbeatSeq")?;
                self.add_params(op.trial, &op.params)?;
                self.keep(op.trial, op.state.as_ref())?;
                let trial = self.trial(op.trial)?;
                (trial.state, trial.owner) = (TrialState::Running, Some(op.worker));
                (trial.epoch, trial.heartbeats) = (op.epoch, op.heartbeat_seq);
                trial.heartbeat = Some(op.heartbeat_millis);
                Ok(())
            }
            Op::LifecycleRenew(op) => {
                let trial = self.owned(op.trial, op.worker, op.epoch)?;
                need(op.heartbeat_seq == trial.heartbeats + 1, "HeartbeatSeq")?;
                (trial.heartbeat, trial.heartbeats) = (Some(op.heartbeat_millis), op.heartbeat_seq);
                Ok(())
            }
            Op::LifecycleFailStale(op) => {
                let trial = self.managed(op.trial)?;
                let seen = (
                    op.observed_state,
                    op.owner,
                    op.epoch,
                    op.heartbeat_millis,
                    op.heartbeat_seq,
                );
                let is = (
                    trial.state,
                    trial.owner,
                    trial.epoch,
                    trial.heartbeat,
                    trial.heartbeats,
                );
                need(seen == is, "ObservationChanged")?;
                need(trial.state == TrialState::Running, "ForbiddenMove")?;
                let age = op.now_millis.saturating_sub(trial.heartbeat.unwrap());
                need(age > op.grace_millis, "NotStale")?;
                self.open_outbox(op.trial, op.epoch, op.intent.as_ref());
                self.end(op.trial, &Outcome::failed(op.reason.as_str()))
            }
            Op::LifecycleFenced(op) => {
                let trial = self.owned(op.trial, op.worker, op.epoch)?;
                match &op.mutation {
                    FencedMutation::ParamsBatch { params } => self.add_params(op.trial, params),
                    FencedMutation::Report { step, values } => {
                        trial.steps.push(*step);
                        self.value_count(op.trial, values.len())
                    }
                    FencedMutation::SetUserAttr { key, value } => {
                        trial.attrs.insert(key.clone(), value.clone());
                        user_key(key)
                    }
                    FencedMutation::PutState { scope, blob } => {
                        let (scope, blob) = (*scope, blob.clone());
                        self.keep(op.trial, Some(&ScopedBlob { scope, blob }))
                    }
                    FencedMutation::Pause { state } => {
                        (trial.state, trial.owner) = (TrialState::Paused, None);
                        self.keep(op.trial, state.as_ref())
                    }
                }
            }
            Op::LifecycleTerminal(op) => {
                self.owned(op.trial, op.worker, op.epoch)?;
                self.end(op.trial, &op.outcome)?;
                self.open_outbox(op.trial, op.epoch, op.intent.as_ref());
                Ok(())
            }
            Op::LifecycleFinalizedState(op) => {
                let has_ended = self.managed(op.trial)?.state.is_terminal();
                need(has_ended, "NotEnded")?;
                let (scope, blob) = (op.scope, op.blob.clone());
                self.keep(op.trial, Some(&ScopedBlob { scope, blob }))
            }
            other => self.change_outbox(other),
        }
    }

    fn change_outbox(&mut self, op: &Op) -> Answer {
        match op {
            Op::OutboxAdvance(op) => {
                let (phase, effects) = self.outboxes.get_mut(&op.key).ok_or("UnknownOutbox")?;
                need(op.phase > *phase, "PhaseBackwards")?;
                let is_finished = op.effects.is_empty() && effects.iter().all(|(_, done)| *done);
                need(op.phase != Phase::Done || is_finished, "EffectsOpen")?;
                let trials = self.trials.len() as u64;
                let is_stray = |effect: &Effect| matches!(effect, Effect::Exploit { source, .. } if source.0 >= trials);
                need(!op.effects.iter().any(is_stray), "UnknownTrial")?;
                *phase = op.phase;
                effects.extend(op.effects.iter().map(|effect| (effect.clone(), false)));
                let study = self.trial(op.key.trial)?.study;
                let sampler = op
                    .sampler_state
                    .iter()
                    .map(|s| (StateScope::Sampler(study), s));
                let scheduler = op
                    .scheduler_state
                    .iter()
                    .map(|s| (StateScope::Scheduler(study), s));
                let states = sampler.chain(scheduler);
                self.states
                    .extend(states.map(|(scope, state)| (scope, state.clone())));
                Ok(())
            }
            Op::OutboxEffectComplete(op) => self.complete(op.key).map(drop),
            Op::OutboxReplacement(op) => {
                let effect = self.complete(op.effect)?;
                let fits = match effect {
                    Effect::Retry {} => op.retry_of == Some(op.effect.trial),
                    Effect::Exploit { .. } => op.retry_of.is_none(),
                    _ => false,
                };
                let is_attempt = (1..=op.attempt.max).contains(&op.attempt.number);
                let stays = self.trial(op.effect.trial)?.study == op.study;
                need(fits && is_attempt && stays, "BadReplacement")?;
                let counts = op.retry_of.is_none();
                self.add(
                    op.study,
                    op.trial,
                    op.number,
                    op.template.as_ref(),
                    true,
                    counts,
                )
            }
            other => panic!("no rule for {other:?}"),
        }
    }

    fn complete(&mut self, key: atune_core::outbox::EffectKey) -> Result<Effect, &'static str> {
        let (phase, effects) = self
            .outboxes
            .get_mut(&key.outbox())
            .ok_or("UnknownOutbox")?;
        let index = usize::try_from(key.index).unwrap();
        let (effect, done) = effects.get_mut(index).ok_or("UnknownEffect")?;
        need(!std::mem::replace(done, true), "EffectTwice")?;
        need(*phase == Phase::Effects, "UnknownEffect")?;
        Ok(effect.clone())
    }
}
