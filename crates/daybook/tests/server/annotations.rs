//! Judgments of traces, spans, sessions and examples.

use durable::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::support::{Server, texts};

fn names(server: &Server, query: &str) -> Vec<String> {
    texts(
        server.json(&format!("/v1/annotations{query}"))["annotations"]
            .as_array()
            .unwrap(),
        "name",
    )
}

#[test]
fn a_judgment_is_found_by_what_it_is_about_and_with_its_trace() {
    let server = Server::start();
    server.ingest(&json!([{"trace_id": "t", "span_id": "s", "name": "n", "start_ns": 1, "end_ns": 2, "service": "s"}]));
    let post = |body: Value| {
        assert_eq!(
            server.post_json("/v1/annotations", &body),
            json!({"recorded": true})
        );
    };
    post(
        json!({"trace_id": "t", "name": "a", "value": 1, "timestamp_ns": 30, "source": "human:ann", "comment": "good", "dropped": 1}),
    );
    post(
        json!({"trace_id": "t", "span_id": "s", "name": "b", "value": null, "timestamp_ns": 10, "source": "eval:x"}),
    );
    post(
        json!({"session_id": "S", "name": "c", "value": {"k": []}, "timestamp_ns": 20, "source": "eval:y"}),
    );
    post(
        json!({"trace_id": "nowhere", "name": "d", "value": "x", "timestamp_ns": 5, "$tenant": "acme"}),
    );
    let before = SystemClock::start().wall_ns();
    post(json!({"trace_id": "t", "name": "now", "value": false}));
    for (query, found) in [
        ("", &["now", "a", "c", "b", "d"][..]),
        ("?trace_id=t", &["now", "a", "b"]),
        ("?trace_id=t&span_id=s", &["b"]),
        ("?session_id=S", &["c"]),
        ("?name=a", &["a"]),
        ("?source=eval:", &["c", "b"]),
        ("?source=human:ann", &["a"]),
        ("?tenant=acme", &["d"]),
        ("?tenant=", &["now", "a", "c", "b"]),
        ("?since=10&until_ns=20", &["c", "b"]),
        ("?limit=2", &["now", "a"]),
        ("?limit=0", &[]),
        ("?example_id=e", &[]),
        ("?experiment_id=7", &[]),
    ] {
        assert_eq!(names(&server, query), found, "{query}");
    }
    let all = server.json("/v1/annotations");
    let stamped = all["annotations"][0]["timestamp_ns"].as_u64().unwrap();
    assert!(stamped >= before);
    assert_eq!(
        all["annotations"][1],
        json!({"trace_id": "t", "span_id": "", "name": "a", "value": 1, "timestamp_ns": 30, "source": "human:ann", "comment": "good"})
    );
    assert_eq!(all["annotations"][4]["tenant"], "acme");
    let trace = server.json("/v1/traces/t");
    assert_eq!(
        texts(trace["annotations"].as_array().unwrap(), "name"),
        ["a", "b", "now"],
        "as they were recorded"
    );
    let server = server.crash_and_restart();
    assert_eq!(names(&server, "").len(), 5);
    for (query, error) in [
        ("x=1", "unknown query parameter: x"),
        ("experiment_id=x", "invalid experiment_id"),
        ("since=x", "invalid since"),
        ("limit=-1", "invalid limit"),
    ] {
        server
            .get(&format!("/v1/annotations?{query}"))
            .refused(400, error);
    }
}

#[test]
fn a_judgment_of_nothing_or_of_two_things_is_refused() {
    let server = Server::start();
    for (body, words) in [
        (json!({"trace_id": "t", "value": 1}), "`name`"),
        (json!({"trace_id": "t", "name": "n"}), "`value`"),
        (
            json!({"trace_id": "t", "name": "", "value": 1}),
            "annotation name is empty",
        ),
        (
            json!({"trace_id": "t", "name": "n", "value": 1, "tenant": "Bad"}),
            "annotation tenant must be lowercase [a-z0-9][a-z0-9._-], at most 64 bytes",
        ),
        (
            json!({"span_id": "s", "name": "n", "value": 1}),
            "annotation span_id requires its trace_id",
        ),
        (
            json!({"session_id": "S", "trace_id": "t", "name": "n", "value": 1}),
            "a session annotation names only its session_id",
        ),
        (
            json!({"session_id": "S", "experiment_id": 1, "example_id": "e", "name": "n", "value": 1}),
            "a session annotation names only its session_id",
        ),
        (
            json!({"name": "n", "value": 1}),
            "annotation must address a trace, a span, a session, or an experiment example",
        ),
        (
            json!({"experiment_id": 1, "name": "n", "value": 1}),
            "a score names both experiment_id and example_id",
        ),
        (
            json!({"example_id": "e", "name": "n", "value": 1}),
            "a score names both experiment_id and example_id",
        ),
        (
            json!({"experiment_id": 1, "example_id": "e", "name": "n", "value": 1}),
            "no experiment 1",
        ),
        (json!({"trace_id": 7, "name": "n", "value": 1}), ""),
        (
            json!({"trace_id": "t", "name": "n", "value": 1, "timestamp_ns": "1"}),
            "",
        ),
    ] {
        server
            .post("/v1/annotations", body.to_string())
            .refused(400, words);
    }
    assert_eq!(names(&server, ""), [""; 0]);
}
