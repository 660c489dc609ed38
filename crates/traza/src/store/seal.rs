//! Turns the buffered spans into a segment, while others go on reading and writing.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use super::buffer::Buffer;
use super::error::{During as _, Result};
use super::options::Upkeep;
use super::sealed::Sealed;
use super::write::Contents;
use super::{Shared, View, Writer};
use crate::wal::{self, Stamp};

/// The log is shortened as soon as so many bytes of it or fewer came while others were copied.
const COPIED_LOCKED: u64 = 256 << 10;
/// It is copied so often at most without the lock: whoever writes quicker than that has to wait a little.
const COPIES_MAX: usize = 4;

/// What spans take in memory, in bytes, when they are sealed although there are few of them.
const SEALED_MEMORY: usize = 16 << 20;

/// What a seal has taken out of the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drained {
    /// How many spans.
    pub(super) spans: usize,
    /// The last frame of the log whose spans are in segments now; `None` for a store without a log.
    pub(super) fold: Option<Stamp>,
}

/// Why a buffer should be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// So many spans, so much memory of theirs, or so many bytes of the log.
    Size,
    /// What came first has been there for too long.
    Age,
}

impl Shared {
    /// Seals all buffered spans. Answers how many.
    ///
    /// Crash points: before the rename there is a temporary file, which the next opening sweeps. Between the rename and
    /// the cut of the log the spans are in both; replaying the log brings the same spans again, and the newer copy counts.
    pub(super) fn seal(&self) -> Result<usize> {
        let at_once = self.permit.try_lock().ok();
        let has_waited = at_once.is_none();
        let permit = at_once.unwrap_or_else(|| self.permit());
        let sealed = self.seal_under(&permit)?.spans;
        if has_waited && sealed == 0 {
            self.meters.seals_coalesced.add(1);
        }
        Ok(sealed)
    }

    pub(super) fn permit(&self) -> MutexGuard<'_, ()> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`seal`](Self::seal) for a caller that has the permit.
    pub(super) fn seal_under(&self, _permit: &MutexGuard<'_, ()>) -> Result<Drained> {
        self.check_writable()?;
        let (layer, id, fold, logged) = {
            let mut writer = self.writer();
            let mut view = View::clone(&self.view());
            let fold = writer.log.as_ref().map(wal::Log::last);
            if view.buffer.is_empty() {
                return Ok(Drained { spans: 0, fold });
            }
            // Claimed here: a later seal gets a higher name, also when this one fails.
            let id = writer.next_segment;
            writer.next_segment = id.saturating_add(1);
            let layer = view.buffer.freeze();
            self.set_view(view);
            (layer, id, fold, writer.log.as_ref().map(wal::Log::end))
        };
        let began = Instant::now();
        let contents = Contents::of(
            &self.home,
            layer.in_order().map(|span| Ok(Arc::clone(span))),
        );
        let sealed = contents.and_then(|contents| self.write_segment(id, contents));
        let mut writer = self.writer();
        let result = sealed.map(|sealed| {
            let adopt = || self.adopt(&mut writer, sealed);
            self.meters.seal_locked.time(adopt);
            let took = began.elapsed();
            writer.pacing.note_sealed(layer.len(), took);
            self.meters.seal.record(took);
            self.meters.sealed_spans.add(layer.len() as u64);
            Drained {
                spans: layer.len(),
                fold,
            }
        });
        if result.is_err() {
            let mut view = View::clone(&self.view());
            view.buffer.thaw();
            self.set_view(view);
        }
        match &result {
            Ok(_) => writer.failure = None,
            Err(error) => {
                writer.failures = writer.failures.saturating_add(1);
                writer.failure = Some(error.to_string());
            }
        }
        if result.is_ok() {
            writer.sealed_up_to = logged;
            writer.is_trim_due = self.is_log_long(&writer);
        }
        drop(writer);
        self.sealed.notify_all();
        if self.options.upkeep == Upkeep::Inline {
            self.trim_log();
        }
        result
    }

    /// Takes out of a long log what is in segments. Not by the thread that seals: batches would wait for that.
    pub(super) fn trim_log(&self) {
        let sealed = {
            let mut writer = self.writer();
            let is_due = std::mem::take(&mut writer.is_trim_due);
            writer.sealed_up_to.filter(|_| is_due)
        };
        if let Some(sealed) = sealed {
            // When this fails the log only holds more than it must, or is rewritten before it is next used.
            self.trim_log_to(sealed).ok();
        }
    }

    /// Takes the frames before `sealed` out of the log. Batches wait only for the last piece of what is left to be copied.
    fn trim_log_to(&self, sealed: wal::Place) -> Result<()> {
        let (fs, path) = (self.fs(), self.log_path());
        let end = || self.writer().log.as_ref().map(wal::Log::end);
        let tail = {
            let writer = self.writer();
            let begun = writer.log.as_ref().map(|log| log.copy_behind(fs, sealed));
            begun.transpose().during("copy", &path)?.flatten()
        };
        let Some(mut tail) = tail else {
            return Ok(());
        };
        for _ in 0..COPIES_MAX {
            let Some(end) = end() else {
                break;
            };
            if tail.copy_up_to(end).during("copy", &path)? <= COPIED_LOCKED {
                break;
            }
        }
        let mut writer = self.writer();
        let mut replaced = None;
        if let Some(log) = &mut writer.log {
            replaced = log.replace(fs, tail).during("replace", &path)?;
            if replaced.is_some() {
                self.commit.adopt(log.for_sync(fs).during("open", &path)?);
            }
        }
        // Without the lock: it takes time.
        drop(writer);
        drop(replaced);
        Ok(())
    }

    /// True when the log should be shortened.
    fn is_log_long(&self, writer: &Writer) -> bool {
        let limit = self.options.flush_wal_bytes;
        let frames_len = writer.log.as_ref().map_or(0, wal::Log::frames_len);
        limit > 0 && frames_len >= limit
    }

    /// Shows the segment instead of the buffered spans that are in it, and shortens the log. Batches wait for it, so it
    /// takes no longer for many spans than for few.
    fn adopt(&self, writer: &mut Writer, sealed: Sealed) {
        let began = Instant::now();
        let mut view = View::clone(&self.view());
        let mut segments: Vec<Arc<Sealed>> = view.segments.to_vec();
        segments.push(Arc::new(sealed));
        view.segments = segments.into();
        view.buffer.settle();
        let is_empty = view.buffer.is_empty();
        writer.taken_in = view.buffer.len();
        writer.oldest_ns = (!is_empty).then(|| self.clock.mono_ns());
        self.set_view(view);
        self.meters.seal_reconcile.record(began.elapsed());
        // When this fails the log only holds more than it must, or is rewritten before it is next used.
        if is_empty
            && let Some(log) = &mut writer.log
            && log.reset().is_ok()
        {
            self.commit.all_durable();
        }
    }

    /// True when the buffer should be sealed. Under the writer's lock.
    pub(super) fn is_due(&self, writer: &Writer, buffer: &Buffer) -> bool {
        self.why_due(writer, buffer).is_some()
    }

    /// Why the buffer should be sealed, if it should. Under the writer's lock.
    pub(super) fn why_due(&self, writer: &Writer, buffer: &Buffer) -> Option<Due> {
        let options = &self.options;
        let buffered = buffer.len();
        // What is in segments and was not yet taken out is no reason to seal again.
        let log = writer.log.as_ref();
        let log_len = log.map_or(0, |log| log.len_behind(writer.sealed_up_to));
        let is_full = options.flush_spans > 0
            && (buffered >= options.flush_spans
                || writer.taken_in >= options.flush_spans
                || buffer.young_memory_len() >= SEALED_MEMORY);
        let is_long = options.flush_wal_bytes > 0 && log_len >= options.flush_wal_bytes;
        if buffered == 0 {
            None
        } else if is_full || is_long {
            Some(Due::Size)
        } else {
            self.is_old(writer).then_some(Due::Age)
        }
    }

    fn is_old(&self, writer: &Writer) -> bool {
        match (writer.oldest_ns, self.options.max_buffer_age) {
            (Some(oldest), Some(age)) => {
                u128::from(self.clock.mono_ns().saturating_sub(oldest)) >= age.as_nanos()
            }
            _ => false,
        }
    }

    /// Seals when the buffer is full, long in the log, or old.
    pub(super) fn seal_when_due(&self) -> Result<usize> {
        let is_due = {
            let writer = self.writer();
            self.is_due(&writer, &self.view().buffer)
        };
        if is_due { self.seal() } else { Ok(0) }
    }
}
