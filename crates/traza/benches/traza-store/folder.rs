//! The folder of a store.

use std::path::Path;

use durable::{FileKind, Fs as _, RealFs};

use crate::Result;

/// Bytes of all files below it.
pub(crate) fn len_of(path: &Path) -> Result<u64> {
    let mut len = 0;
    for entry in RealFs.read_dir(path)? {
        let found = RealFs.metadata(&entry)?;
        len += match found.kind {
            FileKind::Directory => len_of(&entry)?,
            _ => found.len,
        };
    }
    Ok(len)
}
