//! Schedulers: which trials go on.
//!
//! A scheduler is pure, as a sampler is: what it decides follows from the [`SchedulerView`] alone. What it
//! must remember goes through [`Scheduler::after_trial`] into a state blob of the study.
//!
//! All of them compare trials by the one objective of a study. In a study of several objectives no trial is
//! behind another, and every one goes on.

mod curve;
mod halving;
mod hyperband;
mod patient;
mod percentile;
mod population;
mod registry;
#[cfg(test)]
mod testing;
mod threshold;
mod wilcoxon;

use std::fmt::Debug;

use serde::Serialize;
use serde_json::Value;

pub use halving::AshaScheduler;
pub use hyperband::HyperbandScheduler;
pub use patient::PatientScheduler;
pub use percentile::{Looking, MedianScheduler, PercentileScheduler};
pub use population::PopulationScheduler;
pub use registry::{SCHEDULER_KINDS, SchedulerError, by_kind};
pub use threshold::ThresholdScheduler;
pub use wilcoxon::WilcoxonScheduler;

use crate::outbox::Effect;
use crate::replica::{Trial, Values};
use crate::rng::KeyedRng;
use crate::study::History;
use crate::trial::StudyConfig;

/// Decides whether a trial goes on.
pub trait Scheduler: Send + Sync + Debug {
    /// Its name, as the study records it.
    fn kind(&self) -> &'static str;

    /// Its options, as the study records them: every one that has a part in decisions, defaults too.
    fn options(&self) -> Value;

    /// Decides after a report. It is asked by the trial itself, as often as this likes.
    fn decide(&self, view: &SchedulerView<'_>) -> Decision;

    /// Whether [`after_trial`](Self::after_trial) is to be called, which costs a record per trial.
    fn wants_endings(&self) -> bool {
        false
    }

    /// Is shown a trial that ended, and answers the state that replaces its present one, and what is to be
    /// done. May be called more than once for an ending, but only one answer counts. `view.number` is that of
    /// the ended trial.
    fn after_trial(&self, _view: &SchedulerView<'_>, _ended: &Trial) -> SchedulerAnswer {
        SchedulerAnswer::default()
    }
}

/// What becomes of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It goes on.
    Continue,
    /// It ends early.
    Prune,
}

/// What a scheduler answers to an ending.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulerAnswer {
    /// The state that replaces its present one.
    pub state: Option<Value>,
    /// What is to be done.
    pub effects: Vec<Effect>,
}

/// All that a scheduler may look at.
#[derive(Debug)]
pub struct SchedulerView<'a> {
    /// The study: directions, seed, what the steps count.
    pub config: &'a StudyConfig,
    /// The number of the trial that asks.
    pub number: u64,
    /// The trials of the study. What the asking trial reported last may be missing: see `reports`.
    pub history: &'a History,
    /// What the asking trial reported, in the order it did. A step may stand twice; the later one counts.
    pub reports: &'a [(u64, Values)],
    /// What [`Scheduler::after_trial`] left behind last.
    pub state: Option<&'a Value>,
    /// How many trials the study is to have, if whoever runs it said so.
    pub budget: Option<u64>,
}

impl SchedulerView<'_> {
    /// Random numbers for a purpose.
    pub fn rng(&self, purpose: &str) -> KeyedRng {
        // Not those of a parameter of this name.
        KeyedRng::new(
            self.config.seed,
            self.number,
            &format!("scheduler/{purpose}"),
        )
    }
}

/// Lets every trial end by itself.
#[derive(Clone, Debug, Default)]
pub struct NoScheduler;

impl Scheduler for NoScheduler {
    fn kind(&self) -> &'static str {
        "none"
    }

    fn options(&self) -> Value {
        Value::Object(serde_json::Map::new())
    }

    fn decide(&self, _view: &SchedulerView<'_>) -> Decision {
        Decision::Continue
    }
}

/// Options as the study records them.
fn options_of(scheduler: &impl Serialize) -> Value {
    // Numbers and structures of them: writing them to memory cannot fail.
    serde_json::to_value(scheduler).unwrap_or_default()
}
