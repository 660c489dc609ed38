//! Opening a filled store, and asking it.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use traza::content;
use traza::span::Span;
use traza::store::{Cursor, Filter, Query, Sort, Store, StoreOptions};

use crate::latency::{Latency, float};
use crate::spans::{Profile, RARE_WORDS, Random, Spans, rare_word};
use crate::{Corpus, Result, memory};

/// What is about everything is asked with every so many calls.
const EVERYTHING_EVERY: usize = 25;
/// Every so many spans one is asked for.
pub(crate) const SUBJECT_EVERY: usize = 53;

pub(crate) fn measure(corpus: Corpus, dir: &Path, quick: bool) -> Result<Value> {
    let subjects: Vec<Span> = Spans::new(corpus.profile, 7)
        .take(corpus.spans)
        .step_by(SUBJECT_EVERY)
        .collect();
    memory::forget_peak()?;
    let mut open = Latency::new("open");
    for _ in 0..5 {
        open.call(|| {
            let store = Store::open(dir, StoreOptions::default())?;
            Ok(store.stats().persisted_records)
        })?;
    }
    let store = Store::open(dir, StoreOptions::default())?;
    let calls = if quick { 20 } else { 500 };
    let mut latencies = vec![open];
    latencies.extend(ask(corpus, &store, &subjects, calls)?);
    let rows = latencies.iter().map(|latency| {
        let [p50, p99, max] = latency.quantiles();
        json!({
            "call": latency.name,
            "calls": latency.micros.len(),
            "cpu_p50_us": latency.cpu_p50(),
            "p50_us": p50,
            "p99_us": p99,
            "max_us": max,
            "results": float(latency.results) / float(latency.micros.len() as u64),
        })
    });
    let rows: Vec<Value> = rows.collect();
    let export = export(&store)?;
    let (resident, peak) = memory::resident()?;
    let memory = json!({ "resident_mb": float(resident) / 1e6, "peak_mb": float(peak) / 1e6 });
    Ok(json!({ "calls": rows, "export": [export], "memory": [memory] }))
}

fn ask(corpus: Corpus, store: &Store, subjects: &[Span], calls: usize) -> Result<Vec<Latency>> {
    let mut random = Random::from_seed(11);
    let mut subject = || -> Result<&Span> {
        let index = usize::try_from(random.below(subjects.len() as u64))?;
        Ok(subjects.get(index).ok_or("no spans to ask for")?)
    };
    let (common, unique) = match corpus.profile {
        Profile::Generic => ("host.name", "request.id"),
        Profile::Llm => ("gen_ai.tool.name", "gen_ai.tool.call.id"),
    };
    let mut trace = Latency::new("trace by id");
    let mut attribute = Latency::new("attribute, first 100");
    let mut rare = Latency::new("attribute, unique value");
    let mut word = Latency::new("selective word, first 100");
    let mut window = Latency::new("window of 1 %, first 100");
    let mut newest = Latency::new("newest 100 of a service");
    let mut slowest = Latency::new("slowest 100 of a window of 1 %");
    let mut all_slowest = Latency::new("slowest 100 of all");
    let mut durations = Latency::new("duration statistics");
    let mut series = Latency::new("series of all, 24 buckets");
    let first = subjects.first().map_or(0, |span| span.start_time_ns);
    let last = subjects.last().map_or(0, |span| span.start_time_ns);
    let window_ns = last.saturating_sub(first) / 100;
    for call in 0..calls {
        let wanted = subject()?;
        trace.call(|| Ok(store.get_trace(&wanted.trace_id, None)?.len() as u64))?;
        for (latency, key) in [(&mut attribute, common), (&mut rare, unique)] {
            let Some(value) = subjects
                .iter()
                .cycle()
                .skip(call * 7)
                .take(subjects.len())
                .find_map(|span| span.attributes.get(key))
            else {
                continue;
            };
            let mut filter = Filter::default();
            filter.attributes.push((key.to_owned(), value.clone()));
            latency.call(|| found(store, &Query::new(filter)))?;
        }
        let mut filter = Filter::default();
        filter.content = Some(content::Query::new(&rare_word(call as u64 % RARE_WORDS)));
        word.call(|| found(store, &Query::new(filter)))?;
        let mut filter = Filter::default();
        filter.since = Some(wanted.start_time_ns);
        filter.until = Some(wanted.start_time_ns.saturating_add(window_ns));
        window.call(|| found(store, &Query::new(filter.clone())))?;
        let mut query = Query::new(filter);
        query.sort = Some(Sort::DurationDescending);
        slowest.call(|| found(store, &query))?;
        let mut filter = Filter::default();
        filter.service = Some(wanted.service.to_string());
        let mut query = Query::new(filter);
        query.sort = Some(Sort::StartDescending);
        newest.call(|| found(store, &query))?;
        if call % EVERYTHING_EVERY != 0 {
            continue;
        }
        let mut query = Query::new(Filter::default());
        query.sort = Some(Sort::DurationDescending);
        all_slowest.call(|| found(store, &query))?;
        durations.call(|| Ok(store.snapshot().durations(&Filter::default())?.count()))?;
        let mut filter = Filter::default();
        (filter.since, filter.until) = (Some(first), Some(last));
        series.call(|| Ok(store.snapshot().series(&filter, 24)?.buckets.len() as u64))?;
    }
    let all = vec![
        trace,
        attribute,
        rare,
        word,
        window,
        newest,
        slowest,
        all_slowest,
        durations,
        series,
    ];
    Ok(all
        .into_iter()
        .filter(|one| !one.micros.is_empty())
        .collect())
}

fn found(store: &Store, query: &Query) -> Result<u64> {
    Ok(black_box(store.query(query)?).spans.len() as u64)
}

/// All spans, page after page.
fn export(store: &Store) -> Result<Value> {
    let started = Instant::now();
    let mut query = Query::new(Filter::default());
    query.limit = 4096;
    let (mut spans, mut bytes) = (0u64, 0u64);
    loop {
        let page = store.query(&query)?;
        spans += page.spans.len() as u64;
        for span in &page.spans {
            bytes += span.to_json().len() as u64;
        }
        let Some(next) = page.next else { break };
        query.after = Some(Cursor::clone(&next));
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(json!({
        "spans": spans,
        "spans_per_s": float(spans) / seconds,
        "mb_per_s": float(bytes) / seconds / 1e6,
    }))
}
