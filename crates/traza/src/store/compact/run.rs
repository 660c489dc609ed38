//! Which segments are merged: pure arithmetic over their lengths.

use std::ops::Range;

use crate::store::options::Compaction;

/// A size class: segments of one tier are merged with each other.
fn tier(len: u64, options: Compaction) -> u32 {
    let fanout = options.fanout as u64;
    let mut limit = options.base_len.max(1);
    let mut tier = 0;
    while len >= limit && tier < 32 {
        limit = limit.saturating_mul(fanout);
        tier += 1;
    }
    tier
}

/// True for the length of a segment of the highest size class that the limit of the outputs leaves room for. Without a
/// limit there is none: whatever a merge makes may be merged again.
pub(super) fn is_top(len: u64, options: Compaction) -> bool {
    options.output_len_max > 0 && tier(len, options) >= tier(options.output_len_max, options)
}

/// The newest segments that should be merged, as a range of `lens`, which are those of all segments, the oldest first.
///
/// Going back from the newest, smaller ones are taken along with the larger ones before them, until enough of one tier
/// have come together.
pub(super) fn pick(lens: &[u64], options: Compaction) -> Option<Range<usize>> {
    let fanout = options.fanout.max(2);
    if lens.len() < fanout {
        return None;
    }
    let mut current = tier(*lens.last()?, options);
    let (mut taken, mut counted) = (0, 0);
    for len in lens.iter().rev() {
        let found = tier(*len, options);
        if found > current {
            if counted >= fanout {
                break;
            }
            current = found;
            counted = 0;
        }
        taken += 1;
        if found == current {
            counted += 1;
        }
    }
    let run = lens.len().checked_sub(taken)?..lens.len();
    let is_worth_it =
        counted >= fanout && groups(lens.get(run.clone())?, options.output_len_max).len() < taken;
    is_worth_it.then_some(run)
}

/// Which of the segments with these lengths become one: neighbours, as long as they stay within `len_max` together. A
/// longer one stays alone.
pub(super) fn groups(lens: &[u64], len_max: u64) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut sum = 0u64;
    for (index, len) in lens.iter().enumerate() {
        sum = sum.saturating_add(*len);
        match groups.last_mut() {
            Some(group) if len_max == 0 || sum <= len_max => group.end = index + 1,
            _ => {
                groups.push(index..index + 1);
                sum = *len;
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Compaction {
        Compaction {
            fanout: 4,
            base_len: 10,
            output_len_max: 200,
        }
    }

    #[test]
    fn a_size_class_holds_what_is_below_its_limit() {
        for (len, wanted) in [(0, 0), (9, 0), (10, 1), (39, 1), (40, 2), (160, 3)] {
            assert_eq!(tier(len, options()), wanted, "{len}");
        }
        assert_eq!(
            tier(
                u64::MAX,
                Compaction {
                    fanout: 2,
                    base_len: 1,
                    output_len_max: 0
                }
            ),
            32
        );
    }

    #[test]
    fn the_highest_size_is_that_of_the_longest_output() {
        for (len, wanted) in [
            (0, false),
            (159, false),
            (160, true),
            (200, true),
            (900, true),
        ] {
            assert_eq!(is_top(len, options()), wanted, "{len}");
        }
        let mut unlimited = options();
        unlimited.output_len_max = 0;
        assert!(!is_top(u64::MAX, unlimited));
    }

    #[test]
    fn enough_segments_of_one_size_are_merged_and_fewer_are_not() {
        assert_eq!(pick(&[5, 5, 5], options()), None);
        assert_eq!(pick(&[5, 5, 5, 5], options()), Some(0..4));
        assert_eq!(pick(&[20, 5, 5, 5, 5], options()), Some(1..5));
        // Three of the larger size: with what is behind them they are not yet enough.
        assert_eq!(pick(&[20, 20, 20, 5, 5], options()), None);
        // Four of the larger size take the smaller ones behind them along.
        assert_eq!(pick(&[20, 20, 20, 20, 5, 5], options()), Some(0..6));
        assert_eq!(pick(&[], options()), None);
    }

    #[test]
    fn a_merge_that_would_not_make_fewer_segments_is_left_alone() {
        assert_eq!(pick(&[150, 150, 150, 150], options()), None);
        assert_eq!(pick(&[90, 90, 90, 90], options()), Some(0..4));
        assert_eq!(groups(&[90, 90, 90, 90], 200), [0..2, 2..4]);
        assert_eq!(groups(&[300, 10, 10], 200), [0..1, 1..3]);
        assert_eq!(groups(&[300, 10, 10], 0).len(), 1);
        assert_eq!(groups(&[], 200), []);
    }
}
