//! Functional analysis of variance over a forest of regression trees.

use super::Axis;
use super::tree::{Leaf, Side, bit, grow};
use crate::rng::KeyedRng;

/// How many trees there are.
const TREES: usize = 64;

/// The share of the variance that each of the first axes explains alone: the mean over the trees.
pub(super) fn parts(axes: &[Axis], first: usize, targets: &[f64], rng: &mut KeyedRng) -> Vec<f64> {
    let mut sums = vec![0.0; first.min(axes.len())];
    let mut count = 0.0;
    for _ in 0..TREES {
        // As many trials as there are, drawn with replacement.
        let sample = targets.iter().map(|_| rng.place(targets.len())).collect();
        let leaves = grow(axes, targets, sample);
        let mean: f64 = leaves.iter().map(|leaf| leaf.volume() * leaf.value).sum();
        let off = |leaf: &Leaf| leaf.value - mean;
        let variance: f64 = leaves
            .iter()
            .map(|leaf| leaf.volume() * off(leaf) * off(leaf))
            .sum();
        if variance <= 1e-15 {
            continue;
        }
        count += 1.0;
        for (at, (sum, axis)) in sums.iter_mut().zip(axes).enumerate() {
            *sum += marginal_variance(&leaves, at, axis, mean) / variance;
        }
    }
    let each = sums.into_iter();
    each.map(|sum| if count > 0.0 { sum / count } else { 0.0 })
        .collect()
}

/// The variance of what a tree expects of the places of one axis, over all places of the others.
fn marginal_variance(leaves: &[Leaf], at: usize, axis: &Axis, mean: f64) -> f64 {
    let mut variance = 0.0;
    if let Some(count) = axis.choices {
        for choice in 0..count {
            let choice = bit(f64::from(choice));
            let here = |side: Side| matches!(side, Side::Choices(set, _) if set & choice != 0);
            let off = expected(leaves, at, here) - mean;
            variance += off * off / f64::from(count);
        }
        return variance;
    }
    // What leaves add where they begin, and take away where they end.
    let mut steps: Vec<(f64, f64)> = Vec::with_capacity(2 * leaves.len());
    for leaf in leaves {
        if let Some(Side::Range(low, high)) = leaf.sides.get(at).copied()
            && high > low
        {
            let height = leaf.value * leaf.volume() / (high - low);
            steps.extend([(low, height), (high, -height)]);
        }
    }
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut height, mut from) = (0.0, 0.0);
    for (place, step) in steps {
        variance += (place - from) * (height - mean) * (height - mean);
        height += step;
        from = place;
    }
    variance
}

/// What a tree expects at one place of an axis.
fn expected(leaves: &[Leaf], at: usize, is_here: impl Fn(Side) -> bool) -> f64 {
    let part = |leaf: &Leaf| {
        let side = leaf.sides.get(at).copied().filter(|side| is_here(*side))?;
        Some(leaf.value * leaf.volume() / side.share())
    };
    leaves.iter().filter_map(part).sum()
}
