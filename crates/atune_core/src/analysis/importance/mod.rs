//! Which parameters matter: how much of the difference between trials each explains.
//!
//! Looked at are the complete trials whose values are finite. A parameter that only some of them have is
//! measured over these alone, and what it explains there counts as much as the variance among them has a
//! part in the whole. That it is there at all is explained by whatever decides about it, not by itself. The
//! shares add up to 1, unless no parameter explains anything: then all are 0.

mod forest;
mod tree;

use std::collections::BTreeMap;

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
        if column.dist().value_count() == Some(1) {
            continue;
        }
        let place = |number: &u64| {
            let value = column.get(*number);
            value.map_or(f64::NAN, |value| column.dist().to_unit(value))
        };
        let key = column.key();
        let axis = Axis::of(&key.dist, trials.iter().map(place).collect());
        if axis.places.iter().any(|place| !place.is_nan()) {
            axes.push((key.name.clone(), axis));
        }
    }
    axes.sort_by(|a, b| a.0.cmp(&b.0));
    let (names, axes): (Vec<String>, Vec<Axis>) = axes.into_iter().unzip();
    let parts = parts(&axes, &spread_evenly(targets), method);
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

/// What each axis explains of the variance of the targets: those that the same trials have are measured
/// together, over these trials.
fn parts(axes: &[Axis], targets: &[f64], method: Method) -> Vec<f64> {
    let mut groups = BTreeMap::<Vec<usize>, Vec<usize>>::new();
    for (at, axis) in axes.iter().enumerate() {
        groups.entry(axis.present()).or_default().push(at);
    }
    let whole = squares(targets);
    let mut parts = vec![0.0; axes.len()];
    for (present, own) in groups {
        let targets: Vec<f64> = present
            .iter()
            .filter_map(|trial| targets.get(*trial).copied())
            .collect();
        let within = squares(&targets);
        if within <= 0.0 {
            continue;
        }
        let targets = spread_evenly(targets);
        let at_trials = |at: &usize| axes.get(*at).map(|axis| axis.of_trials(&present));
        let mut near: Vec<Axis> = own.iter().filter_map(at_trials).collect();
        let found: Vec<f64> = match method {
            Method::Fanova => {
                // The others take what is theirs, also what only some of these trials have: left to a tree
                // as noise it would be seen in parameters that explain nothing.
                let others = (0..axes.len()).filter(|at| !own.contains(at));
                near.extend(
                    others
                        .filter_map(|at| at_trials(&at))
                        .filter(Axis::is_anywhere),
                );
                let rng = &mut KeyedRng::new(0, 0, "fanova");
                forest::parts(&near, own.len(), &targets, rng)
            }
            Method::Variance => near.iter().map(|axis| between(axis, &targets)).collect(),
        };
        for (at, part) in own.into_iter().zip(found) {
            if let Some(own) = parts.get_mut(at) {
                *own = part * within / whole;
            }
        }
    }
    parts
}

/// The squared distances from the mean, all together.
#[expect(clippy::cast_precision_loss, reason = "a count of trials")]
fn squares(targets: &[f64]) -> f64 {
    let mean = targets.iter().sum::<f64>() / targets.len().max(1) as f64;
    targets.iter().map(|t| (t - mean) * (t - mean)).sum()
}

/// One parameter of all trials.
#[derive(Clone, Debug)]
struct Axis {
    /// How many choices there are, if it is one of few; otherwise it is a number.
    choices: Option<u32>,
    /// Places in the unit interval, or the choices by their numbers; of trials without the parameter no
    /// number.
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

    /// The trials that have the parameter.
    fn present(&self) -> Vec<usize> {
        let places = self.places.iter().enumerate();
        places
            .filter(|(_, place)| !place.is_nan())
            .map(|(trial, _)| trial)
            .collect()
    }

    fn is_anywhere(&self) -> bool {
        self.places.iter().any(|place| !place.is_nan())
    }

    /// The parameter of some of the trials.
    fn of_trials(&self, trials: &[usize]) -> Self {
        let place = |trial: &usize| self.places.get(*trial).copied();
        Self {
            choices: self.choices,
            places: trials.iter().filter_map(place).collect(),
        }
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
    let total = squares(targets);
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
        for method in [Method::Fanova, Method::Variance] {
            ordered(&parts(&axes, &targets, method));
        }
    }

    #[test]
    fn a_forest_gives_about_the_variances_of_a_sum() {
        // Var(24 (x - 1/2)²) = 576/180 = 3.2, Var(x) = 1/12, and of the choices 0.1756.
        let (axes, targets) = axes(800);
        let parts = parts(&axes, &targets, Method::Fanova);
        let total = 3.2 + 1.0 / 12.0 + 0.1756;
        assert!((parts[0] - 3.2 / total).abs() < 0.05, "{parts:?}");
        assert!((parts[1] - 1.0 / 12.0 / total).abs() < 0.03, "{parts:?}");
        assert!((parts[3] - 0.1756 / total).abs() < 0.03, "{parts:?}");
    }

    #[test]
    fn equal_and_few_targets_give_nothing_and_no_panic() {
        let (axes, _) = axes(5);
        for targets in [vec![0.0; 5], vec![1.0, 0.0, 0.0, 0.0, 0.0]] {
            let parts = parts(&axes, &targets, Method::Fanova);
            assert!(
                parts.iter().all(|part| part.is_finite() && *part >= 0.0),
                "{parts:?}"
            );
            assert!(axes.iter().all(|axis| between(axis, &targets).is_finite()));
        }
        assert!(parts(&[], &[], Method::Fanova).is_empty());
        let huge = spread_evenly(vec![f64::MAX, f64::MIN, 0.0]);
        assert_eq!(huge, [1.0, 0.0, 0.5]);
    }

    /// A switch, a number that it brings and that counts, one that it takes away and that does not, and one
    /// that is always there without counting.
    fn branching(n: usize) -> (Vec<Axis>, Vec<f64>) {
        let mut rng = KeyedRng::new(2, 0, "branches");
        let switch: Vec<f64> = (0..n).map(|_| (2.0 * rng.unit()).floor()).collect();
        let mut number = |keep: &dyn Fn(f64) -> bool| Axis {
            choices: None,
            places: switch
                .iter()
                .map(|on| (rng.unit(), *on))
                .map(|(place, on)| if keep(on) { place } else { f64::NAN })
                .collect(),
        };
        let brought = number(&|on| on > 0.5);
        let taken = number(&|on| on < 0.5);
        let always = number(&|_| true);
        let target = |place: &f64| if place.is_nan() { 0.0 } else { 3.0 * place };
        let targets = brought.places.iter().map(target).collect();
        let switch = Axis {
            choices: Some(2),
            places: switch,
        };
        (vec![switch, brought, taken, always], targets)
    }

    #[test]
    fn a_conditional_parameter_counts_as_much_as_its_trials_have_of_the_variance() {
        // Half of the trials are 0, the others even from 0 to 3: a variance of 0.9375. The switch explains
        // 1.5²/4 = 0.5625 of it, and the number 3²/12 = 0.75 in half of the trials: three fifths and two.
        let (axes, targets) = branching(600);
        let targets = spread_evenly(targets);
        for method in [Method::Fanova, Method::Variance] {
            let parts = parts(&axes, &targets, method);
            let expected = [0.6, 0.4, 0.0, 0.0];
            for (part, expected) in parts.iter().zip(expected) {
                assert!((part - expected).abs() < 0.06, "{method:?}: {parts:?}");
            }
        }
    }

    #[test]
    fn a_parameter_of_a_single_trial_explains_nothing() {
        let (mut axes, targets) = branching(40);
        let mut places = vec![f64::NAN; 40];
        places[7] = 0.5;
        axes.push(Axis {
            choices: None,
            places,
        });
        for method in [Method::Fanova, Method::Variance] {
            let parts = parts(&axes, &spread_evenly(targets.clone()), method);
            assert!(parts.iter().all(|part| part.is_finite()), "{parts:?}");
            assert!(parts[4] == 0.0, "{parts:?}");
        }
    }
}
