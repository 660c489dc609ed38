//! The formats that are text: spans in, bytes out.

use std::io;

use traza::json::Value;
use traza::otlp::{self, Losses};
use traza::span::Span;

use super::Format;
use crate::failure::Failure;

/// Spans of so many bytes or so make one line of a request.
const REQUEST_LEN: usize = 4 << 20;

/// Turns one page after the other into bytes.
pub(super) struct Text {
    format: Format,
    is_first: bool,
    pub(super) losses: Losses,
}

impl Text {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            is_first: true,
            losses: Losses::default(),
        }
    }

    pub(super) fn page(&mut self, spans: &[impl AsRef<Span>]) -> Result<Vec<u8>, Failure> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        match self.format {
            Format::Csv => Ok(csv_rows(spans, is_first)?),
            Format::OtlpJson => requests(spans, &mut self.losses),
            Format::Jsonl | Format::Parquet => Ok(jsonl(spans)),
        }
    }
}

/// A request per line, none of them much longer than [`REQUEST_LEN`] unless one span is.
fn requests(spans: &[impl AsRef<Span>], losses: &mut Losses) -> Result<Vec<u8>, Failure> {
    let mut lines = String::new();
    let mut waiting: Vec<&Span> = Vec::new();
    let mut len = 0;
    for (index, span) in spans.iter().enumerate() {
        let span = span.as_ref();
        len += span.to_json().len();
        waiting.push(span);
        if len < REQUEST_LEN && index + 1 < spans.len() {
            continue;
        }
        otlp::write_request(&waiting, &mut lines, losses).map_err(|error| {
            Failure::new(error.to_string()).with_hint("`--format jsonl` writes every span")
        })?;
        lines.push('\n');
        waiting.clear();
        len = 0;
    }
    Ok(lines.into_bytes())
}

fn jsonl(spans: &[impl AsRef<Span>]) -> Vec<u8> {
    let mut lines = String::new();
    for span in spans {
        span.as_ref().write(&mut lines);
        lines.push('\n');
    }
    lines.into_bytes()
}

pub(super) const TITLES: [&str; 14] = [
    "trace_id",
    "span_id",
    "tenant",
    "parent_span_id",
    "service",
    "name",
    "status",
    "start_time_ns",
    "end_time_ns",
    "duration_ns",
    "attributes",
    "events",
    "links",
    "unknown",
];

fn csv_rows(spans: &[impl AsRef<Span>], with_titles: bool) -> io::Result<Vec<u8>> {
    let mut rows = csv::Writer::from_writer(Vec::new());
    if with_titles {
        rows.write_record(TITLES)?;
    }
    for span in spans {
        let span = span.as_ref();
        let Parts {
            attributes,
            events,
            links,
            unknown,
        } = Parts::of(span);
        rows.write_record([
            &span.trace_id,
            &span.span_id,
            &span.tenant,
            span.parent_span_id.as_deref().unwrap_or_default(),
            &span.service,
            &span.name,
            &span.status,
            &span.start_time_ns.to_string(),
            &span.end_time_ns.to_string(),
            &duration_ns(span).to_string(),
            &attributes,
            &events,
            &links,
            &unknown,
        ])?;
    }
    rows.into_inner()
        .map_err(|error| io::Error::other(error.to_string()))
}

/// How long a span took; nothing when it ended before it began.
pub(super) fn duration_ns(span: &Span) -> u64 {
    span.end_time_ns.saturating_sub(span.start_time_ns)
}

/// What of a span is JSON in a table.
pub(super) struct Parts {
    pub(super) attributes: String,
    pub(super) events: String,
    pub(super) links: String,
    pub(super) unknown: String,
}

impl Parts {
    pub(super) fn of(span: &Span) -> Self {
        // Events and links have no JSON of their own: they are taken from that of the span.
        let stored = Value::parse(span.to_json().as_bytes()).ok();
        let part = |name: &str| {
            let members = stored.as_ref().and_then(Value::as_object);
            members
                .and_then(|members| members.get(name))
                .map(Value::to_string)
        };
        Self {
            attributes: part("attributes").unwrap_or_default(),
            events: part("events").unwrap_or_default(),
            links: part("links").unwrap_or_else(|| "[]".to_owned()),
            unknown: Value::Object(span.unknown.clone()).to_string(),
        }
    }
}
