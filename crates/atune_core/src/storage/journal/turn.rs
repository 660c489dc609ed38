//! How long a handle keeps the lease while others wait for it: one commit, or two when the second is known
//! to follow the first at once.
//!
//! A worker that tells how a trial ended asks for the next one right away. A change of owners costs more
//! than the commit itself, so both are written in one turn. Which commits are followed is learned: for
//! each kind of operation that ended a commit, whether the last one was.

use std::collections::BTreeMap;
use std::time::Duration;

use super::storage::nanos;

/// How soon after the end of a commit the next one counts as following it, and how long at most the lease
/// is kept for it.
pub(super) const SOON: Duration = Duration::from_micros(200);
/// Commits in a turn while others wait. Whoever waits is served within two commits of the holder.
const COMMITS_MAX: u32 = 2;

/// The commits of one handle, as far as they tell what will follow.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Commits under the lease that is held.
    commits: u32,
    /// The last commit: the kind of its last operation, and when it ended.
    last: Option<(&'static str, u64)>,
    /// Whether the last commit of a kind was followed at once.
    is_followed: BTreeMap<&'static str, bool>,
    /// Until when the lease is kept although others wait.
    kept_until: Option<u64>,
}

impl Turn {
    /// The lease was acquired.
    pub(super) fn begin(&mut self) {
        self.commits = 0;
        self.kept_until = None;
    }

    /// Somebody asks for a commit.
    pub(super) fn note_asked(&mut self, now_ns: u64) {
        if let Some((kind, ended)) = self.last.take() {
            let is_soon = now_ns.saturating_sub(ended) <= nanos(SOON);
            self.is_followed.insert(kind, is_soon);
        }
    }

    /// A commit was published. Answers whether the lease is worth keeping although others wait.
    pub(super) fn note_published(&mut self, kind: &'static str) -> bool {
        self.commits += 1;
        self.kept_until = None;
        self.commits < COMMITS_MAX && self.is_followed.get(kind) == Some(&true)
    }

    /// Those who asked for the commit are told that it is done.
    pub(super) fn note_ended(&mut self, kind: &'static str, now_ns: u64, keeps: bool) {
        self.last = Some((kind, now_ns));
        self.kept_until = keeps.then(|| now_ns.saturating_add(nanos(SOON)));
    }

    /// Until when the lease is kept for a commit that should follow; `None` if it is not kept for one.
    pub(super) fn kept_until(&self) -> Option<u64> {
        self.kept_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000_000;

    /// A commit that is asked for at `asked` and ends at once. Answers whether the lease is kept after it.
    fn commit(turn: &mut Turn, kind: &'static str, asked: u64) -> bool {
        turn.note_asked(asked);
        let keeps = turn.note_published(kind);
        turn.note_ended(kind, asked, keeps);
        keeps
    }

    #[test]
    fn the_lease_is_kept_only_after_what_was_followed_at_once_before() {
        let mut turn = Turn::default();
        turn.begin();
        assert!(!commit(&mut turn, "end", NOW), "nothing is known yet");
        turn.begin();
        assert!(!commit(&mut turn, "start", NOW + 1000));
        turn.begin();
        let late = NOW + 1000 + nanos(SOON) + 1;
        assert!(
            commit(&mut turn, "end", late),
            "an end was followed by a start"
        );
        assert_eq!(turn.kept_until(), Some(late + nanos(SOON)));
        turn.begin();
        assert!(
            !commit(&mut turn, "start", late + 1),
            "a start was followed too late"
        );
    }

    #[test]
    fn a_turn_has_two_commits_at_most() {
        let mut turn = Turn::default();
        turn.begin();
        for _ in 0..3 {
            commit(&mut turn, "end", NOW);
        }
        turn.begin();
        assert!(commit(&mut turn, "end", NOW));
        assert!(!commit(&mut turn, "end", NOW));
        assert!(!commit(&mut turn, "end", NOW));
    }

    #[test]
    fn what_was_not_followed_at_once_is_not_waited_for_again() {
        let mut turn = Turn::default();
        turn.begin();
        commit(&mut turn, "end", NOW);
        turn.begin();
        commit(&mut turn, "end", NOW + 1);
        turn.begin();
        assert!(!commit(&mut turn, "end", NOW + 10 * nanos(SOON)));
    }
}
