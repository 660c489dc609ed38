//! Segments: the same records whichever release sealed them, and the same bytes once converted.

use std::path::{Path, PathBuf};

use durable::{Outcome, RealFs, read_all};
use traza::content::Query;
use traza::migration::{self, LegacyRecord};
use traza::record::{Record, derive};
use traza::segment::{Codec, Segment, SegmentError, encode, verify};
use traza::span::Span;

const NAMES: [&str; 2] = ["segment-0.seg", "segment-2.seg"];

fn path(version: u16, name: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures.join(format!("v{version}")).join(name)
}

fn bytes(version: u16, name: &str) -> Vec<u8> {
    read_all(&RealFs, &path(version, name), 1 << 20).unwrap()
}

/// The records of a current segment, derived anew from their payloads.
fn current_records(segment: &Segment) -> Vec<Record> {
    let derived = |payload: &[u8]| derive(&Span::from_json(payload).unwrap());
    segment
        .scan()
        .map(|record| derived(record.unwrap().payload()))
        .collect()
}

#[test]
fn the_same_inputs_give_the_same_records_in_every_version() {
    for name in NAMES {
        let current = Segment::open(&RealFs, &path(8, name)).unwrap();
        let records = current_records(&current);
        assert!(records.len() >= 148);
        assert!(
            migration::records(&bytes(6, name)).unwrap() == records,
            "{name} v6"
        );
        assert!(
            migration::records(&bytes(7, name)).unwrap() == records,
            "{name} v7"
        );
    }
}

#[test]
fn a_converted_segment_has_the_bytes_that_the_newer_release_wrote() {
    for name in NAMES {
        let current = bytes(8, name);
        assert!(
            migration::to_current(&bytes(6, name)).unwrap() == current,
            "{name} v6"
        );
        assert!(
            migration::to_current(&bytes(7, name)).unwrap() == current,
            "{name} v7"
        );
        let segment = Segment::from_bytes(current.clone()).unwrap();
        assert!(
            encode(&current_records(&segment)).unwrap() == current,
            "{name} v8"
        );
    }
}

#[test]
fn what_the_older_versions_store_beside_a_span_follows_from_the_span() {
    for version in [6, 7] {
        for name in NAMES {
            let check = &mut |legacy: LegacyRecord<'_>| {
                let record = migration::derive(&legacy)?;
                assert_eq!(record.timestamp, legacy.timestamp);
                assert_eq!(record.trace_id, legacy.trace_id);
                assert_eq!(record.payload, legacy.payload);
                assert!(legacy.attributes.agree_with(&record));
                Ok(())
            };
            let summary = migration::walk(&bytes(version, name), check).unwrap();
            assert_eq!(summary.version, version);
        }
    }
}

#[test]
fn a_version_that_is_not_served_is_refused_by_both_opens() {
    for version in [6, 7] {
        for error in [
            Segment::open(&RealFs, &path(version, NAMES[0])).unwrap_err(),
            Segment::from_bytes(bytes(version, NAMES[0])).unwrap_err(),
        ] {
            assert!(
                matches!(error, SegmentError::Version { found, newest: 8 } if found == version)
            );
        }
    }
}

#[test]
fn a_peers_segment_answers_every_question_from_a_file_as_from_memory() {
    for name in NAMES {
        let lazy = Segment::open(&RealFs, &path(8, name)).unwrap();
        let eager = Segment::from_bytes(bytes(8, name)).unwrap();
        assert_eq!(lazy.header().codec, Codec::Lz4);
        let records = current_records(&eager);
        let mut by_trace = 0;
        for (id, _) in eager.traces() {
            let found = lazy.trace(id).unwrap();
            assert_eq!(found, eager.trace(id).unwrap());
            by_trace += found.len();
        }
        assert_eq!(by_trace, records.len());
        let mut words = std::collections::BTreeSet::new();
        for (ordinal, record) in records.iter().enumerate() {
            for (key, text) in record.attributes.iter() {
                let found = lazy.query_attribute(key, text).unwrap();
                assert!(
                    found.iter().any(|record| record.ordinal() == ordinal),
                    "{key}={text}"
                );
            }
            let text = record.content.text().unwrap_or_default();
            words.extend(
                traza::content::tokens(text)
                    .map(std::borrow::Cow::into_owned)
                    .take(3),
            );
            let window = Some(record.timestamp);
            let range = lazy.ordinal_range_for_window(window, window).unwrap();
            assert!(range.contains(&ordinal));
        }
        assert!(words.len() > 50);
        for word in words {
            let query = Query::new(&word);
            let candidates = lazy.content_candidates(&query).unwrap();
            assert_eq!(candidates, eager.content_candidates(&query).unwrap());
            for (ordinal, record) in records.iter().enumerate() {
                let span = Span::from_json(&record.payload).unwrap();
                let is_candidate = candidates.iter().any(|range| range.contains(&ordinal));
                assert!(
                    is_candidate || !query.matches(&span),
                    "{word} in record {ordinal}"
                );
            }
        }
    }
}

#[test]
fn peers_segments_are_intact_as_far_as_their_version_can_prove() {
    for name in NAMES {
        let verdict = |version| verify(&RealFs, &path(version, name)).unwrap();
        assert_eq!(
            verdict(8).verdict,
            Outcome::Intact,
            "{:?}",
            verdict(8).findings
        );
        assert_eq!(
            verdict(7).verdict,
            Outcome::Intact,
            "{:?}",
            verdict(7).findings
        );
        let oldest = verdict(6);
        assert_eq!(oldest.verdict, Outcome::Unproven, "{:?}", oldest.findings);
        assert_eq!(oldest.findings[0].code, "no_checksums");
        assert_eq!(oldest.facts["records"], verdict(8).facts["records"]);
    }
}
