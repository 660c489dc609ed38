//! The thread at a writer's side: what can be done at the same time, and what need not be waited for.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use durable::{Fs, FsFile};

use super::publish::{DataFile, Ticket};

/// A thread that syncs data files while the writer syncs the ticket, makes the next ticket, and closes heads
/// that were replaced, which frees them. One thread, since more of them get in the disk's way.
#[derive(Debug)]
pub(super) struct Aside {
    fs: Arc<dyn Fs>,
    work: Option<Sender<Work>>,
    synced: Mutex<Receiver<(DataFile, std::io::Result<()>)>>,
    tickets: Mutex<Receiver<Option<Ticket>>>,
    is_ticket_ordered: AtomicBool,
    thread: Option<JoinHandle<()>>,
    pid: u32,
}

#[derive(Debug)]
enum Work {
    Sync(DataFile),
    /// Makes a ticket of this name.
    Ticket(u64),
    Close(Box<dyn FsFile>),
}

impl Aside {
    pub(super) fn start(fs: Arc<dyn Fs>, folder: PathBuf) -> Self {
        let (work, queue) = channel();
        let (finished, synced) = channel();
        let (made, tickets) = channel();
        let used = Arc::clone(&fs);
        let thread = std::thread::spawn(move || {
            for work in queue {
                match work {
                    Work::Sync(mut file) => {
                        let result = file.file.sync_data();
                        finished.send((file, result)).ok();
                    }
                    Work::Ticket(name) => {
                        // Without one, the commit makes its own and tells why it cannot.
                        let ticket = Ticket::create(used.as_ref(), &folder, name).ok();
                        made.send(ticket).ok();
                    }
                    Work::Close(file) => drop(file),
                }
            }
        });
        Self {
            fs,
            work: Some(work),
            synced: Mutex::new(synced),
            tickets: Mutex::new(tickets),
            is_ticket_ordered: AtomicBool::new(false),
            thread: Some(thread),
            pid: std::process::id(),
        }
    }

    fn send(&self, work: Work) {
        if let Some(queue) = &self.work {
            // The thread ends only with this struct.
            queue.send(work).ok();
        }
    }

    pub(super) fn begin_sync(&self, file: DataFile) {
        self.send(Work::Sync(file));
    }

    pub(super) fn end_sync(&self) -> (Option<DataFile>, std::io::Result<()>) {
        // One commit at a time: nobody else waits here.
        let synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        match synced.recv() {
            Ok((file, synced)) => (Some(file), synced),
            Err(_) => (None, Err(std::io::Error::other("the thread aside ended"))),
        }
    }

    pub(super) fn close(&self, file: Box<dyn FsFile>) {
        self.send(Work::Close(file));
    }

    /// Lets a ticket be made for the next commit.
    pub(super) fn order_ticket(&self, name: u64) {
        if !self.is_ticket_ordered.swap(true, Ordering::Relaxed) {
            self.send(Work::Ticket(name));
        }
    }

    /// The ticket that was ordered, if one was.
    pub(super) fn ticket(&self) -> Option<Ticket> {
        if !self.is_ticket_ordered.swap(false, Ordering::Relaxed) {
            return None;
        }
        let tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.recv().ok().flatten()
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            // A forked child has no such thread.
            std::mem::forget(self.thread.take());
            return;
        }
        if let Some(ticket) = self.ticket() {
            ticket.discard(self.fs.as_ref());
        }
        drop(self.work.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}
