//! `search_spans`: a page of spans.

use serde_json::Value;
use traza::store::analytics::ValueOf;
use traza::store::{Cost, Cursor, Filter, Query, Sort};

use crate::mcp::args::Args;
use crate::mcp::clean;
use crate::mcp::context::Context;
use crate::mcp::error::ToolError;
use crate::mcp::format;
use crate::mcp::report::Report;
use crate::mcp::schema;
use crate::mcp::spans::{FILTER_ARGS, content_lines, filter, summary};

const LIMIT_DEFAULT: usize = 20;
const LIMIT_MAX: usize = 100;
const SORTS: [&str; 4] = ["duration", "-duration", "start", "-start"];
const ADVICE: &str = "with 'since', a 'service', or a smaller 'limit'";
/// So many services are listed when the one that was asked for does not exist.
const SERVICES_MAX: usize = 50;

pub(in crate::mcp) fn schema() -> Value {
    let mut properties = schema::filter(LIMIT_DEFAULT, LIMIT_MAX);
    properties.push((
        "sort",
        schema::word(
            &SORTS,
            "The order; by start when it is left out. A minus turns it round.",
        ),
    ));
    properties.push((
        "cursor",
        schema::text("What stands behind 'Cursor:' in an earlier answer: goes on from there."),
    ));
    schema::object(&properties, &[])
}

pub(in crate::mcp) fn run(context: &Context<'_>, args: &Args<'_>) -> Result<Report, ToolError> {
    let accepted: Vec<&str> = FILTER_ARGS.into_iter().chain(["sort", "cursor"]).collect();
    args.only("search_spans", &accepted)?;
    let mut query = Query::new(filter(context, args)?);
    query.limit = args.limit("limit", LIMIT_DEFAULT, LIMIT_MAX)?;
    query.sort = args.word("sort", &SORTS)?.and_then(sort);
    query.after = args.string("cursor")?.map(cursor).transpose()?;
    let is_content = args.flag("include_content")?;

    let view = context.view();
    let page = view.query(&query)?;
    if page.spans.is_empty() {
        return nothing(context, &query.filter, query.after.is_some());
    }
    let shown = format::counted_len(page.spans.len(), "span");
    let mut report = Report::new(format!("{shown} matching."), ADVICE);
    // Only the order of starts can be gone on with.
    let is_in_order = matches!(query.sort, None | Some(Sort::StartAscending));
    for (index, span) in page.spans.iter().enumerate() {
        let mut text = summary(index + 1, span);
        if is_content {
            text.push_str(&content_lines(span, "       "));
        }
        report.row(text);
        if is_in_order {
            report.resume(Cursor::of(span).to_token());
        }
    }
    if page.next.is_some() {
        report.is_page();
        if !is_in_order {
            report.note("More may match. In this order there is no next page: narrow the question or raise 'limit'.");
        }
    }
    report.note(cost_note(&page.cost));
    if !is_content {
        report.note("Attributes and events are left out; include_content shows them.");
    }
    Ok(report)
}

fn sort(word: &str) -> Option<Sort> {
    match word {
        "duration" => Some(Sort::DurationAscending),
        "-duration" => Some(Sort::DurationDescending),
        "start" => Some(Sort::StartAscending),
        "-start" => Some(Sort::StartDescending),
        _ => None,
    }
}

fn cursor(token: &str) -> Result<Cursor, ToolError> {
    Cursor::from_token(token).ok_or_else(|| {
        ToolError::new(
            "cursor is not a token this server issued. Pass what stands behind 'Cursor:' in an earlier answer, unchanged, or \
             leave it out to begin at the beginning.",
        )
    })
}

fn cost_note(cost: &Cost) -> String {
    format!(
        "Engine time {}; {} examined, {} pruned by time.",
        format::duration(cost.elapsed_ns),
        format::counted_len(cost.segments_examined, "segment"),
        cost.segments_pruned
    )
}

/// An answer without spans, with advice about the most likely mistake.
pub(super) fn nothing(
    context: &Context<'_>,
    filter: &Filter,
    is_continued: bool,
) -> Result<Report, ToolError> {
    if is_continued {
        return Ok(Report::new("No more spans match.", ADVICE));
    }
    let mut report = Report::new("No spans match.", ADVICE);
    if let Some(service) = &filter.service {
        let services = context
            .view()
            .values(ValueOf::Service, &context.filter(), SERVICES_MAX)?;
        let is_known = |name: &str| {
            services
                .values
                .iter()
                .any(|known| known.value.as_str() == Some(name))
        };
        // When some are left out, the one asked for may be among them.
        if services.values_omitted == 0 && services.spans_untracked == 0 && !is_known(service) {
            let head = "No spans match: the service asked for does not exist here. These do:";
            let mut report = Report::new(head, ADVICE);
            for known in &services.values {
                let name = known.value.as_str().unwrap_or_default();
                report.row(format!(
                    "  {}  ({})",
                    clean::name(name),
                    format::counted(known.count, "span")
                ));
            }
            return Ok(report);
        }
    }
    report.note(match &filter.content {
        Some(content) if content.words().is_empty() => {
            "'content' holds no word: words are made of ASCII letters and digits, so this can match nothing. Look for an \
             exact value with 'attributes' instead."
        }
        Some(_) => {
            "'content' finds whole words only: 'refund' does not find 'refunds'. Try the exact word, or 'attributes'."
        }
        None => "Widen the window, drop a condition, or ask describe_store what is here.",
    });
    Ok(report)
}
