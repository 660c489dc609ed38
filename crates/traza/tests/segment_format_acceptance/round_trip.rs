//! Gates 1 and 2: what went in comes out, under every codec, and the stored pairs follow from the payloads.

use std::num::NonZero;

use proptest::prelude::*;
use proptest::sample::select;
use traza::digest::pair_digest;
use traza::record::{Record, derive};
use traza::segment::{Codec, EncodeOptions, Segment, encode_with, encode_with_codec};
use traza::span::Span;

use super::corpus::{bulky, bulky_records, records, spans};
use super::plain::{PlainRecord, take_apart};

const CODECS: [Codec; 3] = [Codec::Raw, Codec::Lz4, Codec::Zstd];

fn sorted(records: &[Record]) -> Vec<&Record> {
    let mut sorted: Vec<&Record> = records.iter().collect();
    sorted.sort_by_key(|record| record.timestamp);
    sorted
}

/// The record that stands in the segment for this one.
fn stored(record: &Record, logical: u64, keys: &[String]) -> PlainRecord {
    let pair = |(key, text): (&str, &str)| {
        let id = keys.iter().position(|known| known == key).unwrap();
        (u32::try_from(id).unwrap(), pair_digest(key, text).0)
    };
    PlainRecord {
        logical,
        timestamp: record.timestamp,
        trace_id: record.trace_id.clone(),
        pairs: record.attributes.iter().map(pair).collect(),
        payload: record.payload.clone(),
    }
}

/// Encodes, takes the file apart by the tables, opens it, and compares both with what went in.
fn round_trips(records: &[Record], codec: Codec) -> Result<(), TestCaseError> {
    let file = encode_with_codec(records, codec).unwrap();
    let parts = take_apart(&file);
    prop_assert_eq!(parts.codec, u64::from(codec.id()));
    let mut logical = 0;
    let mut wanted = Vec::new();
    for record in sorted(records) {
        wanted.push(stored(record, logical, &parts.keys));
        logical += 24 + record.trace_id.len() as u64 + 20 * record.attributes.len() as u64;
        logical += record.payload.len() as u64;
    }
    prop_assert_eq!(&parts.records, &wanted);
    let segment = Segment::from_bytes(file).unwrap();
    prop_assert_eq!(segment.record_count(), wanted.len());
    let found: Vec<PlainRecord> = segment
        .scan()
        .map(|record| {
            let record = record.unwrap();
            PlainRecord {
                logical: record.logical_offset(),
                timestamp: record.timestamp(),
                trace_id: record.trace_id().to_owned(),
                pairs: record
                    .view()
                    .pairs()
                    .map(|(key_id, digest)| (key_id, digest.0))
                    .collect(),
                payload: record.payload().to_vec(),
            }
        })
        .collect();
    prop_assert_eq!(found, wanted);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn spans_come_out_as_they_went_in(spans in spans(), codec in select(CODECS.as_slice())) {
        round_trips(&records(&spans), codec)?;
        for (record, span) in records(&spans).iter().zip(&spans) {
            prop_assert_eq!(&Span::from_json(&record.payload).unwrap(), span);
        }
    }

    #[test]
    fn oversized_and_incompressible_records_come_out_as_they_went_in(
        records in bulky_records(), codec in select(CODECS.as_slice()),
    ) {
        round_trips(&records, codec)?;
    }

    #[test]
    fn the_stored_pairs_follow_from_the_payloads(spans in spans()) {
        let file = encode_with_codec(&records(&spans), Codec::Lz4).unwrap();
        let segment = Segment::from_bytes(file).unwrap();
        let keys: Vec<&str> = segment.keys().collect();
        for record in segment.scan() {
            let record = record.unwrap();
            let derived = derive(&Span::from_json(record.payload()).unwrap());
            let pairs = derived.attributes.iter().map(|(key, text)| {
                let id = keys.iter().position(|known| *known == key).unwrap();
                (u32::try_from(id).unwrap(), pair_digest(key, text))
            });
            prop_assert!(pairs.eq(record.view().pairs()));
        }
    }

    #[test]
    fn equal_records_give_equal_bytes_on_any_number_of_threads(
        spans in spans(), bulk in bulky_records(), codec in select(CODECS.as_slice()), content_index: bool,
    ) {
        let records = [records(&spans), bulk].concat();
        let encoded = |threads| {
            let threads = NonZero::new(threads);
            encode_with(&records, &EncodeOptions { codec, content_index, threads }).unwrap()
        };
        let one = encoded(1);
        for threads in [0, 1, 2, 3, 7] {
            prop_assert!(encoded(threads) == one, "{} threads", threads);
        }
    }
}

#[test]
fn a_block_that_does_not_compress_is_stored_as_it_is() {
    let records = [
        bulky(1, 1000, true),
        bulky(2, 200_000, false),
        bulky(3, 200_000, true),
    ];
    for codec in [Codec::Lz4, Codec::Zstd] {
        let parts = take_apart(&encode_with_codec(&records, codec).unwrap());
        let raw: Vec<bool> = parts.blocks.iter().map(|block| block.is_raw).collect();
        assert_eq!(raw, [false, true, false]);
        assert_eq!(parts.blocks[1].stored.len(), 24 + 6 + 40 + 200_000);
        round_trips(&records, codec).unwrap();
    }
}

#[test]
fn under_codec_0_nothing_is_compressed_and_every_block_is_flagged() {
    let records: Vec<Record> = (0..50).map(|time| bulky(time, 20_000, true)).collect();
    let file = encode_with_codec(&records, Codec::Raw).unwrap();
    let parts = take_apart(&file);
    assert!(parts.blocks.len() > 5 && parts.blocks.iter().all(|block| block.is_raw));
    assert!(file.len() > 50 * 20_000);
}
