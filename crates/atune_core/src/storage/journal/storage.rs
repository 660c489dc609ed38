//! The storage on a journal: many threads of many processes on one study.
//!
//! Threads of one process share one handle. They plan under its lock, each on the state that the one
//! before left, and whoever finds nobody flushing writes what has gathered as one extent.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use durable::{Clock, Fs, RealFs, SystemClock, Watcher};

use super::acquire::keep;
use super::aside::Aside;
use super::codec::{head_line, header_line, op_line};
use super::error::{JournalError, Result};
use super::identity::Identity;
use super::lease::{Held, LeaseFolder, OwnFolders};
use super::options::{Durability, JournalOptions};
use super::publish::{DataFile, Draft, Press, Ticket, Unpublished};
use super::reader::{JournalReader, data_folder};
use super::record::{FORMAT_VERSION, Head, Header, OpLine};
use super::snapshot::place_new;
use super::turn::Turn;
use super::waiting::{Entry, Waiting};
use crate::replica::{Refusal, Replica};
use crate::storage::{self, Plan, Storage};

/// How long a lease that nobody waits for is kept for the next commit.
pub(super) const IDLE: Duration = Duration::from_millis(2);
/// How often a commit that lost its lease is tried again.
const ATTEMPTS: u32 = 100;

/// A study that can be written. Threads share one handle; processes open one each.
#[derive(Debug)]
pub struct JournalStorage {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) fs: Arc<dyn Fs>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) identity: Identity,
    pub(super) path: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) options: JournalOptions,
    pub(super) waiting_folder: PathBuf,
    pub(super) watcher: Option<Box<dyn Watcher>>,
    pub(super) aside: Option<Aside>,
    /// Where this handle waits.
    pub(super) entry: Mutex<Entry>,
    /// Whether it had to wait for the lease that it had last: it will have to again.
    pub(super) had_to_wait: AtomicBool,
    /// Directories that were or will be generations of this handle.
    pub(super) folders: Mutex<OwnFolders>,
    pub(super) state: Mutex<State>,
    /// Something changed that a thread may wait for.
    pub(super) changed: Condvar,
    /// The lease was left lying, or the handle is closed.
    pub(super) keep: Condvar,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) reader: JournalReader,
    /// Whether the reader's state is what was published, and what is pending. If not, it is read anew.
    pub(super) is_current: bool,
    pub(super) lease: Option<Held>,
    /// A thread is about to get the lease.
    pub(super) is_acquiring: bool,
    /// A thread is writing.
    pub(super) is_flushing: bool,
    /// Others wait for the lease: what is pending is the last under it.
    pub(super) is_closing: bool,
    pub(super) pending: Option<Pending>,
    /// How the commit that is being written ends.
    pub(super) in_flight: Option<Arc<Ending>>,
    pub(super) data: Option<DataFile>,
    pub(super) last_commit_ns: u64,
    pub(super) turn: Turn,
    /// The generation that was handed over last, and when: the one that was woken comes first.
    pub(super) handed_over: Option<(u64, u64)>,
    pub(super) is_keeper_asleep: bool,
    pub(super) is_closed: bool,
}

/// How a commit ended, for all that took part.
#[derive(Debug, Default)]
pub(super) struct Ending {
    ended: OnceLock<std::result::Result<(), Unpublished>>,
    /// It has ended, or one of those who wait should write it. Of its own for each commit, so that nobody is woken for
    /// that of others: with many threads that would take longer than the commit.
    told: Condvar,
}

impl Ending {
    fn tell(&self, ended: std::result::Result<(), Unpublished>) {
        self.ended.set(ended).ok();
        self.told.notify_all();
    }
}

#[derive(Debug)]
pub(super) struct Pending {
    draft: Draft,
    /// The kind of its last operation.
    kind: &'static str,
    ending: Arc<Ending>,
}

pub(super) type Locked<'a> = MutexGuard<'a, State>;

impl JournalStorage {
    /// Creates a study file without studies in it, which must not exist yet, and opens it.
    ///
    /// # Errors
    /// `Io` with `AlreadyExists` when something stands there.
    pub fn create(path: impl AsRef<Path>, options: JournalOptions) -> Result<Self> {
        let clock = Arc::new(SystemClock::start());
        let identity = Identity::of_this_process();
        Self::create_on(Arc::new(RealFs), clock, identity, path, options)
    }

    /// Opens a study file for writing. One of an older format is migrated first.
    ///
    /// # Errors
    /// As [`JournalReader::open`].
    pub fn open(path: impl AsRef<Path>, options: JournalOptions) -> Result<Self> {
        let clock = Arc::new(SystemClock::start());
        let identity = Identity::of_this_process();
        Self::open_on(Arc::new(RealFs), clock, identity, path, options)
    }

    /// As [`create`](Self::create), with everything that differs from run to run given.
    pub fn create_on(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        identity: Identity,
        path: impl AsRef<Path>,
        options: JournalOptions,
    ) -> Result<Self> {
        let path = path.as_ref();
        super::snapshot::refuse_existing(fs.as_ref(), path)?;
        let header = Header {
            format: FORMAT_VERSION,
            atune: env!("CARGO_PKG_VERSION").to_owned(),
            created_at_millis: clock.wall_ns() / 1_000_000,
            created_by: options.worker,
        };
        let line = header_line(&header);
        let head = Head {
            tip: None,
            ops: 0,
            bytes: line.len() as u64,
        };
        let token = format!("{:016x}", identity.draw());
        place_new(
            fs.as_ref(),
            path,
            &token,
            &[line, head_line(&head)].concat(),
        )?;
        Self::open_on(fs, clock, identity, path, options)
    }

    /// As [`open`](Self::open), with everything that differs from run to run given.
    pub fn open_on(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        identity: Identity,
        path: impl AsRef<Path>,
        options: JournalOptions,
    ) -> Result<Self> {
        let options = options.within_readers();
        let path = path.as_ref().to_owned();
        let reader = JournalReader::open_on(Arc::clone(&fs), &path)?;
        let folder = data_folder(&path);
        if !fs
            .exists(&folder)
            .map_err(JournalError::io("look at", &folder))?
        {
            match fs.create_dir(&folder) {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                other => other.map_err(JournalError::io("create", &folder))?,
            }
        }
        // Without notifications, or with too many of them on this machine, waiting is by looking.
        let watcher = options.threads.then(|| fs.watcher().ok().flatten());
        let is_old = reader.header().format < FORMAT_VERSION;
        let state = State {
            is_current: true,
            lease: None,
            is_acquiring: false,
            is_flushing: false,
            is_closing: false,
            pending: None,
            in_flight: None,
            data: None,
            last_commit_ns: 0,
            turn: Turn::default(),
            handed_over: None,
            is_keeper_asleep: false,
            is_closed: false,
            reader,
        };
        let shared = Arc::new(Shared {
            waiting_folder: folder.join("waiting"),
            watcher: watcher.flatten(),
            aside: options
                .threads
                .then(|| Aside::start(Arc::clone(&fs), folder.clone())),
            entry: Mutex::new(Entry::new(&identity)),
            had_to_wait: AtomicBool::new(false),
            folders: Mutex::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            keep: Condvar::new(),
            fs,
            clock,
            identity,
            path,
            folder,
            options,
        });
        shared.sweep();
        if is_old {
            shared.migrate()?;
        }
        let keeper = shared.options.threads.then(|| {
            let shared = Arc::downgrade(&shared);
            std::thread::spawn(move || keep(&shared))
        });
        Ok(Self { shared, keeper })
    }

    /// The file at the study's path.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// What its acknowledgements promise.
    pub fn durability(&self) -> Durability {
        self.shared.options.durability
    }
}

impl Drop for JournalStorage {
    fn drop(&mut self) {
        if !self.shared.identity.is_this_process() {
            // A forked child has no such thread, and a lock that one held stays held for ever.
            std::mem::forget(self.keeper.take());
            return;
        }
        let mut state = self.shared.lock();
        state.is_closed = true;
        self.shared.release(&mut state, &[]);
        self.shared
            .leases()
            .discard(&mut locked(&self.shared.folders));
        self.shared
            .waiting()
            .discard(&mut locked(&self.shared.entry));
        drop(state);
        self.shared.keep.notify_all();
        if let Some(keeper) = self.keeper.take() {
            keeper.join().ok();
        }
    }
}

impl Storage for JournalStorage {
    fn commit_batch(
        &self,
        plans: &mut [&mut Plan<'_>],
    ) -> storage::Result<Vec<std::result::Result<u64, Refusal>>> {
        let shared = &self.shared;
        shared.check_process()?;
        for _ in 0..ATTEMPTS {
            let mut state = shared.ready()?;
            let mut answers = Vec::with_capacity(plans.len());
            let mut ending = None;
            for plan in plans.iter_mut() {
                let answer = shared.plan(&mut state, plan);
                if answer.is_ok() {
                    ending = state.pending.as_ref().map(|p| Arc::clone(&p.ending));
                }
                answers.push(answer);
            }
            let Some(ending) = ending else {
                if state.pending.is_none() && !state.is_flushing {
                    shared.rest(&mut state);
                }
                return Ok(answers);
            };
            match shared.finish(state, &ending) {
                Ok(()) => return Ok(answers),
                Err(None) => {}
                Err(Some(error)) => return Err(error.into()),
            }
        }
        Err(JournalError::LeaseLost {
            path: shared.path.clone(),
            times: ATTEMPTS,
        }
        .into())
    }

    fn read(&self, look: &mut dyn FnMut(&Replica)) -> storage::Result<()> {
        let shared = &self.shared;
        shared.check_process()?;
        loop {
            let mut state = shared.lock();
            shared.make_current(&mut state)?;
            if state.lease.is_none() && !state.is_flushing {
                state.reader.refresh()?;
            }
            look(state.reader.replica());
            // What was seen must last: a commit that is on its way may yet fail.
            let seen = match (&state.pending, &state.in_flight) {
                (Some(pending), _) => Arc::clone(&pending.ending),
                (None, Some(in_flight)) => Arc::clone(in_flight),
                (None, None) => return Ok(()),
            };
            match shared.finish(state, &seen) {
                Ok(()) | Err(Some(JournalError::Unsettled { .. })) => return Ok(()),
                Err(_) => {}
            }
        }
    }
}

impl Shared {
    /// A panic elsewhere does not stop others: what it left is checked by `is_current`.
    pub(super) fn lock(&self) -> Locked<'_> {
        locked(&self.state)
    }

    fn wait<'a>(&self, state: Locked<'a>) -> Locked<'a> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn check_process(&self) -> Result<()> {
        if self.identity.is_this_process() {
            return Ok(());
        }
        Err(JournalError::Forked {
            path: self.path.clone(),
            process: self.identity.pid,
        })
    }

    pub(super) fn leases(&self) -> LeaseFolder<'_> {
        LeaseFolder {
            fs: self.fs.as_ref(),
            folder: &self.folder,
        }
    }

    pub(super) fn waiting(&self) -> Waiting<'_> {
        Waiting {
            fs: self.fs.as_ref(),
            folder: &self.waiting_folder,
        }
    }

    /// Removes what handles left behind that are gone.
    fn sweep(&self) {
        self.leases().sweep(&self.identity);
        self.waiting().sweep();
        Ticket::sweep(self.fs.as_ref(), &self.folder);
    }

    /// After a release, and outside of the lock: makes the directory fit for another generation.
    pub(super) fn clean_up(&self, held: Held) {
        let mut folders = locked(&self.folders);
        self.leases().clean_up(held, &mut folders, &self.identity);
    }

    pub(super) fn press(&self) -> Press<'_> {
        Press {
            fs: &self.fs,
            path: &self.path,
            folder: &self.folder,
            durability: self.options.durability,
            aside: self.aside.as_ref(),
            ticket_name: self.identity.draw(),
        }
    }

    /// Reads the study anew when what this handle knew did not last.
    fn make_current(&self, state: &mut State) -> Result<()> {
        if !state.is_current && state.pending.is_none() && !state.is_flushing {
            state.reader = JournalReader::open_on(Arc::clone(&self.fs), &self.path)?;
            state.is_current = true;
        }
        Ok(())
    }

    /// Waits until this handle has the lease and an up-to-date state, and there is room for a record.
    fn ready(&self) -> Result<Locked<'_>> {
        let mut state = self.lock();
        state.turn.note_asked(self.clock.mono_ns());
        loop {
            if state.is_acquiring || state.is_closing {
                state = self.wait(state);
                continue;
            }
            let gathered = state.pending.as_ref().map_or(0, |p| p.draft.payload.len());
            if state.lease.is_some() && gathered > self.options.extent_len_max / 2 {
                state = self.wait(state);
                continue;
            }
            if state.lease.is_some() && state.is_current {
                return Ok(state);
            }
            if state.is_flushing || state.pending.is_some() {
                state = self.wait(state);
                continue;
            }
            state.is_acquiring = true;
            let handed_over = state.handed_over;
            drop(state);
            let acquired = self.acquire(handed_over);
            state = self.lock();
            state.is_acquiring = false;
            self.changed.notify_all();
            state.lease = Some(acquired?);
            state.turn.begin();
            let refreshed = self.make_current(&mut state).and_then(|()| {
                state.reader.refresh()?;
                Ok(())
            });
            if let Err(error) = refreshed {
                state.is_current = false;
                self.give_back(&mut state);
                return Err(error);
            }
            return Ok(state);
        }
    }

    /// Lets a plan derive an operation, applies it, and adds it to what is pending.
    fn plan(&self, state: &mut State, plan: &mut Plan<'_>) -> std::result::Result<u64, Refusal> {
        let op = plan(state.reader.replica())?;
        let seq = state.reader.replica().seq() + 1;
        let line = OpLine {
            seq,
            worker: self.options.worker,
            at_millis: self.clock.wall_ns() / 1_000_000,
            op,
        };
        let bytes = op_line(&line);
        let kind = line.op.kind();
        let gathered = state.pending.as_ref().map_or(0, |p| p.draft.payload.len());
        let too_long = |what, len, max| Err(Refusal::TooLong { what, len, max });
        if bytes.len() > self.options.record_len_max {
            return too_long("a record", bytes.len(), self.options.record_len_max);
        }
        let len = gathered + bytes.len();
        if len > self.options.extent_len_max {
            return too_long("records", len, self.options.extent_len_max);
        }
        state.reader.replica_mut().apply_line(&line)?;
        let pending = state.pending.get_or_insert_with(|| Pending {
            draft: Draft {
                first: seq,
                last: seq,
                payload: Vec::new(),
            },
            kind,
            ending: Arc::default(),
        });
        pending.kind = kind;
        pending.draft.last = seq;
        pending.draft.payload.extend_from_slice(&bytes);
        Ok(seq)
    }

    /// Waits for the end of a commit, and writes it if nobody else does. `None`: the lease was lost, nothing
    /// was published, and it can be tried again.
    fn finish<'a>(
        &'a self,
        mut state: Locked<'a>,
        ending: &Arc<Ending>,
    ) -> std::result::Result<(), Option<JournalError>> {
        loop {
            if let Some(ended) = ending.ended.get() {
                return match ended {
                    Ok(()) => Ok(()),
                    Err(Unpublished::LeaseLost) => Err(None),
                    Err(Unpublished::Failed { error, .. }) => Err(Some(error.again())),
                };
            }
            if state.is_flushing {
                let told = ending.told.wait(state);
                state = told.unwrap_or_else(PoisonError::into_inner);
            } else {
                state = self.flush(state);
            }
        }
    }

    /// Writes what is pending as one extent.
    fn flush<'a>(&'a self, mut state: Locked<'a>) -> Locked<'a> {
        let Some(pending) = state.pending.take() else {
            return state;
        };
        let Some(own) = state.lease.as_ref().map(|held| held.own.clone()) else {
            self.fail(&mut state, &pending.ending, Unpublished::LeaseLost);
            return state;
        };
        state.is_flushing = true;
        state.in_flight = Some(Arc::clone(&pending.ending));
        let mut data = state.data.take();
        let (header, before) = (state.reader.header().clone(), state.reader.head().clone());
        drop(state);
        self.changed.notify_all();
        let published = self.open_data(&mut data).and_then(|()| {
            self.press()
                .publish(&own, &header, &before, &mut data, &pending.draft)
        });
        let entered = match &published {
            Ok(_) => self.waiting().entered(),
            Err(_) => Vec::new(),
        };
        state = self.lock();
        let published = match published {
            Ok(published) => published,
            Err(unpublished) => {
                let seals = matches!(unpublished, Unpublished::Failed { seals: true, .. });
                state.data = data.filter(|_| !seals);
                state.is_flushing = false;
                state.in_flight = None;
                self.fail(&mut state, &pending.ending, unpublished);
                return state;
            }
        };
        state.data = data;
        if let Some(held) = &mut state.lease {
            held.has_published = true;
        }
        state.last_commit_ns = self.clock.mono_ns();
        let noted =
            state
                .reader
                .note_published(&published.head, published.metadata_len, &pending.draft);
        state.is_current &= noted.is_ok();
        let goes_on = state.turn.note_published(pending.kind) && self.options.threads;
        let is_kept = goes_on && !entered.is_empty();
        // Others can go on while this head is being made durable: theirs come after it.
        let released = if state.pending.is_some() {
            state.is_closing |= !entered.is_empty();
            None
        } else if !self.options.threads || state.is_closing || !(goes_on || entered.is_empty()) {
            self.release(&mut state, &entered)
        } else {
            None
        };
        drop(state);
        if let (Some(aside), Some(replaced)) = (&self.aside, published.replaced) {
            aside.order_ticket(self.identity.draw());
            aside.close(replaced);
        }
        let settled = self.press().settle();
        if let Some(held) = released {
            self.clean_up(held);
        }
        state = self.lock();
        state.is_flushing = false;
        state.in_flight = None;
        let ended = settled.map_err(|error| Unpublished::Failed {
            error,
            seals: false,
        });
        pending.ending.tell(ended);
        if let Some(next) = &state.pending {
            next.ending.told.notify_one();
        }
        let now = self.clock.mono_ns();
        state.turn.note_ended(pending.kind, now, is_kept);
        if state.lease.is_some() && (is_kept || state.is_keeper_asleep) {
            self.keep.notify_all();
        }
        self.changed.notify_all();
        state
    }

    fn open_data(&self, data: &mut Option<DataFile>) -> std::result::Result<(), Unpublished> {
        if data.is_some() {
            return Ok(());
        }
        let name = format!(
            "data-{:016x}-{:08x}-{:016x}",
            self.clock.wall_ns(),
            self.identity.pid,
            self.identity.draw()
        );
        let created = DataFile::create(self.fs.as_ref(), &self.folder, name);
        *data = Some(created.map_err(|error| Unpublished::Failed {
            error,
            seals: false,
        })?);
        Ok(())
    }

    /// Ends a commit that was not published, and those that were planned on top of it.
    fn fail(&self, state: &mut State, ending: &Ending, why: Unpublished) {
        state.is_current = false;
        if let Some(later) = state.pending.take() {
            let same = match &why {
                Unpublished::LeaseLost => Unpublished::LeaseLost,
                Unpublished::Failed { error, seals } => Unpublished::Failed {
                    error: error.again(),
                    seals: *seals,
                },
            };
            later.ending.tell(Err(same));
        }
        ending.tell(Err(why));
        self.give_back(state);
        self.changed.notify_all();
    }

    /// A lease that was acquired for nothing is kept, or given back at once.
    fn rest(&self, state: &mut State) {
        if !self.options.threads || state.is_closing {
            self.give_back(state);
        } else if state.is_keeper_asleep {
            self.keep.notify_all();
        }
    }

    /// As [`release`](Self::release), and [cleans up](Self::clean_up).
    pub(super) fn give_back(&self, state: &mut State) {
        if let Some(held) = self.release(state, &[]) {
            self.clean_up(held);
        }
    }

    /// Gives the lease back and wakes the first that waits for it; `entered` are those who did a while ago.
    pub(super) fn release(&self, state: &mut State, entered: &[PathBuf]) -> Option<Held> {
        let held = state.lease.take()?;
        self.leases().release(&held);
        state.is_closing = false;
        let waiting = self.waiting();
        let is_handed_over = waiting.wake_first(entered) || waiting.wake_first(&waiting.entered());
        state.handed_over = is_handed_over.then(|| (held.generation, self.clock.mono_ns()));
        self.changed.notify_all();
        Some(held)
    }
}

/// A panic elsewhere does not stop others.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
