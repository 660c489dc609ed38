//! How a store works.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::buffer::Buffer;
use crate::llm::Pricing;
use crate::segment::codec::Codec;

/// What spans take in memory, in bytes, when the buffer is full although there are few of them.
const BUFFER_MEMORY: u128 = 48 << 20;

/// What has happened when a batch is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The spans are in memory. A crash loses those that no segment holds yet.
    Buffered,
    /// The spans are in the synced write-ahead log.
    #[default]
    Wal,
    /// The spans are in a synced segment.
    Flushed,
}

impl Durability {
    /// The word that options and answers use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Wal => "wal",
            Self::Flushed => "flushed",
        }
    }
}

/// Who seals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Upkeep {
    /// A thread of the store, while others go on.
    #[default]
    Background,
    /// The call that fills the buffer. For programs that do one thing after the other, and for tests.
    Inline,
}

/// How a store works. The defaults are those of the format's facts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreOptions {
    /// When a batch is acknowledged.
    pub durability: Durability,
    /// Seal when so many spans are buffered; 0 switches that off.
    pub flush_spans: usize,
    /// Seal when the frames of the log have so many bytes; 0 switches that off.
    pub flush_wal_bytes: u64,
    /// Seal when the oldest buffered span waits for so long.
    pub max_buffer_age: Option<Duration>,
    /// How long a sync of the log waits for more batches.
    pub commit_window: Duration,
    /// Attribute strings above so many bytes become blobs.
    pub payload_threshold: Option<usize>,
    /// Who seals.
    pub upkeep: Upkeep,
    /// What the cost of a call is derived from when its span does not state it. Another list counts for all spans, also
    /// for those that are there already.
    pub pricing: Arc<Pricing>,
    /// How segments are merged; `None` leaves them as they were sealed.
    pub compaction: Option<Compaction>,
    /// How a merge compresses what it will not make any larger: segments of the highest size that
    /// [`Compaction::output_len_max`] leaves room for. `None` is LZ4, as for all others. With [`Codec::Zstd`] they are
    /// smaller, and releases without that codec refuse the store. Reading needs no option, and a segment keeps its codec
    /// when expiry or erasure writes it anew.
    pub cold_codec: Option<Codec>,
    /// How long spans are kept.
    pub retention: Retention,
    /// How often spans are looked at whose time may be over.
    pub expiry_every: Duration,
    /// Bytes of decoded records that are kept for further questions, of all segments together; 0 keeps none.
    pub block_cache_len: usize,
}

/// How segments are merged: when so many of about one size are the newest, they become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// How many; 2 at least.
    pub fanout: usize,
    /// Segments below so many bytes are of the smallest size; each further size is `fanout` times the one before.
    pub base_len: u64,
    /// A merge makes no segment longer than so many bytes; 0 switches that off.
    pub output_len_max: u64,
    /// Nor one whose records have more bytes than this before they are compressed; 0 switches that off. A merge takes some
    /// two and a half times that in memory.
    pub records_len_max: u64,
}

impl Default for Compaction {
    fn default() -> Self {
        Self {
            fanout: 4,
            base_len: 8 << 20,
            output_len_max: 16 << 20,
            records_len_max: 48 << 20,
        }
    }
}

/// How long spans are kept, counted from their ends, and annotations, counted from when they were made. `None` is for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Of every tenant without an entry of its own.
    pub ttl: Option<Duration>,
    /// By tenant.
    pub tenants: BTreeMap<String, Option<Duration>>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            flush_spans: 10_000,
            flush_wal_bytes: 64 << 20,
            max_buffer_age: Some(Duration::from_mins(5)),
            commit_window: Duration::ZERO,
            payload_threshold: None,
            upkeep: Upkeep::default(),
            pricing: Arc::default(),
            compaction: Some(Compaction::default()),
            cold_codec: None,
            retention: Retention::default(),
            block_cache_len: 64 << 20,
            expiry_every: Duration::from_mins(1),
        }
    }
}

impl StoreOptions {
    /// Above so many buffered spans a batch waits for a seal.
    pub(crate) fn buffer_max(&self) -> usize {
        match self.flush_spans {
            0 => usize::MAX,
            spans => spans.saturating_mul(4),
        }
    }

    /// How full the buffer is, in spans of [`buffer_max`](Self::buffer_max): large spans fill it sooner.
    pub(crate) fn filled(&self, buffer: &Buffer) -> usize {
        let spans = buffer.len();
        if self.flush_spans == 0 {
            return spans;
        }
        let share = buffer.memory_len() as u128 * self.buffer_max() as u128 / BUFFER_MEMORY;
        spans.max(usize::try_from(share).unwrap_or(usize::MAX))
    }
}
