//! Requests after each other on one connection, and connections beside each other.
//!
//! Promise: every request that comes whole is answered, in order, by an answer that says where it ends and whether the
//! connection goes on; nothing inside a body is ever taken for a request.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use durable::{RealFs, publish};
use serde_json::json;

use crate::support::{Connection, Server, Setup, sample, until};

const SPAN: &str =
    r#"[{"trace_id":"t","span_id":"ID","name":"n","start_ns":1,"end_ns":2,"service":"s"}]"#;

fn post(id: usize, fields: &str) -> String {
    let body = SPAN.replace("ID", &id.to_string());
    let len = body.len();
    format!("POST /v1/spans HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: {len}\r\n\r\n{body}")
}

#[test]
fn many_requests_on_one_connection_are_answered_one_by_one() {
    let server = Server::start();
    let mut connection = server.connect();
    for id in 0..25 {
        connection.send(post(id, ""));
        let answer = connection.answer().expect(200);
        assert_eq!(answer.phrase, "OK");
        assert_eq!(answer.field("connection"), Some("keep-alive"));
        assert_eq!(answer.field("content-type"), Some("application/json"));
    }
    assert_eq!(server.json("/v1/stats")["record_count"], 25);
    // A refusal of what was read to its end does not end the connection.
    connection.send("GET /v1/none HTTP/1.1\r\n\r\n");
    let answer = connection.answer().expect(404);
    assert_eq!(answer.field("connection"), Some("keep-alive"));
    connection.send("GET /v1/spans?limit=x HTTP/1.1\r\n\r\n");
    connection.answer().expect(400);
    connection.send(post(99, "Connection: close\r\n"));
    let answer = connection.answer().expect(200);
    assert_eq!(answer.field("connection"), Some("close"));
    assert!(connection.has_ended());
}

#[test]
fn requests_that_come_together_are_answered_in_their_order() {
    let server = Server::start();
    let mut connection = server.connect();
    let together = [
        post(1, ""),
        "GET /v1/traces/t HTTP/1.1\r\n\r\n".to_owned(),
        post(2, "Expect: 100-continue\r\n"),
        "GET /v1/stats HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(),
        "GET /v1/stats HTTP/1.1\r\n\r\n".to_owned(),
    ]
    .concat();
    connection.send(&together);
    assert_eq!(connection.answer().expect(200).json()["accepted"], 1);
    let trace = connection.answer().expect(200).json();
    assert_eq!(trace["spans"].as_array().unwrap().len(), 1);
    assert_eq!(connection.answer().expect(200).json()["accepted"], 1);
    assert_eq!(connection.answer().expect(200).json()["record_count"], 2);
    assert!(
        connection.has_ended(),
        "nothing follows an answer that ends the connection"
    );
    // And a byte at a time.
    let mut connection = server.connect();
    for byte in post(3, "").as_bytes() {
        connection.stream.write_all(&[*byte]).unwrap();
    }
    connection.answer().expect(200);
}

#[test]
fn old_clients_keep_a_connection_only_when_they_ask_for_it() {
    let server = Server::start();
    let mut connection = server.connect();
    for _ in 0..3 {
        connection.send("GET /v1/stats HTTP/1.0\r\nConnection: X, Keep-Alive\r\n\r\n");
        let answer = connection.answer().expect(200);
        assert_eq!(answer.field("connection"), Some("keep-alive"));
    }
    connection.send("GET /v1/stats HTTP/1.0\r\n\r\n");
    assert_eq!(connection.answer().field("connection"), Some("close"));
    assert!(connection.has_ended());
    let mut connection = server.connect();
    connection.send("GET /v1/stats\r\n\r\n");
    connection.answer().expect(200);
    assert!(connection.has_ended());
    let mut connection = server.connect();
    connection.send(
        "GET /v1/stats HTTP/1.1\r\nConnection: keep-alive, upgrade\r\nConnection: CLOSE\r\n\r\n",
    );
    assert_eq!(connection.answer().field("connection"), Some("close"));
    assert!(connection.has_ended());
}

#[test]
fn a_request_inside_the_body_of_another_is_never_answered() {
    let server = Server::start();
    let inner = post(7, "");
    let len = inner.len();
    let chunked = format!("{len:x}\r\n{inner}\r\n0\r\n\r\n");
    for (fields, body, words) in [
        (
            "Transfer-Encoding: chunked\r\n".to_owned(),
            &chunked,
            "transfer-encoded request bodies",
        ),
        (
            format!("Transfer-Encoding: chunked\r\nContent-Length: {len}\r\n"),
            &chunked,
            "transfer-encoded",
        ),
        (
            format!("Content-Length: {len}\r\nTransfer-Encoding: xchunked\r\n"),
            &inner,
            "transfer-encoded",
        ),
        (
            "Transfer-Encoding: identity\r\n".to_owned(),
            &inner,
            "transfer-encoded",
        ),
        (
            "Transfer-Encoding:\tchunked\r\nContent-Encoding: gzip\r\n".to_owned(),
            &chunked,
            "transfer-encoded",
        ),
        (
            "Content-Length: 0\r\nContent-Length: 0\r\n".to_owned(),
            &inner,
            "duplicate content-length",
        ),
        (
            format!("Content-Length: 0\r\ncontent-length: {len}\r\n"),
            &inner,
            "duplicate content-length",
        ),
        (
            "Content-Length: 0, 0\r\n".to_owned(),
            &inner,
            "invalid content-length",
        ),
        (
            "Content-Length: +0\r\n".to_owned(),
            &inner,
            "invalid content-length",
        ),
        (
            "Content-Length : 0\r\n".to_owned(),
            &inner,
            "invalid header field",
        ),
        (
            "X: y\r\n Content-Length: 5\r\n".to_owned(),
            &inner,
            "invalid header field",
        ),
    ] {
        let mut connection = server.connect();
        connection.send(format!("POST /v1/spans HTTP/1.1\r\n{fields}\r\n{body}"));
        connection.answer().refused(400, words);
        assert!(connection.has_ended(), "{fields}");
    }
    // A body that is taken as one, whatever the route makes of it.
    let mut connection = server.connect();
    connection.send(format!(
        "GET /v1/stats HTTP/1.1\r\nContent-Length: {len}\r\n\r\n{inner}"
    ));
    connection.answer().expect(200);
    connection.send("GET /v1/stats HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(connection.answer().expect(200).json()["record_count"], 0);
    assert!(connection.has_ended());
    // Neither is what stands behind a page that was asked for with a body.
    let mut connection = server.connect();
    connection.send(format!(
        "GET / HTTP/1.1\r\nContent-Length: {len}\r\n\r\n{inner}"
    ));
    connection.answer().expect(200);
    assert!(connection.has_ended());
    assert_eq!(server.json("/v1/stats")["record_count"], 0);
}

#[test]
fn a_compressed_export_in_chunks_leaves_the_connection_at_the_next_request() {
    let server = Server::start();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"{\"resourceSpans\":[]}").unwrap();
    let bytes = gzip.finish().unwrap();
    let (first, second) = bytes.split_at(7);
    let mut connection = server.connect();
    let mut request =
        b"POST /v1/traces HTTP/1.1\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
            .to_vec();
    for part in [first, second] {
        request.extend_from_slice(format!("{:x};ext=1\r\n", part.len()).as_bytes());
        request.extend_from_slice(part);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\nTrailer: x\r\n\r\nGET /v1/stats HTTP/1.1\r\n\r\n");
    connection.send(&request);
    assert_eq!(
        connection.answer().expect(200).json(),
        json!({"partialSuccess": {}})
    );
    connection.answer().expect(200);
    for body in [
        "x\r\n",
        "5\r\nab\r\n0\r\n\r\n",
        "2\r\nabc\r\n",
        "fffffffffffffffff\r\n",
        "4000001\r\n",
    ] {
        let mut connection = server.connect();
        connection.send(format!(
            "POST /v1/traces HTTP/1.1\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n{body}"
        ));
        connection
            .stream
            .shutdown(std::net::Shutdown::Write)
            .unwrap();
        connection.answer().expect(400);
        assert!(connection.has_ended(), "{body:?}");
    }
}

#[test]
fn other_methods_and_other_spellings_find_no_route() {
    let server = Server::start();
    for method in ["HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "get", "TRACE"] {
        let mut connection = server.connect();
        connection.send(format!("{method} /v1/stats HTTP/1.1\r\n\r\n"));
        connection.answer().refused(404, "not found");
    }
    for target in [
        "/v1/stats/",
        "//v1/stats",
        "/v1/Stats",
        "/v1",
        "/v1/",
        "/v1/traces/",
        "/v1/test-panic",
        "*",
    ] {
        server.get(target).refused(404, "not found");
    }
    server.post("/v1/stats", "").refused(404, "not found");
    server.post("/v1/metrics", "{}").refused(404, "not found");
}

#[test]
fn one_connection_too_many_is_told_so_and_counted_once() {
    let server = Server::with(["--max-connections", "2"]);
    let mut held = server.connect();
    let mut other = server.connect();
    for connection in [&mut held, &mut other] {
        connection.send("GET /v1/stats HTTP/1.1\r\n\r\n");
        connection.answer().expect(200);
    }
    for _ in 0..3 {
        // The answer comes without a question, and can be read by a client that was still sending one.
        let mut third = server.connect();
        third.stream.write_all(post(1, "").as_bytes()).ok();
        let answer = third.answer().refused(503, "server at connection limit");
        assert_eq!(answer.phrase, "Service Unavailable");
        assert_eq!(answer.field("connection"), Some("close"));
        assert!(third.has_ended());
    }
    drop(other);
    let page = until("a slot is free", || {
        let answer = server.get("/v1/metrics");
        (answer.status == 200).then(|| answer.text())
    });
    held.send("GET /v1/metrics HTTP/1.1\r\n\r\n");
    let refused = sample(
        &held.answer().text(),
        "traza_http_connections_refused_total",
    );
    assert!(refused >= Some(3), "{page}");
    assert!(server.log().contains("refused"));
}

#[test]
fn a_handler_that_panics_frees_its_slot_and_the_server_goes_on() {
    let server = Setup::new()
        .variable("TRAZA_TEST_PANIC", "1")
        .args(["--max-connections", "2"])
        .start();
    for _ in 0..3 {
        until("a slot is free", || {
            let mut connection = server.connect();
            connection.send("GET /v1/test-panic HTTP/1.1\r\n\r\n");
            match connection.try_answer() {
                None => Some(()),
                Some(answer) => {
                    answer.expect(503);
                    None
                }
            }
        });
    }
    let panics = until("the panics are counted", || {
        let answer = server.get("/v1/metrics");
        let page = (answer.status == 200).then(|| answer.text())?;
        let live = sample(&page, "traza_http_connections_live");
        (live == Some(1)).then(|| sample(&page, "traza_http_handler_panics_total"))
    });
    assert_eq!(panics, Some(3));
    for value in ["0", ""] {
        let server = Setup::new().variable("TRAZA_TEST_PANIC", value).start();
        server.get("/v1/test-panic").refused(404, "not found");
    }
}

/// A client that trusts one certificate.
fn tls_client(
    server: &Server,
    certificate: rustls::pki_types::CertificateDer<'static>,
) -> Connection<impl std::io::Read + std::io::Write> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let socket = TcpStream::connect(server.address).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    Connection::over(rustls::StreamOwned::new(client, socket))
}

#[test]
fn with_a_certificate_everything_is_encrypted() {
    let setup = Setup::new();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (setup.path("cert.pem"), setup.path("key.pem"));
    publish(&RealFs, &certificate, made.cert.pem().as_bytes()).unwrap();
    publish(&RealFs, &key, made.signing_key.serialize_pem().as_bytes()).unwrap();
    let server = setup
        .args(["--tls-cert", "cert.pem", "--tls-key", "key.pem"])
        .start();
    let mut client = tls_client(&server, made.cert.der().clone());
    for id in 0..3 {
        client.send(post(id, ""));
        client.answer().expect(200);
    }
    // Larger than a record of TLS, in both directions.
    let text = "x".repeat(200 << 10);
    let body = SPAN.replace("\"service\":\"s\"", &format!("\"service\":\"{text}\""));
    client.send(format!(
        "POST /v1/spans HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    client.answer().expect(200);
    client.send("GET /v1/export HTTP/1.1\r\n\r\n");
    let export = client.answer().expect(200);
    assert_eq!(export.trailer("X-Traza-Export-Count"), "4");
    assert!(client.has_ended());
    // One who does not encrypt gets nothing readable, and one who does not trust the certificate goes away.
    let mut plain = server.connect();
    plain
        .stream
        .write_all(b"GET /v1/stats HTTP/1.1\r\n\r\n")
        .unwrap();
    let mut came = Vec::new();
    std::io::Read::read_to_end(&mut plain.stream, &mut came).ok();
    assert!(!came.starts_with(b"HTTP"));
    let mut client = tls_client(&server, made.cert.der().clone());
    client.send("GET /v1/stats HTTP/1.1\r\nConnection: close\r\n\r\n");
    client.answer().expect(200);
    assert!(client.has_ended());
}

#[test]
fn a_connection_ends_behind_its_hundred_thousandth_answer() {
    const REQUESTS: usize = 100_000;
    const BEYOND: usize = 100;
    let server = Server::start();
    let mut connection = server.connect();
    let mut writing = connection.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let together = "GET /healthz HTTP/1.1\r\n\r\n".repeat(BEYOND);
        for _ in 0..=REQUESTS / BEYOND {
            // The server need not read what it will not answer.
            if writing.write_all(together.as_bytes()).is_err() {
                return;
            }
        }
    });
    let answer = connection.answer().expect(200);
    assert_eq!(answer.field("connection"), Some("keep-alive"));
    let (mut answers, mut came, mut piece) = (1, Vec::new(), vec![0; 1 << 16]);
    let status = b"HTTP/1.1 200 OK\r\n";
    loop {
        // A reset at the end: nobody has read the rest of the requests.
        let len = connection.read_more(&mut piece);
        came.extend_from_slice(&piece[..len]);
        answers += came
            .windows(status.len())
            .filter(|window| window == status)
            .count();
        if len == 0 {
            break;
        }
        // One that is cut off stays.
        came.drain(..came.len().saturating_sub(status.len() - 1));
    }
    sender.join().unwrap();
    assert_eq!(answers, REQUESTS);
    server.get("/healthz").expect(200);
}
