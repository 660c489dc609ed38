//! Puts a pin, or a copy of one, in the place of a store.
//!
//! Everything is copied beside the store and synced first. A journal is the commit: before it the old store is as it was,
//! and from it on every opening brings the switch to its end.

use std::io;
use std::path::{Path, PathBuf};

use durable::{Fs, create_folder, publish};

use super::error::{During as _, Result, StoreError};
use super::generation::{self, Fold, Manifest, digest};
use super::lock::StoreLock;
use super::{layout, pin};
use crate::wal;

/// Where the files are prepared.
const STAGING_NAME: &str = ".restore.staging";
/// Says that they are complete.
const JOURNAL_NAME: &str = ".restore.journal";

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The generation that is live now.
    pub generation: u64,
    /// The generation that was kept.
    pub source_generation: u64,
    /// Number of files.
    pub files: usize,
    /// Their lengths together.
    pub bytes: u64,
}

/// Puts what was kept in `source` in the place of the store in `dir`, which need not exist. Every file is checked
/// against the manifest before anything is changed, and again as it was copied.
///
/// # Errors
/// [`StoreError::Damaged`] naming a file that is not as the manifest says; [`StoreError::Busy`]; a failing disk. The
/// store is as it was then.
pub fn restore(fs: &dyn Fs, source: &Path, dir: &Path) -> Result<Restored> {
    let kept = Manifest::read_file(fs, &source.join(pin::MANIFEST_NAME))?;
    create_folder(fs, dir).during("create", dir)?;
    let lock = StoreLock::take(fs, dir)?;
    let restored = restore_locked(fs, source, dir, &kept);
    lock.release(fs);
    restored
}

fn restore_locked(fs: &dyn Fs, source: &Path, dir: &Path, kept: &Manifest) -> Result<Restored> {
    finish(fs, dir)?;
    let live = generation::current(fs, dir)?.unwrap_or(0);
    let manifest = Manifest {
        generation: live.max(kept.generation).saturating_add(1),
        folded_through: Fold::default(),
        ..kept.clone()
    };
    let staging = dir.join(STAGING_NAME);
    layout::remove_all(fs, &staging).during("remove", &staging)?;
    create_folder(fs, &staging).during("create", &staging)?;
    let staged = stage(fs, source, &staging, &manifest);
    if staged.is_err() {
        // The next restore clears it if not now.
        layout::remove_all(fs, &staging).ok();
    }
    staged?;
    let journal = dir.join(JOURNAL_NAME);
    publish(fs, &journal, &manifest.to_bytes()).during("write", &journal)?;
    finish(fs, dir)?;
    Ok(Restored {
        generation: manifest.generation,
        source_generation: kept.generation,
        files: manifest.files.len(),
        bytes: manifest.files.iter().map(|file| file.bytes).sum(),
    })
}

fn stage(fs: &dyn Fs, source: &Path, staging: &Path, manifest: &Manifest) -> Result<()> {
    for file in &manifest.files {
        let (from, to) = (source.join(&file.path), staging.join(&file.path));
        let folder = durable::parent_of(&to);
        create_folder(fs, folder).during("create", folder)?;
        let len = match fs.metadata(&from) {
            Ok(found) => found.len,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged(
                    from,
                    "the manifest lists it, and it is missing".into(),
                ));
            }
            Err(error) => return Err(error).during("look at", &from),
        };
        let is_whole = len == file.bytes || layout::is_log(&file.path) && len > file.bytes;
        if !is_whole {
            let what = format!("its length is {len}, the manifest says {}", file.bytes);
            return Err(damaged(from, what));
        }
        pin::copy(fs, &from, &to, file.bytes)?;
        if digest(fs, &to, file.bytes)? != file.sha256 {
            let what = "its content is not that of the manifest".to_owned();
            return Err(damaged(from, what));
        }
    }
    pin::sync_folders(fs, staging).during("sync", staging)
}

fn damaged(path: PathBuf, what: String) -> StoreError {
    StoreError::Damaged {
        path,
        offset: None,
        what,
    }
}

/// Brings a restore to its end that has committed. Answers whether there was one. Each step may have been done already.
pub(super) fn finish(fs: &dyn Fs, dir: &Path) -> Result<bool> {
    let journal = dir.join(JOURNAL_NAME);
    if !fs.exists(&journal).during("look for", &journal)? {
        return Ok(false);
    }
    let manifest = Manifest::read_file(fs, &journal)?;
    let staging = dir.join(STAGING_NAME);
    remove_old(fs, dir, &manifest)?;
    for file in &manifest.files {
        let (from, to) = (staging.join(&file.path), dir.join(&file.path));
        if !fs.exists(&from).during("look for", &from)? {
            // An earlier attempt has moved it.
            continue;
        }
        let folder = durable::parent_of(&to);
        create_folder(fs, folder).during("create", folder)?;
        fs.rename(&from, &to).during("rename", &from)?;
    }
    let payloads = layout::payloads_path(dir);
    if fs.exists(&payloads).during("look for", &payloads)? {
        pin::sync_folders(fs, &payloads).during("sync", &payloads)?;
    }
    fs.sync_dir(dir).during("sync", dir)?;
    manifest.publish(fs, dir)?;
    layout::remove_all(fs, &staging).during("remove", &staging)?;
    fs.remove_file(&journal).during("remove", &journal)?;
    fs.sync_dir(dir).during("sync", dir)?;
    Ok(true)
}

/// Removes the files of the old store that are not files of the new one.
fn remove_old(fs: &dyn Fs, dir: &Path, manifest: &Manifest) -> Result<()> {
    let is_kept = |path: &Path| {
        let relative = path.strip_prefix(dir).unwrap_or(path).to_string_lossy();
        let find = |file: &generation::ManifestFile| file.path.as_str().cmp(relative.as_ref());
        manifest.files.binary_search_by(find).is_ok()
    };
    for path in generation::files(fs, dir)? {
        if !is_kept(&path) {
            fs.remove_file(&path).during("remove", &path)?;
        }
    }
    for path in fs.read_dir(dir).during("list", dir)? {
        let name = layout::file_name(&path);
        // Sidecars are of the old segments, and the log and the merge journals are of the old store.
        if layout::is_sidecar(name) || name == wal::FILE_NAME || layout::is_merge_journal(name) {
            fs.remove_file(&path).during("remove", &path)?;
        }
    }
    Ok(())
}
