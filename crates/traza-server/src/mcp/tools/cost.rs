//! `analyze_cost`: tokens and money by group, and over time.

use serde_json::{Map, Value, json};
use traza::rollup::Counters;
use traza::store::SnapshotView;
use traza::store::analytics::{BUCKETS_DEFAULT, Bucket, Group, LlmRow};

use crate::mcp::args::{Args, Window};
use crate::mcp::clean;
use crate::mcp::context::Context;
use crate::mcp::error::ToolError;
use crate::mcp::format;
use crate::mcp::report::Report;
use crate::mcp::schema;
use crate::mcp::spans::row;

const LIMIT_DEFAULT: usize = 20;
const LIMIT_MAX: usize = 100;

pub(in crate::mcp) fn schema() -> Value {
    let mut properties = schema::window();
    properties.push((
        "group_by",
        schema::word(
            &Group::ALL.map(Group::as_str),
            "What spans are grouped by; 'model' by default.",
        ),
    ));
    properties.push((
        "over_time",
        schema::flag("Add the sums of equal parts of the window, which needs both of its ends."),
    ));
    properties.push((
        "limit",
        schema::limit("How many rows.", LIMIT_DEFAULT, LIMIT_MAX),
    ));
    schema::object(&properties, &[])
}

pub(in crate::mcp) fn run(context: &Context<'_>, args: &Args<'_>) -> Result<Report, ToolError> {
    args.only(
        "analyze_cost",
        &["group_by", "since", "until", "over_time", "limit"],
    )?;
    let window = args.window()?;
    let words = Group::ALL.map(Group::as_str);
    let group = args
        .word("group_by", &words)?
        .and_then(Group::from_word)
        .unwrap_or_default();
    let limit = args.limit("limit", LIMIT_DEFAULT, LIMIT_MAX)?;
    let is_over_time = args.flag("over_time")?;

    let view = context.view();
    let rows = view.llm(group, &context.scope(window), usize::MAX)?;
    let mut sum = Counters::default();
    for row in &rows {
        sum.add(&row.counters);
    }
    let shown = rows.len().min(limit);
    let head = if rows.is_empty() {
        format!("No spans with a {} in this window.", group.as_str())
    } else {
        let by = group.as_str();
        format!(
            "{shown} of {} by {by}, the dearest first.",
            format::counted_len(rows.len(), "group")
        )
    };
    let mut report = Report::new(
        head,
        "with 'since' or a smaller 'limit', or leave over_time out",
    );
    let series = if is_over_time {
        series(context, &view, window)?
    } else {
        None
    };
    let mut fields = Map::new();
    fields.insert("group_by".to_owned(), json!(group.as_str()));
    let lists: &[&str] = if series.is_some() {
        &["rows", "series"]
    } else {
        &["rows"]
    };
    report.structure(lists, fields, None);
    for (index, row) in rows.iter().take(limit).enumerate() {
        report.row(line(index + 1, row));
        report.item("rows", structured(row));
    }
    for bucket in series.iter().flatten() {
        report.row(bucket_line(bucket));
        report.item("series", structured_bucket(bucket));
    }
    if let Some(note) = format::money_note(&sum) {
        report.note(note);
    }
    if series.is_some() {
        report.note(
            "Parts of the window without a span have no line, but are in the structured half.",
        );
    } else if is_over_time {
        report.note(
            "over_time was not followed: it needs 'since' and 'until', and 'until' after 'since'.",
        );
    }
    Ok(report)
}

fn series(
    context: &Context<'_>,
    view: &SnapshotView,
    window: Window,
) -> Result<Option<Vec<Bucket>>, ToolError> {
    let Window {
        since: Some(since),
        until: Some(until),
    } = window
    else {
        return Ok(None);
    };
    if until <= since {
        return Ok(None);
    }
    let mut filter = context.filter();
    filter.since = Some(since);
    filter.until = Some(until);
    Ok(Some(view.series(&filter, BUCKETS_DEFAULT)?.buckets))
}

fn line(number: usize, row: &LlmRow) -> String {
    let counters = &row.counters;
    let mean = match counters.llm_calls {
        0 => String::new(),
        calls => format!(
            "  mean {}",
            format::duration(counters.llm_duration_ns / calls)
        ),
    };
    format!(
        "{number:>3}  {}  {}  {} tok (in {} / out {})  {}  {}{mean}",
        clean::name(&row.key),
        format::money(counters),
        format::count(counters.total_tokens),
        format::count(counters.prompt_tokens),
        format::count(counters.completion_tokens),
        format::counted(counters.llm_calls, "call"),
        format::counted(counters.errors, "error"),
    )
}

fn structured(llm: &LlmRow) -> Value {
    let counters = &llm.counters;
    row(
        counters,
        [
            ("key", json!(clean::structured(&llm.key))),
            ("spans", json!(counters.spans)),
            ("llm_calls", json!(counters.llm_calls)),
            ("prompt_tokens", json!(counters.prompt_tokens)),
            ("completion_tokens", json!(counters.completion_tokens)),
            ("total_tokens", json!(counters.total_tokens)),
            ("error_count", json!(counters.errors)),
        ],
    )
}

/// Empty for a part of the window without a span.
fn bucket_line(bucket: &Bucket) -> String {
    let counters = &bucket.counters;
    if counters.spans == 0 {
        return String::new();
    }
    format!(
        "  from {}  {} · {} · {} tok · {}",
        format::time(bucket.start_ns),
        format::counted(counters.spans, "span"),
        format::counted(counters.errors, "error"),
        format::count(counters.total_tokens),
        format::money(counters),
    )
}

fn structured_bucket(bucket: &Bucket) -> Value {
    let counters = &bucket.counters;
    row(
        counters,
        [
            ("start_ns", json!(bucket.start_ns)),
            ("spans", json!(counters.spans)),
            ("errors", json!(counters.errors)),
            ("llm_calls", json!(counters.llm_calls)),
            ("total_tokens", json!(counters.total_tokens)),
        ],
    )
}
