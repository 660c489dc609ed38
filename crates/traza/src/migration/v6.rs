//! Version 6, which every release before 0.24 wrote: records as they are, nothing checksummed. Frozen.

use durable::{Cursor, Short, layout};

use super::{
    LegacyAttributes, LegacyRecord, LegacySummary, OffsetTable, check_contiguous, check_identity,
    header_fault,
};
use crate::segment::error::{Fault, Result, Section, SegmentError};
use crate::segment::layout::record_header;

/// The format version.
pub const VERSION: u16 = 6;

layout! {
    /// The header of version 6.
    pub mod header_v6 [104] {
        MAGIC: [0; 8] "File identity, `TRAZASEG`.",
        VERSION: [8; 2] "Format version, u16: 6.",
        HEADER_LEN: [10; 2] "Length of this header, u16: 104.",
        RESERVED: [12; 4] "Zero.",
        RECORD_COUNT: [16; 8] "Number of records, u64.",
        RECORDS_OFFSET: [24; 8] "Offset of the records in the file, u64: 104.",
        RECORDS_LEN: [32; 8] "Length of the records, u64.",
        OFFSETS_OFFSET: [40; 8] "Offset of the record-offset index, u64.",
        OFFSETS_LEN: [48; 8] "Length of the record-offset index, u64: 8 for each record.",
        TRACE_OFFSET: [56; 8] "Offset of the trace index, u64.",
        TRACE_LEN: [64; 8] "Length of the trace index, u64.",
        ATTRIBUTE_OFFSET: [72; 8] "Offset of the attribute index, u64.",
        MIN_TIMESTAMP: [80; 8] "Smallest timestamp, u64.",
        MAX_TIMESTAMP: [88; 8] "Largest timestamp, u64.",
        CONTENT_OFFSET: [96; 8] "Offset of the content index, u64; it ends with the file.",
    }
}

/// The attribute pairs of a version 6 record, checked to be text.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    bytes: &'a [u8],
    count: u32,
}

impl<'a> Texts<'a> {
    /// Keys and index texts, in the order in which they are stored.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut cursor = Cursor::new(self.bytes);
        (0..self.count).map_while(move |_| {
            let key = text(&mut cursor).ok()?;
            let value = text(&mut cursor).ok()?;
            Some((key, value))
        })
    }
}

/// Walks the records of `bytes`: see [`super::walk`].
pub(super) fn walk(
    bytes: &[u8],
    visit: &mut dyn FnMut(LegacyRecord<'_>) -> Result<()>,
) -> Result<LegacySummary> {
    check_identity(bytes, VERSION, 104)?;
    let word = |field: durable::Field| {
        field.u64(bytes).map_err(|short| {
            header_fault(Fault::CutOff {
                wanted: header_v6::LEN as u64,
                left: short.left as u64,
            })
        })
    };
    let record_count = word(header_v6::RECORD_COUNT)?;
    let records_len = word(header_v6::RECORDS_LEN)?;
    let offsets_len = word(header_v6::OFFSETS_LEN)?;
    let records_offset = word(header_v6::RECORDS_OFFSET)?;
    let offsets_offset = word(header_v6::OFFSETS_OFFSET)?;
    let trace_offset = word(header_v6::TRACE_OFFSET)?;
    let attribute_offset = word(header_v6::ATTRIBUTE_OFFSET)?;
    let content_offset = word(header_v6::CONTENT_OFFSET)?;
    let content = (header_v6::CONTENT_OFFSET, content_offset);
    let chain = [
        (header_v6::RECORDS_OFFSET, records_offset, records_len),
        (header_v6::OFFSETS_OFFSET, offsets_offset, offsets_len),
        (
            header_v6::TRACE_OFFSET,
            trace_offset,
            word(header_v6::TRACE_LEN)?,
        ),
        (header_v6::ATTRIBUTE_OFFSET, attribute_offset, 0),
    ];
    check_contiguous(header_v6::LEN as u64, &chain, content, bytes.len() as u64)?;
    // The chain ends inside the file, so the two parts are there.
    let part = |start: u64, end: u64| {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        bytes.get(start..end).unwrap_or_default()
    };
    let table = OffsetTable::new(part(offsets_offset, trace_offset), record_count)?;
    let stream = part(records_offset, offsets_offset);
    let mut cursor = Cursor::new(stream);
    let mut ordinal = 0;
    let mut timestamps = None;
    while !cursor.rest().is_empty() {
        let start = cursor.position();
        table.check(ordinal, start as u64)?;
        let record = record(&mut cursor, ordinal).map_err(|fault| match fault {
            RecordFault::Short(short) => cut_off(records_offset, start, short),
            RecordFault::Text(fault) => damaged(records_offset, start, fault),
        })?;
        let first = timestamps.map_or(record.timestamp, |(first, _)| first);
        timestamps = Some((first, record.timestamp));
        visit(record)?;
        ordinal += 1;
    }
    table.check_count(ordinal)?;
    Ok(LegacySummary {
        version: VERSION,
        record_count: ordinal,
        logical_len: records_len,
        timestamps,
        sections: vec![
            (Section::Header, 0..records_offset),
            (Section::Records, records_offset..offsets_offset),
            (Section::RecordOffsets, offsets_offset..trace_offset),
            (Section::TraceIndex, trace_offset..attribute_offset),
            (Section::AttributeIndex, attribute_offset..content_offset),
            (Section::ContentIndex, content_offset..bytes.len() as u64),
        ],
    })
}

fn damaged(records_offset: u64, start: usize, fault: Fault) -> SegmentError {
    let offset = records_offset.saturating_add(start as u64);
    SegmentError::corrupt(Section::Records, offset, fault)
}

fn cut_off(records_offset: u64, start: usize, short: Short) -> SegmentError {
    let fault = Fault::CutOff {
        wanted: short.wanted as u64,
        left: short.left as u64,
    };
    damaged(records_offset, start, fault)
}

enum RecordFault {
    Short(Short),
    Text(Fault),
}

impl From<Short> for RecordFault {
    fn from(short: Short) -> Self {
        Self::Short(short)
    }
}

fn record<'a>(cursor: &mut Cursor<'a>, ordinal: u64) -> Result<LegacyRecord<'a>, RecordFault> {
    let head = cursor.bytes(record_header::LEN)?;
    let timestamp = record_header::TIMESTAMP.u64(head)?;
    let trace_id_len = record_header::TRACE_ID_LEN.u32(head)?;
    let count = record_header::ATTRIBUTE_COUNT.u32(head)?;
    let payload_len = record_header::PAYLOAD_LEN.u32(head)?;
    let trace_id = str_of(cursor, trace_id_len, "trace id")?;
    let pairs = cursor.rest();
    let pairs_start = cursor.position();
    for _ in 0..count {
        text(cursor)?;
        text(cursor)?;
    }
    let pairs_len = cursor.position().saturating_sub(pairs_start);
    let payload = cursor.bytes(len(payload_len))?;
    Ok(LegacyRecord {
        ordinal,
        timestamp,
        trace_id,
        attributes: LegacyAttributes::Texts(Texts {
            bytes: pairs.get(..pairs_len).unwrap_or_default(),
            count,
        }),
        payload,
    })
}

/// A text behind its length.
fn text<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str, RecordFault> {
    let len = cursor.u32()?;
    str_of(cursor, len, "attribute text")
}

fn str_of<'a>(
    cursor: &mut Cursor<'a>,
    text_len: u32,
    field: &'static str,
) -> Result<&'a str, RecordFault> {
    let at = cursor.position() as u64;
    let bytes = cursor.bytes(len(text_len))?;
    std::str::from_utf8(bytes).map_err(|_| RecordFault::Text(Fault::Utf8 { field, at }))
}

fn len(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
