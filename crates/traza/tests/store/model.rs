//! Random operations against a map, with reopening and crashes among them.

use std::collections::BTreeMap;
use std::sync::Arc;

use durable_sim::{SimFs, Survival};
use traza::content;
use traza::json::Value;
use traza::span::Span;
use traza::store::{Compaction, Durability, Filter, Query, Sort, Store};

use super::support::{Key, Random, everything, inline, key, open, span};

/// What the store should hold.
#[derive(Default)]
struct Model(BTreeMap<Key, Span>);

type Order<'a> = (u64, u64, &'a str, &'a str, &'a str);

fn order(span: &Span) -> Order<'_> {
    (
        span.start_time_ns,
        span.end_time_ns,
        &span.tenant,
        &span.trace_id,
        &span.span_id,
    )
}

impl Model {
    fn answer(&self, query: &Query) -> Vec<Span> {
        let mut spans: Vec<Span> = self
            .0
            .values()
            .filter(|span| query.filter.matches(span))
            .cloned()
            .collect();
        spans.sort_by(|a, b| order(a).cmp(&order(b)));
        let duration = |span: &Span| span.end_time_ns.saturating_sub(span.start_time_ns);
        match query.sort {
            None | Some(Sort::StartAscending) => {}
            Some(Sort::StartDescending) => {
                spans.sort_by_key(|span| std::cmp::Reverse(span.start_time_ns));
            }
            Some(Sort::DurationAscending) => spans.sort_by_key(duration),
            Some(Sort::DurationDescending) => {
                spans.sort_by_key(|span| std::cmp::Reverse(duration(span)));
            }
        }
        spans.truncate(query.limit);
        spans
    }
}

fn question(random: &mut Random) -> Query {
    let mut filter = Filter::default();
    let mut maybe = |one_in: u64| random.below(one_in) == 0;
    let chosen = [
        maybe(3),
        maybe(4),
        maybe(4),
        maybe(4),
        maybe(4),
        maybe(6),
        maybe(6),
        maybe(8),
        maybe(8),
    ];
    let [
        service,
        code,
        words,
        since,
        until,
        tenant,
        session,
        status,
        trace,
    ] = chosen;
    if service {
        filter.service = Some(random.pick(&["bot", "gateway", "nobody"]).to_owned());
    }
    if code {
        let code = 200 + random.below(4) * 100;
        let code = match random.below(2) {
            0 => Value::from(code),
            _ => Value::from(code.to_string()),
        };
        filter.attributes.push(("code".to_owned(), code));
    }
    if words {
        let text = random.pick(&["refund", "BOOKING cancel", "amber", "n", "sp", "nothing"]);
        filter.content = Some(content::Query::new(text));
    }
    if since {
        filter.since = Some(1_000 + random.below(500));
    }
    if until {
        filter.until = Some(1_000 + random.below(500));
    }
    if tenant {
        filter.tenant = Some(random.pick(&["", "acme", "other"]).to_owned());
    }
    if session {
        filter.session = Some(random.pick(&["s0", "s1", "s9"]).to_owned());
    }
    if status {
        filter.not_status.push("ok".to_owned());
        filter.min_duration_ns = Some(random.below(60));
    }
    if trace {
        filter.trace_ids = vec!["trace-1".to_owned(), "trace-7".to_owned()];
    }
    let mut query = Query::new(filter);
    query.limit = usize::try_from(1 + random.below(40)).unwrap();
    query.sort = match random.below(6) {
        0 => Some(Sort::StartAscending),
        1 => Some(Sort::StartDescending),
        2 => Some(Sort::DurationAscending),
        3 => Some(Sort::DurationDescending),
        _ => None,
    };
    query
}

fn check(store: &Store, model: &Model, random: &mut Random) {
    let query = question(random);
    let page = store.query(&query).unwrap();
    let wanted = model.answer(&query);
    if matches!(query.sort, Some(Sort::StartDescending)) || query.sort.is_none() {
        let found: Vec<&Span> = page.spans.iter().map(Arc::as_ref).collect();
        assert_eq!(found, wanted.iter().collect::<Vec<_>>(), "{query:?}");
    } else {
        let found: Vec<Span> = page.spans.iter().map(|span| Span::clone(span)).collect();
        assert_eq!(found, wanted, "{query:?}");
    }
    // Pages, one behind the other, are the same answer.
    if matches!(query.sort, None | Some(Sort::StartDescending)) {
        let mut paged = Query::new(query.filter.clone());
        paged.limit = 3;
        paged.sort = query.sort;
        let mut found = Vec::new();
        loop {
            let page = store.query(&paged).unwrap();
            found.extend(page.spans);
            let Some(next) = page.next else { break };
            let token = next.to_token();
            paged.after = Some(traza::store::Cursor::from_token(&token).unwrap());
        }
        let mut all = Query::new(query.filter.clone());
        all.limit = usize::MAX;
        all.sort = query.sort;
        let found: Vec<&Span> = found.iter().map(Arc::as_ref).collect();
        let wanted = model.answer(&all);
        assert_eq!(found, wanted.iter().collect::<Vec<_>>(), "{query:?}");
    }
    let trace_id = format!("trace-{}", random.below(13));
    let tenant = [None, Some(""), Some("acme")][usize::try_from(random.below(3)).unwrap()];
    let mut wanted: Vec<&Span> = model
        .0
        .values()
        .filter(|span| {
            span.trace_id == trace_id && tenant.is_none_or(|tenant| span.tenant == tenant)
        })
        .collect();
    wanted.sort_by(|a, b| order(a).cmp(&order(b)));
    let found = store.get_trace(&trace_id, tenant).unwrap();
    assert_eq!(found.iter().map(Arc::as_ref).collect::<Vec<_>>(), wanted);
}

fn run(seed: u64, durability: Durability, steps: u64) {
    let mut random = Random(seed);
    let mut options = inline();
    options.durability = durability;
    options.flush_spans = 40;
    options.compaction = Some(Compaction {
        fanout: 3,
        base_len: 6_000,
        output_len_max: 30_000,
        records_len_max: 0,
    });
    options.payload_threshold = seed.is_multiple_of(2).then_some(20);
    let mut fs = SimFs::new();
    let mut store = open(&fs, &options).unwrap();
    let mut model = Model::default();
    for version in 0..steps {
        match random.below(20) {
            0 if random.below(2) == 0 => {
                store.compact().unwrap();
            }
            0 => {
                store.flush().unwrap();
            }
            1 => {
                if durability == Durability::Buffered {
                    store.flush().unwrap();
                }
                drop(store);
                store = open(&fs, &options).unwrap();
            }
            2 if durability != Durability::Buffered => {
                // Nothing but what was acknowledged is needed, so the harshest crash changes nothing.
                drop(store);
                let survival = [
                    Survival::Nothing,
                    Survival::Everything,
                    Survival::Seeded(version),
                ];
                let survival = survival[usize::try_from(random.below(3)).unwrap()];
                fs = fs.after_crash(survival);
                store = open(&fs, &options).unwrap();
            }
            3..=8 => check(&store, &model, &mut random),
            _ => {
                let count = 1 + random.below(8);
                let batch: Vec<Span> = (0..count).map(|_| span(&mut random, version)).collect();
                for span in &batch {
                    let mut stored = span.clone();
                    if let Some(len_max) = options.payload_threshold {
                        traza::payload::offload(&mut stored, len_max, |_, _| Ok::<(), ()>(()))
                            .unwrap();
                    }
                    model.0.insert(key(span), stored);
                }
                store.ingest(batch).unwrap();
            }
        }
    }
    let found = everything(&store);
    assert_eq!(found.len(), model.0.len());
    for (key, span) in &model.0 {
        assert_eq!(found[key].as_ref(), span);
    }
}

#[test]
fn random_operations_with_a_log_answer_like_a_map() {
    for seed in 0..6 {
        run(seed, Durability::Wal, 400);
    }
}

#[test]
fn random_operations_without_a_log_answer_like_a_map() {
    run(100, Durability::Buffered, 400);
}

#[test]
fn random_operations_that_seal_every_batch_answer_like_a_map() {
    run(200, Durability::Flushed, 150);
}
