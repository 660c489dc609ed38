//! The real disk with somebody who watches: shown every call before it is made, to count it, to wait, to end
//! the process there, or to have it answered with an error though it was made.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use durable::{Access, Fs, FsFile, Map, Metadata, RealFs, Watcher};

use crate::processes::kill_itself;

/// One call to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// A look at a file, a name or a folder, with how many bytes are asked for.
    Read(usize),
    /// A file opened.
    Open,
    /// So many bytes written.
    Append(usize),
    /// Anything else that changes the disk.
    Change,
}

impl Touch {
    fn is_change(self) -> bool {
        matches!(self, Self::Append(_) | Self::Change)
    }
}

/// What a call is answered with that succeeds.
type Watch = dyn Fn(Touch) -> io::Result<()> + Send + Sync;

/// The real file system, watched.
#[derive(Clone)]
pub(crate) struct WatchedDisk {
    watch: Arc<Watch>,
}

impl WatchedDisk {
    pub(crate) fn new(watch: impl Fn(Touch) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self {
            watch: Arc::new(watch),
        }
    }

    /// A disk that kills its process at the change with this number, from 1.
    pub(crate) fn deadly(number: u64) -> Self {
        let countdown = Countdown::default();
        countdown.start(number);
        Self::new(move |touch| {
            if countdown.is_at(touch) {
                kill_itself();
            }
            Ok(())
        })
    }

    fn file(&self, file: Box<dyn FsFile>) -> Box<dyn FsFile> {
        Box::new(WatchedFile {
            file,
            watch: Arc::clone(&self.watch),
        })
    }
}

impl fmt::Debug for WatchedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatchedDisk")
    }
}

impl Fs for WatchedDisk {
    fn create_new(&self, path: &Path, access: Access) -> io::Result<Box<dyn FsFile>> {
        let told = (self.watch)(Touch::Change);
        let file = self.file(RealFs.create_new(path, access)?);
        told.map(|()| file)
    }

    fn create_unnamed(&self, folder: &Path) -> io::Result<Box<dyn FsFile>> {
        let told = (self.watch)(Touch::Change);
        let file = self.file(RealFs.create_unnamed(folder)?);
        told.map(|()| file)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        let told = (self.watch)(Touch::Open);
        let file = self.file(RealFs.open(path)?);
        told.map(|()| file)
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        let told = (self.watch)(Touch::Open);
        let file = self.file(RealFs.open_append(path)?);
        told.map(|()| file)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let told = (self.watch)(Touch::Read(0));
        let done = RealFs.metadata(path)?;
        told.map(|()| done)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let told = (self.watch)(Touch::Change);
        RealFs.rename(from, to)?;
        told
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let told = (self.watch)(Touch::Change);
        RealFs.hard_link(from, to)?;
        told
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let told = (self.watch)(Touch::Change);
        RealFs.create_dir(path)?;
        told
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let told = (self.watch)(Touch::Change);
        RealFs.remove_file(path)?;
        told
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let told = (self.watch)(Touch::Change);
        RealFs.remove_dir(path)?;
        told
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let told = (self.watch)(Touch::Read(0));
        let done = RealFs.read_dir(path)?;
        told.map(|()| done)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let told = (self.watch)(Touch::Change);
        RealFs.sync_dir(path)?;
        told
    }

    fn watcher(&self) -> io::Result<Option<Box<dyn Watcher>>> {
        RealFs.watcher()
    }
}

struct WatchedFile {
    file: Box<dyn FsFile>,
    watch: Arc<Watch>,
}

impl fmt::Debug for WatchedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WatchedFile({:?})", self.file)
    }
}

impl FsFile for WatchedFile {
    fn link(&self, to: &Path) -> io::Result<()> {
        let told = (self.watch)(Touch::Change);
        self.file.link(to)?;
        told
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let told = (self.watch)(Touch::Append(bytes.len()));
        self.file.append(bytes)?;
        told
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let told = (self.watch)(Touch::Read(buf.len()));
        let done = self.file.read_at(offset, buf)?;
        told.map(|()| done)
    }

    fn len(&self) -> io::Result<u64> {
        let told = (self.watch)(Touch::Read(0));
        let done = self.file.len()?;
        told.map(|()| done)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let told = (self.watch)(Touch::Change);
        self.file.set_len(len)?;
        told
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }

    fn sync_data(&mut self) -> io::Result<()> {
        let told = (self.watch)(Touch::Change);
        self.file.sync_data()?;
        told
    }

    fn sync(&mut self) -> io::Result<()> {
        let told = (self.watch)(Touch::Change);
        self.file.sync()?;
        told
    }

    fn map(&self) -> io::Result<Option<Map>> {
        self.file.map()
    }
}

/// Which change of the disk something happens at. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Countdown {
    left: Arc<AtomicU64>,
}

impl Countdown {
    /// Counts from here to the change with this number, from 1.
    pub(crate) fn start(&self, number: u64) {
        self.left.store(number, Ordering::SeqCst);
    }

    /// Whether this call is the one.
    pub(crate) fn is_at(&self, touch: Touch) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        let (set, fetch) = (Ordering::SeqCst, Ordering::SeqCst);
        touch.is_change() && self.left.fetch_update(set, fetch, one_less) == Ok(1)
    }

    /// Counts no longer. Answers whether the change has come.
    pub(crate) fn stop(&self) -> bool {
        self.left.swap(0, Ordering::SeqCst) == 0
    }
}

/// How often the disk was touched, and for how much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) calls: u64,
    pub(crate) opened: u64,
    pub(crate) written: u64,
    pub(crate) read: u64,
    pub(crate) longest_read: u64,
}

/// A disk that counts.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    calls: AtomicU64,
    opened: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
    longest_read: AtomicU64,
}

impl Counter {
    /// A disk, and what counts its calls.
    pub(crate) fn on_disk() -> (Arc<WatchedDisk>, Arc<Self>) {
        let counter = Arc::new(Self::default());
        let counting = Arc::clone(&counter);
        let disk = WatchedDisk::new(move |touch| {
            counting.note(touch);
            Ok(())
        });
        (Arc::new(disk), counter)
    }

    fn note(&self, touch: Touch) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match touch {
            Touch::Read(len) => {
                self.read.fetch_add(len as u64, Ordering::SeqCst);
                self.longest_read.fetch_max(len as u64, Ordering::SeqCst);
            }
            Touch::Append(len) => {
                self.written.fetch_add(len as u64, Ordering::SeqCst);
            }
            Touch::Open => {
                self.opened.fetch_add(1, Ordering::SeqCst);
            }
            Touch::Change => {}
        }
    }

    /// What was counted since the last time it was taken.
    pub(crate) fn take(&self) -> Count {
        Count {
            calls: self.calls.swap(0, Ordering::SeqCst),
            opened: self.opened.swap(0, Ordering::SeqCst),
            written: self.written.swap(0, Ordering::SeqCst),
            read: self.read.swap(0, Ordering::SeqCst),
            longest_read: self.longest_read.swap(0, Ordering::SeqCst),
        }
    }
}
