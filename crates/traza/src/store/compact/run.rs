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

/// The size of a segment, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    /// Of its file.
    pub(super) file: u64,
    /// Of its records before they are compressed.
    pub(super) records: u64,
}

impl Size {
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            file: self.file.saturating_add(other.file),
            records: self.records.saturating_add(other.records),
        }
    }

    /// True when a merge may make such a segment.
    fn fits(self, options: Compaction) -> bool {
        let within = |len: u64, max: u64| max == 0 || len <= max;
        within(self.file, options.output_len_max) && within(self.records, options.records_len_max)
    }
}

/// True for the size of a segment that no merge makes any larger: one of the highest size class that the limit of the
/// outputs leaves room for, or with records of more than half of what one may have. Without limits there is none: whatever
/// a merge makes may be merged again.
pub(super) fn is_top(size: Size, options: Compaction) -> bool {
    let of_top_class = options.output_len_max > 0
        && tier(size.file, options) >= tier(options.output_len_max, options);
    of_top_class || options.records_len_max > 0 && size.records > options.records_len_max / 2
}

/// The newest segments that should be merged, as a range of `sizes`, which are those of all segments, the oldest first.
///
/// Going back from the newest, smaller ones are taken along with the larger ones before them, until enough of one tier
/// have come together. The oldest of those are left out again as long as each would only become a segment by itself.
pub(super) fn pick(sizes: &[Size], options: Compaction) -> Option<Range<usize>> {
    let fanout = options.fanout.max(2);
    if sizes.len() < fanout {
        return None;
    }
    let mut current = tier(sizes.last()?.file, options);
    let (mut taken, mut counted) = (0, 0);
    for size in sizes.iter().rev() {
        let found = tier(size.file, options);
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
    let start = sizes.len().checked_sub(taken)?;
    let alone = groups(sizes.get(start..)?, options)
        .iter()
        .take_while(|group| group.len() == 1)
        .count();
    let run = start.saturating_add(alone)..sizes.len();
    (counted >= fanout && !run.is_empty()).then_some(run)
}

/// Which of the segments with these sizes become one: neighbours, as long as they stay within the limits together. A
/// larger one stays alone.
pub(super) fn groups(sizes: &[Size], options: Compaction) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut sum = Size::default();
    for (index, size) in sizes.iter().enumerate() {
        sum = sum.and(*size);
        match groups.last_mut() {
            Some(group) if sum.fits(options) => group.end = index + 1,
            _ => {
                groups.push(index..index + 1);
                sum = *size;
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
            records_len_max: 0,
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
                    output_len_max: 0,
                    records_len_max: 0
                }
            ),
            32
        );
    }

    /// Segments of which only the lengths of the files count.
    fn files(lens: &[u64]) -> Vec<Size> {
        let size = |len: &u64| Size {
            file: *len,
            records: 0,
        };
        lens.iter().map(size).collect()
    }

    fn picked(lens: &[u64]) -> Option<Range<usize>> {
        pick(&files(lens), options())
    }

    #[test]
    fn the_highest_size_is_that_of_the_longest_output() {
        let file = |file| Size { file, records: 0 };
        for (len, wanted) in [
            (0, false),
            (159, false),
            (160, true),
            (200, true),
            (900, true),
        ] {
            assert_eq!(is_top(file(len), options()), wanted, "{len}");
        }
        let mut unlimited = options();
        unlimited.output_len_max = 0;
        assert!(!is_top(file(u64::MAX), unlimited));
        unlimited.records_len_max = 1000;
        for (records, wanted) in [(500, false), (501, true)] {
            assert_eq!(is_top(Size { file: 1, records }, unlimited), wanted);
        }
    }

    #[test]
    fn enough_segments_of_one_size_are_merged_and_fewer_are_not() {
        assert_eq!(picked(&[5, 5, 5]), None);
        assert_eq!(picked(&[5, 5, 5, 5]), Some(0..4));
        assert_eq!(picked(&[20, 5, 5, 5, 5]), Some(1..5));
        // Three of the larger size: with what is behind them they are not yet enough.
        assert_eq!(picked(&[20, 20, 20, 5, 5]), None);
        // Four of the larger size take the smaller ones behind them along.
        assert_eq!(picked(&[20, 20, 20, 20, 5, 5]), Some(0..6));
        assert_eq!(picked(&[]), None);
    }

    #[test]
    fn a_merge_that_would_not_make_fewer_segments_is_left_alone() {
        let grouped = |lens: &[u64], len_max| {
            let options = Compaction {
                output_len_max: len_max,
                ..options()
            };
            groups(&files(lens), options)
        };
        assert_eq!(picked(&[150, 150, 150, 150]), None);
        assert_eq!(picked(&[90, 90, 90, 90]), Some(0..4));
        assert_eq!(grouped(&[90, 90, 90, 90], 200), [0..2, 2..4]);
        assert_eq!(grouped(&[300, 10, 10], 200), [0..1, 1..3]);
        assert_eq!(grouped(&[300, 10, 10], 0).len(), 1);
        assert_eq!(grouped(&[], 200), []);
    }

    #[test]
    fn what_would_stay_as_it_is_is_not_written_again() {
        assert_eq!(picked(&[150, 150, 150, 90, 90]), Some(3..5));
        assert_eq!(picked(&[150, 90, 90, 150, 150]), Some(1..5));
    }

    #[test]
    fn records_bound_a_merge_as_files_do() {
        let options = Compaction {
            records_len_max: 100,
            ..options()
        };
        let sizes = [40, 40, 40, 40, 40].map(|records| Size { file: 5, records });
        assert_eq!(groups(&sizes, options), [0..2, 2..4, 4..5]);
        assert_eq!(pick(&sizes, options), Some(0..5));
        let sizes = [60; 5].map(|records| Size { file: 5, records });
        assert_eq!(pick(&sizes, options), None);
    }
}
