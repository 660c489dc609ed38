//! Writes spans as export requests in JSON, such that [`spans_from_json`](super::spans_from_json) reads equal spans back
//! where the protocol can say what is in them.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use crate::json::{Number, Object, Value, write_string};
use crate::span::{Event, Link, Span};

/// Values that nest deeper are written as the text of their JSON: readers of such requests bound how deep they go.
pub const WRITTEN_DEPTH_MAX: usize = 24;

/// A span that no request can hold, because the protocol identifies spans by bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {field} {id:?} is not of lower-case hexadecimal digits, and the protocol has no other ids"
)]
pub struct IdError {
    /// `trace_id` or `span_id`.
    pub field: &'static str,
    /// What it is.
    pub id: String,
}

/// What requests could not say. Each count is of spans, links or values that were written without it or as something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Spans whose status is neither `ok`, `error` nor unset: it is left unset.
    pub statuses: u64,
    /// Spans whose parent is not identified by hexadecimal digits: it is left out.
    pub parents: u64,
    /// Spans with members of their own beside the known ones: those are left out.
    pub unknown_members: u64,
    /// Links whose ids are not hexadecimal digits: they are left out.
    pub links: u64,
    /// Integers above the largest signed one of 64 bits: written as doubles.
    pub integers: u64,
    /// Values nested deeper than [`WRITTEN_DEPTH_MAX`]: written as texts.
    pub nested: u64,
}

impl Losses {
    /// What was lost, with its count, in words; nothing for what was not.
    pub fn in_words(&self) -> impl Iterator<Item = (u64, &'static str)> {
        [
            (self.statuses, "status other than ok and error, left unset"),
            (self.parents, "parent id that is not hexadecimal, left out"),
            (
                self.unknown_members,
                "set of members that the protocol does not have, left out",
            ),
            (
                self.links,
                "link with ids that are not hexadecimal, left out",
            ),
            (self.integers, "integer above 2^63-1, as a double"),
            (self.nested, "value nested too deep, as text"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
    }
}

/// Appends one request with these spans: an object with `resourceSpans`, without line breaks. Spans of one service and
/// tenant share a resource, in the order of the tenants and services; among themselves they keep their order. A tenant is
/// the attribute `traza.tenant` of the resource.
///
/// ```
/// use traza::{otlp, span::Span};
/// let span = Span::from_json(br#"{"trace_id":"ab","span_id":"01","name":"n","service":"bot",
///     "start_time_ns":1,"end_time_ns":2,"attributes":{"tokens":[1,null]}}"#)?;
/// let (mut request, mut losses) = (String::new(), otlp::Losses::default());
/// otlp::write_request(&[&span], &mut request, &mut losses)?;
/// assert_eq!(otlp::spans_from_json(request.as_bytes())?, [span]);
/// assert_eq!(losses, otlp::Losses::default());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`IdError`] for a span that the protocol cannot identify. A part of the request may stand in `out` then.
pub fn write_request<S: Borrow<Span>>(
    spans: &[S],
    out: &mut String,
    losses: &mut Losses,
) -> Result<(), IdError> {
    let mut resources: BTreeMap<(&str, &str), Vec<&Span>> = BTreeMap::new();
    for span in spans {
        let span: &Span = span.borrow();
        let resource = (span.tenant.as_str(), span.service.as_str());
        resources.entry(resource).or_default().push(span);
    }
    let mut writer = Writer { out, losses };
    writer.raw("{\"resourceSpans\":");
    writer.list(resources, |writer, ((tenant, service), spans)| {
        writer.raw("{\"resource\":{\"attributes\":[");
        writer.text_attribute("service.name", service);
        if !tenant.is_empty() {
            writer.raw(",");
            writer.text_attribute("traza.tenant", tenant);
        }
        writer.raw("]},\"scopeSpans\":[{\"spans\":");
        writer.list(spans, Writer::span)?;
        writer.raw("}]}");
        Ok(())
    })?;
    writer.raw("}");
    Ok(())
}

struct Writer<'w> {
    out: &'w mut String,
    losses: &'w mut Losses,
}

impl Writer<'_> {
    fn raw(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn text(&mut self, text: &str) {
        write_string(text, self.out);
    }

    /// Writes `,"name":` for a member that is not the first one.
    fn member(&mut self, name: &str) {
        self.raw(",\"");
        self.raw(name);
        self.raw("\":");
    }

    fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> Result<(), IdError>,
    ) -> Result<(), IdError> {
        self.raw("[");
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.raw(",");
            }
            write(self, item)?;
        }
        self.raw("]");
        Ok(())
    }

    fn span(&mut self, span: &Span) -> Result<(), IdError> {
        for (field, id) in [("trace_id", &span.trace_id), ("span_id", &span.span_id)] {
            if !is_id(id) {
                let id = id.clone();
                return Err(IdError {
                    field,
                    id: id.into(),
                });
            }
        }
        self.raw("{\"traceId\":");
        self.text(&span.trace_id);
        self.member("spanId");
        self.text(&span.span_id);
        match &span.parent_span_id {
            Some(parent) if is_id(parent) => {
                self.member("parentSpanId");
                self.text(parent);
            }
            Some(_) => self.losses.parents += 1,
            None => {}
        }
        self.member("name");
        self.text(&span.name);
        self.member("startTimeUnixNano");
        self.text(&span.start_time_ns.to_string());
        self.member("endTimeUnixNano");
        self.text(&span.end_time_ns.to_string());
        self.attributes(&span.attributes)?;
        if !span.events.is_empty() {
            self.member("events");
            self.list(&span.events, Self::event)?;
        }
        if !span.links.is_empty() {
            self.links(&span.links)?;
        }
        match span.status.as_str() {
            "" => {}
            "ok" => self.raw(",\"status\":{\"code\":1}"),
            "error" => self.raw(",\"status\":{\"code\":2}"),
            _ => self.losses.statuses += 1,
        }
        if !span.unknown.is_empty() {
            self.losses.unknown_members += 1;
        }
        self.raw("}");
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result<(), IdError> {
        self.raw("{\"timeUnixNano\":");
        self.text(&event.timestamp_ns.to_string());
        self.member("name");
        self.text(&event.name);
        self.attributes(&event.attributes)?;
        self.raw("}");
        Ok(())
    }

    fn links(&mut self, links: &[Link]) -> Result<(), IdError> {
        let can_be_said = |link: &&Link| is_id(&link.trace_id) && is_id(&link.span_id);
        let said: Vec<&Link> = links.iter().filter(can_be_said).collect();
        self.losses.links += links.len().saturating_sub(said.len()) as u64;
        self.member("links");
        self.list(said, |writer, link| {
            writer.raw("{\"traceId\":");
            writer.text(&link.trace_id);
            writer.member("spanId");
            writer.text(&link.span_id);
            writer.attributes(&link.attributes)?;
            writer.raw("}");
            Ok(())
        })
    }

    fn attributes(&mut self, attributes: &Object) -> Result<(), IdError> {
        if attributes.is_empty() {
            return Ok(());
        }
        self.member("attributes");
        self.key_values(attributes, 0)
    }

    fn text_attribute(&mut self, key: &str, value: &str) {
        self.raw("{\"key\":");
        self.text(key);
        self.raw(",\"value\":{\"stringValue\":");
        self.text(value);
        self.raw("}}");
    }

    fn key_values(&mut self, members: &Object, depth: usize) -> Result<(), IdError> {
        self.list(members, |writer, (key, value)| {
            writer.raw("{\"key\":");
            writer.text(key);
            writer.raw(",\"value\":");
            writer.any_value(value, depth)?;
            writer.raw("}");
            Ok(())
        })
    }

    /// A value without a kind is what the protocol has for null.
    fn any_value(&mut self, value: &Value, depth: usize) -> Result<(), IdError> {
        self.raw("{");
        match value {
            Value::Null => {}
            Value::Bool(truth) => {
                self.raw("\"boolValue\":");
                self.raw(if *truth { "true" } else { "false" });
            }
            Value::Number(Number::Unsigned(number)) if i64::try_from(*number).is_err() => {
                self.losses.integers += 1;
                self.raw("\"doubleValue\":");
                let nearest = Number::Float(Number::Unsigned(*number).as_f64());
                Value::Number(nearest).write(self.out);
            }
            // As a text, as the protocol's JSON has it: not every reader takes 64 bits as a number.
            Value::Number(number @ (Number::Unsigned(_) | Number::Negative(_))) => {
                self.raw("\"intValue\":\"");
                Value::Number(*number).write(self.out);
                self.raw("\"");
            }
            Value::Number(Number::Float(_)) => {
                self.raw("\"doubleValue\":");
                value.write(self.out);
            }
            Value::String(text) => {
                self.raw("\"stringValue\":");
                self.text(text);
            }
            Value::Array(_) | Value::Object(_) if depth == WRITTEN_DEPTH_MAX => {
                self.losses.nested += 1;
                self.raw("\"stringValue\":");
                self.text(&value.to_string());
            }
            Value::Array(items) => {
                self.raw("\"arrayValue\":{\"values\":");
                self.list(items, |writer, item| writer.any_value(item, depth + 1))?;
                self.raw("}");
            }
            Value::Object(members) => {
                self.raw("\"kvlistValue\":{\"values\":");
                self.key_values(members, depth + 1)?;
                self.raw("}");
            }
        }
        self.raw("}");
        Ok(())
    }
}

/// What the protocol can identify something by, and what is read back as it is.
fn is_id(id: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    !id.is_empty() && id.bytes().all(is_digit)
}
