//! What a replica knows, as readers see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::values::Values;
use crate::outbox::{Attempt, Effect, Intent, Phase};
use crate::space::{Distribution, ParamValue, Template};
use crate::trial::{StateBlob, StateScope, StudyConfig, StudyId, TrialId, TrialState, WorkerId};

/// One study.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Its identity.
    pub id: StudyId,
    /// What it is about.
    pub config: StudyConfig,
    /// Its trials, by number.
    pub trials: Vec<TrialId>,
    /// What users attached to it.
    pub user_attrs: BTreeMap<String, Value>,
    /// Trials that do not count against a budget: abandoned before anybody started them, or retries,
    /// which stand for the trial that they retry.
    pub(super) uncounted: u64,
    pub(super) param_keys: Vec<Arc<ParamKey>>,
}

/// A parameter's name and distribution, stored once for all trials that have them.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamKey {
    /// The parameter's name.
    pub name: String,
    /// Where its values come from.
    pub dist: Distribution,
}

/// A parameter of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialParam {
    /// Name and distribution.
    pub key: Arc<ParamKey>,
    /// The value.
    pub value: ParamValue,
}

/// An intermediate value of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialReport {
    /// The step, in the study's resource unit.
    pub step: u64,
    /// One value per direction.
    pub values: Values,
}

/// One trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Its identity.
    pub id: TrialId,
    /// Its study.
    pub study: StudyId,
    /// Its ordinal within the study.
    pub number: u64,
    /// Where it is in its life.
    pub state: TrialState,
    /// Whether the lifecycle manages it.
    pub managed: bool,
    /// Its parameters, in the order they were set.
    pub params: Vec<TrialParam>,
    /// Its intermediate values, in the order they were reported.
    pub reports: Vec<TrialReport>,
    /// Its final values.
    pub values: Option<Values>,
    /// Who owns it now.
    pub owner: Option<WorkerId>,
    /// How often ownership changed.
    pub epoch: u64,
    /// The last heartbeat, as its owner gave it.
    pub heartbeat_millis: Option<u64>,
    /// Counts heartbeats over all epochs.
    pub heartbeat_seq: u64,
    /// When it was created, started and ended, by the clock of whoever wrote that.
    pub times: TrialTimes,
    pub(super) rare: Option<Box<Rare>>,
}

/// When things happened to a trial, Unix milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrialTimes {
    /// It was created.
    pub created: u64,
    /// It was started, for the first time.
    pub started: Option<u64>,
    /// It ended.
    pub ended: Option<u64>,
}

/// What most trials do not have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rare {
    pub(super) template: Option<Template>,
    pub(super) error: Option<String>,
    pub(super) user_attrs: BTreeMap<String, Value>,
    pub(super) attempt: Option<Attempt>,
    pub(super) retry_of: Option<TrialId>,
    pub(super) is_abandoned: bool,
}

impl Trial {
    /// What it was created from, if anything.
    pub fn template(&self) -> Option<&Template> {
        self.rare.as_ref().and_then(|rare| rare.template.as_ref())
    }

    /// What went wrong, if something did.
    pub fn error(&self) -> Option<&str> {
        self.rare.as_ref().and_then(|rare| rare.error.as_deref())
    }

    /// What users attached to it.
    pub fn user_attrs(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.rare
            .iter()
            .flat_map(|rare| rare.user_attrs.iter().map(|(k, v)| (k.as_str(), v)))
    }

    /// Which attempt it is, when it replaces another trial.
    pub fn attempt(&self) -> Option<Attempt> {
        self.rare.as_ref().and_then(|rare| rare.attempt)
    }

    /// The failed trial that it retries.
    pub fn retry_of(&self) -> Option<TrialId> {
        self.rare.as_ref().and_then(|rare| rare.retry_of)
    }

    /// Whether it was reserved and given up before anybody started it.
    pub fn is_abandoned(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.is_abandoned)
    }

    /// The parameter of this name.
    pub fn param(&self, name: &str) -> Option<&TrialParam> {
        self.params.iter().find(|param| param.key.name == name)
    }

    pub(super) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

/// What must still happen after one ending of one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Outbox {
    /// What was decided with the ending.
    pub intent: Intent,
    /// How far it has come.
    pub phase: Phase,
    /// What is to be done, and whether it was.
    pub effects: Vec<OutboxEffect>,
}

/// An effect and whether it was acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxEffect {
    /// What is to be done.
    pub effect: Effect,
    /// Whether it was.
    pub is_complete: bool,
}

impl Outbox {
    /// Effects that nobody acknowledged yet, with their places.
    pub fn open_effects(&self) -> impl Iterator<Item = (u64, &Effect)> {
        let numbered = (0u64..).zip(&self.effects);
        numbered
            .filter(|(_, e)| !e.is_complete)
            .map(|(index, e)| (index, &e.effect))
    }
}

/// State blobs by their scope.
pub type States = BTreeMap<StateScope, StateBlob>;
