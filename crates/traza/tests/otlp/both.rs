//! The same request in both encodings, as the types made from the published schema encode it, gives the same spans.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList, any_value::Value,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use prost::Message as _;

use traza::otlp::{spans_from_json, spans_from_protobuf};

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z.]{0,12}", any::<String>()]
}

/// Decimals of few digits: stored numbers of many may be one unit in the last place off, by the format.
fn double() -> impl Strategy<Value = f64> {
    (any::<i32>(), 0..6).prop_map(|(digits, places)| f64::from(digits) / 10_f64.powi(places))
}

fn any_value() -> impl Strategy<Value = AnyValue> {
    let leaf = prop_oneof![
        text().prop_map(Value::StringValue),
        any::<bool>().prop_map(Value::BoolValue),
        any::<i64>().prop_map(Value::IntValue),
        double().prop_map(Value::DoubleValue),
        vec(any::<u8>(), 0..20).prop_map(Value::BytesValue),
    ];
    leaf.prop_map(some).prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4)
                .prop_map(|values| some(Value::ArrayValue(ArrayValue { values }))),
            vec((text(), inner), 0..4).prop_map(|pairs| {
                let values = pairs.into_iter().map(key_value).collect();
                some(Value::KvlistValue(KeyValueList { values }))
            }),
        ]
    })
}

fn some(value: Value) -> AnyValue {
    AnyValue { value: Some(value) }
}

fn key_value((key, value): (String, AnyValue)) -> KeyValue {
    KeyValue {
        key,
        value: Some(value),
        ..KeyValue::default()
    }
}

fn attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    vec((text(), any_value()).prop_map(key_value), 0..5)
}

/// Not empty: an empty one is no id.
fn id() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 1..17)
}

/// Not 0, which protobuf leaves out.
fn time() -> impl Strategy<Value = u64> {
    1..=u64::MAX
}

fn event() -> impl Strategy<Value = Event> {
    (time(), text(), attributes(), any::<u32>()).prop_map(
        |(time_unix_nano, name, attributes, dropped_attributes_count)| Event {
            time_unix_nano,
            name,
            attributes,
            dropped_attributes_count,
        },
    )
}

fn link() -> impl Strategy<Value = Link> {
    (id(), id(), attributes(), text(), any::<u32>()).prop_map(
        |(trace_id, span_id, attributes, trace_state, flags)| Link {
            trace_id,
            span_id,
            trace_state,
            attributes,
            dropped_attributes_count: 1,
            flags,
        },
    )
}

fn status() -> impl Strategy<Value = Status> {
    (0..4, text()).prop_map(|(code, message)| Status { code, message })
}

fn span() -> impl Strategy<Value = Span> {
    let ids = (id(), id(), prop_oneof![Just(Vec::new()), id()]);
    let rest = (attributes(), vec(event(), 0..3), vec(link(), 0..3));
    (
        ids,
        text(),
        time(),
        time(),
        rest,
        option::of(status()),
        0..6,
    )
        .prop_map(|(ids, name, start, end, rest, status, kind)| Span {
            trace_id: ids.0,
            span_id: ids.1,
            parent_span_id: ids.2,
            trace_state: "a=b".to_owned(),
            flags: 1,
            name,
            kind,
            start_time_unix_nano: start,
            end_time_unix_nano: end,
            attributes: rest.0,
            events: rest.1,
            links: rest.2,
            dropped_events_count: 3,
            status,
            ..Span::default()
        })
}

fn scope_spans() -> impl Strategy<Value = ScopeSpans> {
    let scope = attributes().prop_map(|attributes| InstrumentationScope {
        name: "scope".to_owned(),
        version: "1".to_owned(),
        attributes,
        dropped_attributes_count: 0,
    });
    (option::of(scope), vec(span(), 0..3)).prop_map(|(scope, spans)| ScopeSpans {
        scope,
        spans,
        schema_url: "schema".to_owned(),
    })
}

fn resource_spans() -> impl Strategy<Value = ResourceSpans> {
    let identity = (
        option::of(any_value()),
        option::of("[a-z0-9][a-z0-9._-]{0,10}"),
        vec(
            ("(run|study|session)\\.id|trial\\.number", any_value()),
            0..3,
        ),
    );
    let resource =
        (attributes(), identity).prop_map(|(mut attributes, (service, tenant, links))| {
            attributes.extend(links.into_iter().map(key_value));
            let service = service.map(|value| key_value(("service.name".to_owned(), value)));
            attributes.extend(service);
            let tenant = tenant.map(|name| some(Value::StringValue(name)));
            attributes.extend(tenant.map(|value| key_value(("traza.tenant".to_owned(), value))));
            Resource {
                attributes,
                ..Resource::default()
            }
        });
    (option::of(resource), vec(scope_spans(), 0..3)).prop_map(|(resource, scope_spans)| {
        ResourceSpans {
            resource,
            scope_spans,
            schema_url: String::new(),
        }
    })
}

fn request() -> impl Strategy<Value = ExportTraceServiceRequest> {
    vec(resource_spans(), 0..3)
        .prop_map(|resource_spans| ExportTraceServiceRequest { resource_spans })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_request_gives_the_same_spans_in_json_and_in_protobuf(request in request()) {
        let json = serde_json::to_vec(&request).unwrap();
        let from_json = spans_from_json(&json).unwrap();
        let from_protobuf = spans_from_protobuf(&request.encode_to_vec()).unwrap();
        let count = request.resource_spans.iter().flat_map(|r| &r.scope_spans).map(|s| s.spans.len());
        prop_assert_eq!(from_protobuf.len(), count.sum::<usize>());
        prop_assert_eq!(from_json, from_protobuf);
    }

    #[test]
    fn a_cut_or_changed_request_is_refused_or_read_and_never_panics(
        request in request(), cut in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut bytes = request.encode_to_vec();
        prop_assume!(!bytes.is_empty());
        let at = cut.index(bytes.len());
        if let Err(error) = spans_from_protobuf(&bytes[..at]) {
            prop_assert!(error.to_string().starts_with("protobuf decode error: "), "{error}");
        }
        bytes[at] = byte;
        if let Err(error) = spans_from_protobuf(&bytes) {
            prop_assert!(error.to_string().starts_with("protobuf decode error: "), "{error}");
        }
    }
}
