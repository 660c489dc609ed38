//! What clients can attach without calling a tool.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use traza::store::analytics::Group;

use super::context::Context;
use super::error::ToolError;
use super::overview::{inventory, overview};
use super::report::Report;
use super::rpc::RpcError;
use super::tools;

/// The overview, which prompts attach too.
pub(super) const OVERVIEW_URI: &str = "traza://store/overview";
const PLAIN: &str = "text/plain";
const MARKDOWN: &str = "text/markdown";
const QUERY_GUIDE: &str = include_str!("guides/query.md");
const SEMANTICS_GUIDE: &str = include_str!("guides/semantics.md");

/// `resources/list`.
pub(super) fn list() -> Value {
    let entry = |uri: &str, name: &str, title: &str, mime: &str, description: &str| json!({"uri": uri, "name": name, "title": title, "mimeType": mime, "description": description});
    json!({"resources": [
        entry(OVERVIEW_URI, "store-overview", "What the store holds", PLAIN, "Size, days, services, models, providers, and what names sessions, as of now. A good start."),
        entry("traza://store/services", "store-services", "Services", PLAIN, "Every service with its spans, tokens and cost."),
        entry("traza://store/models", "store-models", "Models", PLAIN, "Every model with its calls, tokens and cost."),
        entry("traza://guide/query", "query-guide", "How to ask", MARKDOWN, "What conditions mean, and where they surprise."),
        entry("traza://guide/semantics", "llm-semantics", "What attributes mean", MARKDOWN, "Which attributes tell model, provider, tokens, cost and session, and which of them goes first."),
    ]})
}

/// `resources/templates/list`.
pub(super) fn templates() -> Value {
    let entry = |uri: &str, name: &str, title: &str, description: &str| json!({"uriTemplate": uri, "name": name, "title": title, "mimeType": PLAIN, "description": description});
    json!({"resourceTemplates": [
        entry("traza://trace/{trace_id}", "trace", "A trace", "A trace as a tree, with attributes and judgments."),
        entry("traza://session/{session_id}", "session", "A session", "The sums of a session and its traces."),
        entry("traza://payload/{reference}", "payload", "An offloaded text", "What stands behind a '$payload', whose value begins with 'sha256/'."),
    ]})
}

/// `resources/read`.
pub(super) fn read(context: &Context<'_>, params: &Map<String, Value>) -> Result<Value, RpcError> {
    let uri = params
        .get("uri")
        .and_then(Value::as_str)
        .ok_or_else(|| RpcError::invalid_params("resources/read needs a uri"))?;
    let len_max = context.options.result_len_max;
    let result = |mime: &str, text: &str| json!({"contents": [{"uri": uri, "mimeType": mime, "text": text}]});
    // The address comes back in the answer, and must leave room for more.
    if result(PLAIN, "").to_string().len() > len_max / 2 {
        return Err(RpcError::invalid_params(
            "the uri is too long for the server's --mcp-max-result-bytes",
        ));
    }
    if let Some(guide) = guide(uri) {
        return Ok(clamp_guide(guide, len_max, &|text| result(MARKDOWN, text)));
    }
    match report(context, uri) {
        Ok(Some(report)) => Ok(report.into_text_result(len_max, &|text| result(PLAIN, text))),
        Ok(None) => Err(RpcError::resource_not_found(uri)),
        Err(error) => Err(RpcError::internal(error.text())),
    }
}

fn guide(uri: &str) -> Option<&'static str> {
    match uri {
        "traza://guide/query" => Some(QUERY_GUIDE),
        "traza://guide/semantics" => Some(SEMANTICS_GUIDE),
        _ => None,
    }
}

fn report(context: &Context<'_>, uri: &str) -> Result<Option<Report>, ToolError> {
    match uri {
        OVERVIEW_URI => return overview(context).map(Some),
        "traza://store/services" => return inventory(context, Group::Service).map(Some),
        "traza://store/models" => return inventory(context, Group::Model).map(Some),
        _ => {}
    }
    let id_in = |prefix: &str| {
        let id = uri.strip_prefix(prefix)?;
        Some(percent_decode_str(id).decode_utf8_lossy().into_owned())
    };
    if let Some(id) = id_in("traza://trace/") {
        return tools::trace::trace(context, &id, true, tools::trace::SPANS_MAX);
    }
    if let Some(id) = id_in("traza://session/") {
        return tools::sessions::session(context, &id);
    }
    if let Some(reference) = id_in("traza://payload/") {
        return tools::payload::payload(context, &reference, usize::MAX);
    }
    Ok(None)
}

/// As many whole lines of a guide as fit.
fn clamp_guide(guide: &str, len_max: usize, wrap: &dyn Fn(&str) -> Value) -> Value {
    let whole = wrap(guide);
    if whole.to_string().len() <= len_max {
        return whole;
    }
    let mut kept: Vec<&str> = guide.lines().collect();
    loop {
        kept.pop();
        let text = format!(
            "{}\n\n(The rest does not fit into the server's --mcp-max-result-bytes.)\n",
            kept.join("\n")
        );
        let result = wrap(&text);
        if kept.is_empty() || result.to_string().len() <= len_max {
            return result;
        }
    }
}
