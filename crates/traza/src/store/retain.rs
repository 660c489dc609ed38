//! Retention: spans whose time is over go, from the log, the buffer and the segments; then annotations, and payloads that
//! nothing refers to.
//!
//! The newest version of a span decides for all of them. Segments are rewritten from the oldest to the newest, the
//! buffer and the log come last: wherever this stops, no older version comes to light that a newer one had replaced.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::error::Result;
use super::options::Retention;
use super::sealed::Sealed;
use super::write::Contents;
use super::{Shared, Store, View};
use crate::rollup::key_hash;
use crate::span::Span;

/// What a pass of the retention has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Records that are gone, older versions included.
    pub records: u64,
    /// Segments that were written anew.
    pub rewritten_segments: usize,
    /// Segments that are gone.
    pub removed_segments: usize,
    /// Buffered spans that are gone.
    pub buffered_spans: usize,
    /// Annotations that are gone; scores of experiments stay.
    pub annotations: usize,
    /// Files of payloads that are gone: nothing refers to them, and no batch has written them lately.
    pub payloads: usize,
}

impl Expired {
    fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// Ends before which spans expire, at one moment.
struct Cutoffs<'r> {
    retention: &'r Retention,
    now_ns: u64,
}

impl Cutoffs<'_> {
    fn of(&self, ttl: Option<Duration>) -> Option<u64> {
        let ttl = u64::try_from(ttl?.as_nanos()).unwrap_or(u64::MAX);
        Some(self.now_ns.saturating_sub(ttl))
    }

    fn is_over(&self, span: &Span) -> bool {
        self.is_past(&span.tenant, span.end_time_ns)
    }

    fn is_past(&self, tenant: &str, time_ns: u64) -> bool {
        let own = self.retention.tenants.get(tenant);
        let cutoff = match own {
            Some(ttl) => self.of(*ttl),
            None => self.of(self.retention.ttl),
        };
        cutoff.is_some_and(|cutoff| time_ns < cutoff)
    }

    fn all(&self) -> impl Iterator<Item = u64> {
        let own = self.retention.tenants.values();
        own.chain([&self.retention.ttl])
            .filter_map(|ttl| self.of(*ttl))
    }

    /// A span that ends then or later never expires now.
    fn latest(&self) -> Option<u64> {
        self.all().max()
    }
}

impl Store {
    /// Removes the spans and the annotations whose time is over, as
    /// [`StoreOptions::retention`](super::StoreOptions::retention) says, and payloads that nothing refers to when they are
    /// older than the shortest time that anything is kept.
    ///
    /// # Errors
    /// Damage of a segment, a failing disk. What was removed until then stays removed; another pass does the rest.
    pub fn expire(&self) -> Result<Expired> {
        self.shared.expire()
    }
}

impl Shared {
    pub(super) fn expire(&self) -> Result<Expired> {
        self.check_writable()?;
        let cutoffs = Cutoffs {
            retention: &self.options.retention,
            now_ns: self.clock.wall_ns(),
        };
        let mut expired = Expired::default();
        let Some(latest) = cutoffs.latest().filter(|latest| *latest > 0) else {
            return Ok(expired);
        };
        let _maintenance = self
            .maintenance
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let permit = self.permit();
        // The outputs of a merge that failed would bring back what expires in its inputs.
        self.clear_leftovers(&permit)?;
        let segments = self.view().segments.clone();
        let over = self.over(&cutoffs, latest)?;
        for sealed in segments.iter() {
            let rollup = sealed.rollup()?;
            if rollup.min_end_ns < latest || have_common(&rollup.key_hashes, &over) {
                self.meters.expiry_decoded.add(1);
                self.expire_in(&permit, sealed, &cutoffs, &mut expired)?;
            } else {
                self.meters.expiry_skipped.add(1);
            }
        }
        self.expire_buffered(&cutoffs, &mut expired)?;
        // The gate comes before the permit.
        drop(permit);
        expired.annotations = self.logs.annotations().drop_where(|each| {
            each.experiment_id.is_none() && cutoffs.is_past(&each.tenant, each.timestamp_ns)
        })?;
        expired.payloads = self.sweep_payloads(cutoffs.all().min().unwrap_or(0))?;
        Ok(expired)
    }

    /// The hashes of the identities of all spans whose time is over, ascending. An older version of one can be in a
    /// segment that has nothing else to expire.
    fn over(&self, cutoffs: &Cutoffs<'_>, latest: u64) -> Result<Vec<u64>> {
        let view = self.view();
        let mut over = Vec::new();
        let mut look = |span: &Span| {
            if cutoffs.is_over(span) {
                over.push(key_hash(&span.tenant, &span.trace_id, &span.span_id));
            }
        };
        for span in view.buffer.in_order() {
            look(span);
        }
        for sealed in view.segments.iter() {
            if sealed.rollup()?.min_end_ns < latest {
                for span in sealed.spans() {
                    look(&span?);
                }
            }
        }
        over.sort_unstable();
        Ok(over)
    }

    fn expire_in(
        &self,
        permit: &MutexGuard<'_, ()>,
        sealed: &Arc<Sealed>,
        cutoffs: &Cutoffs<'_>,
        expired: &mut Expired,
    ) -> Result<()> {
        let view = self.view();
        let mut kept = Vec::new();
        let mut dropped = 0;
        for span in sealed.spans() {
            let span = span?;
            let newest = view.newer_version(&span, sealed.id())?;
            if cutoffs.is_over(newest.as_deref().unwrap_or(&span)) {
                dropped += 1;
            } else {
                kept.push(Arc::new(span));
            }
        }
        if dropped == 0 {
            return Ok(());
        }
        if kept.is_empty() {
            expired.removed_segments += 1;
        } else {
            expired.rewritten_segments += 1;
        }
        expired.records += dropped;
        self.replace_spans(permit, sealed, kept)
    }

    /// Puts exactly these spans into the place of a segment; without any, the segment goes.
    pub(super) fn replace_spans(
        &self,
        _permit: &MutexGuard<'_, ()>,
        sealed: &Arc<Sealed>,
        spans: Vec<Arc<Span>>,
    ) -> Result<()> {
        let replacement = if spans.is_empty() {
            self.unlink_segment(sealed.path())?;
            self.sync_dir()?;
            None
        } else {
            let contents = Contents::of(&self.home, spans.into_iter().map(Ok))?
                .with_codec(sealed.segment().header().codec);
            Some(Arc::new(self.rewrite_segment(sealed.id(), contents)?))
        };
        let _writer = self.writer();
        let view = self.view();
        let segments = view.segments.iter().filter_map(|now| {
            if now.id() == sealed.id() {
                replacement.clone()
            } else {
                Some(Arc::clone(now))
            }
        });
        self.set_view(View {
            segments: segments.collect(),
            ..View::clone(&view)
        });
        Ok(())
    }

    /// The log is written anew whenever anything expired: it can hold frames of spans that were sealed since.
    fn expire_buffered(&self, cutoffs: &Cutoffs<'_>, expired: &mut Expired) -> Result<()> {
        let mut writer = self.writer();
        let before = self.view();
        let mut view = View::clone(&before);
        let spans = before.buffer.in_order();
        let over: Vec<Arc<Span>> = spans.filter(|s| cutoffs.is_over(s)).cloned().collect();
        expired.buffered_spans += over.len();
        view.buffer.evict_all(over);
        if expired.is_nothing() {
            return Ok(());
        }
        if writer.log.is_some() {
            self.rewrite_log(&mut writer, &view.buffer)?;
        }
        self.set_view(view);
        Ok(())
    }
}

/// True when two ascending lists have an entry in common.
fn have_common(a: &[u64], b: &[u64]) -> bool {
    let (few, many) = if a.len() < b.len() { (a, b) } else { (b, a) };
    few.iter().any(|entry| many.binary_search(entry).is_ok())
}
