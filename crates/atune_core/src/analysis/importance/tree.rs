//! A regression tree, as the boxes that its leaves are.

use super::Axis;

/// The largest depth.
const DEPTH_MAX: usize = 64;

/// What a leaf allows of one parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Side {
    /// Numbers from one place to another.
    Range(f64, f64),
    /// Choices, one bit each, of so many.
    Choices(u64, u32),
}

impl Side {
    /// All of an axis.
    pub(super) fn whole(axis: &Axis) -> Self {
        match axis.choices {
            None => Self::Range(0.0, 1.0),
            Some(count) => Self::Choices(u64::MAX >> (64 - count.clamp(1, 64)), count),
        }
    }

    /// Its share of the axis.
    pub(super) fn share(self) -> f64 {
        match self {
            Self::Range(low, high) => high - low,
            Self::Choices(set, count) => f64::from(set.count_ones()) / f64::from(count.max(1)),
        }
    }
}

/// A box of the space in which the tree expects one value.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) sides: Vec<Side>,
    pub(super) value: f64,
}

impl Leaf {
    /// Its share of the space.
    pub(super) fn volume(&self) -> f64 {
        self.sides.iter().map(|side| side.share()).product()
    }
}

/// The best way to part some trials.
struct Split {
    axis: usize,
    low: Side,
    high: Side,
    gain: f64,
}

/// Grows a tree on some trials, each as often as it is named, until the targets in every leaf are equal or
/// nothing parts them. A parameter parts trials only where all of them have it.
pub(super) fn grow(axes: &[Axis], targets: &[f64], trials: Vec<usize>) -> Vec<Leaf> {
    let sides: Vec<Side> = axes.iter().map(Side::whole).collect();
    let mut leaves = Vec::new();
    let mut open = vec![(trials, sides, 0)];
    while let Some((trials, sides, depth)) = open.pop() {
        let split = (depth < DEPTH_MAX)
            .then(|| best_split(axes, targets, &trials, &sides))
            .flatten();
        let Some(split) = split else {
            leaves.push(Leaf {
                sides,
                value: mean(targets, &trials),
            });
            continue;
        };
        let is_low = |trial: &usize| {
            let place = axes
                .get(split.axis)
                .and_then(|axis| axis.places.get(*trial));
            holds(split.low, place.copied().unwrap_or_default())
        };
        let (low, high): (Vec<usize>, Vec<usize>) = trials.into_iter().partition(is_low);
        for (trials, side) in [(low, split.low), (high, split.high)] {
            let mut sides = sides.clone();
            if let Some(own) = sides.get_mut(split.axis) {
                *own = side;
            }
            open.push((trials, sides, depth + 1));
        }
    }
    leaves
}

/// Whether a side allows a place.
fn holds(side: Side, place: f64) -> bool {
    match side {
        Side::Range(_, high) => place <= high,
        Side::Choices(set, _) => set & bit(place) != 0,
    }
}

/// The bit of a choice.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "choices are numbered from 0, and below 64"
)]
pub(super) fn bit(place: f64) -> u64 {
    1u64.checked_shl(place as u32).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "a count of trials")]
fn mean(targets: &[f64], trials: &[usize]) -> f64 {
    let sum: f64 = trials.iter().filter_map(|trial| targets.get(*trial)).sum();
    sum / trials.len().max(1) as f64
}

/// The split that leaves the least variance, if any leaves less than there is.
fn best_split(axes: &[Axis], targets: &[f64], trials: &[usize], sides: &[Side]) -> Option<Split> {
    let mut best: Option<Split> = None;
    for (at, (axis, side)) in axes.iter().zip(sides).enumerate() {
        let mut rows: Vec<(f64, f64)> = trials
            .iter()
            .filter_map(|trial| Some((*axis.places.get(*trial)?, *targets.get(*trial)?)))
            .collect();
        if rows.iter().any(|(place, _)| place.is_nan()) {
            continue;
        }
        if axis.choices.is_some() {
            by_mean(&mut rows);
        } else {
            rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        if let Some((gain, before, after, set)) = best_cut(&rows)
            && best.as_ref().is_none_or(|best| gain > best.gain)
        {
            let (low, high) = match *side {
                Side::Range(low, high) => {
                    let cut = (0.5 * (before + after)).clamp(low, high);
                    (Side::Range(low, cut), Side::Range(cut, high))
                }
                // Choices that no trial here has go to the second part.
                Side::Choices(all, count) => {
                    (Side::Choices(set, count), Side::Choices(all & !set, count))
                }
            };
            best = Some(Split {
                axis: at,
                low,
                high,
                gain,
            });
        }
    }
    best
}

/// Puts rows with the same choice together, in the order of the mean target of each.
fn by_mean(rows: &mut [(f64, f64)]) {
    let mut sums = std::collections::BTreeMap::<u64, (f64, f64)>::new();
    for (place, target) in rows.iter() {
        let sum = sums.entry(place.to_bits()).or_default();
        *sum = (sum.0 + target, sum.1 + 1.0);
    }
    let mean = |place: f64| sums.get(&place.to_bits()).map_or(0.0, |(sum, n)| sum / n);
    rows.sort_by(|a, b| mean(a.0).total_cmp(&mean(b.0)).then(a.0.total_cmp(&b.0)));
}

/// Where to cut rows in two: the gain, the places before and after the cut, and the choices before it.
#[expect(clippy::cast_precision_loss, reason = "counts of trials")]
fn best_cut(rows: &[(f64, f64)]) -> Option<(f64, f64, f64, u64)> {
    let total: f64 = rows.iter().map(|row| row.1).sum();
    let n = rows.len() as f64;
    let (mut sum, mut count, mut set) = (0.0, 0.0, 0);
    let mut best = None;
    let mut most = 1e-12;
    for pair in rows.windows(2) {
        let [(before, target), (after, _)] = pair else {
            continue;
        };
        sum += target;
        count += 1.0;
        set |= bit(*before);
        if before.to_bits() == after.to_bits() {
            continue;
        }
        // What the squares of the means gain, which is what the variance loses.
        let rest = total - sum;
        let gain = sum * sum / count + rest * rest / (n - count) - total * total / n;
        if gain > most {
            most = gain;
            best = Some((gain, *before, *after, set));
        }
    }
    best
}
