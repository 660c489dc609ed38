//! The bridge from standard input, against a server on a socket.

use std::io::{BufRead as _, BufReader, Cursor, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};
use traza_server::mcp::{BridgeError, Endpoint, Reply, bridge};

use crate::support::{Server, furnished};

/// A request as it came.
struct Request {
    head: String,
    body: Vec<u8>,
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let len = head.lines().find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("content-length: ")?
            .parse()
            .ok()
    })?;
    let mut body = vec![0; len];
    reader.read_exact(&mut body).ok()?;
    Some(Request { head, body })
}

/// Serves `count` connections with what `answer` makes of each request; answers the address and the heads that came.
fn serve(
    count: usize,
    answer: impl Fn(&Request) -> (u16, String) + Send + 'static,
) -> (String, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind(("localhost", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = thread::spawn(move || {
        let mut heads = Vec::new();
        for _ in 0..count {
            let (mut stream, _) = listener.accept().unwrap();
            let request = read(&stream).unwrap();
            let (status, body) = answer(&request);
            write!(
                stream,
                "HTTP/1.1 {status} X\r\nLocation: /elsewhere\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
            heads.push(request.head);
        }
        heads
    });
    (format!("http://localhost:{port}"), thread)
}

fn run(endpoint: &Endpoint, input: &str) -> (Vec<String>, String) {
    let mut output = Vec::new();
    let mut failures = Vec::new();
    bridge(
        endpoint,
        &mut Cursor::new(input),
        &mut output,
        &mut failures,
    )
    .unwrap();
    let output = String::from_utf8(output).unwrap();
    (
        output.lines().map(str::to_owned).collect(),
        String::from_utf8(failures).unwrap(),
    )
}

#[test]
fn the_bridge_prints_one_line_per_request_equal_to_the_direct_answer_and_none_for_a_notification() {
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "get_trace", "arguments": {"trace_id": "t1"}}}),
        json!({"jsonrpc": "2.0", "id": 4, "method": "nope"}),
    ];
    let direct = |server: &Server, message: &[u8]| match server.send(message) {
        Reply::Answer(answer) => (200, answer),
        Reply::Malformed(answer) => (400, answer),
        Reply::Accepted => (202, String::new()),
    };
    let (url, thread) = serve(messages.len(), {
        let server = Server::new(&furnished());
        move |request| direct(&server, &request.body)
    });
    let endpoint = Endpoint::new(&url, Some("s3cret")).unwrap();
    let lines: Vec<String> = messages.iter().map(Value::to_string).collect();
    // Empty lines are no messages.
    let input = lines.join(
        "

",
    );
    let (lines, failures) = run(&endpoint, &input);
    let server = Server::new(&furnished());
    let answers: Vec<String> = messages
        .iter()
        .map(|message| direct(&server, message.to_string().as_bytes()))
        .filter(|(status, _)| *status == 200)
        .map(|(_, answer)| answer)
        .collect();
    assert_eq!(lines, answers);
    assert_eq!(failures, "");
    for head in thread.join().unwrap() {
        assert!(head.starts_with("POST /v1/mcp HTTP/1.1\r\n"), "{head}");
        assert!(
            head.to_ascii_lowercase()
                .contains("authorization: bearer s3cret\r\n"),
            "{head}"
        );
    }
}

#[test]
fn what_the_server_refuses_goes_to_the_failures_and_to_a_client_that_waits() {
    let (url, thread) = serve(3, |_| (403, "{\"error\":\n\"forbidden\"}".to_owned()));
    let input = "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"note\"}\n{broken\n";
    let (lines, failures) = run(&Endpoint::new(&url, None).unwrap(), input);
    assert_eq!(lines.len(), 1);
    let answer: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!("a"), &json!(-32_603))
    );
    assert!(answer["error"]["message"].as_str().unwrap().contains("403"));
    assert_eq!(failures.lines().count(), 3);
    let heads = thread.join().unwrap();
    assert!(
        heads
            .iter()
            .all(|head| !head.to_ascii_lowercase().contains("authorization"))
    );
}

#[test]
fn a_redirection_is_not_followed() {
    let (url, thread) = serve(1, |_| (307, String::new()));
    let (lines, failures) = run(
        &Endpoint::new(&url, Some("s3cret")).unwrap(),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
    );
    assert!(
        lines[0].contains("-32603") && failures.contains("307"),
        "{failures}"
    );
    thread.join().unwrap();
}

#[test]
fn a_server_that_is_not_there_is_told_to_the_client() {
    let port = TcpListener::bind(("localhost", 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let endpoint = Endpoint::new(&format!("http://localhost:{port}/v1/mcp"), None).unwrap();
    let (lines, failures) = run(
        &endpoint,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
    );
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("-32603") && failures.contains("does not answer"));
}

#[test]
fn an_answer_over_several_lines_becomes_one() {
    let (url, thread) = serve(1, |_| (200, "{\n \"id\": 1\r\n}\n".to_owned()));
    let (lines, _) = run(&Endpoint::new(&url, None).unwrap(), "{\"id\":1}\n");
    assert_eq!(lines.len(), 1);
    assert_eq!(
        serde_json::from_str::<Value>(&lines[0]).unwrap(),
        json!({"id": 1})
    );
    thread.join().unwrap();
}

#[test]
fn a_path_of_its_own_is_kept() {
    let (url, thread) = serve(1, |_| (202, String::new()));
    let (lines, _) = run(
        &Endpoint::new(&format!("{url}/behind/mcp"), None).unwrap(),
        "{\"id\":1}",
    );
    assert!(lines.is_empty());
    assert!(thread.join().unwrap()[0].starts_with("POST /behind/mcp "));
}

#[test]
fn an_address_that_cannot_be_served_is_refused_with_the_reason() {
    for (url, part) in [
        ("https://localhost", "http only"),
        ("localhost:8080", "http://"),
        ("ftp://localhost", "http://"),
        ("", ""),
        ("/v1/mcp", "http://"),
        ("http://me@localhost", "without a user"),
    ] {
        let error = Endpoint::new(url, None).unwrap_err();
        assert!(matches!(error, BridgeError::Url { .. }), "{url}");
        assert!(error.to_string().contains(part), "{error}");
    }
    for token in ["", "a b", "a\r\nX: y"] {
        assert!(matches!(
            Endpoint::new("http://localhost", Some(token)),
            Err(BridgeError::Token)
        ));
    }
}
