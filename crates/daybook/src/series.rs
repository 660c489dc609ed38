//! One variable over a whole run, in bounded memory.

use std::collections::HashMap;

use serde::Serialize;

/// Values are joined pairwise whenever there are this many buckets: the length of a run need not be
/// known, and a bucket never covers more than twice what an even division would give it.
const BUCKETS_MAX: usize = 512;

/// The most variables that are followed.
const VARIABLES_MAX: usize = 256;

/// A stretch of consecutive values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// NaN or an infinity was among them.
    pub(crate) non_finite: bool,
}

impl Bucket {
    const EMPTY: Self = Self {
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
        non_finite: false,
    };

    /// True when a finite value is in it.
    pub(crate) fn has_value(&self) -> bool {
        self.min <= self.max
    }

    pub(crate) fn join(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            non_finite: self.non_finite || other.non_finite,
        }
    }

    fn of(value: f64) -> Self {
        if value.is_finite() {
            Self {
                min: value,
                max: value,
                non_finite: false,
            }
        } else {
            Self {
                non_finite: true,
                ..Self::EMPTY
            }
        }
    }
}

/// A numeric variable.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// How many records have it.
    pub(crate) count: u64,
    /// How many of its values are NaN or an infinity.
    pub(crate) non_finite: u64,
    /// The least finite value.
    pub(crate) min: Option<f64>,
    /// The greatest finite value.
    pub(crate) max: Option<f64>,
    /// The last value, if it is finite.
    pub(crate) last: Option<f64>,
    #[serde(skip)]
    whole: Vec<Bucket>,
    #[serde(skip)]
    open: Bucket,
    #[serde(skip)]
    open_count: u64,
    #[serde(skip)]
    per_bucket: u64,
}

impl Series {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            count: 0,
            non_finite: 0,
            min: None,
            max: None,
            last: None,
            whole: Vec::new(),
            open: Bucket::EMPTY,
            open_count: 0,
            per_bucket: 1,
        }
    }

    fn push(&mut self, value: f64) {
        self.count += 1;
        if value.is_finite() {
            self.min = Some(self.min.map_or(value, |min| min.min(value)));
            self.max = Some(self.max.map_or(value, |max| max.max(value)));
            self.last = Some(value);
        } else {
            self.non_finite += 1;
            self.last = None;
        }
        self.open = self.open.join(Bucket::of(value));
        self.open_count += 1;
        if self.open_count < self.per_bucket {
            return;
        }
        self.whole
            .push(std::mem::replace(&mut self.open, Bucket::EMPTY));
        self.open_count = 0;
        if self.whole.len() == BUCKETS_MAX {
            let joined = self
                .whole
                .chunks(2)
                .filter_map(|pair| pair.iter().copied().reduce(Bucket::join));
            self.whole = joined.collect();
            self.per_bucket *= 2;
        }
    }

    /// Its values in order, joined into stretches of equal length but for the last.
    pub(crate) fn buckets(&self) -> Vec<Bucket> {
        let mut buckets = self.whole.clone();
        if self.open_count > 0 {
            buckets.push(self.open);
        }
        buckets
    }
}

/// The numeric variables of a run, in the order of first appearance.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    order: Vec<Series>,
    places: HashMap<String, usize>,
    /// Values of variables beyond the most that are followed.
    left_out: bool,
}

impl Variables {
    pub(crate) fn push(&mut self, name: &str, value: f64) {
        let place = match self.places.get(name) {
            Some(&place) => place,
            None if self.order.len() == VARIABLES_MAX => {
                self.left_out = true;
                return;
            }
            None => {
                self.order.push(Series::new(name));
                self.places.insert(name.to_owned(), self.order.len() - 1);
                self.order.len() - 1
            }
        };
        if let Some(series) = self.order.get_mut(place) {
            series.push(value);
        }
    }

    pub(crate) fn series(&self) -> &[Series] {
        &self.order
    }

    /// True when there are more variables than [`series`](Self::series) has.
    pub(crate) fn is_partial(&self) -> bool {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_stays_bounded_and_extremes_are_kept_whatever_the_length() {
        for len in [0_u32, 1, 511, 512, 513, 100_000] {
            let mut series = Series::new("x");
            for i in 0..len {
                series.push(if i == len / 3 { 1e6 } else { f64::from(i % 7) });
            }
            let buckets = series.buckets();
            assert!(buckets.len() <= BUCKETS_MAX, "{len}");
            let joined = buckets.into_iter().reduce(Bucket::join);
            assert_eq!(joined.map(|b| b.max), (len > 0).then_some(1e6), "{len}");
            assert_eq!(series.count, u64::from(len));
        }
    }

    #[test]
    fn values_that_are_no_numbers_are_counted_and_marked_and_touch_no_extreme() {
        let mut series = Series::new("loss");
        for value in [2.0, f64::NAN, 1.0, f64::INFINITY] {
            series.push(value);
        }
        assert_eq!(
            (series.min, series.max, series.last),
            (Some(1.0), Some(2.0), None)
        );
        assert_eq!(series.non_finite, 2);
        let marks: Vec<bool> = series.buckets().iter().map(|b| b.non_finite).collect();
        assert_eq!(marks, [false, true, false, true]);
    }

    #[test]
    fn variables_beyond_the_limit_are_said_to_be_left_out() {
        let mut variables = Variables::default();
        for i in 0..VARIABLES_MAX {
            variables.push(&format!("v{i}"), 0.0);
        }
        assert!(!variables.is_partial());
        variables.push("one more", 0.0);
        assert!(variables.is_partial());
        assert_eq!(variables.series().len(), VARIABLES_MAX);
    }
}
