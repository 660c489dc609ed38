//! What is to be forgotten is, everywhere, and there is a receipt.

use serde_json::{Value, json};

use crate::support::{Server, files_below, until};
use durable::{Fs as _, RealFs, publish, read_all};

fn span(trace: &str, id: &str, text: &str) -> Value {
    json!({"trace_id": trace, "span_id": id, "name": "n", "start_ns": 1, "end_ns": 2, "service": "s",
           "attributes": {"session.id": format!("S-{trace}"), "text": text}})
}

fn erase(server: &Server, subject: &Value) -> Value {
    server.post_json("/v1/erasures", &json!({"subject": subject}))
}

/// True when the bytes are in a file of the store.
fn is_on_disk(server: &Server, text: &str) -> Vec<std::path::PathBuf> {
    let found = files_below(&server.data()).into_iter().filter(|path| {
        let bytes = read_all(&RealFs, path, 1 << 30).unwrap();
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    });
    found.collect()
}

#[test]
fn a_trace_is_gone_with_its_annotations_and_payloads_and_stays_gone() {
    let server = Server::with(["--payload-threshold-bytes", "40"]);
    let secret = "the-secret-of-the-trace-which-is-rather-long";
    server.ingest(&json!([
        span("gone", "a", secret),
        span("gone", "b", "short"),
        span("stays", "c", "short")
    ]));
    server.post("/v1/flush", "").expect(200);
    server.ingest(&json!([span("gone", "a", secret)]));
    server.post_json(
        "/v1/annotations",
        &json!({"trace_id": "gone", "name": "n", "value": 1}),
    );
    let reference = server.spans("/v1/traces/gone")[0]["attributes"]["text"]["$payload"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        !is_on_disk(&server, secret).is_empty(),
        "the test can see it"
    );
    let done = erase(
        &server,
        &json!({"kind": "trace", "trace_id": "gone", "more": 1}),
    );
    assert_eq!((&done["schema"], &done["id"]), (&json!(2), &json!(1)));
    let settle = &done["settle"];
    assert_eq!(settle["annotations_removed"], 1);
    assert_eq!(settle["payloads_removed"], json!([reference]));
    assert!(settle["spans_removed"].as_u64() >= Some(2), "{settle}");
    assert_eq!(
        done["span_keys"],
        json!([["", "gone", "a"], ["", "gone", "b"]])
    );
    for target in [
        "/v1/traces/gone",
        &format!("/v1/payloads/{reference}"),
        "/v1/sessions/S-gone",
    ] {
        server.get(target).expect(404);
    }
    assert_eq!(server.ids("/v1/spans"), ["c"]);
    assert!(is_on_disk(&server, secret).is_empty());
    let server = server.crash_and_restart();
    server.get("/v1/traces/gone").expect(404);
    server.get("/v1/traces/stays").expect(200);
    let receipt = server.json("/v1/erasures/1/verify");
    assert_eq!(
        (&receipt["result"], &receipt["settled"]),
        (&json!("erased"), &json!(true))
    );
    let domains: Vec<&str> = receipt["domains"]
        .as_array()
        .unwrap()
        .iter()
        .map(|domain| domain["domain"].as_str().unwrap())
        .collect();
    assert_eq!(
        domains,
        [
            "write-buffer",
            "live-tail",
            "write-ahead-log",
            "segments",
            "annotations",
            "eval-records",
            "payloads",
            "derived-caches",
            "pins",
            "generations",
            "tombstone-log"
        ]
    );
    assert_eq!(server.json("/v1/erasures")["erasures"][0]["id"], 1);
    assert_eq!(server.json("/v1/erasures/1")["settle"], *settle);
    // Sent again, it is there again, and the receipt says so, sealed or not.
    server.ingest(&json!([
        span("gone", "a", "again"),
        span("gone", "new", "new")
    ]));
    let receipt = server.json("/v1/erasures/1/verify");
    assert_eq!(receipt["result"], "not-erased");
    let tail = receipt["domains"]
        .as_array()
        .unwrap()
        .iter()
        .find(|domain| domain["domain"] == "live-tail")
        .unwrap();
    assert_eq!(
        (&tail["re_delivered"], &tail["new_activity"]),
        (&json!(1), &json!(1))
    );
    server.post("/v1/flush", "").expect(200);
    let server = server.crash_and_restart();
    assert_eq!(server.json("/v1/erasures/1/verify")["result"], "not-erased");
    // The same command answers for a folder that nobody serves.
    let setup = server.crash();
    let ran = setup.run(&[
        "verify",
        "--erasure",
        "latest",
        "--data-dir",
        "data",
        "--json",
    ]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let receipt: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(receipt["erasure_id"], 1);
    let ran = setup.run(&["verify", "--erasure", "7", "--data-dir", "data"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.err
            .contains("no erasure 7 is recorded in the tombstone log"),
        "{ran:?}"
    );
    let server = setup.start();
    let ran = server
        .setup
        .run(&["verify", "--erasure", "1", "--data-dir", "data"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
}

#[test]
fn every_kind_of_subject_is_erased_and_nothing_beside_it() {
    let server = Server::with(["--payload-threshold-bytes", "40"]);
    let long = "x".repeat(50);
    server.ingest(&json!([span("t", "a", "1"), span("t", "b", "2"), span("u", "c", "3"), span("v", "d", &long), span("w", "e", &long),
        {"trace_id": "t", "span_id": "f", "$tenant": "acme", "name": "n", "start_ns": 1, "end_ns": 2, "service": "s"}]));
    let all = || server.ids("/v1/spans");
    assert_eq!(all(), ["a", "b", "c", "d", "e", "f"]);
    assert_eq!(
        erase(
            &server,
            &json!({"kind": "span", "trace_id": "t", "span_id": "a"})
        )["settle"]["spans_removed"],
        1
    );
    assert_eq!(all(), ["b", "c", "d", "e", "f"]);
    server.post_json(
        "/v1/annotations",
        &json!({"session_id": "S-u", "name": "n", "value": 1}),
    );
    assert_eq!(
        erase(&server, &json!({"kind": "session", "session_id": "S-u"}))["settle"]["annotations_removed"],
        1
    );
    assert_eq!(all(), ["b", "d", "e", "f"]);
    let marker = server.spans("/v1/traces/v")[0]["attributes"]["text"].clone();
    let reference = marker["$payload"].as_str().unwrap().to_owned();
    let upper = reference.replace("sha256/", "").to_uppercase();
    let done = erase(
        &server,
        &json!({"kind": "payload", "reference": format!("sha256/{upper}")}),
    );
    assert_eq!(done["settle"]["spans_redacted"], 2);
    server.get(&format!("/v1/payloads/{reference}")).expect(404);
    for trace in ["v", "w"] {
        let found = server.spans(&format!("/v1/traces/{trace}"))[0]["attributes"]["text"].clone();
        assert_eq!(
            found,
            json!({"$payload": reference, "bytes": 50, "erased": true})
        );
    }
    assert_eq!(
        erase(
            &server,
            &json!({"kind": "trace", "trace_id": "t", "$tenant": "acme"})
        )["settle"]["spans_removed"],
        1
    );
    assert_eq!(all(), ["b", "d", "e"]);
    assert_eq!(
        erase(&server, &json!({"kind": "trace", "trace_id": "none"}))["settle"]["spans_removed"],
        0
    );
    assert_eq!(server.metric("traza_erasures_settled_total"), 5);
    let dataset =
        server.post_json("/v1/datasets", &json!({"name": "d", "tenant": "acme"}))["dataset_id"]
            .clone();
    let done = erase(&server, &json!({"kind": "tenant", "tenant": "acme"}));
    assert_eq!(done["eval_datasets"], json!([dataset]));
    server.get(&format!("/v1/datasets/{dataset}")).expect(404);
    assert_ne!(
        server.post_json("/v1/datasets", &json!({"name": "d"}))["dataset_id"],
        dataset,
        "numbers are not used again"
    );
}

#[test]
fn a_subject_that_is_none_is_refused() {
    let server = Server::start();
    for (subject, words) in [
        (
            json!({"kind": "trace", "trace_id": ""}),
            "trace_id is empty",
        ),
        (
            json!({"kind": "span", "trace_id": "t", "span_id": ""}),
            "trace_id and span_id must both be non-empty",
        ),
        (
            json!({"kind": "session", "session_id": ""}),
            "session_id is empty",
        ),
        (
            json!({"kind": "payload", "reference": "sha256/xyz"}),
            "a payload reference is sha256/<64 lowercase hex characters>",
        ),
        (
            json!({"kind": "tenant", "tenant": ""}),
            "a tenant subject names a non-empty tenant",
        ),
        (
            json!({"kind": "tenant", "tenant": "Upper"}),
            "at most 64 bytes",
        ),
        (json!({"kind": "everything"}), "subject does not parse: "),
        (json!({"kind": "trace"}), "subject does not parse: "),
        (json!("trace"), "subject does not parse: "),
    ] {
        server
            .post("/v1/erasures", json!({"subject": subject}).to_string())
            .refused(400, words);
    }
    server.post("/v1/erasures", "{}").refused(400, "subject");
    server
        .get("/v1/erasures/x")
        .refused(400, "erasure ids are decimal integers");
    server
        .get("/v1/erasures/x/verify")
        .refused(400, "erasure ids are decimal integers");
    for target in ["/v1/erasures/1", "/v1/erasures/1/verify"] {
        server
            .get(target)
            .refused(404, "no erasure 1 is recorded in the tombstone log");
    }
    assert_eq!(server.json("/v1/erasures"), json!({"erasures": []}));
}

#[test]
fn a_backup_from_before_keeps_the_receipt_from_being_clear_until_it_is_released() {
    let server = Server::start();
    server.ingest(&json!([span("t", "a", "1")]));
    server.post("/v1/backups/before", "").expect(201);
    erase(&server, &json!({"kind": "trace", "trace_id": "t"}));
    let receipt = server.json("/v1/erasures/1/verify");
    assert_eq!(receipt["result"], "not-erased");
    let pins = receipt["domains"]
        .as_array()
        .unwrap()
        .iter()
        .find(|domain| domain["domain"] == "pins")
        .unwrap();
    assert_eq!(pins["result"], "holds-data");
    server.post("/v1/backups/before/release", "").expect(200);
    assert_eq!(server.json("/v1/erasures/1/verify")["result"], "erased");
}

/// Where the name of the next generation is prepared: a folder that is not empty stands in the way of it, and an erasure
/// is settled by a generation only.
fn obstacle(data: &std::path::Path) -> std::path::PathBuf {
    data.join("CURRENT.tmp")
}

fn otlp(span_id: &str, trace_id: &str) -> String {
    format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"traceId":"{trace_id}","spanId":"{span_id}","name":"n","startTimeUnixNano":1,"endTimeUnixNano":2}}]}}]}}]}}"#
    )
}

#[test]
fn an_erasure_that_a_kill_interrupts_holds_at_the_next_start_and_is_finished() {
    let server = Server::start();
    server.ingest(&json!([
        span("ab", "01", "secret words"),
        span("cd", "02", "other words")
    ]));
    server.post("/v1/flush", "").expect(200);
    let obstacle = obstacle(&server.data());
    RealFs.create_dir(&obstacle).unwrap();
    publish(&RealFs, &obstacle.join("file"), b"").unwrap();
    let answer = server.post(
        "/v1/erasures",
        json!({"subject": {"kind": "trace", "trace_id": "ab"}}).to_string(),
    );
    assert_eq!(answer.status / 100, 5, "{}", answer.text());
    let server = server.crash_and_restart();
    // It is pending, and holds for what is there and for what comes.
    let erasure = server.json("/v1/erasures/1");
    assert_eq!(
        erasure.get("settle").cloned().unwrap_or_default(),
        Value::Null
    );
    server.get("/v1/traces/ab").expect(404);
    let sent = server.ingest(&json!([
        span("ab", "01", "secret words again"),
        span("cd", "03", "more words")
    ]));
    assert_eq!(
        (&sent["accepted"], &sent["suppressed"]),
        (&json!(1), &json!(1))
    );
    let apart = server
        .post("/v1/traces", otlp("04", "ef"))
        .expect(200)
        .json();
    assert_eq!(apart, json!({"partialSuccess": {}}));
    let covered = server
        .post("/v1/traces", otlp("01", "ab"))
        .expect(200)
        .json();
    assert_eq!(
        covered["partialSuccess"]["rejectedSpans"]
            .to_string()
            .trim_matches('"'),
        "1"
    );
    assert!(server.metric("traza_erasure_spans_suppressed_total") >= 2);
    server.get("/v1/traces/ab").expect(404);
    assert_eq!(server.json("/v1/erasures/1/verify")["result"], "not-erased");
    // Killed once more; this time there is nothing in its way.
    let setup = server.crash();
    RealFs.remove_file(&obstacle.join("file")).unwrap();
    RealFs.remove_dir(&obstacle).unwrap();
    let server = setup.start();
    until("the erasure is settled", || {
        let receipt = server.json("/v1/erasures/1/verify");
        (receipt["result"] == "erased" && receipt["settled"] == true).then_some(())
    });
    assert!(is_on_disk(&server, "secret words").is_empty());
    server.get("/v1/traces/ab").expect(404);
    let mut ids = server.ids("/v1/spans");
    ids.sort();
    assert_eq!(ids, ["02", "03", "04"]);
    assert_eq!(server.json("/v1/verify")["intact"], true);
}
