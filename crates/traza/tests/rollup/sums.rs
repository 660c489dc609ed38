//! Folding, adding and keeping of sums over generated spans. The oracle for the counters is a plain loop over the spans
//! of each group.

use proptest::prelude::*;
use traza::llm::{Cost, Facts, Pricing, SessionKey};
use traza::rollup::{Binding, Counters, Rollup, SessionId, decode, encode};
use traza::span::Span;

use super::span_with;

fn pricing() -> Pricing {
    let table = br#"{"models":{"m*":{"input_per_mtok":1048576,"output_per_mtok":524288}}}"#;
    Pricing::from_json(table).unwrap()
}

/// A span of few possible groups, so that many spans meet. Stated amounts are fractions of a power of two: their sums do
/// not round.
fn span() -> impl Strategy<Value = Span> {
    let ids = (0..40u32, 0..4u32, prop_oneof!["", "acme", "b-corp"]);
    let times = (0..3u64, any::<u32>(), any::<u32>());
    let attribute = prop_oneof![
        "m[12]".prop_map(|model| ("llm.model".to_owned(), model.into())),
        (0..500u64).prop_map(|count| ("llm.prompt_tokens".to_owned(), count.into())),
        any::<u64>().prop_map(|count| ("llm.completion_tokens".to_owned(), count.into())),
        (0..64u32).prop_map(|eighths| {
            let usd = format!("{}", f64::from(eighths) / 8.0);
            ("llm.cost_usd".to_owned(), usd.into())
        }),
        "[pq]".prop_map(|provider| ("gen_ai.system".to_owned(), provider.into())),
        "[st]".prop_map(|session| ("session.id".to_owned(), session.into())),
        "[st]".prop_map(|session| ("gen_ai.conversation.id".to_owned(), session.into())),
    ];
    let attributes = proptest::collection::vec(attribute, 0..7);
    (ids, times, prop_oneof!["", "ok", "error"], attributes).prop_map(
        |((span_id, trace_id, tenant), (day, start, end), status, attributes)| Span {
            trace_id: trace_id.to_string().into(),
            span_id: span_id.to_string().into(),
            tenant: tenant.into(),
            service: format!("service {}", trace_id % 2).into(),
            start_time_ns: day * 86_400_000_000_000 + u64::from(start),
            end_time_ns: day * 86_400_000_000_000 + u64::from(end),
            status: status.into(),
            attributes: attributes.into_iter().collect(),
            ..Span::default()
        },
    )
}

fn spans() -> impl Strategy<Value = Vec<Span>> {
    proptest::collection::vec(span(), 0..60)
}

const BINDING: Binding = Binding {
    segment_len: 1,
    record_count: 2,
    min_timestamp: 3,
    max_timestamp: 4,
    pricing_fingerprint: 5,
};

/// The counters of those spans that `is_in` takes, in their order; `None` when there are none.
fn counters(spans: &[Span], is_in: impl Fn(&Span, &Facts<'_>) -> bool) -> Option<Counters> {
    let mut sum = None;
    for span in spans {
        let facts = Facts::of(span);
        if is_in(span, &facts) {
            let cost = Cost::of(&facts, &pricing());
            let sum: &mut Counters = sum.get_or_insert_default();
            sum.add(&Counters::of(span, &facts, cost));
        }
    }
    sum
}

#[test]
fn the_counters_of_a_span_say_what_it_is() {
    let of = |attributes: &str, status: &str| {
        let mut span = span_with(attributes);
        span.status = status.into();
        let facts = Facts::of(&span);
        Counters::of(&span, &facts, Cost::of(&facts, &pricing()))
    };
    let plain = Counters {
        spans: 1,
        ..Counters::default()
    };
    assert_eq!(of("{}", "ok"), plain);
    assert_eq!(of("{}", "ERROR"), plain, "errors are spelled `error`");
    assert_eq!(of("{}", "error"), Counters { errors: 1, ..plain });
    let metered = Counters {
        cost_usd: 0.5,
        cost_metered_calls: 1,
        ..plain
    };
    assert_eq!(
        of(r#"{"llm.cost_usd":0.5}"#, "ok"),
        metered,
        "without a call"
    );
    let call = Counters {
        llm_calls: 1,
        llm_duration_ns: 20,
        ..plain
    };
    let unpriced = Counters {
        total_tokens: 9,
        cost_unpriced_calls: 1,
        ..call
    };
    assert_eq!(of(r#"{"llm.total_tokens":9}"#, "ok"), unpriced);
    let derived = Counters {
        prompt_tokens: 1_000_000,
        completion_tokens: 2_000_000,
        total_tokens: 3_000_000,
        cost_usd: 2_097_152.0,
        cost_derived_usd: 2_097_152.0,
        cost_derived_calls: 1,
        ..call
    };
    let attributes =
        r#"{"llm.model":"m","llm.prompt_tokens":1000000,"llm.completion_tokens":2000000}"#;
    assert_eq!(of(attributes, "ok"), derived);
}

#[test]
fn a_call_that_ends_before_its_start_took_no_time() {
    let mut span = span_with(r#"{"llm.model":"m"}"#);
    span.end_time_ns = span.start_time_ns - 1;
    let facts = Facts::of(&span);
    assert_eq!(
        Counters::of(&span, &facts, Cost::Unknown).llm_duration_ns,
        0
    );
}

#[test]
fn sums_stop_at_the_largest_integer_and_the_largest_finite_amount() {
    let mut sum = Counters {
        spans: u64::MAX,
        cost_usd: f64::MAX,
        cost_derived_usd: f64::MIN,
        ..Counters::default()
    };
    sum.add(&sum.clone());
    assert_eq!(sum.spans, u64::MAX);
    assert_eq!((sum.cost_usd, sum.cost_derived_usd), (f64::MAX, f64::MIN));
}

#[test]
fn a_session_keeps_the_first_of_its_keys_and_the_outer_times() {
    let spans = [
        (r#"{"gen_ai.conversation.id":"7"}"#, 10, 20),
        (r#"{"session.id":7}"#, 5, 15),
        (r#"{"traceloop.association.properties.chat_id":"7"}"#, 30, 2),
    ]
    .map(|(attributes, start, end)| {
        let mut span = span_with(attributes);
        (span.start_time_ns, span.end_time_ns) = (start, end);
        span.trace_id = format!("t{start}").into();
        span
    });
    let rollup = Rollup::fold(&spans, &Pricing::default());
    let (id, session) = rollup.totals.sessions.first_key_value().unwrap();
    assert_eq!(
        (id.session.as_str(), rollup.totals.sessions.len()),
        ("7", 1)
    );
    assert_eq!(session.key, Some(SessionKey::SessionId));
    assert_eq!((session.first_start_ns, session.last_end_ns), (5, 20));
    assert!(session.trace_ids.iter().eq(["t10", "t30", "t5"]));
}

#[test]
fn references_of_events_and_links_count_and_erased_ones_do_not() {
    let json = br#"{"trace_id":"t","span_id":"s","name":"n","service":"bot","start_time_ns":1,"end_time_ns":2,
        "attributes":{"a":{"$payload":"sha256/b"},"again":{"$payload":"sha256/b"},
            "gone":{"$payload":"sha256/x","erased":true},"deep":[{"$payload":"sha256/y"}]},
        "events":[{"name":"e","timestamp_ns":1,"attributes":{"a":{"$payload":"sha256/a"}}}],
        "links":[{"trace_id":"u","span_id":"v","attributes":{"a":{"$payload":"any text"}}}]}"#;
    let span = Span::from_json(json).unwrap();
    let rollup = Rollup::fold([span], &Pricing::default());
    let references = rollup.payload_references.iter();
    assert!(references.eq(["any text", "sha256/a", "sha256/b"]));
}

proptest! {
    #[test]
    fn each_group_has_the_sums_of_its_spans_and_of_no_others(spans in spans()) {
        let rollup = Rollup::fold(&spans, &pricing());
        let totals = &rollup.totals;
        for model in ["m1", "m2", "m3"] {
            let wanted = counters(&spans, |_, facts| facts.model.as_deref() == Some(model));
            prop_assert_eq!(totals.by_model.get(model).copied(), wanted);
        }
        for provider in ["p", "q", "r"] {
            let wanted = counters(&spans, |_, facts| facts.provider.as_deref() == Some(provider));
            prop_assert_eq!(totals.by_provider.get(provider).copied(), wanted);
        }
        for service in ["service 0", "service 1", ""] {
            let wanted = counters(&spans, |span, _| span.service == service);
            prop_assert_eq!(totals.by_service.get(service).copied(), wanted);
        }
        for (day, name) in [(0, "1970-01-01"), (1, "1970-01-02"), (2, "1970-01-03")] {
            let wanted = counters(&spans, |span, _| span.start_time_ns / 86_400_000_000_000 == day);
            prop_assert_eq!(totals.by_day.get(name).copied(), wanted);
        }
        for tenant in ["", "acme", "b-corp"] {
            for session in ["s", "t"] {
                let wanted = counters(&spans, |span, facts| {
                    let named = facts.session.as_ref().map(|session| &*session.id);
                    span.tenant == tenant && named == Some(session)
                });
                let id = SessionId { tenant: tenant.to_owned(), session: session.to_owned() };
                let found = totals.sessions.get(&id).map(|session| session.counters);
                prop_assert_eq!(found, wanted);
            }
        }
    }

    #[test]
    fn what_was_encoded_is_decoded_and_encodes_to_the_same(spans in spans()) {
        let rollup = Rollup::fold(&spans, &pricing());
        let bytes = encode(&rollup, &BINDING);
        let decoded = decode(&bytes, &BINDING).unwrap();
        prop_assert_eq!(&decoded, &rollup);
        prop_assert!(encode(&decoded, &BINDING) == bytes);
    }

    /// Without derived costs, so that no sum rounds.
    #[test]
    fn a_sum_of_rollups_is_the_rollup_of_all_spans(left in spans(), right in spans()) {
        let fold = |spans: &[Span]| Rollup::fold(spans, &Pricing::default());
        let mut sum = fold(&left);
        sum.add(&fold(&right));
        prop_assert_eq!(sum, fold(&[left, right].concat()));
    }
}
