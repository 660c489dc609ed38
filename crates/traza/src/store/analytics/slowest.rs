//! The spans that took longest.

use std::collections::BinaryHeap;
use std::sync::Arc;

use super::rows::Place;
use crate::span::Span;
use crate::store::SnapshotView;
use crate::store::budget::Budget;
use crate::store::buffer::in_order;
use crate::store::error::Result;
use crate::store::filter::{Filter, duration_ns};

/// So many spans are answered at most.
pub const SLOWEST_MAX: usize = 1_000;

/// Duration, or what it lacks to the longest there can be; start and end. What is less comes earlier in the answer.
type Rank = (u64, u64, u64);

/// The first `limit` in the order of their ranks, and all that are equal to the last of them: what else decides between
/// these is in the spans.
struct First {
    limit: usize,
    /// The ranks of the first `limit`, the last of them on top.
    ranks: BinaryHeap<Rank>,
    found: Vec<(Rank, Place)>,
    /// When `found` is next cleared of what is no longer among the first.
    clear_at: usize,
}

impl First {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            ranks: BinaryHeap::new(),
            found: Vec::new(),
            clear_at: 1_024,
        }
    }

    fn add(&mut self, rank: Rank, place: impl FnOnce() -> Place) {
        if self.ranks.len() == self.limit {
            if self.ranks.peek().is_none_or(|last| rank > *last) {
                return;
            }
            self.ranks.pop();
            self.ranks.push(rank);
            // Equal ranks: one has left the heap and must stay found.
        } else {
            self.ranks.push(rank);
        }
        self.found.push((rank, place()));
        if self.found.len() >= self.clear_at {
            self.clear();
            self.clear_at = 1_024.max(self.found.len().saturating_mul(2));
        }
    }

    fn clear(&mut self) {
        if let Some(last) = self.ranks.peek().copied() {
            self.found.retain(|(rank, _)| *rank <= last);
        }
    }
}

impl SnapshotView {
    /// The longest of all spans that `filter` takes, however many these are: at most `limit` of them and at most
    /// [`SLOWEST_MAX`], the longest first, and of equally long ones the one that started earlier.
    ///
    /// # Errors
    /// [`StoreError::Deadline`](crate::store::StoreError::Deadline); damage of a segment that had to be read.
    pub fn slowest(&self, filter: &Filter, limit: usize) -> Result<Vec<Arc<Span>>> {
        let limit = limit.min(SLOWEST_MAX);
        let (spans, _) = self.first_by_duration(filter, limit, true, &mut self.budget())?;
        Ok(spans)
    }

    /// The first `limit` spans that `filter` takes in the order of durations, equal ones in that of answers; and how many
    /// it takes in all.
    pub(in crate::store) fn first_by_duration(
        &self,
        filter: &Filter,
        limit: usize,
        longest_first: bool,
        budget: &mut Budget<'_>,
    ) -> Result<(Vec<Arc<Span>>, usize)> {
        let turned = |duration: u64| {
            if longest_first {
                u64::MAX - duration
            } else {
                duration
            }
        };
        let mut first = First::new(limit);
        let mut count = 0;
        self.each_row_within(filter, budget, |row| {
            count += 1;
            let rank = (turned(row.duration_ns()), row.start_ns(), row.end_ns());
            first.add(rank, || row.place());
        })?;
        first.clear();
        let places: Vec<Place> = first.found.into_iter().map(|(_, place)| place).collect();
        let mut spans = self.view.fetch(&places)?;
        spans.sort_unstable_by(|a, b| {
            let by_duration = turned(duration_ns(a)).cmp(&turned(duration_ns(b)));
            by_duration.then_with(|| in_order(a, b))
        });
        spans.truncate(limit);
        Ok((spans, count))
    }
}
