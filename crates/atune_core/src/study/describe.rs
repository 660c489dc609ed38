//! Distributions in words, for errors.

use std::fmt;

use crate::space::{Distribution, FloatRange, IntRange};

/// Choices that are spelled out; of longer lists the rest is counted.
const CHOICES_SHOWN: usize = 8;

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(FloatRange {
                low,
                high,
                log,
                step,
            }) => {
                write!(f, "float {:?} to {:?}", low.0, high.0)?;
                scale(f, *log, step.map(|step| step.0))
            }
            Self::Int(IntRange {
                low,
                high,
                log,
                step,
            }) => {
                write!(f, "int {low} to {high}")?;
                scale(f, *log, step.filter(|step| *step != 1))
            }
            Self::Bool => f.write_str("bool"),
            Self::Cat(list) => {
                let choices = &list.choices.choices;
                let shown = choices.iter().take(CHOICES_SHOWN);
                let labels: Vec<&str> = shown.map(|choice| choice.label.as_str()).collect();
                write!(f, "choices [{}", labels.join(", "))?;
                match choices.len().saturating_sub(CHOICES_SHOWN) {
                    0 => f.write_str("]"),
                    more => write!(f, " and {more} more]"),
                }
            }
        }
    }
}

fn scale<T: fmt::Debug>(f: &mut fmt::Formatter<'_>, log: bool, step: Option<T>) -> fmt::Result {
    if log {
        f.write_str(", logarithmic")?;
    }
    step.map_or(Ok(()), |step| write!(f, ", in steps of {step:?}"))
}
