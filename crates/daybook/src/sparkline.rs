//! A variable as a line of blocks.

use crate::series::Bucket;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Stands where a value was NaN or an infinity.
const NON_FINITE: char = '×';
/// The height of a variable that never changes.
const FLAT: char = '▄';

/// At most `width` characters, each the middle of the values that it stands for, between the least and
/// the greatest of all.
pub(crate) fn sparkline(buckets: &[Bucket], width: usize) -> String {
    let columns = buckets.len().min(width);
    let columns: Vec<Bucket> = (0..columns)
        .filter_map(|column| {
            let start = column * buckets.len() / columns;
            let end = (column + 1) * buckets.len() / columns;
            buckets
                .get(start..end)?
                .iter()
                .copied()
                .reduce(Bucket::join)
        })
        .collect();
    let Some(range) = columns.iter().copied().reduce(Bucket::join) else {
        return String::new();
    };
    columns.iter().map(|column| block(*column, range)).collect()
}

fn block(column: Bucket, range: Bucket) -> char {
    if column.non_finite {
        return NON_FINITE;
    }
    if !column.has_value() {
        return ' ';
    }
    // Halves first: the sum or the difference of the two could overflow.
    let span = range.max / 2.0 - range.min / 2.0;
    if span <= 0.0 {
        return FLAT;
    }
    let middle = column.min / 2.0 + column.max / 2.0;
    let height = (middle / 2.0 - range.min / 2.0) / span;
    let top = BLOCKS.len() - 1;
    let level = (0..top)
        .filter(|level| height * 14.0 > f64::from(u8::try_from(2 * level + 1).unwrap_or(u8::MAX)))
        .count();
    BLOCKS.get(level).copied().unwrap_or(FLAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(values: &[f64]) -> Vec<Bucket> {
        let bucket = |&v: &f64| Bucket {
            min: v,
            max: v,
            non_finite: false,
        };
        values.iter().map(bucket).collect()
    }

    #[test]
    fn a_line_rises_from_the_least_to_the_greatest_value() {
        let values: Vec<f64> = (0..8).map(f64::from).collect();
        assert_eq!(sparkline(&buckets(&values), 80), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&buckets(&values), 4), "▁▃▅▇");
        assert_eq!(sparkline(&buckets(&[3.0, 3.0]), 80), "▄▄");
        assert_eq!(sparkline(&[], 80), "");
        assert_eq!(sparkline(&buckets(&[f64::MIN, f64::MAX]), 80), "▁█");
    }

    #[test]
    fn a_value_that_is_no_number_is_marked() {
        let mut values = buckets(&[0.0, 0.0, 1.0]);
        values[1].non_finite = true;
        assert_eq!(sparkline(&values, 80), "▁×█");
    }
}
