//! Waiting for changes of files with the kernel's own notifications.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

use crate::Watcher;

/// An inotify instance.
#[derive(Debug)]
pub(crate) struct Inotify {
    fd: OwnedFd,
}

impl Inotify {
    pub(crate) fn new() -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { fd })
    }
}

impl Watcher for Inotify {
    fn add(&self, path: &Path) -> io::Result<()> {
        let changes = WatchFlags::ATTRIB
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MODIFY
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVE_SELF;
        inotify::add_watch(&self.fd, path, changes)?;
        Ok(())
    }

    fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(timeout)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            // A signal: the caller looks, and waits again.
            Err(Errno::INTR) => return Ok(true),
            Err(e) => return Err(e.into()),
        }
        // What changed does not matter: the caller looks. The events are read so that the next wait waits.
        let mut events = [0; 4096];
        loop {
            match rustix::io::read(&self.fd, &mut events) {
                Ok(len) if len < events.len() / 2 => return Ok(true),
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(true),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Fs, RealFs};

    #[test]
    fn a_waiter_is_woken_by_the_removal_of_a_watched_file_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("waiting");
        drop(RealFs.create_new(&path, Access::Shared).unwrap());
        let watcher = Inotify::new().unwrap();
        watcher.add(&path).unwrap();
        assert!(!watcher.wait(Duration::from_millis(5)).unwrap());
        RealFs.remove_file(&path).unwrap();
        assert!(watcher.wait(Duration::from_secs(20)).unwrap());
    }
}
