//! `diagnose_session`: why a session went wrong.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use traza::span::Span;

use crate::mcp::args::Args;
use crate::mcp::clean;
use crate::mcp::context::Context;
use crate::mcp::diagnosis::{Cause, Ending, Finding, Outcome, Reason, Source, Verdict, diagnose};
use crate::mcp::error::ToolError;
use crate::mcp::format;
use crate::mcp::report::Report;
use crate::mcp::schema;

/// So many spans are looked at closely.
pub(super) const SPANS_MAX: usize = 20_000;
/// The clock is looked at after so many spans.
const CLOCK_EVERY: u64 = 256;

pub(in crate::mcp) fn schema() -> Value {
    schema::object(
        &[
            (
                "session_id",
                schema::text("The session; list_sessions by errors shows candidates."),
            ),
            (
                "max_spans",
                schema::limit(
                    "How many spans to look at, the earliest first.",
                    SPANS_MAX,
                    SPANS_MAX,
                ),
            ),
        ],
        &["session_id"],
    )
}

/// The spans of a session that are looked at closely, and how all of them end.
pub(super) struct Session {
    /// In the order of their starts.
    pub(super) spans: Vec<Arc<Span>>,
    pub(super) ending: Ending,
}

/// Reads the session `id` of a tenant, or of all of them.
///
/// # Errors
/// There is no such session, or it cannot be read in time.
pub(super) fn read(
    context: &Context<'_>,
    id: &str,
    tenant: Option<&str>,
    spans_max: usize,
) -> Result<Session, ToolError> {
    let mut filter = traza::store::Filter::default();
    filter.tenant = tenant.map(str::to_owned);
    filter.session = Some(id.to_owned());
    let stopwatch = context.stopwatch();
    let view = context.view();
    let mut session = Session {
        spans: Vec::new(),
        ending: Ending::default(),
    };
    for (index, span) in (0_u64..).zip(view.spans(&filter)) {
        if index.is_multiple_of(CLOCK_EVERY) {
            stopwatch.check()?;
        }
        let span = span?;
        session.ending.push(&span);
        if session.spans.len() < spans_max {
            session.spans.push(span);
        }
    }
    // Whatever ends they have: those that start together are in the order of their ids.
    session.spans.sort_by(|a, b| {
        (a.start_time_ns, &a.tenant, &a.trace_id, &a.span_id).cmp(&(
            b.start_time_ns,
            &b.tenant,
            &b.trace_id,
            &b.span_id,
        ))
    });
    if session.spans.is_empty() {
        return Err(ToolError::new(
            "There is no session with this id. Take one from list_sessions; they are compared exactly.",
        ));
    }
    Ok(session)
}

pub(in crate::mcp) fn run(context: &Context<'_>, args: &Args<'_>) -> Result<Report, ToolError> {
    args.only("diagnose_session", &["session_id", "max_spans"])?;
    let id = args.required("session_id")?;
    let spans_max = args.limit("max_spans", SPANS_MAX, SPANS_MAX)?;
    let Session { spans, ending } = read(context, id, context.caller.tenant, spans_max)?;
    let outcome = ending.outcome(context.clock.wall_ns());
    let diagnosis = diagnose(&spans);
    let is_truncated = outcome.span_count > spans.len() as u64;

    let mut head = format!(
        "{} {} looked at, {} failed.",
        outcome_text(&outcome),
        format::counted_len(spans.len(), "span"),
        format::count(outcome.error_count)
    );
    if is_truncated {
        let all = format::count(outcome.span_count);
        write!(
            head,
            " Truncated: the session has {all}, and this is about the earliest of them."
        )
        .ok();
    }
    let mut report = Report::new(head, "to one trace with get_trace");
    structure(&mut report, id, &outcome, diagnosis.cause.as_ref(), &spans);
    report.field("examined", json!(spans.len()));
    report.field("truncated", json!(is_truncated));
    report.field("findings_found", json!(diagnosis.findings.len()));
    report.count_items("findings", "findings_reported");

    report.row(session_line(id, &outcome));
    report.row(cause_line(diagnosis.cause.as_ref(), &spans));
    for finding in &diagnosis.findings {
        report.row(finding_lines(finding));
        report.item("findings", structured_finding(finding, &spans));
    }
    report.note(
        "get_trace opens the traces. promote_failures_to_dataset makes examples of the steps at fault; it takes the session.",
    );
    if outcome.source == Source::Derived {
        report.note("No span declares an outcome (session.outcome), so it is read from the last span to end.");
    }
    Ok(report)
}

fn outcome_text(outcome: &Outcome) -> &'static str {
    match (outcome.verdict, outcome.reason) {
        (Verdict::Success, Reason::Declared) => "Succeeded, as declared.",
        (Verdict::Failure, Reason::Declared) => "Failed, as declared.",
        (Verdict::Abandoned, _) => "Abandoned, as declared.",
        (Verdict::Success, _) => "Succeeded: the last span to end did not fail.",
        (Verdict::Failure, _) => "Failed: the last span to end did.",
        (Verdict::Unknown, Reason::StillActive) => "Outcome unknown: it may still be going on.",
        (Verdict::Unknown, _) => "Outcome unknown: what is declared is no word that is known.",
    }
}

fn session_line(id: &str, outcome: &Outcome) -> String {
    let mut line = format!("session={}", clean::name(id));
    for (name, text) in [("declared", &outcome.declared), ("goal", &outcome.goal)] {
        if let Some(text) = text {
            write!(line, "  {name}={}", clean::name(text)).ok();
        }
    }
    line
}

fn cause_line(cause: Option<&Cause>, spans: &[Arc<Span>]) -> String {
    match cause.and_then(|cause| Some((cause, spans.get(cause.place)?))) {
        None => "cause: none, since no step failed while all of its children went well".to_owned(),
        Some((cause, span)) => format!(
            "cause: {} in {} [{}], {}: {}\n  trace={} span={}",
            clean::name(&span.name),
            clean::name(&span.service),
            clean::name(&span.status),
            cause.rule.confidence(),
            cause.because,
            clean::name(&span.trace_id),
            clean::name(&span.span_id)
        ),
    }
}

fn finding_lines(finding: &Finding) -> String {
    let context = match finding.context {
        Some((first, last)) => format!(
            "context {} ({} to {} tokens)",
            finding.token_trend.as_str(),
            format::count(first),
            format::count(last)
        ),
        None => format!("context {}", finding.token_trend.as_str()),
    };
    let mut lines = format!(
        "{}: {} ×{} in {} — {} failed, {:.0}% one after the other, nested {} deep, {context}  trace={}",
        finding.shape.title(),
        clean::name(&finding.name),
        finding.places.len(),
        clean::name(&finding.service),
        finding.error_count,
        finding.serial_fraction * 100.0,
        finding.self_depth,
        clean::name(&finding.trace_id),
    );
    for missing in &finding.missing {
        write!(lines, "\n  undecided, since {}", missing.as_str()).ok();
    }
    lines
}

fn structure(
    report: &mut Report,
    id: &str,
    outcome: &Outcome,
    cause: Option<&Cause>,
    spans: &[Arc<Span>],
) {
    let mut told = json!({
        "outcome": outcome.verdict.as_str(),
        "source": outcome.source.as_str(),
        "reason": outcome.reason.as_str(),
        "error_count": outcome.error_count,
        "span_count": outcome.span_count,
    });
    let mut bare = Map::new();
    bare.insert(
        "session_id".to_owned(),
        json!(clean::structured(clean::prefix(id, 64))),
    );
    bare.insert("outcome".to_owned(), told.clone());
    bare.insert("cause".to_owned(), Value::Null);
    for (name, text) in [("declared", &outcome.declared), ("goal", &outcome.goal)] {
        if let (Some(text), Some(told)) = (text, told.as_object_mut()) {
            told.insert(name.to_owned(), json!(clean::structured(text)));
        }
    }
    let mut fields = bare.clone();
    fields.insert("session_id".to_owned(), json!(clean::structured(id)));
    fields.insert("outcome".to_owned(), told);
    fields.insert(
        "cause".to_owned(),
        cause.map_or(Value::Null, |cause| structured_cause(cause, spans)),
    );
    report.structure(&["findings"], fields, Some(bare));
}

fn reference(place: usize, spans: &[Arc<Span>]) -> Value {
    match spans.get(place) {
        None => Value::Null,
        Some(span) => json!({
            "trace_id": clean::structured(&span.trace_id),
            "span_id": clean::structured(&span.span_id),
        }),
    }
}

fn structured_cause(cause: &Cause, spans: &[Arc<Span>]) -> Value {
    let span = spans.get(cause.place);
    let text = |of: fn(&Span) -> &str| clean::structured(span.map_or("", |span| of(span)));
    json!({
        "rule": cause.rule.as_str(),
        "confidence": cause.rule.confidence(),
        "span": reference(cause.place, spans),
        "name": text(|span| &span.name),
        "service": text(|span| &span.service),
        "status": text(|span| &span.status),
        "because": cause.because,
    })
}

fn structured_finding(finding: &Finding, spans: &[Arc<Span>]) -> Value {
    let examples: Vec<Value> = finding
        .examples()
        .into_iter()
        .map(|place| reference(place, spans))
        .collect();
    let mut fields = json!({
        "shape": finding.shape.as_str(),
        "service": clean::structured(&finding.service),
        "name": clean::structured(&finding.name),
        "trace_id": clean::structured(&finding.trace_id),
        "count": finding.places.len(),
        "error_count": finding.error_count,
        "self_depth": finding.self_depth,
        "serial_fraction": finding.serial_fraction,
        "token_trend": finding.token_trend.as_str(),
        "spans": examples,
    });
    if let Some(fields) = fields.as_object_mut() {
        if let Some((first, last)) = finding.context {
            fields.insert("context_first".to_owned(), json!(first));
            fields.insert("context_last".to_owned(), json!(last));
        }
        if !finding.missing.is_empty() {
            let missing: Vec<&str> = finding
                .missing
                .iter()
                .map(|missing| missing.as_str())
                .collect();
            fields.insert("missing".to_owned(), json!(missing));
        }
    }
    fields
}
