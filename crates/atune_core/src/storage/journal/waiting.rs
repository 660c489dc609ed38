//! Waiting for the lease: who waits is entered in a folder, and whoever releases wakes the one that came
//! first. Only a courtesy: whom nobody wakes looks again after a few milliseconds.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use durable::{Access, Fs, Watcher};

use super::error::{JournalError, Result};
use super::identity::Identity;

/// How long a lease may lie unclaimed before others than the one that was woken take it.
pub(super) const UNCLAIMED: Duration = Duration::from_millis(3);
/// How often a waiter looks whether the holder lives.
const LOOK: Duration = Duration::from_millis(4);

/// The folder of those who wait.
#[derive(Debug)]
pub(super) struct Waiting {
    folder: PathBuf,
}

/// One that waits.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    is_entered: bool,
}

impl Waiting {
    pub(super) fn new(data_folder: &Path) -> Self {
        Self {
            folder: data_folder.join("waiting"),
        }
    }

    /// A place behind all that came before. It is entered with the first wait.
    pub(super) fn place(&self, now_ns: u64, identity: &Identity) -> Place {
        let name = format!(
            "{now_ns:016x}-{:08x}-{:016x}",
            identity.pid,
            identity.draw()
        );
        Place {
            path: self.folder.join(name),
            is_entered: false,
        }
    }

    /// Those who wait, the first first.
    pub(super) fn entered(&self, fs: &dyn Fs) -> Vec<PathBuf> {
        fs.read_dir(&self.folder).unwrap_or_default()
    }

    /// Wakes the one that came first. Answers whether there was one.
    pub(super) fn wake_first(&self, fs: &dyn Fs) -> bool {
        // One that is gone was woken by another, or left: the next one then.
        self.entered(fs)
            .iter()
            .any(|first| fs.remove_file(first).is_ok())
    }

    /// Waits to be woken, for a short while. Answers whether this place was woken.
    pub(super) fn wait(
        &self,
        fs: &dyn Fs,
        watcher: Option<&dyn Watcher>,
        place: &mut Place,
    ) -> Result<bool> {
        if !place.is_entered {
            self.enter(fs, place)?;
            // Between looking at the lease and entering it may have been released: look again first.
            if let Some(watcher) = watcher {
                watcher.add(&place.path).ok();
            }
            return Ok(false);
        }
        match watcher {
            Some(watcher) => {
                watcher
                    .wait(LOOK)
                    .map_err(JournalError::io("watch", &place.path))?;
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
        let is_there = fs
            .exists(&place.path)
            .map_err(JournalError::io("look at", &place.path))?;
        place.is_entered = is_there;
        Ok(!is_there)
    }

    fn enter(&self, fs: &dyn Fs, place: &mut Place) -> Result<()> {
        let create = || fs.create_new(&place.path, Access::Shared).map(drop);
        let entered = match create() {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let made = fs.create_dir(&self.folder);
                match made {
                    Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e),
                    _ => create(),
                }
            }
            other => other,
        };
        entered.map_err(JournalError::io("create", &place.path))?;
        place.is_entered = true;
        Ok(())
    }

    /// Waits no longer.
    pub(super) fn leave(fs: &dyn Fs, place: &Place) {
        if place.is_entered {
            fs.remove_file(&place.path).ok();
        }
    }
}
