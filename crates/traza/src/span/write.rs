//! Writes span JSON: the field order is fixed, and only what the reader needs is left out.

use super::{Event, Link, Span};
use crate::json::{write_object, write_string, write_u64};

pub(super) fn span(span: &Span, out: &mut String, mut note: impl FnMut(&str, &str)) {
    out.push_str("{\"trace_id\":");
    write_string(&span.trace_id, out);
    out.push_str(",\"span_id\":");
    write_string(&span.span_id, out);
    if !span.tenant.is_empty() {
        out.push_str(",\"$tenant\":");
        write_string(&span.tenant, out);
    }
    out.push_str(",\"parent_span_id\":");
    match &span.parent_span_id {
        Some(parent) => write_string(parent, out),
        None => out.push_str("null"),
    }
    out.push_str(",\"name\":");
    write_string(&span.name, out);
    out.push_str(",\"start_time_ns\":");
    write_u64(span.start_time_ns, out);
    out.push_str(",\"end_time_ns\":");
    write_u64(span.end_time_ns, out);
    out.push_str(",\"status\":");
    write_string(&span.status, out);
    out.push_str(",\"service\":");
    write_string(&span.service, out);
    out.push_str(",\"attributes\":{");
    for (index, (name, value)) in span.attributes.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(name, out);
        out.push(':');
        let start = out.len();
        value.write(out);
        note(name, out.get(start..).unwrap_or_default());
    }
    out.push_str("},\"events\":[");
    for (index, event) in span.events.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_event(event, out);
    }
    out.push(']');
    if !span.links.is_empty() {
        out.push_str(",\"links\":[");
        for (index, link) in span.links.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            write_link(link, out);
        }
        out.push(']');
    }
    for (name, value) in &span.unknown {
        out.push(',');
        write_string(name, out);
        out.push(':');
        value.write(out);
    }
    out.push('}');
}

fn write_event(event: &Event, out: &mut String) {
    out.push_str("{\"name\":");
    write_string(&event.name, out);
    out.push_str(",\"timestamp_ns\":");
    write_u64(event.timestamp_ns, out);
    out.push_str(",\"attributes\":");
    write_object(&event.attributes, out);
    out.push('}');
}

fn write_link(link: &Link, out: &mut String) {
    out.push_str("{\"trace_id\":");
    write_string(&link.trace_id, out);
    out.push_str(",\"span_id\":");
    write_string(&link.span_id, out);
    out.push_str(",\"attributes\":");
    write_object(&link.attributes, out);
    out.push('}');
}
