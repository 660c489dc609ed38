//! Segments: one immutable, indexed file of spans (`docs/formats/traza-segment.md`).
//!
//! A [`Segment`] is opened from bytes or from a file and answers the same either way. Damage is an error
//! that names the section, never a shorter answer.

mod cache;
pub mod codec;
pub(crate) mod directory;
mod encode;
pub mod error;
mod header;
pub(crate) mod index;
pub mod layout;
mod open;
mod query;
mod read;
pub(crate) mod records;
mod scratch;
mod source;
mod survey;
mod verify;

pub use cache::{BLOCK_CACHE_LEN, BlockCache};
pub use codec::{Codec, Postings};
pub use directory::Block;
pub use encode::{EncodeOptions, encode, encode_with, encode_with_codec};
pub use error::{Fault, Result, Section, SegmentError};
pub use header::Header;
pub(crate) use header::version_of;
pub use index::content::ContentGeometry;
pub use read::{Reader, Scan};
pub use records::{RecordView, StoredRecord};
pub use survey::{KeyFacts, Survey, survey};
pub use verify::{verify, verify_bytes};

use std::ops::Range;

use cache::Owner;
use index::attribute::AttributeIndex;
use index::content::ContentIndex;
use index::offsets::RecordOffsets;
use index::trace::TraceIndex;
use source::Source;

/// Where a part of a segment lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionPlace {
    /// Which part.
    pub section: Section,
    /// Where it begins in the file.
    pub offset: u64,
    /// How long it is in the file, with its wrapper.
    pub stored_len: u64,
    /// How long it is before compression: all records, or the body of a metadata section.
    pub body_len: u64,
}

/// An open segment. Shared between threads; never changes.
#[derive(Debug)]
pub struct Segment {
    header: Header,
    source: Source,
    offsets: RecordOffsets,
    blocks: Box<[Block]>,
    traces: TraceIndex,
    attributes: AttributeIndex,
    content: Option<ContentIndex>,
    cache: BlockCache,
    owner: Owner,
    /// Lengths of the bodies of the metadata sections, in file order.
    body_lens: [u64; 5],
    /// The longest block but for those of one giant record: with memory for this much, every block fits into the memory
    /// of another.
    usual_block_len: usize,
}

impl Segment {
    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Length of the file in bytes.
    pub fn file_len(&self) -> u64 {
        self.source.len()
    }

    /// Number of records.
    pub fn record_count(&self) -> usize {
        self.offsets.len()
    }

    /// The compression blocks, in file order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Where the parts lie, in file order, and how long they are before compression.
    pub fn sections(&self) -> Vec<SectionPlace> {
        let [header_range, records, metadata @ ..] = self.header.sections(self.file_len());
        let place = |(section, range): (Section, Range<u64>), body_len: Option<u64>| {
            let stored_len = range.end.saturating_sub(range.start);
            SectionPlace {
                section,
                offset: range.start,
                stored_len,
                body_len: body_len.unwrap_or(stored_len),
            }
        };
        let metadata = metadata.into_iter().zip(self.body_lens);
        [
            place(header_range, None),
            place(records, Some(self.header.logical_len)),
        ]
        .into_iter()
        .chain(metadata.map(|(at, body_len)| place(at, Some(body_len))))
        .collect()
    }

    /// Number of traces.
    pub fn trace_count(&self) -> usize {
        self.traces.len()
    }

    /// Number of distinct attribute pairs.
    pub fn pair_count(&self) -> usize {
        self.attributes.len()
    }

    /// The sizes of the content index; `None` when the segment has none and word searches read every record.
    pub fn content_geometry(&self) -> Option<ContentGeometry> {
        self.content.as_ref().map(ContentIndex::geometry)
    }

    /// Bytes of decoded records that the block cache holds of this segment: none after opening, and never more than
    /// the cache may hold, which is [`BLOCK_CACHE_LEN`] unless the segment was opened with another one.
    pub fn resident_payload_len(&self) -> usize {
        self.cache.resident_len_of(self.owner)
    }

    /// Bytes that the indexes take in memory.
    pub fn resident_index_len(&self) -> usize {
        self.offsets.resident_len()
            + self.traces.resident_len()
            + self.attributes.resident_len()
            + size_of_val(self.blocks.as_ref())
            + self.content.as_ref().map_or(0, ContentIndex::resident_len)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.cache.forget(self.owner);
    }
}
