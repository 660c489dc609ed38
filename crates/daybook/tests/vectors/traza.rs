//! Vectors of segments of traces.

use std::path::Path;

use durable::Outcome;
use serde_json::{Value, json};
use traza::content::Query;
use traza::record::derive;
use traza::segment::{Codec, EncodeOptions, Segment, SegmentError, encode_with, verify_bytes};
use traza::span::Span;

use crate::case::{Case, Cases, Change, Files, flip};

const FILE: &str = "segment-00000000000000000000.seg";
/// The length of the header: the first block begins there.
const LEN: usize = 132;

/// Two tenants with one trace id, values of every type, words, and odd times.
const SPANS: [&str; 6] = [
    r#"{"trace_id":"t1","span_id":"root","name":"chat","service":"bot","start_time_ns":1000,"end_time_ns":3000,"attributes":{"model":"gpt-4o","tokens":120,"ratio":0.5,"cached":true,"none":null,"session.id":"S1"}}"#,
    r#"{"trace_id":"t1","span_id":"tool","parent_span_id":"root","name":"lookup","service":"tools","start_time_ns":1500,"end_time_ns":1600,"status":"error","attributes":{"code":"200","text":"Cancel my Booking please"}}"#,
    r#"{"trace_id":"t1","span_id":"late","parent_span_id":"gone","name":"späť","service":"tools","start_time_ns":1500,"end_time_ns":1400,"status":"ok","attributes":{"code":200,"deep":{"list":["refund",1,2.5]}}}"#,
    r#"{"trace_id":"t2","span_id":"root","$tenant":"acme","name":"chat","service":"bot","start_time_ns":4000,"end_time_ns":4005,"events":[{"name":"refund issued","timestamp_ns":4001,"attributes":{"why":"booking"}}]}"#,
    r#"{"trace_id":"t1","span_id":"root","$tenant":"acme","name":"chat","service":"bot","start_time_ns":4000,"end_time_ns":4001,"links":[{"trace_id":"t2","span_id":"root","attributes":{"how":"follows"}}]}"#,
    r#"{"trace_id":"t3","span_id":"extra","name":"n","service":"","start_time_ns":18446744073709551615,"end_time_ns":0,"zeta":[1,{"a":null}]}"#,
];

fn spans() -> Vec<Span> {
    let read = |text: &&str| Span::from_json(text.as_bytes()).unwrap();
    SPANS.iter().map(read).collect()
}

/// Enough for three blocks of records, and little when compressed.
fn many() -> Vec<Span> {
    let text = "the same words again and again ".repeat(40);
    let span = |n: u64| {
        let text = if n.is_multiple_of(97) {
            format!("{text} needle")
        } else {
            text.clone()
        };
        let span = json!({
            "trace_id": format!("t{}", n % 5), "span_id": format!("{n:03}"), "name": "step", "service": "s",
            "start_time_ns": n * 10, "end_time_ns": n * 10 + 5, "attributes": { "n": n % 7, "text": text },
        });
        Span::from_json(span.to_string().as_bytes()).unwrap()
    };
    (0..260).map(span).collect()
}

fn encoded(spans: &[Span], codec: Codec, content_index: bool) -> Files {
    let records: Vec<_> = spans.iter().map(derive).collect();
    let options = EncodeOptions {
        codec,
        content_index,
        ..EncodeOptions::default()
    };
    let bytes = encode_with(&records, &options).unwrap();
    Files::from([(FILE.to_owned(), bytes)])
}

/// What our own reader says of a segment, in the members that the vectors have. Spans are named by their ordinals.
fn facts(bytes: &[u8], codec: u32) -> Value {
    let segment = Segment::from_bytes(bytes.to_vec()).unwrap();
    let spans: Vec<Value> = segment
        .scan()
        .map(|record| serde_json::from_slice(record.unwrap().payload()).unwrap())
        .collect();
    let ordinals = |found: Vec<traza::segment::StoredRecord>| -> Vec<usize> {
        found
            .iter()
            .map(traza::segment::StoredRecord::ordinal)
            .collect()
    };
    let mut traces = serde_json::Map::new();
    for (trace, _) in segment.traces() {
        let found = ordinals(segment.trace(trace).unwrap());
        traces.insert(trace.to_owned(), json!(found));
    }
    let mut attributes = Vec::new();
    for (key, text) in [
        ("model", "\"gpt-4o\""),
        ("code", "\"200\""),
        ("code", "200"),
        ("n", "3"),
        ("absent", "1"),
    ] {
        let found = ordinals(segment.query_attribute(key, text).unwrap());
        attributes.push(json!({ "key": key, "text": text, "ordinals": found }));
    }
    let mut words = serde_json::Map::new();
    for word in ["refund", "booking", "needle", "nowhere"] {
        let ranges = segment.content_candidates(&Query::new(word)).unwrap();
        let found: Vec<usize> = ranges.into_iter().flatten().collect();
        words.insert(word.to_owned(), json!(found));
    }
    let keys: Vec<&str> = segment.keys().collect();
    json!({
        "codec": codec, "blocks": segment.blocks().len(), "spans": spans, "keys": keys, "traces": traces,
        "attributes": attributes, "words": words,
    })
}

fn whole(cases: &mut Cases, name: &'static str, files: Files, codec: u32) {
    let expect = facts(&files[FILE], codec);
    cases.add(name, files, expect);
}

fn cases() -> Cases {
    let mut cases = Cases::new("traza-segment", 8);
    let spans = spans();
    whole(&mut cases, "raw", encoded(&spans, Codec::Raw, true), 0);
    whole(&mut cases, "LZ4", encoded(&spans, Codec::Lz4, true), 1);
    whole(
        &mut cases,
        "LZ4 in three blocks",
        encoded(&many(), Codec::Lz4, true),
        1,
    );
    whole(
        &mut cases,
        "Zstandard in three blocks",
        encoded(&many(), Codec::Zstd, true),
        2,
    );
    whole(
        &mut cases,
        "without a content index",
        encoded(&spans, Codec::Lz4, false),
        1,
    );
    whole(
        &mut cases,
        "without a record",
        encoded(&[], Codec::Lz4, true),
        1,
    );
    changed(&mut cases);
    cases
}

fn changed(cases: &mut Cases) {
    let of = ("LZ4", FILE);
    let bytes = cases.bytes(of.0, of.1);
    let damaged = |section: &str| json!({ "damaged": section });
    let segment = Segment::from_bytes(bytes.clone()).unwrap();
    let places: Vec<(String, usize)> = segment
        .sections()
        .iter()
        .map(|place| {
            (
                place.section.to_string(),
                usize::try_from(place.offset).unwrap(),
            )
        })
        .collect();
    let place = |part: &str| {
        places
            .iter()
            .find(|(name, _)| name.contains(part))
            .unwrap()
            .1
    };
    cases.change(
        "a count of the header",
        of,
        vec![flip(&bytes, 16)],
        damaged("header"),
    );
    cases.change(
        "the checksum of the header",
        of,
        vec![flip(&bytes, 128)],
        damaged("header"),
    );
    cases.change(
        "a byte of a block",
        of,
        vec![flip(&bytes, LEN + 40)],
        damaged("records"),
    );
    for (name, part, section) in [
        ("a byte of the block directory", "directory", "directory"),
        ("a byte of the record offsets", "offset", "offsets"),
        ("a byte of the trace index", "trace", "trace"),
        ("a byte of the attribute index", "attribute", "attribute"),
        ("a byte of the content index", "content", "content"),
    ] {
        let at = place(part) + 17;
        cases.change(name, of, vec![flip(&bytes, at)], damaged(section));
    }
    let cut = vec![Change::Cut(bytes.len() - 1)];
    cases.change("the last byte cut off", of, cut, damaged("content"));
    cases.change(
        "a byte behind the end",
        of,
        vec![Change::Append(vec![0])],
        damaged("content"),
    );
    cases.change("the magic", of, vec![flip(&bytes, 0)], damaged("header"));
    let newer = vec![Change::Put(8, vec![9])];
    cases.change("a newer version", of, newer, json!({ "unsupported": true }));
}

/// Our own reader says of a case what the vector says.
fn assert_read(case: &Case) {
    let (name, bytes) = (case.name(), &case.files[FILE]);
    let verified = verify_bytes(bytes, Path::new(FILE));
    if case.expect.get("unsupported").is_some() {
        let is_refused = matches!(verified, Err(SegmentError::Version { .. }));
        assert!(is_refused, "{name}: {verified:?}");
    } else if case.expect.get("damaged").is_some() {
        let is_damaged = match &verified {
            Ok(verdict) => verdict.verdict == Outcome::Damaged,
            Err(error) => matches!(error, SegmentError::NotASegment),
        };
        assert!(is_damaged, "{name}: {verified:?}");
    } else {
        assert_eq!(verified.unwrap().verdict, Outcome::Intact, "{name}");
    }
}

#[test]
fn the_vectors_of_segments_are_what_our_writer_gives_and_our_reader_says() {
    let cases = cases();
    cases.all.iter().for_each(assert_read);
    cases.check();
}
