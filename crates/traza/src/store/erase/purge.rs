//! Takes what an erasure covers out of the log, the buffer and the segments.
//!
//! Whatever order it happens in, readers see none of it: the mask hides it until the erasure is settled. Where this
//! stops, another pass does the rest.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard};

use super::super::error::Result;
use super::super::liveness::addresses;
use super::super::sealed::Sealed;
use super::super::write::Contents;
use super::super::{Shared, View};
use super::coverage::{Coverage, Fate};
use crate::payload::{self, ContentAddress};
use crate::span::Span;
use crate::wal::Log;

/// What a pass has taken out.
#[derive(Debug, Default)]
pub(super) struct Purged {
    /// Records, older versions included.
    pub(super) removed: u64,
    /// Records that keep markers.
    pub(super) redacted: u64,
    /// The payloads that the removed ones referred to.
    pub(super) payloads: BTreeSet<ContentAddress>,
}

impl Purged {
    /// What is left of a span.
    fn apply(&mut self, coverage: &Coverage, span: &Arc<Span>) -> Option<Arc<Span>> {
        match coverage.fate(span) {
            Fate::Stays => Some(Arc::clone(span)),
            Fate::Dropped => {
                self.removed += 1;
                let references = payload::live_references(span);
                self.payloads.extend(addresses(references));
                None
            }
            Fate::Redacted(redacted) => {
                self.redacted += 1;
                Some(redacted)
            }
        }
    }
}

impl Shared {
    /// Every record is looked at, older versions too. Under the maintenance lock, so that nothing is being merged.
    pub(super) fn purge_spans(&self, coverage: &Coverage) -> Result<Purged> {
        let permit = self.permit();
        let mut purged = Purged::default();
        self.clear_leftovers(&permit)?;
        self.purge_buffer(coverage, &mut purged)?;
        let segments = Arc::clone(&self.view().segments);
        for sealed in segments.iter() {
            let mut is_in = false;
            coverage.each_record_in(sealed, &mut |_| is_in = true)?;
            if is_in {
                self.purge_segment(&permit, coverage, sealed, &mut purged)?;
            }
        }
        Ok(purged)
    }

    /// The log first: it decides what comes back after a crash. It is written anew also when nothing of the buffer is
    /// covered, since it can hold frames of spans that were sealed since.
    fn purge_buffer(&self, coverage: &Coverage, purged: &mut Purged) -> Result<()> {
        let mut writer = self.writer();
        let before = self.view();
        let mut view = View::clone(&before);
        let (mut gone, mut changed) = (Vec::new(), Vec::new());
        for span in before.buffer.in_order() {
            match purged.apply(coverage, span) {
                None => gone.push(Arc::clone(span)),
                Some(left) if !Arc::ptr_eq(&left, span) => changed.push(left),
                Some(_) => {}
            }
        }
        view.buffer.evict_all(gone);
        view.buffer.upsert_all(changed);
        let is_in_use = |log: &Log| log.frames_len() > 0 || log.is_broken();
        if writer.log.as_ref().is_some_and(is_in_use) {
            self.rewrite_log(&mut writer, &view.buffer)?;
        }
        self.set_view(view);
        Ok(())
    }

    fn purge_segment(
        &self,
        permit: &MutexGuard<'_, ()>,
        coverage: &Coverage,
        sealed: &Arc<Sealed>,
        purged: &mut Purged,
    ) -> Result<()> {
        // A reader that still has the old segment would make its sidecar when it first asks for it: now, not afterwards.
        sealed.rollup()?;
        let mut kept = Vec::new();
        for span in sealed.spans() {
            kept.extend(purged.apply(coverage, &Arc::new(span?)));
        }
        if kept.is_empty() {
            // So that its bytes are gone before its name is: a removal whose sync fails can be undone by a crash, and trying it
            // again does not help.
            let nothing = Contents::of(&self.home, std::iter::empty())?;
            self.rewrite_segment(sealed.id(), nothing)?;
        }
        self.replace_spans(permit, sealed, kept)
    }
}
