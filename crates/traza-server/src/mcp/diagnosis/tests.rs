//! Every shape, every outcome, and where a failure comes from.

use std::sync::Arc;

use proptest::prelude::*;
use traza::json::{Number, Object, Value};
use traza::span::{Link, Span};

use super::*;

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1_800_000_000 * SECOND;

/// A span of one step, `place` seconds after the first one, a second long.
fn span(place: u64) -> Span {
    Span {
        trace_id: "t".into(),
        span_id: format!("s{place}").into(),
        name: "step".into(),
        service: "svc".into(),
        start_time_ns: place * SECOND,
        end_time_ns: (place + 1) * SECOND,
        ..Span::default()
    }
}

fn number(value: u64) -> Value {
    Value::Number(Number::Unsigned(value))
}

fn calls(count: u64, change: impl Fn(u64, &mut Span)) -> Vec<Arc<Span>> {
    (0..count)
        .map(|place| {
            let mut span = span(place);
            change(place, &mut span);
            Arc::new(span)
        })
        .collect()
}

fn failing(span: &mut Span) {
    span.status = "error".into();
}

/// All at once.
fn side_by_side(span: &mut Span) {
    span.start_time_ns = 0;
    span.end_time_ns = 10 * SECOND;
}

fn tokens(span: &mut Span, provider: &str, tokens: u64) {
    let mut set = |key: &str, value: Value| span.attributes.insert(key.to_owned(), value);
    set("gen_ai.provider.name", Value::from(provider));
    set("gen_ai.usage.input_tokens", number(tokens));
}

fn cached(span: &mut Span, tokens: u64) {
    span.attributes.insert(
        "gen_ai.usage.cache_read.input_tokens".to_owned(),
        number(tokens),
    );
}

fn only(spans: &[Arc<Span>]) -> Finding {
    let mut findings = diagnose(spans).findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.remove(0)
}

/// The one finding of calls with these sizes of contexts.
fn with_contexts(sizes: &[u64]) -> Finding {
    only(&calls(sizes.len() as u64, |place, span| {
        tokens(span, "openai", sizes[usize::try_from(place).unwrap()]);
    }))
}

#[test]
fn a_step_is_reported_from_five_repeats_in_one_trace() {
    assert!(diagnose(&calls(4, |_, _| {})).findings.is_empty());
    assert_eq!(only(&calls(5, |_, _| {})).places, [0, 1, 2, 3, 4]);
    let apart = calls(8, |place, span| {
        span.trace_id = format!("t{}", place % 2).into();
    });
    assert!(diagnose(&apart).findings.is_empty());
}

#[test]
fn attempts_that_wait_for_each_other_and_fail_in_half_are_a_retry_storm() {
    let storm = only(&calls(6, |place, span| {
        if place < 3 {
            failing(span);
        }
    }));
    assert_eq!((storm.shape, storm.error_count), (Shape::RetryStorm, 3));
    assert!((storm.serial_fraction - 1.0).abs() < 1e-9);
    assert!(storm.missing.is_empty());
    let fewer = only(&calls(6, |place, span| {
        if place < 2 {
            failing(span);
        }
    }));
    assert_eq!(
        (fewer.shape, fewer.missing),
        (Shape::Inconclusive, vec![Missing::Readings])
    );
}

#[test]
fn failures_side_by_side_are_no_retry_storm() {
    let found = only(&calls(6, |place, span| {
        side_by_side(span);
        if place < 3 {
            failing(span);
        }
    }));
    assert_eq!(found.shape, Shape::Inconclusive);
    assert_eq!(found.missing, [Missing::Readings, Missing::Order]);
}

#[test]
fn the_status_of_a_failure_may_be_spelled_in_any_case() {
    let storm = only(&calls(5, |place, span| {
        span.status = if place % 2 == 0 { "ERROR" } else { "Error" }.into();
    }));
    assert_eq!((storm.shape, storm.error_count), (Shape::RetryStorm, 5));
}

#[test]
fn a_context_that_doubles_without_shrinking_is_a_runaway() {
    let found = with_contexts(&[100, 110, 120, 150, 200]);
    assert_eq!(
        (found.shape, found.token_trend),
        (Shape::ContextRunaway, Trend::Growing)
    );
    assert_eq!(found.context, Some((100, 200)));
    assert_eq!(
        with_contexts(&[100, 110, 120, 150, 199]).token_trend,
        Trend::Varying
    );
    assert_eq!(
        with_contexts(&[100, 90, 120, 150, 500]).token_trend,
        Trend::Varying
    );
}

#[test]
fn a_context_that_grows_by_twenty_thousand_tokens_is_a_runaway_at_any_size() {
    assert_eq!(
        with_contexts(&[50_000, 55_000, 60_000, 65_000, 70_000]).shape,
        Shape::ContextRunaway
    );
    assert_eq!(
        with_contexts(&[50_000, 55_000, 60_000, 65_000, 69_999]).token_trend,
        Trend::Varying
    );
    assert_eq!(
        with_contexts(&[0, 0, 0, 0, 20_000]).token_trend,
        Trend::Growing
    );
    assert_eq!(with_contexts(&[0, 0, 0, 0, 5]).token_trend, Trend::Varying);
}

#[test]
fn a_context_that_ends_within_a_tenth_of_its_beginning_is_flat() {
    for (sizes, trend) in [
        ([100, 105, 95, 150, 110], Trend::Flat),
        ([100, 105, 95, 150, 90], Trend::Flat),
        ([100, 105, 95, 150, 111], Trend::Varying),
        ([0, 0, 0, 0, 0], Trend::Flat),
    ] {
        assert_eq!(with_contexts(&sizes).token_trend, trend, "{sizes:?}");
    }
}

#[test]
fn three_readings_make_a_trend_and_two_make_none() {
    let with = |readings: u64| {
        only(&calls(6, |place, span| {
            if place < readings {
                tokens(span, "openai", 1 << place);
            }
        }))
    };
    assert_eq!(
        (with(3).token_trend, with(3).context),
        (Trend::Growing, Some((1, 4)))
    );
    let two = with(2);
    assert_eq!((two.token_trend, two.context), (Trend::Absent, None));
    assert_eq!(two.missing, [Missing::Readings, Missing::Failure]);
}

#[test]
fn cached_tokens_are_added_where_the_provider_leaves_them_out() {
    let sizes = |provider: &str| {
        only(&calls(5, |place, span| {
            tokens(span, provider, 1);
            cached(span, 100 << place);
        }))
        .context
    };
    for provider in ["anthropic", "aws.bedrock", "gcp.vertex_ai"] {
        assert_eq!(sizes(provider), Some((101, 1_601)), "{provider}");
    }
    for provider in ["openai", "azure.ai.openai"] {
        assert_eq!(sizes(provider), Some((1, 1)), "{provider}");
    }
}

#[test]
fn cached_tokens_of_an_unknown_provider_cannot_be_added() {
    let with = |cache: u64| {
        only(&calls(5, |place, span| {
            tokens(span, "somebody", 100 << place);
            cached(span, cache);
        }))
    };
    let unknown = with(5);
    assert_eq!(
        (unknown.token_trend, unknown.context),
        (Trend::Unknown, None)
    );
    assert_eq!(
        unknown.missing,
        [Missing::Readings, Missing::Convention, Missing::Failure]
    );
    assert_eq!(with(0).token_trend, Trend::Growing);
    let mixed = only(&calls(5, |place, span| {
        tokens(
            span,
            if place == 0 { "somebody" } else { "openai" },
            100 << place,
        );
        cached(span, 5);
    }));
    assert_eq!(mixed.missing, [Missing::Convention, Missing::Failure]);
}

/// Each span the child of the one before.
fn nested(count: u64) -> Vec<Arc<Span>> {
    calls(count, |place, span| {
        span.end_time_ns = 100 * SECOND;
        span.parent_span_id = place
            .checked_sub(1)
            .map(|parent| format!("s{parent}"))
            .map(Into::into);
    })
}

#[test]
fn a_step_nested_five_deep_in_itself_is_a_chain() {
    let chain = only(&nested(6));
    assert_eq!(
        (chain.shape, chain.self_depth),
        (Shape::SelfSimilarChain, 5)
    );
    let shorter = only(&nested(5));
    assert_eq!((shorter.shape, shorter.self_depth), (Shape::Iteration, 4));
}

#[test]
fn a_chain_goes_on_through_other_steps() {
    let spans = calls(12, |place, span| {
        span.end_time_ns = 100 * SECOND;
        span.name = if place % 2 == 0 { "plan" } else { "act" }.into();
        span.parent_span_id = place
            .checked_sub(1)
            .map(|parent| format!("s{parent}"))
            .map(Into::into);
    });
    let findings = diagnose(&spans).findings;
    assert_eq!(findings.len(), 2);
    assert!(
        findings
            .iter()
            .all(|found| (found.shape, found.self_depth) == (Shape::SelfSimilarChain, 5))
    );
}

fn retry_link(trace_id: &str, span_id: &str, relation: &str) -> Link {
    Link {
        trace_id: trace_id.into(),
        span_id: span_id.into(),
        attributes: Object::from([("relation".to_owned(), Value::from(relation))]),
    }
}

#[test]
fn a_link_between_attempts_declares_retries() {
    let with = |link: Link| {
        only(&calls(5, |place, span| {
            if place == 3 {
                span.links = vec![link.clone()];
            }
        }))
        .shape
    };
    assert_eq!(
        with(retry_link("t", "s2", "retry-of")),
        Shape::DeclaredRetry
    );
    for other in [
        retry_link("t", "s2", "caused-by"),
        retry_link("t", "elsewhere", "retry-of"),
        retry_link("another", "s2", "retry-of"),
    ] {
        assert_eq!(with(other), Shape::Inconclusive);
    }
}

#[test]
fn declared_retries_go_before_a_storm_and_behind_a_runaway() {
    let declared = |growth: u64| {
        only(&calls(5, |place, span| {
            failing(span);
            tokens(span, "openai", 100 << (place * growth));
            span.links = vec![retry_link("t", "s0", "retry-of")];
        }))
        .shape
    };
    assert_eq!(declared(0), Shape::DeclaredRetry);
    assert_eq!(declared(1), Shape::ContextRunaway);
}

#[test]
fn work_side_by_side_with_few_failures_is_iteration() {
    let with = |failures: u64| {
        only(&calls(10, |place, span| {
            side_by_side(span);
            if place < failures {
                failing(span);
            }
        }))
        .shape
    };
    assert_eq!(with(0), Shape::Iteration);
    assert_eq!(with(4), Shape::Iteration);
    assert_eq!(with(5), Shape::Inconclusive);
}

#[test]
fn work_one_after_the_other_is_iteration_when_hardly_any_fails_over_a_known_context() {
    let with = |count: u64, failures: u64| {
        only(&calls(count, |place, span| {
            tokens(span, "openai", 100);
            if place < failures {
                failing(span);
            }
        }))
    };
    assert_eq!(with(5, 0).shape, Shape::Iteration);
    assert_eq!(with(11, 1).shape, Shape::Iteration);
    let undecided = with(10, 1);
    assert_eq!(
        (undecided.shape, undecided.missing),
        (Shape::Inconclusive, vec![Missing::Discriminator])
    );
    let unknown = only(&calls(5, |_, _| {}));
    assert_eq!(unknown.missing, [Missing::Readings, Missing::Failure]);
}

#[test]
fn a_finding_names_its_first_four_spans_and_the_last() {
    assert_eq!(only(&calls(5, |_, _| {})).examples(), [0, 1, 2, 3, 4]);
    assert_eq!(only(&calls(9, |_, _| {})).examples(), [0, 1, 2, 3, 8]);
}

#[test]
fn faults_come_first_and_then_the_most_frequent() {
    let mut spans = calls(7, |_, span| span.name = "plain".into());
    for (name, count) in [("often", 9), ("storm", 5)] {
        for place in 0..count {
            let mut span = span(place);
            span.span_id = format!("{name}{place}").into();
            span.name = name.into();
            if name == "storm" {
                failing(&mut span);
            }
            spans.push(Arc::new(span));
        }
    }
    spans.sort_by_key(|span| span.start_time_ns);
    let names: Vec<String> = diagnose(&spans)
        .findings
        .into_iter()
        .map(|found| found.name)
        .collect();
    assert_eq!(names, ["storm", "often", "plain"]);
}

#[test]
fn the_cause_is_the_earliest_failure_without_a_failing_child() {
    let spans = [
        (0, None, "error"),
        (1, Some(0), "error"),
        (2, Some(1), "error"),
        (3, None, "error"),
        (4, Some(2), "ok"),
    ];
    let spans: Vec<Arc<Span>> = spans
        .iter()
        .map(|(place, parent, status)| {
            let mut span = span(*place);
            span.name = format!("step {place}").into();
            span.parent_span_id = parent.map(|parent: u64| format!("s{parent}").into());
            span.status = (*status).into();
            Arc::new(span)
        })
        .collect();
    let cause = diagnose(&spans).cause.unwrap();
    assert_eq!((cause.place, cause.rule), (2, Rule::LeafError));
    assert_eq!(cause.rule.confidence(), "statistical");
}

#[test]
fn without_a_failure_there_is_no_cause() {
    assert_eq!(diagnose(&calls(6, |_, _| {})).cause, None);
    assert_eq!(diagnose(&[]), Diagnosis::default());
}

#[test]
fn a_cause_whose_step_repeats_as_a_fault_is_structural() {
    let cause = diagnose(&calls(5, |_, span| failing(span))).cause.unwrap();
    assert_eq!((cause.place, cause.rule), (0, Rule::RepeatedFault));
    assert_eq!(cause.rule.confidence(), "structural");
    assert!(cause.because.contains('5'));
    let iteration = diagnose(&calls(6, |place, span| {
        side_by_side(span);
        if place == 1 {
            failing(span);
        }
    }));
    assert_eq!(iteration.cause.unwrap().rule, Rule::LeafError);
}

#[test]
fn declared_retries_are_a_fault_and_make_a_cause_structural() {
    let spans = calls(5, |place, span| {
        side_by_side(span);
        if place == 1 {
            failing(span);
            span.links = vec![retry_link("t", "s0", "retry-of")];
        }
    });
    let found = diagnose(&spans);
    assert_eq!(found.findings[0].shape, Shape::DeclaredRetry);
    assert_eq!(found.cause.unwrap().rule, Rule::RepeatedFault);
}

#[test]
fn what_is_implicated_is_the_cause_and_the_examples_of_faults() {
    let storm = diagnose(&calls(9, |_, span| failing(span)));
    assert_eq!(storm.implicated(50), [0, 1, 2, 3, 8]);
    assert_eq!(storm.implicated(2), [0, 1]);
    assert!(diagnose(&calls(9, |_, _| {})).implicated(50).is_empty());
}

fn outcome(spans: &[Span], idle: u64) -> Outcome {
    let mut ending = Ending::default();
    let last = spans.iter().map(|span| span.end_time_ns).max().unwrap_or(0);
    for span in spans {
        ending.push(span);
    }
    ending.outcome(last + idle)
}

fn declaring(place: u64, key: &str, word: &str) -> Span {
    let mut span = span(place);
    span.attributes.insert(key.to_owned(), Value::from(word));
    span
}

#[test]
fn declared_words_mean_success_failure_or_giving_up() {
    for (words, verdict) in [
        (
            &["success", "succeeded", "ok", "resolved", "OK"][..],
            Verdict::Success,
        ),
        (&["failure", "failed", "error", "Failed"], Verdict::Failure),
        (
            &["abandoned", "cancelled", "canceled", "timeout"],
            Verdict::Abandoned,
        ),
        (&["weird", " success "], Verdict::Unknown),
    ] {
        for word in words {
            for key in [
                "session.outcome",
                "traceloop.association.properties.outcome",
            ] {
                let found = outcome(&[declaring(0, key, word)], 0);
                assert_eq!(found.verdict, verdict, "{word}");
                assert_eq!(
                    (found.source, found.reason),
                    (Source::Declared, Reason::Declared)
                );
                assert_eq!(found.declared.as_deref(), Some(*word));
            }
        }
    }
}

#[test]
fn the_latest_ending_span_that_declares_decides() {
    let mut later = declaring(0, "session.outcome", "failed");
    later.end_time_ns = 50 * SECOND;
    later.span_id = "later".into();
    let mut silent = span(3);
    silent.end_time_ns = 99 * SECOND;
    let found = outcome(&[later, silent, declaring(9, "session.outcome", "ok")], 0);
    assert_eq!(found.verdict, Verdict::Failure);
    let empty = outcome(&[declaring(0, "session.outcome", "")], 3_600 * SECOND);
    assert_eq!((empty.verdict, empty.declared), (Verdict::Success, None));
}

#[test]
fn a_session_that_ended_within_fifteen_minutes_may_still_be_active() {
    let minute = 60 * SECOND;
    let recent = outcome(&[span(0)], 15 * minute - 1);
    assert_eq!(
        (recent.verdict, recent.reason),
        (Verdict::Unknown, Reason::StillActive)
    );
    assert_eq!(recent.source, Source::Derived);
    assert_eq!(outcome(&[span(0)], 15 * minute).verdict, Verdict::Success);
    let mut ending = Ending::default();
    ending.push(&span(NOW / SECOND + 100));
    assert_eq!(ending.outcome(NOW).reason, Reason::StillActive);
}

#[test]
fn otherwise_the_last_span_to_end_decides() {
    let hour = 3_600 * SECOND;
    let mut failed = span(0);
    failing(&mut failed);
    failed.end_time_ns = 100 * SECOND;
    let found = outcome(&[failed.clone(), span(5)], hour);
    assert_eq!(
        (found.verdict, found.reason),
        (Verdict::Failure, Reason::LastSpanFailed)
    );
    assert_eq!((found.error_count, found.span_count), (1, 2));
    failed.end_time_ns = SECOND;
    let found = outcome(&[failed, span(5)], hour);
    assert_eq!(
        (found.verdict, found.reason),
        (Verdict::Success, Reason::LastSpanSucceeded)
    );
}

#[test]
fn without_spans_nothing_is_known() {
    let found = Ending::default().outcome(NOW);
    assert_eq!(
        (found.verdict, found.source, found.reason),
        (Verdict::Unknown, Source::Unknown, Reason::NoSpans)
    );
}

#[test]
fn the_goal_is_that_of_the_first_span_to_start_that_tells_one() {
    let spans = [
        declaring(1, "session.goal", "first"),
        declaring(2, "traceloop.association.properties.goal", "second"),
    ];
    assert_eq!(outcome(&spans, 0).goal.as_deref(), Some("first"));
}

fn any_span() -> impl Strategy<Value = Span> {
    let shape = (
        0..20_u64,
        proptest::option::of(0..20_u64),
        0..6_u64,
        0..6_u64,
        0..3_u8,
        0..3_u8,
    );
    shape.prop_map(|(id, parent, start, end, name, status)| Span {
        trace_id: "t".into(),
        span_id: format!("s{id}").into(),
        parent_span_id: parent.map(|parent| format!("s{parent}")).map(Into::into),
        name: format!("n{name}").into(),
        start_time_ns: start,
        end_time_ns: end,
        status: ["", "error", "ok"][usize::from(status)].into(),
        ..Span::default()
    })
}

proptest! {
    #[test]
    fn any_spans_have_a_diagnosis_that_fits_them(spans in proptest::collection::vec(any_span(), 0..40)) {
        let mut spans: Vec<Arc<Span>> = spans.into_iter().map(Arc::new).collect();
        spans.sort_by_key(|span| span.start_time_ns);
        let found = diagnose(&spans);
        for finding in &found.findings {
            prop_assert!(finding.places.len() >= 5);
            prop_assert!((0.0..=1.0).contains(&finding.serial_fraction));
            prop_assert_eq!(finding.missing.is_empty(), finding.shape != Shape::Inconclusive);
            let failed = finding.places.iter().filter(|place| has_failed(&spans[**place])).count();
            prop_assert_eq!(finding.error_count, failed);
        }
        if let Some(cause) = &found.cause {
            prop_assert!(has_failed(&spans[cause.place]));
        }
        let implicated = found.implicated(50);
        prop_assert!(implicated.len() <= 50 && implicated.iter().all(|place| *place < spans.len()));
    }
}
