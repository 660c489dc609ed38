//! Sessions, judgments, datasets and experiments of a store.

use serde_json::{Value, json};

use crate::support::{Ran, Scratch};

fn trace(scratch: &Scratch, args: &[&str]) -> Ran {
    scratch.daybook(&[&["trace"], args].concat())
}

fn json_of(scratch: &Scratch, args: &[&str]) -> Value {
    trace(scratch, &[args, &["--json"]].concat())
        .expect(0)
        .json()
}

fn store() -> Scratch {
    let scratch = Scratch::new();
    let span = |trace: &str, id: u64, tenant: &str, session: &str| {
        json!({
            "trace_id": trace, "span_id": id.to_string(), "name": "chat", "service": "bot", "$tenant": tenant,
            "status": if id == 2 { "error" } else { "" },
            "start_time_ns": 1_000_000_000 + id, "end_time_ns": 2_000_000_000 + id,
            "attributes": {"session.id": session, "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 10},
        })
        .to_string()
    };
    let spans = [
        span("t1", 1, "", "s-1"),
        span("t1", 2, "", "s-1"),
        span("t2", 3, "", "s-1"),
        span("t3", 4, "acme", "s-2"),
    ];
    scratch.write("in.jsonl", spans.join("\n").as_bytes());
    trace(&scratch, &["ingest", "s", "in.jsonl"]).expect(0);
    scratch
}

#[test]
fn sessions_are_listed_with_their_sums_and_shown_with_their_traces() {
    let scratch = store();
    let all = json_of(&scratch, &["sessions", "s"]);
    let ids: Vec<&Value> = all["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| &session["session_id"])
        .collect();
    assert_eq!(ids, ["s-2", "s-1"], "the last end first");
    let first = &all["sessions"][1];
    assert_eq!(
        (
            &first["span_count"],
            &first["trace_count"],
            &first["error_count"]
        ),
        (&json!(3), &json!(2), &json!(1))
    );
    assert_eq!(first["session_attribute"], "session.id");
    assert_eq!(first["prompt_tokens"], 30);
    let acme = json_of(&scratch, &["sessions", "s", "--tenant", "acme"]);
    assert_eq!(acme["sessions"].as_array().unwrap().len(), 1);
    let one = json_of(&scratch, &["sessions", "s", "--limit", "1"]);
    assert_eq!(one["sessions"].as_array().unwrap().len(), 1);
    let detail = json_of(&scratch, &["sessions", "s", "s-1"]);
    let traces: Vec<(&Value, &Value)> = detail["traces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trace| (&trace["trace_id"], &trace["span_count"]))
        .collect();
    assert_eq!(
        traces,
        [(&json!("t1"), &json!(2)), (&json!("t2"), &json!(1))]
    );
    let words = trace(&scratch, &["sessions", "s", "s-1"]).expect(0).out;
    assert!(
        words.contains("s-1  2 traces, 3 spans, 1 error, 3 model calls, 30 tokens"),
        "{words}"
    );
    assert_eq!(words.lines().count(), 3);
    let none = trace(&scratch, &["sessions", "s", "nobody"]).expect(2);
    assert!(none.err.contains("no session \"nobody\""), "{}", none.err);
}

#[test]
fn a_dataset_grows_by_versions_that_never_change() {
    let scratch = store();
    let made = trace(&scratch, &["dataset", "create", "s", "hard-cases"]).expect(0);
    assert_eq!(made.out, "dataset 1\n");
    let acme = json_of(
        &scratch,
        &["dataset", "create", "s", "theirs", "--tenant", "acme"],
    );
    assert_eq!(acme, json!({"dataset_id": 2}));
    let examples = r#"{"example_id":"b","input":{"q":"2+2"},"expected":4,"split":"test"}
{"example_id":"a","input":"1+1"}
"#;
    scratch.write("examples.jsonl", examples.as_bytes());
    let version = json_of(
        &scratch,
        &["dataset", "version", "s", "1", "examples.jsonl"],
    );
    assert_eq!(
        (&version["examples"], &version["created"]),
        (&json!(2), &json!(true))
    );
    let array = format!("[{}]", examples.trim().replace('\n', ","));
    scratch.write("examples.json", array.as_bytes());
    let again = json_of(&scratch, &["dataset", "version", "s", "1", "examples.json"]);
    assert_eq!(again["version_id"], version["version_id"]);
    assert_eq!(again["created"], false);
    let id = version["version_id"].as_str().unwrap();
    let child = json_of(
        &scratch,
        &[
            "dataset",
            "version",
            "s",
            "1",
            "examples.jsonl",
            "--parent",
            id,
            "--provenance",
            r#"{"by":"hand"}"#,
        ],
    );
    assert_ne!(child["version_id"], version["version_id"]);

    let shown = json_of(&scratch, &["dataset", "show", "s", "1"]);
    assert_eq!(shown["versions"][1]["parent"], id);
    let shown = json_of(&scratch, &["dataset", "show", "s", "1", &id[..12]]);
    assert_eq!(shown["examples"][0]["example_id"], "a");
    assert_eq!(shown["examples"][1]["body"]["expected"], 4);
    let words = trace(&scratch, &["dataset", "show", "s", "1", &id[..12]])
        .expect(0)
        .out;
    assert!(words.contains(r#"b  {"q":"2+2"}  →  4  test"#), "{words}");

    trace(
        &scratch,
        &["dataset", "tombstone", "s", "1", id, "--reason", "leaked"],
    )
    .expect(0);
    let twice = json_of(&scratch, &["dataset", "tombstone", "s", "1", id]);
    assert_eq!(twice["already"], true);
    let list = json_of(&scratch, &["dataset", "list", "s", "--tenant", ""]);
    assert_eq!(list["datasets"].as_array().unwrap().len(), 1);
    assert_eq!(list["datasets"][0]["versions"][0]["tombstoned"], true);
    let words = trace(&scratch, &["dataset", "show", "s", "1"])
        .expect(0)
        .out;
    assert!(words.contains("not to be used: leaked"), "{words}");
    let words = trace(&scratch, &["dataset", "list", "s"]).expect(0).out;
    assert!(
        words.contains("hard-cases  2 versions, 2 examples in the latest"),
        "{words}"
    );
    assert!(words.contains("[acme] theirs  0 versions"), "{words}");

    for (args, says) in [
        (&["dataset", "show", "s", "9"][..], "no dataset 9"),
        (
            &["dataset", "show", "s", "1", "zz"],
            "zz is not a version of dataset 1",
        ),
        (
            &["dataset", "version", "s", "9", "examples.jsonl"],
            "no dataset 9",
        ),
        (
            &["dataset", "version", "s", "1", "in.jsonl"],
            "line 1: missing member `example_id`",
        ),
        (&["dataset", "create", "s", ""], "dataset name is empty"),
        (&["experiment", "create", "s", "1", id], "is tombstoned"),
    ] {
        let refused = trace(&scratch, args).expect(2);
        assert!(refused.err.contains(says), "{args:?}: {}", refused.err);
    }
}

/// Two experiments over a dataset of two examples, with scores, and a note about a trace.
fn scored() -> Scratch {
    let scratch = store();
    trace(&scratch, &["dataset", "create", "s", "d"]).expect(0);
    scratch.write(
        "e.jsonl",
        b"{\"example_id\":\"a\",\"input\":1}\n{\"example_id\":\"b\",\"input\":2}\n",
    );
    let version = json_of(&scratch, &["dataset", "version", "s", "1", "e.jsonl"]);
    let version = version["version_id"].as_str().unwrap();
    let made = trace(
        &scratch,
        &[
            "experiment",
            "create",
            "s",
            "1",
            &version[..10],
            "--name",
            "base",
            "--config",
            "{\"t\":0.5}",
        ],
    );
    assert_eq!(made.expect(0).out, "experiment 1\n");
    trace(&scratch, &["experiment", "create", "s", "1", version]).expect(0);
    trace(
        &scratch,
        &[
            "experiment",
            "run",
            "s",
            "1",
            "a",
            "--trace",
            "t1",
            "--span",
            "1",
        ],
    )
    .expect(0);
    for (experiment, example, value) in [
        ("1", "a", "0.5"),
        ("1", "b", "true"),
        ("2", "a", "0.75"),
        ("2", "b", "false"),
    ] {
        let score = [
            "annotate",
            "s",
            "q",
            value,
            "--experiment",
            experiment,
            "--example",
            example,
        ];
        trace(&scratch, &score).expect(0);
    }
    trace(
        &scratch,
        &[
            "annotate",
            "s",
            "note",
            "fine",
            "--trace",
            "t1",
            "--source",
            "human:ann",
        ],
    )
    .expect(0);
    scratch
}

#[test]
fn experiments_are_run_scored_summed_and_compared() {
    let scratch = scored();
    let shown = json_of(&scratch, &["experiment", "show", "s", "1"]);
    assert_eq!(
        (&shown["name"], &shown["config"]["t"]),
        (&json!("base"), &json!(0.5))
    );
    assert_eq!(shown["runs"][0]["trace_id"], "t1");
    let list = json_of(&scratch, &["experiment", "list", "s", "--dataset", "1"]);
    assert_eq!(list["experiments"].as_array().unwrap().len(), 2);
    assert_eq!(list["experiments"][0]["run_count"], 1);
    let summary = json_of(&scratch, &["experiment", "summary", "s", "1"]);
    assert_eq!(summary["examples_total"], 2);
    assert_eq!(summary["scores"][0]["mean"], 0.75);
    assert_eq!(summary["scores"][0]["true_rate"], 1.0);
    let words = trace(&scratch, &["experiment", "summary", "s", "1"])
        .expect(0)
        .out;
    assert_eq!(
        words,
        "q  2 of 2 examples, mean 0.75, 0.5 to 1, p50 1, p95 1, 100 % true\n"
    );
    let diff = json_of(&scratch, &["experiment", "diff", "s", "1", "2"]);
    assert_eq!(diff["scores"][0]["improved"], json!(["a"]));
    assert_eq!(diff["scores"][0]["regressed"], json!(["b"]));
    let words = trace(&scratch, &["experiment", "diff", "s", "1", "2"])
        .expect(0)
        .out;
    assert_eq!(
        words,
        "q  mean 0.75 → 0.375, -0.375, 0 unchanged\n  improved 1: a\n  regressed 1: b\n"
    );
    let scores = json_of(&scratch, &["experiment", "scores", "s", "1"]);
    assert_eq!(scores.as_array().unwrap().len(), 2);
}

#[test]
fn annotations_are_listed_by_what_they_are_about_and_what_is_wrong_is_named() {
    let scratch = scored();
    let notes = json_of(&scratch, &["annotations", "s", "--source", "human:"]);
    assert_eq!(
        (notes[0]["trace_id"].as_str(), notes[0]["value"].as_str()),
        (Some("t1"), Some("fine"))
    );
    let all = trace(&scratch, &["annotations", "s"]).expect(0).out;
    assert_eq!(all.lines().count(), 5);
    assert!(
        all.contains("trace t1  note = \"fine\"  human:ann"),
        "{all}"
    );
    assert!(all.contains("experiment 2, example b  q = false"), "{all}");
    for (args, says) in [
        (&["experiment", "show", "s", "3"][..], "no experiment 3"),
        (&["experiment", "summary", "s", "3"], "no experiment 3"),
        (&["experiment", "scores", "s", "3"], "no experiment 3"),
        (&["experiment", "diff", "s", "1", "3"], "no experiment 3"),
        (
            &["experiment", "run", "s", "1", "zz", "--trace", "t"],
            "example zz is not in experiment 1's",
        ),
        (
            &["annotate", "s", "q", "1", "--experiment", "1"],
            "--example",
        ),
    ] {
        let refused = trace(&scratch, args).expect(2);
        assert!(refused.err.contains(says), "{args:?}: {}", refused.err);
    }
}
