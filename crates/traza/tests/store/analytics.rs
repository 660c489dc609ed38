//! Sums and statistics against a plain fold over a map of the last versions: several segments, replaced spans and a buffer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use durable_sim::SimFs;
use traza::histogram::Histogram;
use traza::json::{Number, Value};
use traza::llm::{Cost, Facts, Pricing};
use traza::rollup::{Counters, Rollup, SessionId};
use traza::span::Span;
use traza::store::analytics::{
    BUCKETS_MAX, GROUPS_MAX, Group, LlmRow, SLOWEST_MAX, Scope, SessionSummary, ValueOf,
};
use traza::store::{Filter, Query, SnapshotView, Store, StoreError, StoreOptions};

use super::support::{Key, Random, inline, key, open, span};

/// Rates and costs are sums of powers of two, so that sums are exact in any order.
fn pricing() -> Pricing {
    let list = br#"{"models":{"m0":{"input_per_mtok":1000000,"output_per_mtok":500000},
        "m1*":{"input_per_mtok":250000,"output_per_mtok":0}}}"#;
    Pricing::from_json(list).unwrap()
}

fn options() -> StoreOptions {
    let mut options = inline();
    options.pricing = Arc::new(pricing());
    options
}

/// A span that may be a call of a model.
fn call(random: &mut Random, version: u64) -> Span {
    let mut span = span(random, version);
    let mut set = |key: &str, value: Value| span.attributes.insert(key.to_owned(), value);
    if random.below(2) == 0 {
        let model = random.pick(&["m0", "m1-mini", "other"]);
        set("gen_ai.request.model", Value::from(model));
        set("gen_ai.usage.input_tokens", Value::from(random.below(100)));
        if random.below(3) > 0 {
            set("gen_ai.usage.output_tokens", Value::from(random.below(9)));
        }
        set("gen_ai.system", Value::from(random.pick(&["p", "q"])));
    }
    if random.below(5) == 0 {
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let usd = random.below(64) as f64 / 8.0;
        set("llm.cost_usd", Value::Number(Number::Float(usd)));
    }
    if random.below(5) == 0 {
        set("gen_ai.conversation.id", Value::from(random.below(3)));
    }
    if random.below(8) == 0 {
        let address = format!("sha256/{:064}", random.below(4));
        let reference = [
            ("$payload".to_owned(), Value::from(address)),
            ("bytes".to_owned(), Value::from(1_000)),
        ];
        set("big", Value::Object(reference.into()));
    }
    // Days differ, and within one many durations are equal.
    let day = random.below(3) * 86_400_000_000_000;
    span.start_time_ns += day;
    span.end_time_ns += day;
    span
}

type Model = BTreeMap<Key, Span>;

fn order(span: &Span) -> (u64, u64, &str, &str, &str) {
    (
        span.start_time_ns,
        span.end_time_ns,
        &span.tenant,
        &span.trace_id,
        &span.span_id,
    )
}

fn duration(span: &Span) -> u64 {
    span.end_time_ns.saturating_sub(span.start_time_ns)
}

fn counters(span: &Span) -> Counters {
    let facts = Facts::of(span);
    Counters::of(span, &facts, Cost::of(&facts, &pricing()))
}

fn sums(spans: &[&Span]) -> Counters {
    let mut sums = Counters::default();
    for span in spans {
        sums.add(&counters(span));
    }
    sums
}

/// The spans that a filter takes, in the order of answers.
fn taken<'m>(model: &'m Model, filter: &Filter) -> Vec<&'m Span> {
    let mut spans: Vec<&Span> = model.values().filter(|span| filter.matches(span)).collect();
    spans.sort_by(|a, b| order(a).cmp(&order(b)));
    spans
}

fn histogram<'s>(spans: impl IntoIterator<Item = &'s &'s Span>) -> Histogram {
    let mut histogram = Histogram::default();
    for span in spans {
        histogram.record(duration(span));
    }
    histogram
}

fn time(random: &mut Random) -> u64 {
    random.below(3) * 86_400_000_000_000 + 900 + random.below(700)
}

fn question(random: &mut Random) -> Filter {
    let mut filter = Filter::default();
    if random.below(3) == 0 {
        filter.since = Some(time(random));
    }
    if random.below(3) == 0 {
        filter.until = Some(time(random));
    }
    if random.below(3) == 0 {
        filter.service = Some(random.pick(&["bot", "gateway", "nobody"]).to_owned());
    }
    if random.below(4) == 0 {
        filter.tenant = Some(random.pick(&["", "acme", "other"]).to_owned());
    }
    if random.below(4) == 0 {
        filter.name = Some(random.pick(&["chat", "tool"]).to_owned());
    }
    if random.below(4) == 0 {
        filter.status = Some(random.pick(&["ok", "error", ""]).to_owned());
    }
    if random.below(5) == 0 {
        filter.not_status.push("ok".to_owned());
    }
    if random.below(4) == 0 {
        filter.min_duration_ns = Some(random.below(60));
        filter.max_duration_ns = Some(random.below(100));
    }
    if random.below(6) == 0 {
        filter.content = Some(traza::content::Query::new("refund"));
    }
    if random.below(8) == 0 {
        filter.session = Some(random.pick(&["s0", "1"]).to_owned());
    }
    filter
}

fn check_filtered(view: &SnapshotView, model: &Model, random: &mut Random) {
    let filter = question(random);
    let spans = taken(model, &filter);

    let found: Vec<Arc<Span>> = view.spans(&filter).map(Result::unwrap).collect();
    let found: Vec<&Span> = found.iter().map(Arc::as_ref).collect();
    assert_eq!(found, spans, "{filter:?}");

    assert_eq!(view.durations(&filter).unwrap(), histogram(&spans));

    let limit = usize::try_from(random.below(20)).unwrap();
    let mut slowest = spans.clone();
    slowest.sort_by_key(|span| std::cmp::Reverse(duration(span)));
    slowest.truncate(limit);
    let found = view.slowest(&filter, limit).unwrap();
    let found: Vec<&Span> = found.iter().map(Arc::as_ref).collect();
    assert_eq!(found, slowest, "{filter:?}");

    check_series(view, model, &filter, random);
    check_failures(view, model, &filter, limit);
    check_values(view, &spans, &filter);
}

fn check_series(view: &SnapshotView, model: &Model, filter: &Filter, random: &mut Random) {
    let mut filter = filter.clone();
    let since = *filter.since.get_or_insert(random.below(2_000));
    let until = filter.until.unwrap_or(u64::MAX).max(since + 1);
    filter.until = Some(until);
    let count = random.below(9);
    let series = view
        .series(&filter, usize::try_from(count).unwrap())
        .unwrap();
    let count = count.max(1);
    assert_eq!(series.buckets.len() as u64, count);
    let spans = taken(model, &filter);
    for (index, bucket) in (0..).zip(&series.buckets) {
        let start = since.saturating_add(index * series.bucket_ns);
        assert_eq!(bucket.start_ns, start.min(until));
        let end = if index + 1 == count {
            u64::MAX
        } else {
            start.saturating_add(series.bucket_ns)
        };
        let of_bucket: Vec<&Span> = spans
            .iter()
            .filter(|span| (start..end).contains(&span.start_time_ns))
            .copied()
            .collect();
        assert_eq!(bucket.durations, histogram(&of_bucket), "{filter:?}");
        assert_eq!(bucket.counters, sums(&of_bucket));
    }
}

fn check_failures(view: &SnapshotView, model: &Model, filter: &Filter, limit: usize) {
    let mut failed = filter.clone();
    failed.status.get_or_insert_with(|| "error".to_owned());
    let spans = taken(model, &failed);
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&Span>> = BTreeMap::new();
    for span in &spans {
        let signature = (
            span.service.as_str(),
            span.name.as_str(),
            span.status.as_str(),
        );
        groups.entry(signature).or_default().push(span);
    }
    let found = view.failures(filter, limit).unwrap();
    assert_eq!(found.total, spans.len() as u64);
    assert_eq!(found.distinct, groups.len());
    assert_eq!(found.groups.len(), groups.len().min(limit));
    assert_eq!(found.groups_omitted, groups.len() - found.groups.len());
    assert_eq!(found.spans_untracked, 0);
    let mut wanted: Vec<_> = groups.into_iter().collect();
    wanted.sort_by_key(|(_, spans)| {
        let last = spans.last().unwrap().start_time_ns;
        std::cmp::Reverse((spans.len(), last))
    });
    for (group, (signature, spans)) in found.groups.iter().zip(wanted) {
        let (service, name, status) = signature;
        assert_eq!(
            (
                group.service.as_str(),
                group.name.as_str(),
                group.status.as_str()
            ),
            (service, name, status)
        );
        let last = spans.last().unwrap();
        assert_eq!(group.first_seen_ns, spans[0].start_time_ns);
        assert_eq!(group.last_seen_ns, last.start_time_ns);
        assert_eq!(group.example_tenant, last.tenant);
        assert_eq!(group.example_trace_id, last.trace_id);
        assert_eq!(group.example_span_id, last.span_id);
        assert_eq!(group.durations, histogram(&spans));
    }
}

fn check_values(view: &SnapshotView, spans: &[&Span], filter: &Filter) {
    for of in [
        ValueOf::Service,
        ValueOf::Name,
        ValueOf::Status,
        ValueOf::Attribute("code"),
    ] {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for span in spans {
            let value = match of {
                ValueOf::Service => Some(Value::from(span.service.as_str())),
                ValueOf::Name => Some(Value::from(span.name.as_str())),
                ValueOf::Status => Some(Value::from(span.status.as_str())),
                ValueOf::Attribute(key) => span.attributes.get(key).cloned(),
            };
            if let Some(value) = value {
                *counts.entry(value.to_string()).or_default() += 1;
            }
        }
        let found = view.values(of, filter, 2).unwrap();
        assert_eq!(found.total, counts.values().sum::<u64>());
        assert_eq!(found.distinct, counts.len());
        assert_eq!(found.values_omitted, counts.len().saturating_sub(2));
        let mut wanted: Vec<(String, u64)> = counts.into_iter().collect();
        wanted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        wanted.truncate(2);
        let found: Vec<(String, u64)> = found
            .values
            .iter()
            .map(|value| (value.value.to_string(), value.count))
            .collect();
        assert_eq!(found, wanted);
    }
}

fn check_sums(view: &SnapshotView, model: &Model, random: &mut Random) {
    let mut scope = Scope::default();
    if random.below(2) == 0 {
        scope.since = Some(time(random));
    }
    if random.below(2) == 0 {
        scope.until = Some(time(random));
    }
    if random.below(3) == 0 {
        scope.tenant = Some(random.pick(&["", "acme", "other"]).to_owned());
    }
    let mut filter = Filter::default();
    filter.since = scope.since;
    filter.until = scope.until;
    filter.tenant.clone_from(&scope.tenant);
    let totals = Rollup::fold(taken(model, &filter), &pricing()).totals;

    let sessions = totals.sessions.iter();
    let by_session: BTreeMap<String, Counters> = sessions
        .clone()
        .map(|(id, session)| {
            let key = match id.tenant.as_str() {
                "" => id.session.clone(),
                tenant => format!("{tenant}/{}", id.session),
            };
            (key, session.counters)
        })
        .collect();
    for (group, wanted) in [
        (Group::Model, &totals.by_model),
        (Group::Provider, &totals.by_provider),
        (Group::Service, &totals.by_service),
        (Group::Day, &totals.by_day),
        (Group::Session, &by_session),
    ] {
        let rows = view.llm(group, &scope, usize::MAX).unwrap();
        let found: BTreeMap<String, Counters> = rows
            .iter()
            .map(|row| (row.key.clone(), row.counters))
            .collect();
        assert_eq!(found.len(), rows.len());
        assert_eq!(&found, wanted, "{group:?} {scope:?}");
        let place = |row: &LlmRow| (row.counters.cost_usd, row.counters.total_tokens);
        assert!(
            rows.is_sorted_by(|a, b| {
                place(a) > place(b) || place(a) == place(b) && a.key < b.key
            })
        );
        let limit = usize::try_from(random.below(4)).unwrap();
        let first = view.llm(group, &scope, limit).unwrap();
        assert_eq!(first, rows[..limit.min(rows.len())]);
    }

    let mut wanted: Vec<SessionSummary> = sessions
        .map(|(id, session)| SessionSummary {
            id: id.clone(),
            key: session.key,
            counters: session.counters,
            first_start_ns: session.first_start_ns,
            last_end_ns: session.last_end_ns,
            trace_count: session.trace_ids.len(),
        })
        .collect();
    wanted.sort_by_key(|session| std::cmp::Reverse(session.last_end_ns));
    assert_eq!(view.sessions(&scope, usize::MAX).unwrap(), wanted);
    wanted.truncate(2);
    assert_eq!(view.sessions(&scope, 2).unwrap(), wanted);
}

fn check_session(view: &SnapshotView, model: &Model, random: &mut Random) {
    let name = random.pick(&["s0", "s1", "0", "2", "none"]);
    let tenant = [None, Some(""), Some("acme")][usize::try_from(random.below(3)).unwrap()];
    let mut filter = Filter::default();
    filter.session = Some(name.to_owned());
    filter.tenant = tenant.map(str::to_owned);
    let spans = taken(model, &filter);
    let found = view.session(name, tenant).unwrap();
    let Some(first) = spans.first() else {
        assert_eq!(found, None);
        return;
    };
    let found = found.unwrap();
    let unanimous = spans.iter().all(|span| span.tenant == first.tenant);
    let id = SessionId {
        tenant: if unanimous {
            first.tenant.to_string()
        } else {
            String::new()
        },
        session: name.to_owned(),
    };
    assert_eq!(found.summary.id, id);
    assert_eq!(found.summary.counters, sums(&spans));
    let keys = spans
        .iter()
        .map(|span| Facts::of(span).session.unwrap().key);
    assert_eq!(found.summary.key, keys.min());
    let mut traces: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in &spans {
        traces.entry(&span.trace_id).or_default().push(span);
    }
    assert_eq!(found.summary.trace_count, traces.len());
    let mut traces: Vec<_> = traces.into_iter().collect();
    traces.sort_by_key(|(_, spans)| spans[0].start_time_ns);
    assert_eq!(found.traces.len(), traces.len());
    for (trace, (trace_id, spans)) in found.traces.iter().zip(traces) {
        assert_eq!(trace.trace_id, trace_id);
        assert_eq!(trace.root_name, spans[0].name);
        assert_eq!(trace.first_start_ns, spans[0].start_time_ns);
        let last = spans.iter().map(|span| span.end_time_ns).max();
        assert_eq!(Some(trace.last_end_ns), last);
        assert_eq!(trace.counters, sums(&spans));
    }
}

fn check_tenants(view: &SnapshotView, model: &Model) {
    let mut tenants: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in model.values() {
        tenants.entry(&span.tenant).or_default().push(span);
    }
    let found = view.tenants(None).unwrap();
    assert_eq!(found.len(), tenants.len());
    for (usage, (tenant, spans)) in found.iter().zip(tenants) {
        assert_eq!(usage.tenant, tenant);
        assert_eq!(usage.spans, spans.len() as u64);
        let traces: BTreeSet<&str> = spans.iter().map(|span| span.trace_id.as_str()).collect();
        assert_eq!(usage.traces, traces.len() as u64);
        let bytes: usize = spans.iter().map(|span| span.to_json().len()).sum();
        assert_eq!(usage.span_bytes, bytes as u64);
        let payloads: BTreeSet<String> = spans
            .iter()
            .filter_map(|span| Some(span.attributes.get("big")?.to_string()))
            .collect();
        assert_eq!(usage.payload_bytes, payloads.len() as u64 * 1_000);
        let first = spans.iter().map(|span| span.start_time_ns).min();
        let last = spans.iter().map(|span| span.end_time_ns).max();
        assert_eq!(Some(usage.first_start_ns), first);
        assert_eq!(Some(usage.last_end_ns), last);
        assert_eq!(
            view.tenants(Some(tenant)).unwrap(),
            std::slice::from_ref(usage)
        );
    }
    assert_eq!(view.tenants(Some("other")).unwrap(), []);
}

fn check(view: &SnapshotView, model: &Model, random: &mut Random) {
    check_filtered(view, model, random);
    check_sums(view, model, random);
    check_session(view, model, random);
}

#[test]
fn every_question_is_answered_like_a_fold_over_the_last_versions() {
    for seed in 0..4 {
        let mut random = Random(seed);
        let mut options = options();
        options.flush_spans = 30 + 40 * usize::try_from(seed).unwrap();
        let fs = SimFs::new();
        let mut store = open(&fs, &options).unwrap();
        let mut model = Model::new();
        let mut pinned: Option<(SnapshotView, Model)> = None;
        for version in 0..150 {
            match random.below(12) {
                0 => {
                    store.flush().unwrap();
                }
                1 => {
                    // Closes the store; views go on.
                    drop(store);
                    store = open(&fs, &options).unwrap();
                }
                2 => pinned = Some((store.snapshot(), model.clone())),
                3..=6 => {
                    check(&store.snapshot(), &model, &mut random);
                    if let Some((view, model)) = &pinned {
                        check(view, model, &mut random);
                    }
                }
                _ => {
                    let batch: Vec<Span> = (0..=random.below(10))
                        .map(|_| call(&mut random, version))
                        .collect();
                    model.extend(batch.iter().map(|span| (key(span), span.clone())));
                    store.ingest(batch).unwrap();
                }
            }
        }
        check_tenants(&store.snapshot(), &model);
    }
}

#[test]
fn a_view_does_not_see_what_is_written_later() {
    let mut random = Random(7);
    let store = open(&SimFs::new(), &options()).unwrap();
    let before: Vec<Span> = (0..40).map(|version| call(&mut random, version)).collect();
    store.ingest(before.clone()).unwrap();
    let view = store.snapshot();
    let filter = Filter::default();
    let wanted: Vec<_> = view.spans(&filter).map(Result::unwrap).collect();
    let mut pages = view.spans(&filter);
    let mut found: Vec<_> = pages.by_ref().take(5).map(Result::unwrap).collect();
    // Replaces most of what is there, in the middle of an export.
    store
        .ingest((0..200).map(|_| call(&mut random, 1_000)).collect())
        .unwrap();
    store.flush().unwrap();
    found.extend(pages.map(Result::unwrap));
    assert_eq!(found, wanted);
    let mut query = Query::new(filter);
    query.limit = usize::MAX;
    assert_eq!(view.query(&query).unwrap().spans, wanted);
    assert_ne!(store.query(&query).unwrap().spans, wanted);
    let trace = &wanted[0].trace_id;
    let of_trace = view.get_trace(trace, None).unwrap();
    assert!(of_trace.iter().all(|span| span.trace_id == *trace));
    assert!(of_trace.contains(&wanted[0]));
}

fn plain(index: u64) -> Span {
    Span {
        trace_id: format!("t{index}").into(),
        span_id: "s".into(),
        name: format!("n{index}").into(),
        status: "error".into(),
        start_time_ns: 5,
        end_time_ns: 5 + index,
        ..Span::default()
    }
}

fn store_of(spans: impl Iterator<Item = Span>) -> Store {
    let mut options = options();
    options.flush_spans = 1_000;
    let store = open(&SimFs::new(), &options).unwrap();
    let spans: Vec<Span> = spans.collect();
    for batch in spans.chunks(700) {
        store.ingest(batch.to_vec()).unwrap();
    }
    store
}

#[test]
fn many_spans_with_one_start_are_exported_once_each_and_in_order() {
    let store = store_of((0..2_500).map(plain));
    let view = store.snapshot();
    let found: Vec<_> = view.spans(&Filter::default()).map(Result::unwrap).collect();
    assert_eq!(found.len(), 2_500);
    assert!(found.is_sorted_by(|a, b| order(a) < order(b)));
}

#[test]
fn groups_beyond_the_limit_are_counted_and_not_told_apart() {
    let max = GROUPS_MAX as u64;
    // Two more names than there may be, and one more span of a name that is known by then.
    let again = Span {
        span_id: "again".into(),
        ..plain(0)
    };
    let store = store_of((0..max + 2).map(plain).chain([again]));
    let view = store.snapshot();
    let failures = view.failures(&Filter::default(), 10).unwrap();
    assert_eq!(failures.total, max + 3);
    assert_eq!(failures.distinct, GROUPS_MAX);
    assert_eq!(failures.groups.len(), 10);
    assert_eq!(failures.groups_omitted, GROUPS_MAX - 10);
    assert_eq!(failures.groups[0].name, "n0");
    assert_eq!(failures.groups[0].durations.count(), 2);
    assert_eq!(failures.spans_untracked, 2);
    let all = view.failures(&Filter::default(), usize::MAX).unwrap();
    assert_eq!(all.groups.len(), GROUPS_MAX);
    assert_eq!(all.groups_omitted, 0);

    let values = view.values(ValueOf::Name, &Filter::default(), 10).unwrap();
    assert_eq!((values.total, values.distinct), (max + 3, GROUPS_MAX));
    assert_eq!(values.spans_untracked, 2);
    assert_eq!(values.values[0].count, 2);

    let slowest = view.slowest(&Filter::default(), usize::MAX).unwrap();
    assert_eq!(slowest.len(), SLOWEST_MAX);
    assert_eq!(slowest[0].name, format!("n{}", max + 1));
    assert_eq!(view.slowest(&Filter::default(), 0).unwrap(), []);
}

#[test]
fn a_series_has_the_buckets_that_were_asked_for_in_any_window() {
    let edge = |start, end| Span {
        trace_id: format!("t{start}").into(),
        start_time_ns: start,
        end_time_ns: end,
        ..plain(0)
    };
    let store = store_of([edge(0, u64::MAX), edge(u64::MAX, 0), edge(10, 30)].into_iter());
    let view = store.snapshot();
    let series = |since, until, count| {
        let mut filter = Filter::default();
        filter.since = since;
        filter.until = until;
        view.series(&filter, count)
    };
    for (count, wanted) in [
        (0, 1),
        (7, 7),
        (BUCKETS_MAX, BUCKETS_MAX),
        (9_999, BUCKETS_MAX),
    ] {
        let found = series(Some(0), Some(u64::MAX), count).unwrap();
        assert_eq!(found.buckets.len(), wanted);
        let spans = |bucket: &traza::store::analytics::Bucket| bucket.counters.spans;
        assert_eq!(found.buckets.iter().map(spans).sum::<u64>(), 3);
        // The far edge belongs to the last one.
        assert!(spans(found.buckets.last().unwrap()) > 0);
        assert!(found.buckets.is_sorted_by_key(|bucket| bucket.start_ns));
    }
    // More buckets than nanoseconds: the starts stop at the end.
    let short = series(Some(u64::MAX - 2), Some(u64::MAX), 5).unwrap();
    let starts: Vec<u64> = short.buckets.iter().map(|bucket| bucket.start_ns).collect();
    let max = u64::MAX;
    assert_eq!(starts, [max - 2, max - 1, max, max, max]);
    assert_eq!(short.bucket_ns, 1);
    for (since, until) in [
        (None, Some(1)),
        (Some(1), None),
        (None, None),
        (Some(5), Some(5)),
        (Some(6), Some(5)),
    ] {
        let refused = series(since, until, 3);
        assert!(matches!(refused, Err(StoreError::Invalid { .. })));
    }
}

#[test]
fn a_question_that_takes_too_long_is_refused() {
    let store = store_of((0..1_500).map(plain));
    // The clock of these stores moves with every look at it.
    let view = store.snapshot().within(Duration::from_nanos(1));
    let filter = Filter::default();
    let scope = Scope::default();
    let refusals = [
        view.durations(&filter).err(),
        view.slowest(&filter, 3).err(),
        view.failures(&filter, 3).err(),
        view.sessions(&scope, 3).err(),
        view.llm(Group::Model, &scope, 3).err(),
        view.tenants(None).err(),
        view.values(ValueOf::Name, &filter, 3).err(),
        view.query(&Query::new(filter.clone())).err(),
    ];
    for (index, refusal) in refusals.into_iter().enumerate() {
        assert!(
            matches!(refusal, Some(StoreError::Deadline { .. })),
            "{index} {refusal:?}"
        );
    }
    assert_eq!(view.spans(&filter).count(), 1_500);
}
