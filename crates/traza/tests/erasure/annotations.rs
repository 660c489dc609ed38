//! Annotations: found by what they are about, durable when they are acknowledged, and gone when their time is over.

use std::path::Path;
use std::time::Duration;

use durable::{Access, Fs as _};
use durable_sim::{BoxError, Image, Ledger, SimFs, Sweep};
use traza::logs::annotation::AppendError;
use traza::logs::eval::EvalError;
use traza::logs::file::Healed;
use traza::store::{Annotated, AnnotationFilter, Store, StoreError};

use super::evals::experiment;
use super::support::{DIR, NOW, annotation, inline, open};

fn names(store: &Store, filter: &AnnotationFilter) -> Vec<String> {
    let found = store.annotations(filter).into_iter();
    found.map(|annotation| annotation.name).collect()
}

/// A filter with one condition.
fn with(set: impl FnOnce(&mut AnnotationFilter)) -> AnnotationFilter {
    let mut filter = AnnotationFilter::default();
    set(&mut filter);
    filter
}

#[test]
fn annotations_are_found_by_what_they_are_about_the_newest_first_also_after_reopening() {
    let fs = SimFs::new();
    let store = open(&fs, &inline()).unwrap();
    let (experiment_id, _) = experiment(&store, "");
    for json in [
        r#"{"trace_id":"t","name":"a","value":1,"timestamp_ns":5,"source":"human:ann"}"#,
        r#"{"trace_id":"t","span_id":"s","name":"b","value":1,"timestamp_ns":9,"source":"eval:x"}"#,
        r#"{"session_id":"chat","name":"c","value":1,"timestamp_ns":7}"#,
        r#"{"trace_id":"t","tenant":"acme","name":"d","value":1,"timestamp_ns":5}"#,
    ] {
        assert_eq!(
            store.annotate(annotation(json)).unwrap(),
            Annotated::Recorded
        );
    }
    let score = format!(
        r#"{{"experiment_id":{experiment_id},"example_id":"one","trace_id":"t","name":"e","value":true}}"#
    );
    store.annotate(annotation(&score)).unwrap();
    drop(store);
    let store = open(&fs, &inline()).unwrap();
    assert_eq!(
        names(&store, &AnnotationFilter::default()),
        ["b", "c", "a", "d", "e"]
    );
    let is = |filter: AnnotationFilter, wanted: &[&str]| assert_eq!(names(&store, &filter), wanted);
    is(
        with(|f| f.trace_id = Some("t".into())),
        &["b", "a", "d", "e"],
    );
    is(with(|f| f.span_id = Some("s".into())), &["b"]);
    is(with(|f| f.session_id = Some("chat".into())), &["c"]);
    is(with(|f| f.experiment_id = Some(experiment_id)), &["e"]);
    is(with(|f| f.example_id = Some("one".into())), &["e"]);
    is(with(|f| f.tenant = Some("acme".into())), &["d"]);
    is(
        with(|f| f.tenant = Some(String::new())),
        &["b", "c", "a", "e"],
    );
    is(with(|f| f.source_prefix = Some("human:".into())), &["a"]);
    is(
        with(|f| (f.since, f.until) = (Some(5), Some(7))),
        &["c", "a", "d"],
    );
    is(with(|f| f.limit = Some(2)), &["b", "c"]);
    is(with(|f| f.name = Some("nothing".into())), &[]);
    let of_trace = store.trace_annotations("t", None).into_iter();
    let of_trace: Vec<_> = of_trace.map(|each| each.name).collect();
    assert_eq!(of_trace, ["a", "b", "d", "e"], "in the order of recording");
    assert_eq!(store.trace_annotations("t", Some("acme")).len(), 1);
}

#[test]
fn an_annotation_that_is_not_valid_or_scores_nothing_is_refused() {
    let fs = SimFs::new();
    let store = open(&fs, &inline()).unwrap();
    let (experiment_id, _) = experiment(&store, "acme");
    let nameless = store.annotate(annotation(r#"{"trace_id":"t","name":"","value":1}"#));
    assert!(matches!(
        nameless,
        Err(StoreError::Annotation(AppendError::Fault(_)))
    ));
    let score = |id: u64, tenant: &str, example: &str| {
        let json = format!(
            r#"{{"experiment_id":{id},"example_id":"{example}","tenant":"{tenant}","name":"n","value":1}}"#
        );
        store.annotate(annotation(&json))
    };
    let refused = |result| match result {
        Err(StoreError::Eval(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(
        refused(score(99, "acme", "one")),
        EvalError::NoExperiment(99)
    ));
    assert!(matches!(
        refused(score(experiment_id, "", "one")),
        EvalError::ForeignExperiment(_)
    ));
    assert!(matches!(
        refused(score(experiment_id, "acme", "three")),
        EvalError::NoExample { .. }
    ));
    score(experiment_id, "acme", "one").unwrap();
    assert_eq!(store.annotations(&AnnotationFilter::default()).len(), 1);
}

#[test]
fn annotations_expire_by_tenant_and_scores_stay() {
    let fs = SimFs::new();
    let mut options = inline();
    options.retention.ttl = Some(Duration::from_secs(100));
    let tenants = &mut options.retention.tenants;
    tenants.insert("keeper".to_owned(), None);
    let store = open(&fs, &options).unwrap();
    let (experiment_id, _) = experiment(&store, "");
    let old = NOW - 200_000_000_000;
    for json in [
        format!(r#"{{"trace_id":"t","name":"old","value":1,"timestamp_ns":{old}}}"#),
        format!(r#"{{"trace_id":"t","name":"new","value":1,"timestamp_ns":{NOW}}}"#),
        format!(
            r#"{{"trace_id":"t","tenant":"keeper","name":"kept","value":1,"timestamp_ns":{old}}}"#
        ),
        format!(
            r#"{{"experiment_id":{experiment_id},"example_id":"one","name":"score","value":1,"timestamp_ns":{old}}}"#
        ),
    ] {
        store.annotate(annotation(&json)).unwrap();
    }
    assert_eq!(store.expire().unwrap().annotations, 1);
    assert_eq!(store.expire().unwrap().annotations, 0);
    drop(store);
    let store = open(&fs, &options).unwrap();
    assert_eq!(
        names(&store, &AnnotationFilter::default()),
        ["new", "score", "kept"]
    );
}

#[test]
fn what_a_crash_left_of_an_annotation_is_cut_off_and_reported() {
    let fs = SimFs::new();
    drop(open(&fs, &inline()).unwrap());
    let path = Path::new(DIR).join("annotations.jsonl");
    let mut file = fs.create_new(&path, Access::Shared).unwrap();
    file.append(b"{\"trace_id\":\"t\",\"na").unwrap();
    drop(file);
    let store = open(&fs, &inline()).unwrap();
    let healed = store.opened().healed_logs.annotations;
    assert!(
        matches!(healed, Some(Healed::TornTail { line: 1, .. })),
        "{healed:?}"
    );
}

/// Annotates, ingests nothing, and stops.
fn annotate_some(fs: &SimFs, ledger: &mut Ledger<u64>) -> Result<(), BoxError> {
    let mut store: Option<Store> = None;
    let mut failed = None;
    for number in 0..4 {
        let at = match &store {
            Some(store) => store,
            None => match open(fs, &inline()) {
                Ok(opened) => store.insert(opened),
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            },
        };
        ledger.submit(number);
        let json = format!(r#"{{"trace_id":"t","name":"n","value":{number}}}"#);
        match at.annotate(annotation(&json)) {
            Ok(_) => ledger.acknowledge(number),
            Err(error) => failed = Some(error),
        }
        if number == 1 {
            at.checkpoint()?;
            drop(store.take());
        }
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}

fn check(image: &Image, ledger: &Ledger<u64>) -> Result<(), BoxError> {
    let store = open(&image.fs, &inline())?;
    let found = store.trace_annotations("t", None);
    let values: Vec<u64> = found
        .iter()
        .filter_map(|each| each.value.as_u64())
        .collect();
    ledger.check_in_order(&values)?;
    store.annotate(annotation(r#"{"trace_id":"t","name":"n","value":9}"#))?;
    store.checkpoint()?;
    Ok(())
}

#[test]
fn acknowledged_annotations_survive_a_crash_and_a_failure_at_every_call() {
    let sweep = Sweep::default().seeded_images(2);
    let swept = sweep.for_each_crash(annotate_some, check).unwrap();
    assert!(swept.calls > 30, "{swept:?}");
    sweep.for_each_failure(annotate_some, check).unwrap();
}
