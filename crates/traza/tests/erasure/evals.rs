//! Datasets and experiments through the store: what refers to a payload needs it, and keeps it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use durable::{ManualClock, RealFs};
use durable_sim::SimFs;
use traza::json::{Object, Value};
use traza::logs::eval::record::ExampleBody;
use traza::logs::eval::{EvalError, NewExample, NewVersion, PayloadRefusal};
use traza::payload::{ContentAddress, reference};
use traza::span::Span;
use traza::store::{Store, StoreError, StoreOptions};

use super::support::{NOW, inline, open};

/// A dataset version with the examples `one` and `two`, and an experiment over it. Answers the experiment and the version.
pub(crate) fn experiment(store: &Store, tenant: &str) -> (u64, String) {
    let dataset_id = store.create_dataset(tenant, "cases", NOW).unwrap();
    let examples = [("one", 1u64), ("two", 2)];
    let version = version_of(
        dataset_id,
        examples.map(|(id, input)| (id, Value::from(input))),
    );
    let created = store.create_version(version, |_| Ok(()), NOW).unwrap();
    let experiment_id = store
        .create_experiment(dataset_id, &created.version_id, "run", None, NOW)
        .unwrap();
    (experiment_id, created.version_id)
}

pub(crate) fn version_of<'e>(
    dataset_id: u64,
    examples: impl IntoIterator<Item = (&'e str, Value)>,
) -> NewVersion {
    let example = |(id, input): (&str, Value)| NewExample {
        example_id: id.to_owned(),
        body: ExampleBody {
            input,
            expected: None,
            split: String::new(),
            provenance: None,
        },
    };
    NewVersion {
        dataset_id,
        parent: None,
        provenance: None,
        examples: examples.into_iter().map(example).collect(),
    }
}

fn big_span(text: &str) -> Span {
    Span {
        trace_id: "t".into(),
        span_id: "s".into(),
        start_time_ns: NOW,
        end_time_ns: NOW,
        attributes: Object::from([("text".to_owned(), Value::from(text))]),
        ..Span::default()
    }
}

fn offloading() -> StoreOptions {
    let mut options = inline();
    options.payload_threshold = Some(16);
    options
}

#[test]
fn datasets_experiments_and_runs_are_there_after_reopening() {
    let fs = SimFs::new();
    let store = open(&fs, &inline()).unwrap();
    let (experiment_id, version_id) = experiment(&store, "acme");
    store.add_run(experiment_id, "one", "t", "", NOW).unwrap();
    let refused = store.add_run(experiment_id, "three", "t", "", NOW);
    assert!(matches!(
        refused,
        Err(StoreError::Eval(EvalError::NoExample { .. }))
    ));
    assert!(!store.tombstone_version(1, &version_id, "old", NOW).unwrap());
    assert!(store.tombstone_version(1, &version_id, "old", NOW).unwrap());
    drop(store);
    let store = open(&fs, &inline()).unwrap();
    store.read_evals(|evals| {
        assert_eq!(evals.datasets().count(), 1);
        assert_eq!(evals.runs(experiment_id).len(), 1);
        assert!(evals.tombstone(1, &version_id).is_some());
    });
}

#[test]
fn an_example_may_refer_only_to_a_payload_that_the_store_has_and_that_the_caller_admits() {
    let fs = SimFs::new();
    let store = open(&fs, &offloading()).unwrap();
    let text = "a text of more than sixteen bytes";
    store.ingest(vec![big_span(text)]).unwrap();
    let dataset_id = store.create_dataset("", "cases", NOW).unwrap();
    let create = |text: &str, admitted: Result<(), PayloadRefusal>| {
        let input = reference(text, ContentAddress::of(text.as_bytes()));
        store.create_version(version_of(dataset_id, [("one", input)]), |_| admitted, NOW)
    };
    let refusal = |result| match result {
        Err(StoreError::Eval(EvalError::Payload { refusal, .. })) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refusal(create("never sent", Ok(()))),
        PayloadRefusal::Missing
    );
    let unreachable = Err(PayloadRefusal::Unreachable);
    assert_eq!(
        refusal(create(text, unreachable)),
        PayloadRefusal::Unreachable
    );
    assert!(create(text, Ok(())).unwrap().created);
}

/// On a real disk, which knows when a file was written.
#[test]
fn old_payloads_go_when_neither_a_span_nor_an_example_refers_to_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = offloading();
    options.retention.ttl = Some(Duration::from_secs(100));
    let texts = [
        "referred to by an example",
        "referred to by a span",
        "referred to by nothing",
    ];
    let years_later = 4_000_000_000_000_000_000;
    let open = |wall_ns: u64, options: &StoreOptions| {
        let clock = Arc::new(ManualClock::new(wall_ns, 1_000));
        Store::open_with(
            Arc::new(RealFs),
            clock,
            Path::new(dir.path()),
            options.clone(),
        )
        .unwrap()
    };
    let store = open(NOW, &options);
    for (id, text) in texts.iter().enumerate() {
        let mut span = big_span(text);
        span.span_id = id.to_string().into();
        if id == 1 {
            span.end_time_ns = years_later;
        }
        store.ingest(vec![span]).unwrap();
    }
    let dataset_id = store.create_dataset("", "cases", NOW).unwrap();
    let input = reference(texts[0], ContentAddress::of(texts[0].as_bytes()));
    store
        .create_version(version_of(dataset_id, [("one", input)]), |_| Ok(()), NOW)
        .unwrap();
    assert_eq!(store.expire().unwrap().payloads, 0, "they are new");
    drop(store);
    let store = open(years_later, &options);
    let expired = store.expire().unwrap();
    assert_eq!((expired.buffered_spans, expired.payloads), (2, 1));
    let is_there = |text: &str| {
        let found = store.payload(ContentAddress::of(text.as_bytes())).unwrap();
        found.is_some()
    };
    assert!(is_there(texts[0]) && is_there(texts[1]) && !is_there(texts[2]));
}
