//! Conditions on variables of the telemetry.

use std::cmp::Ordering;

use omniloop_core::analysis::value_of;
use omniloop_core::export::number_of;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a variable is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    /// Greater.
    #[serde(rename = ">")]
    Greater,
    /// Greater or equal.
    #[serde(rename = ">=")]
    GreaterOrEqual,
    /// Less.
    #[serde(rename = "<")]
    Less,
    /// Less or equal.
    #[serde(rename = "<=")]
    LessOrEqual,
    /// Equal.
    #[serde(rename = "==")]
    Equal,
    /// Not equal.
    #[serde(rename = "!=")]
    NotEqual,
    /// A number that is NaN or infinite.
    #[serde(rename = "not_finite")]
    NotFinite,
}

/// What a trip of a watch means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchPolicy {
    /// The loop halts.
    #[default]
    Halt,
    /// The trip is recorded, and the loop goes on.
    Record,
}

/// When a watch trips.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Condition {
    /// The variable.
    pub name: String,
    /// How it is compared.
    pub op: Operator,
    /// With what.
    pub than: Value,
}

impl Condition {
    /// The variable's value, if the condition holds for it. A variable that is not there trips nothing.
    /// Numbers compare with numbers, NaN with none of them; anything else is only equal or not.
    pub fn holds<'v>(&self, telemetry: &'v Value) -> Option<&'v Value> {
        let value = value_of(telemetry, &self.name)?;
        let order = match (number_of(value), number_of(&self.than)) {
            (Some(value), Some(than)) => value.partial_cmp(&than),
            _ => (*value == self.than).then_some(Ordering::Equal),
        };
        let does = match self.op {
            Operator::Greater => order == Some(Ordering::Greater),
            Operator::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
            Operator::Less => order == Some(Ordering::Less),
            Operator::LessOrEqual => order.is_some_and(Ordering::is_le),
            Operator::Equal => order == Some(Ordering::Equal),
            Operator::NotEqual => order != Some(Ordering::Equal),
            Operator::NotFinite => number_of(value).is_some_and(|value| !value.is_finite()),
        };
        does.then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_hold_for_what_they_say_and_never_for_what_is_not_there() {
        let telemetry = json!({"loss": 2.5, "bad": "NaN", "arm": {"q": [1, 2]}, "mode": "auto"});
        let holds = |name: &str, op: &str, than: Value| {
            let op = serde_json::from_value(json!(op)).unwrap();
            let name = name.to_owned();
            Condition { name, op, than }.holds(&telemetry).is_some()
        };
        assert!(holds("loss", ">", json!(2)) && !holds("loss", ">", json!(2.5)));
        assert!(holds("loss", ">=", json!(2.5)) && holds("loss", "<=", json!(2.5)));
        assert!(holds("loss", "<", json!(3)) && !holds("loss", "<", json!(-3)));
        assert!(holds("arm.q.1", "==", json!(2.0)) && holds("mode", "==", json!("auto")));
        assert!(holds("mode", "!=", json!("manual")) && !holds("mode", ">", json!(1)));
        assert!(
            holds("bad", "not_finite", json!(null)) && !holds("loss", "not_finite", json!(null))
        );
        assert!(!holds("bad", ">", json!(0)) && !holds("bad", "<=", json!(0)));
        for op in [">", "<", "==", "!=", "not_finite"] {
            assert!(!holds("absent", op, json!(0)), "{op}");
        }
    }
}
