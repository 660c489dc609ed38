//! Writes segment files: new ones, and others in the place of old ones.

use std::io;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use durable::{Access, Fs, parent_of};

use super::columns::{self, Columns};
use super::error::{During as _, Result, in_segment};
use super::sealed::{Home, Sealed, remove_sidecar};
use super::{Shared, layout};
use crate::llm::Facts;
use crate::record::{Deriver, Record};
use crate::rollup::{Fold, Rollup};
use crate::segment;
use crate::segment::codec::Codec;
use crate::span::Span;

/// Below so many spans a thread costs more than it saves.
const PARALLEL_MIN: usize = 512;
/// A file is synced whenever so many bytes of it were written: a sync of the log, for which batches wait, would wait for all
/// that the disk has to write before it.
const PIECE_LEN: usize = 512 << 10;
/// So many spans are taken from their iterator before they are derived together.
const DERIVED_TOGETHER: usize = 4096;

/// What goes into a segment, and its sums.
pub(super) struct Contents {
    records: Vec<Record>,
    rollup: Rollup,
    codec: Codec,
    columns: Columns,
}

impl Contents {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// From spans in the order of answers.
    pub(super) fn of(
        home: &Home,
        spans: impl IntoIterator<Item = Result<Arc<Span>>>,
    ) -> Result<Self> {
        let mut fold = Fold::new(&home.pricing);
        let mut columns = columns::Builder::default();
        let mut records = Vec::new();
        let mut waiting = Vec::new();
        for span in spans {
            let span = span?;
            let facts = Facts::of(&span);
            fold.push_with(&span, &facts);
            columns.push(&span, &facts);
            waiting.push(span);
            if waiting.len() == DERIVED_TOGETHER {
                records.append(&mut derive_all(&waiting));
                waiting.clear();
            }
        }
        records.append(&mut derive_all(&waiting));
        Ok(Self {
            records,
            rollup: fold.finish(),
            codec: Codec::Lz4,
            columns: columns.finish(),
        })
    }

    /// The same, compressed otherwise.
    pub(super) fn with_codec(self, codec: Codec) -> Self {
        Self { codec, ..self }
    }
}

/// The records of the spans, derived on all cores.
fn derive_all(spans: &[Arc<Span>]) -> Vec<Record> {
    let derive = |spans: &[Arc<Span>]| -> Vec<Record> {
        let mut deriver = Deriver::default();
        spans.iter().map(|span| deriver.derive(span)).collect()
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    if spans.len() < PARALLEL_MIN || threads < 2 {
        return derive(spans);
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = spans
            .chunks(spans.len().div_ceil(threads))
            .map(|share| scope.spawn(move || derive(share)))
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    })
}

impl Shared {
    /// Writes segment `id`, which must not exist yet, durably, and opens it.
    pub(super) fn write_segment(&self, id: u64, contents: Contents) -> Result<Sealed> {
        let fs = self.fs();
        let path = layout::segment_path(&self.home.dir, id);
        if fs.exists(&path).during("look for", &path)? {
            let error = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(error).during("create", &path);
        }
        let written = self.put_segment(id, &path, contents);
        if written.is_err() {
            // Nothing refers to it, but the next opening would.
            fs.remove_file(&path).ok();
        }
        written
    }

    /// Replaces segment `id`, durably, and opens it.
    pub(super) fn rewrite_segment(&self, id: u64, contents: Contents) -> Result<Sealed> {
        let path = layout::segment_path(&self.home.dir, id);
        // First: it could fit the new content by its length and times.
        remove_sidecar(self.fs(), &path)?;
        self.put_segment(id, &path, contents)
    }

    fn put_segment(&self, id: u64, path: &Path, contents: Contents) -> Result<Sealed> {
        let bytes = segment::encode_with_codec(&contents.records, contents.codec)
            .map_err(in_segment(path))?;
        drop(contents.records);
        put(self.fs(), path, &bytes)?;
        self.sync_dir()?;
        let sealed = Sealed::open(&self.home, id)?;
        sealed.keep_rollup(contents.rollup);
        columns::keep(self.fs(), &sealed, &contents.columns);
        Ok(sealed)
    }

    /// Removes the file of a segment and its sidecar. Durable after a sync of the folder.
    pub(super) fn unlink_segment(&self, path: &Path) -> Result<()> {
        remove_sidecar(self.fs(), path)?;
        match self.fs().remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.during("remove", path),
        }
    }

    /// Makes the names in the folder durable.
    pub(super) fn sync_dir(&self) -> Result<()> {
        self.fs()
            .sync_dir(&self.home.dir)
            .during("sync", &self.home.dir)
    }
}

/// Puts synced bytes at `path`, in place of what stands there. The name is durable after a sync of its folder.
pub(super) fn put(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = layout::temporary_path(parent_of(path), layout::file_name(path));
    match fs.remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).during("remove", &temporary);
        }
        _ => {}
    }
    let written = fs
        .create_new(&temporary, Access::Shared)
        .and_then(|mut file| {
            for piece in bytes.chunks(PIECE_LEN) {
                file.append(piece)?;
                // The last one is synced with the file's length.
                if bytes.len() > PIECE_LEN {
                    file.sync_data()?;
                }
            }
            file.sync()
        });
    let placed = written
        .during("write", &temporary)
        .and_then(|()| fs.rename(&temporary, path).during("rename", &temporary));
    if placed.is_err() {
        // Swept at the next opening if not now.
        fs.remove_file(&temporary).ok();
    }
    placed
}
