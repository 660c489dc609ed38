//! Spans whose time is over go by themselves, each tenant's after its own time.

use durable::{Clock as _, Fs as _, RealFs, SystemClock};
use serde_json::{Value, json};

use crate::support::{Server, Setup, until};

const HOUR_NS: u64 = 3_600_000_000_000;

fn span(id: &str, tenant: &str, end_ns: u64) -> Value {
    json!({"trace_id": "t", "span_id": id, "$tenant": tenant, "name": "n", "start_ns": end_ns - 1, "end_ns": end_ns, "service": "s"})
}

fn annotate(server: &Server, span_id: &str, timestamp_ns: u64) {
    server.post_json(
        "/v1/annotations",
        &json!({"trace_id": "t", "span_id": span_id, "name": "n", "value": 1, "timestamp_ns": timestamp_ns}),
    );
}

#[test]
fn what_is_older_than_its_tenant_keeps_it_is_forgotten_sealed_or_not() {
    let server = Setup::new()
        .variable("TRAZA_RETENTION_TICK_MS", "100")
        .args([
            "--ttl-seconds",
            "3600",
            "--tenant-ttl",
            "kept=0",
            "--tenant-ttl",
            "brief=60",
        ])
        .start();
    let now = SystemClock::start().wall_ns();
    let (recent, old) = (now - HOUR_NS / 30, now - 2 * HOUR_NS);
    let batch = |suffix: &str| {
        json!([
            span(&format!("recent-{suffix}"), "", recent),
            span(&format!("old-{suffix}"), "", old),
            span(&format!("kept-{suffix}"), "kept", old),
            span(&format!("brief-{suffix}"), "brief", recent),
        ])
    };
    server.ingest(&batch("sealed"));
    server.post("/v1/flush", "").expect(200);
    server.ingest(&batch("buffered"));
    annotate(&server, "recent-sealed", recent);
    annotate(&server, "old-sealed", old);
    let ids = until("everything that is over has gone", || {
        let mut ids = server.ids("/v1/spans");
        ids.sort();
        (ids.len() == 4).then_some(ids)
    });
    assert_eq!(
        ids,
        [
            "kept-buffered",
            "kept-sealed",
            "recent-buffered",
            "recent-sealed"
        ]
    );
    let left = until("the annotation has gone too", || {
        let left = server.json("/v1/annotations")["annotations"].clone();
        (left.as_array().map(Vec::len) == Some(1)).then_some(left)
    });
    assert_eq!(left[0]["span_id"], "recent-sealed");
    // It does not come back, neither from the log nor from a segment.
    let server = server.crash_and_restart();
    let mut again = server.ids("/v1/spans");
    again.sort();
    assert_eq!(again, ids);
    assert_eq!(server.json("/v1/verify")["intact"], true);
}

#[test]
fn a_segment_of_nothing_but_old_spans_is_removed_from_the_disk() {
    let server = Setup::new()
        .variable("TRAZA_RETENTION_TICK_MS", "100")
        .args(["--ttl-seconds", "3600", "--compaction-fanout", "0"])
        .start();
    let now = SystemClock::start().wall_ns();
    server.ingest(&json!([span("stays", "", now)]));
    server.post("/v1/flush", "").expect(200);
    server.ingest(&json!([span("goes", "", now - 2 * HOUR_NS)]));
    server.post("/v1/flush", "").expect(200);
    until("its segment has gone", || {
        // By their names alone: a file may go while it is looked at.
        let names = RealFs.read_dir(&server.data()).unwrap();
        let segments = names
            .iter()
            .filter(|name| name.extension().is_some_and(|end| end == "seg"));
        (segments.count() == 1).then_some(())
    });
    // The file goes first, then the answers are without it.
    let ids = until("its span is answered no more", || {
        let ids = server.ids("/v1/spans");
        (ids.len() == 1).then_some(ids)
    });
    assert_eq!(ids, ["stays"]);
}
