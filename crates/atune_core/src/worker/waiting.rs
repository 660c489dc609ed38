//! The trials of a study that wait to be claimed, kept up to date at the cost of what changed.

use std::collections::BTreeSet;

use crate::replica::Replica;
use crate::trial::{StudyId, TrialId, TrialState};

/// Trials with a template first, the oldest first among each kind.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingList {
    seq: u64,
    /// Whether it has no template, and which it is.
    trials: BTreeSet<(bool, TrialId)>,
}

impl WaitingList {
    /// The list at a later time.
    pub(super) fn at(&self, replica: &Replica, study: StudyId) -> Self {
        let mut next = self.clone();
        next.seq = replica.seq();
        for trial in replica.changed_since(self.seq) {
            let place = (trial.template().is_none(), trial.id);
            let is_waiting = trial.state == TrialState::Waiting && trial.managed;
            if is_waiting && trial.study == study {
                next.trials.insert(place);
            } else {
                next.trials.remove(&place);
            }
        }
        next
    }

    /// The trials, who comes first at first.
    pub(super) fn trials(&self) -> impl Iterator<Item = TrialId> {
        self.trials.iter().map(|(_, trial)| *trial)
    }
}
