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

/// A list to choose from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Categories {
    /// The list.
    pub choices: ChoiceList,
}

/// A versioned list of choices: it may grow at its end while a study runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChoiceList {
    /// The version of this encoding: 1.
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
    pub value: Value,
}

/// Parameters that are fixed before a trial starts, and the trial that they come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// Values by parameter name.
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
    /// The value lies outside of the range or the list.
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
            Self::Cat(list) if list.choices.choices.is_empty() => {
                return Err(SpaceFault::NoChoices);
            }
            Self::Bool | Self::Cat(_) => {}
        }
        Ok(())
    }

    /// Checks that `value` is one of this distribution's.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check_value(&self, value: &ParamValue) -> Result<(), SpaceFault> {
        let inside = match (self, value) {
            (Self::Float(range), ParamValue::F64(v)) => (range.low.0..=range.high.0).contains(&v.0),
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
