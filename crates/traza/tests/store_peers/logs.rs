//! Annotations, datasets, experiments, payloads and erasures, against the answers of the peer.

use std::path::Path;

use durable::digest::{hex, sha256};
use durable::{RealFs, read_all};
use durable_sim::SimFs;
use serde_json::{Map, Value, json};
use traza::logs::annotation::Annotation;
use traza::logs::eval::EvalState;
use traza::logs::eval::record::{Dataset, Experiment, Run};
use traza::logs::tombstone::Erasure;
use traza::payload::ContentAddress;
use traza::store::{AnnotationFilter, Store};

use super::answers::{DIR, copy, open_on};
use super::question::fixtures;

/// The store of this name, with the payloads of all of them.
fn open(name: &str) -> Store {
    let from = match name {
        "store" => fixtures().join("0.26"),
        name => fixtures().parent().unwrap().join(name),
    };
    let fs = SimFs::new();
    copy(&from, &fs, Path::new(DIR));
    if name == "store" {
        for path in durable::Fs::read_dir(&RealFs, &fixtures().join("payloads")).unwrap() {
            let blob = path.file_name().unwrap().to_str().unwrap();
            let shard = Path::new(DIR).join("payloads").join(&blob[..2]);
            durable::create_folder(&fs, &shard).unwrap();
            let bytes = read_all(&RealFs, &path, 1 << 20).unwrap();
            durable::publish(&fs, &shard.join(blob), &bytes).unwrap();
        }
    }
    open_on(fs)
}

fn insert(value: &mut Value, name: &str, text: &str) {
    if !text.is_empty() {
        value[name] = json!(text);
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn annotation(annotation: &Annotation) -> Value {
    let mut shown = json!({
        "trace_id": annotation.trace_id, "span_id": annotation.span_id, "name": annotation.name,
        "value": parsed(&annotation.value.to_string()), "source": annotation.source,
        "comment": annotation.comment, "timestamp_ns": annotation.timestamp_ns,
    });
    insert(&mut shown, "tenant", &annotation.tenant);
    insert(&mut shown, "session_id", &annotation.session_id);
    insert(&mut shown, "example_id", &annotation.example_id);
    if let Some(experiment) = annotation.experiment_id {
        shown["experiment_id"] = json!(experiment);
    }
    shown
}

fn annotations(found: &[Annotation]) -> Vec<Value> {
    found.iter().map(annotation).collect()
}

fn dataset(state: &EvalState, dataset: &Dataset) -> Value {
    let versions = state.versions(dataset.dataset_id).iter().map(|version| {
        let tombstone = state.tombstone(version.dataset_id, &version.version_id);
        let mut shown = json!({
            "version_id": version.version_id, "examples": version.examples.len(),
            "tombstoned": tombstone.is_some(),
        });
        insert(
            &mut shown,
            "parent",
            version.parent.as_deref().unwrap_or_default(),
        );
        shown
    });
    let mut shown = json!({
        "schema": 1, "dataset_id": dataset.dataset_id, "name": dataset.name,
        "versions": versions.collect::<Vec<_>>(),
    });
    insert(&mut shown, "tenant", &dataset.tenant);
    shown
}

fn experiment(state: &EvalState, experiment: &Experiment) -> Value {
    let (id, version) = (experiment.dataset_id, &experiment.dataset_version);
    let mut shown = json!({
        "schema": 1, "experiment_id": experiment.experiment_id, "dataset_id": id,
        "dataset_version": version,
        "dataset_version_deleted": state.tombstone(id, version).is_some(),
        "run_count": state.runs(experiment.experiment_id).len(),
    });
    insert(&mut shown, "tenant", &experiment.tenant);
    insert(&mut shown, "name", &experiment.name);
    if let Some(config) = &experiment.config {
        shown["config"] = parsed(&config.to_string());
    }
    shown
}

fn run(run: &Run) -> Value {
    let mut shown = json!({
        "schema": 1, "experiment_id": run.experiment_id, "example_id": run.example_id,
        "trace_id": run.trace_id,
    });
    insert(&mut shown, "tenant", &run.tenant);
    insert(&mut shown, "span_id", &run.span_id);
    shown
}

fn summary(store: &Store, id: u64) -> Value {
    let found = store.summarise_experiment(id).unwrap();
    let scores = found.scores.iter().map(|score| {
        let mut shown = json!({
            "name": score.name, "count": score.examples, "examples_scored": score.examples,
        });
        if let Some(numbers) = score.numbers {
            shown["mean"] = json!(numbers.mean);
            shown["min"] = json!(numbers.min);
            shown["max"] = json!(numbers.max);
            shown["p50"] = json!(numbers.p50);
            shown["p95"] = json!(numbers.p95);
        }
        if let Some(rate) = score.true_rate {
            shown["true_rate"] = json!(rate);
        }
        shown
    });
    json!({
        "experiment_id": id, "examples_total": found.examples_total,
        "scores": scores.collect::<Vec<_>>(),
    })
}

fn erasure(erasure: &Erasure) -> Value {
    let scope = &erasure.scope;
    let keys = scope.span_keys.iter();
    let keys = keys.map(|key| json!([key.tenant, key.trace_id, key.span_id]));
    let settle = erasure.settle.as_ref().map(|settle| {
        let retained = settle
            .payloads_retained
            .iter()
            .map(|retained| json!({ "reference": retained.reference, "reason": retained.reason }));
        json!({
            "schema": 2, "id": erasure.id, "spans_removed": settle.spans_removed,
            "spans_redacted": settle.spans_redacted,
            "annotations_removed": settle.annotations_removed,
            "payloads_removed": settle.payloads_removed,
            "payloads_retained": retained.collect::<Vec<_>>(),
            "eval_records_removed": settle.eval_records_removed,
        })
    });
    let mut shown = json!({
        "schema": 2, "id": erasure.id, "subject": parsed(&scope.subject.to_json()),
        "span_keys": keys.collect::<Vec<_>>(), "payload_refs": scope.payload_refs,
        "settle": settle,
    });
    for (name, ids) in [
        ("eval_datasets", &scope.eval_datasets),
        ("eval_experiments", &scope.eval_experiments),
    ] {
        if !ids.is_empty() {
            shown[name] = json!(ids);
        }
    }
    shown
}

fn filter(query: &Value) -> AnnotationFilter {
    let mut filter = AnnotationFilter::default();
    for pair in query.as_array().unwrap() {
        let value = pair[1].as_str().unwrap();
        let owned = Some(value.to_owned());
        match pair[0].as_str().unwrap() {
            "trace_id" => filter.trace_id = owned,
            "source" => filter.source_prefix = owned,
            "session_id" => filter.session_id = owned,
            "tenant" => filter.tenant = owned,
            "limit" => filter.limit = Some(value.parse().unwrap()),
            "since" => filter.since = Some(value.parse().unwrap()),
            other => panic!("no parameter {other}"),
        }
    }
    filter
}

/// The answer to a case; `None` where there is nothing of that name.
fn answer(store: &Store, case: &Value) -> Option<Value> {
    let path = case["path"].as_str().unwrap();
    let parts: Vec<&str> = path.trim_start_matches("/v1/").split('/').collect();
    Some(match parts.as_slice() {
        ["annotations"] => {
            let found = store.annotations(&filter(&case["query"]));
            json!({ "annotations": annotations(&found) })
        }
        ["datasets"] => store.read_evals(|state| {
            let found = state.datasets().map(|each| dataset(state, each));
            json!({ "datasets": found.collect::<Vec<_>>() })
        }),
        ["experiments"] => store.read_evals(|state| {
            let found = state.experiments().map(|each| experiment(state, each));
            json!({ "experiments": found.collect::<Vec<_>>() })
        }),
        ["experiments", id, "summary"] => summary(store, id.parse().unwrap()),
        ["experiments", id, "scores"] => {
            let found = store.experiment_scores(id.parse().unwrap())?;
            json!({ "scores": annotations(&found) })
        }
        ["experiments", id, "runs"] => store.read_evals(|state| {
            let found = state.runs(id.parse().unwrap()).iter().map(run);
            json!({ "runs": found.collect::<Vec<_>>() })
        }),
        ["payloads", scheme, digits] => {
            let address: ContentAddress = format!("{scheme}/{digits}").parse().ok()?;
            let content = store.payload(address).unwrap()?;
            json!({ "bytes": content.len(), "sha256": hex(&sha256(&content)) })
        }
        ["erasures"] => {
            let found = store.erasures();
            json!({ "erasures": found.iter().map(erasure).collect::<Vec<_>>() })
        }
        ["erasures", id] => {
            let id: u64 = id.parse().unwrap();
            let found = store.erasures().into_iter().find(|each| each.id == id)?;
            erasure(&found)
        }
        other => panic!("no answer for {other:?}"),
    })
}

#[test]
fn what_stands_beside_the_spans_is_answered_as_the_peer_did() {
    let bytes = read_all(&RealFs, &fixtures().join("expected-logs.json"), 1 << 20).unwrap();
    let stores: Map<String, Value> = serde_json::from_slice(&bytes).unwrap();
    let mut compared = 0;
    let mut wrong = Vec::new();
    for (name, cases) in &stores {
        let store = open(name);
        for case in cases.as_array().unwrap() {
            let found = answer(&store, case);
            let wanted = case.get("body");
            if found.as_ref() != wanted {
                wrong.push(format!(
                    "{name} {}\n  found  {found:?}\n  wanted {wanted:?}",
                    case["id"]
                ));
            }
            assert_eq!(wanted.is_some(), case["status"] == 200);
            compared += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 40, "{compared}");
}
