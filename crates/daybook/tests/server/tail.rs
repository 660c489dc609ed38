//! The live tail: spans as server-sent events, in the order of their admission.

use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::{Connection, Server, Setup, texts, until};

struct Tail(Connection<TcpStream>);

/// A frame: what it is, and its data.
#[derive(Debug)]
struct Frame {
    event: String,
    data: Value,
}

impl Frame {
    fn ids(&self) -> Vec<String> {
        assert_eq!(self.event, "spans");
        texts(self.data["spans"].as_array().unwrap(), "span_id")
    }

    fn cursor(&self) -> String {
        self.data["cursor"].as_str().unwrap().to_owned()
    }
}

fn follow(server: &Server, query: &str) -> Tail {
    let mut connection = server.connect();
    connection.send(format!("GET /v1/tail?{query} HTTP/1.1\r\nHost: x\r\n\r\n"));
    let head = connection.head().unwrap();
    assert_eq!(head.status, 200);
    let fields: Vec<(&str, &str)> = head
        .fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        fields,
        [
            ("Content-Type", "text/event-stream"),
            ("Cache-Control", "no-cache"),
            ("X-Accel-Buffering", "no"),
            ("Transfer-Encoding", "chunked"),
            ("Connection", "close"),
        ]
    );
    Tail(connection)
}

impl Tail {
    fn next(&mut self) -> Frame {
        let text = String::from_utf8(self.0.chunk().unwrap()).unwrap();
        let rest = text.strip_prefix("event: ").unwrap();
        let (event, rest) = rest.split_once("\ndata: ").unwrap();
        let data = rest.strip_suffix("\n\n").unwrap();
        assert!(!data.contains('\n'));
        Frame {
            event: event.to_owned(),
            data: serde_json::from_str(data).unwrap(),
        }
    }

    /// The next spans, over however many frames they come.
    fn take(&mut self, count: usize) -> Vec<String> {
        let mut found = Vec::new();
        while found.len() < count {
            found.extend(self.next().ids());
        }
        found
    }
}

fn spans(ids: &[&str]) -> Value {
    let span = |id: &&str| json!({"trace_id": "t", "span_id": id, "name": "n", "start_ns": 100 - id.len(), "end_ns": 100, "service": "s", "status": if id.starts_with('e') { "error" } else { "ok" }});
    Value::Array(ids.iter().map(span).collect())
}

#[test]
fn it_begins_with_what_there_is_and_goes_on_with_what_comes() {
    let server = Server::start();
    let mut empty = follow(&server, "");
    let first = empty.next();
    assert_eq!(first.ids(), [""; 0]);
    assert!(first.cursor().ends_with(".0"));
    server.ingest(&spans(&["a", "b"]));
    assert_eq!(empty.take(2), ["a", "b"]);
    let mut full = follow(&server, "");
    assert_eq!(full.next().ids(), ["a", "b"]);
    let mut errors = follow(&server, "status=error&sort=duration&session=none");
    assert_eq!(errors.next().ids(), [""; 0]);
    // It started before the others, and is admitted after them.
    server.ingest(&spans(&["early-starter", "c"]));
    assert_eq!(full.take(2), ["early-starter", "c"]);
    let mut later = follow(&server, "backfill=1");
    assert_eq!(later.next().ids(), ["c"]);
    // The same key again is news too.
    server.ingest(&spans(&["c"]));
    assert_eq!(full.take(1), ["c"]);
    assert_eq!(later.take(1), ["c"]);
    assert_eq!(empty.take(3), ["early-starter", "c", "c"]);
    let errors_so_far = errors.take(1);
    assert_eq!(errors_so_far, ["early-starter"]);
}

#[test]
fn a_cursor_goes_on_where_it_was_taken() {
    let server = Server::start();
    server.ingest(&spans(&["a"]));
    let cursor = follow(&server, "").next().cursor();
    server.ingest(&spans(&["b", "c"]));
    let mut again = follow(&server, &format!("cursor={cursor}&backfill=0"));
    assert_eq!(again.take(2), ["b", "c"]);
    // Frames of at most so many, each with the place behind it.
    let mut one = follow(&server, "limit=1");
    let (first, second) = (one.next(), one.next());
    assert_eq!(
        (first.ids(), second.ids()),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    let mut rest = follow(&server, &format!("limit=0&cursor={}", second.cursor()));
    assert_eq!(rest.next().ids(), ["c"]);
    let mut none = follow(&server, "backfill=0");
    assert_eq!(none.next().ids(), [""; 0]);
    for (query, words) in [
        ("since=1", "does not apply to a tail"),
        ("until_ns=1", "does not apply to a tail"),
        ("cursor=x", "cursor is not a token this server issued"),
        ("cursor=1.", "cursor is not a token this server issued"),
        ("backfill=-1", "invalid backfill"),
        ("limit=x", "invalid limit"),
        ("buckets=1", "unknown query parameter: buckets"),
    ] {
        server.get(&format!("/v1/tail?{query}")).refused(400, words);
    }
}

#[test]
fn what_was_dropped_meanwhile_is_said_before_the_stream_goes_on() {
    let server = Server::with(["--tail-ring-spans", "3"]);
    server.ingest(&spans(&["a", "b"]));
    let cursor = follow(&server, "").next().cursor();
    let (epoch, sequence) = cursor.split_once('.').unwrap();
    assert_eq!(sequence, "2");
    server.ingest(&spans(&["c", "d", "e", "f", "g"]));
    let mut again = follow(&server, &format!("cursor={cursor}"));
    let gap = again.next();
    assert_eq!(
        (gap.event.as_str(), gap.data),
        ("gap", json!({"missed": 2}))
    );
    assert_eq!(again.take(3), ["e", "f", "g"]);
    let mut future = follow(&server, &format!("cursor={epoch}.99&backfill=1"));
    assert_eq!(future.next().data, json!({"missed": 0}));
    assert_eq!(future.take(1), ["g"]);
    let mut foreign = follow(&server, "cursor=1.0&backfill=0");
    assert_eq!(foreign.next().data, json!({"missed": null}));
    // Nothing that is kept is shown behind this gap, only what is new.
    server.ingest(&spans(&["new"]));
    assert_eq!(foreign.take(1), ["new"]);
    assert!(server.metric("traza_tail_gaps_total") >= 3);
    let ring = server.json("/v1/metrics.json")["tail_ring"].clone();
    assert_eq!(
        (&ring["spans"], &ring["max_spans"], &ring["max_bytes"]),
        (&json!(3), &json!(3), &json!(33_554_432))
    );
}

#[test]
fn what_comes_while_a_gap_is_told_is_not_left_out() {
    let server = Server::start();
    for round in 0..60 {
        let mut connection = server.connect();
        let id = format!("x{round}");
        std::thread::scope(|scope| {
            scope.spawn(|| server.ingest(&spans(&[&id])));
            connection.send("GET /v1/tail?cursor=1.0&backfill=0 HTTP/1.1\r\n\r\n");
            let mut tail = Tail(connection);
            tail.0.head().unwrap();
            assert_eq!(tail.next().event, "gap");
            // Either it came before the head was written, or it is delivered; one behind it certainly is.
            server.ingest(&spans(&["last"]));
            until("the last one is delivered", || {
                let frame = tail.next();
                let found = if frame.event == "gap" {
                    Vec::new()
                } else {
                    frame.ids()
                };
                found.contains(&"last".to_owned()).then_some(())
            });
        });
    }
}

#[test]
fn a_stream_that_is_over_counts_and_takes_no_time() {
    let server = Server::start();
    let mut tail = follow(&server, "");
    tail.next();
    drop(tail);
    until("it is noticed", || {
        server.ingest(&spans(&["a"]));
        (server.metric("traza_http_stream_ns_count") == 1).then_some(())
    });
    let stream = server.json("/v1/metrics.json")["by_class"]["stream"].clone();
    assert_eq!(
        (&stream["count"], &stream["max_ns"], &stream["p99_ns"]),
        (&json!(1), &json!(0), &json!(0))
    );
}

#[test]
fn what_is_erased_is_shown_to_nobody_any_more() {
    let server = Server::start();
    server.ingest(&json!([
        {"trace_id": "secret", "span_id": "x", "name": "n", "start_ns": 1, "end_ns": 2, "service": "s"},
        {"trace_id": "t", "span_id": "y", "name": "n", "start_ns": 1, "end_ns": 2, "service": "s"},
    ]));
    server.post_json(
        "/v1/erasures",
        &json!({"subject": {"kind": "trace", "trace_id": "secret"}}),
    );
    assert_eq!(follow(&server, "").next().ids(), ["y"]);
}

#[test]
fn a_follower_hears_something_also_when_nothing_comes() {
    let server = Setup::new()
        .variable("TRAZA_TAIL_HEARTBEAT_MS", "50")
        .start();
    let mut tail = follow(&server, "");
    assert_eq!(tail.next().ids(), [""; 0]);
    for _ in 0..3 {
        assert_eq!(tail.0.chunk().unwrap(), b": tick\n\n");
    }
    // What comes in comes between them, and they go on.
    server.ingest(&spans(&["a"]));
    let mut chunks =
        std::iter::from_fn(|| tail.0.chunk()).skip_while(|chunk| chunk == b": tick\n\n");
    let spans = String::from_utf8(chunks.next().unwrap()).unwrap();
    assert!(spans.starts_with("event: spans\n"), "{spans}");
    assert_eq!(tail.0.chunk().unwrap(), b": tick\n\n");
}
