//! Studies with a sampler by its name.

#![expect(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::sync::Arc;

use atune_core::sampler::by_kind;
use atune_core::space::ParamValue;
use atune_core::storage::{MemoryStorage, Storage};
use atune_core::study::{Result, Study, StudyOptions, Told, Trial};
use atune_core::trial::{Direction, ResourceUnit, StudyConfig, WorkerId};
use serde_json::Value;

/// Options with the sampler of this name.
pub(crate) fn options(kind: &str, sampler: &Value) -> StudyOptions {
    let mut options = StudyOptions {
        sampler: Some(by_kind(kind, sampler).unwrap()),
        ..StudyOptions::default()
    };
    options.worker.threads = false;
    options.worker.gather = std::time::Duration::ZERO;
    options
}

/// A storage in memory that several studies may have open.
pub(crate) fn storage() -> Arc<dyn Storage> {
    let clock = Arc::new(durable::SystemClock::start());
    Arc::new(MemoryStorage::new(clock, WorkerId(0)))
}

/// A configuration with this many objectives, all to be minimised.
pub(crate) fn config(objectives: usize, seed: u64) -> StudyConfig {
    StudyConfig {
        name: "demo".to_owned(),
        directions: vec![Direction::Minimize; objectives],
        seed,
        space: None,
        resource_unit: ResourceUnit::Steps,
        metric_names: Vec::new(),
    }
}

/// A study in memory.
pub(crate) fn study(kind: &str, sampler: &Value, objectives: usize, seed: u64) -> Study {
    Study::create_in_memory(&config(objectives, seed), options(kind, sampler)).unwrap()
}

/// Runs trials of an objective.
pub(crate) fn run(study: &Study, trials: usize, objective: impl Fn(&Trial) -> Result<Vec<f64>>) {
    for _ in 0..trials {
        let trial = study.ask().unwrap();
        let values = objective(&trial).unwrap();
        study.tell(trial, Told::Complete(values)).unwrap();
    }
}

/// The parameters of all trials by name, in the order of their numbers.
pub(crate) fn params(study: &Study) -> Vec<Vec<(String, ParamValue)>> {
    let trials = study.trials().unwrap();
    let of = |trial: &atune_core::replica::Trial| {
        let each = trial.params.iter();
        each.map(|param| (param.key.name.clone(), param.value.clone()))
            .collect()
    };
    trials.iter().map(of).collect()
}

/// The least value of the first objective.
pub(crate) fn least(study: &Study) -> f64 {
    let values = study
        .trials()
        .unwrap()
        .into_iter()
        .filter_map(|trial| trial.values);
    values
        .filter_map(|values| values.first().map(|v| v.0))
        .fold(f64::INFINITY, f64::min)
}
