//! How a span is written, and how spans are chosen by arguments.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use traza::content;
use traza::llm::{Cost, Facts, Pricing, Tokens};
use traza::rollup::Counters;
use traza::span::Span;
use traza::store::Filter;

use super::args::Args;
use super::clean;
use super::context::Context;
use super::error::ToolError;
use super::format;

/// So many attributes of a span and its events are shown.
const ATTRIBUTES_MAX: usize = 12;
/// So many events of a span are shown.
const EVENTS_MAX: usize = 4;
/// So many characters of a value are shown.
const VALUE_CHARS_MAX: usize = 200;

/// The arguments that choose spans.
pub(super) const FILTER_ARGS: [&str; 14] = [
    "service",
    "name",
    "status",
    "exclude_status",
    "content",
    "session",
    "attributes",
    "exclude_attributes",
    "min_duration_ms",
    "max_duration_ms",
    "since",
    "until",
    "limit",
    "include_content",
];

/// The spans that the arguments choose among those that the caller may see.
pub(super) fn filter(context: &Context<'_>, args: &Args<'_>) -> Result<Filter, ToolError> {
    let text = |name| Ok::<_, ToolError>(args.string(name)?.map(str::to_owned));
    let window = args.window()?;
    let mut filter = context.filter();
    filter.service = text("service")?;
    filter.name = text("name")?;
    filter.status = text("status")?;
    filter.not_status = args.strings("exclude_status")?;
    filter.content = args.string("content")?.map(content::Query::new);
    filter.session = text("session")?;
    filter.attributes = args.attributes("attributes")?;
    filter.not_attributes = args.attributes("exclude_attributes")?;
    filter.min_duration_ns = args.milliseconds("min_duration_ms", true)?;
    filter.max_duration_ns = args.milliseconds("max_duration_ms", false)?;
    filter.since = window.since;
    filter.until = window.until;
    Ok(filter)
}

/// How long a span took; 0 when it ends before it starts.
pub(super) fn duration_ns(span: &Span) -> u64 {
    span.end_time_ns.saturating_sub(span.start_time_ns)
}

/// The counters of one span.
pub(super) fn counters(span: &Span, pricing: &Pricing) -> Counters {
    let facts = Facts::of(span);
    Counters::of(span, &facts, Cost::of(&facts, pricing))
}

/// How a span ended.
pub(super) fn status(span: &Span) -> String {
    match span.status.as_str() {
        "" => "unset".to_owned(),
        status => clean::name(status),
    }
}

/// A span as one line; whose it is stands there when that is not the default tenant.
pub(super) fn summary(number: usize, span: &Span) -> String {
    format!(
        "{number:>3}  {}  {}  {}  {}  {}  trace={} span={}{}",
        format::time(span.start_time_ns),
        status(span),
        clean::name(&span.service),
        clean::name(&span.name),
        format::duration(duration_ns(span)),
        clean::name(&span.trace_id),
        clean::name(&span.span_id),
        tenant_suffix(&span.tenant),
    )
}

/// Names a tenant, unless it is the default one.
pub(super) fn tenant_suffix(tenant: &str) -> String {
    match tenant {
        "" => String::new(),
        tenant => format!(" tenant={}", clean::name(tenant)),
    }
}

/// The attributes and events of a span, a line each, indented; before them which attribute told which count of tokens.
pub(super) fn content_lines(span: &Span, indent: &str) -> String {
    let mut out = String::new();
    let told = Tokens::of(&span.attributes);
    let told = told.named().map(|(name, told)| {
        let count = format::count(told.count);
        format!("{count} {name} ({})", told.key)
    });
    let told: Vec<String> = told.collect();
    if !told.is_empty() {
        write!(out, "\n{indent}[tokens] {}", told.join(", ")).ok();
    }
    let mut left = ATTRIBUTES_MAX;
    let mut attributes = |attributes: &traza::json::Object, indent: &str, out: &mut String| {
        for (key, value) in attributes.iter().take(left) {
            let value = clean::line(&format::value(value), VALUE_CHARS_MAX);
            write!(out, "\n{indent}{} = {value}", clean::line(key, 100)).ok();
        }
        let shown = attributes.len().min(left);
        left -= shown;
        if attributes.len() > shown {
            let rest = format::counted_len(attributes.len() - shown, "more attribute");
            write!(out, "\n{indent}… {rest}").ok();
        }
    };
    attributes(&span.attributes, indent, &mut out);
    for event in span.events.iter().take(EVENTS_MAX) {
        let at = format::time(event.timestamp_ns);
        write!(
            out,
            "\n{indent}[event] {} at {at}",
            clean::name(&event.name)
        )
        .ok();
        attributes(&event.attributes, &format!("{indent}  "), &mut out);
    }
    if span.events.len() > EVENTS_MAX {
        let rest = format::counted_len(span.events.len() - EVENTS_MAX, "more event");
        write!(out, "\n{indent}… {rest}").ok();
    }
    out
}

/// What is known of costs, as members of a structured row.
pub(super) fn cost_fields(counters: &Counters) -> Map<String, Value> {
    let fields = [
        ("cost_usd", json!(counters.cost_usd)),
        ("cost_derived_usd", json!(counters.cost_derived_usd)),
        ("cost_metered_calls", json!(counters.cost_metered_calls)),
        ("cost_derived_calls", json!(counters.cost_derived_calls)),
        ("cost_unpriced_calls", json!(counters.cost_unpriced_calls)),
    ];
    fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The costs with further members.
pub(super) fn row<const N: usize>(counters: &Counters, fields: [(&str, Value); N]) -> Value {
    let mut row = cost_fields(counters);
    row.extend(
        fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    Value::Object(row)
}
