//! What is in the folder of a store: for those who want to know where the bytes are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{FileKind, Fs, SystemClock};

use super::error::{During as _, Result};
use super::generation::Manifest;
use super::{Pin, Store, StoreOptions, layout, leftovers, lock};
use crate::segment::codec::Codec;
use crate::wal;

/// A segment of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFacts {
    /// Its id; a higher one is newer.
    pub id: u64,
    /// Its file.
    pub path: PathBuf,
    /// Length of the file in bytes.
    pub file_len: u64,
    /// Number of records, older versions of spans included.
    pub record_count: u64,
    /// Length of the records before compression, in bytes.
    pub logical_len: u64,
    /// How they are compressed.
    pub codec: Codec,
    /// Start of the first and the last record, in nanoseconds since the Unix epoch.
    pub timestamps: (u64, u64),
}

/// What the folder of a store holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreSurvey {
    /// The generation that is live; 0 when there never was one.
    pub generation: u64,
    /// Its manifest.
    pub manifest: Option<Manifest>,
    /// The process that writes the store now, as far as its lock tells.
    pub writer: Option<u32>,
    /// The segments, the oldest first.
    pub segments: Vec<SegmentFacts>,
    /// Spans that only the log holds.
    pub logged_spans: usize,
    /// Bytes by what they are: segments, sidecars, log, payloads, logs of lines, manifests, pins beyond what they share
    /// with the store by name, and everything else.
    pub bytes: Vec<(&'static str, u64, u64)>,
    /// The pins, by name.
    pub pins: Vec<Pin>,
    /// Work that was begun and not ended.
    pub pending: Vec<PathBuf>,
}

impl StoreSurvey {
    /// Bytes of all files but the pins.
    pub fn file_len(&self) -> u64 {
        let own = self.bytes.iter().filter(|(what, _, _)| *what != PINS);
        own.map(|(_, _, len)| len).sum()
    }
}

const PINS: &str = "pins";

/// Looks through the folder of a store without changing it, beside its writer.
///
/// # Errors
/// Those of [`Store::open_read_only`].
pub fn survey(fs: &Arc<dyn Fs>, dir: &Path) -> Result<StoreSurvey> {
    let clock = Arc::new(SystemClock::start());
    let store = Store::open_read_only_with(Arc::clone(fs), clock, dir, StoreOptions::default())?;
    let fs = fs.as_ref();
    let view = store.shared.view();
    let generation = store.opened().generation;
    let mut survey = StoreSurvey {
        generation,
        manifest: match generation {
            0 => None,
            id => Some(Manifest::read(fs, dir, id)?),
        },
        writer: lock::holder(fs, dir),
        segments: view
            .segments
            .iter()
            .map(|sealed| {
                let header = sealed.segment().header();
                SegmentFacts {
                    id: sealed.id(),
                    path: sealed.path().to_owned(),
                    file_len: sealed.segment().file_len(),
                    record_count: header.record_count,
                    logical_len: header.logical_len,
                    codec: header.codec,
                    timestamps: (header.min_timestamp, header.max_timestamp),
                }
            })
            .collect(),
        logged_spans: view.buffer.len(),
        pins: store.pins()?,
        ..StoreSurvey::default()
    };
    for path in fs.read_dir(dir).during("list", dir)? {
        let name = layout::file_name(&path);
        let what = match name {
            wal::FILE_NAME => "log",
            "payloads" => "payloads",
            "generations" => "manifests",
            "pins" => PINS,
            _ if layout::segment_id(name).is_some() => "segments",
            _ if layout::is_sidecar(name) => "rollups",
            _ if layout::is_log(name) => "annotations, evals and erasures",
            _ => "other",
        };
        let is_unfinished = layout::is_merge_journal(name)
            || layout::is_temporary(name)
            || name.starts_with(".restore.");
        if is_unfinished {
            survey.pending.push(path.clone());
        }
        let (files, len) = measure(fs, &path)?;
        match survey.bytes.iter_mut().find(|(known, _, _)| *known == what) {
            Some((_, count, sum)) => {
                *count += files;
                *sum += len;
            }
            None => survey.bytes.push((what, files, len)),
        }
    }
    survey
        .pending
        .extend(leftovers::unfinished_payloads(fs, dir)?);
    survey
        .bytes
        .sort_unstable_by_key(|(_, _, len)| std::cmp::Reverse(*len));
    Ok(survey)
}

/// Files and bytes at and below a path. What vanishes meanwhile counts nothing.
fn measure(fs: &dyn Fs, path: &Path) -> Result<(u64, u64)> {
    let found = match fs.metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((0, 0)),
        other => other.during("look at", path)?,
    };
    if found.kind != FileKind::Directory {
        return Ok((1, found.len));
    }
    let (mut files, mut len) = (0, 0);
    for entry in fs.read_dir(path).during("list", path)? {
        let (more, longer) = measure(fs, &entry)?;
        files += more;
        len += longer;
    }
    Ok((files, len))
}
