//! What follows a run of the strategy that has ended.

use serde::{Deserialize, Serialize};

use super::CmaEsOptions;
use super::strategy::{Strategy, usual_population};
use crate::rng::KeyedRng;

/// The largest population that restarts lead to.
const POPULATION_MAX: usize = 4096;

/// What happens when nothing more is to be expected of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restarts {
    /// It goes on.
    None,
    /// The next one begins elsewhere with twice the population.
    Ipop,
    /// As `Ipop`, in turns with runs of small populations and deviations, which get as many trials.
    Bipop,
}

/// One run of the strategy, and how many trials earlier ones took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    pub(super) strategy: Strategy,
    /// How often the population was doubled.
    doubled: u32,
    is_small: bool,
    /// Trials that were spent with large populations, and with small ones.
    spent: (u64, u64),
}

impl Run {
    /// The first run: around the middle of the cube.
    pub(super) fn first(dimension: usize, sigma: f64, population: usize) -> Self {
        Self {
            strategy: Strategy::new(vec![0.5; dimension], sigma, population),
            doubled: 0,
            is_small: false,
            spent: (0, 0),
        }
    }

    /// Begins the next run.
    pub(super) fn restart(&mut self, options: &CmaEsOptions, rng: &mut KeyedRng) {
        if options.restarts == Restarts::None {
            return;
        }
        let dimension = self.strategy.dimension();
        let spent = self
            .strategy
            .generation
            .saturating_mul(self.strategy.population as u64);
        if self.is_small {
            self.spent.1 = self.spent.1.saturating_add(spent);
        } else {
            self.spent.0 = self.spent.0.saturating_add(spent);
        }
        let mean: Vec<f64> = (0..dimension).map(|_| rng.unit()).collect();
        let usual = options
            .population
            .unwrap_or_else(|| usual_population(dimension));
        let large = |doubled: u32| {
            let factor = 1_usize.checked_shl(doubled).unwrap_or(POPULATION_MAX);
            usual.saturating_mul(factor).min(POPULATION_MAX.max(usual))
        };
        self.is_small = options.restarts == Restarts::Bipop && self.spent.1 < self.spent.0;
        let (sigma, population) = if self.is_small {
            let (u, v) = (rng.unit(), rng.unit());
            #[expect(clippy::cast_precision_loss, reason = "small counts")]
            let ratio = 0.5 * large(self.doubled) as f64 / usual as f64;
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small positive number"
            )]
            let population = (usual as f64 * libm::pow(ratio.max(1.0), u * u)) as usize;
            (options.sigma * libm::pow(10.0, -2.0 * v), population)
        } else {
            self.doubled = self.doubled.saturating_add(1);
            (options.sigma, large(self.doubled))
        };
        self.strategy = Strategy::new(mean, sigma, population);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn populations(restarts: Restarts) -> Vec<usize> {
        let options = CmaEsOptions {
            restarts,
            ..CmaEsOptions::default()
        };
        let mut run = Run::first(5, 0.2, 8);
        let mut rng = KeyedRng::new(1, 0, "restart");
        let next = |_| {
            run.strategy.generation = 10;
            run.restart(&options, &mut rng);
            run.strategy.population
        };
        (0..6).map(next).collect()
    }

    #[test]
    fn populations_double_or_alternate_or_stay() {
        assert_eq!(populations(Restarts::Ipop), [16, 32, 64, 128, 256, 512]);
        assert_eq!(populations(Restarts::None), [8; 6]);
        let both = populations(Restarts::Bipop);
        assert!(both.contains(&16) && both.contains(&8), "{both:?}");
    }

    #[test]
    fn no_number_of_restarts_leads_beyond_the_largest_population() {
        let mut run = Run::first(3, 0.2, 7);
        let mut rng = KeyedRng::new(2, 0, "restart");
        for _ in 0..200 {
            run.restart(&CmaEsOptions::default(), &mut rng);
        }
        assert!(run.strategy.population <= POPULATION_MAX);
    }
}
