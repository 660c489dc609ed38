//! What parameters may be, and what they are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::number::JsonF64;

/// The value of one parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ParamValue {
    /// A real number.
    F64(JsonF64),
    /// A whole number.
    I64(i64),
    /// A truth value.
    Bool(bool),
    /// A choice, by its place in the distribution's list.
    Cat(u32),
}

/// Where a parameter's values come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Distribution {
    /// Real numbers.
    Float(FloatRange),
    /// Whole numbers.
    Int(IntRange),
    /// True or false.
    Bool,
    /// One of a list.
    Cat(Categories),
}

/// Real numbers from `low` to `high`, both included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FloatRange {
    /// The smallest value.
    pub low: JsonF64,
    /// The largest value.
    pub high: JsonF64,
    /// Whether they are spread evenly over the logarithm.
    pub log: bool,
    /// The distance between values, counted from `low`; `None` for all of them.
    pub step: Option<JsonF64>,
}

/// Whole numbers from `low` to `high`, both included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntRange {
    /// The smallest value.
    pub low: i64,
    /// The largest value.
    pub high: i64,
    /// Whether they are spread evenly over the logarithm.
    pub log: bool,
    /// The distance between values, counted from `low`.
    pub step: Option<i64>,
}

impl FloatRange {
    /// Whether `value` is a whole number of steps above `low`, as far as floats can tell.
    fn is_on_step(&self, value: f64) -> bool {
        let Some(JsonF64(step)) = self.step else {
            return true;
        };
        // Not the difference divided: that of two finite numbers need not be finite.
        let (at, low) = (value / step, self.low.0 / step);
        let steps = at - low;
        // What dividing and adding up may have rounded away. Steps finer than that are no restriction.
        let error = 1e-8 + 4.0 * f64::EPSILON * (at.abs() + low.abs());
        !steps.is_finite() || (steps - steps.round()).abs() <= error
    }
}

/// A list to choose from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Categories {
    /// The list.
    pub choices: ChoiceList,
}

/// The version of the encoding of a list of choices.
pub const CHOICES_VERSION: u32 = 1;

/// A versioned list of choices: it may grow at its end while a study runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChoiceList {
    /// The version of this encoding: [`CHOICES_VERSION`].
    pub version: u32,
    /// The choices, in order.
    pub choices: Vec<Choice>,
}

/// One choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// What people read.
    pub label: String,
    /// What the program gets.
    pub value: ChoiceValue,
}

/// The value of a choice, with its type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChoiceValue {
    /// `string`, `int`, `float`, `bool` or `null`.
    #[serde(rename = "type")]
    pub value_type: String,
    /// The value itself.
    #[serde(deserialize_with = "crate::portable::value")]
    pub value: Value,
}

/// Parameters that are fixed before a trial starts, and the trial that they come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// Values by parameter name.
    #[serde(deserialize_with = "crate::portable::by_name")]
    pub fixed: BTreeMap<String, ParamValue>,
    /// The trial that these values come from.
    pub parent: Option<crate::trial::TrialId>,
}

/// A sampled parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Where its value was drawn from.
    pub dist: Distribution,
    /// Its value.
    pub value: ParamValue,
}

/// Why a value does not belong to its distribution, or a distribution makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpaceFault {
    /// The value has another type than the distribution.
    #[error("the value has another type than its distribution")]
    WrongType,
    /// The value lies outside of the range or the list, or between two steps.
    #[error("the value lies outside of its distribution")]
    OutOfRange,
    /// The range is empty, not finite, or has a step that is not positive.
    #[error("the range is empty, not finite, or has a step that is not positive")]
    BadRange,
    /// A logarithmic range must be positive and have no step.
    #[error("a logarithmic range must be positive and have no step other than 1")]
    BadLog,
    /// The list is empty.
    #[error("the list of choices is empty")]
    NoChoices,
    /// The list is encoded in a way that this build does not know.
    #[error("the list of choices has version {found}; this build knows version {CHOICES_VERSION}")]
    ChoicesVersion {
        /// The version in the record.
        found: u32,
    },
    /// A space that names a parameter more than once.
    #[error("the space names it twice")]
    Repeated,
}

impl Distribution {
    /// Checks that the distribution has at least one value.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), SpaceFault> {
        match self {
            Self::Float(range) => {
                let (low, high) = (range.low.0, range.high.0);
                let step_is_good = range.step.is_none_or(|s| s.0.is_finite() && s.0 > 0.0);
                if !(low.is_finite() && high.is_finite() && low <= high && step_is_good) {
                    return Err(SpaceFault::BadRange);
                }
                if range.log && (low <= 0.0 || range.step.is_some()) {
                    return Err(SpaceFault::BadLog);
                }
            }
            Self::Int(range) => {
                if range.low > range.high || range.step.is_some_and(|step| step <= 0) {
                    return Err(SpaceFault::BadRange);
                }
                if range.log && (range.low <= 0 || range.step.is_some_and(|step| step != 1)) {
                    return Err(SpaceFault::BadLog);
                }
            }
            Self::Cat(Categories { choices }) => {
                if choices.version != CHOICES_VERSION {
                    let found = choices.version;
                    return Err(SpaceFault::ChoicesVersion { found });
                }
                if choices.choices.is_empty() {
                    return Err(SpaceFault::NoChoices);
                }
            }
            Self::Bool => {}
        }
        Ok(())
    }

    /// Checks that `value` is one of this distribution's.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check_value(&self, value: &ParamValue) -> Result<(), SpaceFault> {
        let inside = match (self, value) {
            (Self::Float(range), ParamValue::F64(v)) => {
                (range.low.0..=range.high.0).contains(&v.0) && range.is_on_step(v.0)
            }
            (Self::Int(range), ParamValue::I64(v)) => {
                let step = range.step.unwrap_or(1);
                // The distance between two i64 need not be one.
                let distance = i128::from(*v) - i128::from(range.low);
                (range.low..=range.high).contains(v) && distance % i128::from(step.max(1)) == 0
            }
            (Self::Bool, ParamValue::Bool(_)) => true,
            (Self::Cat(list), ParamValue::Cat(at)) => {
                usize::try_from(*at).is_ok_and(|at| at < list.choices.choices.len())
            }
            _ => return Err(SpaceFault::WrongType),
        };
        if inside {
            Ok(())
        } else {
            Err(SpaceFault::OutOfRange)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn float(low: f64, high: f64, step: Option<f64>) -> Distribution {
        let step = step.map(JsonF64);
        let (low, high, log) = (JsonF64(low), JsonF64(high), false);
        Distribution::Float(FloatRange {
            low,
            high,
            log,
            step,
        })
    }

    fn holds(dist: &Distribution, value: f64) -> bool {
        dist.check().unwrap();
        match dist.check_value(&ParamValue::F64(JsonF64(value))) {
            Ok(()) => true,
            Err(SpaceFault::OutOfRange) => false,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_float_with_a_step_lies_on_one() {
        let tenths = float(0.0, 1.0, Some(0.1));
        for value in [0.0, 0.1, 0.3, 0.1 + 0.2, 0.7, 1.0, 1.0 - 0.1] {
            assert!(holds(&tenths, value), "{value}");
        }
        for value in [0.05, 0.101, 0.999, 1e-6, 0.1 + 1e-7] {
            assert!(!holds(&tenths, value), "{value}");
        }
        // The end of a range need not be on a step: then it is no value.
        let thirds = float(-1.0, 1.0, Some(0.75));
        assert!([-1.0, -0.25, 0.5].iter().all(|v| holds(&thirds, *v)));
        assert!(!holds(&thirds, 1.0) && !holds(&thirds, 0.0));
        for value in [f64::NAN, f64::INFINITY, -0.1, 1.1] {
            assert!(!holds(&tenths, value), "{value}");
        }
    }

    #[test]
    fn a_step_finer_than_floats_can_tell_is_no_restriction() {
        let wide = float(f64::MIN, f64::MAX, Some(1.0));
        assert!(holds(&wide, 0.1) && holds(&wide, 1e300) && holds(&wide, f64::MIN));
        let fine = float(0.0, 1e300, Some(5e-324));
        assert!(holds(&fine, 0.1) && holds(&fine, 1e299));
        assert!(holds(&float(1e15, 2e15, Some(0.1)), 1e15 + 1.0));
    }

    proptest! {
        #[test]
        fn every_step_of_a_range_is_one_of_its_values(
            low in -1e9..1e9f64, step in 1e-6..1e3f64, count in 0..1_000_000u32,
        ) {
            let value = low + f64::from(count) * step;
            let dist = float(low, value + step, Some(step));
            prop_assert!(holds(&dist, value));
        }
    }

    #[test]
    fn a_list_of_choices_of_another_version_is_refused() {
        let value = ChoiceValue {
            value_type: "int".to_owned(),
            value: 1.into(),
        };
        let label = "one".to_owned();
        for version in [0, 1, 2, u32::MAX] {
            let choices = vec![Choice {
                label: label.clone(),
                value: value.clone(),
            }];
            let choices = ChoiceList { version, choices };
            let dist = Distribution::Cat(Categories { choices });
            let expected = match version {
                CHOICES_VERSION => Ok(()),
                found => Err(SpaceFault::ChoicesVersion { found }),
            };
            assert_eq!(dist.check(), expected);
        }
    }
}
