//! Every answer that the library can give, against that of the peer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{Access, FileKind, Fs, ManualClock, RealFs, read_all};
use durable_sim::SimFs;
use traza::histogram::Histogram;
use traza::json::{Number, Object, Value};
use traza::rollup::Counters;
use traza::span::Span;
use traza::store::analytics::{BUCKETS_DEFAULT, Group, SessionSummary};
use traza::store::{Query, SnapshotView, Store, StoreError, StoreOptions, Upkeep};

use super::canonical;
use super::question::{Case, cases, fixtures};

pub(crate) const DIR: &str = "/store";

pub(crate) fn copy(from: &Path, fs: &SimFs, to: &Path) {
    fs.create_dir_all(to).unwrap();
    for path in RealFs.read_dir(from).unwrap() {
        let target = to.join(path.file_name().unwrap());
        if RealFs.metadata(&path).unwrap().kind == FileKind::Directory {
            copy(&path, fs, &target);
        } else {
            let bytes = read_all(&RealFs, &path, 1 << 20).unwrap();
            let mut file = fs.create_new(&target, Access::Shared).unwrap();
            file.append(&bytes).unwrap();
        }
    }
}

fn open() -> Store {
    let fs = SimFs::new();
    copy(&fixtures().join("0.26"), &fs, &PathBuf::from(DIR));
    open_on(fs)
}

/// Opens what was copied to the disk.
pub(crate) fn open_on(fs: SimFs) -> Store {
    let mut options = StoreOptions::default();
    options.upkeep = Upkeep::Inline;
    let clock = Arc::new(ManualClock::new(1_790_000_000_000_000_000, 1_000));
    Store::open_with(Arc::new(fs), clock, Path::new(DIR), options).unwrap()
}

/// An answer in the shape in which it was recorded.
enum Answer {
    Spans(Vec<Arc<Span>>),
    Page(Vec<Arc<Span>>, bool),
    Body(Value),
    Refused,
}

fn object(members: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::Object(
        members
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    )
}

fn list<T>(items: &[T], render: impl Fn(&T) -> Value) -> Value {
    Value::Array(items.iter().map(render).collect())
}

fn count(count: usize) -> Value {
    Value::from(count as u64)
}

/// The members of `value` and those of `more`.
fn with(value: Value, more: Value) -> Value {
    match (value, more) {
        (Value::Object(mut members), Value::Object(more)) => {
            members.extend(more);
            Value::Object(members)
        }
        _ => panic!("not two objects"),
    }
}

/// A sum, to nine digits: the last ones depend on the order of adding.
fn amount(value: f64) -> Value {
    Value::Number(Number::Float(format!("{value:.8e}").parse().unwrap()))
}

fn cost(counters: &Counters) -> Value {
    object([
        ("cost_usd", amount(counters.cost_usd)),
        ("cost_derived_usd", amount(counters.cost_derived_usd)),
        (
            "cost_metered_calls",
            Value::from(counters.cost_metered_calls),
        ),
        (
            "cost_derived_calls",
            Value::from(counters.cost_derived_calls),
        ),
        (
            "cost_unpriced_calls",
            Value::from(counters.cost_unpriced_calls),
        ),
    ])
}

fn tokens(counters: &Counters) -> Value {
    object([
        ("prompt_tokens", Value::from(counters.prompt_tokens)),
        ("completion_tokens", Value::from(counters.completion_tokens)),
        ("total_tokens", Value::from(counters.total_tokens)),
        ("llm_calls", Value::from(counters.llm_calls)),
        ("error_count", Value::from(counters.errors)),
    ])
}

fn times(first: u64, last: u64) -> Value {
    object([
        ("first_start_ns", Value::from(first)),
        ("last_end_ns", Value::from(last)),
    ])
}

fn session(summary: &SessionSummary) -> Value {
    let counters = &summary.counters;
    let key = summary.key.unwrap().attribute();
    let mut value = object([
        ("session_id", Value::from(summary.id.session.as_str())),
        ("session_attribute", Value::from(key)),
        ("trace_count", count(summary.trace_count)),
        ("span_count", Value::from(counters.spans)),
    ]);
    if !summary.id.tenant.is_empty() {
        let tenant = Value::from(summary.id.tenant.as_str());
        value = with(value, object([("tenant", tenant)]));
    }
    let value = with(value, times(summary.first_start_ns, summary.last_end_ns));
    with(with(value, tokens(counters)), cost(counters))
}

fn percentile(histogram: &Histogram, percent: u32) -> Value {
    Value::from(histogram.percentile(percent))
}

fn sessions(view: &SnapshotView, case: &Case) -> Answer {
    let limit = case.number("limit").unwrap_or(100);
    let found = view.sessions(&case.scope(), limit).unwrap();
    Answer::Body(object([("sessions", list(&found, session))]))
}

fn session_detail(view: &SnapshotView, case: &Case, name: &str) -> Answer {
    let Some(found) = view.session(name, case.value("tenant")).unwrap() else {
        return Answer::Refused;
    };
    let traces = list(&found.traces, |trace| {
        let value = object([
            ("trace_id", Value::from(trace.trace_id.as_str())),
            ("root_name", Value::from(trace.root_name.as_str())),
            ("span_count", Value::from(trace.counters.spans)),
            ("total_tokens", Value::from(trace.counters.total_tokens)),
            ("error_count", Value::from(trace.counters.errors)),
        ]);
        let value = with(value, times(trace.first_start_ns, trace.last_end_ns));
        with(value, cost(&trace.counters))
    });
    Answer::Body(with(session(&found.summary), object([("traces", traces)])))
}

fn llm(view: &SnapshotView, case: &Case) -> Answer {
    let Some(group) = Group::from_word(case.value("group_by").unwrap_or("model")) else {
        return Answer::Refused;
    };
    let limit = case.number("limit").unwrap_or(usize::MAX);
    let rows = view.llm(group, &case.scope(), limit).unwrap();
    let rows = list(&rows, |row| {
        let value = object([
            ("key", Value::from(row.key.as_str())),
            ("spans", Value::from(row.counters.spans)),
            ("llm_duration_ns", Value::from(row.counters.llm_duration_ns)),
        ]);
        with(with(value, tokens(&row.counters)), cost(&row.counters))
    });
    Answer::Body(object([("rows", rows)]))
}

fn series(view: &SnapshotView, case: &Case) -> Answer {
    let buckets = case.number("buckets").unwrap_or(BUCKETS_DEFAULT);
    let found = match view.series(&case.filter(), buckets) {
        Ok(found) => found,
        Err(StoreError::Invalid { .. }) => return Answer::Refused,
        Err(error) => panic!("{error}"),
    };
    let buckets = list(&found.buckets, |bucket| {
        let value = object([
            ("start_ns", Value::from(bucket.start_ns)),
            ("spans", Value::from(bucket.counters.spans)),
            ("errors", Value::from(bucket.counters.errors)),
            ("llm_calls", Value::from(bucket.counters.llm_calls)),
            ("total_tokens", Value::from(bucket.counters.total_tokens)),
            ("p50_ns", percentile(&bucket.durations, 50)),
            ("p95_ns", percentile(&bucket.durations, 95)),
        ]);
        with(value, cost(&bucket.counters))
    });
    Answer::Body(object([
        ("since_ns", Value::from(found.since_ns)),
        ("until_ns", Value::from(found.until_ns)),
        ("bucket_ns", Value::from(found.bucket_ns)),
        ("buckets", buckets),
    ]))
}

fn durations(view: &SnapshotView, case: &Case) -> Answer {
    let found = view.durations(&case.filter()).unwrap();
    let buckets: Vec<_> = found.buckets().collect();
    let buckets = list(&buckets, |bucket| {
        object([
            ("upper_ns", Value::from(bucket.upper)),
            ("count", Value::from(bucket.count)),
        ])
    });
    Answer::Body(object([
        ("count", Value::from(found.count())),
        ("min_ns", Value::from(found.min())),
        ("max_ns", Value::from(found.max())),
        ("mean_ns", Value::from(found.mean())),
        ("p50_ns", percentile(&found, 50)),
        ("p75_ns", percentile(&found, 75)),
        ("p90_ns", percentile(&found, 90)),
        ("p95_ns", percentile(&found, 95)),
        ("p99_ns", percentile(&found, 99)),
        ("buckets", buckets),
    ]))
}

fn failures(view: &SnapshotView, case: &Case) -> Answer {
    let limit = case.number("limit").unwrap_or(100);
    let found = view.failures(&case.filter(), limit).unwrap();
    let groups = list(&found.groups, |group| {
        object([
            ("service", Value::from(group.service.as_str())),
            ("name", Value::from(group.name.as_str())),
            ("status", Value::from(group.status.as_str())),
            ("count", Value::from(group.durations.count())),
            ("first_seen_ns", Value::from(group.first_seen_ns)),
            ("last_seen_ns", Value::from(group.last_seen_ns)),
            (
                "example_trace_id",
                Value::from(group.example_trace_id.as_str()),
            ),
            (
                "example_span_id",
                Value::from(group.example_span_id.as_str()),
            ),
            ("p50_ns", percentile(&group.durations, 50)),
            ("p95_ns", percentile(&group.durations, 95)),
        ])
    });
    Answer::Body(object([
        ("groups", groups),
        ("total", Value::from(found.total)),
        ("distinct", count(found.distinct)),
        ("groups_omitted", count(found.groups_omitted)),
        ("spans_untracked", Value::from(found.spans_untracked)),
    ]))
}

fn tenants(view: &SnapshotView) -> Answer {
    let found = view.tenants(None).unwrap();
    let tenants = list(&found, |usage| {
        let value = object([
            ("tenant", Value::from(usage.tenant.as_str())),
            ("spans", Value::from(usage.spans)),
            ("traces", Value::from(usage.traces)),
            ("payload_bytes_approx", Value::from(usage.payload_bytes)),
        ]);
        with(value, times(usage.first_start_ns, usage.last_end_ns))
    });
    Answer::Body(object([("tenants", tenants)]))
}

fn stats(store: &Store) -> Answer {
    let found = store.stats();
    let all = found.buffered_spans as u64 + found.persisted_records;
    Answer::Body(object([
        ("buffered_records", count(found.buffered_spans)),
        ("persisted_records", Value::from(found.persisted_records)),
        ("total_records", Value::from(all)),
        ("record_count", Value::from(all)),
        ("segment_count", count(found.segments)),
        (
            "durability",
            Value::from(store.options().durability.as_str()),
        ),
    ]))
}

fn answer(store: &Store, case: &Case, cursors: &mut Cursors) -> Answer {
    let view = store.snapshot();
    if let Some(trace_id) = case.rest("/v1/traces/") {
        let spans = view.get_trace(&trace_id, case.value("tenant")).unwrap();
        return if spans.is_empty() {
            Answer::Refused
        } else {
            Answer::Spans(spans)
        };
    }
    if let Some(name) = case.rest("/v1/sessions/") {
        return session_detail(&view, case, &name);
    }
    let filter = case.filter();
    match case.path.as_str() {
        "/v1/spans" => {
            let mut query = Query::new(filter);
            query.limit = case.number("limit").unwrap_or(100);
            query.sort = case.sort();
            query.after = case
                .cursor_from
                .as_ref()
                .map(|from| cursors[from].clone().unwrap());
            let page = view.query(&query).unwrap();
            let has_next = page.next.is_some();
            cursors.insert(case.id.clone(), page.next);
            Answer::Page(page.spans, has_next)
        }
        "/v1/export" => {
            let limit = case.number("limit").unwrap_or(usize::MAX);
            let spans = view.spans(&filter).take(limit).map(Result::unwrap);
            Answer::Spans(spans.collect())
        }
        "/v1/stats/slowest" => {
            let limit = case.number("limit").unwrap_or(100);
            Answer::Spans(view.slowest(&filter, limit).unwrap())
        }
        "/v1/sessions" => sessions(&view, case),
        "/v1/stats/llm" => llm(&view, case),
        "/v1/stats/series" => series(&view, case),
        "/v1/stats/duration" => durations(&view, case),
        "/v1/stats/failures" => failures(&view, case),
        "/v1/tenants" => tenants(&view),
        "/v1/stats" => stats(store),
        other => panic!("no answer for {other}"),
    }
}

type Cursors = BTreeMap<String, Option<traza::store::Cursor>>;

fn spans_member(spans: &[Arc<Span>]) -> Object {
    let digests: String = spans
        .iter()
        .map(|span| {
            let value = Value::parse(span.to_json().as_bytes()).unwrap();
            canonical::digest(canonical::json(&value).as_bytes())
        })
        .collect();
    let digest = canonical::digest(digests.as_bytes());
    Object::from([
        ("spans".to_owned(), count(spans.len())),
        ("digest".to_owned(), Value::from(digest)),
    ])
}

/// The members of a case that hold an answer.
fn recorded(answer: &Answer) -> Object {
    match answer {
        Answer::Refused => Object::new(),
        Answer::Spans(spans) => spans_member(spans),
        Answer::Page(spans, has_next) => {
            let mut members = spans_member(spans);
            members.insert("has_next".to_owned(), Value::from(*has_next));
            members
        }
        Answer::Body(body) => Object::from([("body".to_owned(), body.clone())]),
    }
}

fn check(store: &Store) -> Vec<String> {
    let mut cursors = Cursors::new();
    let mut wrong = Vec::new();
    for case in cases() {
        let answer = answer(store, &case, &mut cursors);
        let is_refused = matches!(answer, Answer::Refused);
        let found = canonical::json(&Value::Object(recorded(&answer)));
        let mut wanted = case.members.clone();
        wanted.retain(|key, _| ["spans", "digest", "has_next", "body"].contains(&key));
        let wanted = canonical::json(&Value::Object(wanted));
        if is_refused != (case.status != 200) || found != wanted {
            wrong.push(format!("{}\n  found  {found}\n  wanted {wanted}", case.id));
        }
    }
    wrong
}

#[test]
fn a_store_of_a_released_peer_answers_as_the_peer_did() {
    let wrong = check(&open());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn it_answers_the_same_once_its_log_is_sealed() {
    let store = open();
    store.flush().unwrap();
    let wrong: Vec<String> = check(&store)
        .into_iter()
        // How many spans are buffered is what the flush has changed.
        .filter(|case| !case.starts_with("stats\n"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
