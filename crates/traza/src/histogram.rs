//! Percentiles of durations in little memory (`docs/formats/traza-store.md`, percentiles).

use std::collections::BTreeMap;

/// Each power of two is split into this many equal steps.
const STEPS: u64 = 1 << STEPS_LOG2;
const STEPS_LOG2: u32 = 4;
/// Values below this have a bucket of their own: steps of one reach this far.
const EXACT: u64 = 2 * STEPS;
/// How many buckets there are: those with one value, and for each further power of two its steps.
const POSITIONS: usize = 2 * 16 + (64 - 5) * 16;
/// The last bucket. It is reported to end one below 2^64 - 1, as clients of this format know it.
const LAST_UPPER: u64 = u64::MAX - 1;

/// How many values there were, and roughly which: a percentile is never below the exact one, and at most a sixteenth
/// above it. Count, smallest and largest value are exact; so is the mean, until the sum of all values passes 2^64 - 1 and
/// stays there.
///
/// ```
/// use traza::histogram::Histogram;
/// let mut histogram = Histogram::default();
/// for value in [10, 20, 30, 1_000] {
///     histogram.record(value);
/// }
/// assert_eq!(histogram.percentile(50), 20);
/// assert_eq!(histogram.percentile(99), 1_000);
/// assert_eq!(histogram.mean(), 265);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// How many values there are in the occupied buckets, by the bucket's position.
    counts: BTreeMap<u64, u64>,
    count: u64,
    sum: u64,
    /// 2^64 - 1 while there is no value.
    min: u64,
    max: u64,
}

/// An occupied bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The largest value that falls into it, which can be above the largest that did.
    pub upper: u64,
    /// How many values did.
    pub count: u64,
}

impl Default for Histogram {
    /// No values.
    fn default() -> Self {
        Self {
            counts: BTreeMap::new(),
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Histogram {
    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        *self.counts.entry(position(value)).or_default() += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds the values of another histogram. The result is that of recording all values in one, in any order.
    pub fn add(&mut self, other: &Self) {
        for (position, count) in &other.counts {
            *self.counts.entry(*position).or_default() += count;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value; 0 without values.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// The largest value; 0 without values.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean, rounded down; 0 without values.
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }

    /// The value that `percent` of a hundred values do not exceed: the end of the bucket with the
    /// ⌈`percent` × count / 100⌉-th smallest value, but never above the largest one. 0 without values; a `percent` of 0
    /// is that of the smallest value, and one above 100 that of the largest.
    pub fn percentile(&self, percent: u32) -> u64 {
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100);
        let mut seen = 0;
        for (position, count) in &self.counts {
            seen += u128::from(*count);
            // The bucket with the last value ends at or above that value.
            if seen == u128::from(self.count) {
                break;
            }
            if seen >= rank {
                return upper(*position);
            }
        }
        self.max
    }

    /// The occupied buckets, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.counts.iter().map(|(position, count)| Bucket {
            // Only the last bucket can hold a value above what it is said to end at.
            upper: match upper(*position) {
                u64::MAX => LAST_UPPER.max(self.max),
                upper => upper,
            },
            count: *count,
        })
    }
}

/// Adds many values, which is quicker than one by one.
impl Extend<u64> for Histogram {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, values: I) {
        let mut counts = [0_u64; POSITIONS];
        let (mut count, mut sum, mut min, mut max) = (0, 0_u64, u64::MAX, 0);
        for value in values {
            let position = usize::try_from(position(value)).unwrap_or(POSITIONS);
            if let Some(slot) = counts.get_mut(position) {
                *slot += 1;
            }
            count += 1;
            sum = sum.saturating_add(value);
            min = min.min(value);
            max = max.max(value);
        }
        self.count += count;
        self.sum = self.sum.saturating_add(sum);
        self.min = self.min.min(min);
        self.max = self.max.max(max);
        for (position, count) in (0..).zip(counts) {
            if count > 0 {
                *self.counts.entry(position).or_default() += count;
            }
        }
    }
}

/// The position of the bucket of `value`.
fn position(value: u64) -> u64 {
    if value < EXACT {
        return value;
    }
    // A step is as long as the power of two below the value, divided by their number.
    let step_log2 = value.ilog2() - STEPS_LOG2;
    u64::from(step_log2) * STEPS + (value >> step_log2)
}

/// The largest value in the bucket at `position`.
fn upper(position: u64) -> u64 {
    if position < EXACT {
        return position;
    }
    let step_log2 = position / STEPS - 1;
    let step = position % STEPS + STEPS;
    (step << step_log2) + ((1 << step_log2) - 1)
}
