//! Taking spans in: how many in a second, and how long a call waits.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use durable::{Fs as _, RealFs};
use serde_json::{Value, json};
use traza::span::Span;
use traza::store::{Durability, Store, StoreOptions};

use crate::folder::len_of;
use crate::latency::{float, quantile};
use crate::spans::Spans;
use crate::{Corpus, Result, memory};

/// The store that is asked afterwards.
pub(crate) const KEPT: &str = "kept";
/// Spans of a call.
pub(crate) const BATCH: usize = 500;
/// Start of a run that `buffered`, `wal` and `flushed` are compared with.
pub(crate) const SEED: u64 = 7;

/// Fills a store at each durability and number of threads; the last one is kept.
pub(crate) fn measure(corpus: Corpus, scratch: &Path) -> Result<Value> {
    let runs = [
        (Durability::Buffered, 1),
        (Durability::Flushed, 1),
        (Durability::Wal, 4),
        (Durability::Wal, 1),
    ];
    let mut rows = Vec::new();
    let mut sizes = Vec::new();
    for (durability, threads) in runs {
        let dir = scratch.join(if rows.len() + 1 == runs.len() {
            KEPT
        } else {
            "filled"
        });
        let mut options = StoreOptions::default();
        options.durability = durability;
        memory::forget_peak()?;
        let store = Store::open(&dir, options)?;
        // Sealing every batch by itself takes long; a part of the corpus shows it.
        let spans = match durability {
            Durability::Flushed => corpus.spans / 10,
            _ => corpus.spans,
        };
        let filled = fill(&store, corpus, spans, threads)?;
        rows.push(row(durability, threads, spans, &filled));
        store.flush()?;
        let started = Instant::now();
        store.compact()?;
        let settled = started.elapsed();
        if dir.ends_with(KEPT) {
            sizes.push(sizes_of(&store, &dir, filled.bytes, settled)?);
        }
        drop(store);
        if !dir.ends_with(KEPT) {
            remove(&dir)?;
        }
    }
    Ok(json!({ "ingest": rows, "sizes": sizes }))
}

struct Filled {
    micros: Vec<f64>,
    elapsed: Duration,
    /// Span JSON that went in.
    bytes: u64,
    peak: u64,
}

fn fill(store: &Store, corpus: Corpus, spans: usize, threads: usize) -> Result<Filled> {
    let source = Mutex::new(Spans::new(corpus.profile, SEED).take(spans));
    let calls: Mutex<Filled> = Mutex::new(Filled {
        micros: Vec::new(),
        elapsed: Duration::ZERO,
        bytes: 0,
        peak: 0,
    });
    let failure: Mutex<Option<String>> = Mutex::new(None);
    // Making the spans is not measured: of the time that passes only the calls count, of the slowest thread.
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = Duration::ZERO;
                loop {
                    let batch: Vec<Span> = match source.lock() {
                        Ok(mut source) => source.by_ref().take(BATCH).collect(),
                        Err(_) => return,
                    };
                    if batch.is_empty() {
                        break;
                    }
                    let bytes: usize = batch.iter().map(|span| span.to_json().len()).sum();
                    let started = Instant::now();
                    let taken = store.ingest(batch);
                    let elapsed = started.elapsed();
                    own += elapsed;
                    if let (Err(error), Ok(mut failure)) = (taken, failure.lock()) {
                        *failure = Some(error.to_string());
                        return;
                    }
                    if let Ok(mut calls) = calls.lock() {
                        calls.micros.push(elapsed.as_secs_f64() * 1e6);
                        calls.bytes += bytes as u64;
                    }
                }
                if let Ok(mut calls) = calls.lock() {
                    calls.elapsed = calls.elapsed.max(own);
                }
            });
        }
    });
    if let Some(failure) = failure.into_inner()? {
        return Err(failure.into());
    }
    let mut filled = calls.into_inner()?;
    filled.peak = memory::resident()?.1;
    Ok(filled)
}

fn row(durability: Durability, threads: usize, spans: usize, filled: &Filled) -> Value {
    let seconds = filled.elapsed.as_secs_f64();
    let [p50, p99, max] =
        [(1, 2), (99, 100), (1, 1)].map(|(part, of)| quantile(&filled.micros, part, of));
    json!({
        "durability": durability.as_str(),
        "threads": threads,
        "spans_per_s": float(spans as u64) / seconds,
        "mb_per_s": float(filled.bytes) / seconds / 1e6,
        "call_p50_ms": p50 / 1e3,
        "call_p99_ms": p99 / 1e3,
        "call_max_ms": max / 1e3,
        "peak_mb": float(filled.peak) / 1e6,
    })
}

fn sizes_of(store: &Store, dir: &Path, sent: u64, settled: Duration) -> Result<Value> {
    let stats = store.stats();
    let on_disk = len_of(dir)?;
    let (resident, peak) = memory::resident()?;
    Ok(json!({
        "segments": stats.segments,
        "sent_mb": float(sent) / 1e6,
        "disk_mb": float(on_disk) / 1e6,
        "amplification": float(on_disk) / float(sent),
        "settle_s": settled.as_secs_f64(),
        "resident_mb": float(resident) / 1e6,
        "peak_mb": float(peak) / 1e6,
    }))
}

fn remove(path: &Path) -> Result<()> {
    for entry in RealFs.read_dir(path)? {
        match RealFs.metadata(&entry)?.kind {
            durable::FileKind::Directory => remove(&entry)?,
            _ => RealFs.remove_file(&entry)?,
        }
    }
    Ok(RealFs.remove_dir(path)?)
}
