//! Spans as export requests, and back.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use traza::json::{Number, Object, Value};
use traza::otlp::{Losses, WRITTEN_DEPTH_MAX, spans_from_json, write_request};
use traza::span::{Event, Link, Span};

fn written(spans: &[Span]) -> (String, Losses) {
    let (mut request, mut losses) = (String::new(), Losses::default());
    write_request(spans, &mut request, &mut losses).unwrap();
    (request, losses)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (0..=i64::MAX.unsigned_abs()).prop_map(Value::from),
        (i64::MIN..0).prop_map(|number| Value::Number(Number::Negative(number))),
        prop_oneof![Just(-0.0), Just(1e300), Just(0.5), Just(1e21)]
            .prop_map(|number| Value::Number(Number::Float(number))),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map(".{0,6}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Object> {
    btree_map(".{0,6}", value(), 0..4).prop_map(|members| members.into_iter().collect())
}

fn id() -> impl Strategy<Value = String> {
    "[0-9a-f]{1,32}"
}

prop_compose! {
    fn span()(
        (trace_id, span_id, parent_span_id) in (id(), id(), proptest::option::of(id())),
        (tenant, service, name) in ("([a-z][a-z0-9.-]{0,3})?", ".{0,4}", ".{0,8}"),
        status in prop_oneof![Just(""), Just("ok"), Just("error")],
        (start_time_ns, end_time_ns) in any::<(u64, u64)>(),
        attributes in object(),
        events in vec((".{0,8}", any::<u64>(), object()), 0..3),
        links in vec((id(), id(), object()), 0..3),
    ) -> Span {
        let event = |(name, timestamp_ns, attributes): (String, u64, Object)| Event { name: name.into(), timestamp_ns, attributes };
        let link = |(trace_id, span_id, attributes): (String, String, Object)| Link { trace_id: trace_id.into(), span_id: span_id.into(), attributes };
        Span {
            trace_id: trace_id.into(), span_id: span_id.into(), tenant: tenant.into(), parent_span_id: parent_span_id.map(Into::into), name: name.into(), start_time_ns, end_time_ns,
            status: status.into(), service: service.into(), attributes,
            events: events.into_iter().map(event).collect(),
            links: links.into_iter().map(link).collect(),
            unknown: Object::new(),
        }
    }
}

proptest! {
    #[test]
    fn what_the_protocol_can_say_is_read_back_as_it_was(spans in vec(span(), 0..8)) {
        let (request, losses) = written(&spans);
        prop_assert!(!request.contains('\n'));
        prop_assert_eq!(losses, Losses::default());
        let mut wanted = spans;
        wanted.sort_by(|a, b| (&a.tenant, &a.service).cmp(&(&b.tenant, &b.service)));
        let back = spans_from_json(request.as_bytes()).unwrap();
        // Doubles are compared by their spelling, in which -0.0 is not 0.0.
        let spelt = |spans: &[Span]| spans.iter().map(Span::to_json).collect::<Vec<_>>();
        prop_assert_eq!(spelt(&back), spelt(&wanted));
    }
}

fn plain() -> Span {
    Span {
        trace_id: "ab".into(),
        span_id: "01".into(),
        ..Span::default()
    }
}

/// What comes back of a span, and what was lost.
fn round(change: impl FnOnce(&mut Span)) -> (Span, Losses) {
    let mut span = plain();
    change(&mut span);
    let (request, losses) = written(&[span]);
    let mut back = spans_from_json(request.as_bytes()).unwrap();
    assert_eq!(back.len(), 1);
    (back.remove(0), losses)
}

#[test]
fn what_the_protocol_cannot_say_is_counted() {
    let none = Losses::default();
    let (back, losses) = round(|span| span.status = "timeout".into());
    assert_eq!(
        (back, losses),
        (
            plain(),
            Losses {
                statuses: 1,
                ..none
            }
        )
    );
    let (back, losses) = round(|span| span.parent_span_id = Some("root".into()));
    assert_eq!((back, losses), (plain(), Losses { parents: 1, ..none }));
    let (back, losses) = round(|span| {
        span.unknown.insert("kind".to_owned(), Value::from(3));
    });
    let lost = Losses {
        unknown_members: 1,
        ..none
    };
    assert_eq!((back, losses), (plain(), lost));
    let (back, losses) = round(|span| {
        let link = |id: &str| Link {
            trace_id: id.into(),
            span_id: "0c".into(),
            ..Link::default()
        };
        span.links = vec![link("T1"), link("0d"), link("")];
    });
    assert_eq!(
        (back.links.len(), back.links[0].trace_id.as_str()),
        (1, "0d")
    );
    assert_eq!(losses, Losses { links: 2, ..none });
    let (back, losses) = round(|span| {
        span.attributes
            .insert("n".to_owned(), Value::from(u64::MAX));
    });
    assert_eq!(back.attributes["n"].to_string(), "1.8446744073709552e+19");
    assert_eq!(
        losses,
        Losses {
            integers: 1,
            ..none
        }
    );
    assert_eq!(losses.in_words().count(), 1);
}

#[test]
fn deep_values_stay_readable_for_whoever_bounds_the_depth() {
    let nested = |depth: usize, wrap: fn(Value) -> Value| {
        (0..depth).fold(Value::from("x"), |value, _| wrap(value))
    };
    for wrap in [
        |value| Value::Array(vec![value]),
        |value| Value::Object(Object::from([("k", value)])),
    ] {
        for (depth, nested_count) in [(WRITTEN_DEPTH_MAX, 0), (WRITTEN_DEPTH_MAX + 1, 1)] {
            let value = nested(depth, wrap);
            let (back, losses) = round(|span| {
                let attributes = Object::from([("deep", value.clone())]);
                span.events.push(Event {
                    attributes,
                    ..Event::default()
                });
            });
            assert_eq!(losses.nested, nested_count);
            assert_eq!(
                back.events[0].attributes["deep"] == value,
                nested_count == 0
            );
        }
    }
}

#[test]
fn a_span_without_ids_of_the_protocol_is_refused() {
    for (trace_id, span_id, field) in [
        ("t1", "01", "trace_id"),
        ("AB", "01", "trace_id"),
        ("ab", "", "span_id"),
        ("ab", "s", "span_id"),
    ] {
        let span = Span {
            trace_id: trace_id.into(),
            span_id: span_id.into(),
            ..Span::default()
        };
        let refused = write_request(&[span], &mut String::new(), &mut Losses::default());
        assert_eq!(refused.unwrap_err().field, field);
    }
}
