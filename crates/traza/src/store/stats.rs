//! What a store holds.

use std::time::Duration;

use super::Store;
use crate::wal;

/// Counts of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Spans that no segment holds yet.
    pub buffered_spans: usize,
    /// Bytes of frames in the log.
    pub wal_bytes: u64,
    /// Number of segments.
    pub segments: usize,
    /// Records in them, older versions of a span included.
    pub persisted_records: u64,
    /// Bytes of the segment files.
    pub segment_bytes: u64,
    /// Bytes that open segments take in memory: indexes and decoded blocks.
    pub resident_bytes: u64,
    /// How long the oldest buffered span has waited; `None` when nothing is buffered.
    pub buffer_age: Option<Duration>,
    /// Start of the earliest and the latest sealed span, in nanoseconds since the Unix epoch.
    pub sealed_range: Option<(u64, u64)>,
    /// Why the last seal failed, until one succeeds.
    pub seal_failure: Option<String>,
    /// Why the first of the pending erasures could not be carried out when it was tried last.
    pub erasure_failure: Option<String>,
    /// The generation that is live.
    pub generation: u64,
}

impl Store {
    /// Counts what there is. Reads no segment.
    pub fn stats(&self) -> Stats {
        let (wal_bytes, generation, seal_failure, oldest_ns) = {
            let writer = self.shared.writer();
            // One that is only read has the log as it was when it was opened.
            let read = if self.shared.home.is_writable {
                0
            } else {
                self.opened.log_bytes
            };
            let len = writer.log.as_ref().map_or(read, wal::Log::frames_len);
            let failure = writer.failure.clone();
            (len, writer.generation, failure, writer.oldest_ns)
        };
        let view = self.shared.view();
        let mut stats = Stats {
            buffered_spans: view.buffer.len(),
            wal_bytes,
            buffer_age: oldest_ns.map(|oldest| {
                let now = self.shared.clock.mono_ns();
                Duration::from_nanos(now.saturating_sub(oldest))
            }),
            segments: view.segments.len(),
            seal_failure,
            erasure_failure: self
                .erasure_failures()
                .into_iter()
                .next()
                .map(|failure| failure.reason),
            generation,
            resident_bytes: self.shared.home.blocks.resident_len() as u64,
            ..Stats::default()
        };
        for sealed in view.segments.iter() {
            let segment = sealed.segment();
            let header = segment.header();
            stats.persisted_records += header.record_count;
            stats.segment_bytes += segment.file_len();
            stats.resident_bytes += segment.resident_index_len() as u64;
            if header.record_count > 0 {
                let (min, max) = stats
                    .sealed_range
                    .unwrap_or((header.min_timestamp, header.max_timestamp));
                stats.sealed_range =
                    Some((min.min(header.min_timestamp), max.max(header.max_timestamp)));
            }
        }
        stats
    }
}
