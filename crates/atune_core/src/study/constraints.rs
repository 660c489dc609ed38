//! Constraints of a trial: named numbers that are met when they are not above 0.
//!
//! They stand in the user attribute [`CONSTRAINTS_KEY`] of the trial, an object of numbers by name; those
//! that are not finite are spelled as everywhere in a journal.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::number::JsonF64;
use crate::replica::Trial;

/// The user attribute of a trial that holds its constraints.
pub const CONSTRAINTS_KEY: &str = "constraints";

/// The constraints of a trial by name, if it has any.
pub fn of(trial: &Trial) -> Option<BTreeMap<String, f64>> {
    let (_, found) = trial
        .user_attrs()
        .find(|(key, _)| *key == CONSTRAINTS_KEY)?;
    let members = found.as_object()?.iter();
    let number = |(name, value): (&String, &Value)| {
        let value: JsonF64 = serde_json::from_value(value.clone()).ok()?;
        Some((name.clone(), value.0))
    };
    members.map(number).collect()
}

/// How far a trial misses its constraints, added up: 0 when all are met. One that is not a number is missed
/// by all means.
pub(super) fn violation(trial: &Trial) -> Option<f64> {
    let missed = |value: f64| {
        if value.is_nan() {
            f64::INFINITY
        } else {
            value.max(0.0)
        }
    };
    Some(of(trial)?.into_values().map(missed).sum())
}

/// False for a trial that misses one of its constraints.
pub fn are_met(trial: &Trial) -> bool {
    violation(trial).is_none_or(|missed| missed <= 0.0)
}

/// Constraints as the attribute's value.
pub(super) fn to_json(constraints: &BTreeMap<String, f64>) -> Value {
    let member = |(name, value): (&String, &f64)| {
        let value = serde_json::to_value(JsonF64(*value)).unwrap_or_default();
        (name.clone(), value)
    };
    Value::Object(constraints.iter().map(member).collect())
}
