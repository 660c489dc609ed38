//! Datasets, experiments and scores.

use serde_json::{Value, json};

use crate::support::{Server, texts};

fn example(id: &str, input: &Value) -> Value {
    json!({"example_id": id, "input": input})
}

/// A dataset with a version of two examples.
fn dataset(server: &Server) -> (u64, String) {
    let id = server.post_json("/v1/datasets", &json!({"name": "d"}))["dataset_id"]
        .as_u64()
        .unwrap();
    let body = json!({"examples": [example("e2", &json!({"q": 2})), example("e1", &json!("text"))], "provenance": {"by": "hand"}});
    let version = server.post_json(&format!("/v1/datasets/{id}/versions"), &body);
    assert_eq!(
        (&version["examples"], &version["created"]),
        (&json!(2), &json!(true))
    );
    (id, version["version_id"].as_str().unwrap().to_owned())
}

fn experiment(server: &Server, dataset: u64, version: &str) -> u64 {
    let body = json!({"dataset_id": dataset, "dataset_version": version, "name": "x", "config": {"t": 0.5}});
    server.post_json("/v1/experiments", &body)["experiment_id"]
        .as_u64()
        .unwrap()
}

fn score(server: &Server, experiment: u64, example: &str, name: &str, value: &Value, at: u64) {
    let body = json!({"experiment_id": experiment, "example_id": example, "name": name, "value": value, "timestamp_ns": at});
    server.post_json("/v1/annotations", &body);
}

#[test]
fn a_version_is_named_by_its_content_and_kept_across_a_crash() {
    let server = Server::start();
    let (id, version) = dataset(&server);
    assert_eq!(id, 1);
    assert_eq!(version.len(), 64);
    let versions = format!("/v1/datasets/{id}/versions");
    let same = json!({"examples": [example("e1", &json!("text")), example("e2", &json!({"q": 2}))], "provenance": {"by": "other"}});
    let again = server.post_json(&versions, &same);
    assert_eq!(
        (&again["version_id"], &again["created"]),
        (&json!(version), &json!(false))
    );
    let child = server.post_json(
        &versions,
        &json!({"parent": version, "examples": [example("e3", &Value::Null)]}),
    );
    let child = child["version_id"].as_str().unwrap().to_owned();
    let server = server.crash_and_restart();
    let seen = server.json(&format!("/v1/datasets/{id}"));
    assert_eq!(
        (&seen["schema"], &seen["name"], seen.get("tenant")),
        (&json!(1), &json!("d"), None)
    );
    assert_eq!(
        texts(seen["versions"].as_array().unwrap(), "version_id"),
        [version.clone(), child.clone()]
    );
    assert_eq!(seen["versions"][1]["parent"], version);
    let whole = server.json(&format!("{versions}/{version}"));
    assert_eq!(whole["provenance"], json!({"by": "hand"}));
    assert_eq!(
        texts(whole["bodies"].as_array().unwrap(), "example_id"),
        ["e1", "e2"]
    );
    assert_eq!(whole["bodies"][1]["body"], json!({"input": {"q": 2}}));
    assert_eq!(
        whole["examples"][0],
        json!(["e1", whole["bodies"][0]["digest"]])
    );
    let whole = server.json(&format!("{versions}/{child}"));
    assert_eq!(whole["bodies"][0]["body"], json!({"input": null}));
    let second = server.post_json("/v1/datasets", &json!({"name": "again"}));
    assert_eq!(second["dataset_id"], 2);
    assert_eq!(
        server.json("/v1/datasets")["datasets"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn what_makes_no_version_is_refused_for_its_reason() {
    let server = Server::start();
    let (id, version) = dataset(&server);
    let versions = format!("/v1/datasets/{id}/versions");
    let absent = format!("sha256/{}", "0".repeat(64));
    for (body, status, words) in [
        (json!({}), 400, "missing field `examples`"),
        (
            json!({"examples": []}),
            400,
            "a version needs at least one example",
        ),
        (json!({"examples": 7}), 400, ""),
        (
            json!({"examples": [{"input": 1}]}),
            400,
            "missing field `example_id`",
        ),
        (
            json!({"examples": [{"example_id": "e"}]}),
            400,
            "missing field `input`",
        ),
        (
            json!({"examples": [example("", &json!(1))]}),
            400,
            "example_id is empty",
        ),
        (
            json!({"examples": [example("e", &json!(1)), example("e", &json!(2))]}),
            400,
            "example e appears twice in the manifest",
        ),
        (
            json!({"parent": "none", "examples": [example("e", &json!(1))]}),
            400,
            "parent version none is not a version of dataset 1",
        ),
        (
            json!({"examples": [example("e", &json!({"deep": [{"$payload": absent}]}))]}),
            409,
            &format!("payload {absent} is not in the store"),
        ),
    ] {
        server
            .post(&versions, body.to_string())
            .refused(status, words);
    }
    let erased = json!({"examples": [example("e", &json!({"$payload": absent, "erased": true}))]});
    server.post_json(&versions, &erased);
    let good = json!({"examples": [example("e", &json!(1))]}).to_string();
    server
        .post("/v1/datasets/9/versions", &good)
        .refused(400, "no dataset 9");
    server
        .post("/v1/datasets/x/versions", &good)
        .refused(400, "dataset ids are decimal integers");
    server
        .get("/v1/datasets/x")
        .refused(400, "dataset ids are decimal integers");
    server.get("/v1/datasets/9").refused(404, "no such dataset");
    server
        .get(&format!("{versions}/none"))
        .refused(404, "no such dataset version");
    server
        .get(&format!("/v1/datasets/9/versions/{version}"))
        .refused(404, "no such dataset version");
    server
        .get("/v1/datasets?x=1")
        .refused(400, "unknown query parameter: x");
    server
        .post("/v1/datasets", "{\"name\":\"\"}")
        .refused(400, "dataset name is empty");
    server
        .post("/v1/datasets", "{}")
        .refused(400, "missing field `name`");
    server
        .post("/v1/datasets", "{\"name\":\"n\",\"tenant\":\"Bad\"}")
        .refused(400, "tenant");
}

#[test]
fn a_payload_of_a_span_can_be_an_example() {
    let server = Server::with(["--payload-threshold-bytes", "10"]);
    server.ingest(&json!([{"trace_id": "t", "span_id": "s", "name": "n", "start_ns": 1, "end_ns": 2, "service": "s", "status": "error", "attributes": {"prompt": "more than ten bytes"}}]));
    let marker = server.spans("/v1/traces/t")[0]["attributes"]["prompt"].clone();
    let (id, _) = dataset(&server);
    let body = json!({"examples": [{"example_id": "e", "input": {"prompt": marker}, "split": "test", "expected": null, "provenance": {"trace_id": "t", "span_id": "s"}}]});
    let version = server.post_json(&format!("/v1/datasets/{id}/versions"), &body);
    let whole = server.json(&format!(
        "/v1/datasets/{id}/versions/{}",
        version["version_id"].as_str().unwrap()
    ));
    assert_eq!(
        whole["bodies"][0]["body"],
        json!({"input": {"prompt": marker}, "split": "test", "provenance": {"trace_id": "t", "span_id": "s"}})
    );
}

#[test]
fn experiments_gather_runs_and_scores_that_add_up_and_compare() {
    let server = Server::start();
    let (dataset, version) = dataset(&server);
    let (base, candidate) = (
        experiment(&server, dataset, &version),
        experiment(&server, dataset, &version),
    );
    assert_eq!((base, candidate), (1, 2));
    let runs = format!("/v1/experiments/{base}/runs");
    for trace in ["r1", "r2"] {
        assert_eq!(
            server.post_json(&runs, &json!({"example_id": "e1", "trace_id": trace})),
            json!({"recorded": true})
        );
    }
    assert_eq!(
        texts(server.json(&runs)["runs"].as_array().unwrap(), "trace_id"),
        ["r1", "r2"]
    );
    let seen = server.json(&format!("/v1/experiments/{base}"));
    assert_eq!(
        (
            &seen["run_count"],
            &seen["dataset_version_deleted"],
            &seen["config"],
            &seen["name"]
        ),
        (&json!(2), &json!(false), &json!({"t": 0.5}), &json!("x"))
    );
    score(&server, base, "e1", "quality", &json!(0.2), 1);
    score(&server, base, "e1", "quality", &json!(0.5), 2);
    score(&server, base, "e2", "quality", &json!(1), 3);
    score(&server, candidate, "e1", "quality", &json!(0.75), 4);
    score(&server, candidate, "e2", "quality", &json!(0.5), 5);
    for (experiment, value) in [(base, true), (candidate, false)] {
        score(&server, experiment, "e1", "passed", &json!(value), 6);
        score(&server, experiment, "e2", "label", &json!("same"), 7);
    }
    score(&server, candidate, "e2", "passed", &json!(true), 8);
    let scores = server.json(&format!("/v1/experiments/{base}/scores?limit=2"));
    assert_eq!(
        texts(scores["scores"].as_array().unwrap(), "name"),
        ["label", "passed"]
    );
    let server = server.crash_and_restart();
    let summary = server.json(&format!("/v1/experiments/{base}/summary"));
    assert_eq!(summary["examples_total"], 2);
    let by_name = |scores: &Value, name: &str| {
        scores
            .as_array()
            .unwrap()
            .iter()
            .find(|score| score["name"] == name)
            .unwrap()
            .clone()
    };
    let quality = by_name(&summary["scores"], "quality");
    assert_eq!(
        (&quality["mean"], &quality["min"], &quality["max"]),
        (&json!(0.75), &json!(0.5), &json!(1.0))
    );
    assert_eq!(quality["examples_scored"], 2);
    assert_eq!(quality.get("true_rate"), None);
    let passed = by_name(&summary["scores"], "passed");
    assert_eq!(
        (&passed["mean"], &passed["true_rate"]),
        (&json!(1.0), &json!(1.0))
    );
    assert_eq!(by_name(&summary["scores"], "label").get("mean"), None);
    let diff = server.json(&format!(
        "/v1/experiments/diff?base={base}&candidate={candidate}"
    ));
    let quality = by_name(&diff["scores"], "quality");
    assert_eq!(
        (&quality["improved"], &quality["regressed"]),
        (&json!(["e1"]), &json!(["e2"]))
    );
    assert_eq!(
        (
            &quality["mean_base"],
            &quality["mean_candidate"],
            &quality["delta"]
        ),
        (&json!(0.75), &json!(0.625), &json!(-0.125))
    );
    let passed = by_name(&diff["scores"], "passed");
    assert_eq!(
        (&passed["regressed"], &passed["only_candidate"]),
        (&json!(["e1"]), &json!(["e2"]))
    );
    let label = by_name(&diff["scores"], "label");
    assert_eq!(
        (&label["unchanged"], &label["changed"]),
        (&json!(1), &json!([]))
    );
}

#[test]
fn what_is_no_experiment_or_run_is_refused_for_its_reason() {
    let server = Server::start();
    let (dataset, version) = dataset(&server);
    for _ in 0..2 {
        experiment(&server, dataset, &version);
    }
    let runs = "/v1/experiments/1/runs";
    let of_dataset = server.json("/v1/experiments?dataset_id=1");
    assert_eq!(of_dataset["experiments"].as_array().unwrap().len(), 2);
    assert_eq!(
        server.json("/v1/experiments?dataset_id=2"),
        json!({"experiments": []})
    );
    for (target, status, words) in [
        (
            "/v1/experiments/diff",
            400,
            "diff needs base= and candidate= experiment ids",
        ),
        (
            "/v1/experiments/diff?base=1&candidate=x",
            400,
            "diff needs base= and candidate= experiment ids",
        ),
        (
            "/v1/experiments/diff?base=1&candidate=9",
            404,
            "no such experiment",
        ),
        ("/v1/experiments/9", 404, "no such experiment"),
        ("/v1/experiments/9/runs", 404, "no such experiment"),
        ("/v1/experiments/9/summary", 404, "no such experiment"),
        (
            "/v1/experiments/x/scores",
            400,
            "experiment ids are decimal integers",
        ),
        ("/v1/experiments/1/scores?limit=x", 400, "invalid limit"),
        (
            "/v1/experiments/1/scores?x=1",
            400,
            "unknown query parameter: x",
        ),
        ("/v1/experiments?dataset_id=x", 400, "invalid dataset_id"),
    ] {
        server.get(target).refused(status, words);
    }
    for (body, words) in [
        (
            json!({"example_id": "e1", "trace_id": ""}),
            "run trace_id is empty",
        ),
        (json!({"example_id": "e1"}), "missing field `trace_id`"),
        (
            json!({"example_id": "none", "trace_id": "t"}),
            "example none is not in experiment 1's dataset version",
        ),
    ] {
        server.post(runs, body.to_string()).refused(400, words);
    }
    let foreign = json!({"experiment_id": 1, "example_id": "none", "name": "n", "value": 1});
    server
        .post("/v1/annotations", foreign.to_string())
        .refused(400, "example none is not in experiment 1's dataset version");
}

#[test]
fn a_tombstoned_version_is_gone_and_what_was_made_of_it_goes_on() {
    let server = Server::start();
    let (dataset, version) = dataset(&server);
    let id = experiment(&server, dataset, &version);
    let target = format!("/v1/datasets/{dataset}/versions/{version}");
    let tombstone = server
        .post(&format!("{target}/tombstone"), "{\"reason\":\"leaked\"}")
        .expect(200)
        .json();
    assert_eq!(
        tombstone,
        json!({"tombstoned": true, "already": false, "version_id": version})
    );
    assert_eq!(
        server
            .post(&format!("{target}/tombstone"), "")
            .expect(200)
            .json()["already"],
        true
    );
    let gone = server
        .get(&target)
        .refused(410, "this dataset version is tombstoned");
    assert_eq!(gone.phrase, "Error");
    assert_eq!(gone.json()["tombstone"]["reason"], "leaked");
    assert_eq!(
        server.json(&format!("/v1/datasets/{dataset}"))["versions"][0]["tombstoned"],
        true
    );
    assert_eq!(
        server.json(&format!("/v1/experiments/{id}"))["dataset_version_deleted"],
        true
    );
    score(&server, id, "e1", "n", &json!(1), 1);
    server.post_json(
        &format!("/v1/experiments/{id}/runs"),
        &json!({"example_id": "e1", "trace_id": "t"}),
    );
    let body = json!({"dataset_id": dataset, "dataset_version": version});
    server.post("/v1/experiments", body.to_string()).refused(
        409,
        &format!("version {version} is tombstoned; new experiments cannot run against it"),
    );
    let body = json!({"parent": version, "examples": [example("e", &json!(1))]});
    server
        .post(
            &format!("/v1/datasets/{dataset}/versions"),
            body.to_string(),
        )
        .refused(409, &format!("parent version {version} is tombstoned"));
    let body = json!({"dataset_id": dataset, "dataset_version": "none"});
    server
        .post("/v1/experiments", body.to_string())
        .refused(400, "version none is not a version of dataset 1");
    let body = json!({"dataset_id": 9, "dataset_version": "none"});
    server
        .post("/v1/experiments", body.to_string())
        .refused(400, "no dataset 9");
    server
        .post("/v1/datasets/9/versions/x/tombstone", "")
        .refused(400, "no dataset 9");
    server
        .post(&format!("/v1/datasets/{dataset}/versions/x/tombstone"), "")
        .refused(400, "version x is not a version of dataset 1");
    server
        .post(&format!("/v1/datasets/{dataset}/tombstone"), "")
        .refused(404, "not found");
}
