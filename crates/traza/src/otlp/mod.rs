//! Spans out of the export requests of OpenTelemetry, and back: ids, times and attributes as they are sent; what the span has
//! no place for (kind, trace state, schema addresses, the name of the scope) is left out.

mod error;
mod json;
mod protobuf;
mod response;
mod write;

pub use error::{COPIED_LEN_MAX, OtlpError};
pub use json::{resource_spans_from_json, spans_from_json};
pub use protobuf::{ELEMENTS_LEN_MAX, Fault, VALUE_DEPTH_MAX, spans_from_protobuf};
pub use response::{SUPPRESSED_MESSAGE, response_json, response_protobuf};
pub use write::{IdError, Losses, WRITTEN_DEPTH_MAX, write_request};

use crate::json::{Number, Object, Value, write_object};

/// The service of spans whose resource names none.
const UNKNOWN_SERVICE: &str = "unknown_service";

/// Attributes of a resource that its spans take on, beneath those of their scope and their own: by them studies, runs and
/// sessions are found. Texts and numbers only; of several of one name the first.
const KEPT_OF_RESOURCES: [&str; 4] = ["run.id", "session.id", "study.id", "trial.number"];

/// Keeps an attribute of a resource, if it is one of those.
fn keep_of_resource(kept: &mut Object, key: &str, value: Value) {
    let is_plain = matches!(value, Value::String(_) | Value::Number(_));
    if is_plain && KEPT_OF_RESOURCES.contains(&key) && !kept.contains_key(key) {
        kept.insert(key.to_owned(), value);
    }
}

/// What a scope adds to those, and how long both are as JSON.
fn with_scope(kept: &Object, scope: Object) -> (Object, usize) {
    let mut all = kept.clone();
    all.extend(scope);
    let mut text = String::new();
    write_object(&all, &mut text);
    let len = text.len();
    (all, len)
}

fn signed(number: i64) -> Value {
    Value::Number(match u64::try_from(number) {
        Ok(number) => Number::Unsigned(number),
        Err(_) => Number::Negative(number),
    })
}

/// JSON has no place for NaN and the infinities.
fn double(number: f64) -> Value {
    if number.is_finite() {
        Value::Number(Number::Float(number))
    } else {
        Value::Null
    }
}
