//! A segment of the store, open.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use durable::Fs;

use super::error::{Result, StoreError, in_segment};
use super::layout;
use crate::segment::{Segment, StoredRecord};
use crate::span::Span;

/// A sealed segment. Of two with one identity the newer one, which has the higher id, counts.
#[derive(Debug)]
pub(crate) struct Sealed {
    id: u64,
    path: PathBuf,
    segment: Segment,
    /// The hashes of the identities of its spans, ascending. Loaded when they are first asked for.
    keys: OnceLock<Box<[u64]>>,
}

impl Sealed {
    pub(crate) fn open(fs: &dyn Fs, dir: &Path, id: u64) -> Result<Self> {
        let path = layout::segment_path(dir, id);
        let segment = Segment::open(fs, &path).map_err(in_segment(&path))?;
        Ok(Self {
            id,
            path,
            segment,
            keys: OnceLock::new(),
        })
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Says in which file an error of the segment is.
    pub(crate) fn error(&self) -> impl Fn(crate::segment::SegmentError) -> StoreError + '_ {
        in_segment(&self.path)
    }

    /// The span in a record.
    pub(crate) fn span(&self, ordinal: usize, payload: &[u8]) -> Result<Span> {
        Span::from_json(payload).map_err(|error| StoreError::Damaged {
            path: self.path.clone(),
            offset: None,
            what: format!("record {ordinal} holds no span: {error}"),
        })
    }

    fn stored_span(&self, record: &StoredRecord) -> Result<Span> {
        self.span(record.ordinal(), record.payload())
    }

    /// The spans of a trace, of all tenants.
    pub(crate) fn trace(&self, trace_id: &str) -> Result<Vec<Span>> {
        let records = self.segment.trace(trace_id).map_err(self.error())?;
        let mut spans = Vec::with_capacity(records.len());
        for record in &records {
            let span = self.stored_span(record)?;
            if span.trace_id == trace_id {
                spans.push(span);
            }
        }
        Ok(spans)
    }

    /// True when it holds a span with the identity of `span`, whose [`key_hash`] is `hash`.
    pub(crate) fn holds(&self, span: &Span, hash: u64) -> Result<bool> {
        if self.keys()?.binary_search(&hash).is_err() {
            return Ok(false);
        }
        let spans = self.trace(&span.trace_id)?;
        Ok(spans
            .iter()
            .any(|held| held.tenant == span.tenant && held.span_id == span.span_id))
    }

    fn keys(&self) -> Result<&[u64]> {
        if let Some(keys) = self.keys.get() {
            return Ok(keys);
        }
        let mut keys = Vec::with_capacity(self.segment.record_count());
        for record in self.segment.scan() {
            let record = record.map_err(self.error())?;
            keys.push(key_hash(&self.stored_span(&record)?));
        }
        keys.sort_unstable();
        Ok(self.keys.get_or_init(|| keys.into()))
    }

    /// Gives it the hashes of its identities, which the caller has at hand.
    pub(crate) fn set_keys(&self, mut keys: Vec<u64>) {
        keys.sort_unstable();
        self.keys.get_or_init(|| keys.into());
    }
}

/// The hash of a span's identity: FNV-1a over tenant, trace id and span id with zero bytes between them.
pub(crate) fn key_hash(span: &Span) -> u64 {
    use std::hash::Hasher as _;
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(span.tenant.as_bytes());
    hasher.write(&[0]);
    hasher.write(span.trace_id.as_bytes());
    hasher.write(&[0]);
    hasher.write(span.span_id.as_bytes());
    hasher.finish()
}
