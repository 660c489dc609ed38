//! What the server counts of itself.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Server, sample};

const ENGINE_COUNTERS: &[&str] = &[
    "traza_spans_admitted_total",
    "traza_batches_admitted_total",
    "traza_wal_commits_total",
    "traza_segment_seal_spans_total",
    "traza_segment_seals_coalesced_total",
    "traza_segment_seals_age_total",
    "traza_shadow_merges_total",
    "traza_segments_examined_total",
    "traza_segments_pruned_by_time_total",
    "traza_segments_pruned_by_content_total",
    "traza_records_admitted_by_content_total",
    "traza_supersede_probes_total",
    "traza_rollup_builds_total",
    "traza_expiry_segments_skipped_total",
    "traza_expiry_segments_decoded_total",
    "traza_segment_merges_total",
    "traza_segments_merged_away_total",
    "traza_erasures_settled_total",
    "traza_erasure_spans_removed_total",
    "traza_erasure_spans_suppressed_total",
];
const STAGES: &[&str] = &[
    "traza_writer_lock_wait",
    "traza_segments_lock_wait",
    "traza_analytics_fold",
    "traza_wal_encode",
    "traza_wal_write",
    "traza_wal_lock_wait",
    "traza_wal_write_syscall",
    "traza_wal_fsync",
    "traza_buffer_upsert",
    "traza_segment_seal",
    "traza_segment_seal_locked",
    "traza_segment_seal_reconcile",
    "traza_segment_merge",
    "traza_erasure",
    "traza_http_request",
];
const CLASSES: &[&str] = &[
    "ingest", "lookup", "search", "stats", "stream", "mcp", "other",
];

fn spans(count: usize) -> Value {
    (0..count)
        .map(|i| json!({"trace_id": "t", "span_id": i.to_string(), "name": "n", "start_ns": i, "end_ns": i + 1, "service": "s"}))
        .collect()
}

#[test]
fn the_page_has_every_series_once_with_its_type_before_it() {
    let server = Server::start();
    server.ingest(&spans(3));
    let answer = server.get("/v1/metrics").expect(200);
    assert_eq!(
        answer.field("content-type"),
        Some("text/plain; version=0.0.4")
    );
    let page = answer.text();
    let mut names = BTreeSet::new();
    let lines: Vec<&str> = page.lines().collect();
    for pair in lines.chunks(2) {
        let (name, value) = pair[1].split_once(' ').unwrap();
        value.parse::<u64>().unwrap();
        let kind = pair[0].strip_prefix(&format!("# TYPE {name} ")).unwrap();
        let is_counter = ["_total", "_count", "_sum"]
            .iter()
            .any(|end| name.ends_with(end));
        assert_eq!(kind, if is_counter { "counter" } else { "gauge" }, "{name}");
        assert!(names.insert(name.to_owned()), "{name} is there twice");
    }
    let mut expected: Vec<String> = ENGINE_COUNTERS
        .iter()
        .map(|name| (*name).to_owned())
        .collect();
    for stage in STAGES {
        expected.extend(
            ["count", "sum", "max", "p50", "p95", "p99"]
                .iter()
                .map(|part| format!("{stage}_ns_{part}")),
        );
    }
    for class in CLASSES {
        expected.extend(
            ["count", "sum", "p50", "p95", "p99"]
                .iter()
                .map(|part| format!("traza_http_{class}_ns_{part}")),
        );
    }
    for name in [
        "traza_uptime_seconds",
        "traza_http_requests_total",
        "traza_http_rejected_total",
        "traza_http_connections_accepted_total",
        "traza_http_connections_refused_total",
        "traza_http_connections_live",
        "traza_query_deadline_exceeded_total",
        "traza_http_handler_panics_total",
        "traza_http_decoded_spans_total",
        "traza_http_decode_ns_count",
        "traza_http_decode_ns_sum",
        "traza_http_decode_ns_max",
        "traza_http_responses_2xx_total",
        "traza_http_responses_4xx_total",
        "traza_http_responses_5xx_total",
    ] {
        expected.push(name.to_owned());
    }
    let missing: Vec<&String> = expected
        .iter()
        .filter(|name| !names.contains(*name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(sample(&page, "traza_spans_admitted_total"), Some(3));
    assert_eq!(sample(&page, "traza_wal_commits_total"), Some(1));
    assert_eq!(
        sample(&page, "traza_wal_write_ns_count"),
        sample(&page, "traza_wal_write_syscall_ns_count")
    );
    assert!(sample(&page, "traza_wal_fsync_ns_p95") > Some(0));
    assert!(sample(&page, "traza_http_connections_live") >= Some(1));
}

#[test]
fn requests_are_counted_under_their_class_and_their_status() {
    let server = Server::start();
    server.ingest(&spans(2));
    server.post("/v1/traces", "{}").expect(400);
    for target in [
        "/v1/spans",
        "/v1/spans?limit=x",
        "/v1/traces/t",
        "/v1/sessions/x",
        "/v1/payloads/x",
        "/v1/annotations",
        "/v1/stats",
        "/v1/stats/llm",
        "/v1/sessions",
        "/v1/export",
        "/v1/tenants",
        "/v1/datasets",
        "/v1/none",
        "/",
    ] {
        server.get(target);
    }
    server.ask("DELETE", "/v1/mcp", "", b"");
    let mut broken = server.connect();
    broken.send("nonsense\r\n\r\n");
    broken.answer().expect(400);
    let found = server.json("/v1/metrics.json");
    for (class, count) in [
        ("ingest", 2),
        ("search", 2),
        ("lookup", 4),
        ("stats", 3),
        ("stream", 1),
        ("mcp", 1),
        ("other", 3),
    ] {
        assert_eq!(found["by_class"][class]["count"], count, "{class}: {found}");
    }
    let requests = &found["requests"];
    assert_eq!(requests["total"], 16);
    assert_eq!(
        (
            &requests["responses_2xx"],
            &requests["responses_4xx"],
            &requests["responses_5xx"]
        ),
        (&json!(10), &json!(6), &json!(0))
    );
    for part in ["mean_ns", "max_ns", "p50_ns", "p95_ns", "p99_ns"] {
        assert!(requests[part].as_u64().unwrap() > 0, "{part}");
        assert_eq!(found["by_class"]["stream"][part], 0);
    }
    assert_eq!(found["percentile_error_bound"], 0.0625);
    assert_eq!(found["durability"], "wal");
    assert!(found["uptime_ns"].as_u64().unwrap() > 0);
    assert_eq!(found["ingest"]["spans_admitted"], 2);
    assert_eq!(found["decode"]["spans"], 2);
    assert_eq!(found["tail_ring"]["spans"], 2);
    assert_eq!(found["connections"]["accepted"], 19);
    let mut names: Vec<&String> = found.as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(
        names,
        [
            "by_class",
            "connections",
            "decode",
            "durability",
            "ingest",
            "percentile_error_bound",
            "pruning",
            "requests",
            "tail_ring",
            "uptime_ns"
        ]
    );
}

#[test]
fn the_engine_counts_what_a_question_and_a_seal_did() {
    let server = Server::start();
    for round in 0..2 {
        let mut spans = spans(50);
        for span in spans.as_array_mut().unwrap() {
            span["start_ns"] = json!(span["start_ns"].as_u64().unwrap() + round * 1_000);
            span["end_ns"] = span["start_ns"].clone();
            span["trace_id"] = json!(round.to_string());
            span["attributes"] = json!({"text": if round == 0 { "alpha" } else { "beta" }});
        }
        server.ingest(&spans);
        server.post("/v1/flush", "").expect(200);
    }
    assert_eq!(server.metric("traza_segment_seal_spans_total"), 100);
    assert_eq!(server.metric("traza_segment_seal_ns_count"), 2);
    let (examined, pruned) = (
        server.metric("traza_segments_examined_total"),
        server.metric("traza_segments_pruned_by_time_total"),
    );
    assert_eq!(server.ids("/v1/spans?since=1000").len(), 50);
    assert_eq!(server.metric("traza_segments_examined_total"), examined + 2);
    assert_eq!(
        server.metric("traza_segments_pruned_by_time_total"),
        pruned + 1
    );
    let (by_content, records) = (
        server.metric("traza_segments_pruned_by_content_total"),
        server.metric("traza_records_admitted_by_content_total"),
    );
    assert_eq!(server.ids("/v1/spans?q=beta").len(), 50);
    assert_eq!(
        server.metric("traza_segments_pruned_by_content_total"),
        by_content + 1
    );
    assert_eq!(
        server.metric("traza_records_admitted_by_content_total"),
        records + 50
    );
}
