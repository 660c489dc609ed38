//! The handle that engines get: a [`durable::Fs`] over one shared simulated disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use durable::{Access, FileKind, Fs, FsFile, Metadata};

use crate::Survival;
use crate::call::{Action, Call, EIO, ENOSPC, EROFS, Fault, ShortWrite};
use crate::disk::{Disk, Found, Inode};

/// A simulated POSIX disk. Clones are handles of the same disk.
///
/// Paths are absolute, or relative to the root, and normalised as text. There are no symbolic links
/// and no permissions. Errors have the kinds that the real file system gives, and one is stricter:
/// [`Fs::sync_dir`] of a file is refused.
///
/// # Durability
/// As strict as POSIX: a file's sync does not make its name durable, a folder's sync makes neither
/// its own name durable nor the bytes of its files. A rename is one change: across folders it is durable,
/// whole, with the sync of the folder that has the new name.
/// A failed sync loses what it was to make durable, for good: reads still show it, a later sync
/// succeeds, and a power cut takes it.
#[derive(Clone, Debug, Default)]
pub struct SimFs {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    disk: Disk,
    calls: Vec<Call>,
    reads: u64,
    planned: BTreeMap<u64, Fault>,
    planned_reads: BTreeSet<u64>,
    stop: Option<(u64, ShortWrite)>,
    capacity: Option<u64>,
    read_only: bool,
}

impl SimFs {
    /// An empty disk without limits and faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty disk that holds `bytes` bytes of file content; names take no room.
    pub fn with_capacity(bytes: u64) -> Self {
        let fs = Self::new();
        fs.set_capacity(Some(bytes));
        fs
    }

    /// Gives the disk a size in bytes of file content, or takes the limit away. Appends beyond it
    /// write what fits and fail with `ENOSPC`; removed and closed files give their room back.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity = bytes;
    }

    /// Makes every change fail with `EROFS`, and opening for appending too; or ends that.
    pub fn set_read_only(&self, read_only: bool) {
        self.lock().read_only = read_only;
    }

    /// Makes mutating call `number` (from 1, as in [`SimFs::calls`]) fail once with the operating
    /// system's `errno`, such as [`EIO`] or [`ENOSPC`]. An append writes `short` first.
    /// A sync that fails poisons its handle and loses the unsynced bytes.
    pub fn fail_nth(&self, number: u64, errno: i32, short: ShortWrite) {
        let errno = Some(errno);
        self.lock().planned.insert(number, Fault { errno, short });
    }

    /// Makes the read `number` (from 1, counted over all files) fail once with [`EIO`].
    pub fn fail_nth_read(&self, number: u64) {
        self.lock().planned_reads.insert(number);
    }

    /// Stops the machine at mutating call `number`: it and all after it fail and change nothing,
    /// but for `short` of an append with that number. [`is_stopped`](crate::is_stopped) knows the error.
    /// Reads go on.
    pub fn stop_at(&self, number: u64, short: ShortWrite) {
        self.lock().stop = Some((number, short));
    }

    /// Every call so far that was to change the disk, also those that failed.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// How many reads there were.
    pub fn read_count(&self) -> u64 {
        self.lock().reads
    }

    /// What a crash at this moment leaves: a disk of its own, with everything on it synced, no file
    /// open, no calls counted, no faults and no limits.
    #[must_use]
    pub fn after_crash(&self, survival: Survival) -> Self {
        Self::of(self.lock().disk.after_crash(survival))
    }

    /// A disk of its own with the same live and synced content; no file open, no calls counted, no
    /// faults and no limits.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::of(self.lock().disk.clone())
    }

    /// Everything that is visible now: the bytes of every file, and `None` for every folder, by
    /// absolute path.
    pub fn contents(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        self.lock().disk.contents()
    }

    /// How many bytes of file content take room.
    pub fn used(&self) -> u64 {
        self.lock().disk.used()
    }

    fn of(mut disk: Disk) -> Self {
        disk.close_all();
        let state = State {
            disk,
            ..State::default()
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// A panic of one test thread must not hide what another has to say about the disk.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(
        &self,
        path: &Path,
        action: Action,
        act: impl FnOnce(&mut Disk) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.lock();
        state.begin(path, action).map_err(Fault::error)?;
        act(&mut state.disk)
    }

    fn handle(&self, inode: Inode, path: &Path, writable: bool) -> Box<dyn FsFile> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Box::new(SimFile {
            fs: self.clone(),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            inode,
            path: path.to_owned(),
            writable,
            poisoned: false,
        })
    }
}

impl State {
    /// Numbers the call and says whether it fails.
    fn begin(&mut self, path: &Path, action: Action) -> Result<(), Fault> {
        let number = self.calls.len() as u64 + 1;
        let syncs = matches!(action, Action::Sync | Action::SyncData | Action::SyncDir);
        self.calls.push(Call {
            number,
            path: path.to_owned(),
            action,
        });
        if let Some((stop, short)) = self.stop.filter(|(stop, _)| number >= *stop) {
            let short = if number == stop {
                short
            } else {
                ShortWrite::Nothing
            };
            return Err(Fault { errno: None, short });
        }
        if let Some(fault) = self.planned.remove(&number) {
            return Err(fault);
        }
        if self.read_only && !syncs {
            return Err(Fault {
                errno: Some(EROFS),
                short: ShortWrite::Nothing,
            });
        }
        Ok(())
    }

    /// How many more bytes fit.
    fn room(&self) -> u64 {
        self.capacity
            .map_or(u64::MAX, |bytes| bytes.saturating_sub(self.disk.used()))
    }
}

impl Fs for SimFs {
    fn create_new(&self, path: &Path, _access: Access) -> io::Result<Box<dyn FsFile>> {
        let inode = self.change(path, Action::CreateNew, |disk| {
            let inode = disk.create_file(path)?;
            disk.file_mut(inode)?.handles += 1;
            Ok(inode)
        })?;
        Ok(self.handle(inode, path, true))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        let mut state = self.lock();
        let found = state.disk.find(path)?;
        // As on a real disk, a folder opens, and only reading it fails.
        if let Found::File(inode) = found {
            state.disk.file_mut(inode)?.handles += 1;
        }
        Ok(self.handle(found.inode(), path, false))
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        let mut state = self.lock();
        let inode = state.disk.find(path)?.inode();
        let read_only = state.read_only;
        let file = state.disk.file_mut(inode)?;
        if read_only {
            return Err(io::Error::from_raw_os_error(EROFS));
        }
        file.handles += 1;
        Ok(self.handle(inode, path, true))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let state = self.lock();
        Ok(match state.disk.find(path)? {
            Found::Dir(_) => Metadata {
                kind: FileKind::Directory,
                len: 0,
                modified_ns: 0,
            },
            Found::File(inode) => Metadata {
                kind: FileKind::File,
                len: state.disk.file(inode)?.live().len() as u64,
                modified_ns: 0,
            },
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let action = Action::Rename { to: to.to_owned() };
        self.change(from, action, |disk| disk.rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let action = Action::HardLink { to: to.to_owned() };
        self.change(from, action, |disk| disk.hard_link(from, to))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.change(path, Action::CreateDir, |disk| disk.create_dir(path))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.change(path, Action::RemoveFile, |disk| disk.remove_file(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.change(path, Action::RemoveDir, |disk| disk.remove_dir(path))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let names = self.lock().disk.list(path)?;
        Ok(names.iter().map(|name| path.join(name)).collect())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let begun = state.begin(path, Action::SyncDir);
        let Found::Dir(dir) = state.disk.find(path)? else {
            return Err(ErrorKind::NotADirectory.into());
        };
        match begun {
            Ok(()) => {
                state.disk.sync_dir(dir);
                Ok(())
            }
            Err(fault) => {
                if fault.errno.is_some() {
                    state.disk.sync_dir_failed(dir);
                }
                Err(fault.error())
            }
        }
    }
}

/// An open file: it goes on when its name is renamed or removed.
#[derive(Debug)]
struct SimFile {
    fs: SimFs,
    number: u64,
    inode: Inode,
    path: PathBuf,
    writable: bool,
    poisoned: bool,
}

/// Longer files are a mistake of the test, and would take the machine's memory.
const FILE_LEN_MAX: u64 = 1 << 30;

const EBADF: i32 = 9;
const EINVAL: i32 = 22;

impl SimFile {
    fn usable(&self) -> io::Result<()> {
        if self.poisoned {
            return Err(io::Error::other(
                "an earlier sync of this file failed; reopen it",
            ));
        }
        Ok(())
    }

    /// A handle opened for reading refuses with `errno`: POSIX gives one for writing and another
    /// for cutting.
    fn writable(&self, errno: i32) -> io::Result<()> {
        if self.writable {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(errno))
        }
    }

    fn sync_as(&mut self, action: Action) -> io::Result<()> {
        self.usable()?;
        let mut state = self.fs.lock();
        let begun = state.begin(&self.path, action);
        match (begun, state.disk.file_mut(self.inode)) {
            (Ok(()), Ok(file)) => {
                file.sync();
                Ok(())
            }
            // A handle of a folder syncs nothing; Fs::sync_dir does.
            (Ok(()), Err(_)) => Ok(()),
            (Err(fault), file) => {
                if let (Some(_), Ok(file)) = (fault.errno, file) {
                    file.sync_failed();
                }
                self.poisoned = true;
                Err(fault.error())
            }
        }
    }
}

impl FsFile for SimFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.usable()?;
        // No bytes, no call: so it is with `write_all` as well.
        if bytes.is_empty() {
            return Ok(());
        }
        self.writable(EBADF)?;
        let mut state = self.fs.lock();
        let offset = state.disk.file(self.inode)?.live().len() as u64;
        let len = bytes.len();
        let begun = state.begin(&self.path, Action::Append { offset, len });
        let room = usize::try_from(state.room().min(FILE_LEN_MAX - offset)).unwrap_or(usize::MAX);
        let (wanted, result) = match begun {
            Ok(()) if len > room => (len, Err(io::Error::from_raw_os_error(ENOSPC))),
            Ok(()) => (len, Ok(())),
            Err(fault) => (fault.short.of(len), Err(fault.error())),
        };
        let written = bytes.get(..wanted.min(room)).unwrap_or(bytes);
        state.disk.file_mut(self.inode)?.append(written);
        result
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut state = self.fs.lock();
        state.reads += 1;
        let number = state.reads;
        if state.planned_reads.remove(&number) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let live = state.disk.file(self.inode)?.live();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = live.get(start..).unwrap_or_default();
        let count = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.fs.lock();
        Ok(state
            .disk
            .file(self.inode)
            .map_or(0, |file| file.live().len() as u64))
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.usable()?;
        self.writable(EINVAL)?;
        let mut state = self.fs.lock();
        let before = state.disk.file(self.inode)?.live().len() as u64;
        state
            .begin(&self.path, Action::SetLen { len })
            .map_err(Fault::error)?;
        if len.saturating_sub(before) > state.room() {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        let len = usize::try_from(len)
            .ok()
            .filter(|len| *len as u64 <= FILE_LEN_MAX)
            .ok_or(io::Error::from(ErrorKind::FileTooLarge))?;
        state.disk.file_mut(self.inode)?.set_len(len);
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut state = self.fs.lock();
        let locked_by = &mut state.disk.file_mut(self.inode)?.locked_by;
        Ok(*locked_by.get_or_insert(self.number) == self.number)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.sync_as(Action::SyncData)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_as(Action::Sync)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        if let Ok(file) = self.fs.lock().disk.file_mut(self.inode) {
            file.handles = file.handles.saturating_sub(1);
            file.locked_by = file.locked_by.filter(|number| *number != self.number);
        }
    }
}
