//! Whole segments: the encoder writes exactly these bytes.

use std::num::NonZero;

use durable::digest::{hex, sha256};
use traza::record::{NAME_KEY, Record, SERVICE_KEY};
use traza::segment::{Codec, EncodeOptions, encode_with};

use super::{bytes_of, items, text, vectors};

fn record(timestamp: u64, trace_id: &str, attributes: &[(&str, &str)], payload: &[u8]) -> Record {
    Record {
        timestamp,
        trace_id: trace_id.to_owned(),
        attributes: attributes.iter().copied().collect(),
        payload: payload.to_vec(),
        ..Record::default()
    }
}

fn one() -> Record {
    let attributes = [
        (SERVICE_KEY, "svc"),
        (NAME_KEY, "op"),
        ("model", "\"mistral-7b\""),
    ];
    let mut record = record(1000, "t1", &attributes, b"{}");
    record.content.push("Cancel my booking");
    record
}

/// Timestamps that collide, many traces, and texts that fill several content blocks.
fn many() -> Vec<Record> {
    let make = |i: u64| {
        let k = (i % 11).to_string();
        let attributes = [(SERVICE_KEY, "svc"), (NAME_KEY, "op"), ("k", k.as_str())];
        let pad = "lorem ipsum dolor ".repeat(usize::try_from(i % 40).unwrap());
        let payload = format!(r#"{{"i":{i},"pad":"{pad}"}}"#);
        let trace_id = format!("trace-{:03}", i % 37);
        let mut record = record((i * 7919) % 500, &trace_id, &attributes, payload.as_bytes());
        record.content.push(&format!("word{i} common tok{}", i % 5));
        record
    };
    (0..1200).map(make).collect()
}

/// A record that is longer than a block and does not compress.
fn big() -> Vec<Record> {
    let attributes = [(SERVICE_KEY, "s"), (NAME_KEY, "n")];
    let mut state = 12_345u64;
    let noise: Vec<u8> = (0..200_000)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            u8::try_from((state >> 33) & 255).unwrap()
        })
        .collect();
    vec![
        record(5, "a", &attributes, b"small"),
        record(6, "b", &attributes, &noise),
        record(7, "c", &attributes, b"small2"),
    ]
}

fn without_tokens() -> Record {
    let mut record = record(1, "t", &[(SERVICE_KEY, ""), (NAME_KEY, "")], b"p");
    record.content.push("");
    record.content.push("世");
    record
}

#[test]
fn segments_have_the_bytes_of_the_vectors_on_any_number_of_threads() {
    for case in items(&vectors!("segments"), "segments") {
        let (records, codec, content_index) = match text(case, "name") {
            "empty-lz4.seg" => (vec![], Codec::Lz4, true),
            "empty-raw.seg" => (vec![], Codec::Raw, true),
            "one-lz4.seg" => (vec![one()], Codec::Lz4, true),
            "one-raw.seg" => (vec![one()], Codec::Raw, true),
            "one-nocontent.seg" => (vec![one()], Codec::Lz4, false),
            "notoken.seg" => (vec![without_tokens()], Codec::Lz4, true),
            "many.seg" => (many(), Codec::Lz4, true),
            "big.seg" => (big(), Codec::Lz4, true),
            other => panic!("unknown segment {other}"),
        };
        for threads in [1, 2, 5] {
            let threads = NonZero::new(threads);
            let options = EncodeOptions {
                codec,
                content_index,
                threads,
            };
            let bytes = encode_with(&records, &options).unwrap();
            assert_eq!(
                Some(bytes.len() as u64),
                case["bytes"].as_u64(),
                "{}",
                case["name"]
            );
            assert_eq!(
                hex(&sha256(&bytes)),
                text(case, "sha256"),
                "{}",
                case["name"]
            );
            if !case["hex"].is_null() {
                assert_eq!(bytes, bytes_of(case, "hex"), "{}", case["name"]);
            }
        }
    }
}
