//! Questions to an open segment. An index only proposes records; what is returned was compared with the
//! record itself.

use std::ops::Range;

use durable::checksum::crc32;

use super::Segment;
use super::codec::{Postings, len_u64};
use super::error::{Fault, Result, Section, SegmentError};
use super::index::content::{ContentIndex, bit};
use super::layout::{CONTENT_PAGE_LEN, wrapper};
use super::read::{Reader, Scan};
use super::records::{RecordView, StoredRecord};
use crate::content::{Query, bit_positions_of, filter_key};
use crate::digest::{Digest, hash128, pair_digest};

impl Segment {
    /// The records of a trace, in the order of their timestamps. The trace index does not know tenants.
    ///
    /// # Errors
    /// [`SegmentError::Corrupt`] when a block that holds one of them is damaged, or the index points to
    /// where no record begins.
    pub fn trace(&self, trace_id: &str) -> Result<Vec<StoredRecord>> {
        let mut records = Vec::new();
        self.each_of_trace(trace_id, |ordinal, logical, view| {
            records.push(StoredRecord::new(ordinal, logical, &view));
            Ok(())
        })?;
        Ok(records)
    }

    /// Hands the records of a trace to `visit`, with ordinal and logical offset, as they are in their blocks: for one who
    /// parses them and needs no copies. In the order of their timestamps.
    ///
    /// # Errors
    /// As [`Segment::trace`]; those of `visit`.
    pub fn each_of_trace<E: From<SegmentError>>(
        &self,
        trace_id: &str,
        mut visit: impl FnMut(usize, u64, RecordView<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let postings = self.traces.postings(trace_id);
        self.each_confirmed(postings, |ordinal, logical, view| {
            if view.trace_id() == trace_id {
                return visit(ordinal, logical, view);
            }
            Ok(())
        })
    }

    /// Logical offsets of the records that may belong to the trace: those of the trace index.
    pub fn trace_candidate_offsets(&self, trace_id: &str) -> Postings<'_> {
        self.traces.postings(trace_id)
    }

    /// Logical offsets of the records that may carry the attribute: **candidates**, since the index holds
    /// digests. `text` is an index text, see [`crate::record::attribute_texts`].
    pub fn attribute_candidate_offsets(&self, key: &str, text: &str) -> Postings<'_> {
        self.attributes
            .key_id(key)
            .map_or_else(Postings::none, |key_id| {
                self.attributes.postings(key_id, pair_digest(key, text))
            })
    }

    /// The records that carry the pair of `key` and the index text `text`, in the order of their
    /// timestamps. Confirmed by the pairs in the records, so by digest: two values with one digest are not
    /// told apart, which only the payload can.
    ///
    /// # Errors
    /// As [`Segment::trace`].
    pub fn query_attribute(&self, key: &str, text: &str) -> Result<Vec<StoredRecord>> {
        let digest = pair_digest(key, text);
        let Some(key_id) = self.attributes.key_id(key) else {
            return Ok(Vec::new());
        };
        let postings = self.attributes.postings(key_id, digest);
        let mut records = Vec::new();
        self.each_confirmed(postings, |ordinal, logical, view| {
            if view.carries(key_id, digest) {
                records.push(StoredRecord::new(ordinal, logical, &view));
            }
            Ok::<_, SegmentError>(())
        })?;
        Ok(records)
    }

    /// The records of a posting list, ascending. Every block is decoded once, as far as it is needed.
    fn each_confirmed<E: From<SegmentError>>(
        &self,
        postings: Postings<'_>,
        mut visit: impl FnMut(usize, u64, RecordView<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if postings.len() == 0 {
            return Ok(());
        }
        let mut places = Vec::with_capacity(postings.len());
        for logical in postings {
            let ordinal = self.offsets.ordinal_of(logical);
            places.push((ordinal.ok_or_else(|| self.no_record(logical))?, logical));
        }
        let mut reader = Reader::cached(self);
        let mut places = places.as_slice();
        while let Some((first, _)) = places.first() {
            let block_end = self.block_end_of(*first);
            let in_block = places.partition_point(|(ordinal, _)| *ordinal < block_end);
            let (of_block, rest) = places.split_at(in_block.max(1));
            if let Some((last, _)) = of_block.last() {
                reader.reach(*last)?;
            }
            for &(ordinal, logical) in of_block {
                visit(ordinal, logical, reader.record(ordinal)?)?;
            }
            places = rest;
        }
        Ok(())
    }

    /// The id that the segment's dictionary gives `key`; `None` when no record carries it.
    pub fn key_id(&self, key: &str) -> Option<u32> {
        self.attributes.key_id(key)
    }

    /// The keys of all records, by id.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.attributes.keys()
    }

    /// The distinct values of a key: their digests and the records that carry them.
    pub fn values(&self, key_id: u32) -> impl ExactSizeIterator<Item = (Digest, Postings<'_>)> {
        self.attributes.values(key_id)
    }

    /// The traces of the segment, in the byte order of their ids.
    pub fn traces(&self) -> impl Iterator<Item = (&str, Postings<'_>)> {
        self.traces.iter()
    }

    /// False when no record can hold all words of the query. Reads nothing.
    pub fn may_contain_words(&self, query: &Query) -> bool {
        !query.words().is_empty()
            && self
                .content
                .as_ref()
                .is_none_or(|content| digests(query).all(|word| content.summary_admits(word)))
    }

    /// Ordinals of the records that may hold all words of the query, as ranges in ascending order.
    /// Without a content index that is every record; for a query without words it is none.
    ///
    /// # Errors
    /// [`SegmentError::Corrupt`] naming the content rows when a page that is read is not the one written.
    pub fn content_candidates(&self, query: &Query) -> Result<Vec<Range<usize>>> {
        let all = 0..self.record_count();
        if query.words().is_empty() || all.is_empty() {
            return Ok(Vec::new());
        }
        let Some(content) = &self.content else {
            return Ok(vec![all]);
        };
        if !self.may_contain_words(query) {
            return Ok(Vec::new());
        }
        let blocks = self.admitted_blocks(content, query)?;
        let per_block = usize::try_from(content.geometry().records_per_block).unwrap_or(usize::MAX);
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for block in blocks {
            let start = block.saturating_mul(per_block);
            let end = start.saturating_add(per_block).min(all.end);
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        Ok(ranges)
    }

    /// The content blocks whose filters admit every word.
    fn admitted_blocks(&self, content: &ContentIndex, query: &Query) -> Result<Vec<usize>> {
        let geometry = content.geometry();
        let block_count = usize::try_from(geometry.block_count).unwrap_or(usize::MAX);
        let mut positions: Vec<u64> = digests(query)
            .flat_map(|word| bit_positions_of(word, geometry.block_bits))
            .collect();
        positions.sort_unstable();
        positions.dedup();
        let mut rows = Rows::new(self, content);
        let mut admitted: Vec<u8> = Vec::new();
        for position in positions {
            let row = rows.row(position)?;
            if admitted.is_empty() {
                admitted.extend_from_slice(row);
            } else {
                for (all, one) in admitted.iter_mut().zip(row) {
                    *all &= one;
                }
            }
            if admitted.iter().all(|byte| *byte == 0) {
                return Ok(Vec::new());
            }
        }
        let is_admitted = |block: &usize| {
            let byte = admitted.get(block / 8).copied().unwrap_or(0);
            byte & bit(len_u64(*block)) != 0
        };
        Ok((0..block_count).filter(is_admitted).collect())
    }

    /// False when no record's timestamp is in the window; both ends belong to it. Reads nothing.
    pub fn may_contain_timestamps(&self, since: Option<u64>, until: Option<u64>) -> bool {
        since.is_none_or(|since| self.header.max_timestamp >= since)
            && until.is_none_or(|until| self.header.min_timestamp <= until)
    }

    /// Ordinals of the records whose timestamp is in the window; both ends belong to it, and a missing one
    /// is open. Decodes the blocks at the ends of the window at most.
    ///
    /// # Errors
    /// [`SegmentError::Corrupt`] when such a block is damaged, or when the directory's timestamps led to a
    /// place that the records there contradict.
    pub fn ordinal_range_for_window(
        &self,
        since: Option<u64>,
        until: Option<u64>,
    ) -> Result<Range<usize>> {
        if !self.may_contain_timestamps(since, until) || self.record_count() == 0 {
            return Ok(0..0);
        }
        let mut reader = Reader::cached(self);
        let start = match since {
            Some(since) => self.first_at_or_after(since, &mut reader)?,
            None => 0,
        };
        let end = match until.and_then(|until| until.checked_add(1)) {
            Some(behind) => self.first_at_or_after(behind, &mut reader)?,
            None => self.record_count(),
        };
        Ok(start..end.max(start))
    }

    /// The first record at `timestamp` or later; the number of records when there is none.
    fn first_at_or_after(&self, timestamp: u64, reader: &mut Reader<'_>) -> Result<usize> {
        // The ends of the declared range are those of the records: opening proved it.
        if timestamp <= self.header.min_timestamp {
            return Ok(0);
        }
        if timestamp > self.header.max_timestamp {
            return Ok(self.record_count());
        }
        let behind = self
            .blocks
            .partition_point(|block| block.min_timestamp < timestamp);
        let first_of = |index: usize| self.blocks.get(index).map(|block| block.first_ordinal);
        let mut low = first_of(behind.saturating_sub(1)).unwrap_or(0);
        let mut high = first_of(behind).unwrap_or(self.record_count());
        while low < high {
            let middle = low.midpoint(high);
            if reader.timestamp(middle)? < timestamp {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.check_landing(low, timestamp, reader)?;
        Ok(low)
    }

    /// The records on both sides of where the search ended say the same as the search.
    fn check_landing(&self, ordinal: usize, timestamp: u64, reader: &mut Reader<'_>) -> Result<()> {
        let is_before = match ordinal.checked_sub(1) {
            Some(before) => reader.timestamp(before)? < timestamp,
            None => true,
        };
        let is_behind = ordinal >= self.record_count() || reader.timestamp(ordinal)? >= timestamp;
        if is_before && is_behind {
            return Ok(());
        }
        Err(SegmentError::corrupt(
            Section::Records,
            self.header.records_offset,
            Fault::Order {
                field: "timestamps of the records",
                entry: len_u64(ordinal),
            },
        ))
    }

    /// All records in the order of their timestamps. Does not use the block cache.
    pub fn scan(&self) -> Scan<'_> {
        Scan::new(self, 0..self.record_count())
    }

    /// The records with these ordinals. Does not use the block cache.
    pub fn scan_range(&self, ordinals: Range<usize>) -> Scan<'_> {
        Scan::new(self, ordinals)
    }

    /// The record that begins at logical offset `logical`.
    ///
    /// # Errors
    /// [`SegmentError::Corrupt`] when none begins there, or its block is damaged.
    pub fn record_at(&self, logical: u64) -> Result<StoredRecord> {
        let mut reader = Reader::cached(self);
        let view = reader.record_at(logical)?;
        let ordinal = self.offsets.ordinal_of(logical).unwrap_or(0);
        Ok(StoredRecord::new(ordinal, logical, &view))
    }

    /// The ordinals of the records that begin at these logical offsets, ascending, each once.
    ///
    /// # Errors
    /// [`SegmentError::Corrupt`] when no record begins at one of them.
    pub fn ordinals(&self, offsets: impl Iterator<Item = u64>) -> Result<Vec<usize>> {
        let mut ordinals = Vec::with_capacity(offsets.size_hint().0);
        for logical in offsets {
            match self.offsets.ordinal_of(logical) {
                Some(ordinal) => ordinals.push(ordinal),
                None => return Err(self.no_record(logical)),
            }
        }
        if !ordinals.is_sorted_by(|a, b| a < b) {
            ordinals.sort_unstable();
            ordinals.dedup();
        }
        Ok(ordinals)
    }

    /// A reader of single records, which holds the block of the last one.
    pub fn reader(&self) -> Reader<'_> {
        Reader::cached(self)
    }
}

fn digests(query: &Query) -> impl Iterator<Item = Digest> + '_ {
    query.words().iter().map(|word| hash128(filter_key(word)))
}

/// Reads rows of the content index; the page read last is kept, since rows are often neighbours.
struct Rows<'s> {
    segment: &'s Segment,
    content: &'s ContentIndex,
    /// Where the rows begin in the file.
    start: u64,
    page: Option<u64>,
    page_bytes: Vec<u8>,
    row: Vec<u8>,
}

impl<'s> Rows<'s> {
    fn new(segment: &'s Segment, content: &'s ContentIndex) -> Self {
        let start = segment
            .header
            .content_offset
            .saturating_add(len_u64(wrapper::LEN))
            .saturating_add(content.geometry().rows_at());
        Self {
            segment,
            content,
            start,
            page: None,
            page_bytes: Vec::new(),
            row: Vec::new(),
        }
    }

    /// The row of a bit position: a bit for each block. Every page that it touches is checked whole.
    fn row(&mut self, position: u64) -> Result<&[u8]> {
        let len = self.content.geometry().row_len();
        let start = position.saturating_mul(len);
        let end = start.saturating_add(len);
        self.row.clear();
        let mut page = start / CONTENT_PAGE_LEN;
        while page.saturating_mul(CONTENT_PAGE_LEN) < end {
            let page_start = page.saturating_mul(CONTENT_PAGE_LEN);
            self.load(page)?;
            let place =
                |at: u64| usize::try_from(at.saturating_sub(page_start)).unwrap_or(usize::MAX);
            let part = place(start)..place(end).min(self.page_bytes.len());
            self.row
                .extend_from_slice(self.page_bytes.get(part).unwrap_or_default());
            page += 1;
        }
        Ok(&self.row)
    }

    fn load(&mut self, page: u64) -> Result<()> {
        if self.page == Some(page) {
            return Ok(());
        }
        self.page = None;
        let at = page.saturating_mul(CONTENT_PAGE_LEN);
        let end = at
            .saturating_add(CONTENT_PAGE_LEN)
            .min(self.content.geometry().rows_len());
        let range = self.start.saturating_add(at)..self.start.saturating_add(end);
        let offset = range.start;
        let source = &self.segment.source;
        source.read_into(Section::ContentRows, range, &mut self.page_bytes)?;
        let computed = crc32(&self.page_bytes);
        let stored = self.content.page_crc(page);
        if stored != Some(computed) {
            return Err(SegmentError::corrupt(
                Section::ContentRows,
                offset,
                Fault::Page {
                    page,
                    stored: stored.unwrap_or(0),
                    computed,
                },
            ));
        }
        self.page = Some(page);
        Ok(())
    }
}
