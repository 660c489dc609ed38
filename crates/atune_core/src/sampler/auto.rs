//! The sampler that fits the study, chosen anew for each trial from what is known of it.

use serde_json::{Value, json};

use super::qmc::QmcSampler;
use super::tpe::TpeSampler;
use super::{JointSpace, Result, Sampler, SamplerView};
use crate::space::{Distribution, ParamValue};

/// The name of [`AutoSampler`].
pub(super) const KIND: &str = "auto";

/// Trials that fill the space evenly before any model is made.
const STARTUP_TRIALS: usize = 10;

/// Picks a sampler for each trial: evenly spread points at first, then the tree-structured Parzen estimator.
/// What it picks follows from the study alone, and [`Sampler::chosen`] says it.
#[derive(Clone, Debug, Default)]
pub struct AutoSampler {
    qmc: QmcSampler,
    tpe: TpeSampler,
}

impl AutoSampler {
    /// What fits, and why.
    fn pick(&self, view: &SamplerView<'_>) -> (&dyn Sampler, &'static str) {
        if view.history.finished_count() < STARTUP_TRIALS {
            return (
                &self.qmc,
                "until 10 trials have ended, points are spread evenly",
            );
        }
        match view.config.directions.len() {
            1 => (&self.tpe, "it takes any space, and any number of trials"),
            _ => (&self.tpe, "it takes any space with several objectives"),
        }
    }
}

impl Sampler for AutoSampler {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn options(&self) -> Value {
        json!({})
    }

    fn joint_space(&self, view: &SamplerView<'_>) -> JointSpace {
        self.pick(view).0.joint_space(view)
    }

    fn sample_joint(&self, view: &SamplerView<'_>, space: &JointSpace) -> Result<Vec<ParamValue>> {
        self.pick(view).0.sample_joint(view, space)
    }

    fn sample_single(
        &self,
        view: &SamplerView<'_>,
        name: &str,
        dist: &Distribution,
    ) -> Result<ParamValue> {
        self.pick(view).0.sample_single(view, name, dist)
    }

    fn chosen(&self, view: &SamplerView<'_>) -> Option<String> {
        let (sampler, why) = self.pick(view);
        Some(format!("{}: {why}", sampler.kind()))
    }
}
