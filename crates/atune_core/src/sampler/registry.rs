//! Samplers by their names.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Result, Sampler, SamplerError, auto, brute_force, cma_es, gp, grid, nsga, partial_fixed, qmc,
    random, tpe,
};

/// Makes a sampler of its options.
type Make = fn(&Value) -> Result<Arc<dyn Sampler>>;

/// Every sampler: its name, and how it is made.
const SAMPLERS: &[(&str, Make)] = &[
    (auto::KIND, |options| {
        no_options(auto::KIND, options)?;
        Ok(Arc::new(auto::AutoSampler::default()))
    }),
    (brute_force::KIND, |options| {
        no_options(brute_force::KIND, options)?;
        Ok(Arc::new(brute_force::BruteForceSampler))
    }),
    (grid::KIND, grid::GridSampler::of),
    (partial_fixed::KIND, partial_fixed::PartialFixedSampler::of),
    (qmc::KIND, |options| {
        no_options(qmc::KIND, options)?;
        Ok(Arc::new(qmc::QmcSampler))
    }),
    (cma_es::KIND, |given| {
        let options = options(cma_es::KIND, given)?;
        Ok(Arc::new(cma_es::CmaEsSampler::new(options)?))
    }),
    (gp::KIND, |given| {
        Ok(Arc::new(gp::GpSampler::new(options(gp::KIND, given)?)))
    }),
    (nsga::KIND_2, |given| {
        let options = options(nsga::KIND_2, given)?;
        Ok(Arc::new(nsga::NsgaSampler::new(nsga::Nsga::Two, options)?))
    }),
    (nsga::KIND_3, |given| {
        let options = options(nsga::KIND_3, given)?;
        Ok(Arc::new(nsga::NsgaSampler::new(
            nsga::Nsga::Three,
            options,
        )?))
    }),
    (random::KIND, |options| {
        no_options(random::KIND, options)?;
        Ok(Arc::new(random::RandomSampler))
    }),
    (tpe::KIND, tpe::TpeSampler::of),
];

/// The names of all samplers.
#[expect(
    clippy::indexing_slicing,
    reason = "within the length of both, which the compiler checks here"
)]
pub const SAMPLER_KINDS: [&str; SAMPLERS.len()] = {
    let mut kinds = [""; SAMPLERS.len()];
    let mut at = 0;
    while at < SAMPLERS.len() {
        kinds[at] = SAMPLERS[at].0;
        at += 1;
    }
    kinds
};

/// The sampler of this name with these options: an object, of which each member may be missing, or `null`.
///
/// # Errors
/// [`SamplerError::UnknownKind`] and [`SamplerError::BadOptions`].
pub fn by_kind(kind: &str, options: &Value) -> Result<Arc<dyn Sampler>> {
    match SAMPLERS.iter().find(|(name, _)| *name == kind) {
        Some((_, make)) => make(options),
        None => Err(SamplerError::UnknownKind {
            kind: kind.to_owned(),
            known: SAMPLER_KINDS.to_vec(),
        }),
    }
}

/// The options of a sampler, its defaults where they are `null`.
pub(super) fn options<T: DeserializeOwned + Default>(
    kind: &'static str,
    options: &Value,
) -> Result<T> {
    if options.is_null() {
        return Ok(T::default());
    }
    serde_json::from_value(options.clone())
        .map_err(|source| SamplerError::BadOptions { kind, source })
}

/// Refuses options where there are none.
fn no_options(kind: &'static str, given: &Value) -> Result<()> {
    #[derive(Default, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct None {}
    options::<None>(kind, given).map(drop)
}
