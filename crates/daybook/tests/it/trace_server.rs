//! The verbs of traces ask a server as they ask a folder.
//!
//! Oracle: the same verb on the folder, when the server has ended.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::support::{Ran, Scratch};

const TOKEN: &str = "0123456789abcdef";

/// A server of the folder `s`.
pub(crate) struct Served {
    child: Child,
    address: String,
    rest: Option<JoinHandle<String>>,
}

impl Served {
    pub(crate) fn start(scratch: &Scratch, flags: &[&str], tokens: &str) -> Self {
        let mut args = vec!["serve", "--port", "0", "--data-dir", "s"];
        args.extend(flags);
        let mut command = scratch.command(&args);
        command.stderr(Stdio::piped()).env_remove("TRAZA_TOKENS");
        if !tokens.is_empty() {
            command.env("TRAZA_TOKENS", tokens);
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut address = String::new();
        let mut seen = String::new();
        while address.is_empty() {
            let start = seen.len();
            assert_ne!(lines.read_line(&mut seen).unwrap(), 0, "{seen}");
            if let Some(rest) = seen[start..].trim().split("listening on ").nth(1) {
                address = rest.to_owned();
            }
        }
        let rest = std::thread::spawn(move || {
            let mut rest = String::new();
            lines.read_to_string(&mut rest).unwrap();
            rest
        });
        Self {
            child,
            address,
            rest: Some(rest),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it as an operator does, so that the folder holds everything.
    pub(crate) fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        let rest = self.rest.take().unwrap().join().unwrap();
        assert!(status.success(), "{rest}");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // After a failed assertion; one that has ended already cannot be killed.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn trace(scratch: &Scratch, args: &[&str]) -> Ran {
    scratch.daybook(&[&["trace"], args].concat())
}

/// `verb` with the address or the folder in front of its arguments.
fn at(scratch: &Scratch, verb: &[&str], place: &[&str], rest: &[&str]) -> Ran {
    trace(scratch, &[verb, place, rest].concat())
}

/// 1,207 spans in 403 traces, many with one start, so that pages end between equals.
fn spans() -> String {
    let mut lines = String::new();
    for id in 0..1207_u64 {
        let span = json!({
            "trace_id": format!("t/{}", id / 3), "span_id": format!("{id:04}"),
            "parent_span_id": if id % 3 == 0 { Value::Null } else { json!(format!("{:04}", id - id % 3)) },
            "name": if id % 5 == 0 { "chat" } else { "tool" }, "service": "bot",
            "$tenant": if id % 100 < 3 { "acme" } else { "" },
            "status": if id % 7 == 0 { "error" } else { "ok" },
            "start_time_ns": 1_000_000_000 + id / 50, "end_time_ns": 2_000_000_000 + id * 37 % 1000,
            "attributes": {
                "session.id": format!("s {}", id % 9), "code": id % 4, "score": f64::from(u32::try_from(id).unwrap()) / 7.0,
                "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": id,
                "text": if id % 11 == 0 { "Refund of the order" } else { "nothing" },
            },
            "events": [{"name": "e", "timestamp_ns": 5, "attributes": {"k": "ü\n"}}],
            "extra": id,
        });
        lines.push_str(&span.to_string());
        lines.push('\n');
    }
    lines
}

/// What depends on where and when it was asked.
fn without_cost(mut document: Value) -> Value {
    if let Some(members) = document.as_object_mut() {
        members.remove("cost");
        members.remove("path");
    }
    document
}

/// A trace of a session as far as a server tells it.
fn as_told(mut document: Value) -> Value {
    let traces = document.get_mut("traces").and_then(Value::as_array_mut);
    for trace in traces.into_iter().flatten() {
        let trace = trace.as_object_mut().unwrap();
        for name in ["llm_calls", "prompt_tokens", "completion_tokens"] {
            trace.insert(name.to_owned(), Value::Null);
        }
    }
    document
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "a list of verbs, one after the other"
)]
fn questions_have_the_same_answers_over_a_server_and_from_its_folder() {
    let scratch = Scratch::new();
    scratch.write("in.jsonl", spans().as_bytes());
    let server = Served::start(&scratch, &[], "");
    let url = server.url();
    let ingested = at(
        &scratch,
        &["ingest"],
        &["--url", &url],
        &["in.jsonl", "--json"],
    );
    let ingested = ingested.expect(0).json();
    assert_eq!(ingested["accepted"], 1207);
    assert_eq!(ingested["batches"], 3);
    assert_eq!(ingested["durability"], "wal");
    assert_eq!(ingested["complete"], true);

    let questions: &[(&str, &[&str])] = &[
        ("query", &["--limit", "0", "--json"]),
        ("query", &["--limit", "700", "--json"]),
        (
            "query",
            &[
                "--limit", "0", "--sort", "-start", "--status", "error", "--json",
            ],
        ),
        (
            "query",
            &[
                "--limit",
                "20",
                "--sort",
                "-duration",
                "--tenant",
                "",
                "--json",
            ],
        ),
        (
            "query",
            &[
                "--attr",
                "code=2",
                "--not-attr",
                "code=3",
                "--min-attr",
                "score=10.5",
                "--json",
            ],
        ),
        (
            "query",
            &[
                "--max-attr",
                "score=9",
                "--not-status",
                "ok",
                "--session",
                "s 3",
                "--json",
            ],
        ),
        (
            "query",
            &[
                "--since",
                "1000000003",
                "--until",
                "1000000004",
                "--min-duration",
                "1s",
                "--json",
            ],
        ),
        (
            "query",
            &[
                "--tenant",
                "acme",
                "--name",
                "chat",
                "--service",
                "bot",
                "--attributes",
            ],
        ),
        ("search", &["refund", "order", "--limit", "0", "--json"]),
        ("search", &["refund", "--status", "error"]),
        ("get", &["t/7", "--json"]),
        ("get", &["t/7", "--attributes"]),
        ("get", &["t/0", "--tenant", "acme"]),
        ("sessions", &["--json"]),
        ("sessions", &["--limit", "3", "--since", "1000000010"]),
        ("sessions", &["s 3", "--json"]),
        ("export", &[]),
        ("export", &["--limit", "777", "--status", "ok"]),
        ("export", &["--format", "csv"]),
    ];
    let asked: Vec<Ran> = questions
        .iter()
        .map(|(verb, rest)| at(&scratch, &[verb], &["--url", &url], rest).expect(0))
        .collect();
    // The address may stand where a folder would.
    let other = at(&scratch, &["query"], &[&url], &["--limit", "0", "--json"]).expect(0);
    assert_eq!(without_cost(other.json()), without_cost(asked[0].json()));
    let parquet = ["--format", "parquet", "-o", "server.parquet"];
    at(&scratch, &["export"], &["--url", &url], &parquet).expect(0);
    let stats = at(&scratch, &["stats"], &["--url", &url], &["--json"]);
    let stats = stats.expect(0).json();
    assert_eq!(
        stats["persisted_records"].as_u64().unwrap() + stats["buffered_spans"].as_u64().unwrap(),
        1207
    );
    server.stop();

    for ((verb, rest), over_server) in questions.iter().zip(asked) {
        let from_folder = at(&scratch, &[verb], &["s"], rest).expect(0);
        let told = format!("{verb} {rest:?}");
        if rest.contains(&"--json") {
            let over_server = without_cost(over_server.json());
            assert_eq!(
                over_server,
                as_told(without_cost(from_folder.json())),
                "{told}"
            );
        } else {
            assert!(!over_server.out.is_empty(), "{told}");
            assert_eq!(over_server.out, from_folder.out, "{told}");
        }
    }
    let parquet = ["--format", "parquet", "-o", "folder.parquet"];
    at(&scratch, &["export"], &["s"], &parquet).expect(0);
    let rows = |name: &str| {
        use parquet::file::reader::{FileReader as _, SerializedFileReader};
        let bytes = bytes::Bytes::from(scratch.read(name));
        let reader = SerializedFileReader::new(bytes).unwrap();
        let rows = reader.get_row_iter(None).unwrap();
        rows.map(|row| row.unwrap().to_string()).collect::<Vec<_>>()
    };
    let (over_server, from_folder) = (rows("server.parquet"), rows("folder.parquet"));
    assert_eq!(over_server.len(), 1207);
    assert_eq!(over_server, from_folder);
}

#[test]
fn the_next_page_of_a_server_goes_on_where_the_last_one_ended() {
    let scratch = Scratch::new();
    scratch.write("in.jsonl", spans().as_bytes());
    trace(&scratch, &["ingest", "s", "in.jsonl"]).expect(0);
    let server = Served::start(&scratch, &[], "");
    let url = server.url();
    let page = |cursor: Option<&str>| {
        let mut rest = vec!["--sort", "-start", "--limit", "601", "--json"];
        rest.extend(cursor.iter().flat_map(|cursor| ["--cursor", cursor]));
        at(&scratch, &["query"], &["--url", &url], &rest)
            .expect(0)
            .json()
    };
    let all = at(
        &scratch,
        &["query"],
        &["--url", &url],
        &["--sort", "-start", "--limit", "0", "--json"],
    );
    let mut paged = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let mut found = page(next.as_deref());
        paged.append(found["spans"].as_array_mut().unwrap());
        match found["next_cursor"].as_str() {
            Some(cursor) => next = Some(cursor.to_owned()),
            None => break,
        }
    }
    assert_eq!(paged.len(), 1207);
    assert_eq!(Value::from(paged), all.expect(0).json()["spans"]);
    let told = trace(&scratch, &["query", "--url", &url, "--limit", "2"]).expect(0);
    assert!(
        told.err.contains("next page: daybook trace query --url"),
        "{}",
        told.err
    );
    server.stop();
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "a list of verbs, one after the other"
)]
fn what_is_done_over_a_server_is_in_its_folder_afterwards() {
    let scratch = Scratch::new();
    scratch.write("in.jsonl", spans().as_bytes());
    let examples = "{\"example_id\":\"a\",\"input\":{\"q\":\"1+1\"},\"expected\":2,\"split\":\"test\",\
         \"provenance\":{\"tenant\":\"acme\",\"trace_id\":\"t/0\"}}\n{\"example_id\":\"b\",\"input\":[1.5]}\n";
    scratch.write("examples.jsonl", examples.as_bytes());
    let server = Served::start(&scratch, &[], "");
    let url = server.url();
    let ask = |verb: &[&str], rest: &[&str]| at(&scratch, verb, &["--url", &url], rest);
    ask(&["ingest"], &["in.jsonl"]).expect(0);
    let flushed = ask(&["flush"], &["--json"]).expect(0).json();
    assert_eq!(
        (&flushed["sealed"], &flushed["segments"]),
        (&Value::Null, &json!(1))
    );
    let generation = ask(&["checkpoint"], &["--json"]).expect(0).json()["generation"].as_u64();
    let pinned = ask(&["pin"], &["kept", "--json"]).expect(0).json();
    assert!(pinned["generation"].as_u64() > generation, "{pinned}");
    ask(&["pin"], &["given-up"]).expect(0);
    ask(&["unpin"], &["given-up"]).expect(0);
    let taken = ask(&["pin"], &["kept"]).expect(2);
    assert!(taken.err.contains("answers 409"), "{}", taken.err);

    let created = ask(&["dataset", "create"], &["hard", "--tenant", "acme"]).expect(0);
    assert_eq!(created.out, "dataset 1\n");
    let version = [
        "1",
        "examples.jsonl",
        "--provenance",
        "{\"by\":\"ann\"}",
        "--json",
    ];
    let version = ask(&["dataset", "version"], &version).expect(0).json();
    let name = version["version_id"].as_str().unwrap();
    assert_eq!(
        (&version["examples"], &version["created"]),
        (&json!(2), &json!(true))
    );
    let again = ask(&["dataset", "version"], &["1", "examples.jsonl"]).expect(0);
    assert!(
        again.out.ends_with("2 examples, as before\n"),
        "{}",
        again.out
    );
    let one = [
        ["1", &name[..8], "--name", "one", "--config", "{\"t\":0.5}"],
        ["1", name, "--name", "two", "--config", "7"],
    ];
    for (id, rest) in (1..).zip(one) {
        let created = ask(&["experiment", "create"], &rest).expect(0);
        assert_eq!(created.out, format!("experiment {id}\n"));
        ask(
            &["experiment", "run"],
            &[&id.to_string(), "a", "--trace", "t/1"],
        )
        .expect(0);
    }
    for (experiment, value) in [("1", "0.25"), ("2", "0.75")] {
        let score = [
            "pass",
            value,
            "--experiment",
            experiment,
            "--example",
            "a",
            "--tenant",
            "acme",
        ];
        ask(&["annotate"], &score).expect(0);
    }
    let judged = [
        "quality",
        "{\"a\":[1]}",
        "--trace",
        "t/1",
        "--source",
        "human:ann",
        "--comment",
        "ok",
    ];
    let judged = ask(&["annotate"], &[&judged[..], &["--json"]].concat())
        .expect(0)
        .json();
    assert_eq!(judged["recorded"], true);
    ask(
        &["annotate"],
        &["seen", "true", "--session", "s 3", "--tenant", "acme"],
    )
    .expect(0);

    // The pin still has it.
    let erased = ask(&["erase"], &["--trace", "t/9", "--json"])
        .expect(2)
        .json();
    assert_eq!(
        (&erased["result"], &erased["erasure_id"]),
        (&json!("not-erased"), &json!(1))
    );
    let gone = ask(&["get"], &["t/9"]).expect(2);
    assert!(gone.err.contains("no trace t/9 in http://"), "{}", gone.err);

    let questions: &[(&[&str], &[&str])] = &[
        (&["annotations"], &["--json"]),
        (
            &["annotations"],
            &["--name", "quality", "--source", "human", "--limit", "1"],
        ),
        (&["annotations"], &["--session", "s 3", "--tenant", "acme"]),
        (&["dataset", "list"], &["--json"]),
        (&["dataset", "list"], &["--tenant", "acme"]),
        (&["dataset", "show"], &["1"]),
        (&["dataset", "show"], &["1", &name[..6], "--json"]),
        (&["dataset", "show"], &["1", name]),
        (&["experiment", "list"], &["--dataset", "1", "--json"]),
        (&["experiment", "list"], &[]),
        (&["experiment", "show"], &["1", "--json"]),
        (&["experiment", "show"], &["2"]),
        (&["experiment", "scores"], &["1", "--json"]),
        (&["experiment", "summary"], &["1", "--json"]),
        (&["experiment", "summary"], &["2"]),
        (&["experiment", "diff"], &["1", "2", "--json"]),
        (&["experiment", "diff"], &["1", "2"]),
        (&["erasures"], &["--json"]),
        (&["erasures"], &[]),
    ];
    let asked: Vec<Ran> = questions
        .iter()
        .map(|(verb, rest)| ask(verb, rest).expect(0))
        .collect();
    let receipt = ask(&["receipt"], &["latest"]).expect(2);
    assert!(receipt.out.contains("not erased"), "{}", receipt.out);
    let absent = ask(&["experiment", "diff"], &["1", "5"]).expect(2);
    assert!(
        absent.err.contains("there is no experiment 5"),
        "{}",
        absent.err
    );
    let absent = ask(&["dataset", "show"], &["4"]).expect(2);
    assert!(
        absent.err.contains("there is no dataset 4"),
        "{}",
        absent.err
    );
    let absent = ask(&["sessions"], &["nobody"]).expect(2);
    assert!(absent.err.contains("there is no session"), "{}", absent.err);
    server.stop();

    for ((verb, rest), over_server) in questions.iter().zip(asked) {
        let from_folder = at(&scratch, verb, &["s"], rest).expect(0);
        if rest.contains(&"--json") {
            assert_eq!(over_server.json(), from_folder.json(), "{verb:?} {rest:?}");
        } else {
            assert!(!over_server.out.is_empty(), "{verb:?} {rest:?}");
            assert_eq!(over_server.out, from_folder.out, "{verb:?} {rest:?}");
        }
    }
    let pins = trace(&scratch, &["pins", "s", "--json"]).expect(0).json();
    let labels: Vec<&Value> = pins
        .as_array()
        .unwrap()
        .iter()
        .map(|pin| &pin["label"])
        .collect();
    assert_eq!(labels, ["kept"]);
    let server = Served::start(&scratch, &[], "");
    let url = server.url();
    let done = at(
        &scratch,
        &["dataset", "tombstone"],
        &[&url],
        &["1", name, "--reason", "old"],
    );
    assert_eq!(done.expect(0).out, "not to be used any more\n");
    let hidden = at(&scratch, &["dataset", "show"], &[&url], &["1", name]).expect(2);
    assert!(hidden.err.contains("tombstoned"), "{}", hidden.err);
    server.stop();
    let shown = trace(&scratch, &["dataset", "show", "s", "1"]).expect(0);
    assert!(shown.out.contains("not to be used: old"), "{}", shown.out);
}

#[test]
fn a_wrong_token_a_missing_one_and_one_with_fewer_rights_are_told_apart() {
    let scratch = Scratch::new();
    scratch.write("in.jsonl", spans().as_bytes());
    let tokens = format!("rw:{TOKEN},ro:{TOKEN}-reader");
    let server = Served::start(&scratch, &[], &tokens);
    let url = server.url();
    let stats = |token: Option<&str>| {
        let mut args = vec!["stats", "--url", &url];
        args.extend(token.iter().flat_map(|token| ["--token", token]));
        trace(&scratch, &args)
    };
    let missing = stats(None).expect(2);
    assert!(
        missing.err.contains(&format!("{url} answers 401")),
        "{}",
        missing.err
    );
    assert!(missing.err.contains("TRAZA_TOKEN"), "{}", missing.err);
    let wrong = stats(Some("another")).expect(2);
    assert!(
        wrong.err.contains("does not know the token"),
        "{}",
        wrong.err
    );
    assert!(!wrong.err.contains("another"), "{}", wrong.err);
    stats(Some(TOKEN)).expect(0);
    let of_environment = scratch
        .command(&["trace", "stats", "--url", &url])
        .env("TRAZA_TOKEN", TOKEN)
        .output();
    Ran::from(of_environment.unwrap()).expect(0);
    let reader = format!("{TOKEN}-reader");
    let refused = trace(&scratch, &["ingest", &url, "in.jsonl", "--token", &reader]).expect(2);
    assert!(refused.err.contains("answers 403"), "{}", refused.err);
    assert!(refused.out.contains("accepted 0 spans"), "{}", refused.out);
    let broken = stats(Some("a b")).expect(2);
    assert!(broken.err.contains("visible ASCII"), "{}", broken.err);
    server.stop();
}

#[test]
fn a_server_with_a_certificate_of_its_own_is_trusted_when_the_certificate_is_named() {
    let scratch = Scratch::new();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    scratch.write("cert.pem", certified.cert.pem().as_bytes());
    scratch.write("key.pem", certified.signing_key.serialize_pem().as_bytes());
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    scratch.write("other.pem", other.cert.pem().as_bytes());
    scratch.write("in.jsonl", spans().as_bytes());
    let server = Served::start(
        &scratch,
        &["--tls-cert", "cert.pem", "--tls-key", "key.pem"],
        "",
    );
    let port = server.address.rsplit(':').next().unwrap();
    let url = format!("https://localhost:{port}");
    let trusted = ["--url", &url, "--ca", "cert.pem"];
    at(&scratch, &["ingest"], &trusted, &["in.jsonl"]).expect(0);
    let found = at(&scratch, &["query"], &trusted, &["--limit", "0", "--json"]);
    assert_eq!(
        found.expect(0).json()["spans"].as_array().unwrap().len(),
        1207
    );
    for roots in [&["--ca", "other.pem"][..], &[]] {
        let ran = at(&scratch, &["stats"], &["--url", &url], roots).expect(2);
        assert!(ran.err.contains("--ca FILE"), "{roots:?}: {}", ran.err);
    }
    let name = format!("https://127.0.0.1:{port}");
    let ran = trace(&scratch, &["stats", "--url", &name, "--ca", "cert.pem"]).expect(2);
    assert!(ran.err.contains("certificate"), "{}", ran.err);
    let ran = trace(&scratch, &["stats", "--url", &url, "--ca", "key.pem"]).expect(2);
    assert!(
        ran.err.contains("key.pem: no certificate in it"),
        "{}",
        ran.err
    );
    let plain = server.url();
    let ran = trace(&scratch, &["stats", "--url", &plain, "--ca", "cert.pem"]).expect(2);
    assert!(ran.err.contains("--ca is for"), "{}", ran.err);
    trace(&scratch, &["stats", "--url", &plain]).expect(2);
    server.stop();
}

/// Reads a request and answers it, then ends the connection.
fn answer(stream: &mut TcpStream, answer: &str) -> String {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    let mut len = 0;
    loop {
        let start = head.len();
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
        let line = head[start..].trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            len = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; len];
    reader.read_exact(&mut body).unwrap();
    stream.write_all(answer.as_bytes()).unwrap();
    String::from_utf8(body).unwrap()
}

/// A server with these answers, one after the other; it hands out the bodies that it was sent.
fn play(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let each = answers.iter().map(|text| {
            let (mut stream, _) = listener.accept().unwrap();
            answer(&mut stream, text)
        });
        each.collect()
    });
    (url, thread)
}

fn reply(status: &str, body: &str) -> String {
    let len = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}")
}

#[test]
fn a_batch_is_sent_again_while_a_server_says_503_and_not_when_it_refuses() {
    let scratch = Scratch::new();
    let line = "{\"trace_id\":\"t\",\"span_id\":\"s\",\"name\":\"n\",\"service\":\"x\",\"start_ns\":1,\"end_ns\":2}\n";
    scratch.write("in.jsonl", line.as_bytes());
    let busy = || reply("503 Service Unavailable", "{\"error\":\"too many\"}");
    let (url, server) = play(vec![
        busy(),
        busy(),
        reply("200 OK", "{\"accepted\":1,\"durability\":\"flushed\"}"),
    ]);
    let ran = trace(&scratch, &["ingest", "--url", &url, "in.jsonl"]).expect(0);
    assert_eq!(ran.out, "accepted 1 span in 1 batch, durable in segments\n");
    let bodies = server.join().unwrap();
    assert_eq!(bodies.len(), 3);
    assert!(
        bodies
            .iter()
            .all(|body| *body == bodies[0] && body.starts_with("[{"))
    );

    let (url, server) = play(vec![reply("400 Bad Request", "{\"error\":\"span 0: no\"}")]);
    let ran = trace(&scratch, &["ingest", "--url", &url, "in.jsonl", "--json"]).expect(2);
    assert!(
        ran.err.contains(&format!("{url} answers 400: span 0: no")),
        "{}",
        ran.err
    );
    let summary = ran.json();
    assert_eq!(
        (&summary["accepted"], &summary["complete"]),
        (&json!(0), &json!(false))
    );
    server.join().unwrap();

    let (url, server) = play((0..6).map(|_| busy()).collect());
    let ran = trace(&scratch, &["ingest", "--url", &url, "in.jsonl"]).expect(2);
    assert!(ran.err.contains("answers 503: too many"), "{}", ran.err);
    server.join().unwrap();
}

#[test]
fn what_is_no_server_of_traces_and_what_does_not_answer_is_said() {
    let scratch = Scratch::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let ran = trace(&scratch, &["query", "--url", &nobody]).expect(2);
    assert!(
        ran.err
            .contains(&format!("{nobody} does not answer: Connection refused")),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("daybook serve"), "{}", ran.err);
    for (given, said) in [
        (reply("200 OK", "<html>"), "is not understood"),
        (
            reply(
                "200 OK",
                "{\"spans\":[],\"next_cursor\":\"x\",\"cost\":{\"elapsed_ns\":1,\"segments_examined\":0,\"segments_pruned\":0}}",
            ),
            "leads nowhere",
        ),
        (reply("404 Not Found", "nginx"), "answers 404: nginx"),
        (reply("302 Found", ""), "answers 302"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"spans\":".to_owned(),
            "cannot be read",
        ),
    ] {
        let (url, server) = play(vec![given]);
        let ran = trace(&scratch, &["query", &url]).expect(2);
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
        server.join().unwrap();
    }
    for (wrong, said) in [
        ("127.0.0.1:80", "not the address of a server"),
        ("http://ann:secret@host", "without a user"),
        ("ftp://host", "http:// or https://"),
    ] {
        let ran = trace(&scratch, &["query", "--url", wrong]).expect(2);
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
}

#[test]
fn verbs_that_need_the_folder_and_options_that_a_server_has_not_say_so() {
    let scratch = Scratch::new();
    scratch.write("in.jsonl", b"");
    let url = "http://127.0.0.1:9";
    for args in [
        &["compact", "--url", url][..],
        &["compact", url],
        &["pins", "--url", url],
        &["restore", "--url", url, "pin"],
        &["restore", "pin", url],
        &["dump", "--url", url],
    ] {
        let ran = trace(&scratch, args).expect(2);
        assert!(
            ran.err.contains("works on the files of a store"),
            "{args:?}: {}",
            ran.err
        );
    }
    for (args, said) in [
        (
            &["query", "--url", url, "--trace-id", "t"][..],
            "daybook trace get",
        ),
        (
            &["ingest", "--url", url, "in.jsonl", "--durability", "wal"],
            "--durability is for a folder",
        ),
        (&["pin", "--url", url, "a b"], "no name that a server takes"),
        (&["query", "s", "--token", "x"], "are for a server"),
    ] {
        let ran = trace(&scratch, args).expect(2);
        assert!(ran.err.contains(said), "{args:?}: {}", ran.err);
    }
}
