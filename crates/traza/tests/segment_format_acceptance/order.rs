//! Records are stored by ascending timestamp, whatever order they arrive in; windows rely on it.

use std::ops::Range;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use traza::record::Record;
use traza::segment::{Codec, Segment, encode, encode_with_codec};

use super::corpus::{bulky, records, spans};

/// The ordinals of the timestamps in the window, found one by one.
fn brute_force(timestamps: &[u64], since: Option<u64>, until: Option<u64>) -> Range<usize> {
    let inside = |time: &u64| {
        since.is_none_or(|since| *time >= since) && until.is_none_or(|until| *time <= until)
    };
    let start = timestamps.iter().position(inside).unwrap_or(0);
    let count = timestamps.iter().filter(|time| inside(time)).count();
    start..start + count
}

/// An empty range is empty wherever it lies.
fn same(found: &Range<usize>, wanted: &Range<usize>) -> bool {
    found == wanted || (found.is_empty() && wanted.is_empty())
}

fn every_window_agrees(segment: &Segment) -> Result<(), TestCaseError> {
    let timestamps: Vec<u64> = segment
        .scan()
        .map(|record| record.unwrap().timestamp())
        .collect();
    prop_assert!(timestamps.is_sorted());
    let mut bounds: Vec<Option<u64>> = vec![None, Some(0), Some(u64::MAX)];
    for time in &timestamps {
        bounds.extend([time.checked_sub(1), Some(*time), time.checked_add(1)]);
    }
    bounds.sort_unstable();
    bounds.dedup();
    // All pairs of few bounds, neighbours of many.
    let near = if bounds.len() > 60 { 4 } else { bounds.len() };
    for (index, since) in bounds.iter().enumerate() {
        for until in bounds[index.saturating_sub(1)..]
            .iter()
            .take(near)
            .chain(&bounds[..1])
        {
            let found = segment.ordinal_range_for_window(*since, *until).unwrap();
            let wanted = brute_force(&timestamps, *since, *until);
            prop_assert!(
                same(&found, &wanted),
                "{:?} {:?}: {:?} {:?}",
                since,
                until,
                found,
                wanted
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn records_are_stored_in_ascending_timestamp_order_whatever_order_they_arrive_in(
        spans in spans(), order in any::<u64>(),
    ) {
        let mut records = records(&spans);
        let mut state = order | 1;
        for index in (1..records.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            records.swap(index, usize::try_from(state >> 33).unwrap() % (index + 1));
        }
        let file = encode(&records).unwrap();
        let segment = Segment::from_bytes(file.clone()).unwrap();
        every_window_agrees(&segment)?;
        // Ties keep the order in which they came.
        let mut sorted = records;
        sorted.sort_by_key(|record| record.timestamp);
        let payloads = segment.scan().map(|record| record.unwrap().payload().to_vec());
        prop_assert!(payloads.eq(sorted.iter().map(|record| record.payload.clone())));
        prop_assert!(encode(&sorted).unwrap() == file, "sorted records give the same bytes");
    }

    #[test]
    fn windows_over_many_blocks_agree_with_a_scan(
        times in subsequence((0..40u64).collect::<Vec<_>>(), 1..40), step in 1..4u64,
        codec in select(vec![Codec::Raw, Codec::Lz4]),
    ) {
        let records: Vec<Record> =
            times.iter().map(|time| bulky(time / step * step + 10, 40_000, true)).collect();
        let segment = Segment::from_bytes(encode_with_codec(&records, codec).unwrap()).unwrap();
        every_window_agrees(&segment)?;
    }
}
