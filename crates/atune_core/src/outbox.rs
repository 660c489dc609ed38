//! What must still happen after a trial ended: the outbox.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::space::ParamValue;
use crate::trial::TrialId;

/// Names one ending of one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutboxKey {
    /// The trial that ended.
    pub trial: TrialId,
    /// The ownership epoch in which it ended.
    pub epoch: u64,
}

/// Names one effect of one ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectKey {
    /// The trial that ended.
    pub trial: TrialId,
    /// The ownership epoch in which it ended.
    pub epoch: u64,
    /// The effect's place in the outbox, from 0.
    pub index: u64,
}

impl EffectKey {
    /// The outbox that holds the effect.
    pub fn outbox(self) -> OutboxKey {
        OutboxKey {
            trial: self.trial,
            epoch: self.epoch,
        }
    }
}

/// What must run after a trial ended, decided with the ending itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// Whether the sampler wants to see the ending.
    pub sampler: bool,
    /// Whether the scheduler wants to see it.
    pub scheduler: bool,
    /// Callbacks to run, by name.
    pub callbacks: Vec<String>,
}

/// How far an outbox has come. Only forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// The sampler has not seen the ending yet.
    Sampler,
    /// The scheduler is next.
    Scheduler,
    /// Effects are being executed.
    Effects,
    /// Nothing is left to do.
    Done,
}

/// Something to do outside the store, at most once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Effect {
    /// Call back.
    Callback {
        /// The callback's name.
        name: String,
        /// What it is told.
        #[serde(deserialize_with = "crate::portable::value")]
        payload: Value,
    },
    /// Try the failed trial again. With braces: for a plain variant, members that are unknown would be ignored.
    Retry {},
    /// Go on with the parameters of a better trial.
    Exploit {
        /// The better trial.
        source: TrialId,
        /// The parameters to go on with.
        #[serde(deserialize_with = "crate::portable::by_name")]
        params: BTreeMap<String, ParamValue>,
    },
    /// Start no further trials.
    StopStudy {
        /// Why.
        reason: String,
    },
}

/// Which attempt a trial is, and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// This one, from 1.
    pub number: u32,
    /// The most there may be.
    pub max: u32,
}
