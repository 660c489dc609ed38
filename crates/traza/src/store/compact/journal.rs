//! The journal of a merge, and what an opening makes of one (`docs/formats/traza-store.md`, merge journal).

use std::io;
use std::path::{Path, PathBuf};

use durable::{Access, Fs, read_all};

use super::damaged_journal;
use crate::segment::Segment;
use crate::store::error::{During as _, Result};
use crate::store::layout;
use crate::store::sealed::remove_sidecar;

const INPUTS: &str = "inputs ";
const OUTPUTS: &str = "outputs ";
/// A name takes 30 bytes.
const LEN_MAX: u64 = 64 << 20;

/// A merge that is under way.
pub(super) struct Journal {
    path: PathBuf,
}

impl Journal {
    /// Says, durably, which segments replace which.
    pub(super) fn write(
        fs: &dyn Fs,
        dir: &Path,
        inputs: &[&Path],
        outputs: &[PathBuf],
    ) -> Result<Self> {
        let names = |paths: &mut dyn Iterator<Item = &Path>| -> String {
            paths.map(layout::file_name).collect::<Vec<_>>().join(",")
        };
        let first = outputs.first().map(|path| layout::file_name(path));
        let path = dir.join(layout::merge_journal_name(first.unwrap_or_default()));
        let text = format!(
            "{INPUTS}{}\n{OUTPUTS}{}\n",
            names(&mut inputs.iter().copied()),
            names(&mut outputs.iter().map(PathBuf::as_path))
        );
        let written = fs
            .create_new(&path, Access::Shared)
            .and_then(|mut file| {
                file.append(text.as_bytes())?;
                file.sync()
            })
            .and_then(|()| fs.sync_dir(dir));
        if written.is_err() {
            // Whole or in part, it would name files that are not there.
            fs.remove_file(&path).ok();
        }
        written.during("write", &path)?;
        Ok(Self { path })
    }

    /// The merge has come to its end, and its folder was synced.
    pub(super) fn remove(self, fs: &dyn Fs) -> Result<()> {
        fs.remove_file(&self.path).during("remove", &self.path)
    }
}

/// Brings every merge that was interrupted to one of its two ends. Answers how many there were.
///
/// All outputs are there: the inputs go. Some are missing: the outputs go, unless an input is missing too, since then
/// the inputs were being removed. Contents are not compared.
pub(crate) fn recover(fs: &dyn Fs, dir: &Path) -> Result<usize> {
    let mut count = 0;
    for path in fs.read_dir(dir).during("list", dir)? {
        if !layout::is_merge_journal(layout::file_name(&path)) {
            continue;
        }
        count += 1;
        let (inputs, outputs) = read(fs, dir, &path)?;
        if !outputs.is_empty() {
            let opens = |path: &PathBuf| Segment::open(fs, path).is_ok();
            let are_written = outputs.iter().all(opens);
            let has_all_inputs = all_exist(fs, &inputs)?;
            let superfluous = if are_written || !has_all_inputs {
                inputs
            } else {
                outputs
            };
            for path in superfluous {
                remove_sidecar(fs, &path)?;
                match fs.remove_file(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    other => other.during("remove", &path)?,
                }
            }
            fs.sync_dir(dir).during("sync", dir)?;
        }
        fs.remove_file(&path).during("remove", &path)?;
        fs.sync_dir(dir).during("sync", dir)?;
    }
    Ok(count)
}

fn all_exist(fs: &dyn Fs, paths: &[PathBuf]) -> Result<bool> {
    for path in paths {
        if !fs.exists(path).during("look for", path)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The inputs and the outputs; no outputs for a journal that was cut off before it named them.
fn read(fs: &dyn Fs, dir: &Path, path: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let bytes = read_all(fs, path, LEN_MAX).during("read", path)?;
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    let names = |start: &str| -> Option<Vec<&str>> {
        // A line without its end was cut off, and may name half a file.
        let line = text
            .split_inclusive('\n')
            .find(|line| line.starts_with(start))?;
        let names = line.strip_prefix(start)?.strip_suffix('\n')?;
        Some(names.split(',').filter(|name| !name.is_empty()).collect())
    };
    let (Some(inputs), Some(outputs)) = (names(INPUTS), names(OUTPUTS)) else {
        return Ok((Vec::new(), Vec::new()));
    };
    let paths = |names: Vec<&str>| -> Result<Vec<PathBuf>> {
        names
            .into_iter()
            .map(|name| match layout::segment_id(name) {
                Some(_) => Ok(dir.join(name)),
                None => Err(damaged_journal(path, "it names a file that is no segment")),
            })
            .collect()
    };
    Ok((paths(inputs)?, paths(outputs)?))
}
