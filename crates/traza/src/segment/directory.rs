//! The block directory: where each compression block lies and what it must hold. No files.
#![warn(clippy::arithmetic_side_effects, clippy::as_conversions)]

use super::codec::len_u64;
use super::error::Fault;
use super::header::Header;
use super::index::offsets::RecordOffsets;
use super::layout::{BLOCK_LEN_TARGET, BLOCK_RAW_FLAG, RECORD_LEN_LIMIT, directory_entry};

/// One compression block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it begins in the uncompressed records.
    pub logical_start: u64,
    /// Its length before compression.
    pub logical_len: u64,
    /// Where its stored bytes begin, counted from the records' offset.
    pub stored_offset: u64,
    /// Number of stored bytes.
    pub stored_len: u32,
    /// True when the stored bytes are the block itself.
    pub is_raw: bool,
    /// CRC-32 of the stored bytes.
    pub crc: u32,
    /// Timestamp of its first record.
    pub min_timestamp: u64,
    /// Ordinal of its first record.
    pub first_ordinal: usize,
}

/// Appends a directory entry. `stored_len` is below 2^31.
pub(crate) fn put_entry(block: &Block, out: &mut Vec<u8>) {
    let flag = if block.is_raw { BLOCK_RAW_FLAG } else { 0 };
    out.extend_from_slice(&block.logical_start.to_le_bytes());
    out.extend_from_slice(&block.stored_offset.to_le_bytes());
    out.extend_from_slice(&(block.stored_len | flag).to_le_bytes());
    out.extend_from_slice(&block.crc.to_le_bytes());
    out.extend_from_slice(&block.min_timestamp.to_le_bytes());
}

/// Decodes the directory and checks it against the header and the record offsets.
pub(crate) fn decode(
    body: &[u8],
    header: &Header,
    offsets: &RecordOffsets,
) -> Result<Box<[Block]>, Fault> {
    let (entries, rest) = body.as_chunks::<{ directory_entry::LEN }>();
    if !rest.is_empty() {
        return Err(Fault::Trailing {
            at: len_u64(body.len().saturating_sub(rest.len())),
            left: len_u64(rest.len()),
        });
    }
    let mut blocks: Vec<Block> = Vec::with_capacity(entries.len());
    for (index, entry) in (0u64..).zip(entries) {
        let block = decode_entry(entry)?;
        follows(index, blocks.last(), &block)?;
        blocks.push(block);
    }
    let stored_end = blocks.last().map_or(0, stored_end);
    if stored_end != header.records_len {
        return Err(Fault::Word {
            field: "sum of the stored lengths",
            found: stored_end,
            expected: header.records_len,
        });
    }
    let ends: Vec<u64> = blocks
        .iter()
        .skip(1)
        .map(|block| block.logical_start)
        .chain([header.logical_len])
        .collect();
    for ((index, block), end) in (0u64..).zip(&mut blocks).zip(ends) {
        // The order of the starts was checked; only the last one can lie behind the end.
        let Some(len) = end.checked_sub(block.logical_start).filter(|len| *len > 0) else {
            return Err(Fault::Bound {
                field: directory_entry::LOGICAL_START.name,
                found: block.logical_start,
                max: end,
            });
        };
        block.logical_len = len;
        bind(index, block, header, offsets)?;
    }
    if blocks.is_empty() && header.record_count > 0 {
        return Err(Fault::CutOff {
            wanted: len_u64(directory_entry::LEN),
            left: 0,
        });
    }
    Ok(blocks.into())
}

/// An entry without what follows from its neighbours.
fn decode_entry(entry: &[u8; directory_entry::LEN]) -> Result<Block, Fault> {
    let short = |short: durable::Short| Fault::CutOff {
        wanted: len_u64(directory_entry::LEN),
        left: len_u64(short.left),
    };
    let stored_len = directory_entry::STORED_LEN.u32(entry).map_err(short)?;
    Ok(Block {
        logical_start: directory_entry::LOGICAL_START.u64(entry).map_err(short)?,
        logical_len: 0,
        stored_offset: directory_entry::STORED_OFFSET.u64(entry).map_err(short)?,
        stored_len: stored_len & !BLOCK_RAW_FLAG,
        is_raw: stored_len & BLOCK_RAW_FLAG != 0,
        crc: directory_entry::CRC32.u32(entry).map_err(short)?,
        min_timestamp: directory_entry::MIN_TIMESTAMP.u64(entry).map_err(short)?,
        first_ordinal: 0,
    })
}

fn stored_end(block: &Block) -> u64 {
    block
        .stored_offset
        .saturating_add(u64::from(block.stored_len))
}

/// The entry stands where the one before it calls for.
fn follows(index: u64, before: Option<&Block>, block: &Block) -> Result<(), Fault> {
    let expected = before.map_or(0, stored_end);
    if block.stored_offset != expected {
        return Err(Fault::Word {
            field: directory_entry::STORED_OFFSET.name,
            found: block.stored_offset,
            expected,
        });
    }
    if block.stored_len == 0 {
        return Err(Fault::Empty {
            field: directory_entry::STORED_LEN.name,
            entry: index,
        });
    }
    let order = |field| Fault::Order {
        field,
        entry: index,
    };
    match before {
        None if block.logical_start != 0 => Err(order(directory_entry::LOGICAL_START.name)),
        Some(before) if block.logical_start <= before.logical_start => {
            Err(order(directory_entry::LOGICAL_START.name))
        }
        Some(before) if block.min_timestamp < before.min_timestamp => {
            Err(order(directory_entry::MIN_TIMESTAMP.name))
        }
        _ => Ok(()),
    }
}

/// The block begins with a record, and its length is one that a block of so many records can have.
fn bind(
    index: u64,
    block: &mut Block,
    header: &Header,
    offsets: &RecordOffsets,
) -> Result<(), Fault> {
    let Some(first) = offsets.ordinal_of(block.logical_start) else {
        return Err(Fault::BlockBoundary {
            block: index,
            logical_start: block.logical_start,
        });
    };
    let end = block.logical_start.saturating_add(block.logical_len);
    let count = offsets.ordinal_from(end).saturating_sub(first);
    let by_records = if count > 1 {
        BLOCK_LEN_TARGET
    } else {
        RECORD_LEN_LIMIT.saturating_sub(1)
    };
    let stored_len = u64::from(block.stored_len);
    let by_codec = if block.is_raw {
        stored_len
    } else {
        header.codec.expanded_len_max(stored_len)
    };
    let max = by_records.min(by_codec);
    if block.logical_len > max || (block.is_raw && block.logical_len != stored_len) {
        return Err(Fault::Bound {
            field: "block length",
            found: block.logical_len,
            max,
        });
    }
    block.first_ordinal = first;
    Ok(())
}
