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

use crate::json::{Number, Value};

/// The service of spans whose resource names none.
const UNKNOWN_SERVICE: &str = "unknown_service";

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
