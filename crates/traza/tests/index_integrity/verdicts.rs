//! `verify` finds what an index hides, also behind checksums that were made true again.

use durable::{Outcome, RealFs, Severity, Verdict, publish};
use traza::segment::{Codec, Result, Section, encode_with_codec, verify};

use super::corpus::{records, segment, wide_segment};
use super::forge::{Forge, put};

fn verdict(bytes: &[u8]) -> Result<Verdict> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("segment.seg");
    publish(&RealFs, &path, bytes).unwrap();
    verify(&RealFs, &path)
}

/// Codes of everything that weighs more than a note.
fn codes(verdict: &Verdict) -> Vec<&'static str> {
    let grave = verdict
        .findings
        .iter()
        .filter(|f| f.severity > Severity::Note);
    grave.map(|finding| finding.code).collect()
}

#[test]
fn sound_segments_are_intact_and_their_facts_are_those_of_the_records() {
    for codec in [Codec::Lz4, Codec::Raw, Codec::Zstd] {
        let verdict = verdict(&segment(codec)).unwrap();
        assert_eq!(verdict.verdict, Outcome::Intact, "{:?}", verdict.findings);
        assert_eq!(verdict.facts["records"], 14);
        assert_eq!(verdict.facts["traces"], 4);
        assert_eq!(verdict.facts["first_timestamp_ns"], 1000);
    }
    assert_eq!(verdict(&wide_segment().1).unwrap().verdict, Outcome::Intact);
    let empty = traza::segment::encode(&[]).unwrap();
    assert_eq!(verdict(&empty).unwrap().verdict, Outcome::Intact);
}

#[test]
fn an_entry_that_was_taken_out_of_an_index_is_found_behind_true_checksums() {
    for (section, code) in [
        (Section::TraceIndex, "record_not_in_trace_index"),
        (Section::AttributeIndex, "record_not_in_attribute_index"),
    ] {
        let mut forged = Forge::of(&segment(Codec::Lz4));
        let body = match section {
            Section::TraceIndex => vec![0],
            _ => vec![0, 0],
        };
        forged.set_body(section, &body);
        let verdict = verdict(&forged.build()).unwrap();
        assert_eq!(verdict.verdict, Outcome::Damaged);
        assert!(codes(&verdict).contains(&code), "{:?}", verdict.findings);
    }
}

#[test]
fn a_posting_to_a_record_that_does_not_belong_there_is_found_behind_true_checksums() {
    let mut forged = Forge::of(&segment(Codec::Lz4));
    forged.change_body(Section::TraceIndex, |body| {
        body[0] += 1;
        put(7, body);
        body.extend_from_slice(b"zzz-new");
        put(1, body);
        put(0, body);
    });
    let verdict = verdict(&forged.build()).unwrap();
    assert_eq!(codes(&verdict), ["stray_trace_posting"]);
}

#[test]
fn a_word_that_the_filters_do_not_admit_is_found_behind_true_checksums() {
    let (_, sound) = wide_segment();
    let mut forged = Forge::of(&sound);
    forged.change_body(Section::ContentIndex, |body| body[32..64].fill(0));
    assert!(codes(&verdict(&forged.build()).unwrap()).contains(&"word_not_admitted"));
    // The last row, with its page checksum made true.
    let mut forged = Forge::of(&sound);
    forged.change_body(Section::ContentIndex, |body| {
        let geometry = traza::segment::Segment::from_bytes(sound.clone())
            .unwrap()
            .content_geometry()
            .unwrap();
        let place = |at: u64| usize::try_from(at).unwrap();
        let pages_at = 32 + place(geometry.summary_len());
        let rows_at = pages_at + 4 * place(geometry.page_count());
        body[rows_at..].fill(0);
        for page in 0..place(geometry.page_count()) {
            let start = rows_at + page * 4096;
            let end = (start + 4096).min(body.len());
            let crc = durable::checksum::crc32(&body[start..end]);
            body[pages_at + 4 * page..][..4].copy_from_slice(&crc.to_le_bytes());
        }
    });
    let verdict = verdict(&forged.build()).unwrap();
    assert!(
        codes(&verdict).contains(&"word_not_admitted"),
        "{:?}",
        verdict.findings
    );
}

#[test]
fn records_whose_indexed_values_do_not_follow_from_their_spans_are_found() {
    let mut wrong = records();
    wrong[3].attributes = [("model", "\"another\"")].into_iter().collect();
    let verdict_of =
        |records: &[_]| verdict(&encode_with_codec(records, Codec::Lz4).unwrap()).unwrap();
    assert_eq!(codes(&verdict_of(&wrong)), ["pairs_contradict_span"]);
    let mut wrong = records();
    wrong[3].trace_id = "another".to_owned();
    assert_eq!(codes(&verdict_of(&wrong)), ["record_contradicts_span"]);
    let mut wrong = records();
    wrong[3].payload = b"{}".to_vec();
    let verdict = verdict_of(&wrong);
    assert_eq!(verdict.verdict, Outcome::Unproven);
    assert_eq!(codes(&verdict), ["payload_is_no_span"]);
}

#[test]
fn one_damaged_section_does_not_hide_another_and_a_damaged_block_not_the_others() {
    let sound = segment(Codec::Lz4);
    let parts = traza::segment::Segment::from_bytes(sound.clone()).unwrap();
    let header = *parts.header();
    let place = |at: u64| usize::try_from(at).unwrap();
    let mut bytes = sound.clone();
    bytes[place(header.trace_offset) + 20] ^= 1;
    bytes[place(header.content_offset) + 20] ^= 1;
    assert_eq!(
        codes(&verdict(&bytes).unwrap()),
        ["trace_index_damaged", "content_index_damaged"]
    );
    let mut bytes = sound;
    bytes[place(header.records_offset) + 5] ^= 1;
    let verdict = verdict(&bytes).unwrap();
    assert_eq!(
        codes(&verdict),
        ["records_damaged"],
        "{:?}",
        verdict.findings
    );
}

#[test]
fn what_no_decoder_is_there_for_is_an_error_and_no_verdict() {
    let mut bytes = segment(Codec::Lz4);
    bytes[8] = 9;
    assert!(verdict(&bytes).is_err());
    assert!(verdict(b"something else").is_err());
}
