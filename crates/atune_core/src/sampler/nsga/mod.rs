//! NSGA-II and NSGA-III: genetic search, for several objectives above all.
//!
//! Trials come in generations. Once as many as a population have ended beyond those that the last selection
//! saw, the best of both become the parents of what follows: their numbers are the state that the study
//! keeps. A new trial has two parents, each the better of two drawn at random, and inherits every parameter
//! that they have, one by one as it is asked for, so conditional parameters need no special care. While
//! there are no parents, and for parameters that neither has, values are random.

mod genes;
mod reference;
mod select;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::genes::{Rates, inherit};
use self::reference::Niches;
use self::select::{Member, Thinning, standings, survivors};
use super::intake::Intake;
use super::{JointSpace, Result, Sampler, SamplerError, SamplerView, random};
use crate::replica::Trial;
use crate::space::{Distribution, ParamValue};
use crate::study::PastTrial;
use crate::trial::TrialState;

/// The name of the sampler that keeps a front by crowding.
pub(super) const KIND_2: &str = "nsga2";
/// The name of the sampler that keeps a front along reference directions.
pub(super) const KIND_3: &str = "nsga3";

/// What an [`NsgaSampler`] can be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NsgaOptions {
    /// How many trials a generation has.
    pub population: usize,
    /// The probability that a trial is made of both its parents; otherwise it is the first, mutated.
    pub crossover: f64,
    /// How alike to their parents numbers are after a crossover: the larger, the more.
    pub crossover_eta: f64,
    /// The probability that a parameter mutates: by default one in as many as there are.
    pub mutation: Option<f64>,
    /// How near numbers stay when they mutate: the larger, the nearer.
    pub mutation_eta: f64,
}

impl Default for NsgaOptions {
    fn default() -> Self {
        Self {
            population: 20,
            crossover: 0.9,
            crossover_eta: 2.0,
            mutation: None,
            mutation_eta: 5.0,
        }
    }
}

/// Which of the two algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nsga {
    /// The last front is thinned out by crowding: for two objectives or three, or one.
    Two,
    /// It is thinned out along even directions: for three objectives and more.
    Three,
}

/// Breeds trials from the best so far: for several objectives, and cheap objectives with many trials.
#[derive(Clone, Debug)]
pub struct NsgaSampler {
    which: Nsga,
    options: NsgaOptions,
}

impl NsgaSampler {
    /// A sampler with these options.
    ///
    /// # Errors
    /// [`SamplerError::BadOption`] for a population that is not from 2 to 4096, probabilities that are none,
    /// and etas that are not from 0 to 1000.
    pub fn new(which: Nsga, options: NsgaOptions) -> Result<Self> {
        let sampler = Self { which, options };
        let (options, share) = (&sampler.options, 0.0..=1.0);
        let eta = 0.0..=1000.0;
        let faults = [
            (
                (2..=4096).contains(&options.population),
                "population",
                "must be from 2 to 4096",
            ),
            (
                share.contains(&options.crossover),
                "crossover",
                "must be from 0 to 1",
            ),
            (
                eta.contains(&options.crossover_eta),
                "crossover_eta",
                "must be from 0 to 1000",
            ),
            (
                options.mutation.is_none_or(|p| share.contains(&p)),
                "mutation",
                "must be from 0 to 1",
            ),
            (
                eta.contains(&options.mutation_eta),
                "mutation_eta",
                "must be from 0 to 1000",
            ),
        ];
        match faults.into_iter().find(|(is_good, ..)| !is_good) {
            None => Ok(sampler),
            Some((_, option, fault)) => Err(SamplerError::BadOption {
                kind: sampler.kind(),
                option,
                fault: fault.to_owned(),
            }),
        }
    }

    /// The two parents of a trial, and whether both make it.
    fn parents(&self, view: &SamplerView<'_>, state: &State) -> Option<(u64, u64, bool)> {
        let members: Vec<Member> = state
            .parents
            .iter()
            .filter_map(|number| member(view, *number))
            .collect();
        let standings = standings(&members);
        let mut rng = view.rng(self.kind());
        let mut pick = || {
            let (a, b) = (rng.place(members.len()), rng.place(members.len()));
            let better = match (standings.get(a), standings.get(b)) {
                (Some(first), Some(second)) if second.is_before(first) => b,
                _ => a,
            };
            members.get(better).map(|member| member.number)
        };
        let first = pick()?;
        // Tries to find another one; a population may be of one kind.
        let mut second = pick()?;
        for _ in 0..8 {
            if second == first {
                second = pick()?;
            }
        }
        Some((first, second, rng.unit() < self.options.crossover))
    }
}

/// What the study keeps.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    generation: u64,
    /// The numbers of the trials that children are made of.
    parents: Vec<u64>,
    intake: Intake,
}

impl State {
    fn of(view: &SamplerView<'_>) -> Self {
        let kept = view
            .state
            .and_then(|state| serde_json::from_value(state.clone()).ok());
        kept.unwrap_or_default()
    }
}

/// A trial as a member of a population.
fn member(view: &SamplerView<'_>, number: u64) -> Option<Member> {
    let past = view.history.trial(number)?;
    Some(Member {
        number,
        values: view.history.signed_values(number)?,
        violation: past.violation.unwrap_or_default(),
    })
}

/// Whether a trial can become a parent: one that ended early has no values to compare.
fn is_fit(past: &PastTrial) -> bool {
    let is_number = |value: &crate::number::JsonF64| !value.0.is_nan();
    past.state == TrialState::Complete
        && past
            .values
            .as_ref()
            .is_some_and(|values| values.iter().all(is_number))
}

impl Sampler for NsgaSampler {
    fn kind(&self) -> &'static str {
        match self.which {
            Nsga::Two => KIND_2,
            Nsga::Three => KIND_3,
        }
    }

    fn options(&self) -> Value {
        serde_json::to_value(&self.options).unwrap_or_default()
    }

    fn joint_space(&self, _view: &SamplerView<'_>) -> JointSpace {
        // What belongs together is decided by the parents, which are the same for every parameter.
        JointSpace::empty()
    }

    fn sample_joint(&self, view: &SamplerView<'_>, space: &JointSpace) -> Result<Vec<ParamValue>> {
        let params = space.params().iter();
        params
            .map(|key| self.sample_single(view, &key.name, &key.dist))
            .collect()
    }

    fn sample_single(
        &self,
        view: &SamplerView<'_>,
        name: &str,
        dist: &Distribution,
    ) -> Result<ParamValue> {
        let mut rng = view.rng(name);
        let Some((first, second, crosses)) = self.parents(view, &State::of(view)) else {
            return Ok(random::draw(dist, &mut rng));
        };
        let place = |number: u64| {
            let value = view.history.column(name)?.value(number)?;
            dist.check_value(&value)
                .is_ok()
                .then(|| dist.to_unit(value.as_f64()))
        };
        let (a, b) = match (place(first), place(second)) {
            (Some(a), Some(b)) => (a, b),
            (Some(one), None) | (None, Some(one)) => (one, one),
            (None, None) => return Ok(random::draw(dist, &mut rng)),
        };
        #[expect(clippy::cast_precision_loss, reason = "a count of parameters")]
        let count = view.history.params_of(first).count().max(1) as f64;
        let rates = Rates {
            crossover_eta: self.options.crossover_eta,
            mutation_eta: self.options.mutation_eta,
            mutation: self.options.mutation.unwrap_or(1.0 / count),
        };
        Ok(dist.at_unit(inherit(dist, (a, b), crosses, rates, &mut rng)))
    }

    fn wants_endings(&self) -> bool {
        true
    }

    fn after_trial(&self, view: &SamplerView<'_>, _ended: &Trial) -> Option<Value> {
        let mut state = State::of(view);
        let population = self.options.population;
        let fit = |_: u64, past: &PastTrial| is_fit(past);
        let mut has_moved = false;
        loop {
            let new: Vec<u64> = state.intake.waiting(view, fit).take(population).collect();
            if new.len() < population {
                break;
            }
            let numbers = state.parents.iter().chain(&new);
            let members: Vec<Member> = numbers.filter_map(|number| member(view, *number)).collect();
            let objectives = view.history.directions().len();
            let niches = Niches::new(objectives, population);
            let mut rng = view.rng("nsga3 selection");
            let thinning = match self.which {
                Nsga::Two => Thinning::Crowding,
                Nsga::Three => Thinning::Directions(&niches, &mut rng),
            };
            state.parents = survivors(&members, population, thinning);
            state.intake.take(view, new, fit);
            state.generation += 1;
            has_moved = true;
        }
        let value = || serde_json::to_value(&state).ok();
        has_moved.then(value).flatten()
    }
}
