//! Long texts, which are kept beside the spans.

use serde_json::{Value, json};

use crate::support::Server;

fn span(id: &str, attributes: &Value) -> Value {
    json!({"trace_id": "t", "span_id": id, "name": "n", "start_ns": 1, "end_ns": 2, "service": "s", "attributes": attributes,
           "events": [{"name": "e", "time": 1, "attributes": attributes}], "links": [{"trace_id": "o", "span_id": "o", "attributes": attributes}]})
}

#[test]
fn a_long_text_is_replaced_by_its_digest_and_given_out_in_its_bytes() {
    let server = Server::with(["--payload-threshold-bytes", "300"]);
    let (inline, long) = ("x".repeat(300), "é".repeat(200));
    server.ingest(&json!([span(
        "a",
        &json!({"inline": inline, "long": long, "nested": [long]})
    )]));
    let found = server.spans("/v1/traces/t")[0].clone();
    for attributes in [
        &found["attributes"],
        &found["events"][0]["attributes"],
        &found["links"][0]["attributes"],
    ] {
        assert_eq!(attributes["inline"], inline);
        assert_eq!(attributes["nested"], json!([long]));
        assert_eq!(attributes["long"]["bytes"], 400);
        assert_eq!(attributes["long"]["preview"], long);
    }
    let reference = found["attributes"]["long"]["$payload"]
        .as_str()
        .unwrap()
        .to_owned();
    let answer = server.get(&format!("/v1/payloads/{reference}")).expect(200);
    assert_eq!(
        answer.field("content-type"),
        Some("application/octet-stream")
    );
    assert_eq!(answer.text(), long);
    let encoded = reference.replace('/', "%2F");
    server.get(&format!("/v1/payloads/{encoded}")).expect(200);
    // Those that a client sends itself are kept as they are.
    let own = json!({"$payload": "made-up", "preview": 1});
    server.ingest(&json!([span("b", &json!({"own": own}))]));
    assert_eq!(
        server.spans("/v1/spans?limit=9")[1]["attributes"]["own"],
        own
    );
    let server = server.crash_and_restart();
    assert_eq!(
        server.get(&format!("/v1/payloads/{reference}")).text(),
        long
    );
    let export = server.get("/v1/export").text();
    assert!(export.contains(&reference));
    let digits = reference.strip_prefix("sha256/").unwrap();
    for wrong in [
        "sha256/00".to_owned(),
        format!("sha256/{}", "0".repeat(64)),
        format!("sha256/{}", digits.to_uppercase()),
        format!("sha256/{digits}0"),
        format!("md5/{digits}"),
        digits.to_owned(),
        "../../etc/passwd".to_owned(),
        "sha256/../../LOCK".to_owned(),
        format!("sha256/%2e%2e/{digits}"),
        format!("sha256/{}%00", &digits[..63]),
    ] {
        server
            .get(&format!("/v1/payloads/{wrong}"))
            .refused(404, "payload not found");
    }
}

#[test]
fn with_a_threshold_of_nothing_every_text_stays() {
    let server = Server::with(["--payload-threshold-bytes", "0"]);
    let long = "x".repeat(400_000);
    server.ingest(&json!([span("a", &json!({"long": long}))]));
    assert_eq!(server.spans("/v1/traces/t")[0]["attributes"]["long"], long);
}
