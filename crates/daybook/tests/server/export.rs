//! All spans that match, as lines in chunks, with the proof at the end that nothing is missing.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Server, damage, segments};

fn spans(count: usize, from: usize) -> Value {
    let span = |i: usize| json!({"trace_id": "t", "span_id": format!("{i:05}"), "name": "n", "start_ns": if i < 6_000 { 7 } else { 9 }, "end_ns": 10, "service": format!("s{}", i % 2)});
    Value::Array((from..from + count).map(span).collect())
}

fn ids(text: &str) -> Vec<String> {
    let id = |line: &str| {
        serde_json::from_str::<Value>(line).unwrap()["span_id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    text.lines().map(id).collect()
}

#[test]
fn every_span_is_a_line_and_a_chunk_and_the_trailers_say_how_many() {
    let server = Server::start();
    server.ingest(&json!([
        {"trace_id": "t1", "span_id": "a", "name": "chat", "start_time": 10, "end_time": 30, "service": "bot", "zeta": 1, "alpha": 2,
         "attributes": {"b": 1, "a": 2}, "links": [{"trace_id": "o", "span_id": "p"}], "$tenant": "acme"},
        {"trace_id": "t1", "span_id": "b", "parent_span_id": "a", "name": "tool", "start_ns": 15, "end_ns": 20, "service": "bot", "status": "error"},
    ]));
    let answer = server.get("/v1/export").expect(200);
    let fields: Vec<(&str, &str)> = answer
        .fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        fields,
        [
            ("Content-Type", "application/x-ndjson"),
            ("Transfer-Encoding", "chunked"),
            ("Trailer", "X-Traza-Export-Complete, X-Traza-Export-Count"),
            ("Connection", "close"),
        ]
    );
    assert_eq!(answer.chunks.len(), 2);
    assert!(answer.chunks.iter().all(|chunk| chunk.ends_with(b"\n")));
    assert_eq!(
        answer.text(),
        concat!(
            r#"{"trace_id":"t1","span_id":"a","$tenant":"acme","parent_span_id":null,"name":"chat","start_time_ns":10,"end_time_ns":30,"status":"","service":"bot","attributes":{"a":2,"b":1},"events":[],"links":[{"trace_id":"o","span_id":"p","attributes":{}}],"alpha":2,"zeta":1}"#,
            "\n",
            r#"{"trace_id":"t1","span_id":"b","parent_span_id":"a","name":"tool","start_time_ns":15,"end_time_ns":20,"status":"error","service":"bot","attributes":{},"events":[]}"#,
            "\n"
        )
    );
    assert_eq!(answer.trailer("X-Traza-Export-Complete"), "true");
    assert_eq!(answer.trailer("X-Traza-Export-Count"), "2");
    for (query, count) in [
        ("limit=1", 1),
        ("limit=0", 0),
        ("status=error", 1),
        ("service=none", 0),
        ("limit=9", 2),
    ] {
        let answer = server.get(&format!("/v1/export?{query}")).expect(200);
        assert_eq!(answer.chunks.len(), count, "{query}");
        assert_eq!(
            answer.trailer("X-Traza-Export-Count"),
            count.to_string(),
            "{query}"
        );
        assert_eq!(answer.trailer("X-Traza-Export-Complete"), "true");
    }
    server.get("/v1/export?sort=-duration").refused(400, "sort");
    server
        .get("/v1/export?cursor=x")
        .refused(400, "cursor is not a token this server issued");
    server
        .get("/v1/export?x=1")
        .refused(400, "unknown query parameter: x");
}

#[test]
fn thousands_of_spans_of_one_moment_are_exported_once_each_in_order() {
    let server = Server::start();
    server.ingest(&spans(4_000, 0));
    server.post("/v1/flush", "").expect(200);
    server.ingest(&spans(2_001, 4_000));
    // What is replaced is exported in its last version only.
    server.ingest(&spans(500, 100));
    let answer = server.get("/v1/export").expect(200);
    let found = ids(&answer.text());
    assert_eq!(found.len(), 6_001);
    assert_eq!(answer.trailer("X-Traza-Export-Count"), "6001");
    assert!(found.is_sorted());
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 6_001);
    let half = server.get("/v1/export?service=s1&limit=2500").expect(200);
    assert_eq!(ids(&half.text()).len(), 2_500);
}

#[test]
fn an_export_is_of_the_moment_at_which_it_was_asked_for() {
    let server = Server::start();
    server.ingest(&spans(6_000, 0));
    let mut connection = server.connect();
    connection.send("GET /v1/export HTTP/1.1\r\n\r\n");
    assert_eq!(connection.head().unwrap().status, 200);
    server.ingest(&spans(10, 6_000));
    server.post("/v1/flush", "").expect(200);
    let mut count = 0;
    while connection.chunk().is_some() {
        count += 1;
    }
    assert_eq!(count, 6_000);
}

#[test]
fn damage_under_the_server_is_told_in_the_trailers() {
    let server = Server::start();
    server.ingest(&spans(2_000, 0));
    server.post("/v1/checkpoint", "").expect(200);
    let server = server.crash_and_restart();
    for segment in segments(&server.data()) {
        damage(&segment, |file| rustix::fs::ftruncate(file, 500).unwrap());
    }
    let answer = server.get("/v1/export").expect(200);
    assert_eq!(answer.trailer("X-Traza-Export-Complete"), "false");
    assert_eq!(answer.trailer("X-Traza-Export-Count"), "0");
    assert_eq!(answer.chunks.len(), 0);
    server.get("/v1/spans").expect(503);
    assert!(
        server.log().contains("an export broke off"),
        "{}",
        server.log()
    );
    // Others are served on.
    server.get("/v1/stats").expect(200);
    assert_eq!(server.json("/v1/verify")["intact"], false);
}
