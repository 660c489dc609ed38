//! Densities over a few parameters at once: one kernel around each of some points, and one that is wide.
//!
//! Numbers are places of the unit interval, under normal kernels that are cut off at its ends; choices are
//! their places in the list, under kernels that prefer the one they stand on. Whole numbers and steps count
//! as places too, with kernels no narrower than they are apart: the width of a value's bin is the same in
//! every density, and cancels where densities are compared.

use crate::rng::KeyedRng;

/// One parameter of a density.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Axis {
    /// Numbers. How far values lie apart in the unit interval, or 0 for all numbers.
    Line {
        /// The distance.
        grain: f64,
    },
    /// This many choices.
    Choices(usize),
}

/// How wide kernels are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Widths {
    /// The width of a single kernel, in the unit interval.
    pub(super) first: f64,
    /// The narrowest kernel.
    pub(super) least: f64,
}

/// A density.
#[derive(Debug)]
pub(super) struct Mixture<'a> {
    axes: &'a [Axis],
    /// The points, one after the other.
    centres: Vec<f64>,
    /// Up to which share of the whole weight each kernel comes with those before it.
    shares: Vec<f64>,
    /// The weight of each kernel over what its cut-off normal parts integrate to.
    factors: Vec<f64>,
    widths: Vec<f64>,
    /// The wide kernel: its weight over what it integrates to.
    wide_factor: f64,
    /// How much of a kernel over choices goes to all of them alike.
    spread: f64,
}

/// The width of the wide kernel, around the middle of the unit interval.
const WIDE: f64 = 1.0;

/// The weight of the wide kernel. It keeps all of the space in play, where good trials of one branch would
/// soon hide a better one.
const WIDE_WEIGHT: f64 = 2.0;

/// Kernels are taken as 0 where their exponent is below this.
const EXPONENT_MIN: f64 = -40.0;

/// The lowest density: that of a point which no kernel reaches.
const DENSITY_MIN: f64 = 1e-300;

impl<'a> Mixture<'a> {
    /// A density with a kernel of such weight around each point. The wide kernel has
    /// the weight of two.
    pub(super) fn new(
        axes: &'a [Axis],
        centres: Vec<f64>,
        weights: &[f64],
        widths: Widths,
    ) -> Self {
        let count = as_f64(weights.len().max(1));
        let narrowing = libm::pow(count, -1.0 / (as_f64(axes.len()) + 4.0));
        let width = |axis: &Axis| match axis {
            Axis::Line { grain } => (widths.first * narrowing)
                .max(widths.least)
                .max(0.6 * grain),
            Axis::Choices(_) => 1.0,
        };
        let widths: Vec<f64> = axes.iter().map(width).collect();
        let total = weights.iter().sum::<f64>() + WIDE_WEIGHT;
        let mut so_far = 0.0;
        let (mut shares, mut factors) = (Vec::new(), Vec::new());
        for (point, weight) in centres.chunks_exact(axes.len().max(1)).zip(weights) {
            let mut mass = 1.0;
            for ((axis, width), centre) in axes.iter().zip(&widths).zip(point) {
                if matches!(axis, Axis::Line { .. }) {
                    mass *= width * cut_off_mass(*centre, *width);
                }
            }
            so_far += weight / total;
            shares.push(so_far);
            factors.push(weight / total / mass);
        }
        let mut wide_factor = WIDE_WEIGHT / total;
        for axis in axes {
            wide_factor /= match axis {
                Axis::Line { .. } => WIDE * cut_off_mass(0.5, WIDE),
                Axis::Choices(count) => as_f64(*count),
            };
        }
        let choices = axes.iter().map(|axis| match axis {
            Axis::Choices(count) => as_f64(*count),
            Axis::Line { .. } => 0.0,
        });
        Self {
            axes,
            centres,
            shares,
            factors,
            widths,
            wide_factor,
            spread: 2.0 * choices.fold(0.0, f64::max) / (count + 1.0),
        }
    }

    /// A random point.
    pub(super) fn draw(&self, rng: &mut KeyedRng, point: &mut Vec<f64>) {
        let at = rng.unit();
        let kernel = self.shares.partition_point(|share| *share <= at);
        let centre = self
            .centres
            .chunks_exact(self.axes.len().max(1))
            .nth(kernel);
        point.clear();
        for (place, (axis, width)) in self.axes.iter().zip(&self.widths).enumerate() {
            let centre = centre.and_then(|centre| centre.get(place));
            point.push(match (axis, centre) {
                (Axis::Line { .. }, Some(centre)) => cut_off_normal(*centre, *width, rng),
                (Axis::Line { .. }, None) => cut_off_normal(0.5, WIDE, rng),
                (Axis::Choices(count), centre) => {
                    let keeps = rng.unit() * (1.0 + self.spread) < 1.0;
                    match centre {
                        Some(centre) if keeps => *centre,
                        _ => as_f64(rng.place(*count)),
                    }
                }
            });
        }
    }

    /// The density at a point, up to a factor that is the same for all densities over these axes.
    pub(super) fn density(&self, point: &[f64]) -> f64 {
        let mut wide = 0.0;
        for (axis, at) in self.axes.iter().zip(point) {
            if matches!(axis, Axis::Line { .. }) {
                let distance = (at - 0.5) / WIDE;
                wide -= 0.5 * distance * distance;
            }
        }
        let mut density = self.wide_factor * libm::exp(wide);
        let rows = self.centres.chunks_exact(self.axes.len().max(1));
        for (centre, factor) in rows.zip(&self.factors) {
            let (mut exponent, mut factor) = (0.0, *factor);
            for (((axis, at), centre), width) in
                self.axes.iter().zip(point).zip(centre).zip(&self.widths)
            {
                match axis {
                    Axis::Line { .. } => {
                        let distance = (at - centre) / width;
                        exponent -= 0.5 * distance * distance;
                    }
                    Axis::Choices(count) => {
                        let own = if same(*at, *centre) { 1.0 } else { 0.0 };
                        factor *= (own + self.spread / as_f64(*count)) / (1.0 + self.spread);
                    }
                }
            }
            if exponent > EXPONENT_MIN {
                density += factor * libm::exp(exponent);
            }
        }
        density.max(DENSITY_MIN)
    }
}

/// Whether two places of a list are the same: they are whole numbers.
fn same(a: f64, b: f64) -> bool {
    (a - b).abs() < 0.5
}

#[expect(clippy::cast_precision_loss, reason = "counts of points and choices")]
fn as_f64(count: usize) -> f64 {
    count as f64
}

/// How much of a normal distribution lies in the unit interval.
fn cut_off_mass(centre: f64, width: f64) -> f64 {
    // Beyond six widths it is as good as all.
    let below = |distance: f64| {
        if distance > 6.0 * width {
            0.5
        } else {
            0.5 * libm::erf(distance / width * std::f64::consts::FRAC_1_SQRT_2)
        }
    };
    below(1.0 - centre) + below(centre)
}

/// A number of a normal distribution whose centre is in the unit interval, if that number is in it too.
fn cut_off_normal(centre: f64, width: f64, rng: &mut KeyedRng) -> f64 {
    // Each try is within with a chance of more than a third.
    for _ in 0..64 {
        let number = centre + width * rng.normal();
        if (0.0..=1.0).contains(&number) {
            return number;
        }
    }
    centre
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTHS: Widths = Widths {
        first: 0.3,
        least: 0.01,
    };

    #[test]
    fn a_density_integrates_to_one() {
        let axes = [Axis::Line { grain: 0.0 }, Axis::Choices(3)];
        let centres = vec![0.02, 0.0, 0.5, 2.0, 0.97, 2.0];
        let mixture = Mixture::new(&axes, centres, &[1.0, 0.5, 2.0], WIDTHS);
        let (steps, mut sum) = (2000, 0.0);
        for step in 0..steps {
            let at = (f64::from(step) + 0.5) / f64::from(steps);
            for choice in [0.0, 1.0, 2.0] {
                sum += mixture.density(&[at, choice]);
            }
        }
        let root = (2.0 * std::f64::consts::PI).sqrt();
        // Normal kernels are kept without the factor that all have in common.
        assert!((sum / f64::from(steps) / root - 1.0).abs() < 1e-3, "{sum}");
    }

    #[test]
    fn points_are_drawn_as_often_as_the_density_says() {
        let axes = [Axis::Line { grain: 0.0 }];
        let mixture = Mixture::new(&axes, vec![0.1, 0.8], &[1.0, 3.0], WIDTHS);
        let mut rng = KeyedRng::new(5, 0, "drawn");
        let (mut counts, mut point) = ([0u32; 10], Vec::new());
        let n = 50_000;
        for _ in 0..n {
            mixture.draw(&mut rng, &mut point);
            assert!((0.0..=1.0).contains(&point[0]));
            let bin = (1..10)
                .filter(|bin| point[0] * 10.0 >= as_f64(*bin))
                .count();
            counts[bin] += 1;
        }
        let root = (2.0 * std::f64::consts::PI).sqrt();
        for (bin, count) in counts.iter().enumerate() {
            let part =
                |k: usize| mixture.density(&[(as_f64(bin) + (as_f64(k) + 0.5) / 100.0) / 10.0]);
            let expected = (0..100).map(part).sum::<f64>() / 1000.0 / root * f64::from(n);
            let error = (f64::from(*count) - expected).abs() / expected.sqrt();
            assert!(
                error < 5.0,
                "bin {bin}: {count} where {expected} are expected"
            );
        }
    }
}
