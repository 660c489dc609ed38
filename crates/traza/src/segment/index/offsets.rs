//! The record-offset index: where each record begins in the uncompressed records.
#![warn(clippy::arithmetic_side_effects, clippy::as_conversions)]

use std::ops::Range;

use durable::varint;

use crate::segment::codec::{BodyReader, PostingBounds, len_u64};
use crate::segment::error::Fault;

/// The body: the first offset, then the gap to each next one. `offsets` are strictly ascending.
pub(crate) fn encode(offsets: &[u64]) -> Vec<u8> {
    let mut body = Vec::with_capacity(offsets.len().saturating_mul(2));
    let mut before = 0;
    for &offset in offsets {
        varint::encode(offset.wrapping_sub(before), &mut body);
        before = offset;
    }
    body
}

/// The index, decoded.
#[derive(Clone, Debug)]
pub(crate) struct RecordOffsets {
    starts: Box<[u64]>,
    logical_len: u64,
}

impl RecordOffsets {
    /// Reads the body: exactly as many varints as there are records, ascending, inside the records.
    pub(crate) fn decode(body: &[u8], bounds: PostingBounds) -> Result<Self, Fault> {
        // A varint takes a byte at least.
        let max = len_u64(body.len());
        if bounds.record_count > max {
            return Err(Fault::Bound {
                field: "record count",
                found: bounds.record_count,
                max,
            });
        }
        let mut reader = BodyReader::new(body, 0);
        let mut starts = Vec::with_capacity(
            body.len()
                .min(usize::try_from(bounds.record_count).unwrap_or(usize::MAX)),
        );
        let mut before = None;
        for _ in 0..bounds.record_count {
            let start = reader.posting(before, bounds.logical_len)?;
            starts.push(start);
            before = Some(start);
        }
        reader.finish()?;
        Ok(Self {
            starts: starts.into(),
            logical_len: bounds.logical_len,
        })
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Where the records begin.
    pub(crate) fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// The record that begins at `logical`.
    pub(crate) fn ordinal_of(&self, logical: u64) -> Option<usize> {
        self.starts.binary_search(&logical).ok()
    }

    /// The first record that begins at `logical` or later.
    pub(crate) fn ordinal_from(&self, logical: u64) -> usize {
        self.starts.partition_point(|start| *start < logical)
    }

    /// From the record's first byte to that of the next one.
    pub(crate) fn range(&self, ordinal: usize) -> Option<Range<u64>> {
        let start = *self.starts.get(ordinal)?;
        let end = self.starts.get(ordinal.checked_add(1)?).copied();
        Some(start..end.unwrap_or(self.logical_len))
    }

    /// Bytes of memory that the index takes.
    pub(crate) fn resident_len(&self) -> usize {
        size_of_val(self.starts.as_ref())
    }
}
