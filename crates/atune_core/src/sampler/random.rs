//! Every value alike, each parameter for itself.

use serde_json::{Value, json};

use super::{JointSpace, Result, Sampler, SamplerView};
use crate::rng::KeyedRng;
use crate::space::{Distribution, ParamValue};

/// Draws every parameter evenly over its distribution. Which worker runs a trial, and when, does not matter.
#[derive(Clone, Debug, Default)]
pub struct RandomSampler;

/// The name of [`RandomSampler`].
pub(super) const KIND: &str = "random";

impl Sampler for RandomSampler {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn options(&self) -> Value {
        json!({})
    }

    fn joint_space(&self, _view: &SamplerView<'_>) -> JointSpace {
        JointSpace::empty()
    }

    fn sample_joint(&self, view: &SamplerView<'_>, space: &JointSpace) -> Result<Vec<ParamValue>> {
        let draw = |key: &std::sync::Arc<crate::replica::ParamKey>| {
            self.sample_single(view, &key.name, &key.dist)
        };
        space.params().iter().map(draw).collect()
    }

    fn sample_single(
        &self,
        view: &SamplerView<'_>,
        name: &str,
        dist: &Distribution,
    ) -> Result<ParamValue> {
        Ok(draw(dist, &mut view.rng(name)))
    }
}

/// A value of a distribution, drawn evenly.
pub(super) fn draw(dist: &Distribution, rng: &mut KeyedRng) -> ParamValue {
    match dist.value_count() {
        Some(count) if !dist.is_log() => dist.value_at(rng.below(count)),
        _ => dist.at_unit(rng.unit()),
    }
}
