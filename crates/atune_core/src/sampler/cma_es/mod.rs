//! CMA-ES: an evolution strategy that learns the shape of the objective.
//!
//! Points are drawn from a normal distribution over the unit cube of the numerical parameters that all trials
//! have; choices and conditional parameters are drawn for themselves. Whenever as many trials have ended as
//! a generation has points, they are ranked as the study ranks them, and the distribution moves: that is
//! the state that the study keeps.
//!
//! A trial's point is drawn from the trial's own random numbers, so it can be drawn again when the trial
//! has ended: what stood before the rounding of whole numbers is not lost, and is not stored. A trial that
//! was drawn from an earlier distribution, by another worker or by hand is taken in by its values, no further
//! from the mean than the distribution itself goes.

mod margin;
mod restarts;
mod strategy;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::restarts::Run;
use self::strategy::{Axes, usual_population};
use super::intake::{Intake, is_ranked};
use super::{JointSpace, Result, Sampler, SamplerError, SamplerView, random};
use crate::replica::{ParamKey, Trial};
use crate::rng::KeyedRng;
use crate::space::{Distribution, ParamValue};
use crate::study::PastTrial;

pub use self::restarts::Restarts;

/// The name of [`CmaEsSampler`].
pub(super) const KIND: &str = "cma-es";

/// What a [`CmaEsSampler`] can be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CmaEsOptions {
    /// The deviation that the first distribution has, as a share of each parameter's range.
    pub sigma: f64,
    /// How many points a generation has: by default a number that grows with the logarithm of the number
    /// of parameters.
    pub population: Option<usize>,
    /// What happens when nothing more is to be expected of a run.
    pub restarts: Restarts,
}

impl Default for CmaEsOptions {
    fn default() -> Self {
        Self {
            sigma: 0.13,
            population: None,
            restarts: Restarts::Ipop,
        }
    }
}

/// Adapts a normal distribution to the objective: for numerical parameters, and hundreds of trials or more.
#[derive(Clone, Debug, Default)]
pub struct CmaEsSampler {
    options: CmaEsOptions,
}

impl CmaEsSampler {
    /// A sampler with these options.
    ///
    /// # Errors
    /// [`SamplerError::BadOption`] for a deviation that is not above 0 and at most 10, and a population that
    /// is not from 4 to 4096.
    pub fn new(options: CmaEsOptions) -> Result<Self> {
        let bad = |option, fault: &str| {
            Err(SamplerError::BadOption {
                kind: KIND,
                option,
                fault: fault.to_owned(),
            })
        };
        if !(options.sigma > 0.0 && options.sigma <= 10.0) {
            return bad("sigma", "must be above 0 and at most 10");
        }
        if options
            .population
            .is_some_and(|population| !(4..=4096).contains(&population))
        {
            return bad("population", "must be from 4 to 4096");
        }
        Ok(Self { options })
    }

    /// The parameters whose distribution is adapted.
    fn space(view: &SamplerView<'_>) -> JointSpace {
        let moves = |key: &ParamKey| key.dist.is_numerical() && key.dist.value_count() != Some(1);
        view.common_space().filter(moves)
    }

    /// What the study keeps, or how it begins.
    fn state(&self, view: &SamplerView<'_>, space: &JointSpace) -> State {
        let kept = view
            .state
            .and_then(|state| serde_json::from_value(state.clone()).ok());
        kept.filter(|state: &State| state.is_of(space))
            .unwrap_or_else(|| {
                let usual = usual_population(space.len());
                let population = self.options.population.unwrap_or(usual);
                State {
                    params: space.params().iter().map(|key| key.name.clone()).collect(),
                    run: Run::first(space.len(), self.options.sigma, population),
                    intake: Intake::default(),
                }
            })
    }

    fn refuse_several(view: &SamplerView<'_>) -> Result<()> {
        match view.history.directions().len() {
            1 => Ok(()),
            count => Err(SamplerError::Unfit {
                kind: KIND,
                what: format!("for a study with {count} objectives"),
                fault: "it ranks trials by one value; nsga2, nsga3, gp and tpe take several"
                    .to_owned(),
            }),
        }
    }
}

/// What the study keeps.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    params: Vec<String>,
    run: Run,
    intake: Intake,
}

impl State {
    fn is_of(&self, space: &JointSpace) -> bool {
        let names = space.params().iter().map(|key| &key.name);
        names.eq(&self.params) && self.run.strategy.is_sound(space.len())
    }

    /// Takes a generation in, if there is one.
    fn advance(&mut self, view: &SamplerView<'_>, space: &JointSpace) -> bool {
        let fit = |number: u64, past: &PastTrial| {
            is_ranked(past) && values(view, space, number).is_some()
        };
        let generation = self.run.strategy.population;
        let ranks: HashMap<u64, (usize, f64)> = view
            .history
            .ranking()
            .iter()
            .enumerate()
            .map(|(at, rank)| (rank.number, (at, rank.value)))
            .collect();
        let waiting = self.intake.waiting(view, fit);
        let ranked = waiting.filter_map(|n| ranks.get(&n).map(|(at, v)| (*at, *v, n)));
        let mut members: Vec<(usize, f64, u64)> = ranked.take(generation).collect();
        if members.len() < generation {
            return false;
        }
        members.sort_by_key(|member| member.0);
        let axes = self.run.strategy.axes();
        let points: Vec<Vec<f64>> = members
            .iter()
            .filter_map(|(.., number)| self.point(view, space, &axes, *number))
            .collect();
        let (Some(best), Some(worst)) = (members.first(), members.last()) else {
            return false;
        };
        let dists: Vec<Distribution> = space.params().iter().map(|key| key.dist.clone()).collect();
        self.run
            .strategy
            .update(&axes, &points, (best.1, worst.1), &dists);
        self.intake
            .take(view, members.iter().map(|member| member.2), fit);
        true
    }

    /// The point that a trial was drawn at: the one before rounding, if it was drawn from the present
    /// distribution.
    fn point(
        &self,
        view: &SamplerView<'_>,
        space: &JointSpace,
        axes: &Axes,
        number: u64,
    ) -> Option<Vec<f64>> {
        let values = values(view, space, number)?;
        let drawn = self
            .run
            .strategy
            .draw(axes, &mut rng(view.config.seed, number));
        let keys = space.params().iter();
        let is_its = keys
            .clone()
            .zip(&drawn)
            .zip(&values)
            .all(|((key, place), value)| {
                key.dist.at_unit(*place).as_f64().to_bits() == value.to_bits()
            });
        if is_its {
            return Some(drawn);
        }
        let places = keys
            .zip(&values)
            .map(|(key, value)| key.dist.to_unit(*value))
            .collect();
        Some(self.run.strategy.within_reach(axes, places))
    }
}

/// The values of a trial, if it has all of them.
fn values(view: &SamplerView<'_>, space: &JointSpace, number: u64) -> Option<Vec<f64>> {
    let value = |key: &std::sync::Arc<ParamKey>| view.history.column(&key.name)?.get(number);
    space.params().iter().map(value).collect()
}

/// The random numbers of a trial's point.
fn rng(seed: u64, number: u64) -> KeyedRng {
    KeyedRng::new(seed, number, "cma_es")
}

impl Sampler for CmaEsSampler {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn options(&self) -> Value {
        serde_json::to_value(&self.options).unwrap_or_default()
    }

    fn joint_space(&self, view: &SamplerView<'_>) -> JointSpace {
        Self::space(view)
    }

    fn sample_joint(&self, view: &SamplerView<'_>, space: &JointSpace) -> Result<Vec<ParamValue>> {
        Self::refuse_several(view)?;
        let whole = Self::space(view);
        let strategy = self.state(view, &whole).run.strategy;
        let point = strategy.draw(&strategy.axes(), &mut rng(view.config.seed, view.number));
        let params = space.params().iter();
        params
            .map(
                |key| match whole.place(&key.name).and_then(|at| point.get(at)) {
                    Some(place) => Ok(key.dist.at_unit(*place)),
                    None => self.sample_single(view, &key.name, &key.dist),
                },
            )
            .collect()
    }

    fn sample_single(
        &self,
        view: &SamplerView<'_>,
        name: &str,
        dist: &Distribution,
    ) -> Result<ParamValue> {
        Self::refuse_several(view)?;
        Ok(random::draw(dist, &mut view.rng(name)))
    }

    fn wants_endings(&self) -> bool {
        true
    }

    fn after_trial(&self, view: &SamplerView<'_>, _ended: &Trial) -> Option<Value> {
        let space = Self::space(view);
        if space.is_empty() || view.history.directions().len() != 1 {
            return None;
        }
        let dists: Vec<Distribution> = space.params().iter().map(|key| key.dist.clone()).collect();
        let mut state = self.state(view, &space);
        let mut has_moved = false;
        while state.advance(view, &space) {
            has_moved = true;
            let strategy = &state.run.strategy;
            if strategy.is_spent(&strategy.axes(), &dists) {
                state
                    .run
                    .restart(&self.options, &mut view.rng("cma_es restart"));
            }
        }
        let text = || serde_json::to_value(&state).ok();
        has_moved.then(text).flatten()
    }
}
