//! What a server asks of a store beyond answers: what was acknowledged, what it counts, whether its files are as they were.

use std::path::Path;
use std::time::Duration;

use durable::{Access, Fs as _, read_all};
use durable_sim::SimFs;
use traza::logs::tombstone::Subject;
use traza::span::{Span, SpanError};
use traza::store::{Durability, StoreError, verify as verify_store};

use super::support::{DIR, Random, inline, open, span};

fn spans(count: u64) -> Vec<Span> {
    let mut random = Random(7);
    (0..count)
        .map(|at| Span {
            trace_id: "t".into(),
            span_id: at.to_string().into(),
            ..span(&mut random, at)
        })
        .collect()
}

#[test]
fn what_is_acknowledged_is_shown_as_it_was_stored() {
    for durability in [Durability::Buffered, Durability::Wal, Durability::Flushed] {
        let mut options = inline();
        options.durability = durability;
        options.payload_threshold = Some(4);
        let store = open(&SimFs::new(), &options).unwrap();
        let mut sent = spans(3);
        sent[0]
            .attributes
            .insert("long".to_owned(), "more than four".into());
        let mut shown = Vec::new();
        store
            .ingest_and(sent, |spans| shown.extend_from_slice(spans))
            .unwrap();
        assert_eq!(shown.len(), 3);
        assert!(shown[0].attributes["long"].as_object().is_some());
        for span in shown {
            let found = store.get_trace("t", Some(&span.tenant)).unwrap();
            assert!(found.contains(&span), "{durability:?}");
        }
    }
}

#[test]
fn a_batch_that_is_refused_is_not_shown() {
    let store = open(&SimFs::new(), &inline()).unwrap();
    let mut sent = spans(2);
    sent[1].span_id.clear();
    let refused = store.ingest_and(sent, |_| panic!("shown"));
    assert!(matches!(refused, Err(StoreError::Span { index: 1, .. })));
}

#[test]
fn what_is_being_erased_is_hidden_until_it_is_gone() {
    let store = open(&SimFs::new(), &inline()).unwrap();
    store.ingest(spans(2)).unwrap();
    let of = |tenant: &str| Span {
        tenant: tenant.into(),
        ..spans(1).remove(0)
    };
    let subject = Subject::Trace {
        trace_id: "t".to_owned(),
        tenant: String::new(),
    };
    assert!(!store.hides(&of("")));
    store.erase(subject, 1).unwrap();
    assert!(store.hides(&of("")) && !store.hides(&of("acme")));
    store.resume_erasures().unwrap();
    assert!(!store.hides(&of("")));
}

#[test]
fn a_store_counts_what_it_takes_in_seals_merges_and_erases() {
    let store = open(&SimFs::new(), &inline()).unwrap();
    for _ in 0..4 {
        store.ingest(spans(5)).unwrap();
        store.flush().unwrap();
    }
    store.compact().unwrap();
    let tenant = spans(1).remove(0).tenant;
    let subject = Subject::Trace {
        trace_id: "t".to_owned(),
        tenant: tenant.into(),
    };
    store.erase(subject, 1).unwrap();
    store.resume_erasures().unwrap();
    let metrics = store.metrics();
    for (name, value) in [
        ("traza_spans_admitted_total", 20),
        ("traza_batches_admitted_total", 4),
        ("traza_wal_commits_total", 4),
        ("traza_segment_seal_spans_total", 20),
        ("traza_segment_merges_total", 1),
        ("traza_segments_merged_away_total", 4),
        ("traza_erasures_settled_total", 1),
    ] {
        assert_eq!(metrics.counter(name), Some(value), "{name}");
    }
    assert!(metrics.counter("traza_erasure_spans_removed_total") > Some(0));
    for name in [
        "traza_wal_fsync",
        "traza_buffer_upsert",
        "traza_wal_write_syscall",
    ] {
        assert_eq!(metrics.stage(name).unwrap().durations.count(), 4, "{name}");
    }
    assert_eq!(
        metrics
            .stage("traza_segment_seal")
            .unwrap()
            .durations
            .count(),
        4
    );
}

#[test]
fn a_generation_is_intact_through_merges_and_names_the_file_that_is_not() {
    let fs = SimFs::new();
    let store = open(&fs, &inline()).unwrap();
    for _ in 0..3 {
        store.ingest(spans(5)).unwrap();
        store.flush().unwrap();
    }
    let generation = store.checkpoint().unwrap();
    let check = store.verify_generation().unwrap();
    assert_eq!((check.generation, check.problems), (generation, Vec::new()));
    store.ingest(spans(5)).unwrap();
    store.flush().unwrap();
    store.compact().unwrap();
    assert_eq!(store.stats().segments, 1);
    // The files of the manifest are merged away, which is no damage.
    assert_eq!(
        store.verify_generation().unwrap().problems,
        Vec::<String>::new()
    );
    let generation = store.checkpoint().unwrap();
    let manifest = store.manifest().unwrap();
    let of_segment = |path: &str| Path::new(path).extension().is_some_and(|e| e == "seg");
    let file = manifest.files.iter().find(|f| of_segment(&f.path)).unwrap();
    let path = Path::new(DIR).join(&file.path);
    let whole = read_all(&fs, &path, 1 << 20).unwrap();
    let put = |bytes: &[u8]| {
        fs.remove_file(&path).ok();
        let mut new = fs.create_new(&path, Access::Shared).unwrap();
        new.append(bytes).unwrap();
    };
    let problem = || {
        let check = store.verify_generation().unwrap();
        assert_eq!(check.generation, generation);
        check.problems.join("\n")
    };
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    put(&flipped);
    assert_eq!(problem(), format!("{}: digest mismatch", file.path));
    put(&whole[..whole.len() - 1]);
    let lens = format!(
        "{} bytes on disk, {} in the manifest",
        whole.len() - 1,
        whole.len()
    );
    assert_eq!(problem(), format!("{}: {lens}", file.path));
    fs.remove_file(&path).unwrap();
    assert_eq!(problem(), format!("{}: missing", file.path));
    put(&whole);
    assert_eq!(problem(), "");
    assert!(verify_store(&fs, Path::new(DIR)).is_ok());
}

#[test]
fn a_pin_is_checked_against_its_own_manifest() {
    let fs = SimFs::new();
    let store = open(&fs, &inline()).unwrap();
    store.ingest(spans(5)).unwrap();
    store.pin("kept").unwrap();
    assert_eq!(
        store.verify_pin("kept").unwrap().problems,
        Vec::<String>::new()
    );
    for label in ["..", "", "a/b", ".x"] {
        let refused = store.verify_pin(label);
        assert!(
            matches!(refused, Err(StoreError::Invalid { .. })),
            "{label}"
        );
    }
}

#[test]
fn the_lookup_of_a_trace_has_a_deadline() {
    let store = open(&SimFs::new(), &inline()).unwrap();
    store.ingest(spans(600)).unwrap();
    // The clock of these stores moves with every look at it.
    let refused = store
        .snapshot()
        .within(Duration::from_nanos(1))
        .get_trace("t", None);
    assert!(matches!(refused, Err(StoreError::Deadline { .. })));
    assert_eq!(store.get_trace("t", None).unwrap().len(), 600);
}

#[test]
fn a_request_is_an_array_of_spans_or_an_object_with_one() {
    let span = r#"{"trace_id":"t","span_id":"s","name":"","start_ns":1,"end_ns":2,"service":""}"#;
    for body in [
        format!(" [{span}]"),
        format!("{{\"more\":[1],\"spans\":[{span}]}}"),
    ] {
        assert_eq!(Span::body_from_json(body.as_bytes()).unwrap().len(), 1);
    }
    for body in ["", "   ", "7", "\"x\"", "null"] {
        let refused = Span::body_from_json(body.as_bytes());
        assert_eq!(refused, Err(SpanError::Shape), "{body}");
    }
    for body in ["{}", "[", "{\"spans\":[]}{}", "[]x"] {
        assert!(Span::body_from_json(body.as_bytes()).is_err(), "{body}");
    }
}
