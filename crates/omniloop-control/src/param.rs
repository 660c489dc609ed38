//! Parameters and their limits.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::{Refusal, RefusalKind};

/// A parameter that a loop has declared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Param {
    /// The value now.
    pub value: Value,
    /// The least number; `None` or null without such a limit.
    #[serde(default)]
    pub min: Option<f64>,
    /// The greatest number.
    #[serde(default)]
    pub max: Option<f64>,
}

impl Param {
    /// What becomes of `requested`: itself, or the nearest limit.
    ///
    /// # Errors
    /// `BadValue` when it is of another kind than the value now. A parameter without a value takes any,
    /// and one with limits takes numbers only.
    pub(crate) fn apply(&self, requested: &Value) -> Result<Value, Refusal> {
        let is_bounded = self.min.is_some() || self.max.is_some();
        let wanted = if is_bounded {
            "number"
        } else {
            kind(&self.value)
        };
        if wanted != "null" && kind(requested) != wanted {
            let what = format!("the value is a {wanted}, not a {}", kind(requested));
            return Err(Refusal::new(RefusalKind::BadValue, what));
        }
        let Some(number) = requested.as_f64().filter(|_| is_bounded) else {
            return Ok(requested.clone());
        };
        // The limit as a whole number where it is one, as the loop has most likely declared it.
        let limit = |limit: f64| serde_json::from_str(&limit.to_string()).unwrap_or(limit.into());
        Ok(match (self.min, self.max) {
            (Some(min), _) if number < min => limit(min),
            (_, Some(max)) if number > max => limit(max),
            _ => requested.clone(),
        })
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_is_brought_to_the_nearest_limit_and_anything_else_refused() {
        let param = Param {
            value: json!(0.1),
            min: Some(0.0),
            max: Some(1.5),
        };
        for (requested, applied) in [(0.5, 0.5), (7.0, 1.5), (1e308, 1.5)] {
            assert_eq!(param.apply(&json!(requested)).unwrap(), json!(applied));
        }
        assert_eq!(param.apply(&json!(-1)).unwrap(), json!(0));
        assert_eq!(param.apply(&json!(1)).unwrap(), json!(1));
        for odd in [
            json!("NaN"),
            json!(null),
            json!(true),
            json!([1]),
            json!({}),
        ] {
            assert_eq!(param.apply(&odd).unwrap_err().kind, RefusalKind::BadValue);
        }
    }

    #[test]
    fn a_parameter_without_limits_keeps_its_kind() {
        let param = |value: Value| Param {
            value,
            min: None,
            max: None,
        };
        assert_eq!(param(json!("a")).apply(&json!("b")).unwrap(), json!("b"));
        assert!(param(json!("a")).apply(&json!(1)).is_err());
        assert!(param(json!(true)).apply(&json!(1)).is_err());
        assert_eq!(param(json!(null)).apply(&json!([1])).unwrap(), json!([1]));
    }
}
