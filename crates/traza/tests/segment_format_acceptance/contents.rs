//! The sections, rebuilt from the records by plain loops.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use traza::content::{bit_positions, filter_bits, filter_key, tokens};
use traza::digest::pair_digest;
use traza::record::Record;
use traza::segment::{Codec, EncodeOptions, encode, encode_with, encode_with_codec};

use super::corpus::{bulky, bulky_records, records, spans};
use super::plain::{PlainContent, take_apart};
use super::tables::{BLOCK_TARGET, CONTENT_BLOCK};

/// The records in their order, each with its logical offset, and the length of them all.
fn placed(records: &[Record]) -> (Vec<(u64, &Record)>, u64) {
    let mut sorted: Vec<&Record> = records.iter().collect();
    sorted.sort_by_key(|record| record.timestamp);
    let mut end = 0;
    let placed = sorted
        .into_iter()
        .map(|record| {
            let start = end;
            end += 24 + record.trace_id.len() as u64 + 20 * record.attributes.len() as u64;
            end += record.payload.len() as u64;
            (start, record)
        })
        .collect();
    (placed, end)
}

/// Where blocks begin: a block takes records while it stays within its target.
fn block_starts(placed: &[(u64, &Record)], end: u64) -> Vec<u64> {
    let mut starts: Vec<u64> = Vec::new();
    for (index, (start, _)) in placed.iter().enumerate() {
        let record_end = placed.get(index + 1).map_or(end, |(next, _)| *next);
        if starts
            .last()
            .is_none_or(|block| record_end - block > BLOCK_TARGET)
        {
            starts.push(*start);
        }
    }
    starts
}

fn plain_content(placed: &[(u64, &Record)]) -> PlainContent {
    if placed
        .iter()
        .all(|(_, record)| record.content.text().is_none())
    {
        return PlainContent::default();
    }
    let words = |record: &Record| -> BTreeSet<Vec<u8>> {
        tokens(record.content.text().unwrap_or_default())
            .map(|token| filter_key(&token).to_vec())
            .collect()
    };
    let blocks: Vec<BTreeSet<Vec<u8>>> = placed
        .chunks(CONTENT_BLOCK)
        .map(|block| block.iter().flat_map(|(_, record)| words(record)).collect())
        .collect();
    let all: BTreeSet<&Vec<u8>> = blocks.iter().flatten().collect();
    let busiest = blocks.iter().map(BTreeSet::len).max().unwrap_or(0);
    let summary_bits = filter_bits(all.len() as u64, 256, 32 * 1024);
    let block_bits = filter_bits(busiest as u64, 64, 8 * 1024);
    let mut summary = vec![0; usize::try_from(summary_bits / 8).unwrap()];
    for position in all
        .iter()
        .flat_map(|word| bit_positions(word, summary_bits))
    {
        summary[usize::try_from(position / 8).unwrap()] |= 1 << (position % 8);
    }
    let row_len = blocks.len().div_ceil(8);
    let block_bits_len = usize::try_from(block_bits).unwrap();
    let mut rows = vec![0; block_bits_len * row_len];
    for (block, words) in blocks.iter().enumerate() {
        for position in words
            .iter()
            .flat_map(|word| bit_positions(word, block_bits))
        {
            rows[usize::try_from(position).unwrap() * row_len + block / 8] |= 1 << (block % 8);
        }
    }
    PlainContent {
        block_count: blocks.len(),
        summary,
        block_bits: block_bits_len,
        rows,
    }
}

/// Compares every section with what follows from the records.
fn sections_follow(records: &[Record], codec: Codec) -> Result<(), TestCaseError> {
    let parts = take_apart(&encode_with_codec(records, codec).unwrap());
    let (placed, end) = placed(records);
    let range = match (placed.first(), placed.last()) {
        (Some((_, first)), Some((_, last))) => (first.timestamp, last.timestamp),
        _ => (u64::MAX, 0),
    };
    prop_assert_eq!(parts.timestamps, range);

    let starts: Vec<u64> = parts
        .blocks
        .iter()
        .map(|block| block.logical_start)
        .collect();
    prop_assert_eq!(&starts, &block_starts(&placed, end));
    for block in &parts.blocks {
        let first = placed
            .iter()
            .find(|(start, _)| *start == block.logical_start)
            .unwrap();
        prop_assert_eq!(block.min_timestamp, first.1.timestamp);
    }

    let mut traces: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut pairs: BTreeMap<(u64, [u8; 16]), Vec<u64>> = BTreeMap::new();
    let keys: BTreeSet<&str> = placed
        .iter()
        .flat_map(|(_, record)| record.attributes.iter().map(|(key, _)| key))
        .collect();
    for (start, record) in &placed {
        traces
            .entry(record.trace_id.clone())
            .or_default()
            .push(*start);
        for (key, text) in record.attributes.iter() {
            let id = keys.iter().position(|known| *known == key).unwrap() as u64;
            pairs
                .entry((id, pair_digest(key, text).0))
                .or_default()
                .push(*start);
        }
    }
    prop_assert_eq!(parts.traces, traces.into_iter().collect::<Vec<_>>());
    prop_assert!(parts.keys.iter().map(String::as_str).eq(keys));
    let found: Vec<_> = parts
        .pairs
        .into_iter()
        .map(|pair| ((pair.key_id, pair.digest), pair.offsets))
        .collect();
    prop_assert_eq!(found, pairs.into_iter().collect::<Vec<_>>());

    prop_assert_eq!(parts.content, plain_content(&placed));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_section_follows_from_the_records(spans in spans(), raw: bool) {
        sections_follow(&records(&spans), if raw { Codec::Raw } else { Codec::Lz4 })?;
    }

    #[test]
    fn every_section_follows_from_records_as_long_as_blocks(records in bulky_records()) {
        sections_follow(&records, Codec::Lz4)?;
    }
}

#[test]
fn a_block_ends_exactly_at_its_target_or_before() {
    let overhead = 24 + "bulk-0".len() + 40;
    let target = usize::try_from(BLOCK_TARGET).unwrap();
    for (second_len, blocks) in [(0, 1), (1, 2)] {
        let first = bulky(3, target - 2 * overhead, true);
        let second = bulky(6, second_len, true);
        let parts = take_apart(&encode(&[first, second]).unwrap());
        assert_eq!(parts.blocks.len(), blocks);
    }
}

#[test]
fn a_segment_without_records_is_247_bytes() {
    for codec in [Codec::Raw, Codec::Lz4, Codec::Zstd] {
        assert_eq!(encode_with_codec(&[], codec).unwrap().len(), 247);
    }
}

#[test]
fn content_is_absent_without_any_text_and_present_with_an_empty_one() {
    let silent = bulky(1, 10, true);
    let mut empty = silent.clone();
    empty.content.push("");
    let parts = |records: &[Record], content_index| {
        let options = EncodeOptions {
            content_index,
            ..EncodeOptions::default()
        };
        take_apart(&encode_with(records, &options).unwrap())
    };
    assert_eq!(
        parts(std::slice::from_ref(&silent), true)
            .content
            .block_count,
        0
    );
    assert_eq!(
        parts(&[empty.clone()], false).content,
        PlainContent::default()
    );
    let content = parts(&[silent, empty], true).content;
    assert_eq!(
        (
            content.block_count,
            content.block_bits,
            content.summary.len()
        ),
        (1, 512, 256)
    );
    assert!((0..512).all(|position| !content.has(position, 0)));
}
