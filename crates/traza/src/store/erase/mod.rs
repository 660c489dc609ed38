//! Erasure: something is to be forgotten, in every place where the store keeps it
//! (`docs/formats/traza-store-logs.md`, erasure).
//!
//! [`Store::erase`] records the wish and masks what it covers; from then on no answer holds it and nothing of it is taken
//! in. [`Store::resume_erasures`] removes the bytes and settles the wish. Until a settle is durable every step may be
//! repeated, and is, by the next opening of the store.

mod coverage;
mod failure;
mod mask;
mod payloads;
mod purge;
mod receipt;
mod scan;
mod subject;

use std::sync::{Arc, PoisonError};

use super::error::{Result, StoreError};
use super::{Shared, Store, View};
use crate::logs::tombstone::{EraseError, Erasure, Settle, Subject, Tombstones};

use coverage::Coverage;
pub use failure::ErasureFailure;
pub(super) use failure::Failures;
pub(super) use mask::Mask;
pub use receipt::{Domain, Receipt, Standing};

/// What is covered is taken out so often: the second time finds whatever the first could have missed.
const PASSES: usize = 2;

impl Store {
    /// Asks for something to be forgotten, and answers the number of the erasure. A subject that the store knows nothing
    /// of is fine. Times are in nanoseconds since the Unix epoch.
    ///
    /// When it returns, no answer holds the subject any more, and spans and annotations of it that come in are acknowledged
    /// and dropped. Its bytes go with [`Store::resume_erasures`], which the upkeep threads call as well.
    ///
    /// # Errors
    /// [`StoreError::Erase`] for a subject that is not valid, or when the log cannot be written; damage of a segment that had
    /// to be read. The erasure is not acknowledged then; one whose write failed may be pending after a crash.
    ///
    /// # Durability
    /// When it returns `Ok`, the erasure survives a power loss, and is carried out however often the store is stopped.
    pub fn erase(&self, subject: Subject, now_unix_ns: u64) -> Result<u64> {
        self.shared.check_writable()?;
        let subject = subject.canonical().map_err(EraseError::Subject)?;
        let shared = &self.shared;
        let id = {
            // Alone: what is on its way in must be found, or be dropped.
            let _gate = shared.gate_alone();
            let scope = shared.resolve(subject)?;
            let mut tombstones = shared.logs.tombstones();
            let id = tombstones.erase(scope, now_unix_ns)?;
            shared.mask(&tombstones);
            id
        };
        // So that the payloads of a tenant are withheld from now on. What fails is done again before anything goes.
        shared.note_payloads(id).ok();
        shared.work.notify_all();
        Ok(id)
    }

    /// True when the span is of something that is being erased, so that nothing may show it.
    pub fn hides(&self, span: &crate::span::Span) -> bool {
        self.shared.view().mask.hides(span)
    }

    /// All erasures, the oldest first.
    pub fn erasures(&self) -> Vec<Erasure> {
        self.shared.logs.tombstones().all().cloned().collect()
    }

    /// The pending erasures whose last attempt failed, with the reasons: by this process, or by an earlier one that could still
    /// note them.
    pub fn erasure_failures(&self) -> Vec<ErasureFailure> {
        let tombstones = self.shared.logs.tombstones();
        let is_pending = |id| tombstones.pending().any(|erasure| erasure.id == id);
        self.shared.erasure_failures.list(is_pending)
    }

    /// Carries out the pending erasures: removes what they cover, makes a checkpoint, and settles them. Answers how many were
    /// settled. What a pin holds stays; [`Store::receipt`] says so.
    ///
    /// # Errors
    /// The first failure, after all of them were tried: damage of a segment, a failing disk. What is not settled stays pending
    /// and masked.
    pub fn resume_erasures(&self) -> Result<usize> {
        self.shared.check_writable()?;
        self.shared.resume_erasures()
    }

    /// Looks for what an erasure covers in every place where the store could have it. Reads segments, logs and pins.
    ///
    /// # Errors
    /// [`StoreError::NoErasure`]; damage of a segment, a failing disk.
    pub fn receipt(&self, id: u64) -> Result<Receipt> {
        let shared = &self.shared;
        let _maintenance = shared
            .maintenance
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let erasure = shared.logs.tombstones().erasure(id).cloned();
        receipt::of(shared, &erasure.ok_or(StoreError::NoErasure { id })?)
    }
}

impl Shared {
    pub(super) fn resume_erasures(&self) -> Result<usize> {
        let _maintenance = self
            .maintenance
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let pending: Vec<Erasure> = self.logs.tombstones().pending().cloned().collect();
        let mut settled = 0;
        let mut failure = None;
        let mut failures = Vec::new();
        for erasure in &pending {
            match self.meters.erasure.time(|| self.carry_out(erasure)) {
                Ok(()) => {
                    settled += 1;
                    self.meters.erasures_settled.add(1);
                }
                Err(error) => {
                    failures.push(ErasureFailure {
                        id: erasure.id,
                        failed_unix_ns: self.clock.wall_ns(),
                        reason: failure::reason(&error),
                    });
                    failure = failure.or(Some(error));
                }
            }
        }
        self.erasure_failures.set(self.fs(), failures);
        failure.map_or(Ok(settled), Err)
    }

    /// True when there is something for [`resume_erasures`](Self::resume_erasures) to do.
    pub(super) fn has_pending_erasures(&self) -> bool {
        self.logs.tombstones().pending().next().is_some()
    }

    /// Under the maintenance lock.
    fn carry_out(&self, erasure: &Erasure) -> Result<()> {
        // Before anything goes: afterwards nobody knows to what it referred.
        let coverage = self.note_payloads(erasure.id)?;
        let mut settle = Settle::default();
        let mut doomed = coverage.payloads.clone();
        for _ in 0..PASSES {
            let purged = self.purge_spans(&coverage)?;
            settle.spans_removed += purged.removed;
            settle.spans_redacted += purged.redacted;
            doomed.extend(purged.payloads);
            let dropped = self
                .logs
                .annotations()
                .drop_where(|each| coverage.drops_annotation(each))?;
            settle.annotations_removed += dropped as u64;
            if let Subject::Tenant { tenant } = &coverage.subject {
                settle.eval_records_removed +=
                    self.logs.evals().erase_tenant(tenant)?.records_removed;
            }
            let sorted = self.erase_payloads(&coverage, &doomed)?;
            settle.payloads_removed = sorted.removed;
            settle.payloads_retained = sorted.retained;
        }
        self.meters.erased_spans.add(settle.spans_removed);
        // From here on nothing that a manifest lists is written anew.
        settle.generation = self.checkpoint()?.generation;
        settle.settled_unix_ns = self.clock.wall_ns();
        let _gate = self.gate_alone();
        let mut tombstones = self.logs.tombstones();
        tombstones.settle(erasure.id, settle)?;
        self.mask(&tombstones);
        Ok(())
    }

    /// Makes sure that the erasure accounts for all payloads that it may have to remove. Those of a tenant are not listed when
    /// it is asked for: they can be very many, and everybody would wait.
    fn note_payloads(&self, id: u64) -> Result<Coverage> {
        let unknown = || StoreError::NoErasure { id };
        let erasure = self.logs.tombstones().erasure(id).cloned();
        let coverage = Coverage::of(&erasure.ok_or_else(unknown)?);
        let Subject::Tenant { tenant } = &coverage.subject else {
            return Ok(coverage);
        };
        let references = self.references_of_tenant(&coverage, tenant)?;
        let mut tombstones = self.logs.tombstones();
        tombstones.note(id, references)?;
        self.mask(&tombstones);
        Ok(Coverage::of(tombstones.erasure(id).ok_or_else(unknown)?))
    }

    /// Shows readers and writers what is pending now.
    fn mask(&self, tombstones: &Tombstones) {
        let mask = Arc::new(Mask::of(tombstones.pending()));
        let _writer = self.writer();
        let view = self.view();
        self.set_view(View {
            mask,
            ..View::clone(&view)
        });
    }
}
