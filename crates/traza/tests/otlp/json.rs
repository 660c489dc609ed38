//! JSON requests.

use traza::json::{JsonFault, MEMORY_MAX, Value};
use traza::otlp::{COPIED_LEN_MAX, OtlpError, resource_spans_from_json, spans_from_json};
use traza::span::Span;

const IDS: &str = r#""traceId":"0A","spanId":"0b","startTimeUnixNano":"1","endTimeUnixNano":2"#;

/// A request with one span that has these members too, in a resource and a scope with these attributes.
fn request(resource: &str, scope: &str, members: &str) -> String {
    format!(
        r#"{{"resourceSpans":[{{"resource":{{"attributes":[{resource}]}},"scopeSpans":[{{"scope":{{"attributes":[{scope}]}},
        "spans":[{{{IDS}{members}}}]}}]}}]}}"#
    )
}

fn one(resource: &str, scope: &str, members: &str) -> Span {
    let mut spans = spans_from_json(request(resource, scope, members).as_bytes()).unwrap();
    assert_eq!(spans.len(), 1);
    spans.remove(0)
}

/// What the value of an attribute becomes.
fn flat(any_value: &str) -> String {
    let members = format!(r#","attributes":[{{"key":"k","value":{any_value}}}]"#);
    one("", "", &members).attributes["k"].to_string()
}

/// The path and the complaint about a span with these members instead.
fn refused(members: &str) -> (String, &'static str) {
    let text = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{{members}}}]}}]}}]}}"#);
    match spans_from_json(text.as_bytes()) {
        Err(OtlpError::Field { path, what }) => {
            let inner = path.strip_prefix("resourceSpans[0].scopeSpans[0].spans[0]");
            (inner.unwrap().trim_start_matches('.').to_owned(), what)
        }
        other => panic!("{members}: {other:?}"),
    }
}

#[test]
fn a_span_takes_its_service_and_tenant_from_the_resource_and_its_scope_lies_beneath() {
    let resource = r#"{"key":"service.name","value":{"intValue":1}},
        {"key":"service.name","value":{"stringValue":"bot"}},{"key":"host","value":{"stringValue":"h"}},
        {"key":"traza.tenant","value":{"stringValue":"acme"}}"#;
    let scope =
        r#"{"key":"a","value":{"stringValue":"scope"}},{"key":"b","value":{"boolValue":true}}"#;
    let members = r#","name":"chat","parentSpanId":"00FF","status":{"code":"STATUS_CODE_ERROR","message":"m"},
        "kind":2,"traceState":"x","attributes":[{"key":"a","value":{"stringValue":"span"}}],
        "events":[{"name":"e","timeUnixNano":7,"attributes":[{"key":"n","value":{"intValue":"5"}}]}],
        "links":[{"traceId":"AB","spanId":"CD","attributes":[{"key":"l","value":{"doubleValue":2}}]},{"traceId":"","spanId":"1"}]"#;
    let span = one(resource, scope, members);
    assert_eq!(
        span.to_json(),
        r#"{"trace_id":"0a","span_id":"0b","$tenant":"acme","parent_span_id":"00ff","name":"chat","start_time_ns":1,"end_time_ns":2,"status":"error","service":"bot","attributes":{"a":"span","b":true},"events":[{"name":"e","timestamp_ns":7,"attributes":{"n":5}}],"links":[{"trace_id":"ab","span_id":"cd","attributes":{"l":2.0}}]}"#
    );
}

#[test]
fn what_links_a_resource_to_studies_and_runs_lies_beneath_scope_and_span_and_the_rest_is_left_out()
{
    let text = |key: &str, value: &str| {
        format!(r#"{{"key":"{key}","value":{{"stringValue":"{value}"}}}}"#)
    };
    let resource = [
        text("study.id", "s"),
        text("study.id", "second"),
        r#"{"key":"trial.number","value":{"intValue":"3"}}"#.to_owned(),
        text("run.id", "of the resource"),
        text("session.id", "of the resource"),
        text("host.name", "h"),
    ]
    .join(",");
    let scope = text("session.id", "of the scope");
    let own = format!(r#","attributes":[{}]"#, text("run.id", "own"));
    let span = one(&resource, &scope, &own);
    let attributes = traza::json::Value::Object(span.attributes);
    assert_eq!(
        attributes.to_string(),
        r#"{"run.id":"own","session.id":"of the scope","study.id":"s","trial.number":3}"#
    );
    let flag = r#"{"key":"run.id","value":{"boolValue":true}}"#;
    assert!(one(flag, "", "").attributes.is_empty());
}

#[test]
fn what_is_missing_or_of_another_shape_reads_as_nothing() {
    let span = one(
        "",
        "",
        r#","name":5,"events":{},"links":null,"attributes":{},"parentSpanId":"","status":1"#,
    );
    let expected = Span {
        trace_id: "0a".into(),
        span_id: "0b".into(),
        service: "unknown_service".into(),
        start_time_ns: 1,
        end_time_ns: 2,
        ..Span::default()
    };
    assert_eq!(span, expected);
    let bare =
        format!(r#"{{"resource":[],"scopeSpans":[{{"scope":7,"spans":[{{{IDS}}}]}}],"x":1}}"#);
    assert_eq!(
        resource_spans_from_json(bare.as_bytes()).unwrap(),
        [expected]
    );
    let members = r#","attributes":[{"key":"no value"},{"key":3,"value":{"boolValue":false}},7,
        {"key":"k","value":{"intValue":1}},{"key":"k","value":{"intValue":2}}]"#;
    let attributes = one("", "", members).attributes;
    assert_eq!(Value::Object(attributes).to_string(), r#"{"":false,"k":2}"#);
}

#[test]
fn every_kind_of_value_is_flattened() {
    for (any_value, json) in [
        (r#"{"stringValue":"a","intValue":1}"#, r#""a""#),
        (r#"{"intValue":1,"stringValue":"a"}"#, r#""a""#),
        (r#"{"stringValue":1,"boolValue":true}"#, "true"),
        (r#"{"intValue":"-5"}"#, "-5"),
        (r#"{"intValue":5}"#, "5"),
        (r#"{"intValue":"5x"}"#, r#""5x""#),
        (r#"{"doubleValue":3}"#, "3.0"),
        (r#"{"doubleValue":0.25}"#, "0.25"),
        (r#"{"doubleValue":"NaN"}"#, "null"),
        (r#"{"doubleValue":"-Infinity"}"#, "null"),
        (r#"{"boolValue":false}"#, "false"),
        (
            r#"{"arrayValue":{"values":[{"intValue":1},{},3]}}"#,
            "[1,null,null]",
        ),
        (r#"{"arrayValue":{}}"#, "[]"),
        (
            r#"{"kvlistValue":{"values":[{"key":"b","value":{"stringValue":"x"}},{"key":"a"}]}}"#,
            r#"{"b":"x"}"#,
        ),
        (r#"{"bytesValue":"AP8="}"#, r#""00ff""#),
        (r#"{"bytesValue":"AP8"}"#, r#""00ff""#),
        (r#"{"bytesValue":"-_8="}"#, r#""fbff""#),
        (r#"{"bytesValue":""}"#, r#""""#),
        (r#"{"bytesValue":"A P8="}"#, "null"),
        ("{}", "null"),
        ("null", "null"),
        ("4", "null"),
    ] {
        assert_eq!(flat(any_value), json, "{any_value}");
    }
}

#[test]
fn a_status_is_told_by_its_name_its_number_or_the_digits_of_it() {
    for (code, word) in [
        ("1", "ok"),
        ("2", "error"),
        (r#""1""#, "ok"),
        (r#""2""#, "error"),
        (r#""STATUS_CODE_OK""#, "ok"),
        (r#""STATUS_CODE_UNSET""#, ""),
        (r#""+2""#, ""),
        ("0", ""),
        ("null", ""),
    ] {
        let status = one("", "", &format!(r#","status":{{"code":{code}}}"#)).status;
        assert_eq!(status, word, "{code}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_path() {
    let with = |rest: &str| refused(&format!("{IDS}{rest}"));
    assert_eq!(
        refused(r#""spanId":"1""#),
        ("traceId".into(), "is required")
    );
    assert_eq!(
        refused(r#""traceId":"xy""#),
        ("traceId".into(), "must be hex")
    );
    assert_eq!(
        refused(r#""traceId":"a","spanId":1"#),
        ("spanId".into(), "must be a hex string")
    );
    assert_eq!(refused(r#""traceId":"a","spanId":"""#).0, "spanId");
    assert_eq!(
        with(r#","parentSpanId":7"#),
        ("parentSpanId".into(), "must be a hex string")
    );
    assert_eq!(
        with(r#","events":[{}]"#),
        ("events[0].timeUnixNano".into(), "is required")
    );
    assert_eq!(
        with(r#","events":[{"timeUnixNano":1},3]"#),
        ("events[1]".into(), "must be an object")
    );
    assert_eq!(
        with(r#","links":[{"traceId":"a"}]"#),
        ("links[0].spanId".into(), "is required")
    );
    for time in [
        "-1",
        "1.5",
        r#""1.5""#,
        r#""+1""#,
        r#""""#,
        "null",
        "1e3",
        "18446744073709551616",
    ] {
        let members =
            format!(r#""traceId":"a","spanId":"b","startTimeUnixNano":{time},"endTimeUnixNano":1"#);
        assert_eq!(refused(&members).0, "startTimeUnixNano", "{time}");
    }
    for (text, wanted) in [
        ("{}", "resourceSpans"),
        (r#"{"resourceSpans":{}}"#, "resourceSpans"),
        (r#"{"resourceSpans":[{}]}"#, "resourceSpans[0].scopeSpans"),
        (
            r#"{"resourceSpans":[{"scopeSpans":[3]}]}"#,
            "resourceSpans[0].scopeSpans[0]",
        ),
        (
            r#"{"resourceSpans":[{"scopeSpans":[{}]}]}"#,
            "resourceSpans[0].scopeSpans[0].spans",
        ),
    ] {
        let error = spans_from_json(text.as_bytes()).unwrap_err();
        assert!(
            matches!(&error, OtlpError::Field { path, .. } if path == wanted),
            "{error}"
        );
        assert!(error.to_string().starts_with("invalid OTLP request: "));
    }
    let tenant = request(
        r#"{"key":"traza.tenant","value":{"stringValue":"Acme"}}"#,
        "",
        "",
    );
    let error = spans_from_json(tenant.as_bytes()).unwrap_err();
    assert!(matches!(&error, OtlpError::Field { path, .. } if path.ends_with("[traza.tenant]")));
}

#[test]
fn cut_off_and_deep_requests_are_refused_and_never_panic() {
    let whole = request(
        r#"{"key":"service.name","value":{"stringValue":"b"}}"#,
        "",
        r#","links":[]"#,
    );
    for len in 0..whole.len() {
        let error = spans_from_json(&whole.as_bytes()[..len]).unwrap_err();
        assert!(matches!(error, OtlpError::Json(_)), "{len}: {error}");
    }
    let deep = format!(
        "{}1{}",
        r#"{"arrayValue":{"values":["#.repeat(200),
        "]}}".repeat(200)
    );
    let members = format!(r#","attributes":[{{"key":"k","value":{deep}}}]"#);
    let error = spans_from_json(request("", "", &members).as_bytes()).unwrap_err();
    assert!(matches!(error, OtlpError::Json(_)), "{error}");
}

#[test]
fn what_spans_share_is_not_repeated_without_bound() {
    let service = "s".repeat(1 << 20);
    let span = format!("{{{IDS}}}");
    let with = |count: usize| {
        let spans = vec![span.as_str(); count].join(",");
        let text = format!(
            r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"{service}"}}}}]}},"scopeSpans":[{{"spans":[{spans}]}}]}}]}}"#
        );
        spans_from_json(text.as_bytes())
    };
    assert_eq!(with(10).unwrap().len(), 10);
    let count = usize::try_from(COPIED_LEN_MAX >> 20).unwrap();
    let refused = with(count + 1).map(|spans| spans.len());
    assert_eq!(refused, Err(OtlpError::TooLarge));
}

#[test]
fn ten_thousand_levels_are_refused_without_harm_even_where_nothing_is_read() {
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), (r#"{"values":["#, "]}")] {
        let deep = format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
        for text in [
            deep.clone(),
            format!(r#"{{"resourceSpans":[],"unknown":{deep}}}"#),
            request("", "", &format!(r#","unknown":{deep}"#)),
        ] {
            let error = spans_from_json(text.as_bytes()).unwrap_err();
            assert!(
                matches!(error, OtlpError::Json(fault) if fault.fault == JsonFault::Depth),
                "{error}"
            );
            assert!(error.to_string().starts_with("invalid OTLP request: "));
        }
    }
}

#[test]
fn of_equal_members_the_last_counts() {
    let span = one(
        "",
        "",
        r#","traceId":"0c","name":"a","name":"b","endTimeUnixNano":"9""#,
    );
    let found = (span.trace_id.as_str(), span.name.as_str(), span.end_time_ns);
    assert_eq!(found, ("0c", "b", 9));
    assert_eq!(flat(r#"{"intValue":1,"intValue":"2"}"#), "2");
    let text = format!(r#"{{"resourceSpans":7,{}"#, &request("", "", "")[1..]);
    assert_eq!(spans_from_json(text.as_bytes()).unwrap().len(), 1);
}

#[test]
fn numbers_at_and_beyond_the_limits_are_kept_or_refused_and_never_wrapped() {
    for (value, json) in [
        (
            r#"{"intValue":"9223372036854775807"}"#,
            "9223372036854775807",
        ),
        (
            r#"{"intValue":"-9223372036854775808"}"#,
            "-9223372036854775808",
        ),
        (
            r#"{"intValue":"9223372036854775808"}"#,
            r#""9223372036854775808""#,
        ),
        (
            r#"{"intValue":-9223372036854775808}"#,
            "-9223372036854775808",
        ),
        (
            r#"{"intValue":18446744073709551615}"#,
            "18446744073709551615",
        ),
        (r#"{"doubleValue":1e308}"#, "1e+308"),
        (r#"{"doubleValue":"1e999"}"#, "null"),
    ] {
        assert_eq!(flat(value), json, "{value}");
    }
    for times in [
        r#","startTimeUnixNano":18446744073709551615,"endTimeUnixNano":"18446744073709551615""#,
        r#","startTimeUnixNano":"18446744073709551615","endTimeUnixNano":18446744073709551615"#,
    ] {
        let span = one("", "", times);
        assert_eq!((span.start_time_ns, span.end_time_ns), (u64::MAX, u64::MAX));
    }
    for number in ["1e999".to_owned(), format!("1{}", "0".repeat(400))] {
        let members =
            format!(r#","attributes":[{{"key":"k","value":{{"doubleValue":{number}}}}}]"#);
        let error = spans_from_json(request("", "", &members).as_bytes()).unwrap_err();
        assert!(
            matches!(error, OtlpError::Json(fault) if fault.fault == JsonFault::NumberRange),
            "{error}"
        );
    }
    let time = format!(r#","startTimeUnixNano":"{}""#, "9".repeat(400));
    assert!(spans_from_json(request("", "", &time).as_bytes()).is_err());
}

#[test]
fn ids_of_any_length_in_hex_are_lower_cased_and_an_all_zero_parent_stays_one() {
    let id = "AbC".repeat(50);
    let members = format!(r#","traceId":"{id}","spanId":"F","parentSpanId":"0000000000000000""#);
    let span = one("", "", &members);
    assert_eq!(span.trace_id, id.to_lowercase());
    assert_eq!(span.span_id, "f");
    assert_eq!(span.parent_span_id.as_deref(), Some("0000000000000000"));
    assert_eq!(one("", "", r#","parentSpanId":null"#).parent_span_id, None);
}

#[test]
fn what_is_not_json_or_not_utf_8_is_refused_with_the_documented_beginning() {
    for bytes in [
        &b""[..],
        b"[]",
        b"7",
        b"{\"resourceSpans\":[]} x",
        b"{\"a\":\"\xff\"}",
        b"\x0a\x00",
    ] {
        let error = spans_from_json(bytes).unwrap_err();
        assert!(
            error.to_string().starts_with("invalid OTLP request: "),
            "{error}"
        );
    }
}

#[test]
fn what_spans_share_counts_wherever_it_stands() {
    let resource =
        r#""resource":{"attributes":[{"key":"service.name","value":{"stringValue":"bot"}}]}"#;
    let scope = r#""scope":{"attributes":[{"key":"a","value":{"intValue":1}}]}"#;
    let spans = format!(r#""spans":[{{{IDS}}}]"#);
    let in_scope = |early: &str, late: &str| format!(r#""scopeSpans":[{{{early}{spans}{late}}}]"#);
    let whole = |members: String| {
        let text = format!(r#"{{"resourceSpans":[{{{members}}}]}}"#);
        spans_from_json(text.as_bytes()).unwrap()
    };
    let usual = whole(format!("{resource},{}", in_scope(&format!("{scope},"), "")));
    assert_eq!(usual.len(), 1);
    assert_eq!(usual[0].service, "bot");
    assert_eq!(usual[0].attributes["a"], Value::from(1));
    let late = in_scope("", &format!(",{scope}"));
    assert_eq!(whole(format!("{late},{resource}")), usual);
    // Of several the last counts, also when spans stand between them.
    let other = resource.replace("bot", "other");
    assert_eq!(whole(format!("{other},{late},{resource}")), usual);
    assert_eq!(whole(format!("{other},{late},{resource},{late}")), usual);
}

#[test]
fn sixty_megabytes_of_attributes_are_read() {
    let attribute =
        |number: usize| format!(r#"{{"key":"k{number}","value":{{"intValue":"{number}"}}}}"#);
    let attributes: Vec<String> = (0..50).map(attribute).collect();
    let span = format!(r#"{{{IDS},"attributes":[{}]}}"#, attributes.join(","));
    let count = (60 << 20) / span.len();
    let text = format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{}{span}]}}]}}]}}"#,
        format!("{span},").repeat(count - 1)
    );
    let spans = spans_from_json(text.as_bytes()).unwrap();
    assert_eq!(spans.len(), count);
    assert!(spans.iter().all(|span| span.attributes.len() == 50));
}

/// Takes it for granted that a request is refused because of the memory that it would take.
#[track_caller]
fn refused_for_memory(text: &str) {
    match spans_from_json(text.as_bytes()) {
        Err(OtlpError::Json(error)) => assert_eq!(error.fault, JsonFault::Memory),
        other => panic!("{:?}", other.map(|spans| spans.len())),
    }
}

#[test]
fn a_request_of_very_many_small_values_is_refused_before_it_takes_their_memory() {
    // Made by `repeat`, which the standard library has optimised.
    let zeros = |count: usize| "0,".repeat(count) + "0";
    let too_many = MEMORY_MAX / 16;
    // What is not read takes nothing.
    let unread = format!(r#"{{"resourceSpans":[],"x":[{}]}}"#, zeros(1 << 20));
    assert_eq!(spans_from_json(unread.as_bytes()), Ok(Vec::new()));
    let value = format!(r#"{{"arrayValue":{{"values":[{}]}}}}"#, zeros(too_many));
    let attribute = format!(r#","attributes":[{{"key":"k","value":{value}}}]"#);
    refused_for_memory(&request("", "", &attribute));
    let body = format!(
        r#"[{{"trace_id":"t","span_id":"s","name":"","start_ns":1,"end_ns":2,"service":"","attributes":{{"x":[{}]}}}}]"#,
        zeros(too_many)
    );
    assert!(Span::body_from_json(body.as_bytes()).is_err());
    // What is stored is read: it was taken in once.
    assert!(Span::batch_from_json(body.as_bytes()).is_ok());
}

#[test]
fn a_request_whose_spans_would_take_too_much_memory_is_refused() {
    // Each of them takes the room of a whole node.
    let span = format!(r#"{{{IDS},"attributes":[{{"key":"","value":0}}]}}"#);
    let spans = format!("{span},").repeat((64 << 20) / 100) + &span;
    refused_for_memory(&format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{spans}]}}]}}]}}"#
    ));
    // The same again in every span.
    let keys: Vec<String> = (0..2_000)
        .map(|number| format!(r#"{{"key":"{number}","value":0}}"#))
        .collect();
    let spans = format!("{{{IDS}}},").repeat(3_000) + "{" + IDS + "}";
    refused_for_memory(&format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"scope":{{"attributes":[{}]}},"spans":[{spans}]}}]}}]}}"#,
        keys.join(",")
    ));
}
