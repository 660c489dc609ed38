//! Which parameters matter: how much of the difference between trials each explains.
//!
//! Looked at are the complete trials whose values are finite, and the parameters that all of them have: what
//! a conditional parameter explains cannot be told from which branch its trials took. The shares add up to
//! 1, unless no parameter explains anything: then all are 0.

mod forest;
mod tree;

use serde::{Deserialize, Serialize};

use crate::rng::KeyedRng;
use crate::space::Distribution;
use crate::study::History;

/// How importance is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Functional analysis of variance over a random forest (Hutter, Hoos, Leyton-Brown 2014): the
    /// variance of what the forest expects of each value of a parameter, all others being averaged over
    /// the whole space.
    #[default]
    Fanova,
    /// The variance between groups of trials with similar values, as a share of the whole (the correlation
    /// ratio, less what chance gives). Cheap: sorting is all it takes.
    Variance,
}

/// The share of one parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// From 0 to 1.
    pub share: f64,
}

/// The shares of the parameters in an objective, the largest first.
pub fn importance(history: &History, objective: usize, method: Method) -> Vec<Share> {
    let mut trials = Vec::new();
    let mut targets = Vec::new();
    for number in history.with_values() {
        let values = history.signed_values(number);
        if let Some(value) = values.and_then(|values| values.get(objective).copied())
            && value.is_finite()
        {
            trials.push(number);
            targets.push(value);
        }
    }
    let mut axes = Vec::new();
    for column in history.columns() {
        let places: Option<Vec<f64>> = trials
            .iter()
            .map(|number| {
                column
                    .get(*number)
                    .map(|value| column.dist().to_unit(value))
            })
            .collect();
        if let (Some(places), false) = (places, column.dist().value_count() == Some(1)) {
            let key = column.key();
            axes.push((key.name.clone(), Axis::of(&key.dist, places)));
        }
    }
    axes.sort_by(|a, b| a.0.cmp(&b.0));
    let (names, axes): (Vec<String>, Vec<Axis>) = axes.into_iter().unzip();
    let targets = spread_evenly(targets);
    let parts = match method {
        Method::Fanova => forest::parts(&axes, &targets, &mut KeyedRng::new(0, 0, "fanova")),
        Method::Variance => axes.iter().map(|axis| between(axis, &targets)).collect(),
    };
    let total: f64 = parts.iter().sum();
    let share = |part: f64| if total > 0.0 { part / total } else { 0.0 };
    let mut shares: Vec<Share> = names
        .into_iter()
        .zip(parts)
        .map(|(name, part)| Share {
            name,
            share: share(part),
        })
        .collect();
    shares.sort_by(|a, b| {
        b.share
            .total_cmp(&a.share)
            .then_with(|| a.name.cmp(&b.name))
    });
    shares
}

/// One parameter of all trials.
#[derive(Clone, Debug)]
struct Axis {
    /// How many choices there are, if it is one of few; otherwise it is a number.
    choices: Option<u32>,
    /// Places in the unit interval, or the choices by their numbers.
    places: Vec<f64>,
}

/// Choices of more than this are taken as numbers.
const CHOICES_MAX: u64 = 64;

impl Axis {
    fn of(dist: &Distribution, places: Vec<f64>) -> Self {
        let count = dist
            .value_count()
            .filter(|count| *count <= CHOICES_MAX && !dist.is_numerical());
        let choices = count.and_then(|count| u32::try_from(count).ok());
        let places = match choices {
            Some(count) => places
                .iter()
                .map(|place| (place * f64::from(count)).floor())
                .collect(),
            None => places,
        };
        Self { choices, places }
    }
}

/// The targets over their range, so that none overflows when squared.
fn spread_evenly(targets: Vec<f64>) -> Vec<f64> {
    let low = targets.iter().copied().fold(f64::INFINITY, f64::min);
    let high = targets.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Halves: the width of finite numbers need not be finite.
    let width = high / 2.0 - low / 2.0;
    let place = |value: f64| {
        if width > 0.0 {
            (value / 2.0 - low / 2.0) / width
        } else {
            0.0
        }
    };
    targets.into_iter().map(place).collect()
}

/// The variance between groups of an axis, as a share of the whole and less what chance gives.
#[expect(clippy::cast_precision_loss, reason = "counts of trials")]
fn between(axis: &Axis, targets: &[f64]) -> f64 {
    let n = targets.len();
    let mut order: Vec<(f64, f64)> = axis
        .places
        .iter()
        .copied()
        .zip(targets.iter().copied())
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    // About the square root of the trials in each group; equal places are never parted.
    let size = if axis.choices.is_some() {
        1
    } else {
        n.isqrt().max(2)
    };
    let mut groups: Vec<Vec<f64>> = Vec::new();
    let mut last = f64::NAN;
    for (place, target) in order {
        match groups.last_mut() {
            Some(group) if group.len() < size || place.to_bits() == last.to_bits() => {
                group.push(target);
            }
            _ => groups.push(vec![target]),
        }
        last = place;
    }
    let mean = targets.iter().sum::<f64>() / n.max(1) as f64;
    let total: f64 = targets.iter().map(|t| (t - mean) * (t - mean)).sum();
    let explained: f64 = groups
        .iter()
        .map(|group| {
            let off = group.iter().sum::<f64>() / group.len() as f64 - mean;
            group.len() as f64 * off * off
        })
        .sum();
    let (free, rest) = (
        groups.len().saturating_sub(1) as f64,
        n.saturating_sub(groups.len()) as f64,
    );
    if total <= 0.0 || rest <= 0.0 {
        return 0.0;
    }
    let chance = free * (total - explained) / rest;
    ((explained - chance) / total).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(n: usize) -> (Vec<Axis>, Vec<f64>) {
        let mut rng = KeyedRng::new(1, 0, "importance");
        let mut number = || Axis {
            choices: None,
            places: (0..n).map(|_| rng.unit()).collect(),
        };
        let (strong, weak, none) = (number(), number(), number());
        let choice = Axis {
            choices: Some(3),
            places: number().places.iter().map(|p| (p * 3.0).floor()).collect(),
        };
        let target = |at: usize| {
            let of_choice = match choice.places[at] {
                place if place < 0.5 => 0.0,
                place if place < 1.5 => 1.0,
                _ => 0.3,
            };
            6.0 * (strong.places[at] - 0.5).powi(2) * 4.0 + weak.places[at] + of_choice
        };
        let targets = (0..n).map(target).collect();
        (vec![strong, weak, none, choice], targets)
    }

    fn ordered(parts: &[f64]) {
        let [strong, weak, none, choice] = parts else {
            panic!("four parts: {parts:?}");
        };
        assert!(strong > &(3.0 * weak), "{parts:?}");
        assert!(strong > &(3.0 * choice), "{parts:?}");
        assert!(weak > &(2.0 * none) && choice > &(2.0 * none), "{parts:?}");
    }

    #[test]
    fn both_methods_tell_strong_from_weak_from_none() {
        let (axes, targets) = axes(400);
        let targets = spread_evenly(targets);
        ordered(&forest::parts(
            &axes,
            &targets,
            &mut KeyedRng::new(0, 0, "fanova"),
        ));
        let parts: Vec<f64> = axes.iter().map(|axis| between(axis, &targets)).collect();
        ordered(&parts);
    }

    #[test]
    fn a_forest_gives_about_the_variances_of_a_sum() {
        // Var(24 (x - 1/2)²) = 576/180 = 3.2, Var(x) = 1/12, and of the choices 0.1756.
        let (axes, targets) = axes(800);
        let parts = forest::parts(&axes, &targets, &mut KeyedRng::new(0, 0, "fanova"));
        let total = 3.2 + 1.0 / 12.0 + 0.1756;
        assert!((parts[0] - 3.2 / total).abs() < 0.05, "{parts:?}");
        assert!((parts[1] - 1.0 / 12.0 / total).abs() < 0.03, "{parts:?}");
        assert!((parts[3] - 0.1756 / total).abs() < 0.03, "{parts:?}");
    }

    #[test]
    fn equal_and_few_targets_give_nothing_and_no_panic() {
        let (axes, _) = axes(5);
        for targets in [vec![0.0; 5], vec![1.0, 0.0, 0.0, 0.0, 0.0]] {
            let parts = forest::parts(&axes, &targets, &mut KeyedRng::new(0, 0, "fanova"));
            assert!(
                parts.iter().all(|part| part.is_finite() && *part >= 0.0),
                "{parts:?}"
            );
            assert!(axes.iter().all(|axis| between(axis, &targets).is_finite()));
        }
        assert!(forest::parts(&[], &[], &mut KeyedRng::new(0, 0, "fanova")).is_empty());
        let huge = spread_evenly(vec![f64::MAX, f64::MIN, 0.0]);
        assert_eq!(huge, [1.0, 0.0, 0.5]);
    }
}
