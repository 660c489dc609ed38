//! What writes that failed or were stopped have left behind.

use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use durable::{FileKind, Fs};

use super::error::{During as _, Result};
use super::{Shared, layout};

/// The payload files below `dir` that were never finished.
pub(super) fn unfinished_payloads(fs: &dyn Fs, dir: &Path) -> Result<Vec<PathBuf>> {
    let payloads = layout::payloads_path(dir);
    let mut found = Vec::new();
    if !fs.exists(&payloads).during("look for", &payloads)? {
        return Ok(found);
    }
    for shard in fs.read_dir(&payloads).during("list", &payloads)? {
        if fs.metadata(&shard).during("look at", &shard)?.kind != FileKind::Directory {
            continue;
        }
        let files = fs.read_dir(&shard).during("list", &shard)?;
        found.extend(
            files
                .into_iter()
                .filter(|path| layout::is_temporary(layout::file_name(path))),
        );
    }
    Ok(found)
}

/// Removes the payload files that were never finished. Answers how many. Nobody else may be writing any.
pub(super) fn sweep_payloads(fs: &dyn Fs, dir: &Path) -> Result<usize> {
    let found = unfinished_payloads(fs, dir)?;
    for path in &found {
        fs.remove_file(path).during("remove", path)?;
    }
    Ok(found.len())
}

impl Shared {
    /// Removes what writes that failed have left: unfinished files, and segments that no view shows. The next opening
    /// would take such a segment in, and with it what was erased; the journal of the merge that left it goes with it.
    ///
    /// Crash points: until the journal is gone it agrees with what stands, which is all inputs of the merge and no output, or
    /// all outputs.
    pub(super) fn clear_leftovers(&self, _permit: &MutexGuard<'_, ()>) -> Result<()> {
        let (fs, dir) = (self.fs(), &self.home.dir);
        {
            // Nobody else prepares a file now: not the log, for the writer is held; not a segment, for the permit is.
            let _writer = self.writer();
            layout::sweep_temporaries(fs, dir)?;
        }
        let view = self.view();
        let mut cleared = false;
        for (id, path) in layout::segments(fs, dir)? {
            if !view.segments.iter().any(|sealed| sealed.id() == id) {
                self.unlink_segment(&path)?;
                cleared = true;
            }
        }
        if cleared {
            self.sync_dir()?;
        }
        let mut cleared = false;
        for path in fs.read_dir(dir).during("list", dir)? {
            if layout::is_merge_journal(layout::file_name(&path)) {
                fs.remove_file(&path).during("remove", &path)?;
                cleared = true;
            }
        }
        if cleared {
            self.sync_dir()?;
        }
        Ok(())
    }
}
