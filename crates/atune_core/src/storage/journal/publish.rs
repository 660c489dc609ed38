//! One commit on the disk: an extent in the writer's own data file, then the head that leads to it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use durable::{Access, Fs, FsFile, parent_of};

use super::codec::{extent, head_line, header_line};
use super::error::{JournalError, Result};
use super::lease::TICKET;
use super::options::Durability;
use super::record::{ExtentPointer, Head, Header};

/// The data file of one handle. After a failed or uncertain write it is left and another one begun.
#[derive(Debug)]
pub(super) struct DataFile {
    pub(super) name: String,
    path: PathBuf,
    file: Box<dyn FsFile>,
    len: u64,
    /// Whether its name is durable.
    is_named: bool,
}

impl DataFile {
    pub(super) fn create(fs: &dyn Fs, folder: &Path, name: String) -> Result<Self> {
        let path = folder.join(&name);
        let file = fs
            .create_new(&path, Access::Shared)
            .map_err(JournalError::io("create", &path))?;
        Ok(Self {
            name,
            path,
            file,
            len: 0,
            is_named: false,
        })
    }
}

/// What is to be published.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) payload: Vec<u8>,
}

/// Where a publication takes place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Press<'a> {
    pub(super) fs: &'a dyn Fs,
    /// The file at the study's path.
    pub(super) path: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) durability: Durability,
    pub(super) syncer: Option<&'a Syncer>,
}

/// A head that was published, and how the extent under it lies.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) head: Head,
    pub(super) metadata_len: usize,
    /// The head before, kept open so that freeing it need not be waited for.
    pub(super) replaced: Option<Box<dyn FsFile>>,
}

/// Why nothing was published, or perhaps.
#[derive(Debug)]
pub(super) enum Unpublished {
    /// The lease is lost. Nothing was published.
    LeaseLost,
    /// Nothing was published. The data file is of no further use if `seals`.
    Failed {
        /// Why.
        error: JournalError,
        /// Whether what the data file holds is uncertain.
        seals: bool,
    },
}

impl Press<'_> {
    /// Appends an extent, makes it and the ticket durable, and puts the ticket in the head's place. The
    /// folder of the head is not synced yet: see [`settle`](Self::settle).
    pub(super) fn publish(
        self,
        own: &Path,
        header: &Header,
        before: &Head,
        data: &mut Option<DataFile>,
        draft: &Draft,
    ) -> std::result::Result<Published, Unpublished> {
        let failed = |seals| move |error| Unpublished::Failed { error, seals };
        let Some(file) = data.as_mut() else {
            return Err(Unpublished::LeaseLost);
        };
        let bytes = extent(
            before.tip.clone(),
            draft.first,
            draft.last,
            before.bytes,
            &draft.payload,
        );
        let pointer = ExtentPointer {
            file: file.name.clone(),
            offset: file.len,
            len: bytes.len() as u64,
        };
        let head = Head {
            tip: Some(pointer),
            ops: draft.last,
            bytes: before.bytes + draft.payload.len() as u64,
        };
        file.file
            .append(&bytes)
            .map_err(JournalError::io("write", &file.path))
            .map_err(failed(true))?;
        file.len += bytes.len() as u64;
        let head_bytes = [header_line(header), head_line(&head)].concat();
        let ticket = own.join(TICKET);
        let mut ticket_file = self.write_ticket(&ticket, &head_bytes)?;
        if self.durability == Durability::Full {
            let path = file.path.clone();
            let was_named = file.is_named;
            let (data_synced, ticket_synced) = self.sync_both(data, ticket_file.as_mut());
            data_synced
                .map_err(JournalError::io("sync", &path))
                .map_err(failed(true))?;
            ticket_synced
                .map_err(JournalError::io("sync", &ticket))
                .map_err(failed(false))?;
            if !was_named {
                self.sync_names().map_err(failed(true))?;
                data.as_mut().ok_or(Unpublished::LeaseLost)?.is_named = true;
            }
        }
        drop(ticket_file);
        let replaced = self.fs.open(self.path).ok();
        self.place(&ticket, &head_bytes)?;
        Ok(Published {
            head,
            metadata_len: bytes.len() - draft.payload.len(),
            replaced,
        })
    }

    pub(super) fn sync_file(self, file: &mut dyn FsFile) -> std::io::Result<()> {
        match self.durability {
            Durability::Full => file.sync(),
            Durability::Process => Ok(()),
        }
    }

    /// Puts a head whose extents are durable in the place of what stands at the study's path.
    pub(super) fn replace_head(
        self,
        own: &Path,
        header: &Header,
        head: &Head,
    ) -> std::result::Result<(), Unpublished> {
        let bytes = [header_line(header), head_line(head)].concat();
        let ticket = own.join(TICKET);
        let mut file = self.write_ticket(&ticket, &bytes)?;
        self.sync_file(file.as_mut())
            .map_err(JournalError::io("sync", &ticket))
            .map_err(|error| Unpublished::Failed {
                error,
                seals: false,
            })?;
        drop(file);
        self.place(&ticket, &bytes)
    }

    fn write_ticket(
        self,
        ticket: &Path,
        bytes: &[u8],
    ) -> std::result::Result<Box<dyn FsFile>, Unpublished> {
        let failed = |error| Unpublished::Failed {
            error,
            seals: false,
        };
        let create = || self.fs.create_new(ticket, Access::Shared);
        let created = match create() {
            // Of a commit that failed before its rename.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                self.fs.remove_file(ticket).and_then(|()| create())
            }
            other => other,
        };
        let mut file = match created {
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(Unpublished::LeaseLost),
            other => other
                .map_err(JournalError::io("create", ticket))
                .map_err(failed)?,
        };
        file.append(bytes)
            .map_err(JournalError::io("write", ticket))
            .map_err(failed)?;
        Ok(file)
    }

    /// Syncs the data file and the ticket, side by side where there is a thread for it.
    fn sync_both(
        self,
        data: &mut Option<DataFile>,
        ticket: &mut dyn FsFile,
    ) -> (std::io::Result<()>, std::io::Result<()>) {
        if let Some(syncer) = self.syncer {
            if let Some(file) = data.take() {
                syncer.begin(file);
            }
            let ticket_synced = ticket.sync_data();
            let (file, data_synced) = syncer.end();
            *data = file;
            return (data_synced, ticket_synced);
        }
        let data_synced = match data {
            Some(file) => file.file.sync_data(),
            None => Ok(()),
        };
        (data_synced, ticket.sync_data())
    }

    /// The names of a new data file and of its folder, before the first head that refers to them.
    pub(super) fn sync_names(self) -> Result<()> {
        let parent = parent_of(self.path);
        if self.durability == Durability::Process {
            return Ok(());
        }
        for folder in [self.folder, parent] {
            self.fs
                .sync_dir(folder)
                .map_err(JournalError::io("sync", folder))?;
        }
        Ok(())
    }

    /// Renames the ticket onto the head. An error other than a lost lease leaves it open whether it
    /// happened: the head tells.
    fn place(self, ticket: &Path, head: &[u8]) -> std::result::Result<(), Unpublished> {
        let error = match self.fs.rename(ticket, self.path) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(Unpublished::LeaseLost),
            Err(error) => error,
        };
        self.fs.remove_file(ticket).ok();
        let is_published = durable::read_all(self.fs, self.path, head.len() as u64)
            .is_ok_and(|found| found == head);
        if is_published {
            return Ok(());
        }
        let error = JournalError::io("publish", self.path)(error);
        Err(Unpublished::Failed { error, seals: true })
    }

    /// Makes a published head durable.
    pub(super) fn settle(self) -> Result<()> {
        if self.durability == Durability::Process {
            return Ok(());
        }
        let parent = parent_of(self.path);
        self.fs
            .sync_dir(parent)
            .map_err(|source| JournalError::Unsettled {
                path: self.path.to_owned(),
                source,
            })
    }
}

/// A thread that syncs data files while another syncs the ticket, and closes files.
#[derive(Debug)]
pub(super) struct Syncer {
    work: Option<Sender<Work>>,
    done: Mutex<Receiver<(DataFile, std::io::Result<()>)>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Work {
    Sync(DataFile),
    Close(Box<dyn FsFile>),
}

impl Syncer {
    pub(super) fn start() -> Self {
        let (work, queue) = channel();
        let (finished, done) = channel();
        let thread = std::thread::spawn(move || {
            for work in queue {
                match work {
                    Work::Sync(mut file) => {
                        let synced = file.file.sync_data();
                        if finished.send((file, synced)).is_err() {
                            return;
                        }
                    }
                    Work::Close(file) => drop(file),
                }
            }
        });
        Self {
            work: Some(work),
            done: Mutex::new(done),
            thread: Some(thread),
        }
    }

    fn send(&self, work: Work) {
        if let Some(queue) = &self.work {
            // The thread ends only with this struct.
            queue.send(work).ok();
        }
    }

    fn begin(&self, file: DataFile) {
        self.send(Work::Sync(file));
    }

    fn end(&self) -> (Option<DataFile>, std::io::Result<()>) {
        // One commit at a time: nobody else waits here.
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        match done.recv() {
            Ok((file, synced)) => (Some(file), synced),
            Err(_) => (None, Err(std::io::Error::other("the syncing thread ended"))),
        }
    }

    pub(super) fn close(&self, file: Box<dyn FsFile>) {
        self.send(Work::Close(file));
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        drop(self.work.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
