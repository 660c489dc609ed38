//! The segment header, and where it says the sections lie. No files.
#![warn(clippy::arithmetic_side_effects, clippy::as_conversions)]

use std::ops::Range;

use durable::checksum::crc32;

use super::codec::{Codec, len_u64};
use super::error::{Fault, Result, Section, SegmentError};
use super::layout::{
    EMPTY_MAX_TIMESTAMP, EMPTY_MIN_TIMESTAMP, FORMAT_VERSION, MAGIC, header, record_header, wrapper,
};

/// The header, decoded. Magic, version and header length are implied: see [`header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How the record blocks are compressed.
    pub codec: Codec,
    /// Number of records.
    pub record_count: u64,
    /// Where the record blocks begin.
    pub records_offset: u64,
    /// Length of the record blocks as stored.
    pub records_len: u64,
    /// Where the block directory begins.
    pub directory_offset: u64,
    /// Length of the block directory with its wrapper.
    pub directory_len: u64,
    /// Where the record-offset index begins.
    pub offsets_offset: u64,
    /// Length of the record-offset index with its wrapper.
    pub offsets_len: u64,
    /// Where the trace index begins.
    pub trace_offset: u64,
    /// Length of the trace index with its wrapper.
    pub trace_len: u64,
    /// Where the attribute index begins.
    pub attribute_offset: u64,
    /// Where the content index begins.
    pub content_offset: u64,
    /// Smallest timestamp of a record.
    pub min_timestamp: u64,
    /// Largest timestamp of a record.
    pub max_timestamp: u64,
    /// Length of all records before compression.
    pub logical_len: u64,
}

/// The first bytes of a segment of any version: identity and version.
///
/// # Errors
/// [`SegmentError::NotASegment`] without the magic; [`SegmentError::Corrupt`] for a file that is too short.
pub(crate) fn version_of(bytes: &[u8]) -> Result<u16> {
    let short = |short: durable::Short| {
        let wanted = short.position.saturating_add(short.wanted);
        corrupt(Fault::CutOff {
            wanted: len_u64(wanted),
            left: len_u64(bytes.len()),
        })
    };
    if header::MAGIC.of(bytes).map_err(short)? != MAGIC {
        return Err(SegmentError::NotASegment);
    }
    header::VERSION.u16(bytes).map_err(short)
}

fn corrupt(fault: Fault) -> SegmentError {
    SegmentError::corrupt(Section::Header, 0, fault)
}

impl Header {
    /// The header's bytes, with their checksum.
    pub(crate) fn encode(&self) -> [u8; header::LEN] {
        let mut bytes = [0; header::LEN];
        let header_len = u16::try_from(header::LEN).unwrap_or(u16::MAX);
        let words = [
            (header::RECORD_COUNT, self.record_count),
            (header::RECORDS_OFFSET, self.records_offset),
            (header::RECORDS_LEN, self.records_len),
            (header::OFFSETS_OFFSET, self.offsets_offset),
            (header::OFFSETS_LEN, self.offsets_len),
            (header::TRACE_OFFSET, self.trace_offset),
            (header::TRACE_LEN, self.trace_len),
            (header::ATTRIBUTE_OFFSET, self.attribute_offset),
            (header::MIN_TIMESTAMP, self.min_timestamp),
            (header::MAX_TIMESTAMP, self.max_timestamp),
            (header::CONTENT_OFFSET, self.content_offset),
            (header::DIRECTORY_OFFSET, self.directory_offset),
            (header::DIRECTORY_LEN, self.directory_len),
            (header::LOGICAL_LEN, self.logical_len),
        ];
        let mut done = header::MAGIC
            .put(&mut bytes, &MAGIC)
            .and(header::VERSION.put(&mut bytes, &FORMAT_VERSION.to_le_bytes()))
            .and(header::HEADER_LEN.put(&mut bytes, &header_len.to_le_bytes()))
            .and(header::CODEC.put(&mut bytes, &self.codec.id().to_le_bytes()));
        for (field, value) in words {
            done = done.and(field.put(&mut bytes, &value.to_le_bytes()));
        }
        let crc = crc32(bytes.get(..header::CRC32.offset).unwrap_or_default());
        let done = done.and(header::CRC32.put(&mut bytes, &crc.to_le_bytes()));
        debug_assert!(done.is_ok(), "the table gives the lengths");
        bytes
    }

    /// The checksum at its end, as the file has it.
    pub(crate) fn crc(&self) -> u32 {
        let bytes = self.encode();
        header::CRC32.u32(&bytes).unwrap_or_default()
    }

    /// Decodes the header of a file of `file_len` bytes that begins with `bytes`, and checks what it
    /// can check of itself: identity, version, length, checksum, codec, then bounds and places.
    ///
    /// # Errors
    /// [`SegmentError::NotASegment`], [`SegmentError::Version`], [`SegmentError::Unsupported`] for the
    /// codec; [`SegmentError::Corrupt`] naming the header.
    pub fn decode(bytes: &[u8], file_len: u64) -> Result<Self> {
        // A legacy header is shorter than this one, so the version comes before the length.
        let version = version_of(bytes)?;
        if version != FORMAT_VERSION {
            return Err(SegmentError::Version {
                found: version,
                newest: FORMAT_VERSION,
            });
        }
        let word = |field: durable::Field| {
            field.u64(bytes).map_err(|_| {
                corrupt(Fault::CutOff {
                    wanted: len_u64(header::LEN),
                    left: len_u64(bytes.len()),
                })
            })
        };
        let cut_off = |_| {
            corrupt(Fault::CutOff {
                wanted: len_u64(header::LEN),
                left: len_u64(bytes.len()),
            })
        };
        let header_len = u64::from(header::HEADER_LEN.u16(bytes).map_err(cut_off)?);
        expect(header::HEADER_LEN, header_len, len_u64(header::LEN))?;
        let stored = header::CRC32.u32(bytes).map_err(cut_off)?;
        let computed = crc32(bytes.get(..header::CRC32.offset).unwrap_or_default());
        if stored != computed {
            return Err(corrupt(Fault::Checksum { stored, computed }));
        }
        let codec = Codec::from_id(header::CODEC.u32(bytes).map_err(cut_off)?)?;
        let decoded = Self {
            codec,
            record_count: word(header::RECORD_COUNT)?,
            records_offset: word(header::RECORDS_OFFSET)?,
            records_len: word(header::RECORDS_LEN)?,
            directory_offset: word(header::DIRECTORY_OFFSET)?,
            directory_len: word(header::DIRECTORY_LEN)?,
            offsets_offset: word(header::OFFSETS_OFFSET)?,
            offsets_len: word(header::OFFSETS_LEN)?,
            trace_offset: word(header::TRACE_OFFSET)?,
            trace_len: word(header::TRACE_LEN)?,
            attribute_offset: word(header::ATTRIBUTE_OFFSET)?,
            content_offset: word(header::CONTENT_OFFSET)?,
            min_timestamp: word(header::MIN_TIMESTAMP)?,
            max_timestamp: word(header::MAX_TIMESTAMP)?,
            logical_len: word(header::LOGICAL_LEN)?,
        };
        decoded.check_places(file_len)?;
        decoded.check_counts()?;
        Ok(decoded)
    }

    /// Every section begins where the one before it ends, and the last one ends with the file.
    fn check_places(&self, file_len: u64) -> Result<()> {
        let mut end = len_u64(header::LEN);
        let chain = [
            (
                header::RECORDS_OFFSET,
                self.records_offset,
                self.records_len,
            ),
            (
                header::DIRECTORY_OFFSET,
                self.directory_offset,
                self.directory_len,
            ),
            (
                header::OFFSETS_OFFSET,
                self.offsets_offset,
                self.offsets_len,
            ),
            (header::TRACE_OFFSET, self.trace_offset, self.trace_len),
        ];
        for (field, offset, len) in chain {
            contiguous(field, offset, end)?;
            // Past the end of the file is refused by the last comparison below.
            end = end.saturating_add(len);
        }
        contiguous(header::ATTRIBUTE_OFFSET, self.attribute_offset, end)?;
        if self.content_offset < end || self.content_offset > file_len {
            return Err(corrupt(Fault::Bound {
                field: header::CONTENT_OFFSET.name,
                found: self.content_offset,
                max: file_len,
            }));
        }
        for (section, range) in self.sections(file_len) {
            let left = range.end.saturating_sub(range.start);
            let wanted = len_u64(wrapper::LEN);
            let has_wrapper = !matches!(section, Section::Header | Section::Records);
            if has_wrapper && left < wanted {
                return Err(SegmentError::corrupt(
                    section,
                    range.start,
                    Fault::CutOff { wanted, left },
                ));
            }
        }
        Ok(())
    }

    /// The counts agree with each other before any of them sizes anything.
    fn check_counts(&self) -> Result<()> {
        let max = self
            .logical_len
            .checked_div(len_u64(record_header::LEN))
            .unwrap_or(0);
        if self.record_count > max {
            return Err(corrupt(Fault::Bound {
                field: header::RECORD_COUNT.name,
                found: self.record_count,
                max,
            }));
        }
        if self.record_count == 0 {
            expect(header::RECORDS_LEN, self.records_len, 0)?;
            expect(header::LOGICAL_LEN, self.logical_len, 0)?;
            expect(
                header::MIN_TIMESTAMP,
                self.min_timestamp,
                EMPTY_MIN_TIMESTAMP,
            )?;
            expect(
                header::MAX_TIMESTAMP,
                self.max_timestamp,
                EMPTY_MAX_TIMESTAMP,
            )?;
        } else if self.records_len == 0 {
            return Err(corrupt(Fault::CutOff {
                wanted: self.logical_len,
                left: 0,
            }));
        } else if self.min_timestamp > self.max_timestamp {
            return Err(corrupt(Fault::Bound {
                field: header::MIN_TIMESTAMP.name,
                found: self.min_timestamp,
                max: self.max_timestamp,
            }));
        }
        Ok(())
    }

    /// Where each section of a file of `file_len` bytes lies, in file order.
    pub fn sections(&self, file_len: u64) -> [(Section, Range<u64>); 7] {
        [
            (Section::Header, 0..self.records_offset),
            (Section::Records, self.records_offset..self.directory_offset),
            (
                Section::BlockDirectory,
                self.directory_offset..self.offsets_offset,
            ),
            (
                Section::RecordOffsets,
                self.offsets_offset..self.trace_offset,
            ),
            (
                Section::TraceIndex,
                self.trace_offset..self.attribute_offset,
            ),
            (
                Section::AttributeIndex,
                self.attribute_offset..self.content_offset,
            ),
            (Section::ContentIndex, self.content_offset..file_len),
        ]
    }

    /// The declared timestamp range; empty without records.
    pub fn contains_timestamp(&self, timestamp: u64) -> bool {
        (self.min_timestamp..=self.max_timestamp).contains(&timestamp)
    }
}

fn contiguous(field: durable::Field, found: u64, expected: u64) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(corrupt(Fault::Layout {
        field: field.name,
        found,
        expected,
    }))
}

fn expect(field: durable::Field, found: u64, expected: u64) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(corrupt(Fault::Word {
        field: field.name,
        found,
        expected,
    }))
}
