//! Which trials changed last: a list in the order of their last change, linked through one entry per
//! trial, so that a change costs the same however long the history is.

use crate::trial::TrialId;

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq)]
struct Link {
    /// The sequence number of the trial's last change.
    seq: u64,
    earlier: u32,
    later: u32,
}

/// The list. Trials are entered by their identity, from 0 without gaps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChangeList {
    links: Vec<Link>,
    newest: u32,
}

impl Default for ChangeList {
    fn default() -> Self {
        Self {
            links: Vec::new(),
            newest: NONE,
        }
    }
}

impl ChangeList {
    /// Notes that a trial changed at `seq`.
    pub(super) fn touch(&mut self, trial: TrialId, seq: u64) {
        let Ok(place) = u32::try_from(trial.0) else {
            return;
        };
        if place as usize == self.links.len() {
            self.links.push(Link {
                seq,
                earlier: NONE,
                later: NONE,
            });
        } else {
            self.unlink(place);
        }
        let newest = self.newest;
        if let Some(link) = self.link(newest) {
            link.later = place;
        }
        if let Some(link) = self.link(place) {
            *link = Link {
                seq,
                earlier: newest,
                later: NONE,
            };
        }
        self.newest = place;
    }

    fn unlink(&mut self, place: u32) {
        let Some(Link { earlier, later, .. }) = self.link(place).cloned() else {
            return;
        };
        match self.link(later) {
            Some(link) => link.earlier = earlier,
            None => self.newest = earlier,
        }
        if let Some(link) = self.link(earlier) {
            link.later = later;
        }
    }

    fn link(&mut self, place: u32) -> Option<&mut Link> {
        self.links.get_mut(place as usize)
    }

    /// The trials that changed after `seq`, the last changed first.
    pub(super) fn since(&self, seq: u64) -> impl Iterator<Item = TrialId> {
        let link = |place: u32| self.links.get(place as usize).map(|link| (place, link));
        std::iter::successors(link(self.newest), move |(_, at)| link(at.earlier))
            .take_while(move |(_, at)| at.seq > seq)
            .map(|(place, _)| TrialId(u64::from(place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_list_answers_what_a_table_of_last_changes_answers(
            touches in proptest::collection::vec(0u64..12, 0..80), since in 0u64..80,
        ) {
            let mut list = ChangeList::default();
            let mut table: Vec<u64> = Vec::new();
            for (seq, trial) in (1u64..).zip(touches) {
                let trial = trial.min(table.len() as u64);
                list.touch(TrialId(trial), seq);
                let place = usize::try_from(trial).unwrap();
                if place == table.len() { table.push(seq) } else { table[place] = seq }
            }
            let mut expected: Vec<(u64, u64)> =
                (0u64..).zip(&table).filter(|(_, s)| **s > since).map(|(t, s)| (*s, t)).collect();
            expected.sort_unstable_by(|a, b| b.cmp(a));
            let found: Vec<u64> = list.since(since).map(|t| t.0).collect();
            prop_assert_eq!(found, expected.into_iter().map(|(_, t)| t).collect::<Vec<_>>());
        }
    }
}
