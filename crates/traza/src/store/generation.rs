//! Generations: agreed states of the store, each with a manifest of its files
//! (`docs/formats/traza-store.md`, generations).

use std::io;
use std::path::{Component, Path, PathBuf};

use durable::digest::{Sha256, hex};
use durable::{FileKind, Fs, create_folder, publish, read_all};
use serde::{Deserialize, Serialize};

use super::error::{During as _, Result, StoreError};
use super::layout;
use crate::segment::layout::FORMAT_VERSION;
use crate::wal::Stamp;

/// A decimal number and a line break.
const CURRENT_LEN_MAX: u64 = 64;
/// A file takes about 200 bytes of a manifest.
pub(crate) const MANIFEST_LEN_MAX: u64 = 1 << 30;
const READ_LEN: usize = 1 << 18;

/// The frames of the log up to this one are in the files of a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fold {
    /// Epoch of the last of them.
    pub epoch: u64,
    /// Sequence of the last of them.
    pub sequence: u64,
}

impl From<Fold> for Stamp {
    fn from(fold: Fold) -> Self {
        Self {
            epoch: fold.epoch,
            sequence: fold.sequence,
        }
    }
}

impl From<Stamp> for Fold {
    fn from(stamp: Stamp) -> Self {
        Self {
            epoch: stamp.epoch,
            sequence: stamp.sequence,
        }
    }
}

/// A file of a generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// From the folder of the store, with forward slashes.
    pub path: String,
    /// Its length; of a log that is only appended to, how much of it belongs to the generation.
    pub bytes: u64,
    /// SHA-256 of so many bytes, 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// When it was last written, in nanoseconds since the Unix epoch; 0 when that is not known.
    #[serde(default)]
    pub modified_unix_ns: u64,
}

/// What belongs to a generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Its number.
    pub generation: u64,
    /// When it was made, in nanoseconds since the Unix epoch.
    pub created_unix_ns: u64,
    /// Which frames of the log are in its files.
    pub folded_through: Fold,
    /// Its files, sorted by the bytes of their paths.
    pub files: Vec<ManifestFile>,
    /// The version of all its segments; `None` when it was never declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment_format: Option<u16>,
}

impl Manifest {
    /// The first generation of a store, of files that are there already.
    pub(crate) fn first(created_unix_ns: u64, files: Vec<ManifestFile>, declares: bool) -> Self {
        Self {
            generation: 1,
            created_unix_ns,
            folded_through: Fold::default(),
            files,
            segment_format: declares.then_some(FORMAT_VERSION),
        }
    }

    /// Reads the manifest of generation `id`.
    pub(crate) fn read(fs: &dyn Fs, dir: &Path, id: u64) -> Result<Self> {
        let manifest = Self::read_file(fs, &layout::manifest_path(dir, id))?;
        if manifest.generation == id {
            return Ok(manifest);
        }
        Err(StoreError::Damaged {
            path: layout::manifest_path(dir, id),
            offset: None,
            what: format!("it is the manifest of generation {}", manifest.generation),
        })
    }

    /// Reads a manifest file.
    pub(crate) fn read_file(fs: &dyn Fs, path: &Path) -> Result<Self> {
        let bytes = read_all(fs, path, MANIFEST_LEN_MAX).during("read", path)?;
        let damaged = |what: String| StoreError::Damaged {
            path: path.to_owned(),
            offset: None,
            what,
        };
        Self::from_bytes(&bytes).map_err(damaged)
    }

    /// The manifest in the bytes of a file, or what is wrong with them.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let manifest: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match manifest.files.iter().find(|file| !is_inside(&file.path)) {
            Some(file) => Err(format!("path {:?} leads out of the store", file.path)),
            None => Ok(manifest),
        }
    }

    /// The bytes of the file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Only maps with other keys than strings fail, and there is none.
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }

    /// Writes the manifest and then names it in `CURRENT`, which is what makes it count.
    pub(crate) fn publish(&self, fs: &dyn Fs, dir: &Path) -> Result<()> {
        let path = layout::manifest_path(dir, self.generation);
        let folder = durable::parent_of(&path);
        create_folder(fs, folder).during("create", folder)?;
        publish(fs, &path, &self.to_bytes()).during("write", &path)?;
        let current = layout::current_path(dir);
        let text = format!("{}\n", self.generation);
        publish(fs, &current, text.as_bytes()).during("write", &current)
    }
}

/// The number in `CURRENT`; `None` without such a file.
pub(crate) fn current(fs: &dyn Fs, dir: &Path) -> Result<Option<u64>> {
    let path = layout::current_path(dir);
    let bytes = match read_all(fs, &path, CURRENT_LEN_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.during("read", &path)?,
    };
    let text = std::str::from_utf8(&bytes).unwrap_or_default().trim();
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(id) if is_decimal => Ok(Some(id)),
        _ => Err(StoreError::Damaged {
            path,
            offset: None,
            what: "it holds no generation number".to_owned(),
        }),
    }
}

/// True for a relative path that stays below where it starts.
fn is_inside(path: &str) -> bool {
    let mut components = Path::new(path).components().peekable();
    components.peek().is_some()
        && components.all(|component| matches!(component, Component::Normal(_)))
        && !path.contains(['\\', '\0'])
}

/// The files that belong to a generation, sorted by their paths.
pub(crate) fn files(fs: &dyn Fs, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in fs.read_dir(dir).during("list", dir)? {
        let name = layout::file_name(&path);
        if layout::is_log(name) || layout::segment_id(name).is_some() {
            files.push(path);
        }
    }
    let payloads = layout::payloads_path(dir);
    if fs.exists(&payloads).during("look for", &payloads)? {
        collect(fs, &payloads, &mut files)?;
    }
    files.sort_unstable();
    Ok(files)
}

fn collect(fs: &dyn Fs, folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for path in fs.read_dir(folder).during("list", folder)? {
        match fs.metadata(&path).during("look at", &path)?.kind {
            FileKind::Directory => collect(fs, &path, files)?,
            // What was never finished belongs to nothing.
            FileKind::File if !layout::is_temporary(layout::file_name(&path)) => files.push(path),
            FileKind::File | FileKind::Other => {}
        }
    }
    Ok(())
}

/// The entries of all files of the store as they are now. The digest of a file that has the length and the time of its
/// entry in `before` is taken from there. Of a log so much belongs to the generation as `acknowledged` says of its name: what
/// an append that failed has left behind does not.
pub(crate) fn digest_files(
    fs: &dyn Fs,
    dir: &Path,
    before: &[ManifestFile],
    acknowledged: &dyn Fn(&str) -> Option<u64>,
) -> Result<Vec<ManifestFile>> {
    let mut entries = Vec::new();
    for path in files(fs, dir)? {
        let found = fs.metadata(&path).during("look at", &path)?;
        let len =
            acknowledged(layout::file_name(&path)).map_or(found.len, |len| len.min(found.len));
        let relative = path.strip_prefix(dir).unwrap_or(&path);
        let relative = relative.to_string_lossy().into_owned();
        let known = before
            .binary_search_by(|entry| entry.path.as_str().cmp(&relative))
            .ok()
            .and_then(|index| before.get(index))
            .filter(|entry| {
                let is_same = entry.bytes == len && entry.modified_unix_ns == found.modified_ns;
                is_same && found.modified_ns != 0
            });
        let sha256 = match known {
            Some(entry) => entry.sha256.clone(),
            None => digest(fs, &path, len)?,
        };
        entries.push(ManifestFile {
            path: relative,
            bytes: len,
            sha256,
            modified_unix_ns: found.modified_ns,
        });
    }
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

/// SHA-256 of the first `len` bytes of a file.
pub(crate) fn digest(fs: &dyn Fs, path: &Path, len: u64) -> Result<String> {
    let file = fs.open(path).during("open", path)?;
    let mut sha256 = Sha256::default();
    let mut buffer = vec![0; READ_LEN];
    let mut at = 0;
    while at < len {
        let piece = usize::try_from(len - at).unwrap_or(READ_LEN).min(READ_LEN);
        let Some(piece) = buffer.get_mut(..piece) else {
            break;
        };
        file.read_exact_at(at, piece).during("read", path)?;
        sha256.update(piece);
        at += piece.len() as u64;
    }
    Ok(hex(&sha256.finish()))
}
