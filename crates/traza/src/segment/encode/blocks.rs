//! Carves the records into blocks and writes each block.

use std::ops::Range;

use durable::checksum::crc32;

use super::keys::KeyedPairs;
use super::near;
use super::packer::Packer;
use crate::record::Record;
use crate::segment::codec::{Codec, len_u64};
use crate::segment::directory::Block;
use crate::segment::error::Result;
use crate::segment::layout::{BLOCK_LEN_TARGET, header};
use crate::segment::records;

/// The ordinals of each block: whole records while they stay within the target, at least one.
pub(super) fn carve(starts: &[u64], logical_len: u64) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    let mut first = 0;
    while let Some(start) = starts.get(first) {
        let limit = start.saturating_add(BLOCK_LEN_TARGET);
        // A record ends where the next one begins.
        let ends = starts.iter().skip(first + 1).copied().chain([logical_len]);
        let count = ends.take_while(|end| *end <= limit).count().max(1);
        blocks.push(first..first + count);
        first += count;
    }
    blocks
}

/// A block as it goes into the file.
pub(super) struct StoredBlock {
    /// Where its bytes are in its writer's output.
    pub(super) place: Range<usize>,
    /// Its directory entry, but for the stored offset.
    pub(super) block: Block,
}

/// What all blocks are written from.
pub(super) struct BlockWriter<'a> {
    pub(super) records: &'a [&'a Record],
    pub(super) pairs: &'a KeyedPairs<'a>,
    pub(super) starts: &'a [u64],
    pub(super) codec: Codec,
    /// About how many bytes of blocks each worker will write, before compression.
    pub(super) output_len: usize,
}

/// The stored blocks of one worker, and memory that one after the other uses.
pub(super) struct Output {
    /// The bytes of the blocks. In front of them is room for the header of the file.
    pub(super) bytes: Vec<u8>,
    plain: Vec<u8>,
    packer: Packer,
}

impl Default for Output {
    fn default() -> Self {
        Self {
            bytes: vec![0; header::LEN],
            plain: Vec::new(),
            packer: Packer::default(),
        }
    }
}

impl BlockWriter<'_> {
    /// Writes the block of these records.
    pub(super) fn write(&self, ordinals: Range<usize>, output: &mut Output) -> Result<StoredBlock> {
        let Output {
            bytes: out,
            plain,
            packer,
        } = output;
        plain.clear();
        let records = self.records.get(ordinals.clone()).unwrap_or_default();
        near::bring(
            records
                .iter()
                .flat_map(|record| [record.trace_id.as_bytes(), &record.payload]),
        );
        for (ordinal, record) in ordinals.clone().zip(records) {
            let pairs = self.pairs.of(ordinal);
            records::encode(
                record.timestamp,
                &record.trace_id,
                pairs,
                &record.payload,
                plain,
            )?;
        }
        let packed = packer.pack(self.codec, plain);
        let bytes = packed.unwrap_or(plain);
        let block = Block {
            logical_start: self.starts.get(ordinals.start).copied().unwrap_or(0),
            logical_len: len_u64(plain.len()),
            stored_offset: 0,
            // Below 2^31: a block is small or one record, whose encoding was bounded.
            stored_len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            is_raw: packed.is_none(),
            crc: crc32(bytes),
            min_timestamp: self
                .records
                .get(ordinals.start)
                .map_or(0, |record| record.timestamp),
            first_ordinal: ordinals.start,
        };
        let start = out.len();
        if start == header::LEN {
            // Memory that is never written to is never really taken.
            out.reserve(self.output_len);
        }
        out.extend_from_slice(bytes);
        Ok(StoredBlock {
            place: start..out.len(),
            block,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_records_up_to_and_including_its_target() {
        let target = BLOCK_LEN_TARGET;
        assert_eq!(carve(&[], 0), []);
        assert_eq!(carve(&[0], 10), vec![0..1; 1]);
        assert_eq!(carve(&[0, target - 1], target), vec![0..2; 1]);
        assert_eq!(carve(&[0, target - 1], target + 1), [0..1, 1..2]);
        assert_eq!(
            carve(&[0, 5, 3 * target], 3 * target + 5),
            [0..1, 1..2, 2..3]
        );
        assert_eq!(carve(&[0, 5, target, target + 5], target + 9), [0..2, 2..4]);
    }
}
