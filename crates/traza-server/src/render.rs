//! How what the store answers is spelled in JSON. Members are in alphabetical order.

use std::sync::Arc;

use traza::histogram::Histogram;
use traza::json::{Number, Object, Value, write_object, write_string, write_u64};
use traza::logs::annotation::Annotation;
use traza::rollup::Counters;
use traza::span::{Event, Link, Span};
use traza::store::analytics::{
    Bucket, FailureGroup, LlmRow, SessionDetail, SessionSummary, SessionTrace, TenantUsage,
};

/// An object of these members.
pub(crate) fn object<'n>(members: impl IntoIterator<Item = (&'n str, Value)>) -> Value {
    let members = members.into_iter();
    Value::Object(
        members
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

/// An array of what `render` makes of each.
pub(crate) fn list<T>(items: impl IntoIterator<Item = T>, render: impl Fn(T) -> Value) -> Value {
    Value::Array(items.into_iter().map(render).collect())
}

pub(crate) fn count(count: usize) -> Value {
    Value::from(count as u64)
}

pub(crate) fn float(value: f64) -> Value {
    Value::Number(Number::Float(value))
}

/// Appends an array of spans.
pub(crate) fn write_spans(spans: &[Arc<Span>], out: &mut String) {
    out.push('[');
    for (index, span) in spans.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_span(span, out);
    }
    out.push(']');
}

/// Appends a span with its members in alphabetical order; those that the model does not know are among them.
pub(crate) fn write_span(span: &Span, out: &mut String) {
    let mut unknown = span.unknown.iter().peekable();
    out.push('{');
    let mut is_first = true;
    let mut member = |name: &str, out: &mut String, write: &dyn Fn(&mut String)| {
        while let Some((key, value)) =
            unknown.next_if(|(key, _)| name.is_empty() || key.as_str() < name)
        {
            begin(&mut is_first, key, out);
            value.write(out);
        }
        if !name.is_empty() {
            begin(&mut is_first, name, out);
            write(out);
        }
    };
    if !span.tenant.is_empty() {
        member("$tenant", out, &|out| write_string(&span.tenant, out));
    }
    member("attributes", out, &|out| {
        write_object(&span.attributes, out);
    });
    member("end_time_ns", out, &|out| write_u64(span.end_time_ns, out));
    member("events", out, &|out| {
        write_each(&span.events, out, write_event);
    });
    if !span.links.is_empty() {
        member("links", out, &|out| {
            write_each(&span.links, out, write_link);
        });
    }
    member("name", out, &|out| write_string(&span.name, out));
    member("parent_span_id", out, &|out| match &span.parent_span_id {
        Some(parent) => write_string(parent, out),
        None => out.push_str("null"),
    });
    member("service", out, &|out| write_string(&span.service, out));
    member("span_id", out, &|out| write_string(&span.span_id, out));
    member("start_time_ns", out, &|out| {
        write_u64(span.start_time_ns, out);
    });
    member("status", out, &|out| write_string(&span.status, out));
    member("trace_id", out, &|out| write_string(&span.trace_id, out));
    member("", out, &|_| ());
    out.push('}');
}

fn begin(is_first: &mut bool, name: &str, out: &mut String) {
    if !std::mem::take(is_first) {
        out.push(',');
    }
    write_string(name, out);
    out.push(':');
}

fn write_each<T>(items: &[T], out: &mut String, write: fn(&T, &mut String)) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(']');
}

fn write_event(event: &Event, out: &mut String) {
    out.push_str("{\"attributes\":");
    write_object(&event.attributes, out);
    out.push_str(",\"name\":");
    write_string(&event.name, out);
    out.push_str(",\"timestamp_ns\":");
    write_u64(event.timestamp_ns, out);
    out.push('}');
}

fn write_link(link: &Link, out: &mut String) {
    out.push_str("{\"attributes\":");
    write_object(&link.attributes, out);
    out.push_str(",\"span_id\":");
    write_string(&link.span_id, out);
    out.push_str(",\"trace_id\":");
    write_string(&link.trace_id, out);
    out.push('}');
}

/// An annotation, as it is stored.
pub(crate) fn annotation(annotation: &Annotation) -> Value {
    stored(&annotation.to_json())
}

/// What the store writes as JSON itself.
pub(crate) fn stored(json: &str) -> Value {
    Value::parse(json.as_bytes()).unwrap_or(Value::Null)
}

fn put(members: &mut Object, name: &str, value: impl Into<Value>) {
    members.insert(name.to_owned(), value.into());
}

fn put_cost(members: &mut Object, counters: &Counters) {
    put(members, "cost_usd", float(counters.cost_usd));
    put(
        members,
        "cost_derived_usd",
        float(counters.cost_derived_usd),
    );
    put(members, "cost_metered_calls", counters.cost_metered_calls);
    put(members, "cost_derived_calls", counters.cost_derived_calls);
    put(members, "cost_unpriced_calls", counters.cost_unpriced_calls);
}

fn put_tokens(members: &mut Object, counters: &Counters) {
    put(members, "llm_calls", counters.llm_calls);
    put(members, "prompt_tokens", counters.prompt_tokens);
    put(members, "completion_tokens", counters.completion_tokens);
    put(members, "total_tokens", counters.total_tokens);
    put(members, "error_count", counters.errors);
}

fn put_times(members: &mut Object, first_start_ns: u64, last_end_ns: u64) {
    put(members, "first_start_ns", first_start_ns);
    put(members, "last_end_ns", last_end_ns);
}

pub(crate) fn session(summary: &SessionSummary) -> Object {
    let mut members = Object::new();
    let key = summary.key.map_or("", traza::llm::SessionKey::attribute);
    put(&mut members, "session_id", summary.id.session.as_str());
    put(&mut members, "session_attribute", key);
    if !summary.id.tenant.is_empty() {
        put(&mut members, "tenant", summary.id.tenant.as_str());
    }
    put(&mut members, "trace_count", count(summary.trace_count));
    put(&mut members, "span_count", summary.counters.spans);
    put_times(&mut members, summary.first_start_ns, summary.last_end_ns);
    put_tokens(&mut members, &summary.counters);
    put_cost(&mut members, &summary.counters);
    members
}

pub(crate) fn session_detail(detail: &SessionDetail) -> Value {
    let mut members = session(&detail.summary);
    put(&mut members, "traces", list(&detail.traces, session_trace));
    Value::Object(members)
}

fn session_trace(trace: &SessionTrace) -> Value {
    let mut members = Object::new();
    put(&mut members, "trace_id", trace.trace_id.as_str());
    put(&mut members, "root_name", trace.root_name.as_str());
    put(&mut members, "span_count", trace.counters.spans);
    put(&mut members, "total_tokens", trace.counters.total_tokens);
    put(&mut members, "error_count", trace.counters.errors);
    put_times(&mut members, trace.first_start_ns, trace.last_end_ns);
    put_cost(&mut members, &trace.counters);
    Value::Object(members)
}

pub(crate) fn llm_row(row: &LlmRow) -> Value {
    let mut members = Object::new();
    put(&mut members, "key", row.key.as_str());
    put(&mut members, "spans", row.counters.spans);
    put(
        &mut members,
        "llm_duration_ns",
        row.counters.llm_duration_ns,
    );
    put_tokens(&mut members, &row.counters);
    put_cost(&mut members, &row.counters);
    Value::Object(members)
}

pub(crate) fn bucket(bucket: &Bucket) -> Value {
    let mut members = Object::new();
    put(&mut members, "start_ns", bucket.start_ns);
    put(&mut members, "spans", bucket.counters.spans);
    put(&mut members, "errors", bucket.counters.errors);
    put(&mut members, "llm_calls", bucket.counters.llm_calls);
    put(&mut members, "total_tokens", bucket.counters.total_tokens);
    put(&mut members, "p50_ns", bucket.durations.percentile(50));
    put(&mut members, "p95_ns", bucket.durations.percentile(95));
    put_cost(&mut members, &bucket.counters);
    Value::Object(members)
}

pub(crate) fn durations(durations: &Histogram) -> Value {
    let mut members = Object::new();
    put(&mut members, "count", durations.count());
    put(&mut members, "min_ns", durations.min());
    put(&mut members, "max_ns", durations.max());
    put(&mut members, "mean_ns", durations.mean());
    for percent in [50, 75, 90, 95, 99] {
        let name = format!("p{percent}_ns");
        put(&mut members, &name, durations.percentile(percent));
    }
    let buckets = list(durations.buckets(), |bucket| {
        object([
            ("upper_ns", Value::from(bucket.upper)),
            ("count", Value::from(bucket.count)),
        ])
    });
    put(&mut members, "buckets", buckets);
    Value::Object(members)
}

pub(crate) fn failure_group(group: &FailureGroup) -> Value {
    let mut members = Object::new();
    put(&mut members, "service", group.service.as_str());
    put(&mut members, "name", group.name.as_str());
    put(&mut members, "status", group.status.as_str());
    put(&mut members, "count", group.durations.count());
    put(&mut members, "first_seen_ns", group.first_seen_ns);
    put(&mut members, "last_seen_ns", group.last_seen_ns);
    put(
        &mut members,
        "example_trace_id",
        group.example_trace_id.as_str(),
    );
    put(
        &mut members,
        "example_span_id",
        group.example_span_id.as_str(),
    );
    put(&mut members, "p50_ns", group.durations.percentile(50));
    put(&mut members, "p95_ns", group.durations.percentile(95));
    Value::Object(members)
}

pub(crate) fn tenant(usage: &TenantUsage) -> Value {
    let mut members = Object::new();
    put(&mut members, "tenant", usage.tenant.as_str());
    put(&mut members, "spans", usage.spans);
    put(&mut members, "traces", usage.traces);
    put(&mut members, "bytes_approx", usage.span_bytes);
    put(&mut members, "payload_bytes_approx", usage.payload_bytes);
    put_times(&mut members, usage.first_start_ns, usage.last_end_ns);
    Value::Object(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_spelled_as_a_sorted_map_of_its_members() {
        let json = br#"{"trace_id":"t","span_id":"s","$tenant":"acme","name":"n","start_ns":1,"end_ns":2,"service":"x",
            "attributes":{"b":1,"a":[]},"events":[{"name":"e","time":3}],"links":[{"trace_id":"u","span_id":"v"}],
            "zeta":1,"alpha":{"y":1},"middle":null,"!":0}"#;
        let span = Span::from_json(json).unwrap();
        let mut out = String::new();
        write_span(&span, &mut out);
        let sorted = Value::parse(span.to_json().as_bytes()).unwrap().to_string();
        assert_eq!(out, sorted);
    }
}
