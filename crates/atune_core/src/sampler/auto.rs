//! The sampler that fits the study, chosen anew for each trial from what is known of it.

use serde_json::{Value, json};

use super::gp::GpSampler;
use super::qmc::QmcSampler;
use super::tpe::TpeSampler;
use super::{JointSpace, Result, Sampler, SamplerView};
use crate::replica::Trial;
use crate::space::{Distribution, ParamValue};

/// The name of [`AutoSampler`].
pub(super) const KIND: &str = "auto";

/// Trials that fill the space evenly before any model is made.
const STARTUP_TRIALS: usize = 10;
/// Trials up to which a Gaussian process is asked: from there on its thinking takes longer than many an
/// objective, and the others have caught up.
const GP_TRIALS: usize = 300;
/// Parameters up to which it is asked.
const GP_PARAMS: usize = 30;

/// Picks a sampler for each trial: evenly spread points at first; then a Gaussian process while there is one
/// objective, few parameters and few trials, most of them complete; and otherwise the tree-structured Parzen
/// estimator. What it picks follows from the study alone, and [`Sampler::chosen`] says it.
#[derive(Debug, Default)]
pub struct AutoSampler {
    gp: GpSampler,
    qmc: QmcSampler,
    tpe: TpeSampler,
}

impl AutoSampler {
    /// Whether a Gaussian process makes the most of what there is.
    fn is_for_gp(view: &SamplerView<'_>) -> bool {
        let history = view.history;
        let complete = history.with_values().len();
        // It looks at complete trials only.
        let are_most = 2 * complete >= history.finished_count();
        view.config.directions.len() == 1
            && (STARTUP_TRIALS..GP_TRIALS).contains(&complete)
            && are_most
            && history.columns().len() <= GP_PARAMS
    }

    /// What fits, and why.
    fn pick(&self, view: &SamplerView<'_>) -> (&dyn Sampler, &'static str) {
        if view.history.finished_count() < STARTUP_TRIALS {
            return (
                &self.qmc,
                "until 10 trials have ended, points are spread evenly",
            );
        }
        if Self::is_for_gp(view) {
            return (
                &self.gp,
                "it makes the most of few trials of one objective with few parameters",
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

    fn wants_endings(&self) -> bool {
        true
    }

    fn after_trial(&self, view: &SamplerView<'_>, ended: &Trial) -> Option<Value> {
        // The state is that of the Gaussian process, the only one here that keeps any.
        Self::is_for_gp(view)
            .then(|| self.gp.after_trial(view, ended))
            .flatten()
    }

    fn chosen(&self, view: &SamplerView<'_>) -> Option<String> {
        let (sampler, why) = self.pick(view);
        Some(format!("{}: {why}", sampler.kind()))
    }
}
