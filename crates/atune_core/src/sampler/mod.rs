//! Samplers: where the next trial looks.
//!
//! A sampler is pure: what it answers follows from the [`SamplerView`] alone, whose random numbers are
//! keyed by the study's seed, the trial's number and a purpose. What it must remember beyond the trials
//! themselves goes through [`Sampler::after_trial`] into a state blob of the study, so that any process can
//! go on where another stopped. Caches are allowed as long as nobody can tell.

mod auto;
mod brute_force;
mod cma_es;
mod error;
mod gp;
mod grid;
mod intake;
mod joint;
mod nsga;
mod partial_fixed;
mod qmc;
mod random;
mod registry;
mod tpe;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

pub use auto::AutoSampler;
pub use brute_force::BruteForceSampler;
pub use cma_es::{CmaEsOptions, CmaEsSampler, Restarts};
pub use error::SamplerError;
pub use gp::{GpOptions, GpSampler};
pub use grid::{GridOptions, GridSampler};
pub use joint::JointSpace;
pub use nsga::{Nsga, NsgaOptions, NsgaSampler};
pub use partial_fixed::PartialFixedSampler;
pub use qmc::QmcSampler;
pub use random::RandomSampler;
pub use registry::{SAMPLER_KINDS, by_kind};
pub use tpe::{TpeOptions, TpeSampler};

use crate::replica::{ParamKey, Trial};
use crate::rng::KeyedRng;
use crate::space::{Distribution, ParamValue};
use crate::study::History;
use crate::trial::StudyConfig;

/// A result of a sampler.
pub type Result<T> = std::result::Result<T, SamplerError>;

/// Chooses parameters.
pub trait Sampler: Send + Sync + Debug {
    /// Its name, as [`by_kind`] takes it and as the study records it.
    fn kind(&self) -> &'static str;

    /// Its options, as [`by_kind`] takes them and as the study records them: every one that has a part in
    /// what is suggested, defaults too.
    fn options(&self) -> Value;

    /// The parameters that are drawn together when the trial asks for its first one. Of these, the fixed
    /// ones are taken out before [`sample_joint`](Self::sample_joint) is called.
    fn joint_space(&self, view: &SamplerView<'_>) -> JointSpace;

    /// Draws values for all parameters of `space`, in its order.
    ///
    /// # Errors
    /// Why nothing could be drawn; the trial fails with it.
    fn sample_joint(&self, view: &SamplerView<'_>, space: &JointSpace) -> Result<Vec<ParamValue>>;

    /// Draws a value for a parameter that was not drawn jointly, or whose distribution is another one now.
    ///
    /// # Errors
    /// As [`sample_joint`](Self::sample_joint).
    fn sample_single(
        &self,
        view: &SamplerView<'_>,
        name: &str,
        dist: &Distribution,
    ) -> Result<ParamValue>;

    /// How many trials there can be at most, those that count against a budget; `None` for any number. It
    /// is asked before each new trial, with the number that this would have.
    fn trials_max(&self, _view: &SamplerView<'_>) -> Option<u64> {
        None
    }

    /// Whether [`after_trial`](Self::after_trial) is to be called, which costs a record per trial.
    fn wants_endings(&self) -> bool {
        false
    }

    /// Is shown a trial that ended, and answers the state that replaces its present one. May be called more
    /// than once for an ending, but only one answer counts. `view.number` is that of the ended trial.
    fn after_trial(&self, _view: &SamplerView<'_>, _ended: &Trial) -> Option<Value> {
        None
    }

    /// For a sampler that picks among others: which one it would pick for this trial, and why.
    fn chosen(&self, _view: &SamplerView<'_>) -> Option<String> {
        None
    }
}

/// All that a sampler may look at.
#[derive(Debug)]
pub struct SamplerView<'a> {
    /// The study: directions, seed, declared space.
    pub config: &'a StudyConfig,
    /// The number of the trial that asks.
    pub number: u64,
    /// The trials of the study, the asking one included.
    pub history: &'a History,
    /// What [`Sampler::after_trial`] left behind last.
    pub state: Option<&'a Value>,
    /// Parameters that the trial has already, or that are fixed for it.
    pub set: &'a BTreeMap<String, ParamValue>,
    /// How many parameters the trial asked for before this one.
    pub asked_count: usize,
    /// How many trials the study is to have, if whoever runs it said so.
    pub budget: Option<u64>,
}

impl SamplerView<'_> {
    /// Random numbers for a purpose: the name of a parameter, or of a group of them.
    pub fn rng(&self, purpose: &str) -> KeyedRng {
        KeyedRng::new(self.config.seed, self.number, purpose)
    }

    /// Numbers of other trials that are running or paused.
    pub fn pending(&self) -> impl Iterator<Item = u64> {
        self.history
            .active()
            .filter(|number| *number != self.number)
    }

    /// The declared space of the study, or else what all ended trials have in common.
    pub fn common_space(&self) -> JointSpace {
        match &self.config.space {
            Some(space) => JointSpace::new(space.iter().map(|entry| {
                Arc::new(ParamKey {
                    name: entry.name.clone(),
                    dist: entry.dist.clone(),
                })
            })),
            None => JointSpace::new(self.history.common_params()),
        }
    }
}
