//! Protobuf requests, put together field by field.

use traza::json::{Text, Value};
use traza::otlp::{ELEMENTS_LEN_MAX, Fault, OtlpError, VALUE_DEPTH_MAX, spans_from_protobuf};
use traza::span::Span;

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
    out
}

fn tag(number: u64, wire_type: u64) -> Vec<u8> {
    varint(number << 3 | wire_type)
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [tag(field, 0), varint(value)].concat()
}

fn fixed(field: u64, value: u64) -> Vec<u8> {
    [tag(field, 1), value.to_le_bytes().to_vec()].concat()
}

fn part(field: u64, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    let len = varint(u64::try_from(bytes.len()).unwrap());
    [tag(field, 2), len, bytes.to_vec()].concat()
}

fn key_value(key: &str, value: &[u8]) -> Vec<u8> {
    [part(1, key), part(2, value)].concat()
}

fn ids() -> Vec<u8> {
    [part(1, [0xAB]), part(2, [1])].concat()
}

fn times() -> Vec<u8> {
    [fixed(7, 5), fixed(8, 7)].concat()
}

/// A request with one span of these fields.
fn request(span: &[u8]) -> Vec<u8> {
    part(1, part(2, part(2, span)))
}

fn spans(bytes: &[u8]) -> Vec<Span> {
    spans_from_protobuf(bytes).unwrap()
}

fn one(fields: &[u8]) -> Span {
    let mut spans = spans(&request(&[ids(), times(), fields.to_vec()].concat()));
    assert_eq!(spans.len(), 1);
    spans.remove(0)
}

fn flat(value: &[u8]) -> String {
    one(&part(9, key_value("k", value))).attributes["k"].to_string()
}

/// The fault and the path of a refused request.
fn refused(bytes: &[u8]) -> (Fault, String) {
    let error = spans_from_protobuf(bytes).unwrap_err();
    assert!(
        error.to_string().starts_with("protobuf decode error: "),
        "{error}"
    );
    match error {
        OtlpError::Protobuf {
            fault,
            path,
            offset,
        } => {
            assert!(offset <= bytes.len());
            (fault, path)
        }
        other => panic!("{other:?}"),
    }
}

fn refused_span(fields: &[u8]) -> (Fault, String) {
    let (fault, path) = refused(&request(fields));
    let inner = path.strip_prefix("resourceSpans[0].scopeSpans[0].spans[0]");
    (fault, inner.unwrap().trim_start_matches('.').to_owned())
}

#[test]
fn an_empty_body_is_a_request_without_spans() {
    assert_eq!(spans(&[]), []);
}

#[test]
fn every_field_arrives_whatever_the_order_of_the_fields() {
    let text = |text: &str| part(1, text);
    let resource = part(
        1,
        [
            part(1, key_value("service.name", &number(3, 1))),
            part(1, key_value("service.name", &text("bot"))),
            part(1, key_value("service.name", &text("later"))),
            part(1, key_value("host", &text("h"))),
            part(1, key_value("traza.tenant", &text("acme"))),
        ]
        .concat(),
    );
    let scope = part(
        1,
        [
            part(3, key_value("a", &text("scope"))),
            part(3, key_value("b", &number(2, 1))),
        ]
        .concat(),
    );
    let event = [
        fixed(1, 7),
        part(2, "e"),
        part(3, key_value("n", &number(3, 5))),
    ]
    .concat();
    let link = [
        part(1, [0xAB]),
        part(2, [0xCD]),
        part(4, key_value("l", &fixed(4, 2_f64.to_bits()))),
    ]
    .concat();
    let fields = [
        part(1, [10]),
        part(2, [11]),
        part(4, [0, 255]),
        part(5, "chat"),
        fixed(7, 1),
        fixed(8, 2),
        part(9, key_value("a", &text("span"))),
        part(11, event),
        part(13, link),
        part(13, [part(1, ""), part(2, [1])].concat()),
        part(15, [part(2, "message"), number(3, 2)].concat()),
    ];
    let forward = fields.concat();
    let backward: Vec<u8> = fields.iter().rev().flatten().copied().collect();
    let expected = r#"{"trace_id":"0a","span_id":"0b","$tenant":"acme","parent_span_id":"00ff","name":"chat","start_time_ns":1,"end_time_ns":2,"status":"error","service":"bot","attributes":{"a":"span","b":true},"events":[{"name":"e","timestamp_ns":7,"attributes":{"n":5}}],"links":[{"trace_id":"ab","span_id":"cd","attributes":{"l":2.0}}]}"#;
    for span in [forward, backward] {
        let first = part(
            1,
            [
                resource.clone(),
                part(2, [scope.clone(), part(2, &span)].concat()),
            ]
            .concat(),
        );
        let last = part(
            1,
            [
                part(2, [part(2, &span), scope.clone()].concat()),
                resource.clone(),
            ]
            .concat(),
        );
        for request in [first, last] {
            assert_eq!(spans(&request)[0].to_json(), expected);
        }
    }
}

#[test]
fn what_is_absent_reads_as_nothing_but_ids_and_times_are_required() {
    let expected = Span {
        trace_id: "ab".into(),
        span_id: "01".into(),
        service: "unknown_service".into(),
        start_time_ns: 5,
        end_time_ns: 7,
        ..Span::default()
    };
    assert_eq!(one(&part(4, "")), expected);
    let missing = |fields: &[Vec<u8>]| refused_span(&fields.concat());
    let named = |field: &str| (Fault::Missing, field.to_owned());
    assert_eq!(missing(&[part(2, [1]), times()]), named("traceId"));
    assert_eq!(missing(&[part(1, [1]), times()]), named("spanId"));
    assert_eq!(missing(&[ids(), fixed(8, 1)]), named("startTimeUnixNano"));
    assert_eq!(missing(&[ids(), fixed(7, 1)]), named("endTimeUnixNano"));
    assert_eq!(
        missing(&[part(1, ""), part(2, [1]), times()]).0,
        Fault::EmptyId
    );
    assert_eq!(
        missing(&[part(1, [1]), part(2, ""), times()]).0,
        Fault::EmptyId
    );
    let event = part(11, part(2, "no time"));
    assert_eq!(
        missing(&[ids(), times(), event]),
        named("events[0].timeUnixNano")
    );
    let links = [part(13, ids()), part(13, part(1, [1]))].concat();
    assert_eq!(missing(&[ids(), times(), links]), named("links[1].spanId"));
}

#[test]
fn a_missing_key_is_the_empty_one_a_missing_value_null_and_the_last_of_equal_keys_counts() {
    let fields = [
        part(9, part(2, number(3, 1))),
        part(9, part(1, "nothing")),
        part(9, key_value("k", &number(3, 1))),
        part(9, key_value("k", &number(3, 2))),
    ];
    let attributes = one(&fields.concat()).attributes;
    assert_eq!(
        Value::Object(attributes).to_string(),
        r#"{"":1,"k":2,"nothing":null}"#
    );
}

#[test]
fn every_kind_of_value_is_flattened() {
    let list = part(1, key_value("b", &part(1, "x")));
    for (value, json) in [
        (part(1, "a"), r#""a""#),
        ([number(3, 1), part(1, "a")].concat(), r#""a""#),
        ([number(2, 1), number(3, 4)].concat(), "4"),
        ([fixed(4, 0.5_f64.to_bits()), number(2, 1)].concat(), "0.5"),
        (
            [part(7, [1]), part(5, part(1, number(3, 1)))].concat(),
            "[1]",
        ),
        (number(3, u64::MAX), "-1"),
        (number(3, 1 << 63), "-9223372036854775808"),
        (fixed(4, 3_f64.to_bits()), "3.0"),
        (fixed(4, f64::NAN.to_bits()), "null"),
        (fixed(4, f64::INFINITY.to_bits()), "null"),
        (fixed(4, f64::NEG_INFINITY.to_bits()), "null"),
        (number(2, 0), "false"),
        (
            part(5, [part(1, number(3, 1)), part(1, "")].concat()),
            "[1,null]",
        ),
        (part(5, ""), "[]"),
        (part(6, list), r#"{"b":"x"}"#),
        (part(6, ""), "{}"),
        (part(7, [0, 255]), r#""00ff""#),
        (part(7, ""), r#""""#),
        (Vec::new(), "null"),
    ] {
        assert_eq!(flat(&value), json, "{value:?}");
    }
}

#[test]
fn a_status_is_ok_error_or_empty() {
    for (code, word) in [(0, ""), (1, "ok"), (2, "error"), (3, ""), (u64::MAX, "")] {
        assert_eq!(one(&part(15, number(3, code))).status, word, "{code}");
    }
}

#[test]
fn unknown_fields_are_skipped_in_every_message_and_groups_are_refused() {
    let unknown = [
        number(99, 1 << 40),
        fixed(98, 1),
        part(97, [255]),
        [tag(96, 5), vec![0; 4]].concat(),
    ]
    .concat();
    // A known number of another type is as good as unknown.
    let odd = number(5, 1);
    let fields = [
        unknown.clone(),
        part(11, [fixed(1, 1), unknown.clone()].concat()),
        odd,
    ]
    .concat();
    let span = [ids(), times(), fields].concat();
    let bytes = [
        unknown.clone(),
        part(
            1,
            [unknown.clone(), part(2, [unknown, part(2, span)].concat())].concat(),
        ),
    ]
    .concat();
    assert_eq!(spans(&bytes)[0].events.len(), 1);
    for wire_type in [3, 4, 6, 7] {
        let group = [tag(99, wire_type), tag(99, 4)].concat();
        assert_eq!(refused(&group), (Fault::WireType, String::new()));
        assert_eq!(refused_span(&group).0, Fault::WireType);
    }
    assert_eq!(refused(&tag(0, 0)).0, Fault::FieldNumber);
    assert_eq!(refused(&varint(1 << 35)).0, Fault::FieldNumber);
}

#[test]
fn cut_off_overlong_and_oversized_values_are_refused() {
    assert_eq!(refused(&[0x80]).0, Fault::End);
    assert_eq!(refused(&[0x98, 0x06, 0xff]).0, Fault::End);
    let overlong = [tag(99, 0), vec![0x80; 10], vec![0]].concat();
    assert_eq!(refused(&overlong).0, Fault::Varint);
    let above_64_bits = [tag(99, 0), vec![0xff; 9], vec![2]].concat();
    assert_eq!(refused(&above_64_bits).0, Fault::Varint);
    assert_eq!(spans(&number(99, u64::MAX)), []);
    for len in [2, 1 << 31, u64::MAX] {
        assert_eq!(
            refused(&[tag(1, 2), varint(len), vec![0]].concat()).0,
            Fault::End
        );
    }
    let whole = request(&[ids(), times()].concat());
    for len in 1..whole.len() {
        assert_eq!(refused(&whole[..len]).0, Fault::End, "{len}");
    }
    assert_eq!(refused(&[tag(99, 1), vec![0; 7]].concat()).0, Fault::End);
    assert_eq!(refused(&[tag(99, 5), vec![0; 3]].concat()).0, Fault::End);
}

#[test]
fn text_that_is_not_utf_8_is_refused_wherever_it_stands() {
    let bad = part(1, [b'a', 0xff]);
    for field in [
        part(5, [0xff]),
        part(9, &bad),
        part(9, part(2, &bad)),
        part(11, [fixed(1, 1), part(2, [0xff])].concat()),
    ] {
        assert_eq!(
            refused_span(&[ids(), times(), field].concat()).0,
            Fault::Utf8
        );
    }
    let resource = part(1, part(1, part(1, &bad)));
    assert_eq!(
        refused(&resource),
        (Fault::Utf8, "resourceSpans[0].resource".to_owned())
    );
}

#[test]
fn values_nest_32_levels_and_no_deeper_and_a_very_deep_one_harms_nobody() {
    let nested = |levels: u32, wrap: fn(Vec<u8>) -> Vec<u8>| {
        (0..levels).fold(number(3, 1), |value, _| wrap(value))
    };
    let array = |value| part(5, part(1, value));
    let list = |value: Vec<u8>| part(6, part(1, key_value("k", &value)));
    for wrap in [array as fn(Vec<u8>) -> Vec<u8>, list] {
        let value = flat(&nested(VALUE_DEPTH_MAX, wrap));
        assert_eq!(value.matches(['[', '{']).count(), VALUE_DEPTH_MAX as usize);
        for levels in [VALUE_DEPTH_MAX + 1, 40, 3_000] {
            let fields = [
                ids(),
                times(),
                part(9, key_value("k", &nested(levels, wrap))),
            ]
            .concat();
            assert_eq!(refused_span(&fields).0, Fault::Depth, "{levels}");
        }
    }
}

#[test]
fn an_invalid_tenant_refuses_the_request_and_says_where() {
    let with = |name: &str| {
        let resource = part(1, part(1, key_value("traza.tenant", &part(1, name))));
        part(
            1,
            [resource, part(2, part(2, [ids(), times()].concat()))].concat(),
        )
    };
    assert_eq!(spans(&with(""))[0].tenant, "");
    assert_eq!(spans(&with("a-1"))[0].tenant, "a-1");
    let path = "resourceSpans[0].resource.attributes[traza.tenant]";
    assert_eq!(refused(&with("Acme")), (Fault::Tenant, path.to_owned()));
}

#[test]
fn what_spans_share_is_not_repeated_without_bound() {
    let service = "s".repeat(1 << 20);
    let resource = part(1, part(1, key_value("service.name", &part(1, service))));
    let span = part(2, [ids(), times()].concat());
    let with = |count: usize| part(1, [resource.clone(), part(2, span.repeat(count))].concat());
    assert_eq!(spans(&with(10)).len(), 10);
    assert_eq!(refused(&with(64)).0, Fault::Copied);
}

#[test]
fn a_request_of_many_tiny_values_is_refused_before_it_takes_much_memory() {
    let values = part(1, "").repeat(ELEMENTS_LEN_MAX / size_of::<Value>());
    let fields = [ids(), times(), part(9, key_value("k", &part(5, values)))].concat();
    assert_eq!(refused_span(&fields).0, Fault::Elements);
    // A map of one entry has room for four.
    let map = part(1, part(6, part(1, "")));
    let maps = map.repeat(ELEMENTS_LEN_MAX / (4 * size_of::<(Text, Value)>()));
    assert!(maps.len() < 16 << 20);
    let fields = [ids(), times(), part(9, key_value("k", &part(5, maps)))].concat();
    assert_eq!(refused_span(&fields).0, Fault::Elements);
}
