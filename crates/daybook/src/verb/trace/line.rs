//! A span on one line.

use traza::span::Span;

use crate::styles::{BAD, FAINT, STRONG};
use crate::text::{duration, shorten, wall_time};

/// When, how long, who, what, how it ended, and its ids.
pub(super) fn span_line(span: &Span) -> String {
    format!(
        "{}  {:>10}  {}  {FAINT}{} {}{FAINT:#}",
        wall_time(span.start_time_ns),
        took(span),
        what(span),
        shorten(&span.trace_id, 40),
        shorten(&span.span_id, 40)
    )
}

/// How long it took.
pub(super) fn took(span: &Span) -> String {
    match span.end_time_ns.checked_sub(span.start_time_ns) {
        Some(took) => duration(took),
        None => "ends before".to_owned(),
    }
}

/// Tenant, service, name and status.
pub(super) fn what(span: &Span) -> String {
    let tenant = match span.tenant.as_str() {
        "" => String::new(),
        tenant => format!("[{}] ", shorten(tenant, 64)),
    };
    let status = match span.status.as_str() {
        "" | "ok" => String::new(),
        "error" => format!("  {BAD}error{BAD:#}"),
        other => format!("  {}", shorten(other, 24)),
    };
    format!(
        "{tenant}{}: {STRONG}{}{STRONG:#}{status}",
        shorten(&span.service, 32),
        shorten(&span.name, 60)
    )
}

/// An attribute and its value.
pub(super) fn attributes(span: &Span) -> impl Iterator<Item = String> + '_ {
    span.attributes.iter().map(|(key, value)| {
        let value = shorten(&value.to_string(), 120);
        format!("{} = {value}", shorten(key, 60))
    })
}
