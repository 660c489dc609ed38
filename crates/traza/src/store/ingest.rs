//! Takes spans in.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::buffer::Buffer;
use super::error::{During as _, Result, StoreError};
use super::options::{Durability, Upkeep};
use super::{Shared, Store, View, Writer, blobs};
use crate::payload;
use crate::span::Span;
use crate::wal::{self, PAYLOAD_LEN_MAX};

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingested {
    /// How many spans were taken in.
    pub accepted: usize,
    /// How many were dropped because they are of something that is being erased.
    pub suppressed: usize,
    /// What has happened to them.
    pub durability: Durability,
}

impl Store {
    /// Takes a batch in, all of it or nothing. A span replaces an earlier one with the same tenant, trace id and span id;
    /// within the batch the last one counts. What is being erased is acknowledged and dropped, or stored with a marker in the
    /// place of an erased payload.
    ///
    /// It returns when the batch is as durable as [`StoreOptions::durability`](super::StoreOptions::durability) says;
    /// others can read it then, and maybe a little earlier.
    ///
    /// # Errors
    /// [`StoreError::Span`] when one cannot be stored, [`StoreError::TooLarge`] for a batch beyond a frame of the log:
    /// nothing was taken in. [`StoreError::Io`] and other failures of the disk: the batch is not acknowledged, and may
    /// be there nevertheless; sending it again is harmless.
    pub fn ingest(&self, spans: Vec<Span>) -> Result<Ingested> {
        self.ingest_and(spans, |_| ())
    }

    /// [`Store::ingest`] that shows the spans as they were stored to `acknowledged`, once they are as durable as they have to
    /// be and before it returns.
    ///
    /// # Errors
    /// Those of [`Store::ingest`]; nothing is shown then.
    pub fn ingest_and(
        &self,
        mut spans: Vec<Span>,
        acknowledged: impl FnOnce(&[Arc<Span>]),
    ) -> Result<Ingested> {
        self.shared.check_writable()?;
        for (index, span) in spans.iter().enumerate() {
            span.validate()
                .map_err(|source| StoreError::Span { index, source })?;
        }
        let shared = &self.shared;
        let durability = shared.options.durability;
        let _gate = shared.gate();
        let mask = Arc::clone(&shared.view().mask);
        let suppressed = mask.suppress(&mut spans);
        shared.meters.spans_suppressed.add(suppressed as u64);
        let ingested = Ingested {
            accepted: spans.len(),
            suppressed,
            durability,
        };
        if spans.is_empty() {
            return Ok(ingested);
        }
        if let Some(len_max) = shared.options.payload_threshold {
            for span in &mut spans {
                payload::offload(span, len_max, |address, text| {
                    if mask.erases(address) {
                        return Ok(());
                    }
                    blobs::keep(
                        shared.fs(),
                        &shared.home.dir,
                        &shared.blob_locks,
                        address,
                        text,
                    )
                })?;
            }
        }
        for span in &mut spans {
            mask.redact(span);
        }
        let frame = match durability {
            Durability::Buffered => None,
            Durability::Wal | Durability::Flushed => {
                Some(shared.meters.log_encode.time(|| frame_payload(&spans))?)
            }
        };
        let spans: Vec<Arc<Span>> = spans.into_iter().map(Arc::new).collect();
        let ticket = shared.take_in(&spans, frame.as_deref())?;
        match (durability, ticket) {
            (Durability::Wal, Some(ticket)) => {
                shared.meters.log_commits.add(1);
                let wait = || shared.wait_for(ticket);
                shared.meters.commit_wait.time(wait)?;
            }
            (Durability::Flushed, _) => {
                shared.seal()?;
            }
            _ => {}
        }
        shared.meters.batches_admitted.add(1);
        shared.meters.spans_admitted.add(spans.len() as u64);
        acknowledged(&spans);
        if shared.options.upkeep == Upkeep::Inline && durability != Durability::Flushed {
            shared.seal_when_due()?;
        }
        Ok(ingested)
    }

    /// Seals what is buffered: afterwards it is in a segment. Answers how many spans.
    ///
    /// # Errors
    /// What kept the segment from being written; the spans stay buffered, and in the log.
    pub fn flush(&self) -> Result<usize> {
        self.shared.seal()
    }
}

/// The payload of a frame: the array of the spans.
fn frame_payload<'s, S>(spans: impl IntoIterator<Item = &'s S>) -> Result<Vec<u8>>
where
    S: std::borrow::Borrow<Span> + 's,
{
    let mut text = String::from("[");
    for (index, span) in spans.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        span.borrow().write(&mut text);
        // Not only in the end: it is memory.
        if text.len() as u64 >= PAYLOAD_LEN_MAX {
            return Err(StoreError::TooLarge {
                what: "batch",
                len: text.len() as u64,
                max: PAYLOAD_LEN_MAX,
            });
        }
    }
    text.push(']');
    Ok(text.into_bytes())
}

impl Shared {
    /// Appends the frame and shows the spans to readers. Answers the ticket of the frame.
    fn take_in(&self, spans: &[Arc<Span>], frame: Option<&[u8]>) -> Result<Option<u64>> {
        let asked = Instant::now();
        let mut writer = self.meters.writer_wait.time(|| self.writer());
        if self.options.upkeep == Upkeep::Background {
            writer = self.wait_for_room(writer, spans.len())?;
        }
        let ticket = match (frame, writer.log.is_some()) {
            (Some(frame), true) => {
                let append = || self.append(&mut writer, frame);
                let ticket = self.meters.log_write.time(append)?;
                self.meters.log_turn.record(asked.elapsed());
                Some(ticket)
            }
            _ => None,
        };
        let began = Instant::now();
        let mut view = View::clone(&self.view());
        writer.taken_in = writer.taken_in.saturating_add(spans.len());
        writer.oldest_ns.get_or_insert_with(|| self.clock.mono_ns());
        view.buffer.upsert_all(spans.iter().cloned());
        let is_due = self.is_due(&writer, &view.buffer);
        self.set_view(view);
        drop(writer);
        self.meters.upsert.record(began.elapsed());
        if is_due {
            self.work.notify_all();
        }
        Ok(ticket)
    }

    /// Waits while the buffer is so full that memory counts, and fails when it cannot be sealed. From half of that on
    /// batches take turns, about as quickly as they are sealed.
    fn wait_for_room<'w>(
        &'w self,
        mut writer: std::sync::MutexGuard<'w, Writer>,
        spans: usize,
    ) -> Result<std::sync::MutexGuard<'w, Writer>> {
        let failures = writer.failures;
        let max = self.options.buffer_max();
        let filled = || self.options.filled(&self.view().buffer);
        let over = || filled().saturating_sub(max / 2);
        if over() > 0 && over() < max / 2 && writer.failure.is_none() {
            let mut now = Instant::now();
            let slot = writer.pacing.slot(spans, over(), max / 2, now);
            while now < slot && over() > 0 {
                let (later, _) = self
                    .sealed
                    .wait_timeout(writer, slot - now)
                    .unwrap_or_else(PoisonError::into_inner);
                writer = later;
                now = Instant::now();
            }
            if over() == 0 {
                writer.pacing.release();
            }
        }
        while filled() >= max {
            if writer.failures > failures {
                return Err(StoreError::Invalid {
                    what: format!(
                        "the buffer is full and cannot be sealed: {}",
                        writer.failure.as_deref().unwrap_or("unknown reason")
                    ),
                });
            }
            self.work.notify_all();
            writer = self
                .sealed
                .wait(writer)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(writer)
    }

    fn append(&self, writer: &mut Writer, frame: &[u8]) -> Result<u64> {
        let path = self.log_path();
        if writer.log.as_ref().is_some_and(wal::Log::is_broken) {
            self.rewrite_log(writer, &self.view().buffer)?;
        }
        if let Some(log) = &mut writer.log {
            log.append(frame).during("append to", &path)?;
        }
        Ok(self.commit.ticket())
    }

    /// Puts exactly the spans of `buffer` into the log. Under the writer's lock.
    pub(super) fn rewrite_log(&self, writer: &mut Writer, buffer: &Buffer) -> Result<()> {
        let path = self.log_path();
        let spans = buffer.by_arrival();
        let payload = if spans.is_empty() {
            None
        } else {
            Some(frame_payload(spans)?)
        };
        if let Some(log) = &mut writer.log {
            let fs = self.fs();
            log.rewrite(fs, payload.as_deref())
                .during("rewrite", &path)?;
            self.commit.adopt(log.for_sync(fs).during("open", &path)?);
        }
        Ok(())
    }

    /// Writes a broken log anew while what belongs into it is at hand. What fails here leaves unacknowledged bytes only.
    pub(super) fn mend_log(&self) {
        let mut writer = self.writer();
        if writer.log.as_ref().is_some_and(wal::Log::is_broken) {
            self.rewrite_log(&mut writer, &self.view().buffer).ok();
        }
    }

    fn wait_for(&self, ticket: u64) -> Result<()> {
        let synced = self.commit.wait(ticket, self.options.commit_window);
        if synced.is_err()
            && let Some(log) = &mut self.writer().log
        {
            log.set_broken();
        }
        synced.during("sync", &self.log_path())
    }
}
