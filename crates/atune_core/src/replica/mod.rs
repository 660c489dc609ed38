//! The state machine of a store: every operation, and why it may be refused. Pure; no input or output.
//!
//! A writer applies an operation to its replica before it appends it, and a reader applies what it
//! reads. Both come to the same state, or the history is refused. An operation is checked whole before
//! anything changes: a refused one leaves no trace.

mod changes;
mod lifecycle;
mod outbox;
mod raw;
mod refusal;
mod values;
mod view;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

pub use refusal::Refusal;
pub use values::Values;
pub use view::{
    Outbox, OutboxEffect, ParamKey, States, Study, Trial, TrialParam, TrialReport, TrialTimes,
};

use crate::number::JsonF64;
use crate::outbox::OutboxKey;
use crate::space::{Param, Template};
use crate::storage::journal::record::{Op, OpLine};
use crate::trial::{ScopedBlob, StateBlob, StateScope, StudyConfig, StudyId, TrialId, TrialState};
use view::Rare;

/// Attribute keys that start so are the store's own.
pub const RESERVED_PREFIX: &str = "atune:";

type Applied = Result<(), Refusal>;

/// The state that a history of operations leads to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replica {
    studies: Vec<Study>,
    by_name: HashMap<String, StudyId>,
    trials: Vec<Trial>,
    states: States,
    outboxes: BTreeMap<OutboxKey, Outbox>,
    changes: changes::ChangeList,
    seq: u64,
}

impl Replica {
    /// A store in which nothing happened yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The sequence number of the last operation; 0 before the first.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// All studies, by identity.
    pub fn studies(&self) -> &[Study] {
        &self.studies
    }

    /// The study with this identity.
    pub fn study(&self, id: StudyId) -> Result<&Study, Refusal> {
        at(&self.studies, id.0).ok_or(Refusal::UnknownStudy(id))
    }

    /// The study with this name.
    pub fn study_by_name(&self, name: &str) -> Option<&Study> {
        self.by_name
            .get(name)
            .and_then(|id| at(&self.studies, id.0))
    }

    /// All trials of all studies, by identity.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// The trial with this identity.
    pub fn trial(&self, id: TrialId) -> Result<&Trial, Refusal> {
        at(&self.trials, id.0).ok_or(Refusal::UnknownTrial(id))
    }

    /// The trials of one study, by number.
    pub fn trials_of(&self, study: StudyId) -> Result<impl Iterator<Item = &Trial>, Refusal> {
        let study = self.study(study)?;
        Ok(study.trials.iter().filter_map(|id| at(&self.trials, id.0)))
    }

    /// The trials of one study whose numbers are in `numbers`, by number.
    pub fn trials_in(
        &self,
        study: StudyId,
        numbers: std::ops::Range<u64>,
    ) -> Result<impl Iterator<Item = &Trial>, Refusal> {
        let ids = &self.study(study)?.trials;
        let place = |number| usize::try_from(number).unwrap_or(usize::MAX).min(ids.len());
        let (start, end) = (place(numbers.start), place(numbers.end));
        let ids = ids.get(start..end).unwrap_or_default();
        Ok(ids.iter().filter_map(|id| at(&self.trials, id.0)))
    }

    /// The trials that changed after sequence number `seq`, the last changed first.
    pub fn changed_since(&self, seq: u64) -> impl Iterator<Item = &Trial> {
        self.changes
            .since(seq)
            .filter_map(|id| at(&self.trials, id.0))
    }

    /// The state blob of a scope.
    pub fn state(&self, scope: StateScope) -> Option<&StateBlob> {
        self.states.get(&scope)
    }

    /// All outboxes, by trial.
    pub fn outboxes(&self) -> impl Iterator<Item = (OutboxKey, &Outbox)> {
        self.outboxes.iter().map(|(key, outbox)| (*key, outbox))
    }

    /// The outbox of one ending of one trial.
    pub fn outbox(&self, key: OutboxKey) -> Option<&Outbox> {
        self.outboxes.get(&key)
    }

    /// Trials of a study that count against its budget: all but those that were abandoned before
    /// anybody started them, and retries, which stand for the trial that they retry.
    pub fn budget_used(&self, study: StudyId) -> Result<u64, Refusal> {
        let study = self.study(study)?;
        Ok((study.trials.len() as u64).saturating_sub(study.uncounted))
    }

    /// Refuses a further trial when the study has `budget` of them.
    ///
    /// The budget is the caller's and stands in no record: a writer asks this under its lease, directly
    /// before it appends the reservation.
    pub fn check_budget(&self, study: StudyId, budget: u64) -> Applied {
        let count = self.budget_used(study)?;
        if count >= budget {
            return Err(Refusal::OverBudget {
                study,
                count,
                budget,
            });
        }
        Ok(())
    }

    /// Applies a line of a journal: its operation, its place in the history, and its time.
    ///
    /// # Errors
    /// [`Refusal::WrongSeq`] when a record is missing or stands twice; otherwise as [`apply`](Self::apply).
    pub fn apply_line(&mut self, line: &OpLine) -> Applied {
        let expected = self.seq + 1;
        if line.seq != expected {
            return Err(Refusal::WrongSeq {
                expected,
                found: line.seq,
            });
        }
        self.apply_at(&line.op, line.at_millis)
    }

    /// Applies an operation without a time.
    ///
    /// # Errors
    /// Why the state machine refuses it. Nothing has changed then.
    pub fn apply(&mut self, op: &Op) -> Applied {
        self.apply_at(op, 0)
    }

    fn apply_at(&mut self, op: &Op, at_millis: u64) -> Applied {
        match op {
            Op::CreateStudy(op) => self.create_study(op),
            Op::CreateTrial(op) => self.create_trial(op, at_millis),
            Op::Transition(op) => self.transition(op, at_millis),
            Op::ParamsBatch(op) => self.params_batch(op),
            Op::Report(op) => self.report(op),
            Op::SetValues(op) => self.set_values(op),
            Op::SetError(op) => self.set_error(op),
            Op::Heartbeat(op) => self.heartbeat(op),
            Op::SetStudyUserAttr(op) => self.set_study_user_attr(op),
            Op::SetTrialUserAttr(op) => self.set_trial_user_attr(op),
            Op::PutState(op) => self.put_state(op),
            Op::LifecycleReserve(op) => self.reserve(op, at_millis),
            Op::LifecycleAbandon(op) => self.abandon(op, at_millis),
            Op::LifecycleClaim(op) => self.claim(op, at_millis),
            Op::LifecycleRenew(op) => self.renew(op),
            Op::LifecycleFailStale(op) => self.fail_stale(op, at_millis),
            Op::LifecycleFenced(op) => self.fenced(op),
            Op::LifecycleTerminal(op) => self.terminal(op, at_millis),
            Op::OutboxAdvance(op) => self.outbox_advance(op),
            Op::OutboxEffectComplete(op) => self.effect_complete(op),
            Op::OutboxReplacement(op) => self.replacement(op, at_millis),
            Op::LifecycleFinalizedState(op) => self.finalized_state(op),
        }?;
        self.seq += 1;
        for trial in op.trials() {
            self.changes.touch(trial, self.seq);
        }
        Ok(())
    }

    fn trial_mut(&mut self, id: TrialId) -> Result<&mut Trial, Refusal> {
        usize::try_from(id.0)
            .ok()
            .and_then(|at| self.trials.get_mut(at))
            .ok_or(Refusal::UnknownTrial(id))
    }

    fn study_mut(&mut self, id: StudyId) -> Result<&mut Study, Refusal> {
        usize::try_from(id.0)
            .ok()
            .and_then(|at| self.studies.get_mut(at))
            .ok_or(Refusal::UnknownStudy(id))
    }

    /// The identity and number that a new trial of `study` must have.
    pub fn next_trial(&self, study: StudyId) -> Result<(TrialId, u64), Refusal> {
        let number = self.study(study)?.trials.len() as u64;
        Ok((TrialId(self.trials.len() as u64), number))
    }

    fn check_new_trial(&self, study: StudyId, trial: TrialId, number: u64) -> Applied {
        let (next, next_number) = self.next_trial(study)?;
        check_identity("trial", next.0, trial.0)?;
        check_identity("trial number", next_number, number)
    }

    fn add_trial(&mut self, new: &NewTrial<'_>) -> Applied {
        self.check_new_trial(new.study, new.trial, new.number)?;
        if let Some(parent) = new.template.and_then(|template| template.parent) {
            self.trial(parent)?;
        }
        let rare = new.template.map(|template| {
            Box::new(Rare {
                template: Some(template.clone()),
                ..Rare::default()
            })
        });
        self.study_mut(new.study)?.trials.push(new.trial);
        self.trials.push(Trial {
            id: new.trial,
            study: new.study,
            number: new.number,
            state: TrialState::Waiting,
            managed: new.managed,
            params: Vec::new(),
            reports: Vec::new(),
            values: None,
            owner: None,
            epoch: 0,
            heartbeat_millis: None,
            heartbeat_seq: 0,
            times: TrialTimes {
                created: new.at_millis,
                ..TrialTimes::default()
            },
            rare,
        });
        Ok(())
    }

    /// Sets parameters that were checked.
    fn set_params(&mut self, id: TrialId, params: &[Param]) -> Applied {
        let study = self.trial(id)?.study;
        let study = self.study_mut(study)?;
        let with_keys: Vec<TrialParam> = params
            .iter()
            .map(|param| TrialParam {
                key: study.key_of(param),
                value: param.value.clone(),
            })
            .collect();
        let present = &mut self.trial_mut(id)?.params;
        if present.is_empty() {
            *present = with_keys;
        } else {
            present.extend(with_keys);
        }
        Ok(())
    }

    fn check_values(&self, trial: &Trial, values: &[JsonF64]) -> Applied {
        let expected = self.study(trial.study)?.config.directions.len();
        if values.len() != expected {
            return Err(Refusal::ValueCount {
                expected,
                found: values.len(),
            });
        }
        Ok(())
    }
}

struct NewTrial<'a> {
    study: StudyId,
    trial: TrialId,
    number: u64,
    template: Option<&'a Template>,
    managed: bool,
    at_millis: u64,
}

impl Study {
    fn new(id: StudyId, config: StudyConfig) -> Self {
        Self {
            id,
            config,
            trials: Vec::new(),
            user_attrs: BTreeMap::new(),
            uncounted: 0,
            param_keys: Vec::new(),
        }
    }

    /// A copy without the list of trials, which may be long.
    #[must_use]
    pub fn without_trials(&self) -> Self {
        Self {
            id: self.id,
            config: self.config.clone(),
            trials: Vec::new(),
            user_attrs: self.user_attrs.clone(),
            uncounted: self.uncounted,
            param_keys: Vec::new(),
        }
    }

    /// Name and distribution of a parameter, shared with the trials that have the same.
    fn key_of(&mut self, param: &Param) -> Arc<ParamKey> {
        let same = |key: &&Arc<ParamKey>| key.name == param.name && key.dist == param.dist;
        if let Some(key) = self.param_keys.iter().rev().find(same) {
            return Arc::clone(key);
        }
        let key = Arc::new(ParamKey {
            name: param.name.clone(),
            dist: param.dist.clone(),
        });
        // A program whose distributions differ in every trial gains nothing from sharing them.
        if self.param_keys.len() >= 256 {
            self.param_keys.clear();
        }
        self.param_keys.push(Arc::clone(&key));
        key
    }
}

fn at<T>(items: &[T], id: u64) -> Option<&T> {
    usize::try_from(id).ok().and_then(|at| items.get(at))
}

fn check_identity(what: &'static str, expected: u64, found: u64) -> Applied {
    if expected == found {
        Ok(())
    } else {
        Err(Refusal::WrongIdentity {
            what,
            expected,
            found,
        })
    }
}

fn check_key(key: &str) -> Applied {
    if key.starts_with(RESERVED_PREFIX) {
        return Err(Refusal::ReservedKey(key.to_owned()));
    }
    Ok(())
}

/// A blob that is written with a trial must belong to that trial.
fn check_scope(trial: TrialId, scope: StateScope) -> Applied {
    if scope.trial() == Some(trial) {
        Ok(())
    } else {
        Err(Refusal::WrongScope(scope))
    }
}

fn check_blob(trial: TrialId, blob: Option<&ScopedBlob>) -> Applied {
    blob.map_or(Ok(()), |blob| check_scope(trial, blob.scope))
}

/// Checks a batch of parameters against the trial and their distributions.
fn check_params(trial: &Trial, params: &[Param]) -> Applied {
    check_params_beside(&trial.params, params)
}

/// Checks the parameters of a trial that has none yet.
pub(crate) fn check_new_params(params: &[Param]) -> Applied {
    check_params_beside(&[], params)
}

fn check_params_beside(present: &[TrialParam], params: &[Param]) -> Applied {
    // Looking through a list is fast for few names, and hopeless for as many as a record can hold.
    let mut names = HashSet::new();
    let is_long = params.len() > 16;
    if is_long {
        names.extend(present.iter().map(|present| present.key.name.as_str()));
    }
    for (at, param) in params.iter().enumerate() {
        let name = param.name.as_str();
        let earlier = params.get(..at).unwrap_or_default();
        let is_new = if is_long {
            names.insert(name)
        } else {
            present.iter().all(|p| p.key.name != name) && earlier.iter().all(|p| p.name != name)
        };
        if !is_new {
            return Err(Refusal::ParamTaken(param.name.clone()));
        }
        param
            .dist
            .check()
            .and_then(|()| param.dist.check_value(&param.value))
            .map_err(|fault| Refusal::BadParam {
                name: param.name.clone(),
                fault,
            })?;
    }
    Ok(())
}
