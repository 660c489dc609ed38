//! The content index against the words of the records.

use std::borrow::Cow;
use std::collections::HashSet;

use durable::Severity;
use durable::checksum::crc32;

use super::findings::Findings;
use crate::content::{bit_positions_of, filter_key, tokens};
use crate::digest::{Digest, hash128};
use crate::record::Record;
use crate::segment::codec::len_u64;
use crate::segment::error::{Fault, Result, Section, SegmentError};
use crate::segment::header::Header;
use crate::segment::index::content::{ContentIndex, bit};
use crate::segment::layout::CONTENT_PAGE_LEN;

/// What the content index is.
pub(super) enum Content<'a> {
    /// The segment has none: word searches read every record.
    Absent,
    /// It is damaged, which was told.
    Unknown,
    /// The filters, and the words of the block of records that is being walked.
    Present(Filters<'a>),
}

/// The filters of a segment.
pub(super) struct Filters<'a> {
    index: ContentIndex,
    rows: Cow<'a, [u8]>,
    offset: u64,
    records_per_block: u64,
    block: u64,
    words: HashSet<Digest>,
}

impl<'a> Content<'a> {
    /// Checks the geometry and every page of the rows of a body whose wrapper was sound.
    pub(super) fn decode(
        body: Cow<'a, [u8]>,
        header: &Header,
        offset: u64,
        findings: &mut Findings<'_>,
    ) -> Result<Self> {
        let index = match ContentIndex::decode(&body, header.record_count, offset) {
            Ok(Some(index)) => index,
            Ok(None) => return Ok(Self::Absent),
            Err(error) => return findings.take(error).map(|()| Self::Unknown),
        };
        let geometry = index.geometry();
        let rows_at = usize::try_from(geometry.rows_at()).unwrap_or(usize::MAX);
        let rows: Cow<'a, [u8]> = match body {
            Cow::Borrowed(body) => Cow::Borrowed(body.get(rows_at..).unwrap_or_default()),
            Cow::Owned(body) => Cow::Owned(body.get(rows_at..).unwrap_or_default().to_vec()),
        };
        let page_len = usize::try_from(CONTENT_PAGE_LEN).unwrap_or(usize::MAX);
        for (page, bytes) in (0u64..).zip(rows.chunks(page_len)) {
            let computed = crc32(bytes);
            let stored = index.page_crc(page).unwrap_or(0);
            if stored != computed {
                findings.take(SegmentError::corrupt(
                    Section::ContentRows,
                    offset,
                    Fault::Page {
                        page,
                        stored,
                        computed,
                    },
                ))?;
            }
        }
        Ok(Self::Present(Filters {
            records_per_block: u64::from(geometry.records_per_block).max(1),
            index,
            rows,
            offset,
            block: 0,
            words: HashSet::new(),
        }))
    }

    /// Takes in the words of record `ordinal`; records come in order, and some may be missing.
    pub(super) fn see(&mut self, ordinal: u64, record: &Record, findings: &mut Findings<'_>) {
        let Self::Present(filters) = self else {
            return;
        };
        let block = ordinal / filters.records_per_block;
        if block != filters.block {
            filters.check_block(findings);
            filters.block = block;
        }
        if let Some(text) = record.content.text() {
            let words = tokens(text).map(|token| hash128(filter_key(&token)));
            filters.words.extend(words);
        }
    }

    /// Checks the last block.
    pub(super) fn finish(mut self, findings: &mut Findings<'_>) {
        if let Self::Present(filters) = &mut self {
            filters.check_block(findings);
        }
    }
}

impl Filters<'_> {
    /// Every word of the block must pass the summary and the filter of the block.
    fn check_block(&mut self, findings: &mut Findings<'_>) {
        let words = std::mem::take(&mut self.words);
        let by_summary = words
            .iter()
            .filter(|word| !self.index.summary_admits(**word))
            .count();
        let by_block = words.iter().filter(|word| !self.admits(**word)).count();
        for (missed, filter) in [(by_summary, "summary filter"), (by_block, "block filter")] {
            if missed > 0 {
                let what = format!(
                    "the {filter} does not admit {missed} words of the records of content block {}, so \
                     that a search would miss them",
                    self.block
                );
                findings.add(Severity::Damage, "word_not_admitted", self.offset, what);
            }
        }
    }

    fn admits(&self, word: Digest) -> bool {
        let geometry = self.index.geometry();
        bit_positions_of(word, geometry.block_bits)
            .iter()
            .all(|&position| {
                let at = position
                    .saturating_mul(geometry.row_len())
                    .saturating_add(self.block / 8);
                let byte = usize::try_from(at).ok().and_then(|at| self.rows.get(at));
                debug_assert!(at < len_u64(self.rows.len()), "the geometry was checked");
                byte.is_some_and(|byte| byte & bit(self.block) != 0)
            })
    }
}
