//! Names in the folder of a store (`docs/formats/traza-store.md`, the folder).

use std::path::{Path, PathBuf};

use super::error::{During as _, Result};
use durable::{FileKind, Fs};

const SEGMENT_PREFIX: &str = "segment-";
const SEGMENT_SUFFIX: &str = ".seg";
const SIDECAR_SUFFIXES: [&str; 2] = [".rollup", ".columns"];
const SEGMENT_DIGITS: usize = 20;

/// The logs that are only appended to.
pub(crate) const LOGS: [&str; 3] = ["annotations.jsonl", "evals.jsonl", "tombstones.jsonl"];

/// `CURRENT`.
pub(crate) fn current_path(dir: &Path) -> PathBuf {
    dir.join("CURRENT")
}

/// The manifest of a generation.
pub(crate) fn manifest_path(dir: &Path, generation: u64) -> PathBuf {
    dir.join("generations")
        .join(generation.to_string())
        .join("state-manifest.json")
}

/// The folder of the blobs.
pub(crate) fn payloads_path(dir: &Path) -> PathBuf {
    dir.join("payloads")
}

/// The segment with this id.
pub(crate) fn segment_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!(
        "{SEGMENT_PREFIX}{id:0SEGMENT_DIGITS$}{SEGMENT_SUFFIX}"
    ))
}

/// The sidecar of the segment at `path`.
pub(crate) fn sidecar_path(path: &Path) -> PathBuf {
    path.with_extension("rollup")
}

/// The columns of the segment at this path.
pub(crate) fn columns_path(segment: &Path) -> PathBuf {
    segment.with_extension("columns")
}

/// Where a file that will be `name` is prepared; swept when a crash leaves it behind.
pub(crate) fn temporary_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!(".{name}.{}.tmp", std::process::id()))
}

/// The last part of a path; empty when it is no text.
pub(crate) fn file_name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

/// The id in the name of a segment.
pub(crate) fn segment_id(name: &str) -> Option<u64> {
    let digits = name
        .strip_prefix(SEGMENT_PREFIX)?
        .strip_suffix(SEGMENT_SUFFIX)?;
    let is_id = digits.len() == SEGMENT_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_id.then(|| digits.parse().ok()).flatten()
}

/// True for the name of a sidecar, which can be made again.
pub(crate) fn is_sidecar(name: &str) -> bool {
    let mut suffixes = SIDECAR_SUFFIXES.into_iter();
    name.starts_with(SEGMENT_PREFIX) && suffixes.any(|suffix| name.ends_with(suffix))
}

/// True for the name of a log that is only appended to.
pub(crate) fn is_log(name: &str) -> bool {
    LOGS.contains(&name)
}

/// True for a file that is being prepared.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.ends_with(durable::TEMPORARY_SUFFIX)
}

/// The segment files in the folder, the oldest first.
pub(crate) fn segments(fs: &dyn Fs, dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut segments = Vec::new();
    for path in fs.read_dir(dir).during("list", dir)? {
        if let Some(id) = segment_id(file_name(&path)) {
            segments.push((id, path));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

/// Removes what unfinished writes of an earlier process have left in the folder. Answers how many files.
pub(crate) fn sweep_temporaries(fs: &dyn Fs, dir: &Path) -> Result<usize> {
    let mut count = 0;
    for path in fs.read_dir(dir).during("list", dir)? {
        let name = file_name(&path);
        if !name.starts_with('.') || !is_temporary(name) {
            continue;
        }
        if fs.metadata(&path).during("look at", &path)?.kind == FileKind::File {
            fs.remove_file(&path).during("remove", &path)?;
            count += 1;
        }
    }
    Ok(count)
}

/// Removes a folder with everything in it, or a file. What is missing is fine.
pub(crate) fn remove_all(fs: &dyn Fs, path: &Path) -> std::io::Result<()> {
    let is_missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    let found = match fs.metadata(path) {
        Err(error) if is_missing(&error) => return Ok(()),
        other => other?,
    };
    if found.kind != FileKind::Directory {
        return match fs.remove_file(path) {
            Err(error) if is_missing(&error) => Ok(()),
            other => other,
        };
    }
    for entry in fs.read_dir(path)? {
        remove_all(fs, &entry)?;
    }
    fs.remove_dir(path)
}

/// The name of the journal of a merge whose first output is `segment`.
pub(crate) fn merge_journal_name(segment: &str) -> String {
    format!(".supersede.{segment}.journal")
}

/// True for the name of a journal of a merge.
pub(crate) fn is_merge_journal(name: &str) -> bool {
    name.starts_with(".supersede.") && name.ends_with(".journal")
}
