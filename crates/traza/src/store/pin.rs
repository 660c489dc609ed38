//! Pins: generations that are kept, as a folder of their own. Segments and blobs are linked, so a pin takes room only
//! for what the store has replaced since.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use durable::{Access, Fs, create_folder, publish};

use super::error::{During as _, Result, StoreError};
use super::generation::Manifest;
use super::{Store, layout};

/// The manifest in a pin.
pub(super) const MANIFEST_NAME: &str = "state-manifest.json";
const LABEL_LEN_MAX: usize = 128;
const COPY_LEN: usize = 1 << 18;

/// A kept generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Its name.
    pub label: String,
    /// Which generation it is.
    pub generation: u64,
    /// When that was made, in nanoseconds since the Unix epoch.
    pub created_unix_ns: u64,
    /// Number of its files.
    pub files: usize,
    /// Their lengths together.
    pub bytes: u64,
}

impl Store {
    /// Makes a checkpoint and keeps it under `label`.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a label that is no plain name, or that is taken already; a failing disk.
    pub fn pin(&self, label: &str) -> Result<Pin> {
        self.shared.check_writable()?;
        check_label(label)?;
        let shared = &self.shared;
        let fs = shared.fs();
        let _maintenance = shared
            .maintenance
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let pins = pins_path(&shared.home.dir);
        let path = pins.join(label);
        if fs.exists(&path).during("look for", &path)? {
            return Err(StoreError::Invalid {
                what: format!("there is a pin {label:?} already; release it first"),
            });
        }
        let manifest = shared.checkpoint()?;
        // Between the checkpoint and the links nothing may replace a file of it.
        let _permit = shared.permit();
        let building = pins.join(format!(".{label}.pinning"));
        layout::remove_all(fs, &building).during("remove", &building)?;
        create_folder(fs, &building).during("create", &building)?;
        let built = build(fs, &shared.home.dir, &building, &manifest)
            .and_then(|()| fs.rename(&building, &path).during("rename", &building));
        if built.is_err() {
            // The next pin of this name clears it if not now.
            layout::remove_all(fs, &building).ok();
        }
        built?;
        fs.sync_dir(&pins).during("sync", &pins)?;
        Ok(describe(label, &manifest))
    }

    /// Gives a pin up. Answers false when there was none of this name.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a label that is no plain name; a failing disk.
    pub fn unpin(&self, label: &str) -> Result<bool> {
        self.shared.check_writable()?;
        check_label(label)?;
        let shared = &self.shared;
        let fs = shared.fs();
        let _maintenance = shared
            .maintenance
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let pins = pins_path(&shared.home.dir);
        let path = pins.join(label);
        if !fs.exists(&path).during("look for", &path)? {
            return Ok(false);
        }
        // Away from its name first: half a pin under it would look like a damaged one.
        let released = pins.join(format!(".{label}.pinning"));
        layout::remove_all(fs, &released).during("remove", &released)?;
        fs.rename(&path, &released).during("rename", &path)?;
        fs.sync_dir(&pins).during("sync", &pins)?;
        layout::remove_all(fs, &released).during("remove", &released)?;
        fs.sync_dir(&pins).during("sync", &pins)?;
        Ok(true)
    }

    /// The pins, by name.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] naming a pin whose manifest cannot be read; a failing disk.
    pub fn pins(&self) -> Result<Vec<Pin>> {
        let fs = self.shared.fs();
        pin_folders(fs, &self.shared.home.dir)?
            .into_iter()
            .map(|path| {
                let manifest = Manifest::read_file(fs, &path.join(MANIFEST_NAME))?;
                Ok(describe(layout::file_name(&path), &manifest))
            })
            .collect()
    }
}

/// The folder of a pin, be it there or not.
pub(super) fn pin_path(dir: &Path, label: &str) -> Result<PathBuf> {
    check_label(label)?;
    Ok(pins_path(dir).join(label))
}

fn pins_path(dir: &Path) -> PathBuf {
    dir.join("pins")
}

/// The folders of the pins of a store, by name.
pub(super) fn pin_folders(fs: &dyn Fs, dir: &Path) -> Result<Vec<PathBuf>> {
    let pins = pins_path(dir);
    let paths = match fs.read_dir(&pins) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.during("list", &pins)?,
    };
    let is_pin = |path: &PathBuf| !layout::file_name(path).starts_with('.');
    Ok(paths.into_iter().filter(is_pin).collect())
}

fn describe(label: &str, manifest: &Manifest) -> Pin {
    Pin {
        label: label.to_owned(),
        generation: manifest.generation,
        created_unix_ns: manifest.created_unix_ns,
        files: manifest.files.len(),
        bytes: manifest.files.iter().map(|file| file.bytes).sum(),
    }
}

/// A label is a plain name of a folder.
fn check_label(label: &str) -> Result<()> {
    let is_plain = !label.is_empty()
        && label.len() <= LABEL_LEN_MAX
        && !label.starts_with('.')
        && !label
            .chars()
            .any(|c| matches!(c, '/' | '\\') || c.is_control());
    if is_plain {
        return Ok(());
    }
    Err(StoreError::Invalid {
        what: format!(
            "a pin's label is 1 to {LABEL_LEN_MAX} bytes without /, \\ and control characters, and does not begin with a dot"
        ),
    })
}

fn build(fs: &dyn Fs, dir: &Path, pin: &Path, manifest: &Manifest) -> Result<()> {
    for file in &manifest.files {
        let (from, to) = (dir.join(&file.path), pin.join(&file.path));
        let folder = durable::parent_of(&to);
        create_folder(fs, folder).during("create", folder)?;
        if layout::is_log(&file.path) {
            copy(fs, &from, &to, file.bytes)?;
        } else {
            fs.hard_link(&from, &to).during("link", &to)?;
        }
    }
    sync_folders(fs, pin).during("sync", pin)?;
    let path = pin.join(MANIFEST_NAME);
    publish(fs, &path, &manifest.to_bytes()).during("write", &path)
}

/// Copies the first `len` bytes of a file, durably but for the name.
pub(super) fn copy(fs: &dyn Fs, from: &Path, to: &Path, len: u64) -> Result<()> {
    let source = fs.open(from).during("open", from)?;
    let mut target = fs.create_new(to, Access::Shared).during("create", to)?;
    let mut buffer = vec![0; COPY_LEN];
    let mut at = 0;
    while at < len {
        let piece = usize::try_from(len - at).unwrap_or(COPY_LEN).min(COPY_LEN);
        let Some(piece) = buffer.get_mut(..piece) else {
            break;
        };
        source.read_exact_at(at, piece).during("read", from)?;
        target.append(piece).during("write", to)?;
        at += piece.len() as u64;
    }
    target.sync().during("sync", to)
}

/// Makes all names below `folder` durable.
pub(super) fn sync_folders(fs: &dyn Fs, folder: &Path) -> io::Result<()> {
    for path in fs.read_dir(folder)? {
        if fs.metadata(&path)?.kind == durable::FileKind::Directory {
            sync_folders(fs, &path)?;
        }
    }
    fs.sync_dir(folder)
}
