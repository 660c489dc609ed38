//! The sidecars of a released peer. The oracle is their bytes, and for the small one the numbers that were read from it
//! independently.

use std::collections::BTreeSet;

use traza::llm::{Pricing, SessionKey};
use traza::rollup::{
    Binding, Counters, Prologue, Rollup, RollupError, SessionId, decode, encode, key_hash, layout,
};
use traza::segment::Segment;
use traza::span::Span;

use super::fnv_vectors;

/// Segments, each with its sidecar.
const PAIRS: [(&[u8], &[u8]); 4] = [
    (
        include_bytes!("../fixtures/v8/segment-0.seg"),
        include_bytes!("../fixtures/rollup/segment-0.rollup"),
    ),
    (
        include_bytes!("../fixtures/rollup/segment-1.seg"),
        include_bytes!("../fixtures/rollup/segment-1.rollup"),
    ),
    (
        include_bytes!("../fixtures/v8/segment-2.seg"),
        include_bytes!("../fixtures/rollup/segment-2.rollup"),
    ),
    (
        include_bytes!("../fixtures/corrupt/base.seg"),
        include_bytes!("../fixtures/rollup/base.rollup"),
    ),
];

/// The pair of the vectors.
fn small_pair() -> (Vec<u8>, Vec<u8>, serde_json::Value) {
    let vectors: serde_json::Value = serde_json::from_str(include_str!("rollup.json")).unwrap();
    let bytes = |name: &str| durable::digest::from_hex(vectors[name].as_str().unwrap()).unwrap();
    let (segment, sidecar) = (bytes("segment_hex"), bytes("rollup_hex"));
    (segment, sidecar, vectors["decoded"].clone())
}

fn pairs() -> Vec<(Vec<u8>, Vec<u8>)> {
    let (segment, sidecar, _) = small_pair();
    let fixtures = PAIRS.map(|(segment, sidecar)| (segment.to_vec(), sidecar.to_vec()));
    [(segment, sidecar)].into_iter().chain(fixtures).collect()
}

fn open(segment: &[u8]) -> (Vec<Span>, Binding) {
    let segment = Segment::from_bytes(segment.to_vec()).unwrap();
    let spans = segment
        .scan()
        .map(|record| Span::from_json(record.unwrap().payload()).unwrap())
        .collect();
    let binding = Binding::of(segment.header(), segment.file_len(), &Pricing::default());
    (spans, binding)
}

#[test]
fn a_sidecar_is_made_again_byte_for_byte_from_the_spans() {
    for (segment, sidecar) in pairs() {
        let (spans, binding) = open(&segment);
        let rollup = Rollup::fold(&spans, &Pricing::default());
        assert!(encode(&rollup, &binding) == sidecar);
        assert_eq!(decode(&sidecar, &binding).unwrap(), rollup);
    }
}

#[test]
fn a_sidecar_says_what_was_read_from_it_independently() {
    let (segment, sidecar, wanted) = small_pair();
    let (_, binding) = open(&segment);
    let rollup = decode(&sidecar, &binding).unwrap();
    let counters = |counters: &Counters| {
        serde_json::json!([
            counters.spans,
            counters.llm_calls,
            counters.prompt_tokens,
            counters.completion_tokens,
            counters.total_tokens,
            counters.cost_usd,
            counters.cost_derived_usd,
            counters.cost_metered_calls,
            counters.cost_derived_calls,
            counters.cost_unpriced_calls,
            counters.errors,
            counters.llm_duration_ns,
        ])
    };
    let totals = &rollup.totals;
    for (name, groups) in [
        ("by_model", &totals.by_model),
        ("by_provider", &totals.by_provider),
        ("by_service", &totals.by_service),
        ("by_day", &totals.by_day),
    ] {
        let found: serde_json::Map<_, _> = groups
            .iter()
            .map(|(name, group)| (name.clone(), counters(group)))
            .collect();
        assert_eq!(serde_json::Value::from(found), wanted[name], "{name}");
    }
    let id = SessionId {
        tenant: String::new(),
        session: "sess-1".to_owned(),
    };
    let session = &totals.sessions[&id];
    assert_eq!(totals.sessions.len(), 1);
    assert_eq!(session.key, Some(SessionKey::SessionId));
    let found = serde_json::json!([[
        id.tenant,
        id.session,
        counters(&session.counters),
        session.first_start_ns,
        session.last_end_ns,
        session.trace_ids,
        0,
    ]]);
    assert_eq!(found, wanted["sessions"]);
    assert_eq!(
        serde_json::json!(rollup.payload_references),
        wanted["payload_refs"]
    );
    assert_eq!(
        serde_json::json!([rollup.min_end_ns, rollup.max_end_ns]),
        wanted["end_range"]
    );
}

#[test]
fn hashes_of_identities_are_those_of_the_vectors() {
    for case in fnv_vectors()["primary_key_hash"].as_array().unwrap() {
        let text = |name: &str| case[name].as_str().unwrap();
        let hash = key_hash(text("tenant"), text("trace_id"), text("span_id"));
        assert_eq!(format!("{hash:016x}"), text("hash"), "{case}");
    }
}

#[test]
fn a_span_of_the_segment_may_be_held_and_one_of_another_tenant_is_not() {
    for (segment, sidecar) in pairs() {
        let (spans, binding) = open(&segment);
        let rollup = decode(&sidecar, &binding).unwrap();
        for span in &spans {
            assert!(rollup.may_hold(&span.tenant, &span.trace_id, &span.span_id));
            assert!(!rollup.may_hold("nobody", &span.trace_id, &span.span_id));
        }
    }
}

#[test]
fn every_changed_byte_means_to_make_it_again() {
    for (segment, sidecar) in pairs() {
        let (_, binding) = open(&segment);
        let mut damaged = sidecar.clone();
        for at in 0..sidecar.len() {
            for mask in [0x01, 0x80, 0xff] {
                damaged[at] ^= mask;
                assert!(
                    decode(&damaged, &binding).is_err(),
                    "byte {at} ^ {mask:02x}"
                );
                let front = Prologue::decode(&damaged, &binding);
                assert_eq!(front.is_err(), at < layout::prologue::LEN, "byte {at}");
                damaged[at] ^= mask;
            }
        }
    }
}

#[test]
fn every_shorter_or_longer_file_means_to_make_it_again() {
    let (segment, mut sidecar, _) = small_pair();
    let (_, binding) = open(&segment);
    for len in 0..sidecar.len() {
        let cut = &sidecar[..len];
        assert!(decode(cut, &binding).is_err(), "{len} bytes");
        let front = Prologue::decode(cut, &binding);
        assert_eq!(front.is_ok(), len >= layout::prologue::LEN, "{len} bytes");
    }
    sidecar.push(0);
    assert!(decode(&sidecar, &binding).is_err());
}

#[test]
fn the_front_alone_tells_when_the_spans_end() {
    for (segment, sidecar) in pairs() {
        let (spans, binding) = open(&segment);
        let ends: BTreeSet<u64> = spans.iter().map(|span| span.end_time_ns).collect();
        let front = Prologue::decode(&sidecar[..layout::prologue::LEN], &binding).unwrap();
        assert_eq!(Some(&front.min_end_ns), ends.first());
        assert_eq!(Some(&front.max_end_ns), ends.last());
    }
}

#[test]
fn a_sidecar_of_another_segment_or_price_list_names_what_differs() {
    let (segment, sidecar, _) = small_pair();
    let (_, binding) = open(&segment);
    let table = br#"{"models":{"m":{"input_per_mtok":1,"output_per_mtok":1}}}"#;
    let pricing = Pricing::from_json(table).unwrap();
    let others = [
        (
            "SEGMENT_LEN",
            Binding {
                segment_len: 1,
                ..binding
            },
        ),
        (
            "RECORD_COUNT",
            Binding {
                record_count: 1,
                ..binding
            },
        ),
        (
            "MIN_TIMESTAMP",
            Binding {
                min_timestamp: 1,
                ..binding
            },
        ),
        (
            "MAX_TIMESTAMP",
            Binding {
                max_timestamp: 1,
                ..binding
            },
        ),
        (
            "PRICING_FINGERPRINT",
            Binding {
                pricing_fingerprint: pricing.fingerprint(),
                ..binding
            },
        ),
    ];
    for (wanted, other) in others {
        let refused = [
            decode(&sidecar, &other).unwrap_err(),
            Prologue::decode(&sidecar, &other).unwrap_err(),
        ];
        for error in refused {
            assert!(
                matches!(error, RollupError::Binding { field, .. } if field == wanted),
                "{wanted}: {error}"
            );
        }
    }
}
