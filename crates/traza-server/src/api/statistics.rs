//! `GET /v1/stats/…` and `GET /v1/tenants`: what spans add up to.

use traza::json::Value;
use traza::store::analytics::{BUCKETS_DEFAULT, BUCKETS_MAX, Group};

use super::sessions::scope;
use super::{Answered, Call, json};
use crate::http::{Refusal, Response};
use crate::parameters::SpanQuestion;
use crate::render;

pub(crate) fn llm<'a>(call: &Call<'a>) -> Answered<'a> {
    let parameters = call.parameters()?;
    let word = parameters.text("group_by").unwrap_or("model");
    let group = Group::from_word(word).ok_or_else(|| {
        Refusal::bad_request("group_by must be model|provider|service|session|day")
    })?;
    let limit = parameters.limit()?.unwrap_or(usize::MAX);
    let rows = call.view().llm(group, &scope(call, &parameters)?, limit)?;
    json(&render::object([(
        "rows",
        render::list(&rows, render::llm_row),
    )]))
}

pub(crate) fn series<'a>(call: &Call<'a>) -> Answered<'a> {
    let question = SpanQuestion::read(call.query(), call.caller(), &["buckets"])?;
    let buckets = question.rest().number("buckets")?;
    let buckets = buckets.map_or(BUCKETS_DEFAULT, |count| {
        usize::try_from(count)
            .unwrap_or(usize::MAX)
            .clamp(1, BUCKETS_MAX)
    });
    match (question.filter.since, question.filter.until) {
        (Some(since), Some(until)) if until <= since => {
            return Err(Refusal::bad_request("until must be after since"));
        }
        (Some(_), Some(_)) => {}
        _ => {
            let text = "since and until are required for a series";
            return Err(Refusal::bad_request(text));
        }
    }
    let found = call.view().series(&question.filter, buckets)?;
    json(&render::object([
        ("since_ns", Value::from(found.since_ns)),
        ("until_ns", Value::from(found.until_ns)),
        ("bucket_ns", Value::from(found.bucket_ns)),
        ("buckets", render::list(&found.buckets, render::bucket)),
    ]))
}

pub(crate) fn durations<'a>(call: &Call<'a>) -> Answered<'a> {
    let question = SpanQuestion::read(call.query(), call.caller(), &[])?;
    json(&render::durations(
        &call.view().durations(&question.filter)?,
    ))
}

pub(crate) fn failures<'a>(call: &Call<'a>) -> Answered<'a> {
    let mut question = SpanQuestion::read(call.query(), call.caller(), &[])?;
    question.filter.status = question.filter.status.or(Some("error".to_owned()));
    let limit = question.limit.unwrap_or(100);
    let found = call.view().failures(&question.filter, limit)?;
    json(&render::object([
        ("groups", render::list(&found.groups, render::failure_group)),
        ("total", Value::from(found.total)),
        ("distinct", render::count(found.distinct)),
        ("groups_omitted", render::count(found.groups_omitted)),
        ("spans_untracked", Value::from(found.spans_untracked)),
    ]))
}

pub(crate) fn slowest<'a>(call: &Call<'a>) -> Answered<'a> {
    let question = SpanQuestion::read(call.query(), call.caller(), &[])?;
    let limit = question.limit.unwrap_or(100);
    let spans = call.view().slowest(&question.filter, limit)?;
    let mut out = String::from("{\"spans\":");
    render::write_spans(&spans, &mut out);
    out.push('}');
    Ok(Response::json_text(out).into())
}

pub(crate) fn tenants<'a>(call: &Call<'a>) -> Answered<'a> {
    let only = call.caller().tenant.as_deref();
    let found = call.view().tenants(only)?;
    json(&render::object([(
        "tenants",
        render::list(&found, render::tenant),
    )]))
}
