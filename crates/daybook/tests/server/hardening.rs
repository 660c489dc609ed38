//! What bad input gets.
//!
//! Promise: whatever is sent, the server answers as documented or closes, goes on, and stays under its bound of memory.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Server, Setup, until};

/// With this much the server has to do, whatever it is sent.
const MEMORY_MAX: u64 = 450 << 20;

fn check_healthy(server: &Server) {
    let id = server.metric("traza_http_requests_total");
    let span = json!([{"trace_id": "health", "span_id": id.to_string(), "name": "n", "start_ns": 1, "end_ns": 2, "service": "s"}]);
    assert_eq!(server.ingest(&span)["accepted"], 1);
    server.get("/v1/traces/health").expect(200);
}

#[test]
fn a_head_that_is_none_is_refused_and_the_connection_ends() {
    let server = Server::start();
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(70 << 10));
    let many = format!("GET /v1/stats HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(600));
    for (bytes, words) in [
        (&b"\r\n\r\n"[..], "invalid request line"),
        (b"GET\r\n\r\n", "invalid request line"),
        (b"GET /v1/stats FTP/1\r\n\r\n", "invalid request line"),
        (
            b"GET /v1/stats HTTP/1.1\r\nX: \xff\r\n\r\n",
            "headers are not UTF-8",
        ),
        (
            b"GET /v1/stats HTTP/1.1\r\nno colon\r\n\r\n",
            "invalid header field",
        ),
        (
            b"GET /v1/stats HTTP/1.1\r\nX : y\r\n\r\n",
            "invalid header field",
        ),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", ""),
        (long.as_bytes(), "request headers too large"),
        (many.as_bytes(), "request headers too large"),
    ] {
        let mut connection = server.connect();
        connection.send(bytes);
        let answer = connection.answer().refused(400, words);
        assert_eq!(answer.field("connection"), Some("close"), "{words}");
        assert!(connection.has_ended(), "{words}");
    }
    assert_eq!(server.metric("traza_http_malformed_total"), 9);
    check_healthy(&server);
}

#[test]
fn a_body_of_an_absurd_length_is_refused_from_its_head_alone() {
    let server = Server::start();
    for (length, words) in [
        ("67108865", "request body too large"),
        ("99999999999999999999999999", "request body too large"),
        ("-1", "invalid content-length"),
        ("0x10", "invalid content-length"),
        ("1 2", "invalid content-length"),
    ] {
        let mut connection = server.connect();
        connection.send(format!(
            "POST /v1/spans HTTP/1.1\r\nContent-Length: {length}\r\n\r\n"
        ));
        connection.answer().refused(400, words);
        assert!(connection.has_ended(), "{length}");
    }
    // Announcing takes no memory.
    let held: Vec<_> = (0..64)
        .map(|_| {
            let mut connection = server.connect();
            connection.send("POST /v1/spans HTTP/1.1\r\nContent-Length: 67108864\r\n\r\n[");
            connection
        })
        .collect();
    check_healthy(&server);
    assert!(
        server.peak_memory() < MEMORY_MAX / 3,
        "{}",
        server.peak_memory()
    );
    drop(held);
}

#[test]
fn a_body_or_a_head_that_ends_early_is_told_so() {
    let server = Server::start();
    for (bytes, words) in [
        (
            "POST /v1/spans HTTP/1.1\r\nContent-Length: 50\r\n\r\n[{}",
            "incomplete body",
        ),
        ("GET /v1/stats HT", "incomplete request"),
        (
            "GET /v1/stats HTTP/1.1\r\nHost: x\r\n",
            "incomplete request",
        ),
        ("GET /v1/stats HTTP/1.1\nHost: x\n\n", "incomplete request"),
    ] {
        let mut connection = server.connect();
        connection.send(bytes);
        connection.stream.shutdown(Shutdown::Write).unwrap();
        connection.answer().refused(400, words);
        assert!(connection.has_ended(), "{bytes}");
    }
    // Half closed behind a whole request is no reason to leave it without an answer.
    let mut connection = server.connect();
    connection.send("GET /v1/stats HTTP/1.1\r\n\r\n");
    connection.stream.shutdown(Shutdown::Write).unwrap();
    connection.answer().expect(200);
    assert!(connection.has_ended());
    check_healthy(&server);
}

#[test]
fn a_peer_that_sends_nothing_or_a_byte_at_a_time_is_let_go() {
    let server = Setup::new()
        .variable("TRAZA_SOCKET_TIMEOUT_MS", "300")
        .start();
    let mut idle = server.connect();
    let mut half = server.connect();
    half.send("GET /v1/stats HTTP/1.1\r\nX: ");
    let mut stuck = server.connect();
    stuck.send("POST /v1/spans HTTP/1.1\r\nContent-Length: 100\r\n\r\n[");
    let mut slow = server.connect();
    let begun = Instant::now();
    // Every byte comes within the time for one read; all of them together do not.
    let mut is_over = false;
    for byte in b"GET /v1/stats HTTP/1.1\r\n".iter().cycle() {
        if slow.stream.write_all(&[*byte]).is_err() {
            is_over = true;
            break;
        }
        if !slow.is_silent(Duration::from_millis(50)) {
            is_over = true;
            break;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "a slow head is read on"
        );
    }
    assert!(is_over);
    assert!(idle.has_ended(), "nothing was asked, nothing is answered");
    half.answer().expect(400);
    assert!(half.has_ended());
    stuck.answer().expect(400);
    assert!(stuck.has_ended());
    check_healthy(&server);
    until("the slots are free", || {
        (server.metric("traza_http_connections_live") == 1).then_some(())
    });
}

#[test]
fn a_refusal_by_the_gate_does_not_wait_for_the_body() {
    let server = Setup::new().tokens("rw:w").start();
    let mut connection = server.connect();
    connection.send("POST /v1/spans HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n");
    connection.answer().refused(401, "unauthorized");
    assert!(connection.has_ended());
}

#[test]
fn json_that_nests_or_counts_beyond_measure_is_a_400() {
    let server = Server::start();
    let deep = "[".repeat(10_000);
    let deep_objects = "{\"a\":".repeat(10_000);
    let span = |attributes: &str| {
        format!(
            "[{{\"trace_id\":\"t\",\"span_id\":\"s\",\"name\":\"n\",\"start_ns\":1,\"end_ns\":2,\"service\":\"s\",\"attributes\":{attributes}}}]"
        )
    };
    let nested = format!("{{\"k\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    for body in [
        deep.clone(),
        deep_objects.clone(),
        span(&nested),
        span("{\"k\":1e999999999999}"),
        span("{\"k\":NaN}"),
        span("{\"k\":\"\\ud800\"}"),
        span("{\"k\":\"\u{1}\"}"),
        span("7").replace(":7}", ":[[]}"),
    ] {
        let answer = server.post("/v1/spans", &body);
        assert_eq!(answer.status, 400, "{}", &body[..body.len().min(200)]);
    }
    let invalid = [
        &b"[{\"trace_id\":\"\xff\"}]"[..],
        b"\xef\xbb\xbf[]",
        b"[\"\xc0\x80\"]",
    ];
    for body in invalid {
        server.post("/v1/spans", body).expect(400);
        server.post("/v1/traces", body).expect(400);
    }
    for target in [
        "/v1/traces",
        "/v1/annotations",
        "/v1/datasets",
        "/v1/datasets/1/versions",
        "/v1/experiments",
        "/v1/erasures",
    ] {
        for body in [&deep, &deep_objects, "", "7", "null", "[]", "{", "\u{0}"] {
            let answer = server.post(target, body);
            assert_eq!(
                answer.status,
                400,
                "{target} {}",
                &body[..body.len().min(20)]
            );
            answer.error();
        }
    }
    for query in ["attr.k=", "not_attr.k="] {
        let target = format!("/v1/spans?{query}{deep}");
        assert_eq!(server.json(&target)["spans"], json!([]));
    }
    check_healthy(&server);
}

#[test]
fn numbers_as_large_as_they_come_read_back_as_they_are_kept() {
    let server = Server::start();
    let body = r#"[{"trace_id":"t","span_id":"s","name":"n","start_ns":1,"end_ns":2,"service":"s","attributes":
        {"a":18446744073709551615,"b":-9223372036854775808,"c":1.7976931348623157e308,"d":5e-324,"e":0.1,"f":18446744073709551616}}]"#;
    server.post("/v1/spans", body).expect(200);
    let text = server.get("/v1/traces/t").expect(200).text();
    for part in [
        "\"a\":18446744073709551615",
        "\"b\":-9223372036854775808",
        "\"c\":1.7976931348623157e+308",
        "\"d\":5e-324",
        "\"e\":0.1",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    server
        .post(
            "/v1/spans",
            body.replace("\"start_ns\":1", "\"start_ns\":18446744073709551616"),
        )
        .expect(400);
}

#[test]
fn duplicate_members_of_a_span_are_refused_and_of_an_attribute_the_last_counts() {
    let server = Server::start();
    let body = r#"[{"trace_id":"t","trace_id":"u","span_id":"s","name":"n","start_ns":1,"end_ns":2,"service":"s"}]"#;
    server
        .post("/v1/spans", body)
        .refused(400, "duplicate field");
    let body = r#"[{"trace_id":"t","span_id":"s","name":"n","start_ns":1,"end_ns":2,"service":"s","attributes":{"k":1,"k":2}}]"#;
    server.post("/v1/spans", body).expect(200);
    assert_eq!(
        server.spans("/v1/spans?limit=1")[0]["attributes"],
        json!({"k": 2})
    );
}

#[test]
fn a_body_that_unpacks_beyond_its_bound_is_refused_and_takes_little_memory() {
    let server = Server::start();
    // Members and frames one after the other are one body.
    let blanks = vec![b' '; 1 << 20];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&blanks).unwrap();
    let gzip = gzip.finish().unwrap().repeat(80);
    let zstd = zstd::encode_all(&*blanks, 1).unwrap().repeat(80);
    assert!(gzip.len() < 1 << 20 && zstd.len() < 1 << 20);
    for (name, bytes) in [("gzip", &gzip), ("zstd", &zstd)] {
        let fields = format!("Content-Encoding: {name}\r\n");
        let answer = server.ask("POST", "/v1/traces", &fields, bytes);
        answer.refused(400, "longer than");
    }
    for (encoding, words) in [("br", "not supported"), ("gzip, gzip", "not supported")] {
        let fields = format!("Content-Encoding: {encoding}\r\n");
        let answer = server.ask("POST", "/v1/traces", &fields, b"{}");
        answer.refused(400, words);
    }
    for encoding in ["gzip", "zstd"] {
        let fields = format!("Content-Encoding: {encoding}\r\n");
        let answer = server.ask("POST", "/v1/traces", &fields, b"{\"resourceSpans\":[]}");
        answer.refused(400, "not valid");
    }
    assert!(
        server.peak_memory() < MEMORY_MAX,
        "{}",
        server.peak_memory()
    );
    check_healthy(&server);
}

#[test]
fn bodies_of_the_largest_size_at_one_time_stay_under_the_bound_of_memory() {
    let server = Server::with(["--payload-threshold-bytes", "1024"]);
    let text = "x".repeat(24 << 20);
    let body = format!(
        "[{{\"trace_id\":\"t\",\"span_id\":\"s\",\"name\":\"n\",\"start_ns\":1,\"end_ns\":2,\"service\":\"s\",\"attributes\":{{\"k\":\"{text}\"}}}}]"
    );
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..5)
            .map(|_| scope.spawn(|| server.post("/v1/spans", &body).status))
            .collect();
        let statuses = clients.into_iter().map(|client| client.join().unwrap());
        statuses.collect()
    });
    // Those for which there is no room in time are told to come again.
    assert!(statuses.contains(&200), "{statuses:?}");
    assert!(
        statuses.iter().all(|status| [200, 503].contains(status)),
        "{statuses:?}"
    );
    assert!(
        server.peak_memory() < MEMORY_MAX,
        "{}",
        server.peak_memory()
    );
    check_healthy(&server);
}

#[test]
fn text_that_would_become_a_hundred_times_its_size_in_memory_is_refused() {
    let server = Server::with(["--mcp"]);
    let many = |item: &str| vec![item; (12 << 20) / (item.len() + 1)].join(",");
    let body = many("{\"\":0}");
    std::thread::scope(|scope| {
        for (target, body) in [
            (
                "/v1/spans",
                format!("[{{\"attributes\":{{\"k\":[{body}]}}}}]"),
            ),
            ("/v1/annotations", format!("{{\"value\":[{body}]}}")),
            (
                "/v1/datasets/1/versions",
                format!("{{\"examples\":[{body}]}}"),
            ),
        ] {
            let server = &server;
            scope.spawn(move || server.post(target, body).refused(400, "bytes of memory"));
        }
    });
    assert!(
        server.peak_memory() < MEMORY_MAX,
        "{}",
        server.peak_memory()
    );
    check_healthy(&server);
}

#[test]
fn otlp_that_is_none_is_a_400_and_the_server_goes_on() {
    let server = Server::start();
    for body in [
        "{\"resourceSpans\": 7}",
        "{\"resourceSpans\": [null]}",
        "{\"resourceSpans\": [{\"scopeSpans\": [{\"spans\": [{}]}]}]}",
        "{\"resourceSpans\": [{\"scopeSpans\": [{\"spans\": [{\"traceId\": \"\", \"spanId\": \"\"}]}]}]}",
        "[]",
        "{}",
    ] {
        let answer = server.post("/v1/traces", body);
        answer.refused(400, "invalid OTLP request: ");
    }
    let fields = "Content-Type: application/x-protobuf\r\n";
    for body in [
        &b"\xff"[..],
        b"\x0a\xff\xff\xff\xff\x7f",
        b"\x0a\x05\x00",
        b"\x0b",
    ] {
        let answer = server.ask("POST", "/v1/traces", fields, body);
        answer.refused(400, "protobuf decode error: ");
    }
    check_healthy(&server);
}

#[test]
fn a_thousand_idle_connections_leave_room_for_others() {
    let server = Server::with(["--max-connections", "1100"]);
    let held: Vec<_> = (0..1_000).map(|_| server.connect()).collect();
    until("all are taken in", || {
        (server.metric("traza_http_connections_live") == 1_001).then_some(())
    });
    let begun = Instant::now();
    check_healthy(&server);
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(
        server.peak_memory() < MEMORY_MAX / 2,
        "{}",
        server.peak_memory()
    );
    drop(held);
    until("all are gone", || {
        (server.metric("traza_http_connections_live") == 1).then_some(())
    });
}

#[test]
fn a_client_that_leaves_in_the_middle_of_an_answer_harms_nobody() {
    let server = Server::start();
    let spans: Vec<_> = (0..3_000)
        .map(|i| json!({"trace_id": "t", "span_id": format!("{i}"), "name": "n", "start_ns": i, "end_ns": i + 1, "service": "s", "attributes": {"k": "x".repeat(1_000)}}))
        .collect();
    server.ingest(&json!(spans));
    for target in ["/v1/export", "/v1/traces/t", "/v1/tail"] {
        let mut connection = server.connect();
        connection.send(format!("GET {target} HTTP/1.1\r\n\r\n"));
        connection.stream.read_exact(&mut [0; 100]).unwrap();
        drop(connection);
    }
    server.ingest(&json!([spans[0]]));
    until("they are let go", || {
        server.ingest(&json!([spans[0]]));
        (server.metric("traza_http_connections_live") == 1).then_some(())
    });
    assert_eq!(server.metric("traza_http_handler_panics_total"), 0);
    check_healthy(&server);
}
