//! Where columns come from: memory, the file beside the segment, or the segment itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use durable::{Access, Fs, read_all};

use super::build::Builder;
use super::layout::{COLUMN_COUNT, WORD_LEN_MAX, prologue};
use super::{Binding, Columns, decode, encode};
use crate::llm::Facts;
use crate::store::Shared;
use crate::store::error::Result;
use crate::store::layout;
use crate::store::sealed::Sealed;

/// So many bytes of columns are kept in memory for further questions.
const RESIDENT_LEN_MAX: usize = 256 << 20;

/// The columns that are in memory, those that were used last at the end.
#[derive(Debug, Default)]
pub(in crate::store) struct ColumnFiles {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    len: usize,
    entries: VecDeque<(u64, Binding, Arc<Columns>)>,
}

impl Held {
    fn take(&mut self, id: u64, binding: &Binding) -> Option<Arc<Columns>> {
        let is_it = |entry: &(u64, Binding, _)| entry.0 == id && entry.1 == *binding;
        let entry = self.entries.iter().position(is_it)?;
        let entry = self.entries.remove(entry)?;
        let columns = Arc::clone(&entry.2);
        self.entries.push_back(entry);
        Some(columns)
    }

    fn put(&mut self, id: u64, binding: Binding, columns: Arc<Columns>) {
        if self.take(id, &binding).is_some() {
            // Somebody else was quicker.
            return;
        }
        self.len += columns.resident_len();
        self.entries.push_back((id, binding, columns));
        while self.len > RESIDENT_LEN_MAX
            && let Some((_, _, oldest)) = self.entries.pop_front()
        {
            self.len = self.len.saturating_sub(oldest.resident_len());
        }
    }
}

impl Shared {
    /// The columns of a segment. Makes and keeps them when they are not there, or not as they were written.
    pub(in crate::store) fn columns(&self, sealed: &Sealed) -> Result<Arc<Columns>> {
        let binding = Binding::of(sealed.segment());
        let held = || {
            self.columns
                .held
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(columns) = held().take(sealed.id(), &binding) {
            return Ok(columns);
        }
        let fs = self.fs();
        let columns = if let Some(columns) = read(fs, sealed, &binding) {
            columns
        } else {
            let columns = build(sealed)?;
            self.keep_columns(sealed, &encode(&columns, &binding));
            columns
        };
        let columns = Arc::new(columns);
        held().put(sealed.id(), binding, Arc::clone(&columns));
        Ok(columns)
    }
}

impl Shared {
    /// Writes the columns of a segment that is still shown. Of one that was replaced nothing may come back to the disk;
    /// under the permit no segment is replaced.
    fn keep_columns(&self, sealed: &Sealed, bytes: &[u8]) {
        if !self.home.is_writable {
            return;
        }
        let Ok(_permit) = self.permit.try_lock() else {
            return;
        };
        let view = self.view();
        if view
            .segments
            .iter()
            .any(|now| std::ptr::eq(now.as_ref(), sealed))
        {
            write(self.fs(), sealed, bytes);
        }
    }
}

/// Puts the columns of a segment that nobody else sees yet beside it.
pub(in crate::store) fn keep(fs: &dyn Fs, sealed: &Sealed, columns: &Columns) {
    let binding = Binding::of(sealed.segment());
    write(fs, sealed, &encode(columns, &binding));
}

fn read(fs: &dyn Fs, sealed: &Sealed, binding: &Binding) -> Option<Columns> {
    // The texts are parts of the records.
    let words = binding
        .record_count
        .saturating_mul(COLUMN_COUNT as u64 * WORD_LEN_MAX);
    let texts = sealed.segment().header().logical_len.saturating_mul(2);
    let len_max = words
        .saturating_add(texts)
        .saturating_add(prologue::LEN as u64 + 1_024);
    let bytes = read_all(fs, &layout::columns_path(sealed.path()), len_max).ok()?;
    decode(&bytes, binding).ok()
}

fn build(sealed: &Sealed) -> Result<Columns> {
    let mut builder = Builder::default();
    for record in sealed.segment().scan() {
        let record = record.map_err(sealed.error())?;
        let span = sealed.span(record.ordinal(), record.payload())?;
        builder.push(&span, &Facts::of(&span));
    }
    Ok(builder.finish())
}

/// Not synced: its checksum tells whether it is whole. When it cannot be written it is made again next time.
fn write(fs: &dyn Fs, sealed: &Sealed, bytes: &[u8]) {
    let path = layout::columns_path(sealed.path());
    let temporary = layout::temporary_path(durable::parent_of(&path), layout::file_name(&path));
    let written = fs
        .create_new(&temporary, Access::Shared)
        .and_then(|mut file| file.append(bytes))
        .and_then(|()| fs.rename(&temporary, &path));
    if written.is_err() {
        fs.remove_file(&temporary).ok();
    }
}
