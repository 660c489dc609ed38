//! Studies to try things on.

use std::sync::Arc;

use atune_core::sampler::Sampler;
use atune_core::study::{Study, StudyOptions};
use atune_core::trial::{Direction, ResourceUnit, StudyConfig};

/// A configuration with this many objectives, all to be minimised.
pub(crate) fn config(name: &str, objectives: usize, seed: u64) -> StudyConfig {
    StudyConfig {
        name: name.to_owned(),
        directions: vec![Direction::Minimize; objectives],
        seed,
        space: None,
        resource_unit: ResourceUnit::Steps,
        metric_names: Vec::new(),
    }
}

/// Options with a sampler.
pub(crate) fn sampled_by(sampler: impl Sampler + 'static) -> StudyOptions {
    StudyOptions {
        sampler: Some(Arc::new(sampler)),
        ..StudyOptions::default()
    }
}

/// A study in memory.
pub(crate) fn in_memory(sampler: impl Sampler + 'static, seed: u64) -> Study {
    Study::create_in_memory(&config("demo", 1, seed), sampled_by(sampler)).unwrap()
}
