//! The trials of a study that wait to be claimed, or to be gone on with, kept up to date at the cost of what changed.

use std::collections::BTreeSet;

use crate::replica::Replica;
use crate::trial::{StudyId, TrialId, TrialState};

/// Those with a template or parameters first, the oldest first among each kind.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingList {
    seq: u64,
    /// Whether it has neither, and which it is.
    trials: BTreeSet<(bool, TrialId)>,
}

impl WaitingList {
    /// The list at a later time.
    pub(super) fn at(&self, replica: &Replica, study: StudyId) -> Self {
        let mut next = self.clone();
        next.seq = replica.seq();
        for trial in replica.changed_since(self.seq) {
            // What was begun has parameters, and goes before what has none yet.
            let is_bare = trial.template().is_none() && trial.params.is_empty();
            for place in [(true, trial.id), (false, trial.id)] {
                next.trials.remove(&place);
            }
            let is_free = matches!(trial.state, TrialState::Waiting | TrialState::Paused);
            if is_free && trial.managed && trial.study == study {
                next.trials.insert((is_bare, trial.id));
            }
        }
        next
    }

    /// The trials, who comes first at first.
    pub(super) fn trials(&self) -> impl Iterator<Item = TrialId> {
        self.trials.iter().map(|(_, trial)| *trial)
    }
}
