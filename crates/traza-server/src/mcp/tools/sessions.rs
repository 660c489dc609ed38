//! `list_sessions` and `get_session`.

use std::cmp::Reverse;

use serde_json::{Map, Value, json};
use traza::store::analytics::SessionSummary;

use crate::mcp::args::Args;
use crate::mcp::clean;
use crate::mcp::context::Context;
use crate::mcp::error::ToolError;
use crate::mcp::format;
use crate::mcp::report::Report;
use crate::mcp::schema;
use crate::mcp::spans::{row, tenant_suffix};

const LIMIT_DEFAULT: usize = 20;
const LIMIT_MAX: usize = 100;
const ORDERS: [&str; 4] = ["recent", "cost", "errors", "tokens"];

pub(in crate::mcp) fn list_schema() -> Value {
    let mut properties = schema::window();
    properties.push((
        "order_by",
        schema::word(&ORDERS, "Which come first; 'recent' by default."),
    ));
    properties.push((
        "limit",
        schema::limit("How many rows.", LIMIT_DEFAULT, LIMIT_MAX),
    ));
    schema::object(&properties, &[])
}

pub(in crate::mcp) fn list(context: &Context<'_>, args: &Args<'_>) -> Result<Report, ToolError> {
    args.only("list_sessions", &["since", "until", "order_by", "limit"])?;
    let scope = context.scope(args.window()?);
    let order = args.word("order_by", &ORDERS)?.unwrap_or("recent");
    let limit = args.limit("limit", LIMIT_DEFAULT, LIMIT_MAX)?;
    // All of them are ranked, then cut.
    let mut sessions = context.view().sessions(&scope, usize::MAX)?;
    // What is equal in the order asked for is in that of names.
    let name = |session: &SessionSummary| (session.id.session.clone(), session.id.tenant.clone());
    match order {
        "cost" => sessions.sort_by(|a, b| {
            let dearest = b.counters.cost_usd.total_cmp(&a.counters.cost_usd);
            dearest.then_with(|| name(a).cmp(&name(b)))
        }),
        "errors" => {
            sessions.sort_by_cached_key(|found| (Reverse(found.counters.errors), name(found)));
        }
        "tokens" => {
            sessions
                .sort_by_cached_key(|found| (Reverse(found.counters.total_tokens), name(found)));
        }
        // They come like this.
        _ => {}
    }
    let found = sessions.len();
    sessions.truncate(limit);
    let mut report = if sessions.is_empty() {
        Report::new("No sessions in this window.", "")
    } else {
        let head = format!(
            "{} of {}, by {order}.",
            sessions.len(),
            format::counted_len(found, "session")
        );
        Report::new(head, "with 'since' or a smaller 'limit'")
    };
    report.structure(&["sessions"], Map::new(), None);
    let mut sum = traza::rollup::Counters::default();
    for (index, session) in sessions.iter().enumerate() {
        sum.add(&session.counters);
        report.row(line(index + 1, session));
        report.item("sessions", structured(session));
    }
    if sessions.is_empty() {
        report.note(
            "A session is made of spans with one of the attributes that name it. Widen 'since', or ask describe_store \
             whether any span here has one.",
        );
    } else {
        report.note("get_session opens any of them, and diagnose_session tells why it went wrong.");
    }
    if let Some(note) = format::money_note(&sum) {
        report.note(note);
    }
    Ok(report)
}

fn line(number: usize, session: &SessionSummary) -> String {
    let counters = &session.counters;
    format!(
        "{number:>3}  {}  {} · {} · {} · {} tok · {} · {} · ends {}{}{}",
        clean::name(&session.id.session),
        format::counted_len(session.trace_count, "trace"),
        format::counted(counters.spans, "span"),
        format::counted(counters.llm_calls, "LLM call"),
        format::count(counters.total_tokens),
        format::money(counters),
        format::counted(counters.errors, "error"),
        format::time(session.last_end_ns),
        session
            .key
            .map_or_else(String::new, |key| format!(" · [{}]", key.attribute())),
        tenant_suffix(&session.id.tenant),
    )
}

fn structured(session: &SessionSummary) -> Value {
    let counters = &session.counters;
    let mut row = row(
        counters,
        [
            ("session_id", json!(clean::structured(&session.id.session))),
            (
                "session_attribute",
                json!(session.key.map_or("", traza::llm::SessionKey::attribute)),
            ),
            ("first_start_ns", json!(session.first_start_ns)),
            ("last_end_ns", json!(session.last_end_ns)),
            ("trace_count", json!(session.trace_count)),
            ("span_count", json!(counters.spans)),
            ("llm_calls", json!(counters.llm_calls)),
            ("total_tokens", json!(counters.total_tokens)),
            ("error_count", json!(counters.errors)),
        ],
    );
    if let (Some(row), false) = (row.as_object_mut(), session.id.tenant.is_empty()) {
        row.insert("tenant".to_owned(), json!(session.id.tenant));
    }
    row
}

pub(in crate::mcp) fn get(context: &Context<'_>, id: &str) -> Result<Report, ToolError> {
    session(context, id)?.ok_or_else(|| {
        ToolError::new(
            "There is no session with this id. Take one from list_sessions; they are compared exactly, and it is the value \
             that counts, not the attribute that holds it.",
        )
    })
}

/// The session, `None` when there is none that the caller may see.
pub(in crate::mcp) fn session(
    context: &Context<'_>,
    id: &str,
) -> Result<Option<Report>, ToolError> {
    let Some(detail) = context.view().session(id, context.caller.tenant)? else {
        return Ok(None);
    };
    let summary = &detail.summary;
    let counters = &summary.counters;
    let head = format!(
        "{}, {}, {}, {}, {}, {}, from {} to {}.",
        format::counted_len(summary.trace_count, "trace"),
        format::counted(counters.spans, "span"),
        format::counted(counters.llm_calls, "LLM call"),
        format::counted(counters.total_tokens, "token"),
        format::money(counters),
        format::counted(counters.errors, "error"),
        format::time(summary.first_start_ns),
        format::time(summary.last_end_ns),
    );
    let mut report = Report::new(head, "to one trace with get_trace");
    let key = summary.key.map_or("", traza::llm::SessionKey::attribute);
    report.row(format!(
        "session={} (named by {key}){}",
        clean::name(id),
        tenant_suffix(&summary.id.tenant)
    ));
    for trace in &detail.traces {
        report.row(format!(
            "  {}  {}  {} · {} tok · {} · {}  trace={}",
            format::time(trace.first_start_ns),
            clean::name(&trace.root_name),
            format::counted(trace.counters.spans, "span"),
            format::count(trace.counters.total_tokens),
            format::money(&trace.counters),
            format::counted(trace.counters.errors, "error"),
            clean::name(&trace.trace_id),
        ));
    }
    report.note("get_trace opens any of these traces.");
    if let Some(note) = format::money_note(counters) {
        report.note(note);
    }
    Ok(Some(report))
}
