//! The manifest of a pin whose files were converted.

use std::io;
use std::path::Path;

use durable::{Fs, read_all};

use super::{Older, blobs, replace};
use crate::payload;
use crate::segment::Segment;
use crate::segment::layout::FORMAT_VERSION;
use crate::store::blobs::BLOB_LEN_MAX;
use crate::store::error::{During as _, Result, StoreError, in_segment};
use crate::store::generation::{self, MANIFEST_LEN_MAX, Manifest, ManifestFile};
use crate::store::{layout, pin};

/// Checks the segments of the pin in `folder` that are to be converted against its manifest: once they are converted, nobody
/// can tell any more whether they were what was kept. A blob proves itself, by its name, when it is converted.
///
/// # Errors
/// [`StoreError::Damaged`] naming the segment; nothing was converted.
pub(super) fn check(fs: &dyn Fs, folder: &Path, older: &[Older]) -> Result<()> {
    if older.is_empty() {
        return Ok(());
    }
    let manifest = Manifest::read_file(fs, &folder.join(pin::MANIFEST_NAME))?;
    for Older { path, len, .. } in older {
        let damaged = |what: &str| StoreError::Damaged {
            path: path.clone(),
            offset: None,
            what: what.to_owned(),
        };
        let name = layout::file_name(path);
        let Some(kept) = manifest.files.iter().find(|file| file.path == name) else {
            return Err(damaged("the manifest of the pin does not list it"));
        };
        if *len != kept.bytes || generation::digest(fs, path, *len)? != kept.sha256 {
            return Err(damaged(
                "it is not the file of the pin's manifest; it was not converted",
            ));
        }
    }
    Ok(())
}

/// Makes the manifest of the pin in `folder` say what its files are now. Answers whether it said something else before.
///
/// A digest moves only for a file that proves itself whole, record by record: whatever else differs from the manifest is
/// not the work of the migration, and a digest of it would make damage pass for what was kept. The logs are not
/// converted, and what is recorded of them stays.
pub(super) fn renew_manifest(fs: &dyn Fs, folder: &Path) -> Result<bool> {
    let path = folder.join(pin::MANIFEST_NAME);
    let before = Manifest::read_file(fs, &path)?;
    let mut manifest = before.clone();
    manifest.segment_format = Some(FORMAT_VERSION);
    for file in &mut manifest.files {
        if !layout::is_log(&file.path) {
            renew(fs, folder, file)?;
        }
    }
    if manifest == before {
        return Ok(false);
    }
    let old = read_all(fs, &path, MANIFEST_LEN_MAX).during("read", &path)?;
    replace(fs, &path, &old, &manifest.to_bytes())?;
    Ok(true)
}

fn renew(fs: &dyn Fs, folder: &Path, file: &mut ManifestFile) -> Result<()> {
    let path = folder.join(&file.path);
    let damaged = |what: String| StoreError::Damaged {
        path: path.clone(),
        offset: None,
        what,
    };
    let found = match fs.metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged(
                "the manifest of the pin lists it, and it is missing".to_owned(),
            ));
        }
        other => other.during("look at", &path)?,
    };
    let sha256 = generation::digest(fs, &path, found.len)?;
    if found.len == file.bytes && sha256 == file.sha256 {
        return Ok(());
    }
    let name = layout::file_name(&path);
    if layout::segment_id(&file.path).is_some() {
        let bytes = read_all(fs, &path, u64::MAX).during("read", &path)?;
        Segment::from_bytes(bytes).map_err(in_segment(&path))?;
    } else if file.path.starts_with("payloads/")
        && let Some(address) = blobs::address_in(name)
    {
        let bytes = read_all(fs, &path, BLOB_LEN_MAX).during("read", &path)?;
        payload::decode_as(&bytes, address).map_err(|source| StoreError::Blob {
            path: path.clone(),
            source,
        })?;
    } else {
        return Err(damaged(
            "it is not the file of the pin's manifest, and nothing else proves it".to_owned(),
        ));
    }
    file.bytes = found.len;
    file.sha256 = sha256;
    file.modified_unix_ns = found.modified_ns;
    Ok(())
}
