//! Which branch of a space with conditions a trial looks into.
//!
//! Good trials of one branch soon outnumber those of all others, and with them the draws: a better branch
//! whose first trials were poor would never be looked at again. So some trials hold a choice that decides
//! which parameters there are at a random value, and see only the trials that have it: each branch is given
//! the chance to become as good as it can.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::replica::ParamKey;
use crate::rng::KeyedRng;
use crate::study::{Column, History};
use crate::trial::TrialState;

/// Which share of the trials of a space with branches looks into one that is drawn.
const SHARE: f64 = 0.15;

/// So many trials, the last ones, tell what a choice decides.
const LOOKED_AT_MAX: usize = 256;

/// A choice and the value at which a trial holds it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    /// The choice.
    pub(super) key: Arc<ParamKey>,
    /// The place of the value, as the column has it.
    pub(super) value: f64,
}

/// The branch that a trial looks into, if it is one that looks.
pub(super) fn drawn(
    history: &History,
    groups: &[Vec<Arc<ParamKey>>],
    rng: &mut KeyedRng,
) -> Option<Held> {
    if groups.len() < 2 || rng.unit() >= SHARE {
        return None;
    }
    let deciding = deciding(history, groups);
    let key = deciding.get(rng.place(deciding.len().max(1)))?;
    let count = key.dist.value_count()?;
    Some(Held {
        key: Arc::clone(key),
        value: key.dist.value_at(rng.below(count)).as_f64(),
    })
}

/// The choices that every trial has and of which each value always or never comes with some other parameters.
fn deciding(history: &History, groups: &[Vec<Arc<ParamKey>>]) -> Vec<Arc<ParamKey>> {
    let all = history.finished_count();
    let column = |key: &Arc<ParamKey>| history.column(&key.name);
    let is_common = |key: &&Arc<ParamKey>| column(key).is_some_and(|c| c.finished_count() == all);
    let choices = groups.iter().flatten().filter(is_common);
    let choices = choices.filter(|key| !key.dist.is_numerical());
    let conditional: Vec<&Column> = groups
        .iter()
        .filter_map(|group| column(group.first()?))
        .filter(|column| column.finished_count() < all)
        .collect();
    let numbers = (0..history.trials().len() as u64).rev();
    let is_complete = |number: &u64| {
        let past = history.trial(*number);
        past.is_some_and(|past| past.state == TrialState::Complete)
    };
    let ended: Vec<u64> = numbers.filter(is_complete).take(LOOKED_AT_MAX).collect();
    let decides = |choice: &Column| {
        let mut others = conditional.iter();
        others.any(|other| is_decided(choice, other, &ended))
    };
    choices
        .filter(|key| column(key).is_some_and(decides))
        .cloned()
        .collect()
}

/// Whether a parameter is there with some values of a choice and not with the others.
fn is_decided(choice: &Column, other: &Column, ended: &[u64]) -> bool {
    let mut seen = BTreeMap::<u64, bool>::new();
    for number in ended {
        let Some(value) = choice.get(*number) else {
            continue;
        };
        let is_there = other.get(*number).is_some();
        if *seen.entry(value.to_bits()).or_insert(is_there) != is_there {
            return false;
        }
    }
    seen.values().any(|is_there| *is_there) && !seen.values().all(|is_there| *is_there)
}
