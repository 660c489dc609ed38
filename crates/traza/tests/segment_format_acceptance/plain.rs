//! Takes a segment apart by the tables alone, and puts the parts together again.
//!
//! It shares no code with the crate but the checksum, the digest and the decompressors.

use std::collections::BTreeMap;
use std::ops::Range;

use durable::checksum::crc32;

use super::tables::{
    CONTENT_PROLOGUE_LEN, DIRECTORY_ENTRY_LEN, HEADER, HEADER_LEN, PAGE_LEN, PAIR_LEN,
    RECORD_HEADER_LEN, WRAPPER_LEN,
};

/// A number from the bytes at `at`.
pub(crate) fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len]
        .iter()
        .rev()
        .fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

fn length(bytes: &[u8], at: usize, len: usize) -> usize {
    usize::try_from(number(bytes, at, len)).unwrap()
}

/// A segment in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) codec: u64,
    pub(crate) timestamps: (u64, u64),
    pub(crate) blocks: Vec<PlainBlock>,
    pub(crate) records: Vec<PlainRecord>,
    pub(crate) traces: Vec<(String, Vec<u64>)>,
    pub(crate) keys: Vec<String>,
    pub(crate) pairs: Vec<PlainPair>,
    pub(crate) content: PlainContent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlainBlock {
    pub(crate) logical_start: u64,
    pub(crate) is_raw: bool,
    pub(crate) min_timestamp: u64,
    pub(crate) stored: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlainRecord {
    pub(crate) logical: u64,
    pub(crate) timestamp: u64,
    pub(crate) trace_id: String,
    pub(crate) pairs: Vec<(u32, [u8; 16])>,
    pub(crate) payload: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlainPair {
    pub(crate) key_id: u64,
    pub(crate) digest: [u8; 16],
    pub(crate) offsets: Vec<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlainContent {
    pub(crate) block_count: usize,
    pub(crate) summary: Vec<u8>,
    pub(crate) block_bits: usize,
    pub(crate) rows: Vec<u8>,
}

impl PlainContent {
    /// The block's bit in the row of a position.
    pub(crate) fn has(&self, position: usize, block: usize) -> bool {
        let row_len = self.block_count.div_ceil(8);
        self.rows[position * row_len + block / 8] & (1 << (block % 8)) != 0
    }
}

/// Takes a valid segment apart; panics where it is not one.
pub(crate) fn take_apart(file: &[u8]) -> Parts {
    let words: BTreeMap<&str, usize> = HEADER[1..]
        .iter()
        .map(|(at, len, name)| (*name, number(file, *at, *len)))
        .map(|(name, word)| (name, usize::try_from(word).unwrap_or(usize::MAX)))
        .collect();
    assert_eq!(&file[..8], b"TRAZASEG");
    assert_eq!((words["VERSION"], words["HEADER_LEN"]), (8, HEADER_LEN));
    assert_eq!(number(file, 128, 4), u64::from(crc32(&file[..128])));
    let ends = [
        (words["RECORDS_OFFSET"], words["RECORDS_LEN"]),
        (words["DIRECTORY_OFFSET"], words["DIRECTORY_LEN"]),
        (words["OFFSETS_OFFSET"], words["OFFSETS_LEN"]),
        (words["TRACE_OFFSET"], words["TRACE_LEN"]),
        (
            words["ATTRIBUTE_OFFSET"],
            words["CONTENT_OFFSET"] - words["ATTRIBUTE_OFFSET"],
        ),
        (
            words["CONTENT_OFFSET"],
            file.len() - words["CONTENT_OFFSET"],
        ),
    ];
    let mut end = HEADER_LEN;
    let sections = ends.map(|(start, len)| {
        assert_eq!(start, end, "sections follow each other");
        end = start + len;
        &file[start..end]
    });
    assert_eq!(end, file.len());
    let [stored, directory, offsets, traces, attributes, content] = sections;
    let codec = number(file, 12, 4);
    let logical_len = words["LOGICAL_LEN"];
    let offsets = offset_table(&unwrapped(offsets, codec), words["RECORD_COUNT"]);
    let (blocks, logical) = blocks(&unwrapped(directory, codec), stored, codec, logical_len);
    let ends = offsets.iter().skip(1).copied().chain([logical_len]);
    let records = offsets
        .iter()
        .zip(ends)
        .map(|(start, end)| record(&logical, *start..end))
        .collect();
    assert_eq!(
        number(content, 4, 4),
        0,
        "the content index is never compressed"
    );
    let (keys, pairs) = attribute_index(&unwrapped(attributes, codec));
    Parts {
        codec,
        timestamps: (number(file, 80, 8), number(file, 88, 8)),
        blocks,
        records,
        traces: trace_index(&unwrapped(traces, codec)),
        keys,
        pairs,
        content: content_index(&unwrapped(content, codec)),
    }
}

/// The body of a metadata section.
fn unwrapped(section: &[u8], codec: u64) -> Vec<u8> {
    assert_eq!(number(section, 0, 4), u64::from(crc32(&section[4..])));
    let (flags, len) = (number(section, 4, 4), length(section, 8, 8));
    let body = &section[WRAPPER_LEN..];
    match flags {
        0 => {
            assert_eq!(body.len(), len);
            body.to_vec()
        }
        1 => {
            assert_ne!(codec, 0, "codec 0 compresses nothing");
            assert!(body.len() < len, "compressed only when that is shorter");
            lz4_flex::block::decompress(body, len).unwrap()
        }
        other => panic!("flags {other}"),
    }
}

fn offset_table(body: &[u8], count: usize) -> Vec<usize> {
    let mut body = Varints(body);
    let mut at = 0;
    let table = (0..count)
        .map(|_| {
            at += body.next();
            usize::try_from(at).unwrap()
        })
        .collect();
    assert!(body.0.is_empty());
    table
}

/// The blocks, and all records before compression.
fn blocks(
    directory: &[u8],
    stored: &[u8],
    codec: u64,
    logical_len: usize,
) -> (Vec<PlainBlock>, Vec<u8>) {
    assert!(directory.len().is_multiple_of(DIRECTORY_ENTRY_LEN));
    let entries: Vec<&[u8]> = directory.chunks(DIRECTORY_ENTRY_LEN).collect();
    let mut logical = Vec::new();
    let mut blocks = Vec::new();
    let mut end = 0;
    for (index, entry) in entries.iter().enumerate() {
        let next = entries
            .get(index + 1)
            .map_or(logical_len, |next| length(next, 0, 8));
        assert_eq!(length(entry, 0, 8), logical.len());
        assert_eq!(length(entry, 8, 8), end);
        let word = number(entry, 16, 4);
        let (is_raw, len) = (
            word >> 31 == 1,
            usize::try_from(word & 0x7fff_ffff).unwrap(),
        );
        let bytes = &stored[end..end + len];
        end += len;
        assert_eq!(number(entry, 20, 4), u64::from(crc32(bytes)));
        let plain_len = next - logical.len();
        let plain = match codec {
            _ if is_raw => bytes.to_vec(),
            1 => lz4_flex::block::decompress(bytes, plain_len).unwrap(),
            2 => zstd::bulk::decompress(bytes, plain_len).unwrap(),
            other => panic!("codec {other} with a compressed block"),
        };
        assert_eq!(plain.len(), plain_len);
        blocks.push(PlainBlock {
            logical_start: number(entry, 0, 8),
            is_raw,
            min_timestamp: number(entry, 24, 8),
            stored: bytes.to_vec(),
        });
        logical.extend(plain);
    }
    assert_eq!((end, logical.len()), (stored.len(), logical_len));
    (blocks, logical)
}

fn record(logical: &[u8], place: Range<usize>) -> PlainRecord {
    let bytes = &logical[place.clone()];
    let (trace_len, pair_count, payload_len) = (
        length(bytes, 8, 4),
        length(bytes, 12, 4),
        length(bytes, 16, 4),
    );
    assert_eq!(number(bytes, 20, 4), 0);
    let (trace_id, rest) = bytes[RECORD_HEADER_LEN..].split_at(trace_len);
    let (pairs, payload) = rest.split_at(pair_count * PAIR_LEN);
    assert_eq!(payload.len(), payload_len);
    PlainRecord {
        logical: u64::try_from(place.start).unwrap(),
        timestamp: number(bytes, 0, 8),
        trace_id: String::from_utf8(trace_id.to_vec()).unwrap(),
        pairs: pairs
            .chunks(PAIR_LEN)
            .map(|pair| {
                (
                    u32::try_from(number(pair, 0, 4)).unwrap(),
                    pair[4..].try_into().unwrap(),
                )
            })
            .collect(),
        payload: payload.to_vec(),
    }
}

fn trace_index(body: &[u8]) -> Vec<(String, Vec<u64>)> {
    let mut body = Varints(body);
    let traces = (0..body.next())
        .map(|_| (body.text(), body.postings()))
        .collect();
    assert!(body.0.is_empty());
    traces
}

fn attribute_index(body: &[u8]) -> (Vec<String>, Vec<PlainPair>) {
    let mut body = Varints(body);
    let keys = (0..body.next()).map(|_| body.text()).collect();
    let pairs = (0..body.next())
        .map(|_| PlainPair {
            key_id: body.next(),
            digest: body.take(16).try_into().unwrap(),
            offsets: body.postings(),
        })
        .collect();
    assert!(body.0.is_empty());
    (keys, pairs)
}

fn content_index(body: &[u8]) -> PlainContent {
    assert_eq!(
        [number(body, 0, 4), number(body, 4, 4), number(body, 12, 4)],
        [0, 128, 4]
    );
    let block_count = length(body, 8, 4);
    let (summary_bits, block_bits) = (length(body, 16, 8), length(body, 24, 8));
    let (summary, rest) = body[CONTENT_PROLOGUE_LEN..].split_at(summary_bits / 8);
    let rows_len = block_bits * block_count.div_ceil(8);
    let (pages, rows) = rest.split_at(4 * rows_len.div_ceil(PAGE_LEN));
    assert_eq!(rows.len(), rows_len);
    for (page, crc) in rows.chunks(PAGE_LEN).zip(pages.chunks(4)) {
        assert_eq!(number(crc, 0, 4), u64::from(crc32(page)));
    }
    PlainContent {
        block_count,
        summary: summary.to_vec(),
        block_bits,
        rows: rows.to_vec(),
    }
}

/// Reads varints, texts and posting lists from the front.
struct Varints<'a>(&'a [u8]);

impl Varints<'_> {
    fn next(&mut self) -> u64 {
        let mut value = 0;
        for index in 0.. {
            let byte = self.take(1)[0];
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                assert!(byte != 0 || index == 0, "canonical");
                break;
            }
        }
        value
    }

    fn take(&mut self, len: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    fn text(&mut self) -> String {
        let len = usize::try_from(self.next()).unwrap();
        String::from_utf8(self.take(len).to_vec()).unwrap()
    }

    fn postings(&mut self) -> Vec<u64> {
        let mut before = 0;
        (0..self.next())
            .map(|index| {
                let gap = self.next();
                assert!(index == 0 || gap > 0, "ascending");
                before += gap;
                before
            })
            .collect()
    }
}

/// Replaces the attribute index of a segment, with checksums that fit: a forgery, not damage.
pub(crate) fn with_pairs(file: &[u8], keys: &[String], pairs: &[PlainPair]) -> Vec<u8> {
    let (start, end) = (length(file, 72, 8), length(file, 96, 8));
    let mut body = Vec::new();
    put_varint(u64::try_from(keys.len()).unwrap(), &mut body);
    for key in keys {
        put_varint(u64::try_from(key.len()).unwrap(), &mut body);
        body.extend(key.as_bytes());
    }
    put_varint(u64::try_from(pairs.len()).unwrap(), &mut body);
    for pair in pairs {
        put_varint(pair.key_id, &mut body);
        body.extend(pair.digest);
        put_varint(u64::try_from(pair.offsets.len()).unwrap(), &mut body);
        let mut before = 0;
        for offset in &pair.offsets {
            put_varint(offset - before, &mut body);
            before = *offset;
        }
    }
    let mut section = vec![0; WRAPPER_LEN];
    section[8..16].copy_from_slice(&u64::try_from(body.len()).unwrap().to_le_bytes());
    section.extend(&body);
    let crc = crc32(&section[4..]).to_le_bytes();
    section[..4].copy_from_slice(&crc);
    let mut forged = [&file[..start], &section, &file[end..]].concat();
    let content_start = u64::try_from(start + section.len()).unwrap();
    forged[96..104].copy_from_slice(&content_start.to_le_bytes());
    let crc = crc32(&forged[..128]).to_le_bytes();
    forged[128..132].copy_from_slice(&crc);
    forged
}

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
}
