//! The evolution strategy: its distribution over the unit cube, and how a ranked generation changes it.
//!
//! Covariance matrix adaptation with weighted recombination, cumulative step-size adaptation, rank-one and
//! rank-μ updates, and negative weights for the worse half (Hansen, "The CMA evolution strategy: a
//! tutorial"). Above [`FULL_MAX`] parameters only variances are adapted, not covariances: the matrix would
//! not be learned within a study's trials, and the state that each generation leaves behind would be large.

#![expect(
    clippy::indexing_slicing,
    reason = "dense arithmetic; every place is below the number of parameters"
)]

use nalgebra::{DMatrix, SymmetricEigen};
use serde::{Deserialize, Serialize};

use super::margin;
use crate::rng::KeyedRng;
use crate::space::Distribution;

/// The largest number of parameters whose covariances are adapted.
pub(crate) const FULL_MAX: usize = 64;

/// How often a point outside of the cube is drawn again before it is clipped.
const REDRAWS: usize = 100;

/// The distribution that points are drawn from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Strategy {
    /// How many points a generation has.
    pub(crate) population: usize,
    /// How many generations were taken in.
    pub(crate) generation: u64,
    mean: Vec<f64>,
    sigma: f64,
    /// The covariance: its lower triangle by rows, or the variances alone.
    covariance: Vec<f64>,
    /// The factors by which discrete coordinates are spread, so that they keep a margin.
    spread: Vec<f64>,
    path_sigma: Vec<f64>,
    path_c: Vec<f64>,
    /// The best and the worst value of the last generations.
    lately: Vec<(f64, f64)>,
}

/// Axes and lengths of the covariance.
#[derive(Clone, Debug)]
pub(crate) struct Axes {
    /// Columns are the axes; `None` for the coordinates themselves.
    basis: Option<DMatrix<f64>>,
    lengths: Vec<f64>,
}

/// The rates of the strategy: functions of dimension and population.
struct Rates {
    /// Weights of the ranks; the negative ones not yet scaled to the dimension.
    weights: Vec<f64>,
    mu: usize,
    mu_eff: f64,
    c_sigma: f64,
    damping: f64,
    c_c: f64,
    c_one: f64,
    c_mu: f64,
    expected_norm: f64,
}

impl Rates {
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of parameters and points"
    )]
    fn of(dimension: usize, population: usize) -> Self {
        let n = dimension as f64;
        let raw: Vec<f64> = (0..population)
            .map(|at| libm::log(0.5 * (population as f64 + 1.0)) - libm::log(at as f64 + 1.0))
            .collect();
        let mu = population / 2;
        let mass = |part: &[f64]| {
            let (sum, squares) = (
                part.iter().sum::<f64>(),
                part.iter().map(|w| w * w).sum::<f64>(),
            );
            if squares > 0.0 {
                sum * sum / squares
            } else {
                0.0
            }
        };
        let (mu_eff, mu_eff_minus) = (mass(&raw[..mu]), mass(&raw[mu..]));
        let c_c = (4.0 + mu_eff / n) / (n + 4.0 + 2.0 * mu_eff / n);
        let mut c_one = 2.0 / ((n + 1.3) * (n + 1.3) + mu_eff);
        let mut c_mu = (2.0 * (0.25 + mu_eff + 1.0 / mu_eff - 2.0)
            / ((n + 2.0) * (n + 2.0) + mu_eff))
            .min(1.0 - c_one);
        if dimension > FULL_MAX {
            // Fewer numbers are learned, so they may be learned faster.
            c_one = (c_one * (n + 2.0) / 3.0).min(0.5);
            c_mu = (c_mu * (n + 2.0) / 3.0).min(1.0 - c_one);
        }
        let c_sigma = (mu_eff + 2.0) / (n + mu_eff + 5.0);
        let damping = 1.0 + 2.0 * (((mu_eff - 1.0) / (n + 1.0)).sqrt() - 1.0).max(0.0) + c_sigma;
        let least = (1.0 + c_one / c_mu)
            .min(1.0 + 2.0 * mu_eff_minus / (mu_eff + 2.0))
            .min((1.0 - c_one - c_mu) / (n * c_mu));
        let sum = |positive: bool| -> f64 {
            raw.iter()
                .filter(|w| (**w > 0.0) == positive)
                .map(|w| w.abs())
                .sum()
        };
        let (plus, minus) = (sum(true), sum(false));
        let weights = raw
            .iter()
            .map(|w| match *w > 0.0 {
                true => w / plus,
                false if minus > 0.0 => least * w / minus,
                false => 0.0,
            })
            .collect();
        Self {
            weights,
            mu,
            mu_eff,
            c_sigma,
            damping,
            c_c,
            c_one,
            c_mu,
            expected_norm: n.sqrt() * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n)),
        }
    }
}

/// The usual population for a number of parameters.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small positive number"
)]
pub(crate) fn usual_population(dimension: usize) -> usize {
    4 + (3.0 * libm::log(dimension.max(1) as f64)) as usize
}

impl Strategy {
    /// A strategy that begins around `mean` with a deviation.
    pub(crate) fn new(mean: Vec<f64>, sigma: f64, population: usize) -> Self {
        let n = mean.len();
        let covariance = if n > FULL_MAX {
            vec![1.0; n]
        } else {
            let cells = (0..n).flat_map(|i| (0..=i).map(move |j| f64::from(u8::from(i == j))));
            cells.collect()
        };
        Self {
            population: population.max(4),
            generation: 0,
            mean,
            sigma,
            covariance,
            spread: vec![1.0; n],
            path_sigma: vec![0.0; n],
            path_c: vec![0.0; n],
            lately: Vec::new(),
        }
    }

    /// Whether the parts have the lengths that a strategy over so many parameters has, and only numbers.
    pub(crate) fn is_sound(&self, dimension: usize) -> bool {
        let cells = if dimension > FULL_MAX {
            dimension
        } else {
            dimension * (dimension + 1) / 2
        };
        let rows = [&self.mean, &self.spread, &self.path_sigma, &self.path_c];
        (4..=1 << 20).contains(&self.population)
            && self.sigma.is_finite()
            && self.sigma > 0.0
            && rows
                .iter()
                .all(|row| row.len() == dimension && row.iter().all(|v| v.is_finite()))
            && self.covariance.len() == cells
            && self.covariance.iter().all(|v| v.is_finite())
    }

    /// How many parameters there are.
    pub(crate) fn dimension(&self) -> usize {
        self.mean.len()
    }

    fn variance(&self, at: usize) -> f64 {
        let cell = if self.mean.len() > FULL_MAX {
            at
        } else {
            (at + 1) * (at + 2) / 2 - 1
        };
        self.covariance[cell]
    }

    /// The axes of the covariance: what drawing and updating need, and costs the most.
    pub(crate) fn axes(&self) -> Axes {
        let n = self.mean.len();
        let length = |eigenvalue: f64| eigenvalue.max(1e-20).sqrt();
        if n > FULL_MAX {
            let lengths = self.covariance.iter().map(|v| length(*v)).collect();
            return Axes {
                basis: None,
                lengths,
            };
        }
        let cell = |i: usize, j: usize| self.covariance[i.max(j) * (i.max(j) + 1) / 2 + i.min(j)];
        let eigen = SymmetricEigen::new(DMatrix::from_fn(n, n, cell));
        Axes {
            lengths: eigen.eigenvalues.iter().map(|v| length(*v)).collect(),
            basis: Some(eigen.eigenvectors),
        }
    }

    /// Draws a point of the unit cube. Its discrete coordinates are not on values yet.
    pub(crate) fn draw(&self, axes: &Axes, rng: &mut KeyedRng) -> Vec<f64> {
        let mut point = Vec::new();
        for _ in 0..REDRAWS {
            let z: Vec<f64> = self.mean.iter().map(|_| rng.normal()).collect();
            let y = axes.stretch(&z);
            point.clear();
            let each = self.mean.iter().zip(&self.spread).zip(y);
            point.extend(each.map(|((mean, spread), y)| mean + self.sigma * spread * y));
            if point.iter().all(|place| (0.0..=1.0).contains(place)) {
                return point;
            }
        }
        for place in &mut point {
            *place = place.clamp(0.0, 1.0);
        }
        point
    }

    /// A point that was not drawn here, moved towards the mean so far that it may be taken in with others.
    #[expect(clippy::cast_precision_loss, reason = "a count of parameters")]
    pub(crate) fn within_reach(&self, axes: &Axes, mut point: Vec<f64>) -> Vec<f64> {
        let each = point.iter().zip(&self.mean).zip(&self.spread);
        let step: Vec<f64> = each.map(|((x, m), a)| (x - m) / (self.sigma * a)).collect();
        let length = axes.whiten(&step).iter().map(|z| z * z).sum::<f64>().sqrt();
        let n = self.mean.len() as f64;
        let reach = n.sqrt() + 2.0 * n / (n + 2.0);
        if length > reach {
            for (x, m) in point.iter_mut().zip(&self.mean) {
                *x = m + (*x - m) * reach / length;
            }
        }
        point
    }

    /// Takes a generation in: its points, the best first, with the best and the worst value.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of parameters and generations"
    )]
    pub(crate) fn update(
        &mut self,
        axes: &Axes,
        ranked: &[Vec<f64>],
        values: (f64, f64),
        space: &[Distribution],
    ) {
        let n = self.mean.len();
        let rates = Rates::of(n, ranked.len());
        let steps: Vec<Vec<f64>> = ranked
            .iter()
            .map(|point| {
                let each = point.iter().zip(&self.mean).zip(&self.spread);
                each.map(|((x, m), a)| (x - m) / (self.sigma * a)).collect()
            })
            .collect();
        let whitened: Vec<Vec<f64>> = steps.iter().map(|y| axes.whiten(y)).collect();
        let mut mean_step = vec![0.0; n];
        for (weight, y) in rates.weights.iter().zip(&steps).take(rates.mu) {
            mean_step
                .iter_mut()
                .zip(y)
                .for_each(|(m, y)| *m += weight * y);
        }
        for ((mean, step), spread) in self.mean.iter_mut().zip(&mean_step).zip(&self.spread) {
            *mean = (*mean + self.sigma * spread * step).clamp(0.0, 1.0);
        }

        // The step size: longer than chance would make the path, or shorter.
        let gain = (rates.c_sigma * (2.0 - rates.c_sigma) * rates.mu_eff).sqrt();
        for (path, step) in self.path_sigma.iter_mut().zip(axes.whiten(&mean_step)) {
            *path = (1.0 - rates.c_sigma) * *path + gain * step;
        }
        let norm = self.path_sigma.iter().map(|p| p * p).sum::<f64>().sqrt();
        let growth = rates.c_sigma / rates.damping * (norm / rates.expected_norm - 1.0);
        self.sigma = (self.sigma * libm::exp(growth.min(1.0))).clamp(1e-14, 1e3);

        // The covariance: along the path of the mean, and along the steps of this generation.
        let age = 2.0 * (self.generation + 1) as f64;
        let settled = norm / (1.0 - libm::pow(1.0 - rates.c_sigma, age)).sqrt();
        let is_slow = settled < (1.4 + 2.0 / (n as f64 + 1.0)) * rates.expected_norm;
        let gain = (rates.c_c * (2.0 - rates.c_c) * rates.mu_eff).sqrt();
        for (path, step) in self.path_c.iter_mut().zip(&mean_step) {
            *path = (1.0 - rates.c_c) * *path + if is_slow { gain * step } else { 0.0 };
        }
        let weights: Vec<f64> = rates
            .weights
            .iter()
            .zip(&whitened)
            .map(|(weight, z)| {
                if *weight >= 0.0 {
                    *weight
                } else {
                    let squares: f64 = z.iter().map(|z| z * z).sum();
                    weight * n as f64 / (squares + 1e-8)
                }
            })
            .collect();
        let lost = if is_slow {
            0.0
        } else {
            rates.c_one * rates.c_c * (2.0 - rates.c_c)
        };
        let kept = 1.0 + lost - rates.c_one - rates.c_mu * rates.weights.iter().sum::<f64>();
        let mut cell = 0;
        for i in 0..n {
            let first = if n > FULL_MAX { i } else { 0 };
            for j in first..=i {
                let from_steps: f64 = weights
                    .iter()
                    .zip(&steps)
                    .map(|(weight, y)| weight * y[i] * y[j])
                    .sum();
                self.covariance[cell] = kept * self.covariance[cell]
                    + rates.c_one * self.path_c[i] * self.path_c[j]
                    + rates.c_mu * from_steps;
                cell += 1;
            }
        }
        self.generation += 1;
        self.keep_margins(space);

        // The state is JSON, which has no infinity.
        let finite = |value: f64| value.clamp(f64::MIN, f64::MAX);
        self.lately.push((finite(values.0), finite(values.1)));
        let memory = 10 + (30 * n).div_ceil(ranked.len().max(1));
        if self.lately.len() > memory {
            self.lately.remove(0);
        }
    }

    /// Keeps every discrete coordinate from settling on one value for good.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of parameters and points"
    )]
    fn keep_margins(&mut self, space: &[Distribution]) {
        let alpha = 1.0 / (self.mean.len() as f64 * self.population as f64);
        for (at, dist) in space.iter().enumerate().take(self.mean.len()) {
            let deviation = self.sigma * self.variance(at).max(1e-20).sqrt();
            let (mean, spread) =
                margin::keep(dist, self.mean[at], deviation, self.spread[at], alpha);
            self.mean[at] = mean;
            self.spread[at] = spread;
        }
    }

    /// Whether nothing more is to be expected of this run: it has contracted, its values no longer differ,
    /// or its numbers went wrong.
    pub(crate) fn is_spent(&self, axes: &Axes, space: &[Distribution]) -> bool {
        let smooth = |at: &usize| {
            space
                .get(*at)
                .is_none_or(|dist| dist.value_count().is_none())
        };
        let widest = (0..self.mean.len())
            .filter(smooth)
            .map(|at| self.sigma * self.variance(at).max(0.0).sqrt())
            .fold(0.0, f64::max);
        let has_smooth = (0..self.mean.len()).any(|at| smooth(&at));
        let (short, long) = axes
            .lengths
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(a, b), length| {
                (a.min(*length), b.max(*length))
            });
        let memory = 10 + (30 * self.mean.len()).div_ceil(self.population.max(1));
        let (best, worst) = self
            .lately
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), (low, high)| {
                (a.min(*low), b.max(*high))
            });
        let is_level = self.lately.len() >= memory && worst - best <= 1e-12 * (1.0 + best.abs());
        (has_smooth && widest < 1e-9)
            || is_level
            || long > 1e7 * short
            || !self.sigma.is_finite()
            || self
                .covariance
                .iter()
                .chain(&self.mean)
                .any(|v| !v.is_finite())
    }
}

impl Axes {
    /// `B D z`.
    fn stretch(&self, z: &[f64]) -> Vec<f64> {
        let long: Vec<f64> = z.iter().zip(&self.lengths).map(|(z, d)| z * d).collect();
        self.turn(&long)
    }

    /// `C^(-1/2) y`.
    fn whiten(&self, y: &[f64]) -> Vec<f64> {
        let short: Vec<f64> = match &self.basis {
            None => y.to_vec(),
            Some(basis) => basis
                .column_iter()
                .map(|axis| axis.iter().zip(y).map(|(b, y)| b * y).sum())
                .collect(),
        };
        let short: Vec<f64> = short
            .iter()
            .zip(&self.lengths)
            .map(|(v, d)| v / d)
            .collect();
        self.turn(&short)
    }

    /// `B v`.
    fn turn(&self, v: &[f64]) -> Vec<f64> {
        let Some(basis) = &self.basis else {
            return v.to_vec();
        };
        let mut turned = vec![0.0; v.len()];
        for (axis, v) in basis.column_iter().zip(v) {
            turned
                .iter_mut()
                .zip(axis.iter())
                .for_each(|(t, b)| *t += v * b);
        }
        turned
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "small counts")]
mod tests {
    use super::*;
    use crate::space::{FloatRange, IntRange};

    fn run(
        space: &[Distribution],
        generations: u64,
        value: impl Fn(&[f64]) -> f64,
    ) -> (Strategy, f64) {
        let n = space.len();
        let mut strategy = Strategy::new(vec![0.5; n], 0.2, usual_population(n));
        let mut best = f64::INFINITY;
        for generation in 0..generations {
            let axes = strategy.axes();
            let mut rng = KeyedRng::new(1, generation, "generation");
            let mut points: Vec<(f64, Vec<f64>)> = (0..strategy.population)
                .map(|_| {
                    let point = strategy.draw(&axes, &mut rng);
                    let seen: Vec<f64> = point
                        .iter()
                        .zip(space)
                        .map(|(place, dist)| dist.to_unit(dist.at_unit(*place).as_f64()))
                        .collect();
                    (value(&seen), point)
                })
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            best = best.min(points[0].0);
            let ends = (points[0].0, points[points.len() - 1].0);
            let ranked: Vec<Vec<f64>> = points.into_iter().map(|(_, point)| point).collect();
            strategy.update(&axes, &ranked, ends, space);
            assert!(strategy.is_sound(n));
        }
        (strategy, best)
    }

    fn floats(n: usize) -> Vec<Distribution> {
        vec![Distribution::Float(FloatRange::plain(0.0..=1.0)); n]
    }

    #[test]
    fn a_sphere_and_a_bent_valley_are_solved() {
        let sphere = |x: &[f64]| x.iter().map(|v| (v - 0.7) * (v - 0.7)).sum::<f64>();
        let (strategy, best) = run(&floats(5), 150, sphere);
        assert!(best < 1e-12, "{best}");
        assert!(strategy.is_spent(&strategy.axes(), &floats(5)) || best < 1e-14);
        let valley = |x: &[f64]| {
            let x: Vec<f64> = x.iter().map(|v| 4.0 * v - 2.0).collect();
            x.windows(2)
                .map(|w| 100.0 * (w[1] - w[0] * w[0]).powi(2) + (1.0 - w[0]).powi(2))
                .sum::<f64>()
        };
        let (_, best) = run(&floats(4), 400, valley);
        assert!(best < 1e-8, "{best}");
    }

    #[test]
    fn an_optimum_in_a_corner_is_approached() {
        let corner = |x: &[f64]| x.iter().sum::<f64>();
        let (_, best) = run(&floats(6), 200, corner);
        assert!(best < 0.05, "{best}");
    }

    #[test]
    fn whole_numbers_keep_moving_until_they_are_right() {
        let mut space = floats(2);
        space.push(Distribution::Int(IntRange::plain(0..=9)));
        space.push(Distribution::Int(IntRange::log(1..=1000)));
        space.push(Distribution::Int(IntRange::plain(0..=1)));
        let target: Vec<f64> = [(2_usize, 8.0), (3, 700.0), (4, 1.0)]
            .iter()
            .map(|(at, value)| space[*at].to_unit(*value))
            .collect();
        let value = |x: &[f64]| {
            let smooth: f64 = x[..2].iter().map(|v| (v - 0.3) * (v - 0.3)).sum();
            let whole: f64 = x[2..].iter().zip(&target).map(|(x, t)| (x - t).abs()).sum();
            smooth + 0.1 * whole
        };
        let (_, best) = run(&space, 300, value);
        assert!(best < 1e-9, "{best}");
    }

    #[test]
    fn many_parameters_are_adapted_by_their_variances() {
        let uneven = |x: &[f64]| {
            x.iter()
                .enumerate()
                .map(|(i, v)| (1.0 + i as f64) * (v - 0.4) * (v - 0.4))
                .sum::<f64>()
        };
        let n = FULL_MAX + 6;
        let (strategy, best) = run(&floats(n), 600, uneven);
        assert_eq!(strategy.covariance.len(), n);
        assert!(best < 1e-3, "{best}");
    }

    #[test]
    fn equal_points_and_values_do_no_harm() {
        let space = floats(3);
        let mut strategy = Strategy::new(vec![0.5; 3], 0.2, 6);
        for _ in 0..60 {
            let axes = strategy.axes();
            strategy.update(&axes, &vec![vec![0.5; 3]; 6], (1.0, 1.0), &space);
            assert!(strategy.is_sound(3));
        }
        assert!(strategy.is_spent(&strategy.axes(), &space));
    }

    #[test]
    fn the_state_survives_json_bit_for_bit() {
        let sphere = |x: &[f64]| x.iter().map(|v| (v - 0.7) * (v - 0.7)).sum::<f64>();
        let (strategy, _) = run(&floats(5), 9, sphere);
        let text = serde_json::to_string(&strategy).unwrap();
        assert_eq!(serde_json::from_str::<Strategy>(&text).unwrap(), strategy);
    }
}
