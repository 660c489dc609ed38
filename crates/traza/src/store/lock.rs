//! One writer per store: a lock of the operating system, and beside it the file that names the owner.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use durable::{Access, Fs, FsFile, read_all};

use super::error::{During as _, Result, StoreError};

/// Names the process that writes the store.
pub(crate) const FILE_NAME: &str = "LOCK";
/// Other implementations hold it while they take over a stale `LOCK`.
const RECLAIM_NAME: &str = "LOCK.reclaim";
/// A process id and a line break.
const LEN_MAX: u64 = 64;
/// What follows the process id. Other implementations write one line break, and know no lock of the operating system.
/// Of a file that was cut off the end is missing.
const OURS: &str = "\n\n";
const THEIRS: &str = "\n";

/// Held by the writer of a store. Ends with the process, however that ends.
#[derive(Debug)]
pub(crate) struct StoreLock {
    path: PathBuf,
    /// Its lock is what counts between processes of this implementation.
    _file: Box<dyn FsFile>,
}

/// What is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Alive(u32),
    Gone,
    /// The file names nobody; or us, who do not hold it; or somebody whose lock would show.
    Unknown,
}

impl StoreLock {
    /// Takes the store in `dir`, which exists.
    ///
    /// A `LOCK` that a process left behind is taken over: the lock of the operating system ends with its holder, also
    /// when its process id belongs to another process by now. Where another implementation has written the file and the
    /// process that it names is alive, that one is left alone.
    pub(crate) fn take(fs: &dyn Fs, dir: &Path) -> Result<Self> {
        let path = dir.join(FILE_NAME);
        // The owner may remove the file between two of the calls; a few attempts outlast that.
        for _ in 0..8 {
            let (file, is_new) = match fs.create_new(&path, Access::Shared) {
                Ok(file) => (file, true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    match fs.open_append(&path) {
                        Ok(file) => (file, false),
                        Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                        Err(error) => return Err(error).during("open", &path),
                    }
                }
                Err(error) => return Err(error).during("create", &path),
            };
            let is_locked = match file.try_lock() {
                Ok(is_locked) => is_locked,
                // Without such locks the file's presence and its process id have to do.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => true,
                Err(error) => return Err(error).during("lock", &path),
            };
            let owner = owner_of(fs, &path);
            if !is_locked
                || matches!(owner, Owner::Alive(_)) && !is_new
                || !is_new && owner == Owner::Unknown && reclaim_is_alive(fs, dir)
            {
                return Err(busy(fs, dir));
            }
            let lock = Self::name_us(path.clone(), file)?;
            if lock.is_in_place(fs) {
                return Ok(lock);
            }
        }
        Err(busy(fs, dir))
    }

    /// False when the file was removed by its earlier owner after it was opened here: its lock then keeps nobody out.
    fn is_in_place(&self, fs: &dyn Fs) -> bool {
        // Another handle of the same file does not get the lock that this one has.
        match fs.open_append(&self.path) {
            Ok(file) => !matches!(file.try_lock(), Ok(true)),
            Err(_) => false,
        }
    }

    /// Writes our process id where other implementations look for it.
    fn name_us(path: PathBuf, mut file: Box<dyn FsFile>) -> Result<Self> {
        let mut text = String::new();
        // Writing to a string does not fail.
        write!(text, "{}{OURS}", std::process::id()).ok();
        file.set_len(0)
            .and_then(|()| file.append(text.as_bytes()))
            .and_then(|()| file.sync())
            .during("write", &path)?;
        Ok(Self { path, _file: file })
    }

    /// Gives the store up.
    pub(crate) fn release(self, fs: &dyn Fs) {
        // What stays behind is taken over by the next opening.
        fs.remove_file(&self.path).ok();
    }
}

fn busy(fs: &dyn Fs, dir: &Path) -> StoreError {
    StoreError::Busy {
        path: dir.to_owned(),
        owner: named_in(fs, &dir.join(FILE_NAME)).map(|(pid, _)| pid),
    }
}

/// The process that writes the store in `dir` now, as far as its lock file tells.
pub(crate) fn holder(fs: &dyn Fs, dir: &Path) -> Option<u32> {
    let path = dir.join(FILE_NAME);
    let (pid, is_ours) = named_in(fs, &path)?;
    let is_held = if is_ours {
        // Given back at once: the handle ends here.
        matches!(fs.open(&path).ok()?.try_lock(), Ok(false))
    } else {
        is_alive(pid)
    };
    is_held.then_some(pid)
}

/// The process id in a lock file, and whether this implementation wrote it.
fn named_in(fs: &dyn Fs, path: &Path) -> Option<(u32, bool)> {
    let bytes = read_all(fs, path, LEN_MAX).ok()?;
    let text = std::str::from_utf8(&bytes).ok()?;
    let (pid, is_ours) = match text.strip_suffix(OURS) {
        Some(pid) => (pid, true),
        None => (text.strip_suffix(THEIRS)?, false),
    };
    Some((pid.parse().ok()?, is_ours))
}

fn owner_of(fs: &dyn Fs, path: &Path) -> Owner {
    match named_in(fs, path) {
        None | Some((_, true)) => Owner::Unknown,
        Some((pid, false)) if pid == std::process::id() => Owner::Unknown,
        Some((pid, false)) if is_alive(pid) => Owner::Alive(pid),
        Some((_, false)) => Owner::Gone,
    }
}

fn reclaim_is_alive(fs: &dyn Fs, dir: &Path) -> bool {
    matches!(owner_of(fs, &dir.join(RECLAIM_NAME)), Owner::Alive(_))
}

fn is_alive(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    else {
        return false;
    };
    // Not being allowed to ask means that it is there.
    !matches!(
        rustix::process::test_kill_process(pid),
        Err(rustix::io::Errno::SRCH)
    )
}
