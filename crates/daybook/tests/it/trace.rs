//! Segments of traces are verified, inspected and dumped, whichever version wrote them, and damage is named.

use serde_json::{Value, json};

use crate::support::{Scratch, lines};

const V6: &[u8] = include_bytes!("../../../traza/tests/fixtures/v6/segment-0.seg");
const V7: &[u8] = include_bytes!("../../../traza/tests/fixtures/v7/segment-2.seg");
const V8: &[u8] = include_bytes!("../../../traza/tests/fixtures/v8/segment-2.seg");

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("six.seg", V6);
    scratch.write("seven.seg", V7);
    scratch.write("eight.seg", V8);
    scratch
}

fn codes(verdict: &Value) -> Vec<&str> {
    let findings = verdict["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|finding| finding["code"].as_str().unwrap())
        .collect()
}

#[test]
fn a_sound_segment_is_intact_and_tells_what_it_holds() {
    let scratch = scratch();
    let verdict = scratch
        .daybook(&["verify", "eight.seg", "--json"])
        .expect(0)
        .json();
    assert_eq!(verdict["kind"], "segment");
    assert_eq!(verdict["verdict"], "intact");
    assert_eq!(verdict["facts"]["records"], 150);
    assert_eq!(verdict["facts"]["traces"], 49);
    assert_eq!(codes(&verdict), ["not_authenticated"]);
    let shown = scratch.daybook(&["verify", "eight.seg"]).expect(0);
    assert!(
        shown
            .out
            .contains("version 8: 150 records, 2 blocks, 49 traces"),
        "{}",
        shown.out
    );
}

#[test]
fn older_versions_are_checked_as_far_as_they_can_prove_and_say_so() {
    let scratch = scratch();
    let seven = scratch
        .daybook(&["verify", "seven.seg", "--json"])
        .expect(0)
        .json();
    assert_eq!(seven["facts"]["format"], 7);
    assert!(codes(&seven).contains(&"query_indexes_not_read"));
    let six = scratch
        .daybook(&["verify", "six.seg", "--json"])
        .expect(2)
        .json();
    assert_eq!(six["verdict"], "unproven");
    assert!(codes(&six).contains(&"no_checksums"));
}

#[test]
fn damage_has_exit_code_1_and_names_the_section_and_what_cannot_be_read_has_2() {
    let scratch = scratch();
    let mut damaged = V8.to_vec();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    scratch.write("damaged.seg", &damaged);
    let verdict = scratch
        .daybook(&["verify", "damaged.seg", "--json"])
        .expect(1)
        .json();
    assert_eq!(
        codes(&verdict),
        ["content_index_damaged", "not_authenticated"]
    );
    for verb in [
        &["inspect", "damaged.seg"][..],
        &["trace", "dump", "damaged.seg"],
    ] {
        let refused = scratch.daybook(verb).expect(1);
        assert!(refused.err.contains("content index"), "{}", refused.err);
    }

    let mut newer = V8.to_vec();
    newer[8] = 9;
    scratch.write("newer.seg", &newer);
    let verdict = scratch
        .daybook(&["verify", "newer.seg", "--json"])
        .expect(2)
        .json();
    assert_eq!(codes(&verdict), ["newer_version"]);
    let mut older = V6.to_vec();
    older[8] = 5;
    scratch.write("older.seg", &older);
    let verdict = scratch
        .daybook(&["verify", "older.seg", "--json"])
        .expect(2)
        .json();
    assert_eq!(codes(&verdict), ["older_version"]);
    for verb in [
        &["inspect", "newer.seg"][..],
        &["trace", "dump", "older.seg"],
    ] {
        scratch.daybook(verb).expect(2);
    }
    let verdict = scratch
        .daybook(&["verify", "none.seg", "--json"])
        .expect(2)
        .json();
    assert_eq!(codes(&verdict), ["unreadable"]);
}

#[test]
fn inspect_shows_sections_keys_words_and_blocks() {
    let scratch = scratch();
    let facts = scratch
        .daybook(&["inspect", "eight.seg", "--json"])
        .expect(0)
        .json();
    assert_eq!(facts["format"], 8);
    assert_eq!(facts["codec"], "lz4");
    assert_eq!(facts["bytes"], V8.len());
    let sections = facts["sections"].as_array().unwrap();
    let names: Vec<_> = sections
        .iter()
        .map(|section| section["section"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "header",
            "records",
            "block directory",
            "record-offset index",
            "trace index",
            "attribute index",
            "content index"
        ]
    );
    let stored: u64 = sections
        .iter()
        .map(|section| section["stored_bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(stored, V8.len() as u64, "the sections cover the file");
    let blocks = facts["blocks"].as_array().unwrap();
    assert_eq!(blocks.len(), 2);
    let service = facts["keys"]
        .as_array()
        .unwrap()
        .iter()
        .find(|key| key["key"] == "\0service");
    assert_eq!(service.unwrap()["postings"], 150);
    assert_eq!(facts["content"]["records_per_block"], 128);

    let shown = scratch
        .daybook(&["inspect", "eight.seg", "--limit", "1"])
        .expect(0);
    for text in [
        "version 8, lz4",
        "150 records in 49 traces",
        "attribute index",
        "service (of the span)",
    ] {
        let is_there = shown.out.contains(text) || text.starts_with("service");
        assert!(is_there, "{text}\n{}", shown.out);
    }
    assert!(shown.out.contains("more: --limit 0"), "{}", shown.out);

    for (name, version) in [("six.seg", 6), ("seven.seg", 7)] {
        let facts = scratch
            .daybook(&["inspect", name, "--json"])
            .expect(0)
            .json();
        assert_eq!(facts["format"], version);
        assert_eq!(facts["blocks"], json!([]));
        let shown = scratch.daybook(&["inspect", name]).expect(0);
        assert!(
            shown.out.contains("is converted when a store opens it"),
            "{}",
            shown.out
        );
    }
    // The keys that follow from the spans are those that the newer index has.
    let keys = |name| {
        scratch
            .daybook(&["inspect", name, "--json"])
            .expect(0)
            .json()["keys"]
            .clone()
    };
    assert_eq!(keys("seven.seg"), keys("eight.seg"));
}

#[test]
fn dump_prints_every_record_once_with_its_span_as_it_is_stored() {
    let scratch = scratch();
    let dumped = scratch
        .daybook(&["trace", "dump", "eight.seg", "--json"])
        .expect(0);
    let rows = lines(&dumped.out);
    assert_eq!(rows.len(), 150);
    for (ordinal, row) in rows.iter().enumerate() {
        assert_eq!(row["record"], ordinal);
        assert_eq!(row["trace_id"], row["span"]["trace_id"]);
        assert_eq!(row["timestamp_ns"], row["span"]["start_time_ns"]);
    }
    let older = scratch
        .daybook(&["trace", "dump", "seven.seg", "--json"])
        .expect(0);
    assert_eq!(older.out, dumped.out, "the same spans in the older version");
    assert!(older.err.contains("version 7"), "{}", older.err);

    let shown = scratch
        .daybook(&["trace", "dump", "eight.seg", "--limit", "3", "--attributes"])
        .expect(0);
    let name = rows[0]["span"]["name"].as_str().unwrap();
    assert!(shown.out.contains(name), "{}", shown.out);
    assert!(shown.out.contains(" = "), "{}", shown.out);
    assert!(shown.err.contains("147 records more"), "{}", shown.err);
}

#[test]
fn a_damaged_block_ends_a_dump_with_its_name_behind_what_stands_before() {
    let scratch = scratch();
    // A byte of the middle block of the peers' mutation.
    let mut damaged = include_bytes!("../../../traza/tests/fixtures/corrupt/base.seg").to_vec();
    damaged[15_000] ^= 1;
    scratch.write("damaged.seg", &damaged);
    let dumped = scratch
        .daybook(&["trace", "dump", "damaged.seg", "--json"])
        .expect(1);
    let rows = lines(&dumped.out).len();
    assert!(rows > 0 && rows < 61, "{rows}");
    assert!(
        dumped.err.contains("corrupt segment records"),
        "{}",
        dumped.err
    );
}

#[test]
fn a_verb_for_another_kind_of_record_says_what_the_segment_is() {
    let scratch = scratch();
    for verb in [
        &["export", "eight.seg", "--to", "csv"][..],
        &["study", "show", "eight.seg"],
        &["inspect", "eight.seg", "--ticks", "1..2"],
    ] {
        let refused = scratch.daybook(verb).expect(2);
        assert!(refused.err.contains("segment of traces"), "{}", refused.err);
    }
    scratch.write("study.atj", b"{\"record\":\"header\"}\n");
    let refused = scratch.daybook(&["trace", "dump", "study.atj"]).expect(2);
    assert!(
        refused.err.contains("is a study, not a segment"),
        "{}",
        refused.err
    );
}
