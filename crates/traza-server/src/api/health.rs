//! `GET /v1/stats`, the metrics, and whether the server is alive and ready.

use traza::json::Value;

use super::{Answered, Call, json};
use crate::http::{Refusal, Response};
use crate::metrics::{Page, numbers};
use crate::render::{count, object};

pub(crate) fn stats<'a>(call: &Call<'a>) -> Answered<'a> {
    let found = call.server.store.stats();
    let all = found.buffered_spans as u64 + found.persisted_records;
    let age = found
        .buffer_age
        .map_or(Value::Null, |age| Value::from(age.as_secs()));
    let durability = call.server.store.options().durability.as_str();
    json(&object([
        ("buffered_records", count(found.buffered_spans)),
        ("persisted_records", found.persisted_records.into()),
        ("total_records", all.into()),
        ("record_count", all.into()),
        ("segment_count", count(found.segments)),
        ("bytes_on_disk", found.segment_bytes.into()),
        ("durability", durability.into()),
        ("wal_bytes", found.wal_bytes.into()),
        ("buffer_age_seconds", age),
    ]))
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "all handlers of routes have one type"
)]
pub(crate) fn metrics<'a>(call: &Call<'a>) -> Answered<'a> {
    let server = call.server;
    let mut page = Page::default();
    let engine = server.store.metrics();
    for (name, value) in engine.counters() {
        page.counter(name, value);
    }
    for (name, stage) in engine.stages() {
        page.stage(name, stage);
    }
    let live = server.connections.live();
    server.metrics.write(&mut page, server.uptime(), live);
    let text = page.into_text().into_bytes();
    Ok(Response::new(200, "text/plain; version=0.0.4", text).into())
}

pub(crate) fn metrics_json<'a>(call: &Call<'a>) -> Answered<'a> {
    let server = call.server;
    let mut members = server.metrics.to_json(server.connections.live());
    let (spans, bytes) = server.tail.usage();
    let engine = server.store.metrics();
    let counter = |name| engine.counter(name).unwrap_or_default();
    let p95 = |name| {
        engine
            .stage(name)
            .map_or(0, |stage| stage.durations.percentile(95))
    };
    let uptime = u64::try_from(server.uptime().as_nanos()).unwrap_or(u64::MAX);
    members.extend([
        ("uptime_ns".to_owned(), Value::from(uptime)),
        (
            "durability".to_owned(),
            Value::from(server.store.options().durability.as_str()),
        ),
        (
            "tail_ring".to_owned(),
            numbers([
                ("spans", spans as u64),
                ("bytes", bytes as u64),
                ("max_spans", server.options.tail_spans_max as u64),
                ("max_bytes", server.options.tail_bytes_max as u64),
            ]),
        ),
        (
            "ingest".to_owned(),
            numbers([
                ("spans_admitted", counter("traza_spans_admitted_total")),
                ("batches_admitted", counter("traza_batches_admitted_total")),
                ("wal_commits", counter("traza_wal_commits_total")),
                ("wal_fsync_p95_ns", p95("traza_wal_fsync")),
                ("segment_seal_p95_ns", p95("traza_segment_seal")),
            ]),
        ),
        (
            "pruning".to_owned(),
            numbers([
                (
                    "segments_examined",
                    counter("traza_segments_examined_total"),
                ),
                (
                    "segments_pruned_by_time",
                    counter("traza_segments_pruned_by_time_total"),
                ),
            ]),
        ),
    ]);
    json(&Value::Object(members))
}

/// The process answers.
pub(crate) fn healthy<'a>(_: &Call<'a>) -> Answered<'a> {
    json(&object([("status", "ok".into())]))
}

/// The store takes spans in, as far as is known.
pub(crate) fn ready<'a>(call: &Call<'a>) -> Answered<'a> {
    if call.server.connections.is_stopping() {
        return Err(Refusal::unavailable("the server is stopping"));
    }
    match call.server.store.stats().seal_failure {
        Some(failure) => Err(Refusal::unavailable(format!(
            "the store cannot seal: {failure}"
        ))),
        None => json(&object([("status", "ready".into())])),
    }
}

/// For tests of what a panic leaves behind.
pub(crate) fn panic_now<'a>(call: &Call<'a>) -> Answered<'a> {
    assert!(
        !call.server.options.has_panic_route,
        "asked for by /v1/test-panic"
    );
    Err(Refusal::not_found("not found"))
}
