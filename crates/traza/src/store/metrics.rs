//! What a store counts of its own work since it was opened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Store;
use crate::histogram::Histogram;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it, and answers what it is then.
    pub fn add(&self, count: u64) -> u64 {
        self.0
            .fetch_add(count, Ordering::Relaxed)
            .saturating_add(count)
    }

    /// What it is.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long something took, every time.
#[derive(Debug, Default)]
pub struct Stage(Mutex<Timed>);

/// How often something was done, and how long it took, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Timed {
    /// Every time.
    pub durations: Histogram,
    /// All times together.
    pub sum_ns: u64,
}

impl Stage {
    /// Adds a time.
    pub fn record(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let mut timed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        timed.durations.record(ns);
        timed.sum_ns = timed.sum_ns.saturating_add(ns);
    }

    /// Does something and adds how long it took.
    pub(crate) fn time<R>(&self, work: impl FnOnce() -> R) -> R {
        let began = Instant::now();
        let result = work();
        self.record(began.elapsed());
        result
    }

    /// What was added so far.
    pub fn read(&self) -> Timed {
        let timed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        timed.clone()
    }
}

/// The counters and times of a store.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    pub(super) spans_admitted: Counter,
    pub(super) batches_admitted: Counter,
    pub(super) spans_suppressed: Counter,
    pub(super) log_commits: Counter,
    pub(super) sealed_spans: Counter,
    pub(super) age_seals: Counter,
    pub(super) seals_coalesced: Counter,
    pub(super) segments_examined: Counter,
    pub(super) segments_pruned: Counter,
    pub(super) segments_without_words: Counter,
    pub(super) records_with_words: Counter,
    pub(super) probes: Counter,
    pub(super) rollups_built: Counter,
    pub(super) expiry_skipped: Counter,
    pub(super) expiry_decoded: Counter,
    pub(super) merges: Counter,
    pub(super) merged_away: Counter,
    pub(super) erasures_settled: Counter,
    pub(super) erased_spans: Counter,
    pub(super) writer_wait: Stage,
    pub(super) view_wait: Stage,
    pub(super) fold: Stage,
    pub(super) log_encode: Stage,
    pub(super) log_write: Stage,
    /// From asking for the writer's lock until the frame is in the log.
    pub(super) log_turn: Stage,
    pub(super) commit_wait: Stage,
    pub(super) upsert: Stage,
    pub(super) seal: Stage,
    pub(super) seal_locked: Stage,
    pub(super) seal_reconcile: Stage,
    pub(super) merge: Stage,
    pub(super) erasure: Stage,
}

/// The counters and times of a store at one moment, by the names under which they are published.
#[derive(Clone, Debug)]
pub struct Metrics {
    counters: Vec<(&'static str, u64)>,
    stages: Vec<(&'static str, Timed)>,
}

impl Metrics {
    /// All counters.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counters.iter().copied()
    }

    /// Everything that is timed.
    pub fn stages(&self) -> impl Iterator<Item = (&'static str, &Timed)> {
        self.stages.iter().map(|(name, timed)| (*name, timed))
    }

    /// The counter of that name.
    pub fn counter(&self, name: &str) -> Option<u64> {
        let mut counters = self.counters();
        counters
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    }

    /// What is timed under that name.
    pub fn stage(&self, name: &str) -> Option<&Timed> {
        let mut stages = self.stages();
        stages
            .find(|(found, _)| *found == name)
            .map(|(_, timed)| timed)
    }
}

impl Store {
    /// What the store has counted since it was opened.
    pub fn metrics(&self) -> Metrics {
        let meters = &self.shared.meters;
        Metrics {
            counters: vec![
                ("traza_spans_admitted_total", meters.spans_admitted.get()),
                (
                    "traza_batches_admitted_total",
                    meters.batches_admitted.get(),
                ),
                ("traza_wal_commits_total", meters.log_commits.get()),
                ("traza_segment_seal_spans_total", meters.sealed_spans.get()),
                (
                    "traza_segment_seals_coalesced_total",
                    meters.seals_coalesced.get(),
                ),
                ("traza_segment_seals_age_total", meters.age_seals.get()),
                // Every merge drops what is superseded; there is none that does only this.
                ("traza_shadow_merges_total", 0),
                (
                    "traza_segments_examined_total",
                    meters.segments_examined.get(),
                ),
                (
                    "traza_segments_pruned_by_time_total",
                    meters.segments_pruned.get(),
                ),
                (
                    "traza_segments_pruned_by_content_total",
                    meters.segments_without_words.get(),
                ),
                (
                    "traza_records_admitted_by_content_total",
                    meters.records_with_words.get(),
                ),
                ("traza_supersede_probes_total", meters.probes.get()),
                ("traza_rollup_builds_total", meters.rollups_built.get()),
                (
                    "traza_expiry_segments_skipped_total",
                    meters.expiry_skipped.get(),
                ),
                (
                    "traza_expiry_segments_decoded_total",
                    meters.expiry_decoded.get(),
                ),
                ("traza_segment_merges_total", meters.merges.get()),
                ("traza_segments_merged_away_total", meters.merged_away.get()),
                (
                    "traza_erasures_settled_total",
                    meters.erasures_settled.get(),
                ),
                (
                    "traza_erasure_spans_removed_total",
                    meters.erased_spans.get(),
                ),
                (
                    "traza_erasure_spans_suppressed_total",
                    meters.spans_suppressed.get(),
                ),
            ],
            stages: vec![
                ("traza_writer_lock_wait", meters.writer_wait.read()),
                ("traza_segments_lock_wait", meters.view_wait.read()),
                ("traza_analytics_fold", meters.fold.read()),
                ("traza_wal_encode", meters.log_encode.read()),
                ("traza_wal_write", meters.log_turn.read()),
                ("traza_wal_lock_wait", meters.commit_wait.read()),
                ("traza_wal_write_syscall", meters.log_write.read()),
                ("traza_wal_fsync", self.shared.commit.syncs()),
                ("traza_buffer_upsert", meters.upsert.read()),
                ("traza_segment_seal", meters.seal.read()),
                ("traza_segment_seal_locked", meters.seal_locked.read()),
                ("traza_segment_seal_reconcile", meters.seal_reconcile.read()),
                ("traza_segment_merge", meters.merge.read()),
                ("traza_erasure", meters.erasure.read()),
            ],
        }
    }
}
