//! Which trials are good ones: those whose surroundings are looked at, and those that are kept away from.
//!
//! However long a study gets, only so many trials are taken: the best, those next to them, and of the rest
//! a selection that stands for all of it. So a suggestion costs the same after 500 trials as after 50,000.

use std::sync::Arc;

use super::branch::Held;
use super::volume;
use crate::replica::ParamKey;
use crate::sampler::SamplerView;
use crate::study::{Column, History};

/// The most good trials.
pub(super) const BELOW_MAX: usize = 25;

/// How many trials of the others are taken as they are, those next to the good ones; and how many stand for
/// the rest.
const NEXT_MAX: usize = 64;
const REST_MAX: usize = 48;

/// The most running trials that are taken, the last ones.
const PENDING_MAX: usize = 32;

/// Trials that have some parameters, in two parts.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Split {
    /// Good ones, the best first.
    pub(super) below: Vec<u64>,
    /// The others, each with what it counts for.
    pub(super) above: Vec<(u64, f64)>,
}

impl Split {
    /// Splits the trials that have all of `keys`, and the value that is held: a tenth of them are good,
    /// rounded up.
    pub(super) fn of(
        view: &SamplerView<'_>,
        keys: &[Arc<ParamKey>],
        held: Option<&Held>,
        with_pending: bool,
    ) -> Self {
        let history = view.history;
        let columns: Vec<&Column> = keys
            .iter()
            .filter_map(|key| history.column(&key.name))
            .collect();
        if columns.len() != keys.len() {
            return Self::default();
        }
        let scales: Vec<_> = keys.iter().map(|key| key.dist.scale()).collect();
        let held = held.and_then(|held| Some((history.column(&held.key.name)?, held.value)));
        let is_held = |number: u64| {
            held.is_none_or(|(column, value)| {
                let own = column.get(number);
                own.is_some_and(|own| own.to_bits() == value.to_bits())
            })
        };
        let has_all = |number: u64| {
            is_held(number)
                && columns.iter().zip(&scales).all(|(column, scale)| {
                    let value = column.get(number);
                    // Where ranges changed, only what lies within the present one tells something.
                    value.is_some_and(|value| column.is_steady() || scale.holds(value))
                })
        };
        let count = columns.iter().map(|column| column.finished_count()).min();
        let mut count = count.unwrap_or_default();
        if held.is_some() {
            let ranked = history.ranking().iter();
            let holding = ranked.filter(|rank| is_held(rank.number));
            count = holding.take(count.min(10 * BELOW_MAX)).count();
        }
        let below_count = count.div_ceil(10).min(BELOW_MAX);
        let mut split = if history.directions().len() == 1 {
            Self::of_ranking(history, below_count, has_all)
        } else {
            Self::of_fronts(history, below_count, has_all)
        };
        if with_pending {
            let mut pending: Vec<u64> = view.pending().filter(|n| has_all(*n)).collect();
            let surplus = pending.len().saturating_sub(PENDING_MAX);
            split
                .above
                .extend(pending.drain(surplus..).map(|number| (number, 1.0)));
        }
        split
    }

    fn of_ranking(history: &History, below_count: usize, has_all: impl Fn(u64) -> bool) -> Self {
        let ranking = history.ranking();
        let (mut below, mut above) = (Vec::new(), Vec::new());
        let mut seen = 0;
        for rank in ranking {
            if above.len() == NEXT_MAX {
                break;
            }
            seen += 1;
            if !has_all(rank.number) {
            } else if below.len() < below_count {
                below.push(rank.number);
            } else {
                above.push((rank.number, 1.0));
            }
        }
        let rest = ranking.get(seen..).unwrap_or_default();
        let rest = selection(rest.len(), |at| rest.get(at).map(|rank| rank.number));
        above.extend(rest.into_iter().filter(|(number, _)| has_all(*number)));
        Self { below, above }
    }

    fn of_fronts(history: &History, below_count: usize, has_all: impl Fn(u64) -> bool) -> Self {
        let (mut below, mut others) = (Vec::new(), Vec::new());
        for front in history.fronts().all() {
            let mut front: Vec<u64> = front.iter().copied().filter(|n| has_all(*n)).collect();
            let free = below_count.saturating_sub(below.len());
            if free > 0 && front.len() > 1 {
                front = volume::by_contribution(history, front);
            }
            others.extend(front.split_off(free.min(front.len())));
            below.extend(front);
        }
        let rest = others.split_off(NEXT_MAX.min(others.len()));
        let mut above: Vec<(u64, f64)> = others.into_iter().map(|number| (number, 1.0)).collect();
        above.extend(selection(rest.len(), |at| rest.get(at).copied()));
        Self { below, above }
    }
}

/// Evenly spaced items of a list, each with how many it stands for.
fn selection(len: usize, item: impl Fn(usize) -> Option<u64>) -> Vec<(u64, f64)> {
    let count = len.min(REST_MAX);
    #[expect(clippy::cast_precision_loss, reason = "counts of trials")]
    let weight = if count == 0 {
        0.0
    } else {
        len as f64 / count as f64
    };
    (0..count)
        .filter_map(|nth| item((2 * nth + 1) * len / (2 * count)))
        .map(|number| (number, weight))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_stands_for_the_whole_list() {
        for len in [0u32, 1, 47, 48, 49, 1000, 99_999] {
            let (end, len) = (f64::from(len), len as usize);
            let chosen = selection(len, |at| Some(at as u64));
            assert_eq!(chosen.len(), len.min(REST_MAX));
            let total: f64 = chosen.iter().map(|(_, weight)| weight).sum();
            assert!((total - end).abs() < 1e-6);
            assert!(chosen.windows(2).all(|pair| pair[0].0 < pair[1].0));
            assert!(chosen.iter().all(|(at, _)| *at < len as u64));
        }
    }
}
