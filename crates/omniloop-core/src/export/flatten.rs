//! The variables of a telemetry record, however deeply they are nested.

use serde_json::Value;

/// Calls `take` with the name and value of every leaf of `value`.
///
/// Names are the members joined by dots, elements of arrays by their ordinal: `arm.joints.0`. A dot
/// or backslash inside a member's own name has a backslash before it, so that names stay distinct. An
/// empty object or array is a leaf. A value that is no object is named `payload`.
pub fn flatten(value: &Value, take: &mut dyn FnMut(&str, &Value)) {
    let mut name = String::new();
    if !value.is_object() {
        name.push_str("payload");
    }
    descend(value, &mut name, take);
}

fn descend(value: &Value, name: &mut String, take: &mut dyn FnMut(&str, &Value)) {
    let len = name.len();
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (member, value) in members {
                if len > 0 {
                    name.push('.');
                }
                for c in member.chars() {
                    if matches!(c, '.' | '\\') {
                        name.push('\\');
                    }
                    name.push(c);
                }
                descend(value, name, take);
                name.truncate(len);
            }
        }
        Value::Array(elements) if !elements.is_empty() => {
            for (ordinal, value) in elements.iter().enumerate() {
                name.push('.');
                name.push_str(&ordinal.to_string());
                descend(value, name, take);
                name.truncate(len);
            }
        }
        // An empty record has no variables.
        Value::Object(_) if len == 0 => {}
        leaf => take(name, leaf),
    }
}

/// The value as a number: JSON numbers, and the strings that stand for the non-finite ones.
pub fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}
