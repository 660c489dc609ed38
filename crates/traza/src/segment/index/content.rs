//! The content index: which blocks of records may hold a word.
//!
//! A summary filter over all words of the segment stays in memory. The filters of the blocks are stored
//! transposed, a row for each bit position, and a query reads only the rows of its words' positions.
#![warn(clippy::arithmetic_side_effects, clippy::as_conversions)]

use std::ops::Range;

use durable::checksum::crc32;

use crate::content::{
    BLOCK_FILTER_LEN_MAX, HASHES_PER_TOKEN, SUMMARY_FILTER_LEN_MAX, bit_positions_of,
};
use crate::digest::Digest;
use crate::segment::codec::len_u64;
use crate::segment::error::{Fault, Section, SegmentError};
use crate::segment::layout::{CONTENT_BLOCK_RECORDS, CONTENT_PAGE_LEN, content_prologue};

/// The sizes in the front of the content index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentGeometry {
    /// Records that share a filter.
    pub records_per_block: u32,
    /// Number of filters; 0 when there is no content index.
    pub block_count: u32,
    /// Bits of the summary filter.
    pub summary_bits: u64,
    /// Bits of each block filter.
    pub block_bits: u64,
}

impl ContentGeometry {
    /// Of a segment without a content index.
    pub(crate) const ABSENT: Self = Self {
        records_per_block: CONTENT_BLOCK_RECORDS,
        block_count: 0,
        summary_bits: 0,
        block_bits: 0,
    };

    /// Bytes of a row: a bit for each block.
    pub fn row_len(&self) -> u64 {
        u64::from(self.block_count.div_ceil(8))
    }

    /// Bytes of the summary filter.
    pub fn summary_len(&self) -> u64 {
        self.summary_bits / 8
    }

    /// Bytes of all rows. A block filter has 65536 bits at most, so this fits.
    pub fn rows_len(&self) -> u64 {
        self.block_bits.saturating_mul(self.row_len())
    }

    /// Pages of the rows, the last one short.
    pub fn page_count(&self) -> u64 {
        self.rows_len().div_ceil(CONTENT_PAGE_LEN)
    }

    /// Where the page table begins in the body.
    fn pages_at(&self) -> u64 {
        len_u64(content_prologue::LEN).saturating_add(self.summary_len())
    }

    /// Where the rows begin in the body.
    pub(crate) fn rows_at(&self) -> u64 {
        self.pages_at()
            .saturating_add(self.page_count().saturating_mul(4))
    }

    fn body_len(&self) -> u64 {
        self.rows_at().saturating_add(self.rows_len())
    }

    fn encode(&self) -> Vec<u8> {
        let hashes = u32::try_from(HASHES_PER_TOKEN).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(content_prologue::LEN);
        bytes.extend_from_slice(&0u32.to_le_bytes());
        bytes.extend_from_slice(&self.records_per_block.to_le_bytes());
        bytes.extend_from_slice(&self.block_count.to_le_bytes());
        bytes.extend_from_slice(&hashes.to_le_bytes());
        bytes.extend_from_slice(&self.summary_bits.to_le_bytes());
        bytes.extend_from_slice(&self.block_bits.to_le_bytes());
        bytes
    }
}

/// The body of a segment without a content index.
pub(crate) fn encode_absent() -> Vec<u8> {
    ContentGeometry::ABSENT.encode()
}

/// The body: prologue, summary, page table, rows. The lengths are those of `geometry`.
pub(crate) fn encode(geometry: ContentGeometry, summary: &[u8], rows: &[u8]) -> Vec<u8> {
    debug_assert_eq!(len_u64(summary.len()), geometry.summary_len());
    debug_assert_eq!(len_u64(rows.len()), geometry.rows_len());
    let mut body = geometry.encode();
    body.reserve(usize::try_from(geometry.body_len()).unwrap_or(0));
    body.extend_from_slice(summary);
    for page in rows.chunks(usize::try_from(CONTENT_PAGE_LEN).unwrap_or(usize::MAX)) {
        body.extend_from_slice(&crc32(page).to_le_bytes());
    }
    body.extend_from_slice(rows);
    body
}

/// The parts of the content index that stay in memory.
#[derive(Clone, Debug)]
pub(crate) struct ContentIndex {
    geometry: ContentGeometry,
    summary: Box<[u8]>,
    pages: Box<[u32]>,
}

impl ContentIndex {
    /// Checks the geometry of a body and takes out what stays in memory; `None` when the segment has
    /// no content index. `offset` is where the section begins in the file.
    pub(crate) fn decode(
        body: &[u8],
        record_count: u64,
        offset: u64,
    ) -> Result<Option<Self>, SegmentError> {
        let corrupt = |fault| SegmentError::corrupt(Section::ContentIndex, offset, fault);
        let Some((geometry, hashes)) = decode_prologue(body) else {
            return Err(corrupt(Fault::CutOff {
                wanted: len_u64(content_prologue::LEN),
                left: len_u64(body.len()),
            }));
        };
        if geometry.block_count == 0 {
            return Ok(None);
        }
        if usize::try_from(hashes) != Ok(HASHES_PER_TOKEN) {
            return Err(SegmentError::Unsupported {
                section: Section::ContentIndex,
                what: "hashes per token",
                found: u64::from(hashes),
            });
        }
        check_geometry(&geometry, record_count, len_u64(body.len())).map_err(corrupt)?;
        let part = |range: Range<u64>| {
            let start = usize::try_from(range.start).unwrap_or(usize::MAX);
            let end = usize::try_from(range.end).unwrap_or(usize::MAX);
            body.get(start..end).unwrap_or_default()
        };
        let summary = part(len_u64(content_prologue::LEN)..geometry.pages_at());
        let (pages, _) = part(geometry.pages_at()..geometry.rows_at()).as_chunks::<4>();
        Ok(Some(Self {
            geometry,
            summary: summary.into(),
            pages: pages.iter().map(|page| u32::from_le_bytes(*page)).collect(),
        }))
    }

    /// The sizes.
    pub(crate) fn geometry(&self) -> ContentGeometry {
        self.geometry
    }

    /// False when no record of the segment holds the word.
    pub(crate) fn summary_admits(&self, word: Digest) -> bool {
        bit_positions_of(word, self.geometry.summary_bits)
            .iter()
            .all(|&position| {
                let byte = usize::try_from(position / 8)
                    .ok()
                    .and_then(|at| self.summary.get(at));
                byte.is_some_and(|byte| byte & bit(position) != 0)
            })
    }

    /// The checksum of a page of the rows.
    pub(crate) fn page_crc(&self, page: u64) -> Option<u32> {
        self.pages.get(usize::try_from(page).ok()?).copied()
    }

    /// Bytes of memory that the index takes.
    pub(crate) fn resident_len(&self) -> usize {
        self.summary
            .len()
            .saturating_add(size_of_val(self.pages.as_ref()))
    }
}

/// The bit of a byte that stands for `position`.
#[inline]
pub(crate) fn bit(position: u64) -> u8 {
    1u8.wrapping_shl(u32::try_from(position % 8).unwrap_or(0))
}

fn decode_prologue(body: &[u8]) -> Option<(ContentGeometry, u32)> {
    let geometry = ContentGeometry {
        records_per_block: content_prologue::RECORDS_PER_BLOCK.u32(body).ok()?,
        block_count: content_prologue::BLOCK_COUNT.u32(body).ok()?,
        summary_bits: content_prologue::SUMMARY_BITS.u64(body).ok()?,
        block_bits: content_prologue::BLOCK_BITS.u64(body).ok()?,
    };
    Some((geometry, content_prologue::HASHES.u32(body).ok()?))
}

/// Nothing is sized by the geometry before it was found possible.
fn check_geometry(
    geometry: &ContentGeometry,
    record_count: u64,
    body_len: u64,
) -> Result<(), Fault> {
    let per_block = u64::from(geometry.records_per_block);
    let found = u64::from(geometry.block_count);
    if per_block == 0 || record_count.div_ceil(per_block) != found {
        return Err(Fault::Word {
            field: content_prologue::BLOCK_COUNT.name,
            found,
            expected: record_count.checked_div(per_block).unwrap_or(0),
        });
    }
    let power = |field: durable::Field, bits: u64, len_max: u64, least: u64| {
        let max = len_max.saturating_mul(8);
        if bits.is_power_of_two() && (least..=max).contains(&bits) {
            return Ok(());
        }
        Err(Fault::Geometry {
            field: field.name,
            found: bits,
            max,
        })
    };
    let (summary, block) = (geometry.summary_bits, geometry.block_bits);
    // The summary is stored in whole bytes.
    power(
        content_prologue::SUMMARY_BITS,
        summary,
        SUMMARY_FILTER_LEN_MAX,
        8,
    )?;
    power(content_prologue::BLOCK_BITS, block, BLOCK_FILTER_LEN_MAX, 1)?;
    let expected = geometry.body_len();
    if body_len != expected {
        return Err(Fault::Word {
            field: "length of the content index",
            found: body_len,
            expected,
        });
    }
    Ok(())
}
