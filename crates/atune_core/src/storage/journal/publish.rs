//! One commit on the disk: an extent in the writer's own data file, then the head that leads to it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{Access, Fs, FsFile, parent_of};

use super::aside::Aside;
use super::codec::{decode_head_file, extent, head_line, header_line};
use super::error::{JournalError, Result};
use super::lease::TICKET;
use super::options::Durability;
use super::reader::{HEAD_FILE_LEN_MAX, JournalReader};
use super::record::{ExtentPointer, Head, Header};
use super::waiting::remove_if_left;

/// The data file of one handle. After a failed or uncertain write it is left and another one begun.
#[derive(Debug)]
pub(super) struct DataFile {
    pub(super) name: String,
    path: PathBuf,
    pub(super) file: Box<dyn FsFile>,
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
    pub(super) fs: &'a Arc<dyn Fs>,
    /// The file at the study's path.
    pub(super) path: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) durability: Durability,
    pub(super) aside: Option<&'a Aside>,
    /// A name for a ticket that was never used before.
    pub(super) ticket_name: u64,
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
        let path = file.path.clone();
        let was_named = file.is_named;
        let mut ticket = self.write_ticket(&head_bytes).map_err(failed(false))?;
        if self.durability == Durability::Full {
            let (data_synced, ticket_synced) = self.sync_both(data, ticket.file.as_mut());
            let synced = data_synced
                .map_err(JournalError::io("sync", &path))
                .map_err(failed(true))
                .and_then(|()| {
                    ticket_synced
                        .map_err(JournalError::io("sync", &own.join(TICKET)))
                        .map_err(failed(false))
                });
            if let Err(error) = synced {
                ticket.discard(self.fs.as_ref());
                return Err(error);
            }
            if !was_named {
                self.sync_names().map_err(failed(true))?;
                data.as_mut().ok_or(Unpublished::LeaseLost)?.is_named = true;
            }
        }
        // Kept open, the head that is replaced need not be freed within the rename.
        let replaced = self.fs.open(self.path).ok();
        self.place(ticket, own, &head_bytes)?;
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
        let failed = |error| Unpublished::Failed {
            error,
            seals: false,
        };
        let mut ticket = self.write_ticket(&bytes).map_err(failed)?;
        if let Err(source) = self.sync_file(ticket.file.as_mut()) {
            ticket.discard(self.fs.as_ref());
            return Err(failed(JournalError::io("sync", &own.join(TICKET))(source)));
        }
        self.place(ticket, own, &bytes)
    }

    /// Writes the new head into a file outside of every generation.
    fn write_ticket(self, bytes: &[u8]) -> Result<Ticket> {
        let prepared = self.aside.and_then(Aside::ticket);
        let mut ticket = match prepared {
            Some(ticket) => ticket,
            None => Ticket::create(self.fs.as_ref(), self.folder, self.ticket_name)?,
        };
        if let Err(source) = ticket.file.append(bytes) {
            ticket.discard(self.fs.as_ref());
            return Err(JournalError::io("write", &self.folder.join(TICKET))(source));
        }
        Ok(ticket)
    }

    /// Syncs the data file and the ticket, side by side where there is a thread for it.
    fn sync_both(
        self,
        data: &mut Option<DataFile>,
        ticket: &mut dyn FsFile,
    ) -> (std::io::Result<()>, std::io::Result<()>) {
        if let Some(aside) = self.aside {
            if let Some(file) = data.take() {
                aside.begin_sync(file);
            }
            let ticket_synced = ticket.sync_data();
            let (file, data_synced) = aside.end_sync();
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

    /// Moves the ticket into the generation, and from there onto the head. An error other than a lost lease
    /// leaves it open whether it happened: the history tells.
    fn place(
        self,
        ticket: Ticket,
        own: &Path,
        head: &[u8],
    ) -> std::result::Result<(), Unpublished> {
        let bound = own.join(TICKET);
        if let Err(error) = ticket.bind(self.fs.as_ref(), &bound) {
            return Err(match error.kind() {
                ErrorKind::NotFound => Unpublished::LeaseLost,
                _ => Unpublished::Failed {
                    error: JournalError::io("publish", &bound)(error),
                    seals: false,
                },
            });
        }
        let Err(error) = self.fs.rename(&bound, self.path) else {
            return Ok(());
        };
        // Over a network a rename may take place and be answered with an error.
        match self.has_published(head) {
            Ok(true) => Ok(()),
            Ok(false) if error.kind() == ErrorKind::NotFound => Err(Unpublished::LeaseLost),
            _ => {
                self.fs.remove_file(&bound).ok();
                let error = JournalError::io("publish", self.path)(error);
                Err(Unpublished::Failed { error, seals: true })
            }
        }
    }

    /// Whether a head was published: it is there, or others have built upon it since.
    fn has_published(self, head: &[u8]) -> Result<bool> {
        let found = durable::read_all(self.fs.as_ref(), self.path, HEAD_FILE_LEN_MAX as u64);
        if found.map_err(JournalError::io("read", self.path))? == head {
            return Ok(true);
        }
        let Some(tip) = decode_head_file(head).ok().and_then(|(_, head)| head.tip) else {
            return Ok(false);
        };
        let reader = JournalReader::open_on(Arc::clone(self.fs), self.path)?;
        Ok(reader.holds(&tip))
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

/// A file that will hold a head. It is made and written outside of the generation, so that it can be made
/// before there is one.
#[derive(Debug)]
pub(super) struct Ticket {
    /// `None`: it has no name yet.
    path: Option<PathBuf>,
    pub(super) file: Box<dyn FsFile>,
}

impl Ticket {
    pub(super) fn create(fs: &dyn Fs, folder: &Path, name: u64) -> Result<Self> {
        // One without a name leaves nothing behind, and its sync need not make a name durable.
        if let Ok(file) = fs.create_unnamed(folder) {
            return Ok(Self { path: None, file });
        }
        let path = folder.join(format!("{TICKETS}{name:016x}"));
        let created = fs.create_new(&path, Access::Shared);
        let file = created.map_err(JournalError::io("create", &path))?;
        // Who finds it unlocked knows that its handle is gone.
        file.try_lock().ok();
        let path = Some(path);
        Ok(Self { path, file })
    }

    /// Gives it the name by which it can be published.
    fn bind(self, fs: &dyn Fs, bound: &Path) -> std::io::Result<()> {
        let bind = || match &self.path {
            Some(path) => fs.rename(path, bound),
            None => self.file.link(bound),
        };
        let done = match bind() {
            // Of a commit that failed before its rename.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                fs.remove_file(bound).and_then(|()| bind())
            }
            other => other,
        };
        if done.is_err() {
            self.discard(fs);
        }
        done
    }

    /// Does without it.
    pub(super) fn discard(self, fs: &dyn Fs) {
        if let Some(path) = self.path {
            fs.remove_file(&path).ok();
        }
    }

    /// Removes the tickets that handles left behind which are gone.
    pub(super) fn sweep(fs: &dyn Fs, folder: &Path) {
        for path in fs.read_dir(folder).unwrap_or_default() {
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.starts_with(TICKETS)) {
                remove_if_left(fs, &path);
            }
        }
    }
}

/// What the names of tickets begin with that have one before they are bound.
const TICKETS: &str = "ticket-";
