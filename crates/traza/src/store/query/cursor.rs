//! A place in the order of starts, forwards or backwards, and the token that clients hold it by.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::span::Span;
use crate::store::buffer::{OrderKey, order_key};

/// First byte of a token; what follows is the same.
const ASCENDING: u8 = 1;
const DESCENDING: u8 = 2;

/// A place in the order of starts, or in that with the latest start first: behind one span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    is_descending: bool,
    start_time_ns: u64,
    end_time_ns: u64,
    tenant: String,
    trace_id: String,
    span_id: String,
}

impl Cursor {
    /// The place behind `span` in the order of starts.
    pub fn of(span: &Span) -> Self {
        Self {
            is_descending: false,
            start_time_ns: span.start_time_ns,
            end_time_ns: span.end_time_ns,
            tenant: span.tenant.to_string(),
            trace_id: span.trace_id.to_string(),
            span_id: span.span_id.to_string(),
        }
    }

    /// The place behind `span` with the latest start first.
    pub fn of_descending(span: &Span) -> Self {
        Self {
            is_descending: true,
            ..Self::of(span)
        }
    }

    /// True for a place in the order with the latest start first.
    pub fn is_descending(&self) -> bool {
        self.is_descending
    }

    /// The earliest start that a span behind the place can have.
    pub(super) fn since(&self) -> Option<u64> {
        (!self.is_descending).then_some(self.start_time_ns)
    }

    /// The latest one.
    pub(super) fn until(&self) -> Option<u64> {
        self.is_descending.then_some(self.start_time_ns)
    }

    /// True for a span behind the place.
    pub(super) fn is_before(&self, span: &Span) -> bool {
        let is_other_start = span.start_time_ns != self.start_time_ns;
        if self.is_descending && is_other_start {
            return span.start_time_ns < self.start_time_ns;
        }
        // Spans of one start have the same order either way.
        order_key(span) > self.key()
    }

    fn key(&self) -> OrderKey<'_> {
        (
            self.start_time_ns,
            self.end_time_ns,
            &self.tenant,
            &self.trace_id,
            &self.span_id,
        )
    }

    /// The token: URL-safe base64, opaque to those who hold it.
    pub fn to_token(&self) -> String {
        let mut bytes = vec![if self.is_descending {
            DESCENDING
        } else {
            ASCENDING
        }];
        bytes.extend_from_slice(&self.start_time_ns.to_le_bytes());
        bytes.extend_from_slice(&self.end_time_ns.to_le_bytes());
        for text in [&self.tenant, &self.trace_id] {
            // Longer ones do not occur: a span comes in a batch of 256 MiB at most.
            let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes.extend_from_slice(self.span_id.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The place of a token; `None` when it is no token of this kind.
    pub fn from_token(token: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (direction, rest) = bytes.split_first()?;
        if ![ASCENDING, DESCENDING].contains(direction) {
            return None;
        }
        let (start, rest) = rest.split_first_chunk()?;
        let (end, rest) = rest.split_first_chunk()?;
        let (tenant, rest) = text(rest)?;
        let (trace_id, rest) = text(rest)?;
        Some(Self {
            is_descending: *direction == DESCENDING,
            start_time_ns: u64::from_le_bytes(*start),
            end_time_ns: u64::from_le_bytes(*end),
            tenant,
            trace_id,
            span_id: String::from_utf8(rest.to_vec()).ok()?,
        })
    }
}

fn text(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
    let (text, rest) = rest.split_at_checked(len)?;
    Some((String::from_utf8(text.to_vec()).ok()?, rest))
}
