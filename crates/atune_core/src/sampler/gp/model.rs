//! The process given what was seen: mean and variance anywhere, with their gradients.

#![expect(
    clippy::indexing_slicing,
    reason = "dense arithmetic; every place is below the number of points"
)]

use super::factor::{Factor, dot};
use super::kernel::{Points, Theta, matern};

/// A Gaussian process that has seen some points.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    theta: Theta,
    weights: Vec<f64>,
    scale: f64,
    points: Points,
    factor: Factor,
    /// `A⁻¹ y`: the mean is its product with the covariances.
    alpha: Vec<f64>,
}

/// Mean and variance at a point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Normal {
    pub(crate) mean: f64,
    /// Of the function, without the noise; positive.
    pub(crate) variance: f64,
}

/// [`Normal`] with the gradients by the numerical coordinates.
pub(crate) struct NormalSlope {
    pub(crate) at: Normal,
    pub(crate) mean: Vec<f64>,
    pub(crate) variance: Vec<f64>,
}

impl Model {
    /// A model that has seen nothing.
    pub(crate) fn new(theta: Theta, choices: &[bool]) -> Self {
        Self {
            weights: theta.weights(),
            scale: theta.scale(),
            theta,
            points: Points::new(choices.iter().copied()),
            factor: Factor::default(),
            alpha: Vec::new(),
        }
    }

    /// Whether this is a model with such a kernel, over such parameters.
    pub(crate) fn is_of(&self, theta: &Theta, choices: &[bool]) -> bool {
        self.theta == *theta && self.points.choices().eq(choices.iter().copied())
    }

    /// Makes `points` the points that were taken in; those that lead already are kept.
    pub(crate) fn hold(&mut self, points: &[Vec<f64>]) {
        let kept = self.points.common(points);
        self.points.truncate(kept);
        self.factor.truncate(kept);
        self.alpha.clear();
        points.iter().skip(kept).for_each(|point| self.push(point));
    }

    /// Takes a point in. What was seen there follows by [`Model::see`] or [`Model::believe`].
    pub(crate) fn push(&mut self, point: &[f64]) {
        let mut row = self.covariances(point);
        row.push(self.scale + self.theta.noise());
        self.factor.push(&row);
        self.points.push(point);
    }

    /// Says what was seen at all points.
    pub(crate) fn see(&mut self, values: &[f64]) {
        debug_assert_eq!(values.len(), self.points.rows());
        let mut alpha = values.to_vec();
        self.factor.forward(&mut alpha);
        self.factor.backward(&mut alpha);
        self.alpha = alpha;
    }

    /// Takes a point in of which nothing is known yet, as if what is expected there had been seen: the
    /// mean stays as it is, and the variance around the point falls.
    pub(crate) fn believe(&mut self, point: &[f64]) {
        self.push(point);
        self.alpha.push(0.0);
    }

    fn covariances(&self, point: &[f64]) -> Vec<f64> {
        let mut row = self.points.weighted(&self.weights, point);
        for cell in &mut row {
            *cell = self.scale * matern(*cell).0;
        }
        row
    }

    fn normal(&self, mean: f64, explained: f64) -> Normal {
        // Rounding may explain more than there is.
        let variance = (self.scale - explained).max(self.scale * 1e-12);
        Normal { mean, variance }
    }

    pub(crate) fn at(&self, point: &[f64]) -> Normal {
        let mut row = self.covariances(point);
        let mean = dot(&row, &self.alpha);
        self.factor.forward(&mut row);
        self.normal(mean, dot(&row, &row))
    }

    /// [`Model::at`] for many points, which costs less than one at a time.
    pub(crate) fn at_all(&self, points: &[Vec<f64>]) -> Vec<Normal> {
        let mut all = Vec::with_capacity(points.len());
        let mut fours = points.chunks_exact(4);
        for four in &mut fours {
            let mut rows = [0, 1, 2, 3].map(|at| self.covariances(&four[at]));
            let means = [0, 1, 2, 3].map(|at| dot(&rows[at], &self.alpha));
            self.factor.forward_four(&mut rows);
            for (row, mean) in rows.iter().zip(means) {
                all.push(self.normal(mean, dot(row, row)));
            }
        }
        all.extend(fours.remainder().iter().map(|point| self.at(point)));
        all
    }

    /// The mean at all points that were taken in, without the noise.
    pub(crate) fn means(&self, values: &[f64]) -> Vec<f64> {
        // A α = y, and A is the covariance plus the noise on its diagonal.
        let noise = self.theta.noise();
        values
            .iter()
            .zip(&self.alpha)
            .map(|(y, a)| y - noise * a)
            .collect()
    }

    /// [`Model::at`] with gradients.
    pub(crate) fn slope(&self, point: &[f64]) -> NormalSlope {
        let squared = self.points.weighted(&self.weights, point);
        let kernel: Vec<(f64, f64)> = squared.into_iter().map(matern).collect();
        let row: Vec<f64> = kernel.iter().map(|(k, _)| self.scale * k).collect();
        let mean = dot(&row, &self.alpha);
        let mut solved = row;
        self.factor.forward(&mut solved);
        let explained = dot(&solved, &solved);
        self.factor.backward(&mut solved);
        let by = |factors: &[f64]| {
            let terms = kernel.iter().zip(factors);
            let terms: Vec<f64> = terms
                .map(|((_, slope), f)| 2.0 * self.scale * slope * f)
                .collect();
            let mut pull = self.points.pull(point, &terms);
            pull.iter_mut()
                .zip(&self.weights)
                .for_each(|(p, w)| *p *= w);
            pull
        };
        let mut variance = by(&solved);
        for v in &mut variance {
            *v *= -2.0;
        }
        NormalSlope {
            at: self.normal(mean, explained),
            mean: by(&self.alpha),
            variance,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::KeyedRng;

    fn model() -> (Model, Vec<Vec<f64>>, Vec<f64>) {
        let theta = Theta {
            log_weights: vec![1.0, 2.0, 0.0],
            log_scale: 0.3,
            log_noise: -12.0,
        };
        let mut rng = KeyedRng::new(6, 0, "model");
        let mut model = Model::new(theta, &[false, false, true]);
        let points: Vec<Vec<f64>> = (0..21)
            .map(|i| {
                let second = if i % 3 == 0 { f64::NAN } else { rng.unit() };
                vec![rng.unit(), second, if i % 2 == 0 { 0.25 } else { 0.75 }]
            })
            .collect();
        let values: Vec<f64> = points
            .iter()
            .map(|p| libm::sin(5.0 * p[0]) + p[2])
            .collect();
        for point in &points {
            model.push(point);
        }
        model.see(&values);
        (model, points, values)
    }

    #[test]
    fn the_mean_goes_through_what_was_seen_and_the_variance_is_small_there() {
        let (model, points, values) = model();
        let means = model.means(&values);
        for ((normal, value), mean) in model.at_all(&points).iter().zip(&values).zip(means) {
            assert!((normal.mean - value).abs() < 1e-3);
            assert!((normal.mean - mean).abs() < 1e-9);
            assert!(normal.variance < 1e-4);
        }
    }

    #[test]
    fn gradients_are_slopes() {
        let (model, ..) = model();
        for point in [[0.31, 0.62, 0.25], [0.9, 0.05, 0.75]] {
            let slope = model.slope(&point);
            for at in 0..2 {
                let [up, down] = [1e-5, -1e-5].map(|by| {
                    let mut moved = point;
                    moved[at] += by;
                    model.at(&moved)
                });
                let mean = (up.mean - down.mean) / 2e-5;
                let variance = (up.variance - down.variance) / 2e-5;
                assert!((mean - slope.mean[at]).abs() < 1e-5 * (1.0 + mean.abs()));
                assert!((variance - slope.variance[at]).abs() < 1e-5 * (1.0 + variance.abs()));
            }
            assert_eq!((slope.mean[2], slope.variance[2]), (0.0, 0.0));
        }
    }

    #[test]
    fn a_point_that_is_believed_leaves_the_mean_and_lowers_the_variance() {
        let (mut model, ..) = model();
        let point = [0.5, 0.5, 0.25];
        let near = [0.52, 0.5, 0.25];
        let before = (model.at(&point), model.at(&near));
        model.believe(&point);
        assert!((model.at(&near).mean - before.1.mean).abs() < 1e-12);
        assert!(model.at(&point).variance < 0.01 * before.0.variance);
        assert!(model.at(&near).variance < before.1.variance);
    }
}
