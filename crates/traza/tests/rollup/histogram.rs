//! Percentiles against those of the sorted values: never low, and at most a sixteenth high.

use proptest::prelude::*;
use traza::histogram::{Bucket, Histogram};

fn histogram(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    for value in values {
        histogram.record(*value);
    }
    histogram
}

/// The exact percentile: the ⌈percent × n / 100⌉-th smallest value.
fn exact(values: &[u64], percent: u32) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * usize::try_from(percent).unwrap()).div_ceil(100);
    sorted[rank.max(1) - 1]
}

/// Values of every magnitude.
fn value() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64u32).prop_map(|(value, shift)| value >> shift)
}

#[test]
fn nothing_has_no_percentiles() {
    let empty = Histogram::default();
    assert_eq!((empty.count(), empty.min(), empty.max()), (0, 0, 0));
    assert_eq!((empty.mean(), empty.percentile(99)), (0, 0));
    assert_eq!(empty.buckets().count(), 0);
}

#[test]
fn values_below_32_are_exact_and_each_power_of_two_above_has_16_buckets() {
    let upper = |value| histogram(&[value]).buckets().next().unwrap().upper;
    for value in 0..32 {
        assert_eq!(upper(value), value);
    }
    for log2 in 5..64 {
        let step = 1u64 << (log2 - 4);
        for nth in 0..16 {
            let lower = (1u64 << log2) + nth * step;
            let end = lower + (step - 1);
            // Said of the last bucket of all, unless that value itself is there.
            let said = end.min(u64::MAX - 1);
            assert_eq!((upper(lower), upper(end)), (said, end), "{lower}");
        }
    }
}

#[test]
fn a_bucket_can_end_above_the_largest_value_and_a_percentile_cannot() {
    let two = histogram(&[1_000, 1_000]);
    let bucket = Bucket {
        upper: 1_023,
        count: 2,
    };
    assert_eq!(two.buckets().collect::<Vec<_>>(), [bucket]);
    assert_eq!(two.percentile(50), 1_000);
}

#[test]
fn a_sum_past_64_bits_stays_at_the_largest() {
    let values = histogram(&[u64::MAX, u64::MAX - 1, 3]);
    assert_eq!(values.mean(), u64::MAX / 3);
    assert_eq!(values.percentile(100), u64::MAX);
}

proptest! {
    #[test]
    fn percentiles_are_never_low_and_at_most_a_sixteenth_high(
        values in proptest::collection::vec(value(), 1..300),
        percent in 0..=100u32,
    ) {
        let found = histogram(&values).percentile(percent);
        let exact = exact(&values, percent);
        prop_assert!(found >= exact);
        prop_assert!(found - exact <= exact / 16);
        prop_assert!(found <= *values.iter().max().unwrap());
        prop_assert!(exact >= 32 || found == exact);
    }

    #[test]
    fn count_smallest_largest_and_mean_are_exact(
        values in proptest::collection::vec(0..1u64 << 50, 1..300),
    ) {
        let histogram = histogram(&values);
        let count = values.len() as u64;
        prop_assert_eq!(histogram.count(), count);
        prop_assert_eq!(histogram.min(), *values.iter().min().unwrap());
        prop_assert_eq!(histogram.max(), *values.iter().max().unwrap());
        prop_assert_eq!(histogram.mean(), values.iter().sum::<u64>() / count);
        prop_assert_eq!(histogram.buckets().map(|bucket| bucket.count).sum::<u64>(), count);
        let uppers: Vec<u64> = histogram.buckets().map(|bucket| bucket.upper).collect();
        prop_assert!(uppers.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_sum_of_histograms_is_the_histogram_of_all_values(
        left in proptest::collection::vec(value(), 0..100),
        right in proptest::collection::vec(value(), 0..100),
    ) {
        let mut sum = histogram(&left);
        sum.add(&histogram(&right));
        prop_assert_eq!(sum, histogram(&[left, right].concat()));
    }
}
