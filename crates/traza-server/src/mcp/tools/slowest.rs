//! `slowest_spans`: the longest of all.

use super::search::nothing;
use crate::mcp::args::Args;
use crate::mcp::context::Context;
use crate::mcp::error::ToolError;
use crate::mcp::format;
use crate::mcp::report::Report;
use crate::mcp::spans::{FILTER_ARGS, content_lines, filter, summary};

const LIMIT_DEFAULT: usize = 10;
const LIMIT_MAX: usize = 50;

pub(in crate::mcp) fn run(context: &Context<'_>, args: &Args<'_>) -> Result<Report, ToolError> {
    args.only("slowest_spans", &FILTER_ARGS)?;
    let filter = filter(context, args)?;
    let limit = args.limit("limit", LIMIT_DEFAULT, LIMIT_MAX)?;
    let is_content = args.flag("include_content")?;
    let spans = context.view().slowest(&filter, limit)?;
    if spans.is_empty() {
        return nothing(context, &filter, false);
    }
    let head = format!(
        "The slowest {} of all that match.",
        format::counted_len(spans.len(), "span")
    );
    let mut report = Report::new(head, "with a smaller 'limit', or leave include_content out");
    for (index, span) in spans.iter().enumerate() {
        let mut text = summary(index + 1, span);
        if is_content {
            text.push_str(&content_lines(span, "       "));
        }
        report.row(text);
    }
    report.note("get_trace opens any of them.");
    Ok(report)
}
