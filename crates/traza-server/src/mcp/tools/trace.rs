//! `get_trace`: a trace as a tree.

use std::sync::Arc;

use serde_json::Value;
use traza::llm::{Facts, Pricing};
use traza::rollup::Counters;
use traza::span::Span;

use crate::mcp::args::Args;
use crate::mcp::clean;
use crate::mcp::context::Context;
use crate::mcp::error::ToolError;
use crate::mcp::format;
use crate::mcp::report::Report;
use crate::mcp::schema;
use crate::mcp::spans::{content_lines, counters, duration_ns, status, tenant_suffix};
use crate::mcp::tree::{Forest, Step};

const SPANS_DEFAULT: usize = 200;
/// So many spans of a trace are shown at most.
pub(in crate::mcp) const SPANS_MAX: usize = 2_000;
/// Deeper spans are not indented further, but say how deep they are.
const INDENT_MAX: usize = 32;
/// So many judgments are shown.
const ANNOTATIONS_MAX: usize = 20;

pub(in crate::mcp) fn schema() -> Value {
    schema::object(
        &[
            ("trace_id", schema::text("The trace.")),
            ("include_content", schema::include_content()),
            (
                "max_spans",
                schema::limit(
                    "How many spans; the deepest are left out first.",
                    SPANS_DEFAULT,
                    SPANS_MAX,
                ),
            ),
        ],
        &["trace_id"],
    )
}

pub(in crate::mcp) fn run(context: &Context<'_>, args: &Args<'_>) -> Result<Report, ToolError> {
    let trace_id = args.required("trace_id")?;
    let is_content = args.flag("include_content")?;
    let spans_max = args.limit("max_spans", SPANS_DEFAULT, SPANS_MAX)?;
    trace(context, trace_id, is_content, spans_max)?.ok_or_else(|| {
        ToolError::new(format!(
            "There is no trace with this id. Copy ids from search_spans, top_failures or get_session; they are compared \
             exactly. (It has {}.)",
            format::counted_len(trace_id.chars().count(), "character")
        ))
    })
}

/// The trace, `None` when there is none that the caller may see.
pub(in crate::mcp) fn trace(
    context: &Context<'_>,
    trace_id: &str,
    is_content: bool,
    spans_max: usize,
) -> Result<Option<Report>, ToolError> {
    let stopwatch = context.stopwatch();
    let spans = context.view().get_trace(trace_id, context.caller.tenant)?;
    stopwatch.check()?;
    if spans.is_empty() {
        return Ok(None);
    }
    let pricing = &context.store.options().pricing;
    let advice = if is_content {
        "with a smaller 'max_spans', or leave include_content out"
    } else {
        "with a smaller 'max_spans'"
    };
    let mut report = Report::new(head(&spans, pricing), advice);
    let sessions = spans.iter().find_map(|span| {
        Facts::of(span)
            .session
            .map(|session| clean::name(&session.id))
    });
    let session = sessions.map_or_else(String::new, |id| format!("  session={id}"));
    report.row(format!("trace={}{session}", clean::name(trace_id)));

    let steps = steps(&spans);
    let kept = steps.len().min(spans_max);
    for step in steps.iter().filter(|step| step.rank < kept) {
        let Some(span) = spans.get(step.place) else {
            continue;
        };
        let mut text = line(span, step.depth, pricing);
        if is_content {
            let indent = "  ".repeat(step.depth.min(INDENT_MAX) + 2);
            text.push_str(&content_lines(span, &indent));
        }
        report.ranked(text, step.rank + 1);
    }
    annotations(context, trace_id, kept + 1, &mut report);
    if kept < spans.len() {
        report.note(format!(
            "{kept} of {} spans shown: the deepest were left out. Raise 'max_spans' to see more.",
            spans.len()
        ));
    }
    report.note(if is_content {
        "A value with '$payload' stands for a longer text, which get_payload reads."
    } else {
        "Attributes and events are left out; include_content shows them."
    });
    Ok(Some(report))
}

fn head(spans: &[Arc<Span>], pricing: &Pricing) -> String {
    let mut sum = Counters::default();
    let mut start = u64::MAX;
    let mut end = 0;
    for span in spans {
        sum.add(&counters(span, pricing));
        start = start.min(span.start_time_ns);
        end = end.max(span.end_time_ns);
    }
    format!(
        "{}, {}, {}, {}, {}. Starts {}.",
        format::counted(sum.spans, "span"),
        format::duration(end.saturating_sub(start)),
        format::counted(sum.errors, "error"),
        format::counted(sum.total_tokens, "token"),
        format::money(&sum),
        format::time(start)
    )
}

/// A span on its place in the tree.
struct Placed {
    place: usize,
    depth: usize,
    /// Its place when the spans are ordered by depth, and within one depth as they are shown.
    rank: usize,
}

fn steps(spans: &[Arc<Span>]) -> Vec<Placed> {
    let mut steps = Vec::with_capacity(spans.len());
    Forest::of(spans).walk(|step| {
        if let Step::Enter(place, depth) = step {
            steps.push(Placed {
                place,
                depth,
                rank: 0,
            });
        }
    });
    let mut by_depth: Vec<&mut Placed> = steps.iter_mut().collect();
    by_depth.sort_by_key(|step| step.depth);
    for (rank, step) in by_depth.into_iter().enumerate() {
        step.rank = rank;
    }
    steps
}

fn line(span: &Span, depth: usize, pricing: &Pricing) -> String {
    let counters = counters(span, pricing);
    let mut parts = vec![
        clean::name(&span.name),
        format!("[{}]", status(span)),
        format::duration(duration_ns(span)),
        clean::name(&span.service),
    ];
    if counters.llm_calls > 0 {
        parts.extend(Facts::of(span).model.map(|model| clean::name(&model)));
        parts.push(format!("{} tok", format::count(counters.total_tokens)));
        parts.push(format::money(&counters));
    }
    if depth > INDENT_MAX {
        parts.push(format!("depth={depth}"));
    }
    parts.push(format!(
        "span={}{}",
        clean::name(&span.span_id),
        tenant_suffix(&span.tenant)
    ));
    format!("{}{}", "  ".repeat(depth.min(INDENT_MAX)), parts.join("  "))
}

/// Rows for the judgments on the trace, with the ranks from `rank` on.
fn annotations(context: &Context<'_>, trace_id: &str, rank: usize, report: &mut Report) {
    let found = context
        .store
        .trace_annotations(trace_id, context.caller.tenant);
    for (index, annotation) in found.iter().take(ANNOTATIONS_MAX).enumerate() {
        let on = match annotation.span_id.as_str() {
            "" => String::new(),
            span => format!(" on span={}", clean::name(span)),
        };
        let comment = match annotation.comment.as_str() {
            "" => String::new(),
            comment => format!(" — {}", clean::name(comment)),
        };
        let text = format!(
            "[annotation] {} = {} by {}{on}{comment}",
            clean::name(&annotation.name),
            clean::name(&format::value(&annotation.value)),
            clean::name(&annotation.source),
        );
        report.ranked(text, rank + index);
    }
    if found.len() > ANNOTATIONS_MAX {
        let rest = format::counted_len(found.len() - ANNOTATIONS_MAX, "more annotation");
        report.note(format!("{rest} on this trace."));
    }
}
