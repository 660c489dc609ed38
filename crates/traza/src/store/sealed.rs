//! A segment of the store, open, and the sidecar beside it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use durable::{Access, Fs, read_all};

use super::columns::Replaced;
use super::error::{During as _, Result, StoreError, in_segment};
use super::layout;
use super::metrics::Meters;
use crate::llm::Pricing;
use crate::rollup::{self, Binding, Fold, Rollup};
use crate::segment::{BlockCache, Segment, StoredRecord};
use crate::span::Span;

/// A longer sidecar is not read: it is made again.
const SIDECAR_LEN_MAX: u64 = 1 << 30;

/// Where segments are, and with which prices their sums are made.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) dir: PathBuf,
    pub(crate) pricing: Arc<Pricing>,
    /// The decoded blocks of all segments.
    pub(crate) blocks: BlockCache,
    /// What is counted while segments are read.
    pub(crate) meters: Arc<Meters>,
    /// False where nothing may be written, caches neither.
    pub(crate) is_writable: bool,
}

/// A sealed segment. Of two with one identity the newer one, which has the higher id, counts.
#[derive(Debug)]
pub(crate) struct Sealed {
    home: Home,
    id: u64,
    path: PathBuf,
    segment: Segment,
    /// Read from the sidecar, or made, when it is first asked for.
    rollup: OnceLock<Arc<Rollup>>,
    /// Which of its records newer segments replace.
    replaced: Replaced,
}

impl Sealed {
    pub(crate) fn open(home: &Home, id: u64) -> Result<Self> {
        let path = layout::segment_path(&home.dir, id);
        let segment =
            Segment::open_with(home.fs.as_ref(), &path, &home.blocks).map_err(in_segment(&path))?;
        Ok(Self {
            home: home.clone(),
            id,
            path,
            segment,
            rollup: OnceLock::new(),
            replaced: Replaced::default(),
        })
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn replaced(&self) -> &Replaced {
        &self.replaced
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

    /// All spans, in the order of their starts.
    pub(crate) fn spans(&self) -> impl Iterator<Item = Result<Span>> + '_ {
        self.segment
            .scan()
            .map(|record| self.stored_span(&record.map_err(self.error())?))
    }

    /// The spans of a trace, of all tenants.
    pub(crate) fn trace(&self, trace_id: &str) -> Result<Vec<Span>> {
        let mut spans = Vec::new();
        let mut failure = None;
        let visited = self.segment.each_of_trace(trace_id, |ordinal, _, record| {
            match self.span(ordinal, record.payload()) {
                Ok(span) if span.trace_id == trace_id => spans.push(span),
                Ok(_) => {}
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
            Ok(())
        });
        visited.map_err(self.error())?;
        failure.map_or(Ok(spans), Err)
    }

    /// The span with the identity of `span`, if it holds one.
    pub(crate) fn version_of(&self, span: &Span) -> Result<Option<Span>> {
        let may_hold = self
            .rollup()?
            .may_hold(&span.tenant, &span.trace_id, &span.span_id);
        if !may_hold {
            return Ok(None);
        }
        self.home.meters.probes.add(1);
        let spans = self.trace(&span.trace_id)?.into_iter();
        let is_same = |held: &Span| held.tenant == span.tenant && held.span_id == span.span_id;
        Ok(spans.rev().find(is_same))
    }

    /// What its spans add up to: as the sidecar says, or made from the spans, and then kept in a sidecar.
    pub(crate) fn rollup(&self) -> Result<Arc<Rollup>> {
        if let Some(rollup) = self.rollup.get() {
            return Ok(Arc::clone(rollup));
        }
        let rollup = if let Some(kept) = self.read_sidecar() {
            kept
        } else {
            let meters = &self.home.meters;
            let made = meters.fold.time(|| self.fold())?;
            meters.rollups_built.add(1);
            self.write_sidecar(&made);
            made
        };
        Ok(Arc::clone(self.rollup.get_or_init(|| Arc::new(rollup))))
    }

    fn fold(&self) -> Result<Rollup> {
        let mut fold = Fold::new(&self.home.pricing);
        for span in self.spans() {
            fold.push(&span?);
        }
        Ok(fold.finish())
    }

    /// What is counted while it is read.
    pub(super) fn meters(&self) -> &Meters {
        &self.home.meters
    }

    fn binding(&self) -> Binding {
        Binding::of(
            self.segment.header(),
            self.segment.file_len(),
            &self.home.pricing,
        )
    }

    fn read_sidecar(&self) -> Option<Rollup> {
        let path = layout::sidecar_path(&self.path);
        let bytes = read_all(self.home.fs.as_ref(), &path, SIDECAR_LEN_MAX).ok()?;
        rollup::decode(&bytes, &self.binding()).ok()
    }

    /// Keeps the rollup of its spans. Whatever fails, the sidecar can be made again.
    pub(crate) fn keep_rollup(&self, rollup: Rollup) {
        self.write_sidecar(&rollup);
        self.rollup.get_or_init(|| Arc::new(rollup));
    }

    fn write_sidecar(&self, rollup: &Rollup) {
        if !self.home.is_writable {
            return;
        }
        let fs = self.home.fs.as_ref();
        let path = layout::sidecar_path(&self.path);
        let temporary = layout::temporary_path(&self.home.dir, layout::file_name(&path));
        fs.remove_file(&temporary).ok();
        let bytes = rollup::encode(rollup, &self.binding());
        let written = fs
            .create_new(&temporary, Access::Shared)
            .and_then(|mut file| file.append(&bytes))
            .and_then(|()| fs.rename(&temporary, &path));
        if written.is_err() {
            fs.remove_file(&temporary).ok();
        }
    }
}

/// Removes what is kept beside the segment at `path`, so that nothing takes it for that of another content, and nothing
/// of a content that is gone stays.
pub(crate) fn remove_sidecar(fs: &dyn Fs, path: &Path) -> Result<()> {
    for sidecar in [layout::sidecar_path(path), layout::columns_path(path)] {
        match fs.remove_file(&sidecar) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).during("remove", &sidecar);
            }
            _ => {}
        }
    }
    Ok(())
}
