//! The numbered calls of a simulated disk, and the errors it answers with.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::random::Random;

/// The operating system's number for an error of the device.
pub const EIO: i32 = 5;
/// The operating system's number for a full disk.
pub const ENOSPC: i32 = 28;
/// The operating system's number for a disk mounted read-only.
pub const EROFS: i32 = 30;

/// One call that may change the disk, whether it succeeded or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number, from 1.
    pub number: u64,
    /// The path it was about; for calls on an open file, the path it was opened by.
    pub path: PathBuf,
    /// What it was to do.
    pub action: Action,
}

/// What a mutating call does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Creates a file.
    CreateNew,
    /// Appends bytes.
    Append {
        /// The length of the file before, in bytes.
        offset: u64,
        /// How many bytes.
        len: usize,
    },
    /// Cuts or extends a file.
    SetLen {
        /// The new length in bytes.
        len: u64,
    },
    /// Syncs a file's bytes.
    SyncData,
    /// Syncs a file's bytes and metadata.
    Sync,
    /// Renames a file or folder.
    Rename {
        /// The new path.
        to: PathBuf,
    },
    /// Gives a file a second name.
    HardLink {
        /// The second name.
        to: PathBuf,
    },
    /// Creates a folder.
    CreateDir,
    /// Removes a file's name.
    RemoveFile,
    /// Removes an empty folder.
    RemoveDir,
    /// Syncs the names in a folder.
    SyncDir,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, path) = (self.number, self.path.display());
        match &self.action {
            Action::CreateNew => write!(f, "call {number}: create {path}"),
            Action::Append { offset, len } => {
                write!(f, "call {number}: append {len} bytes at {offset} to {path}")
            }
            Action::SetLen { len } => write!(f, "call {number}: set the length of {path} to {len}"),
            Action::SyncData => write!(f, "call {number}: sync the data of {path}"),
            Action::Sync => write!(f, "call {number}: sync {path}"),
            Action::Rename { to } => write!(f, "call {number}: rename {path} to {}", to.display()),
            Action::HardLink { to } => write!(f, "call {number}: link {path} as {}", to.display()),
            Action::CreateDir => write!(f, "call {number}: create folder {path}"),
            Action::RemoveFile => write!(f, "call {number}: remove {path}"),
            Action::RemoveDir => write!(f, "call {number}: remove folder {path}"),
            Action::SyncDir => write!(f, "call {number}: sync folder {path}"),
        }
    }
}

/// How much of an append reaches the file before it fails. Other calls fail without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortWrite {
    /// None of the bytes.
    Nothing,
    /// The first so many, or all of them when there are fewer.
    Bytes(usize),
    /// The first few, how many is drawn from a seed: at least one, unless there are none, and not all,
    /// unless there is only one.
    Seeded(u64),
}

impl ShortWrite {
    pub(crate) fn of(self, len: usize) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Bytes(count) => count.min(len),
            Self::Seeded(seed) => Random::new(seed).between(1, len.saturating_sub(1)).min(len),
        }
    }
}

/// What the disk is told to do wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// An operating system error, or none when the machine stops.
    pub(crate) errno: Option<i32>,
    pub(crate) short: ShortWrite,
}

impl Fault {
    pub(crate) fn error(self) -> io::Error {
        match self.errno {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::other(Stopped),
        }
    }
}

/// The machine has stopped: nothing reaches the disk any more.
#[derive(Debug)]
struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the simulated machine has stopped")
    }
}

impl std::error::Error for Stopped {}

/// True for the error of every mutating call after [`SimFs::stop_at`](crate::SimFs::stop_at).
pub fn is_stopped(error: &io::Error) -> bool {
    error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Stopped>())
        .is_some()
}
