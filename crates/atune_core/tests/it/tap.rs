//! A file system that tells a test of every call before it is made: to count, to hold a thread, to fail.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{Access, Fs, FsFile, Metadata};

/// A call that is about to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tapped<'a> {
    Metadata,
    Open,
    Read {
        len: usize,
    },
    Append {
        path: &'a Path,
    },
    /// Any other call that may change the disk.
    Change,
}

type Hook = dyn Fn(Tapped<'_>) -> io::Result<()> + Send + Sync;

/// The file system; an error of the hook is what the call answers.
#[derive(Clone)]
pub(crate) struct Tap {
    inner: Arc<dyn Fs>,
    hook: Arc<Hook>,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tap")
    }
}

#[derive(Debug)]
struct File {
    inner: Box<dyn FsFile>,
    path: PathBuf,
    tap: Tap,
}

impl Tap {
    pub(crate) fn new(
        inner: Arc<dyn Fs>,
        hook: impl Fn(Tapped<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let hook = Arc::new(hook);
        Self { inner, hook }
    }

    fn file(&self, path: &Path, inner: Box<dyn FsFile>) -> Box<dyn FsFile> {
        let (path, tap) = (path.to_owned(), self.clone());
        Box::new(File { inner, path, tap })
    }
}

impl Fs for Tap {
    fn create_new(&self, path: &Path, access: Access) -> io::Result<Box<dyn FsFile>> {
        (self.hook)(Tapped::Change)?;
        Ok(self.file(path, self.inner.create_new(path, access)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        (self.hook)(Tapped::Open)?;
        Ok(self.file(path, self.inner.open(path)?))
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        (self.hook)(Tapped::Change)?;
        Ok(self.file(path, self.inner.open_append(path)?))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        (self.hook)(Tapped::Metadata)?;
        self.inner.metadata(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.hook)(Tapped::Change)?;
        self.inner.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.hook)(Tapped::Change)?;
        self.inner.hard_link(from, to)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        (self.hook)(Tapped::Change)?;
        self.inner.create_dir(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        (self.hook)(Tapped::Change)?;
        self.inner.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        (self.hook)(Tapped::Change)?;
        self.inner.remove_dir(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        (self.hook)(Tapped::Open)?;
        self.inner.read_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        (self.hook)(Tapped::Change)?;
        self.inner.sync_dir(path)
    }
}

impl FsFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        (self.tap.hook)(Tapped::Append { path: &self.path })?;
        self.inner.append(bytes)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        (self.tap.hook)(Tapped::Read { len: buf.len() })?;
        self.inner.read_at(offset, buf)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.inner.try_lock()
    }

    fn sync_data(&mut self) -> io::Result<()> {
        (self.tap.hook)(Tapped::Change)?;
        self.inner.sync_data()
    }

    fn sync(&mut self) -> io::Result<()> {
        (self.tap.hook)(Tapped::Change)?;
        self.inner.sync()
    }
}
