//! What the store holds, for a reader who knows nothing of it yet.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use traza::store::analytics::{Group, LlmRow};

use super::args::Window;
use super::clean;
use super::context::Context;
use super::error::ToolError;
use super::format;
use super::report::Report;

/// So many names of one kind are listed.
const NAMES_MAX: usize = 20;
const ADVICE: &str = "to one kind of names with analyze_cost";

/// The overview: what the caller may know of it.
pub(super) fn overview(context: &Context<'_>) -> Result<Report, ToolError> {
    let view = context.view();
    let scope = context.scope(Window::default());
    let groups = |group| Ok::<_, ToolError>(view.llm(group, &scope, usize::MAX)?);
    let mut report = Report::new(volume(context)?, ADVICE);
    let services = groups(Group::Service)?;
    if services.is_empty() {
        report.note("No spans yet.");
        return Ok(report);
    }
    report.row(names("Services", services, "span", |row| {
        row.counters.spans
    }));
    report.row(names("Models", groups(Group::Model)?, "call", |row| {
        row.counters.llm_calls
    }));
    report.row(names(
        "Providers",
        groups(Group::Provider)?,
        "call",
        |row| row.counters.llm_calls,
    ));
    let sessions = view.sessions(&scope, usize::MAX)?;
    let keys: BTreeSet<&str> = sessions
        .iter()
        .filter_map(|session| Some(session.key?.attribute()))
        .collect();
    report.row(match sessions.len() {
        0 => "Sessions: none".to_owned(),
        count => {
            let keys: Vec<&str> = keys.into_iter().collect();
            format!(
                "Sessions: {}, named by {}",
                format::count(count as u64),
                keys.join(", ")
            )
        }
    });
    report.note(
        "Times are nanoseconds since the Unix epoch. 'since' and 'until' also take an age ('2h', '7d'), an RFC 3339 time, or \
         a date.",
    );
    Ok(report)
}

/// Version, size, durability and days, in two lines.
fn volume(context: &Context<'_>) -> Result<String, ToolError> {
    let view = context.view();
    let durability = context.store.options().durability.as_str();
    let version = context.server_version;
    let size = if let Some(tenant) = context.caller.tenant {
        // How much others have is none of its business.
        let usage = view
            .tenants(Some(tenant))?
            .into_iter()
            .next()
            .unwrap_or_default();
        format!(
            "{} in {} ({})",
            format::counted(usage.spans, "span"),
            format::counted(usage.traces, "trace"),
            format::bytes(usage.span_bytes.saturating_add(usage.payload_bytes))
        )
    } else {
        let stats = context.store.stats();
        let records = stats
            .persisted_records
            .saturating_add(stats.buffered_spans as u64);
        format!(
            "{} in {} ({})",
            format::counted(records, "record"),
            format::counted_len(stats.segments, "segment"),
            format::bytes(stats.segment_bytes)
        )
    };
    let mut text = format!("Traza {version}: {size}, durability={durability}");
    let mut days = view.llm(Group::Day, &context.scope(Window::default()), usize::MAX)?;
    days.sort_by(|a, b| a.key.cmp(&b.key));
    if let (Some(first), Some(last)) = (days.first(), days.last()) {
        let count = format::counted_len(days.len(), "day");
        write!(
            text,
            "\nDays covered (UTC): {} to {} ({count} with data)",
            first.key, last.key
        )
        .ok();
    }
    Ok(text)
}

fn names(kind: &str, mut rows: Vec<LlmRow>, unit: &str, count: impl Fn(&LlmRow) -> u64) -> String {
    if rows.is_empty() {
        return format!("{kind}: none");
    }
    rows.sort_by(|a, b| (Reverse(count(a)), &a.key).cmp(&(Reverse(count(b)), &b.key)));
    let mut listed: Vec<String> = rows
        .iter()
        .take(NAMES_MAX)
        .map(|row| {
            format!(
                "{} {}",
                clean::name(&row.key),
                format::counted(count(row), unit)
            )
        })
        .collect();
    if rows.len() > NAMES_MAX {
        listed.push(format!(
            "and {} more",
            format::count((rows.len() - NAMES_MAX) as u64)
        ));
    }
    format!(
        "{kind} ({}): {}",
        format::count(rows.len() as u64),
        listed.join(" · ")
    )
}

/// Every service or model with its sums, for the resources that list them.
pub(super) fn inventory(context: &Context<'_>, group: Group) -> Result<Report, ToolError> {
    let mut rows = context
        .view()
        .llm(group, &context.scope(Window::default()), usize::MAX)?;
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    let head = format!(
        "{} in this store.",
        format::counted_len(rows.len(), group.as_str())
    );
    let mut report = Report::new(head, "with analyze_cost");
    for row in &rows {
        report.row(format!(
            "  {}  {} · {} · {} tok · {}",
            clean::name(&row.key),
            format::counted(row.counters.spans, "span"),
            format::counted(row.counters.llm_calls, "call"),
            format::count(row.counters.total_tokens),
            format::money(&row.counters)
        ));
    }
    Ok(report)
}
