//! The spans that took longest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::span::Span;
use crate::store::SnapshotView;
use crate::store::error::Result;
use crate::store::filter::{Filter, duration_ns};
use crate::store::query::Ranked;

/// So many spans are answered at most.
pub const SLOWEST_MAX: usize = 1_000;

impl SnapshotView {
    /// The longest of all spans that `filter` takes, however many these are: at most `limit` of them and at most
    /// [`SLOWEST_MAX`], the longest first, and of equally long ones the one that started earlier.
    ///
    /// # Errors
    /// [`StoreError::Deadline`](crate::store::StoreError::Deadline); damage of a segment that had to be read.
    pub fn slowest(&self, filter: &Filter, limit: usize) -> Result<Vec<Arc<Span>>> {
        let limit = limit.min(SLOWEST_MAX);
        // What comes last in the answer is on top. The order of spans decides between equal durations.
        let mut heap: BinaryHeap<(Reverse<u64>, Ranked)> = BinaryHeap::new();
        if limit == 0 {
            return Ok(Vec::new());
        }
        self.view
            .each_match(filter, &mut self.budget(), &mut |span| {
                let duration = Reverse(duration_ns(span));
                let is_full = heap.len() == limit;
                if is_full && heap.peek().is_some_and(|last| last.0 < duration) {
                    return;
                }
                heap.push((duration, Ranked(Arc::clone(span))));
                if is_full {
                    heap.pop();
                }
            })?;
        let sorted = heap.into_sorted_vec().into_iter();
        Ok(sorted.map(|(_, Ranked(span))| span).collect())
    }
}
