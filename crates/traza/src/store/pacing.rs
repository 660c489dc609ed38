//! How quickly batches come while the buffer is more than half full: about as quickly as it is sealed, so that they wait
//! briefly and often instead of all for one seal.

use std::time::{Duration, Instant};

/// No batch waits longer before the buffer is full.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// What a span is taken to need before the first seal has shown it: otherwise the first batches would fill the buffer, and
/// then wait for all of that seal.
const NS_PER_SPAN: u128 = 15_000;

/// When the next batch may come.
#[derive(Debug)]
pub(super) struct Pacing {
    /// What the last seal took for each span.
    ns_per_span: u128,
    /// When the batches that were let in before are sealed, at this pace.
    next: Option<Instant>,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            ns_per_span: NS_PER_SPAN,
            next: None,
        }
    }
}

impl Pacing {
    /// So many spans were sealed in this time.
    pub(super) fn note_sealed(&mut self, spans: usize, took: Duration) {
        self.ns_per_span = took.as_nanos() / spans.max(1) as u128;
    }

    /// When a batch of so many spans may come, with the buffer `over` spans above the half that has `range`: at twice
    /// the pace of seals when it is hardly above, at half of it when it is nearly full.
    pub(super) fn slot(
        &mut self,
        spans: usize,
        over: usize,
        range: usize,
        now: Instant,
    ) -> Instant {
        let range = range.max(1) as u128;
        // Half of what sealing them takes, and up to two times as much.
        let (num, den) = (range + 3 * (over as u128).min(range), 2 * range);
        let sealing = self.ns_per_span.saturating_mul(spans as u128);
        let ns = sealing.saturating_mul(num) / den;
        let cost = Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)).min(WAIT_MAX);
        let begin = self.next.map_or(now, |next| next.max(now));
        let slot = (begin + cost).min(now + WAIT_MAX);
        self.next = Some(slot);
        slot
    }

    /// There is room again.
    pub(super) fn release(&mut self) {
        self.next = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn batches_come_one_after_the_other_and_more_slowly_the_fuller_the_buffer_is() {
        let mut pacing = Pacing::default();
        let now = Instant::now();
        let assumed = Duration::from_micros(15 * 500);
        assert_eq!(pacing.slot(500, 0, 100, now), now + assumed / 2);
        pacing.release();
        pacing.note_sealed(10_000, 100 * MS);
        assert_eq!(pacing.slot(1_000, 0, 100, now), now + 5 * MS);
        assert_eq!(pacing.slot(1_000, 0, 100, now), now + 10 * MS);
        assert_eq!(pacing.slot(1_000, 100, 100, now), now + 30 * MS);
        pacing.release();
        assert_eq!(pacing.slot(1_000, 100, 100, now), now + 20 * MS);
        let later = now + 100 * MS;
        assert_eq!(pacing.slot(1_000, 0, 0, later), later + 5 * MS);
    }

    #[test]
    fn no_batch_waits_longer_than_a_second_for_its_turn() {
        let mut pacing = Pacing::default();
        pacing.note_sealed(1, Duration::MAX);
        let now = Instant::now();
        for _ in 0..3 {
            assert_eq!(pacing.slot(usize::MAX, 7, 7, now), now + WAIT_MAX);
        }
    }
}
