//! Reads export requests in protobuf: `ExportTraceServiceRequest` of `opentelemetry/proto/collector/trace/v1`.
//!
//! The reader is our own and not one made from the schema: what is read is borrowed from the request until it is in a span, absent
//! fields are told from empty ones, several members of a value are chosen from as in JSON, and an error says where it is.

mod value;
mod wire;

use durable::digest::hex;

pub use value::VALUE_DEPTH_MAX;
use value::{add_attribute, key_value};
use wire::{Message, Part, Wire};

use super::error::{COPIED_LEN_MAX, OtlpError, Result};
use super::{UNKNOWN_SERVICE, keep_of_resource, with_scope};
use crate::json::{Object, ObjectBuilder};
use crate::segment::codec::len_u64;
use crate::span::{Event, Link, Span, is_tenant_name};

/// The most bytes that the parts of one request take in memory besides their texts: spans, events, links, values and the nodes
/// of their maps. Two bytes of a request can be a value of thirty.
pub const ELEMENTS_LEN_MAX: usize = 256 << 20;

/// What can be wrong with a request in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A value goes on behind the end of its message.
    #[error("the message ends inside a value")]
    End,
    /// A variable-length integer has more than 64 bits.
    #[error("variable-length integer of more than 64 bits")]
    Varint,
    /// A field has the number 0 or one above 2^29-1.
    #[error("impossible field number")]
    FieldNumber,
    /// A field is of a wire type other than 0, 1, 2 and 5: a group, or nothing at all.
    #[error("unsupported wire type")]
    WireType,
    /// A text is not UTF-8.
    #[error("text that is not UTF-8")]
    Utf8,
    /// Values nest too deeply.
    #[error("value nested more than {VALUE_DEPTH_MAX} levels deep")]
    Depth,
    /// A field that every span has is absent.
    #[error("missing field")]
    Missing,
    /// An id of a span is empty.
    #[error("empty id: traceId and spanId must be non-empty")]
    EmptyId,
    /// The tenant is no name of one.
    #[error("tenant that is not lower-case [a-z0-9][a-z0-9._-], at most 64 bytes,")]
    Tenant,
    /// Resources and scopes would be repeated too often; see [`COPIED_LEN_MAX`].
    #[error(
        "resources and scopes of more than {COPIED_LEN_MAX} bytes once they are repeated in every span; send the request in \
         parts; stopped"
    )]
    Copied,
    /// The parts would take too much memory; see [`ELEMENTS_LEN_MAX`].
    #[error("too many spans, events, links and values for one request; send it in parts; stopped")]
    Elements,
}

impl Fault {
    fn at(self, offset: usize) -> OtlpError {
        OtlpError::Protobuf {
            fault: self,
            offset,
            path: String::new(),
        }
    }
}

/// Reads an export request. Fields that a span has no place for are skipped, whatever they are.
///
/// ```
/// let request = [
///     0x0a, 0x1e, 0x12, 0x1c, 0x12, 0x1a, // resource_spans, scope_spans, spans
///     0x0a, 0x01, 0xab, 0x12, 0x01, 0x01, // trace_id, span_id
///     0x39, 5, 0, 0, 0, 0, 0, 0, 0, 0x41, 7, 0, 0, 0, 0, 0, 0, 0, // times
///     0x30, 0x02, // kind
/// ];
/// let spans = traza::otlp::spans_from_protobuf(&request)?;
/// assert_eq!((spans[0].trace_id.as_str(), spans[0].service.as_str()), ("ab", "unknown_service"));
/// # Ok::<(), traza::otlp::OtlpError>(())
/// ```
///
/// # Errors
/// [`OtlpError::Protobuf`]; the request is then refused whole.
pub fn spans_from_protobuf(bytes: &[u8]) -> Result<Vec<Span>> {
    let mut decoder = Decoder::default();
    let mut index = 0;
    Message::new(bytes).each(|number, wire| match (number, wire) {
        (1, Wire::Bytes(part)) => within(&mut index, "resourceSpans", || {
            decoder.resource_spans(part.message())
        }),
        _ => Ok(()),
    })?;
    Ok(decoder.spans)
}

/// How much memory the parts of the request may take yet.
struct Room(usize);

impl Room {
    #[inline]
    fn take(&mut self, len: usize, offset: usize) -> Result<()> {
        match self.0.checked_sub(len) {
            Some(rest) => {
                self.0 = rest;
                Ok(())
            }
            None => Err(Fault::Elements.at(offset)),
        }
    }
}

/// The spans so far.
struct Decoder {
    spans: Vec<Span>,
    copied_len: u64,
    room: Room,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            spans: Vec::new(),
            copied_len: 0,
            room: Room(ELEMENTS_LEN_MAX),
        }
    }
}

/// What the spans of a scope have in common.
struct Shared<'s> {
    service: &'s str,
    tenant: &'s str,
    attributes: Object,
    len: u64,
}

impl Decoder {
    /// In two passes: the resource may stand behind its spans.
    fn resource_spans(&mut self, message: Message<'_>) -> Result<()> {
        let mut service = None;
        let mut tenant = None;
        let mut kept = Object::new();
        message.each(|number, wire| match (number, wire) {
            (1, Wire::Bytes(part)) => self
                .resource(part.message(), &mut service, &mut tenant, &mut kept)
                .map_err(|error| error.inside("resource")),
            _ => Ok(()),
        })?;
        let service = service.unwrap_or(UNKNOWN_SERVICE);
        let tenant = tenant.unwrap_or_default();
        let mut index = 0;
        message.each(|number, wire| match (number, wire) {
            (2, Wire::Bytes(part)) => within(&mut index, "scopeSpans", || {
                self.scope_spans(part.message(), service, tenant, &kept)
            }),
            _ => Ok(()),
        })
    }

    /// Of each name the first that is a string counts; attributes that no span takes on are only checked.
    fn resource<'a>(
        &mut self,
        resource: Message<'a>,
        service: &mut Option<&'a str>,
        tenant: &mut Option<&'a str>,
        kept: &mut Object,
    ) -> Result<()> {
        resource.each(|number, wire| {
            let (1, Wire::Bytes(entry)) = (number, wire) else {
                return Ok(());
            };
            let (key, value) = key_value(entry, &mut self.room, 0)?;
            match key {
                "service.name" => *service = service.or(value.text),
                "traza.tenant" if tenant.is_none() => {
                    *tenant = value.text;
                    if tenant.is_some_and(|name| !name.is_empty() && !is_tenant_name(name)) {
                        let error = Fault::Tenant.at(entry.offset);
                        return Err(error.inside("attributes[traza.tenant]"));
                    }
                }
                _ => keep_of_resource(kept, key, value.into_value()),
            }
            Ok(())
        })
    }

    fn scope_spans(
        &mut self,
        message: Message<'_>,
        service: &str,
        tenant: &str,
        kept: &Object,
    ) -> Result<()> {
        let mut attributes = ObjectBuilder::default();
        message.each(|number, wire| match (number, wire) {
            (1, Wire::Bytes(scope)) => scope
                .message()
                .each(|number, wire| match (number, wire) {
                    (3, Wire::Bytes(part)) => {
                        add_attribute(&mut attributes, part, &mut self.room, 0)
                    }
                    _ => Ok(()),
                })
                .map_err(|error| error.inside("scope")),
            _ => Ok(()),
        })?;
        let (attributes, text_len) = with_scope(kept, attributes.finish());
        let shared = Shared {
            service,
            tenant,
            attributes,
            len: len_u64(text_len + service.len() + tenant.len()),
        };
        let mut index = 0;
        message.each(|number, wire| match (number, wire) {
            (2, Wire::Bytes(span)) => within(&mut index, "spans", || self.span(span, &shared)),
            _ => Ok(()),
        })
    }

    fn span(&mut self, span: Part<'_>, shared: &Shared<'_>) -> Result<()> {
        self.copied_len = self.copied_len.saturating_add(shared.len);
        if self.copied_len > COPIED_LEN_MAX {
            return Err(Fault::Copied.at(span.offset));
        }
        let room = &mut self.room;
        room.take(size_of::<Span>(), span.offset)?;
        let mut ids = Ids::default();
        let mut parent = None;
        let mut name = "";
        let mut start = None;
        let mut end = None;
        let mut status = "";
        let mut attributes = ObjectBuilder::from(shared.attributes.clone());
        let mut events = Vec::new();
        let mut links = Vec::new();
        let mut event_index = 0;
        let mut link_index = 0;
        span.message().each(|number, wire| {
            match (number, wire) {
                (1, Wire::Bytes(id)) => ids.trace = Some(id.bytes),
                (2, Wire::Bytes(id)) => ids.span = Some(id.bytes),
                (4, Wire::Bytes(id)) => parent = Some(id.bytes).filter(|id| !id.is_empty()),
                (5, Wire::Bytes(text)) => name = text.text()?,
                (7, Wire::Fixed64(time)) => start = Some(time),
                (8, Wire::Fixed64(time)) => end = Some(time),
                (9, Wire::Bytes(entry)) => add_attribute(&mut attributes, entry, room, 0)?,
                (11, Wire::Bytes(event)) => within(&mut event_index, "events", || {
                    events.push(read_event(event, room)?);
                    Ok(())
                })?,
                (13, Wire::Bytes(link)) => within(&mut link_index, "links", || {
                    links.extend(read_link(link, room)?);
                    Ok(())
                })?,
                (15, Wire::Bytes(part)) => read_status(part.message(), &mut status)?,
                _ => {}
            }
            Ok(())
        })?;
        let (trace_id, span_id) = ids.required(span.offset)?;
        if trace_id.is_empty() || span_id.is_empty() {
            return Err(Fault::EmptyId.at(span.offset));
        }
        self.spans.push(Span {
            trace_id: hex(trace_id).into(),
            span_id: hex(span_id).into(),
            tenant: shared.tenant.into(),
            parent_span_id: parent.map(hex).map(Into::into),
            name: name.into(),
            start_time_ns: required(start, span.offset, "startTimeUnixNano")?,
            end_time_ns: required(end, span.offset, "endTimeUnixNano")?,
            status: status.into(),
            service: shared.service.into(),
            attributes: attributes.finish(),
            events,
            links,
            unknown: Object::new(),
        });
        Ok(())
    }
}

/// The ids of a span or a link.
#[derive(Default)]
struct Ids<'a> {
    trace: Option<&'a [u8]>,
    span: Option<&'a [u8]>,
}

impl<'a> Ids<'a> {
    fn required(&self, offset: usize) -> Result<(&'a [u8], &'a [u8])> {
        let trace_id = required(self.trace, offset, "traceId")?;
        Ok((trace_id, required(self.span, offset, "spanId")?))
    }
}

fn read_event(event: Part<'_>, room: &mut Room) -> Result<Event> {
    room.take(size_of::<Event>(), event.offset)?;
    let mut timestamp = None;
    let mut name = "";
    let mut attributes = ObjectBuilder::default();
    event.message().each(|number, wire| {
        match (number, wire) {
            (1, Wire::Fixed64(time)) => timestamp = Some(time),
            (2, Wire::Bytes(text)) => name = text.text()?,
            (3, Wire::Bytes(entry)) => add_attribute(&mut attributes, entry, room, 0)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(Event {
        name: name.into(),
        timestamp_ns: required(timestamp, event.offset, "timeUnixNano")?,
        attributes: attributes.finish(),
    })
}

/// A link without ids leads nowhere and is left out.
fn read_link(link: Part<'_>, room: &mut Room) -> Result<Option<Link>> {
    room.take(size_of::<Link>(), link.offset)?;
    let mut ids = Ids::default();
    let mut attributes = ObjectBuilder::default();
    link.message().each(|number, wire| {
        match (number, wire) {
            (1, Wire::Bytes(id)) => ids.trace = Some(id.bytes),
            (2, Wire::Bytes(id)) => ids.span = Some(id.bytes),
            (4, Wire::Bytes(entry)) => add_attribute(&mut attributes, entry, room, 0)?,
            _ => {}
        }
        Ok(())
    })?;
    let (trace_id, span_id) = ids.required(link.offset)?;
    if trace_id.is_empty() || span_id.is_empty() {
        return Ok(None);
    }
    Ok(Some(Link {
        trace_id: hex(trace_id).into(),
        span_id: hex(span_id).into(),
        attributes: attributes.finish(),
    }))
}

fn read_status(status: Message<'_>, word: &mut &'static str) -> Result<()> {
    status.each(|number, wire| {
        if let (3, Wire::Varint(code)) = (number, wire) {
            *word = match code {
                1 => "ok",
                2 => "error",
                _ => "",
            };
        }
        Ok(())
    })
}

fn required<T>(value: Option<T>, offset: usize, field: &'static str) -> Result<T> {
    value.ok_or_else(|| Fault::Missing.at(offset).inside(field))
}

/// Reads the next element of a list, so that its errors say which it is.
fn within(index: &mut usize, list: &str, read: impl FnOnce() -> Result<()>) -> Result<()> {
    read().map_err(|error| error.inside(format_args!("{list}[{index}]")))?;
    *index += 1;
    Ok(())
}
