//! Segments of older releases: read once, record by record, and written again as the current format
//! (`docs/formats/traza-segment.md`, older versions).
//!
//! The record stream is the authority on which records there are: it is walked front to back without a
//! gap, and everything else that the file says of its records must agree with it. The query indexes of
//! an old file are never read, so that damage in them cannot reach the new file.

pub mod v6;
pub mod v7;

use std::ops::Range;

use durable::Field;

use crate::digest::{Digest, pair_digest};
use crate::record::{self, Record};
use crate::segment::error::{Fault, Result, Section, SegmentError};
use crate::segment::layout::{FORMAT_VERSION, MAGIC, header};
use crate::span::Span;

/// A record of an old segment, in the bytes of its stream.
#[derive(Clone, Copy, Debug)]
pub struct LegacyRecord<'a> {
    /// Position in the stream, counted from 0.
    pub ordinal: u64,
    /// Start of the span in nanoseconds, as the old index has it.
    pub timestamp: u64,
    /// The trace, as the old index has it.
    pub trace_id: &'a str,
    /// The attribute pairs, as the old version stored them.
    pub attributes: LegacyAttributes<'a>,
    /// The span, as JSON: all that a converted record keeps.
    pub payload: &'a [u8],
}

/// The attribute pairs of an old record.
#[derive(Clone, Copy, Debug)]
pub enum LegacyAttributes<'a> {
    /// Version 6: keys and index texts, each behind its length.
    Texts(v6::Texts<'a>),
    /// Version 7: key ids and digests. The dictionary is part of an index that is not read.
    Digests(v7::Pairs<'a>),
}

impl LegacyAttributes<'_> {
    /// True when the pairs are those of `record`, as far as they can be compared: version 7 needs the
    /// dictionary for the keys, so only the digests count.
    pub fn agree_with(&self, record: &Record) -> bool {
        match self {
            Self::Texts(texts) => texts.iter().eq(record.attributes.iter()),
            Self::Digests(pairs) => {
                let derived = record.attributes.iter();
                let derived = derived.map(|(key, text)| pair_digest(key, text));
                pairs
                    .iter()
                    .map(|(_, digest): (u32, Digest)| digest)
                    .eq(derived)
            }
        }
    }
}

/// What a walk over an old segment found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacySummary {
    /// The file's format version.
    pub version: u16,
    /// Number of records.
    pub record_count: u64,
    /// Length of all records before compression.
    pub logical_len: u64,
    /// Timestamps of the first and the last record.
    pub timestamps: Option<(u64, u64)>,
    /// Where the sections lie, in file order. The query indexes among them were not read.
    pub sections: Vec<(Section, Range<u64>)>,
}

/// The format version of a segment of any release.
///
/// # Errors
/// [`SegmentError::NotASegment`]; [`SegmentError::Corrupt`] for a file that is too short to tell.
pub fn version_of(bytes: &[u8]) -> Result<u16> {
    crate::segment::version_of(bytes)
}

/// Walks the records of a version 6 or 7 segment, and hands each one to `visit`. Records that were handed
/// out count only when the walk ends well.
///
/// # Errors
/// [`SegmentError::Version`] for every other version; [`SegmentError::Corrupt`] when the record stream has
/// a gap, or contradicts what the file says of it; what `visit` answers.
pub fn walk(
    bytes: &[u8],
    visit: &mut dyn FnMut(LegacyRecord<'_>) -> Result<()>,
) -> Result<LegacySummary> {
    match version_of(bytes)? {
        v6::VERSION => v6::walk(bytes, visit),
        v7::VERSION => v7::walk(bytes, visit),
        found => Err(SegmentError::Version {
            found,
            newest: v7::VERSION,
        }),
    }
}

/// The records of a version 6 or 7 segment, derived anew from their payloads, in their old order.
///
/// # Errors
/// As [`walk`]; [`SegmentError::Corrupt`] for a payload that is no span.
pub fn records(bytes: &[u8]) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    walk(bytes, &mut |legacy| {
        records.push(derive(&legacy)?);
        Ok(())
    })?;
    Ok(records)
}

/// The record that the payload of an old one gives today.
///
/// # Errors
/// [`SegmentError::Corrupt`] when the payload is no span.
pub fn derive(legacy: &LegacyRecord<'_>) -> Result<Record> {
    let span = Span::from_json(legacy.payload).map_err(|error| {
        corrupt(Fault::Payload {
            ordinal: legacy.ordinal,
            reason: error.to_string(),
        })
    })?;
    Ok(record::derive(&span))
}

/// The bytes of a version 8 segment with the records of a version 6 or 7 one. Records of one timestamp
/// keep their order.
///
/// # Errors
/// As [`records`]; [`SegmentError::TooLarge`] for a record that version 8 cannot hold.
pub fn to_current(bytes: &[u8]) -> Result<Vec<u8>> {
    crate::segment::encode(&records(bytes)?)
}

/// Damage of the record stream.
fn corrupt(fault: Fault) -> SegmentError {
    SegmentError::corrupt(Section::Records, 0, fault)
}

fn header_fault(fault: Fault) -> SegmentError {
    SegmentError::corrupt(Section::Header, 0, fault)
}

/// The identity and the length of an old header.
fn check_identity(bytes: &[u8], version: u16, header_len: u16) -> Result<()> {
    let found = version_of(bytes)?;
    if found != version {
        return Err(SegmentError::Version {
            found,
            newest: FORMAT_VERSION,
        });
    }
    debug_assert_eq!(header::MAGIC.of(bytes), Ok(&MAGIC[..]));
    let found = header::HEADER_LEN.u16(bytes).map_err(|short| {
        header_fault(Fault::CutOff {
            wanted: u64::from(header_len),
            left: short.left as u64,
        })
    })?;
    expect(header::HEADER_LEN, u64::from(found), u64::from(header_len))
}

fn expect(field: Field, found: u64, expected: u64) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(header_fault(Fault::Word {
        field: field.name,
        found,
        expected,
    }))
}

/// The sections stand one behind the other, the last one ends with the file at the latest.
fn check_contiguous(
    start: u64,
    chain: &[(Field, u64, u64)],
    content: (Field, u64),
    file_len: u64,
) -> Result<()> {
    let mut end = start;
    for (field, found, len) in chain {
        if *found != end {
            return Err(header_fault(Fault::Layout {
                field: field.name,
                found: *found,
                expected: end,
            }));
        }
        end = end.saturating_add(*len);
    }
    if content.1 < end || content.1 > file_len {
        return Err(header_fault(Fault::Bound {
            field: content.0.name,
            found: content.1,
            max: file_len,
        }));
    }
    Ok(())
}

/// The record-offset index of versions 6 and 7: a u64 per record.
#[derive(Clone, Copy, Debug)]
struct OffsetTable<'a> {
    offsets: &'a [[u8; 8]],
}

impl<'a> OffsetTable<'a> {
    /// The table must be as long as `record_count` calls for.
    fn new(table: &'a [u8], record_count: u64) -> Result<Self> {
        let (offsets, rest) = table.as_chunks::<8>();
        if !rest.is_empty() || offsets.len() as u64 != record_count {
            return Err(SegmentError::corrupt(
                Section::RecordOffsets,
                0,
                Fault::Word {
                    field: "length of the record-offset index",
                    found: table.len() as u64,
                    expected: record_count.saturating_mul(8),
                },
            ));
        }
        Ok(Self { offsets })
    }

    /// Record `ordinal` of the stream begins at `found`; the table says the same.
    fn check(&self, ordinal: u64, found: u64) -> Result<()> {
        let place = usize::try_from(ordinal).ok();
        let declared = place.and_then(|at| self.offsets.get(at));
        let Some(declared) = declared.map(|offset| u64::from_le_bytes(*offset)) else {
            return self.check_count(ordinal.saturating_add(1));
        };
        if declared == found {
            return Ok(());
        }
        Err(SegmentError::corrupt(
            Section::RecordOffsets,
            0,
            Fault::Stream {
                field: "offset of a record",
                declared,
                found,
            },
        ))
    }

    /// The stream has `found` records; the table says the same.
    fn check_count(&self, found: u64) -> Result<()> {
        let declared = self.offsets.len() as u64;
        if declared == found {
            return Ok(());
        }
        Err(corrupt(Fault::Stream {
            field: "record count",
            declared,
            found,
        }))
    }
}
