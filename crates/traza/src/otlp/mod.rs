//! Spans out of the export requests of OpenTelemetry: ids, times and attributes as they are sent; what the span has no place
//! for (kind, trace state, schema addresses, the name of the scope) is left out.

mod json;

pub use json::{COPIED_LEN_MAX, OtlpError, resource_spans_from_json, spans_from_json};
