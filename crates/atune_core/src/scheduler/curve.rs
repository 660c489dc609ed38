//! What schedulers read off reports. Of several objectives the first one counts for nothing here: a study with
//! more than one has no order in which a trial could be behind.

use super::SchedulerView;
use crate::replica::Values;
use crate::study::PastTrial;
use crate::trial::{Direction, TrialState};

/// The direction of a study with one objective.
pub(super) fn direction(view: &SchedulerView<'_>) -> Option<Direction> {
    match view.config.directions.as_slice() {
        [only] => Some(*only),
        _ => None,
    }
}

/// A report of one value, signed so that less is better. May be `NaN`.
pub(super) fn signed(direction: Direction, values: &Values) -> f64 {
    values
        .first()
        .map_or(f64::NAN, |value| direction.signed(value.0))
}

/// The value at exactly this step, if one was reported and is a number. The later of two counts.
pub(super) fn value_at(direction: Direction, reports: &[(u64, Values)], step: u64) -> Option<f64> {
    let (_, values) = reports.iter().rev().find(|(at, _)| *at == step)?;
    Some(signed(direction, values)).filter(|value| !value.is_nan())
}

/// The best value so far; `None` when nothing was reported but `NaN`.
pub(super) fn best(direction: Direction, reports: &[(u64, Values)]) -> Option<f64> {
    let values = reports.iter().map(|(_, values)| signed(direction, values));
    values
        .filter(|value| !value.is_nan())
        .min_by(f64::total_cmp)
}

/// Whether the last report is one that a scheduler looks at which waits for `warmup` and then looks once per
/// `interval` steps. Answers the last report.
pub(super) fn due(reports: &[(u64, Values)], warmup: u64, interval: u64) -> Option<&(u64, Values)> {
    let (last, earlier) = reports.split_last()?;
    let slot = |step: u64| Some(step.checked_sub(warmup)? / interval.max(1));
    let now = slot(last.0)?;
    let is_looked_at = earlier.iter().any(|(step, _)| slot(*step) == Some(now));
    (!is_looked_at).then_some(last)
}

/// The other trials that are complete.
pub(super) fn complete<'a>(view: &SchedulerView<'a>) -> impl Iterator<Item = &'a PastTrial> {
    others(view).filter(|past| past.state == TrialState::Complete)
}

/// The other trials.
pub(super) fn others<'a>(view: &SchedulerView<'a>) -> impl Iterator<Item = &'a PastTrial> + Clone {
    numbered(view).map(|(_, past)| past)
}

/// The other trials with their numbers.
pub(super) fn numbered<'a>(
    view: &SchedulerView<'a>,
) -> impl Iterator<Item = (u64, &'a PastTrial)> + Clone {
    let own = view.number;
    (0u64..)
        .zip(view.history.trials())
        .filter(move |(number, _)| *number != own)
}

/// The last step of the complete trial with the lowest number: how far trials go, once one went.
pub(super) fn full_length(view: &SchedulerView<'_>) -> Option<u64> {
    let first = complete(view).find(|past| !past.reports.is_empty())?;
    first.reports.iter().map(|(step, _)| *step).max()
}
