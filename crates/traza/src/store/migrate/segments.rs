//! Segments of versions 6 and 7, written again as the present version under the same name: the order of the names says
//! which version of a span is the newest.

use std::panic::resume_unwind;
use std::path::Path;

use durable::{Fs, FsFile, read_all};

use super::{put, replace};
use crate::llm::Pricing;
use crate::migration::{self, v6, v7};
use crate::rollup::{self, Binding};
use crate::segment::layout::FORMAT_VERSION;
use crate::segment::{self, Segment, SegmentError};
use crate::span::Span;
use crate::store::error::{During as _, Result, StoreError, in_segment};
use crate::store::layout;

/// The longest prefix of a segment that tells its version.
const VERSION_LEN: usize = 10;

const LINES_SUFFIX: &str = ".jsonl";

/// True for the name of a segment of release 0.3 or older.
pub(super) fn is_lines(name: &str) -> bool {
    name.starts_with("segment-") && name.ends_with(LINES_SUFFIX)
}

/// True for the versions that there is a decoder of.
pub(super) fn is_convertible(version: u16) -> bool {
    matches!(version, v6::VERSION | v7::VERSION)
}

/// The version that a segment declares, or why there is none.
pub(super) fn version_of(
    file: &dyn FsFile,
    path: &Path,
) -> Result<std::result::Result<u16, SegmentError>> {
    let mut start = [0; VERSION_LEN];
    let mut len = 0;
    while let Some(rest) = start.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match file.read_at(len as u64, rest).during("read", path)? {
            0 => break,
            read => len += read,
        }
    }
    Ok(migration::version_of(start.get(..len).unwrap_or_default()))
}

/// True when every segment in the folder declares the present version.
pub(in crate::store) fn are_current(fs: &dyn Fs, dir: &Path) -> Result<bool> {
    for path in fs.read_dir(dir).during("list", dir)? {
        let name = layout::file_name(&path);
        let is_current = if layout::segment_id(name).is_some() {
            let file = fs.open(&path).during("open", &path)?;
            matches!(version_of(file.as_ref(), &path)?, Ok(FORMAT_VERSION))
        } else {
            !is_lines(name)
        };
        if !is_current {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A segment that is ready to take the place of another.
pub(super) struct Converted {
    old: Vec<u8>,
    new: Vec<u8>,
    sidecar: Option<Vec<u8>>,
}

/// Converts some segments, on a thread for each, with their sidecars when there are prices for them. Nothing is written.
pub(super) fn convert_all(
    fs: &dyn Fs,
    paths: &[&Path],
    pricing: Option<&Pricing>,
) -> Vec<Result<Converted>> {
    // One after the other: a disk is no quicker with several readers, and what fails is the same each time.
    let read = |path: &&Path| read_all(fs, path, u64::MAX).during("read", path);
    let read: Vec<Result<Vec<u8>>> = paths.iter().map(read).collect();
    std::thread::scope(|scope| {
        let jobs = paths.iter().zip(read);
        let threads: Vec<_> = jobs
            .map(|(path, old)| scope.spawn(move || convert(path, old?, pricing)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}

/// The new segment is read back whole.
fn convert(path: &Path, old: Vec<u8>, pricing: Option<&Pricing>) -> Result<Converted> {
    let records = migration::records(&old).map_err(in_segment(path))?;
    let new = segment::encode(&records).map_err(in_segment(path))?;
    let record_count = records.len();
    drop(records);
    let segment = Segment::from_bytes(new.clone()).map_err(in_segment(path))?;
    if segment.record_count() != record_count {
        return Err(StoreError::Damaged {
            path: path.to_owned(),
            offset: None,
            what: format!(
                "{record_count} records were converted, and {} came back; the file was left as it is",
                segment.record_count()
            ),
        });
    }
    let sidecar = pricing.and_then(|pricing| sidecar_of(&segment, pricing));
    Ok(Converted { old, new, sidecar })
}

/// Puts a segment, and its sidecar, in the place of the one at `path`.
pub(super) fn place(fs: &dyn Fs, path: &Path, converted: &Converted) -> Result<()> {
    replace(fs, path, &converted.old, &converted.new)?;
    if let Some(sidecar) = &converted.sidecar {
        // It is only a cache, and one of the old segment does not pass for one of the new.
        put(fs, &path.with_extension("rollup"), sidecar).ok();
    }
    Ok(())
}

fn sidecar_of(segment: &Segment, pricing: &Pricing) -> Option<Vec<u8>> {
    let mut fold = rollup::Fold::new(pricing);
    for record in segment.scan() {
        fold.push(&Span::from_json(record.ok()?.payload()).ok()?);
    }
    let binding = Binding::of(segment.header(), segment.file_len(), pricing);
    Some(rollup::encode(&fold.finish(), &binding))
}
