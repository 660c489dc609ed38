//! `GET /v1/spans` and `GET /v1/traces/{id}`.

use traza::json::{write_string, write_u64};
use traza::store::Query;

use super::{Answered, Call};
use crate::http::{Refusal, Response};
use crate::parameters::SpanQuestion;
use crate::render::{annotation, list, write_spans};

pub(crate) fn spans<'a>(call: &Call<'a>) -> Answered<'a> {
    let question = SpanQuestion::read(call.query(), call.caller(), &[])?;
    let is_by_session = question.filter.session.is_some();
    let limit = question.limit.unwrap_or(100);
    let mut query = Query::new(question.filter);
    query.limit = limit;
    query.sort = question.sort;
    query.after = question.after;
    let page = call.view().query(&query)?;
    // What is not narrowed by time and indexes segment by segment has always been counted as none.
    let (examined, pruned) = if is_by_session || limit == 0 {
        (0, 0)
    } else {
        (page.cost.segments_examined, page.cost.segments_pruned)
    };
    let mut out = String::with_capacity(256 + page.spans.len() * 512);
    out.push_str("{\"cost\":{\"elapsed_ns\":");
    write_u64(page.cost.elapsed_ns, &mut out);
    out.push_str(",\"segments_examined\":");
    write_u64(examined as u64, &mut out);
    out.push_str(",\"segments_pruned\":");
    write_u64(pruned as u64, &mut out);
    out.push_str("},\"next_cursor\":");
    match &page.next {
        Some(cursor) => write_string(&cursor.to_token(), &mut out),
        None => out.push_str("null"),
    }
    out.push_str(",\"spans\":");
    write_spans(&page.spans, &mut out);
    out.push('}');
    Ok(Response::json_text(out).into())
}

pub(crate) fn trace<'a>(call: &Call<'a>) -> Answered<'a> {
    let parameters = call.parameters()?;
    let asked = parameters.owned("tenant");
    let tenant = call.caller().tenant_of_read(asked)?;
    let trace_id = call.id(0);
    let view = call.view();
    let spans = view.get_trace(&trace_id, tenant.as_deref())?;
    if spans.is_empty() {
        return Err(Refusal::not_found("trace not found"));
    }
    let store = &call.server.store;
    let annotations = store.trace_annotations(&trace_id, tenant.as_deref());
    let mut out = String::with_capacity(256 + spans.len() * 512);
    out.push_str("{\"annotations\":");
    list(&annotations, annotation).write(&mut out);
    out.push_str(",\"spans\":");
    write_spans(&spans, &mut out);
    out.push_str(",\"trace_id\":");
    write_string(&trace_id, &mut out);
    out.push('}');
    Ok(Response::json_text(out).into())
}
