//! A place in the order of starts, and the token that clients hold it by.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::span::Span;
use crate::store::buffer::OrderKey;

const VERSION: u8 = 1;

/// A place in the order of starts: behind one span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    start_time_ns: u64,
    end_time_ns: u64,
    tenant: String,
    trace_id: String,
    span_id: String,
}

impl Cursor {
    /// The place behind `span`.
    pub fn of(span: &Span) -> Self {
        Self {
            start_time_ns: span.start_time_ns,
            end_time_ns: span.end_time_ns,
            tenant: span.tenant.clone(),
            trace_id: span.trace_id.clone(),
            span_id: span.span_id.clone(),
        }
    }

    pub(super) fn start(&self) -> u64 {
        self.start_time_ns
    }

    pub(super) fn key(&self) -> OrderKey<'_> {
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
        let mut bytes = vec![VERSION];
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
        let (version, rest) = bytes.split_first()?;
        if *version != VERSION {
            return None;
        }
        let (start, rest) = rest.split_first_chunk()?;
        let (end, rest) = rest.split_first_chunk()?;
        let (tenant, rest) = text(rest)?;
        let (trace_id, rest) = text(rest)?;
        Some(Self {
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
