//! Waiting for the lease: who waits has an entry in a folder, and whoever releases wakes the one that came
//! first. Only a courtesy: whom nobody wakes looks again after a while.
//!
//! An entry is a file of one handle that gets one name while the handle waits and another while it does
//! not: creating and deleting would cost more than the wait.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use durable::{Access, Fs, FsFile, Watcher};

use super::error::{JournalError, Result};
use super::identity::Identity;

/// How long a lease may lie unclaimed before others than the one that was woken take it.
pub(super) const UNCLAIMED: Duration = Duration::from_millis(3);
/// How often a waiter looks whether the holder lives.
pub(super) const LOOK: Duration = Duration::from_millis(25);
/// The same where there are no notifications.
const LOOK_BLINDLY: Duration = Duration::from_millis(1);
/// What the names of entries begin with whose handles do not wait.
const IDLE: &str = "idle-";

/// The folder of those who wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting<'a> {
    pub(super) fs: &'a dyn Fs,
    pub(super) folder: &'a Path,
}

/// What came of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// There is an entry now. The lease may have been released before: look again first.
    Entered,
    /// Nobody woke this one.
    InVain,
    Woken,
}

/// The entry of one handle.
#[derive(Debug)]
pub(super) struct Entry {
    /// What its names have in common.
    name: String,
    /// Its name while the handle waits.
    awaiting: Option<PathBuf>,
    /// There is a file of it, and its lock tells others of this machine that the handle lives.
    file: Option<Box<dyn FsFile>>,
}

impl Entry {
    pub(super) fn new(identity: &Identity) -> Self {
        Self {
            name: format!("{:08x}-{:016x}", identity.pid, identity.draw()),
            awaiting: None,
            file: None,
        }
    }
}

impl Waiting<'_> {
    /// Those who wait, the first first.
    pub(super) fn entered(self) -> Vec<PathBuf> {
        let mut entries = self.fs.read_dir(self.folder).unwrap_or_default();
        entries.retain(|path| idle_name(path).is_some());
        entries
    }

    /// Whether nobody stands before this entry.
    pub(super) fn is_first(self, entry: &Entry) -> bool {
        let entered = self.entered();
        entered.is_empty() || entered.first() == entry.awaiting.as_ref()
    }

    /// Wakes the first of those who wait. Answers whether there was one.
    pub(super) fn wake_first(self, entered: &[PathBuf]) -> bool {
        // One that has another name by now was woken by another, or left: the next one then.
        entered.iter().any(|first| {
            idle_name(first).is_some_and(|idle| {
                let woken = self.fs.rename(first, &self.folder.join(idle));
                woken.is_ok()
            })
        })
    }

    /// Waits to be woken, for a short while. The first call enters the entry behind all that came before.
    pub(super) fn wait(
        self,
        watcher: Option<&dyn Watcher>,
        entry: &mut Entry,
        now_ns: u64,
        time: Duration,
    ) -> Result<Waited> {
        let Some(path) = &entry.awaiting else {
            self.enter(watcher, entry, now_ns)?;
            return Ok(Waited::Entered);
        };
        match watcher {
            Some(watcher) => {
                let waited = watcher.wait(time);
                waited.map_err(JournalError::io("watch", path))?;
            }
            None => std::thread::sleep(LOOK_BLINDLY),
        }
        let is_there = self.fs.exists(path);
        if is_there.map_err(JournalError::io("look at", path))? {
            return Ok(Waited::InVain);
        }
        entry.awaiting = None;
        Ok(Waited::Woken)
    }

    fn enter(self, watcher: Option<&dyn Watcher>, entry: &mut Entry, now_ns: u64) -> Result<()> {
        let name = format!("{now_ns:016x}-{}", entry.name);
        let path = self.folder.join(name);
        let idle = self.folder.join(format!("{IDLE}{}", entry.name));
        let is_renamed = entry.file.is_some() && self.fs.rename(&idle, &path).is_ok();
        if !is_renamed {
            let file = self
                .create(&path)
                .map_err(JournalError::io("create", &path))?;
            file.try_lock().ok();
            entry.file = Some(file);
            if let Some(watcher) = watcher {
                watcher.add(&path).ok();
            }
        } else if let Some(watcher) = watcher {
            // Its own rename is no news.
            watcher.wait(Duration::ZERO).ok();
        }
        entry.awaiting = Some(path);
        Ok(())
    }

    fn create(self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        let created = self.fs.create_new(path, Access::Shared);
        if !matches!(&created, Err(e) if e.kind() == ErrorKind::NotFound) {
            return created;
        }
        match self.fs.create_dir(self.folder) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e),
            _ => self.fs.create_new(path, Access::Shared),
        }
    }

    /// Waits no longer.
    pub(super) fn leave(self, entry: &mut Entry) {
        if let Some(path) = entry.awaiting.take() {
            let idle = self.folder.join(format!("{IDLE}{}", entry.name));
            self.fs.rename(&path, &idle).ok();
        }
    }

    /// Removes the entry of a handle that is closed.
    pub(super) fn discard(self, entry: &mut Entry) {
        self.leave(entry);
        if entry.file.take().is_some() {
            let idle = self.folder.join(format!("{IDLE}{}", entry.name));
            self.fs.remove_file(&idle).ok();
        }
    }

    /// Removes the entries of handles that are gone.
    pub(super) fn sweep(self) {
        for path in self.fs.read_dir(self.folder).unwrap_or_default() {
            remove_if_left(self.fs, &path);
        }
    }
}

/// Removes a file if the handle that keeps a lock on it is gone.
pub(super) fn remove_if_left(fs: &dyn Fs, path: &Path) {
    let file = fs.open(path);
    if file.and_then(|file| file.try_lock()).unwrap_or(false) {
        fs.remove_file(path).ok();
    }
}

/// The name that an entry gets when its handle is woken; `None` if the handle does not wait.
fn idle_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (time, rest) = name.split_once('-')?;
    let waits = time.len() == 16 && time.bytes().all(|b| b.is_ascii_hexdigit());
    waits.then(|| format!("{IDLE}{rest}"))
}
