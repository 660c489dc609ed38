//! Digests the files of a generation anew, in an open store.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::PoisonError;

use durable::{Fs, Outcome};

use super::error::{During as _, Result};
use super::generation::{self, Manifest, ManifestFile};
use super::pin::{MANIFEST_NAME, pin_path};
use super::{Store, layout};
use crate::segment;

/// What became of the files of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationCheck {
    /// Its number.
    pub generation: u64,
    /// What is wrong, a line for each file; empty when all are as they were.
    pub problems: Vec<String>,
}

impl Store {
    /// Digests every file of the live generation that the store still has: segments that were merged away since, and logs
    /// that were rewritten, are none of its files any more.
    ///
    /// # Errors
    /// A manifest that cannot be read; a failing disk.
    pub fn verify_generation(&self) -> Result<GenerationCheck> {
        let shared = &self.shared;
        // So that nothing is replaced while it is looked at.
        let _maintenance = shared
            .maintenance
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let manifest = self.manifest()?;
        let names: BTreeSet<String> = shared
            .view()
            .segments
            .iter()
            .map(|sealed| layout::file_name(sealed.path()).to_owned())
            .collect();
        let is_here = |file: &ManifestFile| {
            let name = layout::file_name(Path::new(&file.path));
            match layout::segment_id(name) {
                Some(_) => names.contains(name),
                // What belongs to a segment, or can be made again.
                None => !layout::is_sidecar(name),
            }
        };
        check(shared.fs(), &shared.home.dir, &manifest, is_here)
    }

    /// Digests every file of a pin.
    ///
    /// # Errors
    /// [`StoreError::Invalid`](super::StoreError::Invalid) for a label that is no plain name; a manifest that cannot be read; a
    /// failing disk.
    pub fn verify_pin(&self, label: &str) -> Result<GenerationCheck> {
        let shared = &self.shared;
        let path = pin_path(&shared.home.dir, label)?;
        let manifest = Manifest::read_file(shared.fs(), &path.join(MANIFEST_NAME))?;
        check(shared.fs(), &path, &manifest, |_| true)
    }
}

fn check(
    fs: &dyn Fs,
    dir: &Path,
    manifest: &Manifest,
    is_here: impl Fn(&ManifestFile) -> bool,
) -> Result<GenerationCheck> {
    let mut problems = Vec::new();
    for file in manifest.files.iter().filter(|file| is_here(file)) {
        if let Some(problem) = problem(fs, &dir.join(&file.path), file)? {
            problems.push(format!("{}: {problem}", file.path));
        }
    }
    Ok(GenerationCheck {
        generation: manifest.generation,
        problems,
    })
}

fn problem(fs: &dyn Fs, path: &Path, file: &ManifestFile) -> Result<Option<String>> {
    let len = match fs.metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Some("missing".to_owned()));
        }
        other => other.during("look for", path)?.len,
    };
    let is_log = layout::is_log(layout::file_name(path));
    if len != file.bytes && !(is_log && len > file.bytes) && !is_rewritten(fs, path) {
        let bytes = file.bytes;
        return Ok(Some(format!(
            "{len} bytes on disk, {bytes} in the manifest"
        )));
    }
    let sha256 = generation::digest(fs, path, file.bytes)?;
    if sha256 == file.sha256 || is_rewritten(fs, path) {
        return Ok(None);
    }
    Ok(Some("digest mismatch".to_owned()))
}

/// True for a segment that is another than the one of the manifest and sound by itself: expiry writes those, under the same
/// name, and damage does not.
fn is_rewritten(fs: &dyn Fs, path: &Path) -> bool {
    layout::segment_id(layout::file_name(path)).is_some()
        && segment::verify(fs, path).is_ok_and(|found| found.verdict != Outcome::Damaged)
}
