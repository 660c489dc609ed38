//! Points that fill the space more evenly than random ones.

use serde_json::{Value, json};

use super::{JointSpace, Result, Sampler, SamplerView};
use crate::space::{Distribution, ParamValue};

/// The name of [`QmcSampler`].
pub(super) const KIND: &str = "qmc";

/// How many points and dimensions the sequence has under one seed.
const POINTS: u64 = 1 << 16;
const DIMENSIONS: u64 = 256;

/// Owen-scrambled points of the Sobol sequence. The trial's number is the point, and the parameter that it
/// asks for as its n-th is the n-th dimension: which worker runs it does not matter. Most even after a power
/// of two of trials.
#[derive(Clone, Debug, Default)]
pub struct QmcSampler;

impl Sampler for QmcSampler {
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
        let draw = |(nth, key): (u64, &std::sync::Arc<crate::replica::ParamKey>)| {
            key.dist.at_unit(place(view, nth, &key.name))
        };
        Ok((0..).zip(space.params()).map(draw).collect())
    }

    fn sample_single(
        &self,
        view: &SamplerView<'_>,
        name: &str,
        dist: &Distribution,
    ) -> Result<ParamValue> {
        Ok(dist.at_unit(place(view, view.asked_count as u64, name)))
    }
}

/// The place of a trial in one dimension of the unit cube.
fn place(view: &SamplerView<'_>, dimension: u64, name: &str) -> f64 {
    // Beyond its points and dimensions the sequence goes on under other seeds.
    let seed = view.config.seed
        ^ (view.number / POINTS).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (dimension / DIMENSIONS).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    let low = |number: u64| u32::try_from(number & 0xffff_ffff).unwrap_or_default();
    let seed = low(seed ^ (seed >> 32));
    let (point, dimension) = (low(view.number % POINTS), low(dimension % DIMENSIONS));
    let place = f64::from(sobol_burley::sample(point, dimension, seed));
    // The sequence has 24 bits; those below are random.
    place + view.rng(name).unit() / f64::from(1u32 << 24)
}
