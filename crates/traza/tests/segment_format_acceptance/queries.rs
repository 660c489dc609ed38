//! Every question to a segment has the answer of a plain scan over the same spans, from bytes and from a file.

use std::ops::Range;

use durable::RealFs;
use proptest::prelude::*;
use proptest::sample::select;
use traza::content::Query;
use traza::record::{self, NAME_KEY, Record, SERVICE_KEY, TENANT_KEY, derive};
use traza::segment::{Codec, EncodeOptions, Segment, StoredRecord, encode_with};
use traza::span::Span;

use super::corpus::{KEYS, WORDS, spans, timestamp, trace_id, value};

/// One segment, opened both ways.
struct Opened {
    segments: [Segment; 2],
    // Removed when dropped.
    _folder: tempfile::TempDir,
}

fn open(records: &[Record], codec: Codec, content_index: bool) -> Opened {
    let options = EncodeOptions {
        codec,
        content_index,
        threads: None,
    };
    let file = encode_with(records, &options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segment-00000000000000000000.seg");
    durable::publish(&RealFs, &path, &file).unwrap();
    let segments = [
        Segment::from_bytes(file).unwrap(),
        Segment::open(&RealFs, &path).unwrap(),
    ];
    Opened {
        segments,
        _folder: folder,
    }
}

/// Payloads in the order of their records.
type Payloads = Vec<Vec<u8>>;

fn payloads(rows: &[StoredRecord]) -> Payloads {
    rows.iter().map(|row| row.payload().to_vec()).collect()
}

/// The payloads of the spans that fit, by a plain scan.
fn scan(sorted: &[Span], fits: impl Fn(&Span) -> bool) -> Payloads {
    sorted
        .iter()
        .filter(|span| fits(span))
        .map(|span| span.to_json().into_bytes())
        .collect()
}

fn rows_of(segment: &Segment, ranges: &[Range<usize>]) -> Vec<StoredRecord> {
    ranges
        .iter()
        .flat_map(|range| segment.scan_range(range.clone()))
        .map(Result::unwrap)
        .collect()
}

fn rows_with_words(segment: &Segment, query: &Query) -> Vec<StoredRecord> {
    let candidates = segment.content_candidates(query).unwrap();
    if !segment.may_contain_words(query) {
        assert!(candidates.is_empty());
    }
    let mut rows = rows_of(segment, &candidates);
    rows.retain(|row| query.matches(&Span::from_json(row.payload()).unwrap()));
    rows
}

#[derive(Clone, Debug)]
struct Questions {
    trace: String,
    key: &'static str,
    value: traza::json::Value,
    words: Vec<&'static str>,
    window: (Option<u64>, Option<u64>),
}

fn questions() -> impl Strategy<Value = Questions> {
    let keys = [&KEYS[..], &[SERVICE_KEY, NAME_KEY, TENANT_KEY, "absent"]].concat();
    let trace = prop_oneof![4 => trace_id(), 1 => Just("unknown".to_owned())];
    let words = prop::collection::vec(
        prop_oneof![5 => select(WORDS.as_slice()), 1 => Just("nowhere")],
        0..3,
    );
    let window = (
        proptest::option::of(timestamp()),
        proptest::option::of(timestamp()),
    );
    (trace, select(keys), value(), words, window).prop_map(|(trace, key, value, words, window)| {
        Questions {
            trace,
            key,
            value,
            words,
            window,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_answer_is_that_of_a_plain_scan(
        spans in spans(), asked in prop::collection::vec(questions(), 1..12),
        codec in select(vec![Codec::Raw, Codec::Lz4, Codec::Zstd]), content_index: bool,
    ) {
        let mut sorted = spans;
        sorted.sort_by_key(|span| span.start_time_ns);
        let records: Vec<Record> = sorted.iter().map(derive).collect();
        let opened = open(&records, codec, content_index);
        for segment in &opened.segments {
            let all: Result<Vec<StoredRecord>, _> = segment.scan().collect();
            let all = all.unwrap();
            prop_assert_eq!(payloads(&all), scan(&sorted, |_| true));
            for (ordinal, row) in all.iter().enumerate() {
                prop_assert_eq!(row.ordinal(), ordinal);
                prop_assert_eq!(&segment.record_at(row.logical_offset()).unwrap(), row);
            }
            // The values of the corpus itself, and some that may not be there.
            let present: Vec<(String, String)> = records
                .iter()
                .flat_map(|record| record.attributes.iter())
                .map(|(key, text)| (key.to_owned(), text.to_owned()))
                .take(60)
                .collect();
            for (key, text) in &present {
                let rows = segment.query_attribute(key, text).unwrap();
                let carrying = records.iter().filter(|record| record.attributes.text(key) == Some(text));
                prop_assert!(rows.iter().map(StoredRecord::payload).eq(carrying.map(|record| &record.payload[..])));
            }
            for question in &asked {
                let rows = segment.trace(&question.trace).unwrap();
                prop_assert_eq!(payloads(&rows), scan(&sorted, |span| span.trace_id == question.trace));

                answers_attribute(segment, &sorted, question)?;

                let query = Query::new(&question.words.join(" "));
                let rows = rows_with_words(segment, &query);
                prop_assert_eq!(payloads(&rows), scan(&sorted, |span| query.matches(span)));

                let (since, until) = question.window;
                let range = segment.ordinal_range_for_window(since, until).unwrap();
                let inside = |span: &Span| {
                    since.is_none_or(|since| span.start_time_ns >= since)
                        && until.is_none_or(|until| span.start_time_ns <= until)
                };
                if !segment.may_contain_timestamps(since, until) {
                    prop_assert!(!sorted.iter().any(inside));
                }
                prop_assert_eq!(payloads(&rows_of(segment, &[range])), scan(&sorted, inside));
            }
        }
    }
}

/// A filter by value finds every span whose value is equal across types, through the texts that are probed.
fn answers_attribute(
    segment: &Segment,
    sorted: &[Span],
    question: &Questions,
) -> Result<(), TestCaseError> {
    let (key, wanted) = (question.key, &question.value);
    if key.starts_with('\0') {
        return Ok(());
    }
    let mut rows: Vec<StoredRecord> = record::attribute_texts(wanted)
        .iter()
        .flat_map(|text| segment.query_attribute(key, text).unwrap())
        .collect();
    rows.sort_by_key(StoredRecord::ordinal);
    rows.dedup();
    let fits = |span: &Span| {
        span.attributes
            .get(key)
            .is_some_and(|stored| record::value_matches(stored, wanted))
    };
    rows.retain(|row| fits(&Span::from_json(row.payload()).unwrap()));
    prop_assert_eq!(payloads(&rows), scan(sorted, fits));
    Ok(())
}
