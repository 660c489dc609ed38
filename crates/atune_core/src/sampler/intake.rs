//! Which trials a sampler that works in generations has taken in.
//!
//! Trials end in any order. What was taken in is kept as the number before which nothing is left to take,
//! and the numbers from there on that were taken already: few, however long the study.

use serde::{Deserialize, Serialize};

use super::SamplerView;
use crate::study::PastTrial;
use crate::trial::TrialState;

/// The trials that were taken in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Intake {
    /// Trials before this one were taken in, or never will be.
    first: u64,
    /// Those from there on that were taken in.
    taken: Vec<u64>,
}

impl Intake {
    /// The trials that ended, are `fit`, and were not taken in yet, by number.
    pub(super) fn waiting<'a>(
        &'a self,
        view: &'a SamplerView<'_>,
        fit: impl Fn(u64, &PastTrial) -> bool + 'a,
    ) -> impl Iterator<Item = u64> + 'a {
        let start = usize::try_from(self.first).unwrap_or(usize::MAX);
        let trials = (self.first..).zip(view.history.trials().iter().skip(start));
        trials
            .filter(move |(number, past)| {
                past.state.is_terminal() && !self.taken.contains(number) && fit(*number, past)
            })
            .map(|(number, _)| number)
    }

    /// Takes trials in.
    pub(super) fn take(
        &mut self,
        view: &SamplerView<'_>,
        numbers: impl IntoIterator<Item = u64>,
        fit: impl Fn(u64, &PastTrial) -> bool,
    ) {
        self.taken.extend(numbers);
        while let Some(past) = view.history.trial(self.first) {
            let may_come = !past.state.is_terminal() || fit(self.first, past);
            if may_come && !self.taken.contains(&self.first) {
                break;
            }
            self.taken.retain(|number| *number != self.first);
            self.first += 1;
        }
    }
}

/// Whether a trial ended with something that it can be ranked by.
pub(super) fn is_ranked(past: &PastTrial) -> bool {
    matches!(past.state, TrialState::Complete | TrialState::Pruned)
}
