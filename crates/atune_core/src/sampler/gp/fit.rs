//! Fitting the kernel: the parameters that make what was seen likeliest, under a mild prior (MAP).

#![expect(
    clippy::indexing_slicing,
    reason = "dense arithmetic; every place is below the number of points"
)]

use super::factor::{Factor, dot, row_start};
use super::kernel::{Points, Theta, matern};
use super::lbfgs::{Limits, minimise};

/// Bounds of the logarithms: weights (length scales from 0.01 to 150 unit intervals), scale, noise.
const WEIGHTS: (f64, f64) = (-10.0, 9.2);
const SCALE: (f64, f64) = (-4.0, 8.0);
/// The least noise: a deviation of a ten-thousandth of that of the values.
const NOISE: (f64, f64) = (-18.4, 1.0);

/// What is believed of the kernel before anything was seen: normal distributions of its logarithms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prior {
    weights: (f64, f64),
    scale: (f64, f64),
    noise: (f64, f64),
}

impl Prior {
    /// The prior for a number of parameters: the more there are, the less each is expected to matter.
    #[expect(clippy::cast_precision_loss, reason = "a count of parameters")]
    pub(crate) fn of(parameters: usize) -> Self {
        let spread = libm::log(parameters.max(1) as f64);
        Self {
            weights: (-0.5 - 0.5 * spread, 2.0),
            scale: (0.5, 1.5),
            noise: (-12.0, 4.0),
        }
    }

    /// The kernel that is expected.
    pub(crate) fn centre(&self, parameters: usize) -> Theta {
        Theta {
            log_weights: vec![self.weights.0; parameters],
            log_scale: self.scale.0,
            log_noise: self.noise.0,
        }
    }

    /// Adds the gradient of the negative logarithm of the prior, and gives that.
    fn penalty(&self, row: &[f64], gradient: &mut [f64]) -> f64 {
        let parameters = row.len() - 2;
        let mut sum = 0.0;
        for (at, (value, gradient)) in row.iter().zip(gradient).enumerate() {
            let (centre, deviation) = match at.checked_sub(parameters) {
                None => self.weights,
                Some(0) => self.scale,
                Some(_) => self.noise,
            };
            let off = (value - centre) / deviation;
            sum += 0.5 * off * off;
            *gradient += off / deviation;
        }
        sum
    }
}

/// Fits the kernel to `values` at `points`, beginning at each of `starts`; the likeliest end is taken.
pub(crate) fn fit(
    points: &Points,
    values: &[f64],
    prior: Prior,
    starts: &[Theta],
    limits: Limits,
) -> Option<Theta> {
    let evidence = Evidence {
        distances: points.distances(),
        values,
        prior,
    };
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for _ in &evidence.distances {
        low.push(WEIGHTS.0);
        high.push(WEIGHTS.1);
    }
    low.extend([SCALE.0, NOISE.0]);
    high.extend([SCALE.1, NOISE.1]);
    let mut best = None;
    for start in starts {
        let end = minimise(&start.to_row(), &low, &high, limits, |row, gradient| {
            evidence.loss(row, gradient)
        });
        if best.as_ref().is_none_or(|(value, _)| end.value < *value) {
            best = Some((end.value, end.point));
        }
    }
    best.and_then(|(_, row)| Theta::from_row(&row))
}

/// What the kernel is fitted to.
struct Evidence<'a> {
    /// Per parameter, the squared distances of all pairs.
    distances: Vec<Vec<f64>>,
    values: &'a [f64],
    prior: Prior,
}

impl Evidence<'_> {
    /// The negative logarithm of likelihood and prior, up to a constant, with its gradient.
    fn loss(&self, row: &[f64], gradient: &mut [f64]) -> f64 {
        let Some(theta) = Theta::from_row(row) else {
            return f64::NAN;
        };
        let (weights, scale, noise) = (theta.weights(), theta.scale(), theta.noise());
        let n = self.values.len();
        let mut sums = vec![0.0; n * n.saturating_sub(1) / 2];
        for (weight, distances) in weights.iter().zip(&self.distances) {
            sums.iter_mut()
                .zip(distances)
                .for_each(|(sum, d)| *sum += weight * d);
        }
        let kernel: Vec<(f64, f64)> = sums.into_iter().map(matern).collect();
        let mut factor = Factor::default();
        let mut line = Vec::with_capacity(n);
        for i in 0..n {
            line.clear();
            let start = i * i.saturating_sub(1) / 2;
            line.extend(kernel[start..start + i].iter().map(|(k, _)| scale * k));
            line.push(scale + noise);
            factor.push(&line);
        }
        let mut alpha = self.values.to_vec();
        factor.forward(&mut alpha);
        factor.backward(&mut alpha);
        let loss = 0.5 * dot(&alpha, self.values) + factor.half_log_det();

        // Half of the trace of (A⁻¹ - α αᵀ) dA: pairs count twice, the diagonal once.
        let inverse = factor.inverse();
        gradient.fill(0.0);
        let parameters = weights.len();
        let (mut by_scale, mut trace) = (0.0, 0.0);
        let mut slopes = Vec::with_capacity(kernel.len());
        for i in 0..n {
            let (cells, pairs) = (&inverse[row_start(i)..], i * i.saturating_sub(1) / 2);
            for j in 0..i {
                let (k, slope) = kernel[pairs + j];
                let left = scale * (cells[j] - alpha[i] * alpha[j]);
                by_scale += left * k;
                slopes.push(left * slope);
            }
            trace += cells[i] - alpha[i] * alpha[i];
        }
        for ((gradient, weight), distances) in
            gradient.iter_mut().zip(&weights).zip(&self.distances)
        {
            *gradient = weight * dot(&slopes, distances);
        }
        gradient[parameters] = by_scale + 0.5 * scale * trace;
        gradient[parameters + 1] = 0.5 * noise * trace;
        loss + self.prior.penalty(row, gradient)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::KeyedRng;

    const LIMITS: Limits = Limits {
        steps: 60,
        evaluations: 120,
        tolerance: 1e-6,
    };

    fn wavy(n: usize) -> (Points, Vec<f64>) {
        let mut rng = KeyedRng::new(5, 0, "wavy");
        let mut points = Points::new([false, false, true]);
        let mut values = Vec::new();
        for _ in 0..n {
            let choice = if rng.unit() < 0.5 { 0.25 } else { 0.75 };
            let point = [rng.unit(), rng.unit(), choice];
            values.push(libm::sin(6.0 * point[0]) + choice);
            points.push(&point);
        }
        (points, values)
    }

    #[test]
    fn the_gradient_is_the_slope_of_the_loss() {
        let (points, values) = wavy(14);
        let evidence = Evidence {
            distances: points.distances(),
            values: &values,
            prior: Prior::of(3),
        };
        let row = [0.3, -0.7, 0.1, 0.4, -3.0];
        let mut gradient = [0.0; 5];
        evidence.loss(&row, &mut gradient);
        for at in 0..5 {
            let mut shifted = [row, row];
            shifted[0][at] += 1e-5;
            shifted[1][at] -= 1e-5;
            let [up, down] = shifted.map(|row| evidence.loss(&row, &mut [0.0; 5]));
            let slope = (up - down) / 2e-5;
            assert!(
                (slope - gradient[at]).abs() < 1e-5 * (1.0 + slope.abs()),
                "{at}: {slope}"
            );
        }
    }

    #[test]
    fn parameters_that_do_not_matter_get_long_scales() {
        let (points, values) = wavy(40);
        let prior = Prior::of(3);
        let theta = fit(&points, &values, prior, &[prior.centre(3)], LIMITS).unwrap();
        assert!(
            theta.log_weights[0] > theta.log_weights[1] + 3.0,
            "{theta:?}"
        );
        assert!(theta.log_weights[2] > theta.log_weights[1], "{theta:?}");
        assert!(theta.log_noise < -8.0, "{theta:?}");
    }

    #[test]
    fn equal_values_and_repeated_points_are_fitted_without_harm() {
        let mut points = Points::new([false, false]);
        (0..12).for_each(|_| points.push(&[0.5, 0.5]));
        let prior = Prior::of(2);
        let theta = fit(&points, &[0.0; 12], prior, &[prior.centre(2)], LIMITS).unwrap();
        assert!(theta.to_row().iter().all(|v| v.is_finite()), "{theta:?}");
    }
}
