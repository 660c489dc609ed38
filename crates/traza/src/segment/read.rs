//! Reading blocks and records of an open segment, with the checks that every read runs.

use std::ops::Range;
use std::sync::Arc;

use durable::checksum::crc32;

use super::Segment;
use super::cache::{Decoded, Known};
use super::codec::{Codec, len_u64};
use super::directory::Block;
use super::error::{Fault, Result, Section, SegmentError};
use super::records::{RecordView, StoredRecord};
use super::scratch;

impl Segment {
    /// The block's position and entry in the directory.
    fn block(&self, index: usize) -> Result<&Block> {
        // Positions come from the directory itself.
        self.blocks.get(index).ok_or_else(|| {
            SegmentError::corrupt(
                Section::BlockDirectory,
                self.header.directory_offset,
                Fault::CutOff {
                    wanted: len_u64(index).saturating_add(1),
                    left: len_u64(self.blocks.len()),
                },
            )
        })
    }

    /// Length of a decoded block.
    fn logical_len_of(&self, index: usize) -> Result<usize> {
        // It was bounded when the segment was opened.
        Ok(usize::try_from(self.block(index)?.logical_len).unwrap_or(usize::MAX))
    }

    /// The first record behind the block that holds record `ordinal`.
    pub(crate) fn block_end_of(&self, ordinal: usize) -> usize {
        let behind = self.blocks.get(self.block_of(ordinal).saturating_add(1));
        behind.map_or(self.record_count(), |block| block.first_ordinal)
    }

    /// The block that holds record `ordinal`.
    pub(super) fn block_of(&self, ordinal: usize) -> usize {
        let behind = self
            .blocks
            .partition_point(|block| block.first_ordinal <= ordinal);
        behind.saturating_sub(1)
    }

    /// Damage of a block.
    fn block_fault(&self, block: &Block, fault: Fault) -> SegmentError {
        let offset = self
            .header
            .records_offset
            .saturating_add(block.stored_offset);
        SegmentError::corrupt(Section::Records, offset, fault)
    }

    /// Reads and decodes a block: checksum, codec, length, then the timestamp of its first record, which must be that of
    /// the directory.
    ///
    /// A codec that can stop early decodes no more than `len` bytes. What it leaves out has no part in the answer, and
    /// whoever needs it finds what is wrong with it.
    fn decode_block(&self, index: usize, len: usize, decoded: &mut Decoded) -> Result<()> {
        scratch::with_stored(|stored| self.decode_block_from(index, len, stored, decoded))
    }

    fn decode_block_from(
        &self,
        index: usize,
        len: usize,
        stored: &mut Vec<u8>,
        decoded: &mut Decoded,
    ) -> Result<()> {
        let block = self.block(index)?;
        let start = self
            .header
            .records_offset
            .saturating_add(block.stored_offset);
        let end = start.saturating_add(u64::from(block.stored_len));
        let stored = self.source.read(Section::Records, start..end, stored)?;
        let computed = crc32(stored);
        if computed != block.crc {
            let stored = block.crc;
            return Err(self.block_fault(block, Fault::Checksum { stored, computed }));
        }
        let codec = if block.is_raw {
            Codec::Raw
        } else {
            self.header.codec
        };
        codec
            .check_declared(stored, block.logical_len)
            .map_err(|fault| self.block_fault(block, fault))?;
        // The length was bounded when the segment was opened.
        let whole = usize::try_from(block.logical_len).unwrap_or(usize::MAX);
        let out = decoded.room_for(whole, self.usual_block_len);
        let front = out.get_mut(..len).filter(|_| len < whole);
        decoded.len = if front.is_some_and(|front| codec.decompress_front(stored, front).is_some())
        {
            len
        } else {
            codec
                .decompress_block(stored, out)
                .map_err(|fault| self.block_fault(block, fault))?;
            whole
        };
        let found = RecordView::timestamp_of(decoded.as_slice())
            .map_err(|fault| self.block_fault(block, fault))?;
        if found != block.min_timestamp {
            let fault = Fault::Fence {
                block: len_u64(index),
                declared: block.min_timestamp,
                found,
            };
            return Err(self.block_fault(block, fault));
        }
        self.check_range(block, found)
    }

    fn check_range(&self, block: &Block, timestamp: u64) -> Result<()> {
        if self.header.contains_timestamp(timestamp) {
            return Ok(());
        }
        let fault = Fault::OutsideRange {
            timestamp,
            min: self.header.min_timestamp,
            max: self.header.max_timestamp,
        };
        Err(self.block_fault(block, fault))
    }

    /// Where record `ordinal` is in its decoded block.
    fn place_in(&self, block: &Block, ordinal: usize) -> Result<Range<usize>> {
        let place = self.offsets.range(ordinal).and_then(|range| {
            let start = range.start.checked_sub(block.logical_start)?;
            let end = range.end.checked_sub(block.logical_start)?;
            let is_inside = start < end && end <= block.logical_len;
            is_inside.then_some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
        });
        place.ok_or_else(|| {
            let logical = self.offsets.range(ordinal).map_or(u64::MAX, |r| r.start);
            self.block_fault(block, Fault::NoRecord { logical })
        })
    }

    pub(super) fn no_record(&self, logical: u64) -> SegmentError {
        let offset = self.header.records_offset;
        SegmentError::corrupt(Section::Records, offset, Fault::NoRecord { logical })
    }
}

/// Reads records of a segment, and holds the block of the last one: for records in order, ascending or
/// descending, every block is decoded once. Of a block that is read for few records only the front is
/// decoded, so descending order is the cheaper one.
#[derive(Debug)]
pub struct Reader<'s> {
    segment: &'s Segment,
    keeps: bool,
    held: Option<(usize, Held)>,
}

impl<'s> Reader<'s> {
    /// Reads through the segment's block cache.
    pub(super) fn cached(segment: &'s Segment) -> Self {
        Self {
            segment,
            keeps: true,
            held: None,
        }
    }

    /// Leaves the block cache alone: for passes over the whole segment.
    pub(super) fn passing(segment: &'s Segment) -> Self {
        Self {
            segment,
            keeps: false,
            held: None,
        }
    }

    /// The record that begins at `logical`: what posting lists hold.
    ///
    /// # Errors
    /// [`SegmentError::Corrupt`] when no record begins there or its block is damaged.
    pub fn record_at(&mut self, logical: u64) -> Result<RecordView<'_>> {
        match self.segment.offsets.ordinal_of(logical) {
            Some(ordinal) => self.record(ordinal),
            None => Err(self.segment.no_record(logical)),
        }
    }

    /// Record `ordinal`, counted from 0 in the order of timestamps.
    ///
    /// # Errors
    /// [`SegmentError::Corrupt`] when there is no such record or its block is damaged.
    pub fn record(&mut self, ordinal: usize) -> Result<RecordView<'_>> {
        let segment = self.segment;
        let (block, bytes) = self.bytes_of(ordinal)?;
        let view = RecordView::decode(bytes).map_err(|fault| segment.block_fault(block, fault))?;
        segment.check_range(block, view.timestamp())?;
        Ok(view)
    }

    /// The timestamp of record `ordinal`.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn timestamp(&mut self, ordinal: usize) -> Result<u64> {
        let segment = self.segment;
        let (block, bytes) = self.bytes_of(ordinal)?;
        let timestamp =
            RecordView::timestamp_of(bytes).map_err(|fault| segment.block_fault(block, fault))?;
        segment.check_range(block, timestamp)?;
        Ok(timestamp)
    }

    /// Decodes enough of a block to read record `ordinal` and those before it.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub(crate) fn reach(&mut self, ordinal: usize) -> Result<()> {
        self.bytes_of(ordinal).map(drop)
    }

    fn bytes_of(&mut self, ordinal: usize) -> Result<(&'s Block, &[u8])> {
        let segment = self.segment;
        let index = segment.block_of(ordinal);
        let block = segment.block(index)?;
        let place = segment.place_in(block, ordinal)?;
        let decoded = self.hold(index, place.end)?;
        // At least as much as was asked for.
        Ok((block, decoded.get(place).unwrap_or_default()))
    }

    /// Record `ordinal`, copied out of its block.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn stored(&mut self, ordinal: usize) -> Result<StoredRecord> {
        let logical = self.segment.offsets.range(ordinal).map_or(0, |r| r.start);
        let view = self.record(ordinal)?;
        Ok(StoredRecord::new(ordinal, logical, &view))
    }

    /// The first `len` bytes of block `index` at least.
    fn hold(&mut self, index: usize, len: usize) -> Result<&[u8]> {
        let at_hand = self.held.as_ref().filter(|(held, _)| *held == index);
        match at_hand.map(|(_, held)| held.as_slice().len()) {
            Some(held) if held >= len => {}
            // A second visit to the block: there may be a third. It was asked for once already.
            Some(_) => self.decode_own(index, usize::MAX)?,
            None => self.load(index, len)?,
        }
        Ok(self
            .held
            .as_ref()
            .map(|(_, held)| held.as_slice())
            .unwrap_or_default())
    }

    fn load(&mut self, index: usize, len: usize) -> Result<()> {
        let segment = self.segment;
        if !self.keeps {
            return self.decode_own(index, usize::MAX);
        }
        let (cache, owner) = (&segment.cache, segment.owner);
        let block = match cache.ask(owner, index) {
            Known::Kept(block) => block,
            Known::Wanted => {
                let whole = segment.logical_len_of(index)?;
                let mut decoded = cache.spare(whole.max(segment.usual_block_len));
                segment.decode_block(index, whole, &mut decoded)?;
                let block = Arc::new(decoded);
                cache.put(owner, index, &block);
                block
            }
            Known::Unknown => return self.decode_own(index, len),
        };
        self.held = Some((index, Held::Kept(block)));
        Ok(())
    }

    /// Decodes a block, or its front, into memory that is used again and again.
    fn decode_own(&mut self, index: usize, len: usize) -> Result<()> {
        let mut own = match self.held.take() {
            Some((_, Held::Own(own))) => own,
            _ => Own::default(),
        };
        let whole = self.segment.logical_len_of(index)?;
        self.segment
            .decode_block(index, len.min(whole), &mut own.0)?;
        self.held = Some((index, Held::Own(own)));
        Ok(())
    }
}

/// The block that a reader holds.
#[derive(Debug)]
enum Held {
    /// The cache keeps it too.
    Kept(Arc<Decoded>),
    /// It is in memory that the thread uses again and again.
    Own(Own),
}

impl Held {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Kept(block) => block.as_slice(),
            Self::Own(own) => own.0.as_slice(),
        }
    }
}

/// A block in memory that is given back.
#[derive(Debug)]
struct Own(Decoded);

impl Default for Own {
    fn default() -> Self {
        Self(Decoded {
            bytes: scratch::take_decoded(),
            len: 0,
        })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        scratch::keep_decoded(std::mem::take(&mut self.0.bytes));
    }
}

/// All records of a segment in the order of their timestamps. Ends at the first error.
#[derive(Debug)]
pub struct Scan<'s> {
    reader: Reader<'s>,
    next: usize,
    end: usize,
}

impl<'s> Scan<'s> {
    pub(super) fn new(segment: &'s Segment, ordinals: Range<usize>) -> Self {
        Self {
            reader: Reader::passing(segment),
            next: ordinals.start,
            end: ordinals.end.min(segment.record_count()),
        }
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<StoredRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let record = self.reader.stored(self.next);
        self.next = if record.is_ok() {
            self.next + 1
        } else {
            self.end
        };
        Some(record)
    }
}
