//! Random spans and records that are awkward on purpose: few distinct ids, keys and times, so that everything
//! collides; keys that look reserved; values of every kind; text that tokenizes oddly.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use traza::json::{Number, Object, Value};
use traza::record::{NAME_KEY, Record, SERVICE_KEY, derive};
use traza::span::{Event, Link, Span};

pub(crate) const WORDS: [&str; 12] = [
    "refund",
    "Refunds",
    "order",
    "14C",
    "a",
    "naïve",
    "世界",
    "don't",
    "x-y_z",
    "",
    "0",
    "averyveryveryveryveryveryveryverylongwordindeed",
];
pub(crate) const KEYS: [&str; 8] = [
    "",
    "model",
    "a.b",
    "ключ",
    "\0service",
    "\0",
    "status",
    "tokens",
];

/// A text of a few words.
fn text() -> impl Strategy<Value = String> {
    vec(select(WORDS.as_slice()), 0..6).prop_map(|words| words.join(" "))
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => text().prop_map(Value::from),
        2 => (0..4u64).prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => (i64::MIN..0).prop_map(|n| Value::Number(Number::Negative(n))),
        1 => select(vec![0.5, -0.0, 1.0, 1e300]).prop_map(|n| Value::Number(Number::Float(n))),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => select(vec!["0", "1", "true", "1.0", "0.5"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::Array),
            btree_map(
                select(vec!["$payload", "b", "a"]).prop_map(str::to_owned),
                inner,
                0..3
            )
            .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn attributes() -> impl Strategy<Value = Object> {
    btree_map(
        select(KEYS.as_slice()).prop_map(str::to_owned),
        value(),
        0..5,
    )
    .prop_map(|members| members.into_iter().collect())
}

fn event() -> impl Strategy<Value = Event> {
    (text(), any::<u64>(), attributes()).prop_map(|(name, timestamp_ns, attributes)| Event {
        name: name.into(),
        timestamp_ns,
        attributes,
    })
}

fn link() -> impl Strategy<Value = Link> {
    (trace_id(), attributes()).prop_map(|(trace_id, attributes)| Link {
        trace_id: trace_id.into(),
        span_id: "linked".into(),
        attributes,
    })
}

pub(crate) fn trace_id() -> impl Strategy<Value = String> {
    select(vec![
        "t",
        "t1",
        "T",
        "trace-ü",
        "0af7651916cd43dd8448eb211c80319c",
    ])
    .prop_map(str::to_owned)
}

/// Few values, and the ends of the range.
pub(crate) fn timestamp() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 1000..1010u64, 1 => Just(0), 1 => Just(u64::MAX), 1 => any::<u64>()]
}

pub(crate) fn span() -> impl Strategy<Value = Span> {
    let ids = (
        trace_id(),
        "[a-f0-9]{1,8}",
        select(vec!["", "", "acme", "b.2"]),
        any::<Option<bool>>(),
    );
    let times = (timestamp(), any::<u64>());
    let names = (text(), select(vec!["", "ok", "error"]), text());
    let parts = (
        attributes(),
        vec(event(), 0..3),
        vec(link(), 0..2),
        attributes(),
    );
    (ids, times, names, parts).prop_map(|(ids, times, names, parts)| {
        let (trace_id, span_id, tenant, parent) = ids;
        let (attributes, events, links, mut unknown) = parts;
        // What has a meaning at the top is not unknown.
        unknown.retain(|key, _| key != "status");
        Span {
            trace_id: trace_id.into(),
            span_id: span_id.into(),
            tenant: tenant.into(),
            parent_span_id: parent
                .map(|root| if root { String::new() } else { "p".to_owned() })
                .map(Into::into),
            name: names.0.into(),
            start_time_ns: times.0,
            end_time_ns: times.1,
            status: names.1.into(),
            service: names.2.into(),
            attributes,
            events,
            links,
            unknown,
        }
    })
}

/// Up to a few hundred spans: several content blocks.
pub(crate) fn spans() -> impl Strategy<Value = Vec<Span>> {
    prop_oneof![2 => vec(span(), 0..12), 1 => vec(span(), 100..300)]
}

pub(crate) fn records(spans: &[Span]) -> Vec<Record> {
    spans.iter().map(derive).collect()
}

/// A record of so many bytes of payload, which compress well or not at all.
pub(crate) fn bulky(timestamp: u64, payload_len: usize, compressible: bool) -> Record {
    let mut state = timestamp.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let noise = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        u8::try_from(state >> 56).unwrap()
    };
    Record {
        timestamp,
        trace_id: format!("bulk-{}", timestamp % 3),
        attributes: [(SERVICE_KEY, "bulk"), (NAME_KEY, "n")]
            .into_iter()
            .collect(),
        payload: if compressible {
            vec![b'x'; payload_len]
        } else {
            (0..payload_len).map(noise).collect()
        },
        ..Record::default()
    }
}

/// Records around the size of a block, some of which do not compress.
pub(crate) fn bulky_records() -> impl Strategy<Value = Vec<Record>> {
    let len = prop_oneof![
        3 => 0..2000usize,
        2 => 30_000..70_000usize,
        2 => 130_900..131_100usize,
        1 => 200_000..300_000usize,
    ];
    vec((timestamp(), len, any::<bool>()), 0..8).prop_map(|all| {
        all.into_iter()
            .map(|(time, len, packs)| bulky(time, len, packs))
            .collect()
    })
}
