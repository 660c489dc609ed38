//! Questions over spans: pages, orders, sums and statistics.
//!
//! The oracle is a list of the same spans in the test.

use serde_json::{Value, json};

use crate::support::{Server, texts};

const COUNT: u64 = 250;

/// How long span `i` takes.
fn duration(i: u64) -> u64 {
    (i * 7_919) % 10_007 + 1
}

fn is_error(i: u64) -> bool {
    i.is_multiple_of(5)
}

fn corpus() -> Value {
    let spans = (0..COUNT).map(|i| {
        json!({
            "trace_id": format!("t{:02}", i % 17), "span_id": format!("s{i:03}"), "name": format!("op{}", i % 3),
            "start_ns": 1_000 + i * 10, "end_ns": 1_000 + i * 10 + duration(i), "service": format!("svc{}", i % 2),
            "status": if is_error(i) { "error" } else { "ok" },
            "attributes": {"text": if i % 4 == 0 { "alpha beta" } else { "alpha" }},
        })
    });
    Value::Array(spans.collect())
}

/// Half of it sealed, half of it not.
fn server() -> Server {
    let server = Server::start();
    let spans = corpus();
    let (first, second) = spans.as_array().unwrap().split_at(100);
    server.ingest(&json!(first));
    server.post("/v1/flush", "").expect(200);
    server.ingest(&json!(second));
    server
}

/// Follows the cursors of a question; every page is full but the last.
fn all_pages(server: &Server, query: &str, limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.json(&format!("/v1/spans?{query}&limit={limit}{cursor}"));
        let ids = texts(page["spans"].as_array().unwrap(), "span_id");
        let is_full = ids.len() == limit;
        found.extend(ids);
        let next = page["next_cursor"].as_str();
        assert_eq!(next.is_some(), is_full);
        let Some(next) = next else {
            return found;
        };
        cursor = format!("&cursor={next}");
        assert!(found.len() < 10_000, "pages come to an end");
    }
}

#[test]
fn pages_one_after_the_other_are_the_whole_in_its_order() {
    let server = server();
    let ids = |wanted: &dyn Fn(u64) -> bool| -> Vec<String> {
        (0..COUNT)
            .filter(|i| wanted(*i))
            .map(|i| format!("s{i:03}"))
            .collect()
    };
    let all = ids(&|_| true);
    assert_eq!(server.ids("/v1/spans?limit=1000"), all);
    assert_eq!(server.ids("/v1/spans"), all[..100]);
    for limit in [1, 7, 50, 99, 250] {
        assert_eq!(all_pages(&server, "", limit), all, "{limit}");
    }
    assert_eq!(all_pages(&server, "status=error", 9), ids(&is_error));
    assert_eq!(
        all_pages(&server, "not_status=error", 9),
        ids(&|i| !is_error(i))
    );
    assert_eq!(
        all_pages(&server, "q=beta&service=svc0", 4),
        ids(&|i| i % 4 == 0)
    );
    let cost = &server.json("/v1/spans?since=999999999")["cost"];
    assert_eq!(cost["segments_pruned"], cost["segments_examined"]);
    assert!(cost["elapsed_ns"].as_u64().unwrap() > 0);
    let cost = &server.json("/v1/spans?limit=1000")["cost"];
    assert_eq!(cost["segments_examined"], 1);
    assert_eq!(cost["segments_pruned"], 0);
}

#[test]
fn a_cursor_is_a_place_that_any_other_question_can_go_on_from() {
    let server = server();
    let page = server.json("/v1/spans?status=error&limit=10");
    let cursor = page["next_cursor"].as_str().unwrap().to_owned();
    let last = texts(page["spans"].as_array().unwrap(), "span_id")
        .pop()
        .unwrap();
    // Replayed with other conditions, it neither repeats nor invents anything.
    let rest = server.ids(&format!(
        "/v1/spans?service=svc1&limit=1000&cursor={cursor}"
    ));
    assert!(rest.iter().all(|id| *id > last));
    assert_eq!(
        rest.len(),
        (0..COUNT)
            .filter(|i| i % 2 == 1 && format!("s{i:03}") > last)
            .count()
    );
    for bad in ["", "x", "AA", &cursor[1..], &cursor[..8], "%00", "AQ"] {
        server
            .get(&format!("/v1/spans?cursor={bad}"))
            .refused(400, "cursor is not a token this server issued");
    }
    // Routes over all that matches look at it and go on without it.
    for route in ["duration", "failures", "slowest"] {
        server
            .get(&format!("/v1/stats/{route}?cursor=x"))
            .expect(400);
        let target = format!("/v1/stats/{route}");
        assert_eq!(
            server.json(&target),
            server.json(&format!("{target}?cursor={cursor}"))
        );
    }
}

#[test]
fn a_sorted_answer_is_the_beginning_of_the_whole_in_that_order() {
    let server = server();
    let mut order: Vec<u64> = (0..COUNT).collect();
    order.sort_by_key(|i| (duration(*i), *i));
    let ids = |order: &[u64]| -> Vec<String> { order.iter().map(|i| format!("s{i:03}")).collect() };
    for sort in ["duration", "duration_asc"] {
        assert_eq!(
            server.ids(&format!("/v1/spans?sort={sort}&limit=40")),
            ids(&order[..40])
        );
    }
    order.reverse();
    for sort in ["-duration", "duration_desc"] {
        assert_eq!(
            server.ids(&format!("/v1/spans?sort={sort}&limit=40")),
            ids(&order[..40])
        );
    }
    let slowest = server.spans("/v1/stats/slowest?limit=1000");
    let took = |span: &Value| {
        span["end_time_ns"].as_u64().unwrap() - span["start_time_ns"].as_u64().unwrap()
    };
    assert_eq!(slowest.len() as u64, COUNT);
    assert!(slowest.is_sorted_by(|a, b| took(a) >= took(b)));
    assert_eq!(slowest[0]["span_id"], ids(&order)[0]);
    assert_eq!(server.spans("/v1/stats/slowest").len(), 100);
    let latest: Vec<u64> = (0..COUNT).rev().take(5).collect();
    assert_eq!(server.ids("/v1/spans?sort=-start&limit=5"), ids(&latest));
    assert_eq!(
        server.ids("/v1/spans?sort=start_asc&limit=2"),
        ["s000", "s001"]
    );
    assert_eq!(server.ids("/v1/stats/slowest?q=beta&limit=1000").len(), 63);
}

#[test]
fn spans_of_one_moment_are_paged_each_once() {
    let server = Server::start();
    let spans: Vec<Value> = (0..250)
        .map(|i| json!({"trace_id": "t", "span_id": format!("{i:03}"), "name": "n", "start_ns": 5, "end_ns": 5, "service": "s"}))
        .collect();
    server.ingest(&json!(spans[..120]));
    server.post("/v1/flush", "").expect(200);
    server.ingest(&json!(spans[120..]));
    let expected: Vec<String> = (0..250).map(|i| format!("{i:03}")).collect();
    assert_eq!(all_pages(&server, "", 10), expected);
    assert!(server.json("/v1/spans?limit=10")["next_cursor"].is_string());
}

#[test]
fn a_series_has_as_many_parts_as_asked_and_counts_everything_once() {
    let server = server();
    for (buckets, expected) in [
        ("&buckets=10", 10),
        ("", 24),
        ("&buckets=0", 1),
        ("&buckets=9999", 512),
    ] {
        let series = server.json(&format!("/v1/stats/series?since=1000&until=3999{buckets}"));
        let found = series["buckets"].as_array().unwrap();
        assert_eq!(found.len(), expected);
        let sum = |member: &str| -> u64 {
            found
                .iter()
                .map(|bucket| bucket[member].as_u64().unwrap())
                .sum()
        };
        assert_eq!(sum("spans"), COUNT);
        assert_eq!(sum("errors"), 50);
        let starts: Vec<u64> = found
            .iter()
            .map(|bucket| bucket["start_ns"].as_u64().unwrap())
            .collect();
        assert!(starts.is_sorted() && starts[0] == 1_000 && *starts.last().unwrap() <= 3_999);
        let width = series["bucket_ns"].as_u64().unwrap();
        assert!(
            starts.last().unwrap() + width >= 3_999,
            "the window is covered"
        );
        assert!(
            found
                .iter()
                .all(|bucket| bucket["p50_ns"].as_u64() <= bucket["p95_ns"].as_u64())
        );
    }
    let words = server.json("/v1/stats/series?since=1000&until=3999&content=beta&buckets=1");
    assert_eq!(words["buckets"][0]["spans"], 63);
    for (query, error) in [
        ("", "since and until are required for a series"),
        ("since=1", "since and until are required for a series"),
        ("since=5&until=5", "until must be after since"),
        ("since=6&until=5", "until must be after since"),
        ("since=1&until=2&buckets=x", "invalid buckets"),
    ] {
        server
            .get(&format!("/v1/stats/series?{query}"))
            .refused(400, error);
    }
    // At the end of time.
    let (since, until) = (u64::MAX - 10, u64::MAX);
    let series = server.json(&format!(
        "/v1/stats/series?since={since}&until={until}&buckets=7"
    ));
    let found = series["buckets"].as_array().unwrap();
    let starts: Vec<u64> = found
        .iter()
        .map(|bucket| bucket["start_ns"].as_u64().unwrap())
        .collect();
    assert!(starts.is_sorted() && starts.iter().all(|start| (since..=until).contains(start)));
    assert!(starts[6].saturating_add(series["bucket_ns"].as_u64().unwrap()) >= until);
}

#[test]
fn percentiles_are_never_low_and_at_most_a_sixteenth_high() {
    let server = server();
    let mut took: Vec<u64> = (0..COUNT).map(duration).collect();
    took.sort_unstable();
    let found = server.json("/v1/stats/duration");
    assert_eq!(found["count"], COUNT);
    assert_eq!(found["min_ns"], took[0]);
    assert_eq!(found["max_ns"], took[took.len() - 1]);
    assert_eq!(found["mean_ns"], took.iter().sum::<u64>() / COUNT);
    for percent in [50, 75, 90, 95, 99_usize] {
        let exact = took[(took.len() * percent).div_ceil(100) - 1];
        let said = found[format!("p{percent}_ns")].as_u64().unwrap();
        assert!(
            (exact..=exact + exact / 16).contains(&said),
            "p{percent}: {said} for {exact}"
        );
    }
    let buckets = found["buckets"].as_array().unwrap();
    let counts: Vec<u64> = buckets
        .iter()
        .map(|bucket| bucket["count"].as_u64().unwrap())
        .collect();
    assert!(counts.iter().all(|count| *count > 0));
    assert_eq!(counts.iter().sum::<u64>(), COUNT);
    assert!(buckets.is_sorted_by_key(|bucket| bucket["upper_ns"].as_u64().unwrap()));
    let nothing = server.json("/v1/stats/duration?service=none");
    assert_eq!(nothing["count"], 0);
    assert_eq!(nothing["p99_ns"], 0);
    assert_eq!(nothing["buckets"], json!([]));
    assert_eq!(
        server.json("/v1/stats/duration?content=beta&limit=1&sort=duration")["count"],
        63
    );
}

#[test]
fn one_slow_span_is_lost_in_the_whole_and_seen_in_its_part() {
    let server = Server::start();
    let spans: Vec<Value> = (0..1_000_u64)
        .map(|i| {
            let took = if i == 999 { 1_000_000 } else { 10 };
            json!({"trace_id": "t", "span_id": i.to_string(), "name": "n", "start_ns": i, "end_ns": i + took, "service": "s"})
        })
        .collect();
    server.ingest(&json!(spans));
    assert_eq!(server.json("/v1/stats/duration")["p95_ns"], 10);
    let series = server.json("/v1/stats/series?since=0&until=1000&buckets=500");
    let worst = series["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bucket| bucket["p95_ns"].as_u64().unwrap())
        .max();
    assert_eq!(worst, Some(1_000_000));
}

#[test]
fn failures_are_grouped_and_every_group_has_an_example_that_opens() {
    let server = server();
    let found = server.json("/v1/stats/failures");
    let groups = found["groups"].as_array().unwrap();
    assert_eq!(found["total"], 50);
    assert_eq!(found["distinct"], 6);
    assert_eq!(found["groups_omitted"], 0);
    assert_eq!(found["spans_untracked"], 0);
    let counts: Vec<u64> = groups
        .iter()
        .map(|group| group["count"].as_u64().unwrap())
        .collect();
    assert_eq!(counts.iter().sum::<u64>(), 50);
    assert!(counts.is_sorted_by(|a, b| a >= b));
    for group in groups {
        assert_eq!(group["status"], "error");
        assert!(group["first_seen_ns"].as_u64() <= group["last_seen_ns"].as_u64());
        let trace = server.json(&format!(
            "/v1/traces/{}",
            group["example_trace_id"].as_str().unwrap()
        ));
        let spans = trace["spans"].as_array().unwrap();
        let example = spans
            .iter()
            .find(|span| span["span_id"] == group["example_span_id"])
            .unwrap();
        assert_eq!(example["start_time_ns"], group["last_seen_ns"]);
        assert_eq!(example["service"], group["service"]);
    }
    let first = server.json("/v1/stats/failures?limit=2");
    assert_eq!(first["groups"].as_array().unwrap().len(), 2);
    assert_eq!(first["total"], 50);
    assert_eq!(first["distinct"], 6);
    assert_eq!(first["groups_omitted"], 4);
    assert_eq!(
        server.json("/v1/stats/failures?limit=0")["groups_omitted"],
        6
    );
    assert_eq!(server.json("/v1/stats/failures?status=ok")["total"], 200);
    assert_eq!(server.json("/v1/stats/failures?content=beta")["total"], 13);
    assert_eq!(
        server.json("/v1/stats/failures?not_status=error")["total"],
        0
    );
}

#[test]
fn signatures_beyond_the_bound_are_counted_and_not_kept() {
    let server = Server::start();
    let spans: Vec<Value> = (0..4_100)
        .map(|i| json!({"trace_id": "t", "span_id": i.to_string(), "name": format!("n{i}"), "start_ns": i, "end_ns": i, "service": "s", "status": "error"}))
        .collect();
    server.ingest(&json!(spans));
    let found = server.json("/v1/stats/failures");
    assert_eq!(found["total"], 4_100);
    assert_eq!(found["distinct"], 4_096);
    assert_eq!(found["groups"].as_array().unwrap().len(), 100);
    assert_eq!(found["groups_omitted"], 3_996);
    assert_eq!(found["spans_untracked"], 4);
}

#[test]
fn attributes_are_compared_by_what_they_spell_and_excluded_by_what_they_are() {
    let server = Server::start();
    let values = [
        json!(200),
        json!("200"),
        json!(true),
        json!("true"),
        Value::Null,
        json!([1, "a"]),
        json!({"b": 1, "a": 2}),
        json!(" 7.5 "),
        json!("x y&z"),
    ];
    let mut spans: Vec<Value> = values
        .iter()
        .enumerate()
        .map(|(i, value)| json!({"trace_id": "t", "span_id": i.to_string(), "name": "n", "start_ns": i, "end_ns": i, "service": "s", "attributes": {"k": value}}))
        .collect();
    spans.push(json!({"trace_id": "t", "span_id": "none", "name": "n", "start_ns": 99, "end_ns": 99, "service": "s"}));
    server.ingest(&json!(spans));
    for sealed in [false, true] {
        if sealed {
            server.post("/v1/flush", "").expect(200);
        }
        for (query, expected) in [
            ("attr.k=200", &["0", "1"][..]),
            ("attr.k=%22200%22", &["0", "1"]),
            ("attr.k=true", &["2", "3"]),
            ("attr.k=null", &["4"]),
            ("attr.k=[1,%22a%22]", &["5"]),
            ("attr.k={%22a%22:2,%22b%22:1}", &["6"]),
            ("attr.k=x+y%26z", &["8"]),
            ("attr.k=", &[]),
            ("attr.k=200&attr.k=200", &["0", "1"]),
            ("attr.k=200&attr.k=201", &[]),
            ("min_attr.k=7.5", &["0", "1", "7"]),
            ("max_attr.k=7.5", &["7"]),
            (
                "not_attr.k=200&not_attr.k=true&not_attr.k=null",
                &["1", "3", "5", "6", "7", "8", "none"],
            ),
            ("attr.absent=null", &[]),
        ] {
            assert_eq!(
                server.ids(&format!("/v1/spans?{query}")),
                expected,
                "{query} {sealed}"
            );
        }
    }
}
