//! How spans spread over time.

use crate::histogram::Histogram;
use crate::rollup::Counters;
use crate::store::SnapshotView;
use crate::store::error::{Result, StoreError};
use crate::store::filter::Filter;

/// So many buckets are answered at most.
pub const BUCKETS_MAX: usize = 512;
/// So many buckets are usual.
pub const BUCKETS_DEFAULT: usize = 24;

/// Spans by the time at which they start.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Where the window begins, in nanoseconds since the Unix epoch.
    pub since_ns: u64,
    /// Where it ends; a span that starts just then is in it.
    pub until_ns: u64,
    /// How long a bucket is, in nanoseconds.
    pub bucket_ns: u64,
    /// The buckets, the oldest first.
    pub buckets: Vec<Bucket>,
}

/// A part of a [`Series`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bucket {
    /// Where it begins, in nanoseconds since the Unix epoch.
    pub start_ns: u64,
    /// What its spans add up to.
    pub counters: Counters,
    /// How long they took, in nanoseconds.
    pub durations: Histogram,
}

impl Series {
    /// `count` empty buckets, but at least one and at most [`BUCKETS_MAX`].
    pub(super) fn empty(since_ns: u64, until_ns: u64, count: usize) -> Self {
        let count = count.clamp(1, BUCKETS_MAX) as u64;
        // Rounded up, so that the last bucket reaches the end.
        let bucket_ns = until_ns.saturating_sub(since_ns).div_ceil(count).max(1);
        let start = |index: u64| {
            since_ns
                .saturating_add(index.saturating_mul(bucket_ns))
                .min(until_ns)
        };
        let bucket = |index| Bucket {
            start_ns: start(index),
            ..Bucket::default()
        };
        Self {
            since_ns,
            until_ns,
            bucket_ns,
            buckets: (0..count).map(bucket).collect(),
        }
    }

    /// Adds a span that starts within the window.
    pub(super) fn add(&mut self, start_ns: u64, duration_ns: u64, counters: &Counters) {
        let index = start_ns.saturating_sub(self.since_ns) / self.bucket_ns;
        let last = self.buckets.len().saturating_sub(1);
        // The very end of the window can be one past the last bucket, which takes it.
        let index = usize::try_from(index).map_or(last, |index| index.min(last));
        if let Some(bucket) = self.buckets.get_mut(index) {
            bucket.counters.add(counters);
            bucket.durations.record(duration_ns);
        }
    }
}

impl SnapshotView {
    /// The spans that `filter` takes, by their starts: its window in `count` buckets of equal length, from 1 to
    /// [`BUCKETS_MAX`].
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the filter has no window, or an empty one; [`StoreError::Deadline`]; damage of a
    /// segment that had to be read.
    pub fn series(&self, filter: &Filter, count: usize) -> Result<Series> {
        let invalid = |what: &str| StoreError::Invalid {
            what: what.to_owned(),
        };
        let (Some(since), Some(until)) = (filter.since, filter.until) else {
            return Err(invalid("since and until are required for a series"));
        };
        if until <= since {
            return Err(invalid("until must be after since"));
        }
        let mut series = Series::empty(since, until, count);
        let pricing = &self.shared.options.pricing;
        self.each_row(filter, |row| {
            series.add(row.start_ns(), row.duration_ns(), &row.counters(pricing));
        })?;
        Ok(series)
    }
}
