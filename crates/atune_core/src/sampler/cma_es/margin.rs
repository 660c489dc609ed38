//! The margin of discrete coordinates (Hamano, Saito, Nomura, Shirakawa: "CMA-ES with margin", 2022).
//!
//! A deviation far below the width of a value's cell would draw that value for ever. So after every update
//! each value beside the mean's keeps a probability: the mean of a coordinate is moved towards the border
//! of its cell when its cell is the first or last, or else the coordinate is spread.

use crate::space::Distribution;

/// Mean and spread of a coordinate that leave each neighbour of the mean's value a probability of about
/// `alpha`. `deviation` is that before the spread. Coordinates without counted values stay as they are.
pub(crate) fn keep(
    dist: &Distribution,
    mean: f64,
    deviation: f64,
    spread: f64,
    alpha: f64,
) -> (f64, f64) {
    if !dist.is_numerical() || dist.value_count().is_none_or(|count| count < 2) {
        return (mean, spread);
    }
    let borders = borders(dist, mean);
    let whole = deviation * spread;
    match borders {
        (None, None) => (mean, spread),
        (Some(border), None) => {
            let reach = whole * quantile(alpha);
            (
                if mean - border > reach {
                    border + reach
                } else {
                    mean
                },
                spread,
            )
        }
        (None, Some(border)) => {
            let reach = whole * quantile(alpha);
            (
                if border - mean > reach {
                    border - reach
                } else {
                    mean
                },
                spread,
            )
        }
        (Some(low), Some(high)) => {
            let below = tail((mean - low) / whole);
            let above = tail((high - mean) / whole);
            let inside = 1.0 - below - above;
            let half = alpha / 2.0;
            if below >= half && above >= half {
                return (mean, spread);
            }
            let (least_below, least_above) = (below.max(half), above.max(half));
            let excess = 1.0 - least_below - least_above - inside;
            let mass = least_below + inside + least_above - 3.0 * half;
            let share = |least: f64| {
                (least + excess * (least - half) / mass).clamp(half.min(0.25), 0.5 - 1e-9)
            };
            let (reach_low, reach_high) =
                (quantile(share(least_below)), quantile(share(least_above)));
            let reach = reach_low + reach_high;
            if !(reach > 0.0 && deviation > 0.0) {
                return (mean, spread);
            }
            let mean = (low * reach_high + high * reach_low) / reach;
            (
                mean,
                ((high - low) / (reach * deviation)).clamp(1e-12, 1e12),
            )
        }
    }
}

/// The borders of the cell of the value at a place, where there are values beyond them.
fn borders(dist: &Distribution, place: f64) -> (Option<f64>, Option<f64>) {
    let value = dist.at_unit(place).as_f64();
    let step = match dist {
        #[expect(clippy::cast_precision_loss, reason = "rounded, as all plain numbers")]
        Distribution::Int(range) => range.step.unwrap_or(1) as f64,
        Distribution::Float(range) => range.step.map_or(0.0, |step| step.0),
        Distribution::Bool | Distribution::Cat(_) => 0.0,
    };
    let border = |by: f64| {
        let is_other = dist.nearest(value + by).as_f64().to_bits() != value.to_bits();
        is_other.then(|| dist.to_unit(value + by / 2.0))
    };
    (border(-step), border(step))
}

/// The probability that a standard normal number is above `z`.
fn tail(z: f64) -> f64 {
    0.5 * libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2)
}

/// The number that a standard normal one is above with probability `p`, from 0 to a half.
fn quantile(p: f64) -> f64 {
    let p = p.clamp(1e-300, 0.5);
    let (mut low, mut high) = (0.0, 40.0);
    // Halving 60 times is exact enough, and the same everywhere.
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if tail(middle) > p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "what is exact is compared exactly")]
mod tests {
    use super::*;
    use crate::space::IntRange;

    #[test]
    fn quantiles_undo_tails() {
        for p in [0.5, 0.25, 0.025, 1e-6, 1e-30] {
            assert!((tail(quantile(p)) / p - 1.0).abs() < 1e-9, "{p}");
        }
        assert!((quantile(0.025) - 1.959_963_984_540_054).abs() < 1e-9);
    }

    #[test]
    fn neighbours_keep_their_probability() {
        let dist = Distribution::Int(IntRange::plain(0..=4));
        let alpha = 0.02;
        // Cells are a fifth wide; the deviation is far too small to leave one.
        let (mean, spread) = keep(&dist, 0.05, 1e-4, 1.0, alpha);
        assert_eq!(spread, 1.0);
        assert!(tail((0.2 - mean) / 1e-4) >= alpha * 0.999);
        let (mean, spread) = keep(&dist, 0.5, 1e-4, 1.0, alpha);
        let deviation = 1e-4 * spread;
        assert!(tail((mean - 0.4) / deviation) >= alpha / 2.0 * 0.999);
        assert!(tail((0.6 - mean) / deviation) >= alpha / 2.0 * 0.999);
    }

    #[test]
    fn wide_distributions_and_single_values_are_left_alone() {
        let dist = Distribution::Int(IntRange::plain(0..=4));
        assert_eq!(keep(&dist, 0.5, 0.3, 1.0, 0.02), (0.5, 1.0));
        let one = Distribution::Int(IntRange::plain(3..=3));
        assert_eq!(keep(&one, 0.5, 1e-9, 1.0, 0.02), (0.5, 1.0));
    }
}
