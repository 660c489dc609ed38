//! The span: one unit of work of a traced system (`docs/formats/traza-segment.md`, span JSON).

mod read;
mod write;

use std::ops::ControlFlow;

use crate::json::{JsonError, Object, Text, Value};

/// The most links that a span may have.
pub const LINKS_MAX: usize = 256;
/// The longest name of a tenant in bytes.
pub const TENANT_LEN_MAX: usize = 64;
/// The member of an object that refers to an offloaded payload; its value is no content text.
pub const PAYLOAD_MEMBER: &str = "$payload";

/// A span. Identified by tenant, trace id and span id together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    /// The trace it belongs to; any non-empty text.
    pub trace_id: Text,
    /// Its own id within the trace; any non-empty text.
    pub span_id: Text,
    /// Whose it is; empty for the default tenant.
    pub tenant: Text,
    /// The span that caused it, if any.
    pub parent_span_id: Option<Text>,
    /// What was done.
    pub name: Text,
    /// Nanoseconds since the Unix epoch.
    pub start_time_ns: u64,
    /// Nanoseconds since the Unix epoch; may be before the start.
    pub end_time_ns: u64,
    /// How it ended; empty when unset.
    pub status: Text,
    /// What did it.
    pub service: Text,
    /// Facts about it.
    pub attributes: Object,
    /// What happened meanwhile.
    pub events: Vec<Event>,
    /// Spans that it refers to, in this or other traces.
    pub links: Vec<Link>,
    /// Top-level members that this model does not know, kept as they are.
    pub unknown: Object,
}

/// Something that happened during a span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// What happened.
    pub name: Text,
    /// Nanoseconds since the Unix epoch.
    pub timestamp_ns: u64,
    /// Facts about it.
    pub attributes: Object,
}

/// A reference to another span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    /// The trace of the other span.
    pub trace_id: Text,
    /// The id of the other span.
    pub span_id: Text,
    /// Facts about the relation.
    pub attributes: Object,
}

/// Why bytes are not a span.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpanError {
    /// They are not JSON, or not of the shape that a span has there.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// They are neither an array nor an object.
    #[error("neither an array of spans nor an object with the member `spans`")]
    Shape,
    /// A required field is missing.
    #[error("missing field `{field}` in the object that ends at byte {offset}")]
    Missing {
        /// The field.
        field: &'static str,
        /// Where the object ends, in bytes from the start of the input.
        offset: usize,
    },
    /// A field occurs twice, maybe under two of its spellings.
    #[error("field `{field}` twice at byte {offset}")]
    Twice {
        /// The field.
        field: &'static str,
        /// Where its second value starts, in bytes from the start of the input.
        offset: usize,
    },
}

/// Why a span cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpanFault {
    /// The trace id is empty.
    #[error("empty trace_id")]
    EmptyTraceId,
    /// The span id is empty.
    #[error("empty span_id")]
    EmptySpanId,
    /// The tenant is neither empty nor a name.
    #[error(
        "tenant {tenant:?} is not 1 to {TENANT_LEN_MAX} of a-z 0-9 . _ -, the first a letter or digit"
    )]
    Tenant {
        /// What it is.
        tenant: String,
    },
    /// There are too many links.
    #[error("too many links: count={count} max={LINKS_MAX}")]
    Links {
        /// How many there are.
        count: usize,
    },
}

impl Span {
    /// Reads a span from JSON: the stored form, and the spellings of times that other tools use.
    ///
    /// # Errors
    /// See [`SpanError`].
    pub fn from_json(bytes: &[u8]) -> Result<Self, SpanError> {
        read::span(bytes)
    }

    /// Reads an array of spans, as a batch is sent.
    ///
    /// # Errors
    /// See [`SpanError`].
    pub fn batch_from_json(bytes: &[u8]) -> Result<Vec<Self>, SpanError> {
        read::batch(bytes)
    }

    /// Reads the body of a request that sends spans: an array of them, or an object with the array as its member `spans`.
    ///
    /// # Errors
    /// [`SpanError::Shape`] for anything else; see [`SpanError`].
    pub fn body_from_json(bytes: &[u8]) -> Result<Vec<Self>, SpanError> {
        read::body(bytes)
    }

    /// The canonical JSON: the payload of the span's record.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    /// Appends the canonical JSON.
    pub fn write(&self, out: &mut String) {
        write::span(self, out, |_, _| {});
    }

    /// [`Span::write`] that also hands out the key and the canonical value of each attribute.
    pub(crate) fn write_noting(&self, out: &mut String, note: impl FnMut(&str, &str)) {
        write::span(self, out, note);
    }

    /// About how many bytes it takes in memory.
    pub(crate) fn memory_len(&self) -> usize {
        let events = self.events.iter();
        let events = events.map(|event| size_of::<Event>() + memory_of(&event.attributes));
        let links = self.links.iter();
        let links = links.map(|link| size_of::<Link>() + memory_of(&link.attributes));
        size_of::<Self>()
            + self.name.len()
            + memory_of(&self.attributes)
            + memory_of(&self.unknown)
            + events.chain(links).sum::<usize>()
    }

    /// Checks what every stored span must hold.
    ///
    /// # Errors
    /// See [`SpanFault`].
    pub fn validate(&self) -> Result<(), SpanFault> {
        if self.trace_id.is_empty() {
            return Err(SpanFault::EmptyTraceId);
        }
        if self.span_id.is_empty() {
            return Err(SpanFault::EmptySpanId);
        }
        if !self.tenant.is_empty() && !is_tenant_name(&self.tenant) {
            return Err(SpanFault::Tenant {
                tenant: self.tenant.to_string(),
            });
        }
        if self.links.len() > LINKS_MAX {
            return Err(SpanFault::Links {
                count: self.links.len(),
            });
        }
        Ok(())
    }

    /// Hands every text that content search sees to `visit`, until it breaks: the strings in attribute values, the event
    /// names, and the strings in the values of their attributes.
    pub fn each_text(&self, visit: &mut dyn FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
        for value in self.attributes.values() {
            strings(value, visit)?;
        }
        for event in &self.events {
            visit(&event.name)?;
            for value in event.attributes.values() {
                strings(value, visit)?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// About how many bytes the members take in memory.
fn memory_of(members: &Object) -> usize {
    let members = members.iter();
    let taken =
        members.map(|(name, value)| size_of::<(Text, Value)>() + name.len() + memory_in(value));
    taken.sum()
}

/// What a value takes beside its place.
fn memory_in(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items
            .iter()
            .map(|item| size_of::<Value>() + memory_in(item))
            .sum(),
        Value::Object(members) => memory_of(members),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// True for 1 to 64 bytes of `a-z 0-9 . _ -` that start with a letter or a digit.
pub fn is_tenant_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= TENANT_LEN_MAX
        && text.bytes().next().is_some_and(plain)
        && text
            .bytes()
            .all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'))
}

/// The strings within a value, but for those under [`PAYLOAD_MEMBER`].
fn strings(value: &Value, visit: &mut dyn FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().try_for_each(|item| strings(item, visit)),
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| *name != PAYLOAD_MEMBER)
            .try_for_each(|(_, member)| strings(member, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) => ControlFlow::Continue(()),
    }
}
