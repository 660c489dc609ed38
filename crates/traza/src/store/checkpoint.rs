//! Makes a generation: a state of the store with a manifest that everything can be checked against.

use std::path::Path;
use std::sync::PoisonError;

use durable::Fs;

use super::error::{During as _, Result};
use super::generation::{self, Fold, Manifest};
use super::{Shared, Store, layout};
use crate::segment::layout::FORMAT_VERSION;

impl Store {
    /// Seals what is buffered and writes the manifest of a new generation. Answers its number.
    ///
    /// # Errors
    /// A failing disk. The generation before stays live until `CURRENT` names the new one.
    pub fn checkpoint(&self) -> Result<u64> {
        let _maintenance = self
            .shared
            .maintenance
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(self.shared.checkpoint()?.generation)
    }

    /// The manifest of the live generation.
    ///
    /// # Errors
    /// A failing disk.
    pub fn manifest(&self) -> Result<Manifest> {
        let generation = self.shared.writer().generation;
        Manifest::read(self.shared.fs(), &self.shared.home.dir, generation)
    }
}

impl Shared {
    /// Under the maintenance lock. The permit is held while the files are digested, so that none of them is replaced;
    /// spans are taken in meanwhile, into the log.
    pub(super) fn checkpoint(&self) -> Result<Manifest> {
        let permit = self.permit();
        let drained = self.seal_under(&permit)?;
        let (live, epoch) = {
            let writer = self.writer();
            let epoch = writer.log.as_ref().map_or(0, |log| log.last().epoch);
            (writer.generation, epoch)
        };
        let fs = self.fs();
        let before = Manifest::read(fs, &self.home.dir, live)?;
        let manifest = Manifest {
            generation: live.max(epoch).saturating_add(1),
            created_unix_ns: self.clock.wall_ns(),
            folded_through: drained.fold.map_or_else(Fold::default, Fold::from),
            files: generation::digest_files(fs, &self.home.dir, &before.files, &|name| {
                self.logs.len_of(name)
            })?,
            segment_format: Some(FORMAT_VERSION),
        };
        manifest.publish(fs, &self.home.dir)?;
        self.enter(manifest.generation)?;
        drop(permit);
        sweep_generations(fs, &self.home.dir, manifest.generation);
        Ok(manifest)
    }

    /// The generation counts from now on: later frames belong to it, and earlier ones are not needed.
    fn enter(&self, generation: u64) -> Result<()> {
        let mut writer = self.writer();
        writer.generation = generation;
        let is_empty = self.view().buffer.is_empty();
        let Some(log) = &mut writer.log else {
            return Ok(());
        };
        log.raise_epoch(generation);
        if is_empty {
            log.reset().during("cut", &self.log_path())?;
            self.commit.all_durable();
            return Ok(());
        }
        self.rewrite_log(&mut writer, &self.view().buffer)
    }
}

/// Removes the manifests of generations before `live`. What fails is done by the next checkpoint.
pub(super) fn sweep_generations(fs: &dyn Fs, dir: &Path, live: u64) {
    let folder = dir.join("generations");
    for path in fs.read_dir(&folder).unwrap_or_default() {
        let id = layout::file_name(&path).parse::<u64>();
        if id.is_ok_and(|id| id < live) {
            layout::remove_all(fs, &path).ok();
        }
    }
}
