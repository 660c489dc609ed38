//! Bayesian optimisation with a Gaussian process.
//!
//! A process with a Matérn 5/2 kernel, one length scale per parameter, is fitted to all complete trials;
//! the next point is where the logarithm of the expected improvement, plus that of the probability that
//! every constraint holds, is highest. Trials that run are taken in as if they gave what is expected of
//! them. Parameters of conditional spaces are absent where a trial does not have them: see [`kernel`] for
//! what that means to the model, and [`search`] for how it proposes only what goes together.
//!
//! The kernels' parameters are fitted when trials end and kept in the study's state, so that a resumed study
//! goes on exactly. They are fitted to at most 200 trials; the model itself is exact up to
//! `exact_trials` trials, and beyond that made of the newest, the better half and an even share
//! of the others.

mod acquisition;
mod factor;
mod fit;
mod kernel;
mod lbfgs;
mod model;
mod observed;
mod propose;
mod search;

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::propose::{Cache, Kernels};
use super::{JointSpace, Result, Sampler, SamplerView, random};
use crate::replica::Trial;
use crate::space::{Distribution, ParamValue};

/// The name of [`GpSampler`].
pub(super) const KIND: &str = "gp";

/// What a [`GpSampler`] can be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GpOptions {
    /// How many trials must be complete before the process is asked; until then points are random.
    pub startup_trials: usize,
    /// The largest number of trials that the model is made of exactly; at least 100 are used.
    pub exact_trials: usize,
}

impl Default for GpOptions {
    fn default() -> Self {
        Self {
            startup_trials: 10,
            exact_trials: 1000,
        }
    }
}

/// Proposes where a Gaussian process expects the most: for expensive objectives with up to about twenty
/// parameters and a thousand trials.
///
/// Of several objectives each trial improves a weighted maximum, with weights of its own.
#[derive(Debug, Default)]
pub struct GpSampler {
    options: GpOptions,
    cache: Mutex<Cache>,
}

impl GpSampler {
    /// A sampler with these options.
    pub fn new(options: GpOptions) -> Self {
        Self {
            options,
            cache: Mutex::default(),
        }
    }

    fn is_ready(&self, trials: usize) -> bool {
        trials >= self.options.startup_trials.max(2)
    }
}

/// What the study keeps: the kernels, and the parameters whose they are.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    params: Vec<String>,
    kernels: Kernels,
}

impl State {
    /// The kernels that the study keeps, if they are those of this space.
    fn kernels(view: &SamplerView<'_>, space: &JointSpace) -> Option<Kernels> {
        let state: Self = serde_json::from_value(view.state?.clone()).ok()?;
        let names = space.params().iter().map(|key| &key.name);
        names.eq(&state.params).then_some(state.kernels)
    }
}

impl Sampler for GpSampler {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn options(&self) -> Value {
        serde_json::to_value(&self.options).unwrap_or_default()
    }

    fn joint_space(&self, view: &SamplerView<'_>) -> JointSpace {
        if self.is_ready(view.history.with_values().len()) {
            observed::space(view)
        } else {
            JointSpace::empty()
        }
    }

    fn sample_joint(&self, view: &SamplerView<'_>, space: &JointSpace) -> Result<Vec<ParamValue>> {
        // The fixed parameters too: the model knows them.
        let whole = observed::space(view);
        let mut rng = view.rng("gp");
        let task = observed::task(view, &whole, &mut rng);
        let kernels = if view.history.directions().len() > 1 {
            Kernels::fit(&task, None)
        } else {
            State::kernels(view, &whole).or_else(|| Kernels::fit(&task, None))
        };
        let lock = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cache = std::mem::take(&mut *lock());
        let exact = self.options.exact_trials.max(100);
        let point = kernels.and_then(|k| task.propose(&k, exact, &mut cache, &mut rng));
        *lock() = cache;
        let params = space.params().iter();
        params
            .map(|key| {
                let place = whole
                    .place(&key.name)
                    .and_then(|at| point.as_ref()?.get(at));
                match place {
                    Some(place) if !place.is_nan() => Ok(key.dist.at_unit(*place)),
                    // Not expected to be asked for.
                    _ => self.sample_single(view, &key.name, &key.dist),
                }
            })
            .collect()
    }

    fn sample_single(
        &self,
        view: &SamplerView<'_>,
        name: &str,
        dist: &Distribution,
    ) -> Result<ParamValue> {
        Ok(random::draw(dist, &mut view.rng(name)))
    }

    fn wants_endings(&self) -> bool {
        true
    }

    fn after_trial(&self, view: &SamplerView<'_>, _ended: &Trial) -> Option<Value> {
        // Of several objectives every trial makes another one of its own.
        if view.history.directions().len() > 1 || !self.is_ready(view.history.with_values().len()) {
            return None;
        }
        let space = observed::space(view);
        let earlier = State::kernels(view, &space);
        let trials = view.history.with_values().len();
        if earlier
            .as_ref()
            .is_some_and(|kernels| !kernels.are_due(trials))
        {
            return None;
        }
        let task = observed::task(view, &space, &mut view.rng("gp"));
        let state = State {
            params: space.params().iter().map(|key| key.name.clone()).collect(),
            kernels: Kernels::fit(&task, earlier.as_ref())?,
        };
        serde_json::to_value(state).ok()
    }
}
