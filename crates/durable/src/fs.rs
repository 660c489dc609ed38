//! The file-system trait. Every write of every engine goes through it, so that one simulated disk
//! can put every engine through lost writes, full disks and crashes.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Map;

/// Who may read a file that is being created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The process's usual permissions (mode 0666 less the umask).
    Shared,
    /// The owner alone (mode 0600). For private keys.
    Private,
}

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A socket, pipe or device.
    Other,
}

/// The facts about a path that engines ask for. Symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: FileKind,
    /// Its length in bytes; meaningful for regular files.
    pub len: u64,
    /// When its bytes were last changed, in nanoseconds since the Unix epoch; 0 where that is not known.
    pub modified_ns: u64,
}

/// A file system. Object-safe; shared between threads.
///
/// # Durability
/// Nothing is durable before a sync: bytes need [`FsFile::sync`] (or `sync_data`), names (a created,
/// renamed, linked or removed entry) need [`Fs::sync_dir`] of the folder that holds them.
pub trait Fs: Send + Sync + Debug {
    /// Creates a file that must not exist yet, open for reading and appending.
    fn create_new(&self, path: &Path, access: Access) -> io::Result<Box<dyn FsFile>>;
    /// Creates a file on the file system of `folder` that has no name yet, open for reading and appending.
    /// It ends with its handle unless it is [given a name](FsFile::link).
    ///
    /// # Errors
    /// `Unsupported` where there are no such files: create one with a name then.
    fn create_unnamed(&self, _folder: &Path) -> io::Result<Box<dyn FsFile>> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
    /// Opens an existing file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>>;
    /// Opens an existing file for reading and appending.
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn FsFile>>;
    /// Tells what stands at `path`.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;
    /// Renames a file, replacing what stands at `to`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives an existing file a second name, which must not exist yet.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Creates one folder, which must not exist yet.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes a file's name.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Lists the entries of a folder, sorted by name.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Something that wakes a waiter when files change, where the file system has such a thing. Changes
    /// that another machine makes on a shared disk wake nobody: wait for a limited time, and look.
    fn watcher(&self) -> io::Result<Option<Box<dyn Watcher>>> {
        Ok(None)
    }

    /// Creates a folder and those above it; existing ones are fine.
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if path.as_os_str().is_empty() {
            return Ok(());
        }
        match self.metadata(path) {
            Ok(found) if found.kind == FileKind::Directory => return Ok(()),
            Ok(_) => return Err(io::Error::from(io::ErrorKind::NotADirectory)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        if let Some(parent) = path.parent() {
            self.create_dir_all(parent)?;
        }
        match self.create_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    /// True when something stands at `path`.
    fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// Wakes a waiter when files change.
pub trait Watcher: Send + Sync + Debug {
    /// Watches what stands at `path` as well: its links and its bytes, or the entries of a folder.
    fn add(&self, path: &Path) -> io::Result<()>;
    /// Waits until something that is watched changed, and at most for `timeout`. False when the time is up.
    fn wait(&self, timeout: Duration) -> io::Result<bool>;
}

/// An open file.
///
/// A failed sync poisons the handle: the page cache can no longer be believed, so every later
/// append, truncation or sync through it fails too. Reopen and verify instead.
pub trait FsFile: Send + Sync + Debug {
    /// Gives a file without a name the name `to`, which must not exist yet.
    fn link(&self, _to: &Path) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
    /// Appends all of `bytes`. On an error a part of them may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Reads at `offset` into `buf`, returns how many bytes there were (0 at the end).
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// The file's length in bytes, now.
    fn len(&self) -> io::Result<u64>;
    /// True when the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts (or extends with zeros) the file to `len` bytes.
    fn set_len(&mut self, len: u64) -> io::Result<()>;
    /// Takes the lock of the open file, unless another open file has it: answers whether it has it now.
    /// The lock ends with the handle, also when the process is killed.
    fn try_lock(&self) -> io::Result<bool> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
    /// Makes the bytes and what is needed to read them durable.
    fn sync_data(&mut self) -> io::Result<()>;
    /// Makes the bytes and all metadata durable.
    fn sync(&mut self) -> io::Result<()>;
    /// A memory map of the file's present bytes, where the file system has such a thing.
    ///
    /// Only for files that are never shortened: see [`Map`].
    fn map(&self) -> io::Result<Option<Map>> {
        Ok(None)
    }
    /// Fills `buf` from `offset`; `UnexpectedEof` when the file ends first.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.read_at(offset.saturating_add(done as u64), rest) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Reads a whole file of at most `len_max` bytes.
///
/// # Errors
/// `FileTooLarge` when the file is longer, `IsADirectory` for a folder; otherwise the I/O error.
pub fn read_all(fs: &dyn Fs, path: &Path, len_max: u64) -> io::Result<Vec<u8>> {
    let found = fs.metadata(path)?;
    if found.kind == FileKind::Directory {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let file = fs.open(path)?;
    let len = file.len()?;
    if len > len_max {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let mut bytes = vec![0; len];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}
