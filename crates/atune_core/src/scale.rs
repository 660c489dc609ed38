//! Values of parameters as numbers: plain ones, as they are kept in columns, and places in the unit
//! interval, over which a distribution is even.

use crate::number::JsonF64;
use crate::space::{
    Categories, Choice, ChoiceList, ChoiceValue, Distribution, FloatRange, IntRange, ParamValue,
};

/// Whole numbers below this, and their differences, are exact as floats.
const FLOAT_EXACT: u64 = 1 << 51;

/// How plain numbers are brought into the unit interval: see [`Distribution::scale`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    /// Whether a plain number is between the ends.
    pub fn holds(&self, number: f64) -> bool {
        let number = if self.log { libm::log(number) } else { number };
        (self.low..=self.high).contains(&number)
    }

    /// The place of a plain number; those beyond an end are at it.
    pub fn unit(&self, number: f64) -> f64 {
        let number = if self.log { libm::log(number) } else { number };
        let width = self.high - self.low;
        if width > 0.0 && width.is_finite() {
            ((number - self.low) / width).clamp(0.0, 1.0)
        } else if width > 0.0 {
            let half = self.high / 2.0 - self.low / 2.0;
            ((number / 2.0 - self.low / 2.0) / half).clamp(0.0, 1.0)
        } else {
            0.5
        }
    }
}

impl ParamValue {
    /// The value as a plain number: a truth value as 0 or 1, a choice as its place. Whole numbers beyond
    /// 2^53 are rounded.
    #[expect(clippy::cast_precision_loss, reason = "what the doc says")]
    pub fn as_f64(&self) -> f64 {
        match self {
            Self::F64(value) => value.0,
            Self::I64(value) => *value as f64,
            Self::Bool(value) => f64::from(u8::from(*value)),
            Self::Cat(at) => f64::from(*at),
        }
    }
}

impl FloatRange {
    /// All numbers of a range.
    pub fn plain(range: std::ops::RangeInclusive<f64>) -> Self {
        Self {
            low: JsonF64(*range.start()),
            high: JsonF64(*range.end()),
            log: false,
            step: None,
        }
    }

    /// All numbers of a range, evenly over their logarithm.
    pub fn log(range: std::ops::RangeInclusive<f64>) -> Self {
        let plain = Self::plain(range);
        Self { log: true, ..plain }
    }

    /// Numbers of a range that are `step` apart, from its low end.
    pub fn stepped(range: std::ops::RangeInclusive<f64>, step: f64) -> Self {
        let plain = Self::plain(range);
        Self {
            step: Some(JsonF64(step)),
            ..plain
        }
    }

    /// The steps above `low` that are within the range, if it has steps.
    fn last_step(&self) -> Option<f64> {
        let step = self.step?.0;
        // Divided before the difference is taken: that of two finite numbers need not be finite.
        Some(
            (self.high.0 / step - self.low.0 / step + 1e-8)
                .floor()
                .max(0.0),
        )
    }
}

impl From<std::ops::RangeInclusive<f64>> for FloatRange {
    fn from(range: std::ops::RangeInclusive<f64>) -> Self {
        Self::plain(range)
    }
}

impl IntRange {
    /// All whole numbers of a range.
    pub fn plain(range: std::ops::RangeInclusive<i64>) -> Self {
        Self {
            low: *range.start(),
            high: *range.end(),
            log: false,
            step: None,
        }
    }

    /// All whole numbers of a range, evenly over their logarithm.
    pub fn log(range: std::ops::RangeInclusive<i64>) -> Self {
        let plain = Self::plain(range);
        Self { log: true, ..plain }
    }

    /// Whole numbers of a range that are `step` apart, from its low end.
    pub fn stepped(range: std::ops::RangeInclusive<i64>, step: i64) -> Self {
        let plain = Self::plain(range);
        Self {
            step: Some(step),
            ..plain
        }
    }

    /// The steps above `low` that are within the range.
    fn last_step(&self) -> u64 {
        let step = u64::try_from(self.step.unwrap_or(1)).unwrap_or(1).max(1);
        self.high.abs_diff(self.low) / step
    }

    fn at_step(&self, at: u64) -> i64 {
        let step = i128::from(self.step.unwrap_or(1).max(1));
        let value = i128::from(self.low) + i128::from(at.min(self.last_step())) * step;
        i64::try_from(value).unwrap_or(self.high)
    }
}

impl From<std::ops::RangeInclusive<i64>> for IntRange {
    fn from(range: std::ops::RangeInclusive<i64>) -> Self {
        Self::plain(range)
    }
}

macro_rules! choice {
    ($($from:ty => $kind:literal),*) => {$(
        impl From<$from> for Choice {
            fn from(value: $from) -> Self {
                Self {
                    label: value.to_string(),
                    value: ChoiceValue { value_type: $kind.to_owned(), value: value.into() },
                }
            }
        }
    )*};
}

choice!(&str => "string", String => "string", bool => "bool", i64 => "int", f64 => "float");

impl Categories {
    /// A list of choices.
    pub fn of<T: Into<Choice>>(choices: impl IntoIterator<Item = T>) -> Self {
        Self {
            choices: ChoiceList {
                version: crate::space::CHOICES_VERSION,
                choices: choices.into_iter().map(Into::into).collect(),
            },
        }
    }
}

impl Distribution {
    /// How many values there are, if they can be counted.
    pub fn value_count(&self) -> Option<u64> {
        match self {
            Self::Float(range) if range.low == range.high => Some(1),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "not negative, and bounded just before"
            )]
            Self::Float(range) => range
                .last_step()
                .filter(|last| *last < 9e15)
                .map(|last| last as u64 + 1),
            Self::Int(range) => range.last_step().checked_add(1),
            Self::Bool => Some(2),
            Self::Cat(list) => Some(list.choices.choices.len() as u64),
        }
    }

    /// The value at a place of the list of all values, when they can be counted. Places beyond the end are
    /// the last.
    pub fn value_at(&self, place: u64) -> ParamValue {
        let place = self
            .value_count()
            .map_or(0, |count| place.min(count.saturating_sub(1)));
        match self {
            Self::Float(range) => ParamValue::F64(JsonF64(range.at_step(place))),
            Self::Int(range) => ParamValue::I64(range.at_step(place)),
            Self::Bool => ParamValue::Bool(place > 0),
            Self::Cat(_) => ParamValue::Cat(u32::try_from(place).unwrap_or(u32::MAX)),
        }
    }

    /// The value nearest to a plain number: within the range, on a step. A number that is none gives the
    /// lowest value.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "casts saturate, and what they give is held to the range"
    )]
    pub fn nearest(&self, number: f64) -> ParamValue {
        match self {
            Self::Float(range) => {
                let number = if number.is_nan() { range.low.0 } else { number };
                let inside = number.clamp(range.low.0, range.high.0);
                ParamValue::F64(JsonF64(match range.step {
                    None => inside,
                    Some(JsonF64(step)) => {
                        let at = (inside / step - range.low.0 / step).round();
                        range.at_float_step(at)
                    }
                }))
            }
            Self::Int(range) => {
                let step = u64::try_from(range.step.unwrap_or(1)).unwrap_or(1).max(1);
                let ends = range.low.unsigned_abs().max(range.high.unsigned_abs());
                if ends < FLOAT_EXACT {
                    let at = (number - range.low as f64) / step as f64;
                    return ParamValue::I64(range.at_step(at.round() as u64));
                }
                // Differences of such numbers are not exact as floats.
                let whole = (number.round() as i64).clamp(range.low, range.high);
                let above = whole.abs_diff(range.low);
                ParamValue::I64(range.at_step(above / step + u64::from(above % step > step / 2)))
            }
            Self::Bool => ParamValue::Bool(number >= 0.5),
            Self::Cat(list) => {
                let last = list.choices.choices.len().saturating_sub(1);
                ParamValue::Cat((number.round() as usize).min(last) as u32)
            }
        }
    }

    /// The ends of the stretch of plain numbers that stands for the distribution, after the logarithm if
    /// it is logarithmic: half a step beyond the lowest and highest value where there are steps.
    #[expect(clippy::cast_precision_loss, reason = "rounded, as all plain numbers")]
    pub fn stretch(&self) -> (f64, f64) {
        match self {
            Self::Float(FloatRange { low, high, log, .. }) if *log => {
                (libm::log(low.0), libm::log(high.0))
            }
            Self::Float(range) => match (range.step, range.last_step()) {
                (Some(JsonF64(step)), Some(last)) => (
                    range.low.0 - step / 2.0,
                    range.at_float_step(last) + step / 2.0,
                ),
                _ => (range.low.0, range.high.0),
            },
            Self::Int(range) if range.log => (
                libm::log(range.low as f64 - 0.5),
                libm::log(range.high as f64 + 0.5),
            ),
            Self::Int(range) => {
                let half = range.step.unwrap_or(1) as f64 / 2.0;
                let last = range.at_step(range.last_step());
                (range.low as f64 - half, last as f64 + half)
            }
            Self::Bool => (-0.5, 1.5),
            Self::Cat(list) => (-0.5, list.choices.choices.len() as f64 - 0.5),
        }
    }

    /// Whether plain numbers are looked at through their logarithm.
    pub fn is_log(&self) -> bool {
        matches!(self, Self::Float(FloatRange { log: true, .. }))
            || matches!(self, Self::Int(IntRange { log: true, .. }))
    }

    /// Whether values have an order and distances: not for truth values and choices.
    pub fn is_numerical(&self) -> bool {
        matches!(self, Self::Float(_) | Self::Int(_))
    }

    /// The value that JSON means: a number, a truth value, or the value or else the label of a choice. `None`
    /// when it is none of this distribution's.
    pub fn value_from_json(&self, json: &serde_json::Value) -> Option<ParamValue> {
        let value = match self {
            Self::Float(_) => ParamValue::F64(serde_json::from_value(json.clone()).ok()?),
            Self::Int(_) => ParamValue::I64(json.as_i64().or_else(|| whole(json.as_f64()?))?),
            Self::Bool => ParamValue::Bool(json.as_bool()?),
            Self::Cat(list) => {
                let choices = &list.choices.choices;
                let by_value = choices
                    .iter()
                    .position(|choice| choice.value.value == *json);
                let by_label = || {
                    let label = json.as_str()?;
                    choices.iter().position(|choice| choice.label == label)
                };
                ParamValue::Cat(u32::try_from(by_value.or_else(by_label)?).ok()?)
            }
        };
        self.check_value(&value).ok().map(|()| value)
    }

    /// How plain numbers are brought into the unit interval.
    pub fn scale(&self) -> Scale {
        let (low, high) = self.stretch();
        Scale {
            low,
            high,
            log: self.is_log(),
        }
    }

    /// The place of a plain number in the unit interval.
    pub fn to_unit(&self, number: f64) -> f64 {
        self.scale().unit(number)
    }

    /// The value at a place of the unit interval: even places give the distribution.
    pub fn at_unit(&self, unit: f64) -> ParamValue {
        let (low, high) = self.stretch();
        // Two products: the width of a stretch need not be finite.
        let number = low * (1.0 - unit) + high * unit;
        self.nearest(if self.is_log() {
            libm::exp(number)
        } else {
            number
        })
    }
}

/// A whole number that JSON spells as a float.
fn whole(number: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "within 2^53 and whole")]
    (number.abs() < 9e15 && number.fract() == 0.0).then_some(number as i64)
}

impl FloatRange {
    fn at_float_step(&self, at: f64) -> f64 {
        let step = self.step.map_or(0.0, |step| step.0);
        let last = self.last_step().unwrap_or_default();
        (self.low.0 + at.clamp(0.0, last) * step).clamp(self.low.0, self.high.0)
    }

    #[expect(clippy::cast_precision_loss, reason = "counted steps are below 2^53")]
    fn at_step(&self, at: u64) -> f64 {
        self.at_float_step(at as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Distributions of every type, sane ones.
    fn distributions() -> impl Strategy<Value = Distribution> {
        let float = (-1e6..1e6f64, 0.0..1e6f64)
            .prop_map(|(low, width)| Distribution::Float(FloatRange::plain(low..=low + width)));
        let log = (1e-9..1e3f64, 1.0..1e9f64)
            .prop_map(|(low, by)| Distribution::Float(FloatRange::log(low..=low * by)));
        let stepped = (-1e3..1e3f64, 0.0..1e3f64, 1e-3..1e2f64).prop_map(|(low, width, step)| {
            Distribution::Float(FloatRange::stepped(low..=low + width, step))
        });
        let int = (any::<i64>(), any::<i64>())
            .prop_map(|(a, b)| Distribution::Int(IntRange::plain(a.min(b)..=a.max(b))));
        let small = (-50..50i64, 0..100i64, 1..20i64).prop_map(|(low, width, step)| {
            Distribution::Int(IntRange::stepped(low..=low + width, step))
        });
        let int_log = (1..1000i64, 0..1_000_000i64)
            .prop_map(|(low, width)| Distribution::Int(IntRange::log(low..=low + width)));
        let cat = (1..12i64).prop_map(|n| Distribution::Cat(Categories::of(0..n)));
        prop_oneof![
            float,
            log,
            stepped,
            int,
            small,
            int_log,
            Just(Distribution::Bool),
            cat
        ]
    }

    proptest! {
        #[test]
        fn every_place_of_the_unit_interval_is_a_value(dist in distributions(), unit in 0.0..=1.0f64) {
            dist.check().unwrap();
            let value = dist.at_unit(unit);
            prop_assert!(dist.check_value(&value).is_ok(), "{value:?} of {dist:?}");
            let back = dist.to_unit(value.as_f64());
            prop_assert!((0.0..=1.0).contains(&back));
        }

        #[test]
        fn any_number_has_a_nearest_value(dist in distributions(), bits: u64) {
            let value = dist.nearest(f64::from_bits(bits));
            prop_assert!(dist.check_value(&value).is_ok(), "{value:?} of {dist:?}");
        }

        #[test]
        fn a_value_is_nearest_to_its_own_number(dist in distributions(), unit in 0.0..=1.0f64) {
            let value = dist.at_unit(unit);
            // Whole numbers beyond 2^53 are rounded.
            if value.as_f64().abs() < 9e15 {
                prop_assert_eq!(dist.nearest(value.as_f64()), value);
            }
        }

        #[test]
        fn counted_values_are_all_values(dist in distributions(), place: u64) {
            if let Some(count) = dist.value_count() {
                let value = dist.value_at(place % count);
                prop_assert!(dist.check_value(&value).is_ok(), "{value:?} of {dist:?}");
            }
        }
    }

    #[test]
    fn even_places_give_every_value_of_a_short_list_alike() {
        let dist = Distribution::Int(IntRange::stepped(3..=11, 2));
        let mut counts = std::collections::BTreeMap::new();
        for at in 0..1000 {
            let ParamValue::I64(value) = dist.at_unit((f64::from(at) + 0.5) / 1000.0) else {
                panic!("a whole number was asked for");
            };
            *counts.entry(value).or_insert(0) += 1;
        }
        let expected = [(3, 200), (5, 200), (7, 200), (9, 200), (11, 200)];
        assert_eq!(counts, expected.into_iter().collect());
    }

    #[test]
    fn the_widest_ranges_have_places_too() {
        let wide = Distribution::Float(FloatRange::plain(f64::MIN..=f64::MAX));
        assert!((wide.to_unit(0.0) - 0.5).abs() < 1e-12);
        assert!(wide.check_value(&wide.at_unit(0.25)).is_ok());
        let ints = Distribution::Int(IntRange::plain(i64::MIN..=i64::MAX));
        assert!(ints.check_value(&ints.at_unit(0.999)).is_ok());
        assert_eq!(ints.value_count(), None);
    }
}
