//! `top_failures`: failed spans in groups.

use traza::store::analytics::FailureGroup;
use traza::store::{Query, SnapshotView};

use super::search::nothing;
use crate::mcp::args::Args;
use crate::mcp::clean;
use crate::mcp::context::Context;
use crate::mcp::error::ToolError;
use crate::mcp::format;
use crate::mcp::report::Report;
use crate::mcp::spans::{FILTER_ARGS, content_lines, filter, tenant_suffix};

const LIMIT_DEFAULT: usize = 10;
const LIMIT_MAX: usize = 50;

pub(in crate::mcp) fn run(context: &Context<'_>, args: &Args<'_>) -> Result<Report, ToolError> {
    args.only("top_failures", &FILTER_ARGS)?;
    let filter = filter(context, args)?;
    let limit = args.limit("limit", LIMIT_DEFAULT, LIMIT_MAX)?;
    let is_content = args.flag("include_content")?;
    let view = context.view();
    let failures = view.failures(&filter, limit)?;
    if failures.groups.is_empty() {
        return nothing(context, &filter, false);
    }
    let mut report = Report::new(
        format!(
            "{} in {}. Shares are of all of them, not of the rows shown.",
            format::counted(failures.total, "span"),
            format::counted_len(failures.distinct, "group"),
        ),
        "with 'since', a 'service', or a smaller 'limit'",
    );
    for (index, group) in failures.groups.iter().enumerate() {
        let mut text = row(index + 1, group, failures.total);
        if is_content {
            text.push_str(&example(&view, group)?);
        }
        report.row(text);
    }
    if failures.groups_omitted > 0 {
        let omitted = format::counted_len(failures.groups_omitted, "smaller group");
        report.note(format!("{omitted} left out by 'limit'."));
    }
    if failures.spans_untracked > 0 {
        let untracked = format::counted(failures.spans_untracked, "span");
        report.note(format!(
            "{untracked} of groups beyond the bound of {} are in no row.",
            failures.distinct
        ));
    }
    report.note("get_trace opens the example of a row.");
    Ok(report)
}

fn row(number: usize, group: &FailureGroup, total: u64) -> String {
    let count = group.durations.count();
    // In tenths of a percent.
    let share = u128::from(count) * 1_000 / u128::from(total.max(1));
    format!(
        "{number:>3}  {} ({}.{}%)  {} / {}  status={}  p50 {} p95 {}  first {} last {}  trace={} span={}{}",
        format::count(count),
        share / 10,
        share % 10,
        clean::name(&group.service),
        clean::name(&group.name),
        clean::name(&group.status),
        format::duration(group.durations.percentile(50)),
        format::duration(group.durations.percentile(95)),
        format::time(group.first_seen_ns),
        format::time(group.last_seen_ns),
        clean::name(&group.example_trace_id),
        clean::name(&group.example_span_id),
        tenant_suffix(&group.example_tenant),
    )
}

fn example(view: &SnapshotView, group: &FailureGroup) -> Result<String, ToolError> {
    let mut filter = traza::store::Filter::default();
    filter.tenant = Some(group.example_tenant.clone());
    filter.trace_ids = vec![group.example_trace_id.clone()];
    filter.span_ids = vec![group.example_span_id.clone()];
    let mut query = Query::new(filter);
    query.limit = 1;
    let page = view.query(&query)?;
    Ok(page
        .spans
        .first()
        .map_or_else(String::new, |span| content_lines(span, "       ")))
}
