//! Payload blobs of the time before blobs had a frame: what was the file is now the content.

use std::path::{Path, PathBuf};

use durable::{FileKind, Fs, read_all};

use super::{Work, refuse, replace};
use crate::payload::{self, ContentAddress};
use crate::store::blobs::BLOB_LEN_MAX;
use crate::store::error::{During as _, Result, UnreadableFile};
use crate::store::layout;

/// The files in the shards of a folder that the migration has to do with.
#[derive(Default)]
pub(super) struct Listed {
    /// Files whose name is that of a blob.
    pub(super) blobs: Vec<PathBuf>,
    /// What a migration that was stopped had begun to write.
    leftovers: Vec<PathBuf>,
}

/// Lists the blobs below `folder`, shard by shard.
pub(super) fn list(fs: &dyn Fs, folder: &Path) -> Result<Listed> {
    let mut listed = Listed::default();
    let payloads = layout::payloads_path(folder);
    if !fs.exists(&payloads).during("look for", &payloads)? {
        return Ok(listed);
    }
    for shard in fs.read_dir(&payloads).during("list", &payloads)? {
        if fs.metadata(&shard).during("look at", &shard)?.kind != FileKind::Directory {
            continue;
        }
        for path in fs.read_dir(&shard).during("list", &shard)? {
            let name = layout::file_name(&path);
            if address_in(name).is_some() {
                listed.blobs.push(path);
            } else if name.starts_with('.') && layout::is_temporary(name) {
                listed.leftovers.push(path);
            }
        }
    }
    Ok(listed)
}

/// The content that the name of a blob promises, in digits of either case.
pub(super) fn address_in(name: &str) -> Option<ContentAddress> {
    format!("sha256/{}", name.strip_suffix(".bin")?)
        .parse()
        .ok()
}

/// Converts the blobs below `folder`. Those that are neither an old nor a present one are refused, all of them
/// together, after the others were converted.
pub(super) fn convert_all(fs: &dyn Fs, folder: &Path, work: &mut Work<'_>) -> Result<()> {
    let listed = list(fs, folder)?;
    for path in &listed.leftovers {
        fs.remove_file(path).during("remove", path)?;
    }
    let mut neither = Vec::new();
    for path in &listed.blobs {
        let Some(address) = address_in(layout::file_name(path)) else {
            continue;
        };
        let old = read_all(fs, path, BLOB_LEN_MAX).during("read", path)?;
        // The frame alone proves nothing: an old blob is any text, and may begin like one.
        match payload::decode_as(&old, address) {
            Ok(_) => {}
            Err(_) if ContentAddress::of(&old) == address => {
                replace(fs, path, &old, &payload::encode(&old))?;
                work.migrated.blobs += 1;
            }
            Err(error) => neither.push(UnreadableFile::new(path.clone(), &error)),
        }
        work.is_done(path, old.len() as u64);
    }
    refuse(neither)
}
