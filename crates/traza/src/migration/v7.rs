//! Version 7, which releases 0.24 wrote: compressed, checksummed record blocks, and unprotected metadata.
//! Frozen.

use durable::checksum::crc32;
use durable::layout;

use super::{
    LegacyAttributes, LegacyRecord, LegacySummary, OffsetTable, check_contiguous, check_identity,
    expect, header_fault,
};
use crate::digest::Digest;
use crate::segment::codec::Codec;
use crate::segment::error::{Fault, Result, Section, SegmentError};
use crate::segment::layout::{
    BLOCK_LEN_TARGET, BLOCK_RAW_FLAG, RECORD_LEN_LIMIT, attribute_pair, directory_entry,
    record_header,
};

/// The format version.
pub const VERSION: u16 = 7;

layout! {
    /// The header of version 7.
    pub mod header_v7 [128] {
        MAGIC: [0; 8] "File identity, `TRAZASEG`.",
        VERSION: [8; 2] "Format version, u16: 7.",
        HEADER_LEN: [10; 2] "Length of this header, u16: 128.",
        CODEC: [12; 4] "Codec of the record blocks, u32: 0 raw, 1 LZ4 block format.",
        RECORD_COUNT: [16; 8] "Number of records, u64.",
        RECORDS_OFFSET: [24; 8] "Offset of the record blocks in the file, u64: 128.",
        RECORDS_LEN: [32; 8] "Length of the record blocks as stored, u64.",
        OFFSETS_OFFSET: [40; 8] "Offset of the record-offset index, u64.",
        OFFSETS_LEN: [48; 8] "Length of the record-offset index, u64: 8 for each record.",
        TRACE_OFFSET: [56; 8] "Offset of the trace index, u64.",
        TRACE_LEN: [64; 8] "Length of the trace index, u64.",
        ATTRIBUTE_OFFSET: [72; 8] "Offset of the attribute index, u64.",
        MIN_TIMESTAMP: [80; 8] "Smallest timestamp, u64.",
        MAX_TIMESTAMP: [88; 8] "Largest timestamp, u64.",
        CONTENT_OFFSET: [96; 8] "Offset of the content index, u64; it ends with the file.",
        DIRECTORY_OFFSET: [104; 8] "Offset of the block directory, u64.",
        DIRECTORY_LEN: [112; 8] "Length of the block directory, u64: 32 for each block.",
        LOGICAL_LEN: [120; 8] "Length of all records before compression, u64.",
    }
}

/// The attribute pairs of a version 7 record.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    pairs: &'a [[u8; attribute_pair::LEN]],
}

impl<'a> Pairs<'a> {
    /// Key ids and digests, ascending by id.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, Digest)> + use<'a> {
        self.pairs.iter().map(|pair| {
            let [k0, k1, k2, k3, digest @ ..] = *pair;
            (u32::from_le_bytes([k0, k1, k2, k3]), Digest(digest))
        })
    }
}

/// An entry of the directory, and the length that follows from the entry behind it.
struct Block<'a> {
    index: u64,
    logical_start: u64,
    logical_len: u64,
    stored_start: u64,
    stored: &'a [u8],
    is_raw: bool,
    crc: u32,
    min_timestamp: u64,
}

/// Walks the records of `bytes`: see [`super::walk`].
pub(super) fn walk(
    bytes: &[u8],
    visit: &mut dyn FnMut(LegacyRecord<'_>) -> Result<()>,
) -> Result<LegacySummary> {
    check_identity(bytes, VERSION, 128)?;
    let cut_off = |short: durable::Short| {
        header_fault(Fault::CutOff {
            wanted: header_v7::LEN as u64,
            left: short.left as u64,
        })
    };
    let word = |field: durable::Field| field.u64(bytes).map_err(cut_off);
    let codec = match Codec::from_id(header_v7::CODEC.u32(bytes).map_err(cut_off)?)? {
        codec @ (Codec::Raw | Codec::Lz4) => codec,
        // Version 7 never had it.
        later @ Codec::Zstd => {
            return Err(SegmentError::Unsupported {
                section: Section::Header,
                what: "codec id",
                found: u64::from(later.id()),
            });
        }
    };
    let record_count = word(header_v7::RECORD_COUNT)?;
    let records_offset = word(header_v7::RECORDS_OFFSET)?;
    let records_len = word(header_v7::RECORDS_LEN)?;
    let directory_offset = word(header_v7::DIRECTORY_OFFSET)?;
    let directory_len = word(header_v7::DIRECTORY_LEN)?;
    let offsets_offset = word(header_v7::OFFSETS_OFFSET)?;
    let offsets_len = word(header_v7::OFFSETS_LEN)?;
    let trace_offset = word(header_v7::TRACE_OFFSET)?;
    let logical_len = word(header_v7::LOGICAL_LEN)?;
    let attribute_offset = word(header_v7::ATTRIBUTE_OFFSET)?;
    let content_offset = word(header_v7::CONTENT_OFFSET)?;
    let content = (header_v7::CONTENT_OFFSET, content_offset);
    let chain = [
        (header_v7::RECORDS_OFFSET, records_offset, records_len),
        (header_v7::DIRECTORY_OFFSET, directory_offset, directory_len),
        (header_v7::OFFSETS_OFFSET, offsets_offset, offsets_len),
        (
            header_v7::TRACE_OFFSET,
            trace_offset,
            word(header_v7::TRACE_LEN)?,
        ),
        (header_v7::ATTRIBUTE_OFFSET, attribute_offset, 0),
    ];
    check_contiguous(header_v7::LEN as u64, &chain, content, bytes.len() as u64)?;
    // The chain ends inside the file, so the parts are there.
    let part = |start: u64, end: u64| {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        bytes.get(start..end).unwrap_or_default()
    };
    let table = OffsetTable::new(part(offsets_offset, trace_offset), record_count)?;
    let directory = Directory {
        body: part(directory_offset, offsets_offset),
        stored: part(records_offset, directory_offset),
        records_offset,
        own_offset: directory_offset,
        logical_len,
    };
    let mut ordinal = 0;
    let mut timestamps = None;
    let mut decoded = Vec::new();
    for block in directory.blocks()? {
        inflate(&block, codec, &mut decoded)?;
        let mut records = 0u64;
        let mut at = 0usize;
        while at < decoded.len() {
            table.check(ordinal, block.logical_start.saturating_add(at as u64))?;
            let rest = decoded.get(at..).unwrap_or_default();
            let (record, len) = record(rest, ordinal).map_err(|fault| damaged(&block, fault))?;
            if records == 0 && record.timestamp != block.min_timestamp {
                let fault = Fault::Fence {
                    block: block.index,
                    declared: block.min_timestamp,
                    found: record.timestamp,
                };
                return Err(damaged(&block, fault));
            }
            let first = timestamps.map_or(record.timestamp, |(first, _)| first);
            timestamps = Some((first, record.timestamp));
            visit(record)?;
            ordinal += 1;
            records += 1;
            at += len;
        }
        if records > 1 && block.logical_len > BLOCK_LEN_TARGET {
            let fault = Fault::Bound {
                field: "block length",
                found: block.logical_len,
                max: BLOCK_LEN_TARGET,
            };
            return Err(damaged(&block, fault));
        }
    }
    table.check_count(ordinal)?;
    Ok(LegacySummary {
        version: VERSION,
        record_count: ordinal,
        logical_len,
        timestamps,
        sections: vec![
            (Section::Header, 0..records_offset),
            (Section::Records, records_offset..directory_offset),
            (Section::BlockDirectory, directory_offset..offsets_offset),
            (Section::RecordOffsets, offsets_offset..trace_offset),
            (Section::TraceIndex, trace_offset..attribute_offset),
            (Section::AttributeIndex, attribute_offset..content_offset),
            (Section::ContentIndex, content_offset..bytes.len() as u64),
        ],
    })
}

fn damaged(block: &Block<'_>, fault: Fault) -> SegmentError {
    SegmentError::corrupt(Section::Records, block.stored_start, fault)
}

/// The block directory and what it describes.
struct Directory<'a> {
    body: &'a [u8],
    stored: &'a [u8],
    records_offset: u64,
    own_offset: u64,
    logical_len: u64,
}

impl<'a> Directory<'a> {
    fn corrupt(&self, fault: Fault) -> SegmentError {
        SegmentError::corrupt(Section::BlockDirectory, self.own_offset, fault)
    }

    /// The blocks, which cover the stored bytes and the uncompressed records without a gap.
    fn blocks(&self) -> Result<Vec<Block<'a>>> {
        let (entries, rest) = self.body.as_chunks::<{ directory_entry::LEN }>();
        if !rest.is_empty() {
            return Err(self.corrupt(Fault::Trailing {
                at: (self.body.len() - rest.len()) as u64,
                left: rest.len() as u64,
            }));
        }
        let mut blocks: Vec<Block<'a>> = Vec::with_capacity(entries.len());
        let mut stored_end = 0;
        for (index, entry) in (0u64..).zip(entries) {
            let block = self.block(index, entry, stored_end, blocks.last_mut())?;
            stored_end += block.stored.len() as u64;
            blocks.push(block);
        }
        expect(header_v7::RECORDS_LEN, self.stored.len() as u64, stored_end)?;
        match blocks.last_mut() {
            Some(last) => {
                last.logical_len = self.logical_len.saturating_sub(last.logical_start);
                if last.logical_len == 0 {
                    return Err(self.corrupt(Fault::Bound {
                        field: directory_entry::LOGICAL_START.name,
                        found: last.logical_start,
                        max: self.logical_len,
                    }));
                }
            }
            None => expect(header_v7::LOGICAL_LEN, self.logical_len, 0)?,
        }
        Ok(blocks)
    }

    /// One entry; the length of the block before it becomes known by it.
    fn block(
        &self,
        index: u64,
        entry: &[u8; directory_entry::LEN],
        stored_end: u64,
        before: Option<&mut Block<'a>>,
    ) -> Result<Block<'a>> {
        let short = |short: durable::Short| {
            self.corrupt(Fault::CutOff {
                wanted: directory_entry::LEN as u64,
                left: short.left as u64,
            })
        };
        let logical_start = directory_entry::LOGICAL_START.u64(entry).map_err(short)?;
        let stored_offset = directory_entry::STORED_OFFSET.u64(entry).map_err(short)?;
        let stored_len = directory_entry::STORED_LEN.u32(entry).map_err(short)?;
        let min_timestamp = directory_entry::MIN_TIMESTAMP.u64(entry).map_err(short)?;
        let order = |field| {
            self.corrupt(Fault::Order {
                field,
                entry: index,
            })
        };
        match before {
            None if logical_start != 0 => return Err(order(directory_entry::LOGICAL_START.name)),
            None => {}
            Some(before) if logical_start <= before.logical_start => {
                return Err(order(directory_entry::LOGICAL_START.name));
            }
            Some(before) if min_timestamp < before.min_timestamp => {
                return Err(order(directory_entry::MIN_TIMESTAMP.name));
            }
            Some(before) => before.logical_len = logical_start - before.logical_start,
        }
        if stored_offset != stored_end {
            return Err(self.corrupt(Fault::Word {
                field: directory_entry::STORED_OFFSET.name,
                found: stored_offset,
                expected: stored_end,
            }));
        }
        let len = stored_len & !BLOCK_RAW_FLAG;
        let stored = usize::try_from(stored_offset).ok().and_then(|start| {
            let end = start.checked_add(usize::try_from(len).ok()?)?;
            self.stored
                .get(start..end)
                .filter(|stored| !stored.is_empty())
        });
        let Some(stored) = stored else {
            return Err(self.corrupt(Fault::CutOff {
                wanted: u64::from(len),
                left: (self.stored.len() as u64).saturating_sub(stored_offset),
            }));
        };
        Ok(Block {
            index,
            logical_start,
            logical_len: 0,
            stored_start: self.records_offset.saturating_add(stored_offset),
            stored,
            is_raw: stored_len & BLOCK_RAW_FLAG != 0,
            crc: directory_entry::CRC32.u32(entry).map_err(short)?,
            min_timestamp,
        })
    }
}

/// Checks and decodes a block; its length is bounded before it sizes anything.
fn inflate(block: &Block<'_>, codec: Codec, out: &mut Vec<u8>) -> Result<()> {
    let computed = crc32(block.stored);
    if computed != block.crc {
        let stored = block.crc;
        return Err(damaged(block, Fault::Checksum { stored, computed }));
    }
    let codec = if block.is_raw { Codec::Raw } else { codec };
    let max = codec
        .expanded_len_max(block.stored.len() as u64)
        .min(RECORD_LEN_LIMIT - 1);
    if block.logical_len > max {
        let fault = Fault::Bound {
            field: "block length",
            found: block.logical_len,
            max,
        };
        return Err(damaged(block, fault));
    }
    out.clear();
    out.resize(usize::try_from(block.logical_len).unwrap_or(usize::MAX), 0);
    codec
        .decompress_into(block.stored, out)
        .map_err(|fault| damaged(block, fault))
}

/// The record at the front of `bytes`, and its length.
fn record(bytes: &[u8], ordinal: u64) -> Result<(LegacyRecord<'_>, usize), Fault> {
    let short = |short: durable::Short| Fault::CutOff {
        wanted: short.wanted as u64,
        left: short.left as u64,
    };
    let mut cursor = durable::Cursor::new(bytes);
    let head = cursor.bytes(record_header::LEN).map_err(short)?;
    let timestamp = record_header::TIMESTAMP.u64(head).map_err(short)?;
    let lens = [
        record_header::TRACE_ID_LEN,
        record_header::ATTRIBUTE_COUNT,
        record_header::PAYLOAD_LEN,
    ]
    .map(|field| field.u32(head).map_or(usize::MAX, |len| len as usize));
    let [trace_id_len, count, payload_len] = lens;
    let pairs_len = count.saturating_mul(attribute_pair::LEN);
    let trace_id = cursor.bytes(trace_id_len).map_err(short)?;
    let trace_id = std::str::from_utf8(trace_id).map_err(|_| Fault::Utf8 {
        field: "trace id",
        at: record_header::LEN as u64,
    })?;
    let (pairs, _) = cursor.bytes(pairs_len).map_err(short)?.as_chunks();
    let pairs = Pairs { pairs };
    let ids = pairs.iter().map(|(key_id, _)| key_id);
    let behind = pairs.iter().skip(1).map(|(key_id, _)| key_id);
    if let Some((entry, _)) = (1u64..)
        .zip(ids.zip(behind))
        .find(|(_, (before, id))| id <= before)
    {
        return Err(Fault::Order {
            field: "attribute key ids of a record",
            entry,
        });
    }
    let payload = cursor.bytes(payload_len).map_err(short)?;
    let record = LegacyRecord {
        ordinal,
        timestamp,
        trace_id,
        attributes: LegacyAttributes::Digests(pairs),
        payload,
    };
    Ok((record, cursor.position()))
}
