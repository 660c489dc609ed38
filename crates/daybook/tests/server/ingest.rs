//! Spans come in as JSON and are found again.
//!
//! Promise: a batch is taken in as a whole or not at all, under any of its spellings, and reads back in one.

use serde_json::{Value, json};

use crate::support::{Server, texts};

fn span(trace: &str, id: &str, start: u64, end: u64) -> Value {
    json!({"trace_id": trace, "span_id": id, "name": "n", "start_time_ns": start, "end_time_ns": end, "service": "s"})
}

#[test]
fn a_batch_is_acknowledged_and_found_by_trace_service_name_attribute_and_time() {
    let server = Server::start();
    let batch = json!([
        {"trace_id": "t1", "span_id": "b", "parent_span_id": "a", "name": "tool", "start_ns": 15_000_000, "end_ns": 20_000_000,
         "service": "bot", "status": "error", "attributes": {"http.status": 200, "kind": "tool"}},
        {"trace_id": "t1", "span_id": "a", "name": "chat", "start_time": 10, "end_time": 900_000_000, "service": "bot", "zeta": 1},
        {"trace_id": "t2", "span_id": "c", "name": "chat", "start_time_unix_nano": 7, "end_time_unix_nano": 9, "service": "api",
         "attributes": {"http.status": "200"}},
    ]);
    let answer = server.ingest(&batch);
    assert_eq!(answer, json!({"accepted": 3, "durability": "wal"}));
    let enveloped = json!({"spans": [span("t3", "d", 30, 31)], "more": true});
    assert_eq!(server.ingest(&enveloped)["accepted"], 1);

    let trace = server.json("/v1/traces/t1");
    assert_eq!(trace["trace_id"], "t1");
    assert_eq!(trace["annotations"], json!([]));
    assert_eq!(
        texts(trace["spans"].as_array().unwrap(), "span_id"),
        ["a", "b"]
    );
    assert_eq!(
        trace["spans"][0],
        json!({"trace_id": "t1", "span_id": "a", "parent_span_id": null, "name": "chat", "start_time_ns": 10,
               "end_time_ns": 900_000_000, "status": "", "service": "bot", "attributes": {}, "events": [], "zeta": 1})
    );
    for (query, ids) in [
        ("service=bot", &["a", "b"][..]),
        ("service=bot&name=tool", &["b"]),
        ("attr.kind=tool", &["b"]),
        ("attr.http.status=200", &["c", "b"]),
        ("not_attr.http.status=200", &["c", "a", "d"]),
        ("min_duration_ms=100", &["a"]),
        ("max_duration_ns=1", &["d"]),
        ("since=11&until=30", &["d"]),
        ("since_ns=11&until_ns=15000000", &["d", "b"]),
        ("status=", &["c", "a", "d"]),
        ("not_status=error&not_status=x", &["c", "a", "d"]),
        (
            "min_attr.http.status=200&max_attr.http.status=2e2",
            &["c", "b"],
        ),
        ("service=none", &[]),
        ("service=x&service=api", &["c"]),
    ] {
        assert_eq!(server.ids(&format!("/v1/spans?{query}")), ids, "{query}");
    }
    server
        .get("/v1/traces/none")
        .refused(404, "trace not found");
    server.get("/v1/none").refused(404, "not found");
    let stats = server.json("/v1/stats");
    assert_eq!(stats["record_count"], 4);
    assert_eq!(stats["total_records"], 4);
    assert_eq!(stats["segment_count"], 0);
    assert_eq!(stats["bytes_on_disk"], 0);
    assert_eq!(stats["durability"], "wal");
    assert_eq!(stats["buffer_age_seconds"], 0);
    assert!(stats["wal_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn events_and_links_read_back_under_their_own_names() {
    let server = Server::start();
    let mut sent = span("t", "s", 1, 2);
    sent["events"] = json!([
        {"name": "e", "time_unix_nano": 3},
        {"name": "f", "time": 4, "attributes": {"k": [1, {"x": null}]}, "dropped": 1},
    ]);
    sent["links"] = json!([{"trace_id": "o", "span_id": "p", "x": 1}]);
    server.ingest(&json!([sent]));
    let found = &server.json("/v1/traces/t")["spans"][0];
    assert_eq!(
        found["events"],
        json!([
            {"name": "e", "timestamp_ns": 3, "attributes": {}},
            {"name": "f", "timestamp_ns": 4, "attributes": {"k": [1, {"x": null}]}},
        ])
    );
    assert_eq!(
        found["links"],
        json!([{"trace_id": "o", "span_id": "p", "attributes": {}}])
    );
}

#[test]
fn a_batch_with_one_bad_span_stores_nothing_and_says_which() {
    let server = Server::start();
    let good = span("t", "s", 1, 2);
    let with = |member: &str, value: Value| {
        let mut bad = good.clone();
        bad[member] = value;
        bad
    };
    let without = |member: &str| {
        let mut bad = good.clone();
        bad.as_object_mut().unwrap().remove(member);
        bad
    };
    let links = vec![json!({"trace_id": "a", "span_id": "b"}); 257];
    for (bad, words) in [
        (with("trace_id", json!("")), "span 1: trace_id is empty"),
        (with("span_id", json!("")), "span 1: span_id is empty"),
        (
            with("$tenant", json!("Upper")),
            "tenant must be lowercase [a-z0-9][a-z0-9._-], at most 64 bytes",
        ),
        (with("$tenant", json!("a".repeat(65))), "at most 64 bytes"),
        (with("links", json!(links)), "too many links"),
        (with("start_time_ns", json!(-1)), ""),
        (with("start_time_ns", json!(1.5)), ""),
        (with("start_time_ns", json!("1")), ""),
        (with("start_ns", json!(1)), "duplicate field"),
        (with("status", Value::Null), ""),
        (with("attributes", Value::Null), ""),
        (with("events", Value::Null), ""),
        (with("links", Value::Null), ""),
        (with("$tenant", Value::Null), ""),
        (
            with("events", json!([{"name": "e"}])),
            "missing field `timestamp_ns`",
        ),
        (without("name"), "missing field `name`"),
        (without("service"), "missing field `service`"),
        (without("start_time_ns"), "missing field `start_time_ns`"),
        (json!(7), ""),
    ] {
        let body = json!([good, bad]).to_string();
        server.post("/v1/spans", &body).refused(400, words);
    }
    for (body, words) in [
        ("", "body must be an array or {spans: [...]}"),
        ("  7", "body must be an array or {spans: [...]}"),
        ("not json", "body must be an array or {spans: [...]}"),
        ("{\"spam\":[]}", "missing field `spans`"),
        ("[{", ""),
        ("[] []", ""),
        ("[1,]", ""),
    ] {
        server.post("/v1/spans", body).refused(400, words);
    }
    server.get("/v1/traces/t").expect(404);
    assert_eq!(server.json("/v1/stats")["record_count"], 0);
    assert_eq!(server.ingest(&json!([]))["accepted"], 0);
}

#[test]
fn the_last_version_of_a_key_is_the_one_that_exists() {
    let server = Server::start();
    let mut later = span("t", "s", 5, 6);
    later["name"] = json!("later");
    let answer = server.ingest(&json!([span("t", "s", 1, 2), later]));
    assert_eq!(answer["accepted"], 2);
    assert_eq!(server.json("/v1/stats")["record_count"], 1);
    server.post("/v1/flush", "").expect(200);
    let mut latest = span("t", "s", 3, 4);
    latest["name"] = json!("latest");
    server.ingest(&json!([latest]));
    for target in ["/v1/traces/t", "/v1/spans?service=s"] {
        let spans = server.spans(target);
        assert_eq!(texts(&spans, "name"), ["latest"], "{target}");
    }
    assert_eq!(server.ids("/v1/spans?name=later"), [""; 0]);
    assert_eq!(server.json("/v1/stats/duration")["count"], 1);
}

#[test]
fn times_of_any_size_and_ids_of_any_bytes_are_kept() {
    let server = Server::start();
    let odd = "a\u{0}b /&=?+%💾";
    server.ingest(&json!([
        span("t", "backwards", 50, 10),
        span("t", "wide", 0, u64::MAX),
        span("t", "late", u64::MAX, u64::MAX),
        span(odd, odd, 1, 1),
        {"trace_id": "n", "span_id": "n", "name": "", "start_ns": 1, "end_ns": 1, "service": "", "attributes": {"\u{0}k": 1, "": 2}},
    ]));
    server.post("/v1/flush", "").expect(200);
    assert_eq!(
        server.ids("/v1/spans?max_duration_ns=0"),
        [odd, "n", "backwards", "late"]
    );
    assert_eq!(server.ids("/v1/spans?min_duration_ns=1"), ["wide"]);
    let encoded = "/v1/traces/a%00b+%2F%26%3D%3F%2B%25%F0%9F%92%BE";
    assert_eq!(server.ids(encoded), [odd]);
    assert_eq!(server.ids("/v1/spans?attr.%00k=1"), ["n"]);
    assert_eq!(server.ids("/v1/spans?attr.=2"), ["n"]);
    let durations = server.json("/v1/stats/duration");
    assert_eq!(durations["max_ns"], u64::MAX);
    let target = format!("/v1/stats/series?since=0&until={}&buckets=7", u64::MAX);
    let series = server.json(&target);
    assert_eq!(series["buckets"].as_array().unwrap().len(), 7);
    assert_eq!(series["buckets"][6]["spans"], 1);
    let target = format!("/v1/stats/slowest?limit={}", u64::MAX);
    assert_eq!(server.ids(&target)[0], "wide");
    let target = format!("/v1/stats/failures?limit={}", u64::MAX);
    assert_eq!(server.json(&target)["total"], 0);
}

#[test]
fn content_is_searched_by_whole_words_anywhere_in_the_values() {
    let server = Server::start();
    let mut sent = span("t", "s", 1, 2);
    sent["attributes"] =
        json!({"needle": 1, "q": {"deep": ["The Quick fox"], "$payload": "hidden"}});
    sent["events"] = json!([{"name": "Jumped", "time": 1, "attributes": {"over": "lazy-dog"}}]);
    let mut other = span("t", "o", 1, 2);
    other["attributes"] = json!({"text": "quick"});
    server.ingest(&json!([sent, other]));
    for flushed in [false, true] {
        if flushed {
            server.post("/v1/flush", "").expect(200);
        }
        for (words, ids) in [
            ("quick", &["o", "s"][..]),
            ("QUICK+FOX", &["s"]),
            ("fox+jumped+dog", &["s"]),
            ("qui", &[]),
            ("needle", &[]),
            ("hidden", &[]),
            ("quick+absent", &[]),
            ("%21%3F", &[]),
        ] {
            assert_eq!(server.ids(&format!("/v1/spans?q={words}")), ids, "{words}");
            let target = format!("/v1/spans?content={words}");
            assert_eq!(server.ids(&target), ids, "{words}");
        }
    }
}

#[test]
fn limits_and_parameters_that_are_none_are_refused_by_name() {
    let server = Server::start();
    server.ingest(&json!([span("t", "s", 1, 2)]));
    let page = server.json("/v1/spans?limit=0");
    assert_eq!(page["spans"], json!([]));
    assert_eq!(page["next_cursor"], Value::Null);
    let largest = format!("/v1/spans?limit={}", u64::MAX);
    assert_eq!(server.ids(&largest), ["s"]);
    for (query, error) in [
        ("limit=-1", "invalid limit"),
        ("limit=x", "invalid limit"),
        ("limit=", "invalid limit"),
        ("since=x", "invalid since"),
        ("until_ns=1.5", "invalid until"),
        ("min_duration_ms=-5", "invalid min_duration_ms"),
        ("min_attr.k=x", "min_attr.k must be a number"),
        ("max_attr.k=", "max_attr.k must be a number"),
        ("unknown=1", "unknown query parameter: unknown"),
        ("cursor=made-up", "cursor is not a token this server issued"),
        ("sort=name", "-duration"),
    ] {
        server
            .get(&format!("/v1/spans?{query}"))
            .refused(400, error);
    }
    for target in [
        "/v1/stats?x=1",
        "/v1/metrics?x=1",
        "/v1/verify?x=1",
        "/v1/tenants?x=1",
    ] {
        server.get(target).expect(200);
    }
    server.post("/v1/flush?x=1", "").expect(200);
}
