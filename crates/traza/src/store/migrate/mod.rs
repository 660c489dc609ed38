//! Brings a store of an older release to the present format, when it is opened for writing
//! (`docs/formats/traza-store.md`, migration).
//!
//! Every file is replaced by itself, at once and under its own name, and a file that was replaced tells so by its own
//! bytes: so a migration that was stopped anywhere is gone on with by the next opening. The generation that declares
//! the format is published last. Until then nothing believes the live manifest's digests, which are of the old bytes.

mod blobs;
mod completion;
mod log;
mod pins;
mod segments;

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use durable::{Clock, FileKind, Fs, parent_of};

use super::error::{During as _, Result, StoreError, UnreadableFile};
use super::generation::Manifest;
use super::write::put;
use super::{layout, pin};
use crate::llm::Pricing;
use crate::segment::SegmentError;
use crate::segment::layout::FORMAT_VERSION;

pub(super) use log::adopt as adopt_log;
pub(super) use segments::are_current;

/// So many segments are converted at a time at most: each is in memory several times over.
const TOGETHER_MAX: usize = 4;

/// What a migration has converted. One that goes on with an earlier one counts what that left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// The versions of the segments that were converted.
    pub from: BTreeSet<u16>,
    /// Number of segments that were converted, those of pins included.
    pub segments: usize,
    /// Number of payload blobs that were converted, those of pins included.
    pub blobs: usize,
    /// Number of pins whose manifests were brought up to date.
    pub pins: usize,
}

/// How far a migration has come.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress<'p> {
    /// The file that was looked at last.
    pub path: &'p Path,
    /// Bytes of the files that are done.
    pub done_bytes: u64,
    /// Bytes of all files that are looked at. What is read once more for the manifests is not counted.
    pub total_bytes: u64,
}

/// Told of every file that is done.
pub(super) type Report<'r> = &'r mut dyn FnMut(Progress<'_>);

/// What a migration works with.
pub(super) struct Migration<'m> {
    pub(super) fs: &'m dyn Fs,
    pub(super) clock: &'m dyn Clock,
    pub(super) dir: &'m Path,
    /// What the sidecars of the segments derive costs by.
    pub(super) pricing: &'m Pricing,
}

impl Migration<'_> {
    /// Converts what is not of the present format. Answers the live manifest, which is a new one if there was anything
    /// to do.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] naming all segments and blobs that are of no format that can be converted, and
    /// [`StoreError::Segment`] a damaged one: their bytes stay as they are. [`StoreError::Damaged`] for a pin that is
    /// not as its manifest says.
    pub(super) fn run(
        &self,
        live: Manifest,
        report: Report<'_>,
    ) -> Result<(Manifest, Option<Migrated>)> {
        let folders = self.survey()?;
        let has_older = folders.iter().any(|folder| !folder.older.is_empty());
        let declares = live.segment_format == Some(FORMAT_VERSION);
        let is_needed = has_older || !declares;
        let mut unreadable: Vec<UnreadableFile> = Vec::new();
        if live
            .segment_format
            .is_some_and(|format| format > FORMAT_VERSION)
        {
            let path = layout::manifest_path(self.dir, live.generation);
            let what = "it declares a format of segments that only a newer release reads";
            unreadable.push(UnreadableFile::new(path, &what));
        }
        for folder in &folders {
            // What no migration has to do with is for the opening of the segments to judge.
            if is_needed {
                unreadable.extend(folder.unreadable.iter().cloned());
            }
            let lines = folder.lines.iter().cloned();
            let what =
                "a segment of JSON Lines; only the release that wrote it, 0.3 or older, reads it";
            unreadable.extend(lines.map(|path| UnreadableFile::new(path, &what)));
        }
        refuse(unreadable)?;
        if !is_needed {
            return Ok((live, None));
        }
        for folder in folders.iter().filter(|folder| folder.is_pin) {
            pins::check(self.fs, &folder.path, &folder.older)?;
        }
        let mut work = Work::new(self.fs, &folders, report)?;
        for folder in &folders {
            self.convert(folder, &mut work)?;
        }
        let live = completion::publish(self.fs, self.clock, self.dir, &live)?;
        Ok((live, Some(work.migrated)))
    }

    /// The folder of the store, and those of its pins in the order of their names.
    fn survey(&self) -> Result<Vec<Folder>> {
        let mut folders = vec![Folder::survey(self.fs, self.dir.to_owned(), false)?];
        for path in pin::pin_folders(self.fs, self.dir)? {
            if self.fs.metadata(&path).during("look at", &path)?.kind == FileKind::Directory {
                folders.push(Folder::survey(self.fs, path, true)?);
            }
        }
        Ok(folders)
    }

    fn convert(&self, folder: &Folder, work: &mut Work<'_>) -> Result<()> {
        if folder.is_pin {
            // Those of the store were swept when it was opened.
            layout::sweep_temporaries(self.fs, &folder.path)?;
        }
        // A restored pin gets its sidecars when they are first wanted.
        let pricing = (!folder.is_pin).then_some(self.pricing);
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        for some in folder.older.chunks(cores.min(TOGETHER_MAX)) {
            let paths: Vec<&Path> = some.iter().map(|older| older.path.as_path()).collect();
            let converted = segments::convert_all(self.fs, &paths, pricing);
            for (older, converted) in some.iter().zip(converted) {
                segments::place(self.fs, &older.path, &converted?)?;
                work.migrated.segments += 1;
                work.migrated.from.insert(older.version);
                work.is_done(&older.path, older.len);
            }
        }
        blobs::convert_all(self.fs, &folder.path, work)?;
        if folder.is_pin && pins::renew_manifest(self.fs, &folder.path)? {
            work.migrated.pins += 1;
        }
        Ok(())
    }
}

/// A folder with segments and blobs, as it was found.
struct Folder {
    path: PathBuf,
    is_pin: bool,
    /// Segments of versions 6 and 7, in the order of their names.
    older: Vec<Older>,
    /// Segments of which not even the version can be told, or of versions that cannot be converted.
    unreadable: Vec<UnreadableFile>,
    /// Segments of the time before segments had a format.
    lines: Vec<PathBuf>,
}

/// A segment that has to be converted.
struct Older {
    path: PathBuf,
    version: u16,
    len: u64,
}

impl Folder {
    fn survey(fs: &dyn Fs, path: PathBuf, is_pin: bool) -> Result<Self> {
        let mut folder = Self {
            is_pin,
            older: Vec::new(),
            unreadable: Vec::new(),
            lines: Vec::new(),
            path,
        };
        for path in fs.read_dir(&folder.path).during("list", &folder.path)? {
            let name = layout::file_name(&path);
            if segments::is_lines(name) {
                folder.lines.push(path);
                continue;
            }
            if layout::segment_id(name).is_none() {
                continue;
            }
            let file = fs.open(&path).during("open", &path)?;
            match segments::version_of(file.as_ref(), &path)? {
                Ok(FORMAT_VERSION) => {}
                Ok(version) if segments::is_convertible(version) => {
                    let len = file.len().during("ask the length of", &path)?;
                    folder.older.push(Older { path, version, len });
                }
                Ok(found) => {
                    let newest = FORMAT_VERSION;
                    let error = SegmentError::Version { found, newest };
                    folder.unreadable.push(UnreadableFile::new(path, &error));
                }
                Err(error) => folder.unreadable.push(UnreadableFile::new(path, &error)),
            }
        }
        Ok(folder)
    }
}

/// What is done, and how much there is to do.
struct Work<'r> {
    migrated: Migrated,
    done_bytes: u64,
    total_bytes: u64,
    report: Report<'r>,
}

impl<'r> Work<'r> {
    fn new(fs: &dyn Fs, folders: &[Folder], report: Report<'r>) -> Result<Self> {
        let mut total_bytes: u64 = 0;
        for folder in folders {
            let segments = folder.older.iter().map(|older| older.len);
            total_bytes = segments.fold(total_bytes, u64::saturating_add);
            for path in blobs::list(fs, &folder.path)?.blobs {
                let len = fs.metadata(&path).during("look at", &path)?.len;
                total_bytes = total_bytes.saturating_add(len);
            }
        }
        Ok(Self {
            migrated: Migrated::default(),
            done_bytes: 0,
            total_bytes,
            report,
        })
    }

    fn is_done(&mut self, path: &Path, len: u64) {
        self.done_bytes = self.done_bytes.saturating_add(len);
        (self.report)(Progress {
            path,
            done_bytes: self.done_bytes,
            total_bytes: self.total_bytes,
        });
    }
}

fn refuse(files: Vec<UnreadableFile>) -> Result<()> {
    if files.is_empty() {
        Ok(())
    } else {
        Err(StoreError::Unreadable { files })
    }
}

/// Puts `new` in the place of `old`, the bytes at `path`. A crash leaves the one or the other, whole.
fn replace(fs: &dyn Fs, path: &Path, old: &[u8], new: &[u8]) -> Result<()> {
    put(fs, path, new)?;
    let folder = parent_of(path);
    let synced = fs.sync_dir(folder);
    if synced.is_err() {
        // The name leads to the new bytes now, and after a power loss to the old ones: no later sync is sure to change
        // that. The next opening must not take the file for done, so it finds the old bytes again.
        put(fs, path, old).ok();
    }
    synced.during("sync", folder)
}
