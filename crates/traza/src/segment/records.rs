//! Records to bytes and back. No files.
#![warn(clippy::arithmetic_side_effects, clippy::as_conversions)]

use std::ops::Range;

use super::codec::len_u64;
use super::error::{Fault, Result, SegmentError};
use super::layout::{RECORD_LEN_LIMIT, attribute_pair, record_header};
use crate::digest::Digest;

/// Appends a record's encoding. `pairs` are strictly ascending by key id.
///
/// # Errors
/// [`SegmentError::TooLarge`] when a field reaches 4 GiB or the record 2 GiB; `out` is then as before.
pub(crate) fn encode(
    timestamp: u64,
    trace_id: &str,
    pairs: &[(u32, Digest)],
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let too_large = || SegmentError::TooLarge {
        trace_id: trace_id.to_owned(),
        timestamp,
    };
    let len_u32 = |len: usize| u32::try_from(len).map_err(|_| too_large());
    let trace_id_len = len_u32(trace_id.len())?;
    let attribute_count = len_u32(pairs.len())?;
    let payload_len = len_u32(payload.len())?;
    let lens = Lens {
        trace_id: trace_id_len,
        attributes: attribute_count,
        payload: payload_len,
    };
    if lens.record_len() >= RECORD_LEN_LIMIT {
        return Err(too_large());
    }
    out.extend_from_slice(&timestamp.to_le_bytes());
    out.extend_from_slice(&trace_id_len.to_le_bytes());
    out.extend_from_slice(&attribute_count.to_le_bytes());
    out.extend_from_slice(&payload_len.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(trace_id.as_bytes());
    for (key_id, digest) in pairs {
        out.extend_from_slice(&key_id.to_le_bytes());
        out.extend_from_slice(&digest.0);
    }
    out.extend_from_slice(payload);
    Ok(())
}

/// The three lengths of a record's header.
#[derive(Clone, Copy, Debug)]
struct Lens {
    trace_id: u32,
    attributes: u32,
    payload: u32,
}

impl Lens {
    /// Length of the whole record: below 2^40, so that nothing overflows.
    fn record_len(self) -> u64 {
        let pairs = u64::from(self.attributes).saturating_mul(len_u64(attribute_pair::LEN));
        len_u64(record_header::LEN)
            .saturating_add(u64::from(self.trace_id))
            .saturating_add(pairs)
            .saturating_add(u64::from(self.payload))
    }
}

/// A record in the bytes of its block.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    timestamp: u64,
    trace_id: &'a str,
    pairs: &'a [u8],
    payload: &'a [u8],
    slack_len: usize,
}

impl<'a> RecordView<'a> {
    /// Decodes the record that is given `bytes`, from its start to the start of the next one.
    ///
    /// # Errors
    /// The fault, when the lengths do not fit, the trace id is no text, or the pairs do not ascend.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, Fault> {
        let cut_off = |wanted| Fault::CutOff {
            wanted,
            left: len_u64(bytes.len()),
        };
        let head = |_| cut_off(len_u64(record_header::LEN));
        let timestamp = record_header::TIMESTAMP.u64(bytes).map_err(head)?;
        let lens = Lens {
            trace_id: record_header::TRACE_ID_LEN.u32(bytes).map_err(head)?,
            attributes: record_header::ATTRIBUTE_COUNT.u32(bytes).map_err(head)?,
            payload: record_header::PAYLOAD_LEN.u32(bytes).map_err(head)?,
        };
        let short = |_| cut_off(lens.record_len());
        let mut cursor = durable::Cursor::new(bytes);
        cursor.bytes(record_header::LEN).map_err(short)?;
        let mut take = |len: u64| {
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            cursor.bytes(len).map_err(short)
        };
        let trace_id = take(u64::from(lens.trace_id))?;
        let trace_id = std::str::from_utf8(trace_id).map_err(|_| Fault::Utf8 {
            field: "trace id",
            at: len_u64(record_header::LEN),
        })?;
        let pairs = u64::from(lens.attributes).saturating_mul(len_u64(attribute_pair::LEN));
        let pairs = take(pairs)?;
        let payload = take(u64::from(lens.payload))?;
        let view = Self {
            timestamp,
            trace_id,
            pairs,
            payload,
            slack_len: cursor.rest().len(),
        };
        view.check_order()?;
        Ok(view)
    }

    fn check_order(&self) -> Result<(), Fault> {
        let mut before = None;
        for (entry, (key_id, _)) in (0u64..).zip(self.pairs()) {
            if before.is_some_and(|before| key_id <= before) {
                return Err(Fault::Order {
                    field: "attribute key ids of a record",
                    entry,
                });
            }
            before = Some(key_id);
        }
        Ok(())
    }

    /// Only the timestamp of the record that begins with `bytes`.
    pub(crate) fn timestamp_of(bytes: &[u8]) -> Result<u64, Fault> {
        record_header::TIMESTAMP
            .u64(bytes)
            .map_err(|short| Fault::CutOff {
                wanted: len_u64(record_header::LEN),
                left: len_u64(short.left),
            })
    }

    /// Start of the span in nanoseconds.
    pub fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// The trace that the span belongs to.
    pub fn trace_id(&self) -> &'a str {
        self.trace_id
    }

    /// The attribute pairs: id of the key in the segment's dictionary and digest of key and value,
    /// ascending by id.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (u32, Digest)> + use<'a> {
        let (pairs, _) = self.pairs.as_chunks::<{ attribute_pair::LEN }>();
        pairs.iter().map(|pair| {
            let [k0, k1, k2, k3, digest @ ..] = *pair;
            (u32::from_le_bytes([k0, k1, k2, k3]), Digest(digest))
        })
    }

    /// True when the record carries this pair. Two values with one digest cannot be told apart here:
    /// the payload is the authority.
    pub fn carries(&self, key_id: u32, digest: Digest) -> bool {
        self.pairs().any(|pair| pair == (key_id, digest))
    }

    /// The span, as JSON.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Bytes between the payload and the next record. No writer makes any.
    pub(crate) fn slack_len(&self) -> usize {
        self.slack_len
    }
}

/// A record read from a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    ordinal: usize,
    logical: u64,
    timestamp: u64,
    bytes: Box<[u8]>,
    trace_id: Range<usize>,
    pairs: Range<usize>,
    payload: Range<usize>,
}

impl StoredRecord {
    /// Copies the record out of its block.
    pub(crate) fn new(ordinal: usize, logical: u64, view: &RecordView<'_>) -> Self {
        let trace_id = view.trace_id.as_bytes();
        let bytes = [trace_id, view.pairs, view.payload].concat();
        let pairs_end = bytes.len().saturating_sub(view.payload.len());
        Self {
            ordinal,
            logical,
            timestamp: view.timestamp,
            trace_id: 0..trace_id.len(),
            pairs: trace_id.len()..pairs_end,
            payload: pairs_end..bytes.len(),
            bytes: bytes.into(),
        }
    }

    /// Position in the segment, counted from 0.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Where the record begins in the uncompressed records: what posting lists hold.
    pub fn logical_offset(&self) -> u64 {
        self.logical
    }

    /// Start of the span in nanoseconds.
    pub fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// The trace that the span belongs to.
    pub fn trace_id(&self) -> &str {
        self.view().trace_id
    }

    /// The span, as JSON.
    pub fn payload(&self) -> &[u8] {
        self.view().payload
    }

    /// The record as a view.
    pub fn view(&self) -> RecordView<'_> {
        let part = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        RecordView {
            timestamp: self.timestamp,
            trace_id: std::str::from_utf8(part(&self.trace_id)).unwrap_or_default(),
            pairs: part(&self.pairs),
            payload: part(&self.payload),
            slack_len: 0,
        }
    }
}
