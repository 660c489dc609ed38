//! The operating system's file system: the one module that calls `std::fs`.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the door that the rule leads to"
)]

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};
#[cfg(target_os = "linux")]
use rustix::io::Errno;

use crate::{Access, FileKind, Fs, FsFile, Map, Metadata};

/// The real file system. A thin shell: what a call does is what the operating system does.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFs;

#[derive(Debug)]
struct RealFile {
    file: File,
    poisoned: bool,
}

impl RealFile {
    fn boxed(file: File) -> Box<dyn FsFile> {
        Box::new(Self {
            file,
            poisoned: false,
        })
    }

    fn usable(&self) -> io::Result<()> {
        if self.poisoned {
            return Err(io::Error::other(
                "an earlier sync of this file failed; reopen it",
            ));
        }
        Ok(())
    }

    fn synced(&mut self, result: io::Result<()>) -> io::Result<()> {
        self.poisoned |= result.is_err();
        result
    }
}

impl FsFile for RealFile {
    #[cfg(target_os = "linux")]
    fn link(&self, to: &Path) -> io::Result<()> {
        let from = path_of(&self.file);
        Ok(linkat(CWD, from, CWD, to, AtFlags::SYMLINK_FOLLOW)?)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.usable()?;
        self.file.write_all(bytes)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.usable()?;
        self.file.set_len(len)
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.usable()?;
        let result = self.file.sync_data();
        self.synced(result)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.usable()?;
        let result = self.file.sync_all();
        self.synced(result)
    }

    fn map(&self) -> io::Result<Option<Map>> {
        Map::of(&self.file).map(Some)
    }
}

/// The name that the system has for every open file.
#[cfg(target_os = "linux")]
fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

impl Fs for RealFs {
    fn create_new(&self, path: &Path, access: Access) -> io::Result<Box<dyn FsFile>> {
        let mode = match access {
            Access::Shared => 0o666,
            Access::Private => 0o600,
        };
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true).mode(mode);
        options.open(path).map(RealFile::boxed)
    }

    #[cfg(target_os = "linux")]
    fn create_unnamed(&self, folder: &Path) -> io::Result<Box<dyn FsFile>> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC;
        let opened = match rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)) {
            // Kernels and file systems say in three ways that they know no such files.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                return Err(io::Error::from(io::ErrorKind::Unsupported));
            }
            other => other?,
        };
        let file = File::from(opened);
        // Without these names it could not be linked later.
        if std::fs::metadata(path_of(&file)).is_err() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        Ok(RealFile::boxed(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        // A pipe without a writer would block an open for reading for ever.
        if self.metadata(path)?.kind == FileKind::Other {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        File::open(path).map(RealFile::boxed)
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        OpenOptions::new()
            .read(true)
            .append(true)
            .open(path)
            .map(RealFile::boxed)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let found = std::fs::metadata(path)?;
        let kind = if found.is_file() {
            FileKind::File
        } else if found.is_dir() {
            FileKind::Directory
        } else {
            FileKind::Other
        };
        Ok(Metadata {
            kind,
            len: found.len(),
            modified_ns: modified_ns(&found),
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let entries: io::Result<Vec<_>> = std::fs::read_dir(path)?
            .map(|entry| entry.map(|e| e.path()))
            .collect();
        let mut entries = entries?;
        // All have one parent: comparing bytes is enough, and much quicker than comparing components.
        entries.sort_unstable_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
        Ok(entries)
    }

    #[cfg(target_os = "linux")]
    fn watcher(&self) -> io::Result<Option<Box<dyn crate::Watcher>>> {
        Ok(Some(Box::new(crate::watch::Inotify::new()?)))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        File::open(path)?.sync_all()
    }
}
fn modified_ns(found: &std::fs::Metadata) -> u64 {
    found
        .modified()
        .ok()
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
        .and_then(|since| u64::try_from(since.as_nanos()).ok())
        .unwrap_or(0)
}
