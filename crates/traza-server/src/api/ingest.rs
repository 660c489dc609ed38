//! `POST /v1/spans` and `POST /v1/traces`: spans come in.

use std::time::Instant;

use traza::span::{Span, SpanError};

use super::{Answered, Call};
use crate::encoding::{ContentEncoding, EncodingError};
use crate::http::{BODY_LEN_MAX, JSON, LARGE_LEN, Refusal, Response};
use crate::otlp::{self, Encoding};
use crate::render::{count, object};

/// The body of a request that sends spans.
const SHAPE: &str = "body must be an array or {spans: [...]}";

pub(crate) fn ingest_spans<'a>(call: &Call<'a>) -> Answered<'a> {
    let started = Instant::now();
    let mut spans = Span::body_from_json(call.body())
        .map_err(|error| match error {
            SpanError::Shape => SHAPE.to_owned(),
            SpanError::Twice { field, offset } => {
                format!("duplicate field `{field}` at byte {offset}")
            }
            error => error.to_string(),
        })
        .map_err(Refusal::bad_request)?;
    call.server.metrics.decoded(spans.len(), started.elapsed());
    for (index, span) in spans.iter_mut().enumerate() {
        if span.trace_id.is_empty() {
            return Err(Refusal::bad_request(format!(
                "span {index}: trace_id is empty"
            )));
        }
        if span.span_id.is_empty() {
            return Err(Refusal::bad_request(format!(
                "span {index}: span_id is empty"
            )));
        }
    }
    bind(&mut spans, call.caller().tenant.as_deref())?;
    let ingested = call.server.ingest(spans)?;
    let durability = traza::json::Value::from(ingested.durability.as_str());
    let mut members = vec![
        ("accepted", count(ingested.accepted)),
        ("durability", durability),
    ];
    if ingested.suppressed > 0 {
        members.push(("suppressed", count(ingested.suppressed)));
    }
    super::json(&object(members))
}

/// Gives spans the tenant of a bound credential, and refuses those of another.
pub(crate) fn bind(spans: &mut [Span], bound: Option<&str>) -> Result<(), Refusal> {
    let Some(bound) = bound else {
        return Ok(());
    };
    for (index, span) in spans.iter_mut().enumerate() {
        if span.tenant.is_empty() {
            span.tenant = bound.into();
        } else if span.tenant != bound {
            return Err(Refusal::bad_request(format!(
                "span {index}: tenant does not match the credential's binding"
            )));
        }
    }
    Ok(())
}

pub(crate) fn ingest_otlp<'a>(call: &Call<'a>) -> Answered<'a> {
    let head = &call.request.head;
    let encoding = Encoding::of(head.field("content-type"));
    let len_max = usize::try_from(BODY_LEN_MAX).unwrap_or(usize::MAX);
    let unreadable = |error: EncodingError| Refusal::bad_request(error.to_string());
    let compression =
        ContentEncoding::from_header(head.field("content-encoding")).map_err(unreadable)?;
    let mut turn = None;
    let body = match compression.decode(call.body(), LARGE_LEN) {
        Err(EncodingError::TooLong { .. }) => {
            // A body that is large as it came has its turn already.
            if call.body().len() <= LARGE_LEN {
                turn = Some(call.server.memory.turn());
            }
            compression.decode(call.body(), len_max)
        }
        decoded => decoded,
    };
    let body = body.map_err(unreadable)?;
    let started = Instant::now();
    let mut spans = otlp::decode(encoding, &body).map_err(Refusal::bad_request)?;
    call.server.metrics.decoded(spans.len(), started.elapsed());
    bind(&mut spans, call.caller().tenant.as_deref())?;
    let ingested = call.server.ingest(spans)?;
    drop(turn);
    let suppressed = ingested.suppressed as u64;
    let (content_type, bytes) = match encoding {
        Encoding::Json => (JSON, traza::otlp::response_json(suppressed).into_bytes()),
        Encoding::Protobuf => (
            "application/x-protobuf",
            traza::otlp::response_protobuf(suppressed),
        ),
    };
    Ok(Response::new(200, content_type, bytes).into())
}
