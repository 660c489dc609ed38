//! What a point is worth trying: the logarithm of the improvement to expect, and of the probability that
//! every constraint holds.

use super::model::{Model, Normal};

/// The acquisition over models of the objective and of each constraint, all standardised.
#[derive(Debug)]
pub(crate) struct Acquisition {
    /// The model of the objective, to be minimised, and the value to improve upon; `None` while nothing
    /// feasible was seen: then only feasibility counts.
    pub(crate) objective: Option<(Model, f64)>,
    /// Models of constraints, with the values up to which they hold.
    pub(crate) constraints: Vec<(Model, f64)>,
}

impl Acquisition {
    /// Values at many points.
    pub(crate) fn values(&self, points: &[Vec<f64>]) -> Vec<f64> {
        let mut sums = vec![0.0; points.len()];
        if let Some((model, best)) = &self.objective {
            for (sum, normal) in sums.iter_mut().zip(model.at_all(points)) {
                *sum += log_improvement(normal, *best).0;
            }
        }
        for (model, bound) in &self.constraints {
            for (sum, normal) in sums.iter_mut().zip(model.at_all(points)) {
                *sum += log_below(normal, *bound).0;
            }
        }
        sums
    }

    /// The value at a point; writes the gradient.
    pub(crate) fn slope(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        let mut sum = 0.0;
        let terms = self.objective.iter().map(|term| (term, true));
        for ((model, bound), is_objective) in
            terms.chain(self.constraints.iter().map(|term| (term, false)))
        {
            let slope = model.slope(point);
            let (value, by_mean, by_variance) = if is_objective {
                log_improvement(slope.at, *bound)
            } else {
                log_below(slope.at, *bound)
            };
            sum += value;
            let each = slope.mean.iter().zip(&slope.variance);
            for (gradient, (mean, variance)) in gradient.iter_mut().zip(each) {
                *gradient += by_mean * mean + by_variance * variance;
            }
        }
        sum
    }
}

/// The logarithm of the expected improvement below `best`, with its derivatives by mean and variance.
pub(crate) fn log_improvement(normal: Normal, best: f64) -> (f64, f64, f64) {
    let deviation = normal.variance.sqrt();
    let z = (best - normal.mean) / deviation;
    let (log_h, slope) = log_gain(z);
    // z falls by 1/σ per mean and by z/2σ² per variance.
    let by_mean = -slope / deviation;
    let by_variance = (1.0 - slope * z) / (2.0 * normal.variance);
    (libm::log(deviation) + log_h, by_mean, by_variance)
}

/// The logarithm of the probability to be at most `bound`, with its derivatives by mean and variance.
pub(crate) fn log_below(normal: Normal, bound: f64) -> (f64, f64, f64) {
    let deviation = normal.variance.sqrt();
    let z = (bound - normal.mean) / deviation;
    let (value, slope) = log_phi(z);
    (
        value,
        -slope / deviation,
        -slope * z / (2.0 * normal.variance),
    )
}

/// ln √(2π).
const LOG_ROOT_TAU: f64 = 0.918_938_533_204_672_8;
const FRAC_1_SQRT_TAU: f64 = 0.398_942_280_401_432_7;

/// The density of the standard normal distribution.
fn density(z: f64) -> f64 {
    FRAC_1_SQRT_TAU * libm::exp(-0.5 * z * z)
}

/// Its cumulative distribution.
fn cumulative(z: f64) -> f64 {
    0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

/// Below this, differences of nearly equal numbers are replaced by their series.
const FAR: f64 = -15.0;

/// The logarithm of `φ(z) + z Φ(z)` and its derivative `Φ(z) / (φ(z) + z Φ(z))`.
///
/// Far below zero both terms nearly cancel; with Mills' ratio `R = Φ(z)/φ(z)` at `t = -z` the sum is
/// `φ (1 - t R)`, and `R = 1/t - 1/t³ + 3/t⁵ - …`.
fn log_gain(z: f64) -> (f64, f64) {
    if z > -1.0 {
        let h = density(z) + z * cumulative(z);
        (libm::log(h), cumulative(z) / h)
    } else if z > FAR {
        let ratio = cumulative(z) / density(z);
        let left = 1.0 + z * ratio;
        (-0.5 * z * z - LOG_ROOT_TAU + libm::log(left), ratio / left)
    } else {
        let t = -z;
        let s = 1.0 / (t * t);
        let left = s * (1.0 - s * (3.0 - s * (15.0 - s * 105.0)));
        let ratio = (1.0 - s * (1.0 - s * (3.0 - s * 15.0))) / t;
        (-0.5 * z * z - LOG_ROOT_TAU + libm::log(left), ratio / left)
    }
}

/// The logarithm of `Φ(z)` and its derivative.
fn log_phi(z: f64) -> (f64, f64) {
    if z > FAR {
        let below = cumulative(z);
        (libm::log(below), density(z) / below)
    } else {
        let t = -z;
        let s = 1.0 / (t * t);
        let ratio = (1.0 - s * (1.0 - s * (3.0 - s * 15.0))) / t;
        (-0.5 * z * z - LOG_ROOT_TAU + libm::log(ratio), 1.0 / ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithms_agree_with_the_plain_numbers_where_those_exist() {
        // From tables of the normal distribution.
        assert!((log_phi(0.0).0 - 0.5f64.ln()).abs() < 1e-14);
        assert!((log_phi(-1.96).0 - 0.024_997_895_148_220_43_f64.ln()).abs() < 1e-12);
        assert!((log_gain(0.0).0 - FRAC_1_SQRT_TAU.ln()).abs() < 1e-14);
        for z in [-8.0, -3.0, -1.0, 0.5, 4.0] {
            let plain = density(z) + z * cumulative(z);
            assert!((log_gain(z).0 - plain.ln()).abs() < 1e-4, "{z}");
        }
    }

    #[test]
    fn pieces_meet_and_derivatives_are_slopes() {
        for function in [log_gain, log_phi] {
            for z in [-1e6, -40.0, FAR, -5.0, -1.0, 0.0, 3.0] {
                let step = 1e-6 * (1.0 + z.abs());
                let (up, down) = (function(z + step), function(z - step));
                assert!(up.0.is_finite() && down.0.is_finite());
                let slope = (up.0 - down.0) / (2.0 * step);
                let derivative = function(z).1;
                let wrong = (slope - derivative).abs() / derivative.abs();
                assert!(wrong < 2e-3, "{z}: {slope} {derivative}");
                assert!(function(z + step).0 >= function(z - step).0 - 1e-9);
            }
        }
    }

    #[test]
    fn derivatives_by_mean_and_variance_are_slopes() {
        for function in [log_improvement, log_below] {
            for (mean, variance) in [(0.2, 0.5), (3.0, 0.01), (-1.0, 2.0)] {
                let at = |mean, variance| function(Normal { mean, variance }, 0.1);
                let by = 1e-6;
                let mean_slope =
                    (at(mean + by, variance).0 - at(mean - by, variance).0) / (2.0 * by);
                let by = variance * 1e-6;
                let variance_slope =
                    (at(mean, variance + by).0 - at(mean, variance - by).0) / (2.0 * by);
                let (_, by_mean, by_variance) = at(mean, variance);
                assert!((mean_slope - by_mean).abs() < 1e-4 * by_mean.abs());
                assert!((variance_slope - by_variance).abs() < 1e-4 * by_variance.abs());
            }
        }
    }
}
