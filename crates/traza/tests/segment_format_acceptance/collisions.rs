//! Gate 3: a fabricated collision costs a wasted decode, never a wrong row.
//!
//! Natural collisions of 128 bits do not happen, so they are forged: in the index alone, and in index and record.

use proptest::prelude::*;
use proptest::sample::Index;
use traza::json::Value;
use traza::record::{self, Attributes, Record, derive};
use traza::segment::{Segment, StoredRecord, encode};
use traza::span::Span;

use super::corpus::{records, spans};
use super::plain::{take_apart, with_pairs};

/// A span with one attribute.
fn tagged(number: u64, value: &str) -> Span {
    Span {
        trace_id: format!("t{number}").into(),
        span_id: "s".into(),
        start_time_ns: number,
        attributes: [("model".to_owned(), Value::from(value))].into(),
        ..Span::default()
    }
}

/// The rows that the owner of the data would return: those whose payload holds the value.
fn confirmed_by_payload(segment: &Segment, key: &str, wanted: &Value) -> Vec<u64> {
    let rows = record::attribute_texts(wanted)
        .into_iter()
        .flat_map(|text| segment.query_attribute(key, &text).unwrap())
        .filter(|row| {
            let span = Span::from_json(row.payload()).unwrap();
            span.attributes
                .get(key)
                .is_some_and(|stored| record::value_matches(stored, wanted))
        });
    rows.map(|row| row.timestamp()).collect()
}

#[test]
fn a_forged_posting_is_proposed_and_then_discarded_by_the_records_own_pairs() {
    let spans = [tagged(1, "right"), tagged(2, "wrong"), tagged(3, "right")];
    let file = encode(&records(&spans)).unwrap();
    let mut parts = take_apart(&file);
    let digest = traza::digest::pair_digest("model", "\"right\"").0;
    let all: Vec<u64> = parts.records.iter().map(|record| record.logical).collect();
    let entry = parts
        .pairs
        .iter_mut()
        .find(|pair| pair.digest == digest)
        .unwrap();
    assert_eq!(entry.offsets, [all[0], all[2]]);
    entry.offsets.clone_from(&all);
    let forged = Segment::from_bytes(with_pairs(&file, &parts.keys, &parts.pairs)).unwrap();
    let proposed: Vec<u64> = forged
        .attribute_candidate_offsets("model", "\"right\"")
        .collect();
    assert_eq!(
        proposed, all,
        "the index is believed as far as candidates go"
    );
    let rows: Vec<u64> = forged
        .query_attribute("model", "\"right\"")
        .unwrap()
        .iter()
        .map(StoredRecord::timestamp)
        .collect();
    assert_eq!(rows, [1, 3]);
}

#[test]
fn a_collision_in_index_and_record_passes_the_digests_and_is_rejected_by_the_payload() {
    let mut records = records(&[tagged(1, "right"), tagged(2, "wrong")]);
    // The second record carries the pair of another value than its payload has: what a true collision looks like.
    let planted: Attributes = records[1]
        .attributes
        .iter()
        .map(|(key, text)| (key, if key == "model" { "\"right\"" } else { text }))
        .collect();
    records[1].attributes = planted;
    let segment = Segment::from_bytes(encode(&records).unwrap()).unwrap();
    let rows = segment.query_attribute("model", "\"right\"").unwrap();
    assert_eq!(rows.len(), 2, "digests cannot tell them apart");
    assert_eq!(
        confirmed_by_payload(&segment, "model", &Value::from("right")),
        [1]
    );
}

/// The attributes as they follow from the payload.
fn by_payload(record: &Record) -> Attributes {
    derive(&Span::from_json(&record.payload).unwrap()).attributes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn postings_forged_at_random_never_add_a_row(
        spans in spans(), forgeries in prop::collection::vec((any::<Index>(), any::<Index>()), 1..20),
    ) {
        prop_assume!(!spans.is_empty());
        let mut records = records(&spans);
        records.sort_by_key(|record| record.timestamp);
        let file = encode(&records).unwrap();
        let honest = take_apart(&file);
        let mut pairs = honest.pairs.clone();
        for (pair, record) in forgeries {
            let offsets = &mut pair.get_mut(&mut pairs).offsets;
            offsets.push(record.get(&honest.records).logical);
            offsets.sort_unstable();
            offsets.dedup();
        }
        let forged = Segment::from_bytes(with_pairs(&file, &honest.keys, &pairs)).unwrap();
        let derived: Vec<Attributes> = records.iter().map(by_payload).collect();
        for (key, text) in derived.iter().flat_map(Attributes::iter).take(200) {
            let rows = forged.query_attribute(key, text).unwrap();
            let found: Vec<usize> = rows.iter().map(StoredRecord::ordinal).collect();
            let wanted: Vec<usize> =
                (0..records.len()).filter(|at| derived[*at].text(key) == Some(text)).collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
