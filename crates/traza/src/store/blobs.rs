//! Writes and reads the blobs of offloaded texts (`docs/formats/traza-store.md`, payloads).

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use durable::{Fs, create_folder, publish, read_all};

use super::Store;
use super::error::{During as _, Result, StoreError};
use crate::payload::{self, ContentAddress};

/// The longest blob that is read.
pub(super) const BLOB_LEN_MAX: u64 = 1 << 31;

/// Who writes a blob has it to himself: batches in several threads can hold one text, and the one whose write fails takes the
/// name away again. One lock for so many addresses; a leaf in the order of locks.
#[derive(Debug, Default)]
pub(super) struct BlobLocks([Mutex<()>; LOCKS]);

const LOCKS: usize = 16;

impl BlobLocks {
    fn lock(&self, address: ContentAddress) -> Option<MutexGuard<'_, ()>> {
        // The digits are spread evenly.
        let digit = address.digits().chars().next()?.to_digit(16)?;
        let lock = self.0.get(usize::try_from(digit).ok()?)?;
        Some(lock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Writes the blob of `text`, unless it is there, durably: with its folders.
pub(super) fn keep(
    fs: &dyn Fs,
    dir: &Path,
    locks: &BlobLocks,
    address: ContentAddress,
    text: &str,
) -> Result<()> {
    let _alone = locks.lock(address);
    let path = dir.join(address.relative_path());
    let shard = durable::parent_of(&path);
    if fs.exists(&path).during("look for", &path)? {
        // Maybe its writer was stopped before it could make the name durable.
        return fs.sync_dir(shard).during("sync", shard);
    }
    create_folder(fs, shard).during("create", shard)?;
    let published = publish(fs, &path, &payload::encode(text.as_bytes()));
    if published.is_err() {
        // Another attempt must not take it for durable.
        fs.remove_file(&path).ok();
    }
    published.during("write", &path)
}

impl Store {
    /// The content of a blob; `None` when the store has none under this address, or when an erasure is pending that accounts
    /// for it.
    ///
    /// # Errors
    /// [`StoreError::Blob`] when its bytes are not the content that the address names; [`StoreError::Io`].
    pub fn payload(&self, address: ContentAddress) -> Result<Option<Vec<u8>>> {
        if self.shared.view().mask.withholds(address) {
            return Ok(None);
        }
        let path = self.shared.home.dir.join(address.relative_path());
        let blob = match read_all(self.shared.fs(), &path, BLOB_LEN_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.during("read", &path)?,
        };
        match payload::decode_as(&blob, address) {
            Ok(content) => Ok(Some(content)),
            Err(source) => Err(StoreError::Blob { path, source }),
        }
    }
}
