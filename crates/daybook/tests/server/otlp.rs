//! Exports of OpenTelemetry, in JSON and protobuf, plain and compressed.

use std::io::Write as _;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList, any_value::Value as Any,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;
use serde_json::{Value, json};

use crate::support::{Answer, Server};

const PROTOBUF: &str = "Content-Type: application/x-protobuf\r\n";

fn pair(key: &str, value: Any) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn text(text: &str) -> Any {
    Any::StringValue(text.to_owned())
}

fn request(trace: u8, resource: Vec<KeyValue>) -> ExportTraceServiceRequest {
    let any = |value: Any| AnyValue { value: Some(value) };
    let span = Span {
        trace_id: vec![trace; 16],
        span_id: vec![0xCD; 8],
        parent_span_id: vec![0xEF; 8],
        name: "chat".to_owned(),
        kind: 3,
        start_time_unix_nano: 1_700_000_000_000_000_001,
        end_time_unix_nano: 1_700_000_000_000_000_901,
        attributes: vec![
            pair("text", text("hello")),
            pair("tokens", Any::IntValue(7)),
            pair("ratio", Any::DoubleValue(0.5)),
            pair("nan", Any::DoubleValue(f64::NAN)),
            pair("flag", Any::BoolValue(true)),
            pair("bytes", Any::BytesValue(vec![0xDE, 0xAD])),
            pair(
                "list",
                Any::ArrayValue(ArrayValue {
                    values: vec![
                        any(Any::IntValue(1)),
                        any(text("x")),
                        AnyValue { value: None },
                    ],
                }),
            ),
            pair(
                "map",
                Any::KvlistValue(KeyValueList {
                    values: vec![pair("k", Any::BoolValue(false))],
                }),
            ),
            pair("scope", text("span wins")),
        ],
        events: vec![Event {
            time_unix_nano: 1_700_000_000_000_000_500,
            name: "gen_ai.user.message".to_owned(),
            attributes: vec![pair("content", text("hi"))],
            ..Event::default()
        }],
        links: vec![Link {
            trace_id: vec![0x11; 16],
            span_id: vec![0x22; 8],
            attributes: vec![pair("kind", text("retry_of"))],
            ..Link::default()
        }],
        status: Some(Status {
            code: 2,
            message: "dropped".to_owned(),
        }),
        ..Span::default()
    };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: resource,
                ..Resource::default()
            }),
            scope_spans: vec![ScopeSpans {
                scope: Some(InstrumentationScope {
                    name: "lib".to_owned(),
                    attributes: vec![
                        pair("scope", text("scope")),
                        pair("only.scope", Any::IntValue(-1)),
                    ],
                    ..InstrumentationScope::default()
                }),
                spans: vec![span],
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    }
}

fn export(server: &Server, fields: &str, body: &[u8]) -> Answer {
    server.ask("POST", "/v1/traces", fields, body)
}

/// Without what differs between two exports of one span.
fn span_of(server: &Server, trace: u8) -> Value {
    let id = format!("{trace:02x}").repeat(16);
    let mut trace = server.json(&format!("/v1/traces/{id}"));
    assert_eq!(trace["spans"].as_array().unwrap().len(), 1);
    trace["spans"][0]
        .as_object_mut()
        .unwrap()
        .remove("trace_id");
    trace["spans"][0].clone()
}

#[test]
fn one_request_is_the_same_in_every_encoding_and_compression() {
    let server = Server::start();
    let resource = || {
        vec![
            pair("service.name", text("bot")),
            pair("host", text("dropped")),
        ]
    };
    let body = request(1, resource()).encode_to_vec();
    let answer = export(&server, PROTOBUF, &body).expect(200);
    assert_eq!(answer.field("content-type"), Some("application/x-protobuf"));
    assert_eq!(
        ExportTraceServiceResponse::decode(&*answer.body).unwrap(),
        ExportTraceServiceResponse::default()
    );
    let plain = span_of(&server, 1);
    assert_eq!(plain["service"], "bot");
    assert_eq!(plain["status"], "error");
    assert_eq!(plain["parent_span_id"], "ef".repeat(8));
    assert_eq!(plain["start_time_ns"], 1_700_000_000_000_000_001_u64);
    assert_eq!(
        plain["attributes"],
        json!({"text": "hello", "tokens": 7, "ratio": 0.5, "nan": null, "flag": true, "bytes": "dead",
               "list": [1, "x", null], "map": {"k": false}, "scope": "span wins", "only.scope": -1})
    );
    assert_eq!(
        plain["events"],
        json!([{"name": "gen_ai.user.message", "timestamp_ns": 1_700_000_000_000_000_500_u64, "attributes": {"content": "hi"}}])
    );
    assert_eq!(
        plain["links"],
        json!([{"trace_id": "11".repeat(16), "span_id": "22".repeat(8), "attributes": {"kind": "retry_of"}}])
    );

    let mut in_json = serde_json::to_value(request(2, resource())).unwrap();
    // JSON has no number for this one; base64 in the JSON of the protocol is what the types write for bytes.
    let attributes = &mut in_json["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"];
    attributes[3]["value"] = json!({});
    attributes[5]["value"] = json!({"bytesValue": "3q0="});
    let answer = export(
        &server,
        "Content-Type: Application/JSON; charset=utf-8\r\n",
        in_json.to_string().as_bytes(),
    )
    .expect(200);
    assert_eq!(answer.field("content-type"), Some("application/json"));
    assert_eq!(answer.json(), json!({"partialSuccess": {}}));
    assert_eq!(span_of(&server, 2), plain);

    let body = request(3, resource()).encode_to_vec();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&body).unwrap();
    export(
        &server,
        &format!("{PROTOBUF}Content-Encoding: gzip\r\n"),
        &gzip.finish().unwrap(),
    )
    .expect(200);
    assert_eq!(span_of(&server, 3), plain);
    let body = request(4, resource()).encode_to_vec();
    let zstd = zstd::encode_all(&*body, 3).unwrap();
    export(
        &server,
        &format!("{PROTOBUF}content-encoding: ZSTD\r\n"),
        &zstd,
    )
    .expect(200);
    assert_eq!(span_of(&server, 4), plain);
    let zstd = zstd::encode_all(
        in_json
            .to_string()
            .replace(&"02".repeat(16), &"05".repeat(16))
            .as_bytes(),
        3,
    )
    .unwrap();
    export(&server, "Content-Encoding: zstd\r\n", &zstd).expect(200);
    assert_eq!(span_of(&server, 5), plain);
    assert_eq!(server.ids("/v1/spans?service=bot&attr.tokens=7").len(), 5);
    assert_eq!(server.metric("traza_http_decoded_spans_total"), 5);
}

fn otlp(span: &Value) -> String {
    json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).to_string()
}

fn small() -> Value {
    json!({"traceId": "AB", "spanId": "CD", "startTimeUnixNano": "1", "endTimeUnixNano": 2})
}

fn with(member: &str, value: &Value) -> Value {
    let mut span = small();
    span[member] = value.clone();
    span
}

#[test]
fn json_may_spell_numbers_as_text_and_leave_out_what_is_optional() {
    let server = Server::start();
    server.post("/v1/traces", otlp(&small())).expect(200);
    let span = server.json("/v1/traces/ab")["spans"][0].clone();
    assert_eq!(
        span,
        json!({"trace_id": "ab", "span_id": "cd", "parent_span_id": null, "name": "", "service": "unknown_service", "status": "",
               "start_time_ns": 1, "end_time_ns": 2, "attributes": {}, "events": []})
    );
    for (status, said) in [
        (json!({"code": 1}), "ok"),
        (json!({"code": "STATUS_CODE_OK"}), "ok"),
        (json!({"code": 2}), "error"),
        (json!({"code": "2"}), "error"),
        (
            json!({"code": "STATUS_CODE_ERROR", "message": "m"}),
            "error",
        ),
        (json!({"code": 0}), ""),
        (json!({"code": 9}), ""),
        (json!({}), ""),
        (json!(7), ""),
    ] {
        server
            .post("/v1/traces", otlp(&with("status", &status)))
            .expect(200);
        assert_eq!(
            server.json("/v1/traces/ab")["spans"][0]["status"],
            said,
            "{status}"
        );
    }
    let attributes = json!([
        {"key": "int", "value": {"intValue": "42"}},
        {"key": "bad", "value": {"intValue": "forty"}},
        {"key": "double", "value": {"doubleValue": 3}},
        {"key": "none"},
        {"key": "null", "value": {}},
        {"key": "later", "value": {"boolValue": false}},
        {"key": "later", "value": {"boolValue": true}},
        {"key": "first", "value": {"boolValue": true, "stringValue": "s", "intValue": 1}},
        {"key": "url64", "value": {"bytesValue": "_-8"}},
        {"key": "no64", "value": {"bytesValue": "!!"}},
        {"key": "empty64", "value": {"bytesValue": ""}},
        7,
    ]);
    server
        .post("/v1/traces", otlp(&with("attributes", &attributes)))
        .expect(200);
    let text = server.get("/v1/traces/ab").text();
    assert!(text.contains("\"double\":3.0"), "a float stays one: {text}");
    let found = server.json("/v1/traces/ab")["spans"][0]["attributes"].clone();
    assert_eq!(
        found,
        json!({"int": 42, "bad": "forty", "double": 3.0, "null": null, "later": true, "first": "s", "url64": "ffef", "no64": null, "empty64": ""})
    );
    // Unknown members are left aside at every level.
    let body = r#"{"x":1,"resourceSpans":[{"x":1,"resource":7,"scopeSpans":[{"x":1,"scope":[],"spans":[{"x":{"y":[]},"traceId":"ee","spanId":"ff","startTimeUnixNano":1,"endTimeUnixNano":1,"kind":"SPAN_KIND_CLIENT","attributes":{},"events":7,"links":null}]}]}]}"#;
    server.post("/v1/traces", body).expect(200);
    server.get("/v1/traces/ee").expect(200);
}

#[test]
fn what_is_no_span_refuses_the_whole_export() {
    let server = Server::start();
    for (member, value, words) in [
        ("traceId", json!("xyz"), "must be hex"),
        ("traceId", json!(7), "must be a hex string"),
        ("traceId", json!(""), "traceId and spanId must be non-empty"),
        ("spanId", json!(""), "traceId and spanId must be non-empty"),
        ("spanId", Value::Null, ""),
        ("startTimeUnixNano", json!("-1"), ""),
        ("startTimeUnixNano", json!(1.5), ""),
        ("endTimeUnixNano", json!("18446744073709551616"), ""),
        ("events", json!([{"name": "e"}]), ""),
        ("links", json!([{"traceId": "ab"}]), ""),
    ] {
        let body = json!({"resourceSpans": [{"scopeSpans": [{"spans": [with("traceId", &json!("f0")), with(member, &value)]}]}]});
        let answer = server
            .post("/v1/traces", body.to_string())
            .refused(400, words);
        assert!(
            answer.error().starts_with("invalid OTLP request: "),
            "{member}"
        );
    }
    server.get("/v1/traces/f0").expect(404);
    // A link of which an id is empty is left out.
    let links = json!([{"traceId": "", "spanId": "cd"}, {"traceId": "AA", "spanId": "BB"}]);
    server
        .post("/v1/traces", otlp(&with("links", &links)))
        .expect(200);
    let links = server.json("/v1/traces/ab")["spans"][0]["links"].clone();
    assert_eq!(
        links,
        json!([{"trace_id": "aa", "span_id": "bb", "attributes": {}}])
    );
}

#[test]
fn protobuf_is_bounded_in_depth_and_open_to_fields_of_the_future() {
    let server = Server::start();
    let nested = |depth: usize| {
        let mut value = Any::IntValue(1);
        for _ in 0..depth {
            value = Any::ArrayValue(ArrayValue {
                values: vec![AnyValue { value: Some(value) }],
            });
        }
        let mut request = request(9, Vec::new());
        request.resource_spans[0].scope_spans[0].spans[0].attributes = vec![pair("deep", value)];
        request.encode_to_vec()
    };
    export(&server, PROTOBUF, &nested(20)).expect(200);
    export(&server, PROTOBUF, &nested(40)).refused(400, "protobuf decode error: ");
    let mut body = request(8, Vec::new()).encode_to_vec();
    // Fields 500 to 503, of the four wire types.
    body.extend([
        0xA0, 0x1F, 0x01, 0xAA, 0x1F, 0x02, b'h', b'i', 0xB5, 0x1F, 1, 2, 3, 4, 0xB9, 0x1F, 1, 2,
        3, 4, 5, 6, 7, 8,
    ]);
    export(&server, PROTOBUF, &body).expect(200);
    assert_eq!(span_of(&server, 8)["service"], "unknown_service");
    export(&server, PROTOBUF, b"").expect(200);
    let whole = request(7, Vec::new()).encode_to_vec();
    for len in 1..whole.len() {
        let answer = export(&server, PROTOBUF, &whole[..len]);
        assert_eq!(answer.status, 400, "cut at {len}");
    }
    server
        .get(&format!("/v1/traces/{}", "07".repeat(16)))
        .expect(404);
}

#[test]
fn the_tenant_of_an_export_is_that_of_its_resource() {
    let server = Server::start();
    let resource = vec![pair("traza.tenant", text("acme"))];
    export(&server, PROTOBUF, &request(1, resource).encode_to_vec()).expect(200);
    let found = server.spans("/v1/spans?tenant=acme");
    assert_eq!(found[0]["$tenant"], "acme");
    assert_eq!(server.spans("/v1/spans?tenant="), [Value::Null; 0]);
    let resource = vec![pair("traza.tenant", text("No Tenant"))];
    export(&server, PROTOBUF, &request(2, resource).encode_to_vec()).expect(400);
}
