//! The nouns of a study: ids, states, configuration, and what belongs to them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::space::Distribution;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A study of a store: 0, 1, 2 … in the order of their creation.
    StudyId
}
id! {
    /// A trial of a store, over all its studies: 0, 1, 2 … in the order of their creation.
    TrialId
}
id! {
    /// A worker: a small number that tells writers apart.
    WorkerId
}

/// Where a trial is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TrialState {
    /// Created, not started.
    Waiting,
    /// A worker is at it.
    Running,
    /// Set aside by its worker; another may go on with it.
    Paused,
    /// Ended with values.
    Complete,
    /// Ended early because it did not look promising.
    Pruned,
    /// Ended with an error.
    Failed,
}

impl TrialState {
    /// True for the states that a trial never leaves.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Pruned | Self::Failed)
    }
}

/// Which way an objective gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// Smaller is better.
    Minimize,
    /// Larger is better.
    Maximize,
}

/// What the steps of a study's reports count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ResourceUnit {
    /// Optimiser steps.
    Steps,
    /// Passes over the data.
    Epochs,
    /// Time.
    Seconds,
    /// Examples seen.
    Samples,
}

/// A parameter of a study whose space is known beforehand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpaceEntry {
    /// The parameter's name.
    pub name: String,
    /// Where its values come from.
    pub dist: Distribution,
}

/// What a study is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyConfig {
    /// Its name, unique within the store.
    pub name: String,
    /// One per objective.
    pub directions: Vec<Direction>,
    /// Where its random numbers start from.
    pub seed: u64,
    /// Its parameters, when they are known beforehand.
    pub space: Option<Vec<SpaceEntry>>,
    /// What the steps of reports count.
    pub resource_unit: ResourceUnit,
    /// Names of the objectives, one per direction, or none.
    pub metric_names: Vec<String>,
}

/// What a state blob belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StateScope {
    /// A study's sampler.
    Sampler(StudyId),
    /// A study's scheduler.
    Scheduler(StudyId),
    /// What the sampler keeps of a trial.
    TrialSampler(TrialId),
    /// What the scheduler keeps of a trial.
    TrialScheduler(TrialId),
    /// What the objective keeps of a trial.
    TrialUser(TrialId),
}

impl StateScope {
    /// The trial that owns it, if a trial does.
    pub fn trial(self) -> Option<TrialId> {
        match self {
            Self::Sampler(_) | Self::Scheduler(_) => None,
            Self::TrialSampler(trial) | Self::TrialScheduler(trial) | Self::TrialUser(trial) => {
                Some(trial)
            }
        }
    }
}

/// State that a component keeps in the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateBlob {
    /// Whose it is, e.g. `tpe`.
    pub kind: String,
    /// The version of its encoding.
    pub version: u32,
    /// The state.
    #[serde(deserialize_with = "crate::portable::value")]
    pub data: Value,
}

/// A blob with its scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScopedBlob {
    /// What it belongs to.
    pub scope: StateScope,
    /// The blob.
    pub blob: StateBlob,
}
