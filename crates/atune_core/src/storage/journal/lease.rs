//! The lease: which of many processes may publish. Protocol: `docs/formats/atj.md`, "Lease and ticket";
//! why it is so: `docs/decisions/0003-lease-protocol.md`.
//!
//! Generations are folders: `gen-<G>` is held, `fenced-<G>` is over, the largest wins. Whether a publication
//! takes place hangs on one thing: that the path of the owner's ticket still leads to it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use durable::{Access, Fs, FsFile, read_all};
use serde::{Deserialize, Serialize};

use super::error::{JournalError, Result};
use super::identity::Identity;
use super::options::Durability;

/// Over generations that are kept, for those who look at them.
const FENCED_KEPT: u64 = 2;
/// How far behind a generation is before others than its owner, who may use its directory again, remove it.
const LEFT_TO_OWNER: u64 = 64;
/// The longest file of the lease that is read.
const SMALL_LEN_MAX: u64 = 4096;

/// Who holds a generation, as its file `owner` tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The worker.
    pub worker: u64,
    /// The process.
    pub pid: u32,
    /// The machine's name.
    pub host: String,
    /// Which start of the machine.
    pub boot: String,
    /// The owner's clock at the acquisition.
    pub acquired_at_millis: u64,
    /// How long the owner may stay silent.
    pub lease_millis: u64,
    /// What the owner promises with an acknowledgement.
    pub durability: Durability,
}

/// What stands in the folder: the largest generation and whether it is held, and what is older.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    pub(super) largest: u64,
    pub(super) is_held: bool,
    older: Vec<(u64, PathBuf)>,
}

/// A prepared directory that becomes a generation by one rename. Creating and deleting costs most of a
/// change of owners, so a handle uses its directories again and again.
#[derive(Debug)]
pub(super) struct Spare {
    path: PathBuf,
    /// The folder in it, of which the name was never used before.
    by: String,
    /// Its lock tells others of this machine that the owner lives.
    owner: Box<dyn FsFile>,
    /// Bytes in it.
    told: u64,
    renewals: u64,
}

/// A lease that was acquired. Dropping it does not release it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) generation: u64,
    /// The folder that only this acquisition has, with the ticket in it.
    pub(super) own: PathBuf,
    pub(super) renewed_ns: u64,
    /// Whether a head was published under it: only then may it take away what is older.
    pub(super) has_published: bool,
    older: Vec<(u64, PathBuf)>,
    spare: Spare,
}

/// What a handle has besides the lease that it holds.
#[derive(Debug, Default)]
pub(super) struct OwnFolders {
    spare: Option<Spare>,
    /// Its generations that are over.
    past: Vec<Held>,
}

/// What a contender saw of a holder: any change of it is a sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SignOfLife {
    generation: u64,
    renewed: Vec<u8>,
}

/// The folder in which the lease is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseFolder<'a> {
    pub(super) fs: &'a dyn Fs,
    pub(super) folder: &'a Path,
}

impl LeaseFolder<'_> {
    pub(super) fn survey(self) -> Result<Survey> {
        let names = self
            .fs
            .read_dir(self.folder)
            .map_err(JournalError::io("list", self.folder))?;
        let mut survey = Survey::default();
        let mut all = Vec::new();
        for path in names {
            let name = path.file_name().and_then(|name| name.to_str());
            let Some((generation, is_held)) = name.and_then(generation_of) else {
                continue;
            };
            // Fencing wins over holding: of two folders with one number the held one is a leftover.
            if generation > survey.largest {
                (survey.largest, survey.is_held) = (generation, is_held);
            } else if generation == survey.largest {
                survey.is_held &= is_held;
            }
            all.push((generation, is_held, path));
        }
        let oldest_kept = survey.largest.saturating_sub(FENCED_KEPT - 1);
        let is_old = |generation, is_held| {
            generation < oldest_kept || (is_held && generation < survey.largest)
        };
        survey.older = all
            .into_iter()
            .filter(|(generation, is_held, _)| is_old(*generation, *is_held))
            .map(|(generation, _, path)| (generation, path))
            .collect();
        Ok(survey)
    }

    /// Tries to become the owner of the generation after the largest, which is over. `None`: another was
    /// first.
    pub(super) fn try_acquire(
        self,
        survey: &Survey,
        folders: &mut OwnFolders,
        owner: &Owner,
        identity: &Identity,
        now_ns: u64,
    ) -> Result<Option<Held>> {
        let mut spare = match folders.spare.take() {
            Some(spare) => spare,
            None => self.make_spare(identity)?,
        };
        spare.tell(owner)?;
        // Before the next generation exists, not after: who dies in between must leave no ticket behind.
        self.remove_tickets(&self.fenced(survey.largest))?;
        let generation = survey.largest + 1;
        let folder = self.held(generation);
        match self.fs.rename(&spare.path, &folder) {
            Ok(()) => {}
            Err(e) if is_occupied(&e) => {
                folders.spare = Some(spare);
                return Ok(None);
            }
            // Somebody took the spare for a dead handle's: the next try makes another one.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(JournalError::io("create", &folder))?,
        }
        let again = self.survey();
        let is_mine = |found: &Survey| found.largest == generation && found.is_held;
        if !again.as_ref().is_ok_and(is_mine) {
            // Nobody should have to wait for this generation to expire. Only who sees something larger may
            // move out: otherwise the directory of this name can be another's by now.
            if again
                .as_ref()
                .is_ok_and(|found| found.largest >= generation)
            {
                folders.spare = self.take_back(spare, &folder, identity);
            } else {
                self.fs.rename(&folder, &self.fenced(generation)).ok();
            }
            return again.map(|_| None);
        }
        Ok(Some(Held {
            generation,
            own: folder.join(&spare.by),
            renewed_ns: now_ns,
            has_published: false,
            older: again?.older,
            spare,
        }))
    }

    fn make_spare(self, identity: &Identity) -> Result<Spare> {
        let path = self.folder.join(format!("{SPARE}{:016x}", identity.draw()));
        let by = own_folder(identity);
        for folder in [&path, &path.join(&by)] {
            let made = self.fs.create_dir(folder);
            made.map_err(JournalError::io("create", folder))?;
        }
        let owner = self.make_owner(&path)?;
        Ok(Spare {
            path,
            by,
            owner,
            told: 0,
            renewals: 0,
        })
    }

    fn make_owner(self, folder: &Path) -> Result<Box<dyn FsFile>> {
        let path = folder.join(OWNER);
        let created = self.fs.create_new(&path, Access::Shared);
        let file = created.map_err(JournalError::io("create", &path))?;
        // Where there are no such locks, others wait for the lease time.
        file.try_lock().ok();
        Ok(file)
    }

    /// Ends a generation that somebody holds: first its path, then its tickets.
    pub(super) fn fence(self, generation: u64) -> Result<()> {
        let (held, fenced) = (self.held(generation), self.fenced(generation));
        match self.fs.rename(&held, &fenced) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            other => other.map_err(JournalError::io("fence", &held))?,
        }
        self.remove_tickets(&fenced)
    }

    /// Gives the lease back. It may be lost already, which is the same.
    pub(super) fn release(self, held: &Held) {
        let (from, to) = (self.held(held.generation), self.fenced(held.generation));
        self.fs.rename(&from, &to).ok();
    }

    /// After a release: takes away what was over when the lease was acquired, if something was published
    /// since. A latecomer whose listing misses what is gone sees at least another head. Own directories are
    /// used again; what cannot be removed stays.
    pub(super) fn clean_up(self, held: Held, folders: &mut OwnFolders, identity: &Identity) {
        if held.has_published {
            for past in std::mem::take(&mut folders.past) {
                let from = self.fenced(past.generation);
                match folders.spare {
                    None => folders.spare = self.take_back(past.spare, &from, identity),
                    Some(_) => self.remove_generation(&from),
                }
            }
            let is_left = |(generation, _): &&(u64, PathBuf)| {
                generation.saturating_add(LEFT_TO_OWNER) < held.generation
            };
            for (_, old) in held.older.iter().filter(is_left) {
                self.remove_generation(old);
            }
        }
        folders.past.push(held);
    }

    /// Makes a spare of a generation that is over, or came too late. Others may have got hold of its insides before, and what
    /// they still do there is to remove things, which costs a lease at most.
    fn take_back(self, mut spare: Spare, from: &Path, identity: &Identity) -> Option<Spare> {
        self.fs.rename(from, &spare.path).ok()?;
        let old = spare.path.join(&spare.by);
        self.fs.remove_file(&old.join(TICKET)).ok();
        spare.by = own_folder(identity);
        let new = spare.path.join(&spare.by);
        let owner = spare.path.join(OWNER);
        let is_whole = (self.fs.rename(&old, &new).is_ok() || self.fs.create_dir(&new).is_ok())
            && (self.fs.exists(&owner).unwrap_or(false) || {
                let made = self.make_owner(&spare.path);
                spare.told = 0;
                made.map(|file| spare.owner = file).is_ok()
            });
        if !is_whole {
            self.remove_generation(&spare.path);
        }
        is_whole.then_some(spare)
    }

    /// Removes the spare of a handle that is closed.
    pub(super) fn discard(self, folders: &mut OwnFolders) {
        if let Some(spare) = folders.spare.take() {
            self.remove_generation(&spare.path);
        }
    }

    /// Removes the spares that handles left behind which ran on this machine and are gone.
    pub(super) fn sweep(self, identity: &Identity) {
        for path in self.fs.read_dir(self.folder).unwrap_or_default() {
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.starts_with(SPARE)) {
                let owner = self.owner_in(&path);
                if owner.is_some_and(|owner| self.is_gone(&path, &owner, identity)) {
                    self.remove_generation(&path);
                }
            }
        }
    }

    fn remove_generation(self, folder: &Path) {
        for entry in self.fs.read_dir(folder).unwrap_or_default() {
            if is_own_folder(&entry) {
                self.fs.remove_file(&entry.join(TICKET)).ok();
                self.fs.remove_dir(&entry).ok();
            } else {
                self.fs.remove_file(&entry).ok();
            }
        }
        self.fs.remove_dir(folder).ok();
    }

    /// A rename that the kernel has begun has found its folder already, and is stopped by the name alone.
    fn remove_tickets(self, fenced: &Path) -> Result<()> {
        let entries = match self.fs.read_dir(fenced) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            other => other.map_err(JournalError::io("list", fenced))?,
        };
        for entry in entries.iter().filter(|entry| is_own_folder(entry)) {
            let ticket = entry.join(TICKET);
            match self.fs.remove_file(&ticket) {
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                other => other.map_err(JournalError::io("remove", &ticket))?,
            }
        }
        Ok(())
    }

    /// Shows others that the owner lives.
    pub(super) fn renew(self, held: &mut Held, now_ns: u64) -> io::Result<()> {
        let folder = self.held(held.generation);
        let next = held.own.join("renewed");
        match self.fs.remove_file(&next) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = self.fs.create_new(&next, Access::Shared)?;
        held.spare.renewals += 1;
        file.append(format!("{}\n", held.spare.renewals).as_bytes())?;
        self.fs.rename(&next, &folder.join("renewed"))?;
        held.renewed_ns = now_ns;
        Ok(())
    }

    /// What shows whether the holder of a generation lives.
    pub(super) fn sign_of_life(self, generation: u64) -> SignOfLife {
        let path = self.held(generation).join("renewed");
        let renewed = read_all(self.fs, &path, SMALL_LEN_MAX).unwrap_or_default();
        SignOfLife {
            generation,
            renewed,
        }
    }

    /// Who holds a generation, or held it; `None` when that cannot be read (yet).
    pub(super) fn owner(self, generation: u64, is_held: bool) -> Option<Owner> {
        let folder = if is_held {
            self.held(generation)
        } else {
            self.fenced(generation)
        };
        self.owner_in(&folder)
    }

    fn owner_in(self, folder: &Path) -> Option<Owner> {
        let bytes = read_all(self.fs, &folder.join(OWNER), SMALL_LEN_MAX).ok()?;
        // One line for each generation that the directory was, the last one last.
        let last = bytes.trim_ascii_end().rsplit(|&b| b == b'\n').next()?;
        serde_json::from_slice(last).ok()
    }

    /// True when the owner of a generation ran on this machine, since its last start, and is gone.
    pub(super) fn is_owner_gone(self, generation: u64, owner: &Owner, identity: &Identity) -> bool {
        self.is_gone(&self.held(generation), owner, identity)
    }

    fn is_gone(self, folder: &Path, owner: &Owner, identity: &Identity) -> bool {
        if owner.boot != identity.boot || owner.host != identity.host || owner.boot.is_empty() {
            return false;
        }
        let path = folder.join(OWNER);
        let locked = self.fs.open(&path).and_then(|file| file.try_lock());
        locked.unwrap_or(false)
    }

    fn held(self, generation: u64) -> PathBuf {
        self.folder.join(format!("gen-{generation:016x}"))
    }

    fn fenced(self, generation: u64) -> PathBuf {
        self.folder.join(format!("fenced-{generation:016x}"))
    }
}

impl Spare {
    /// Writes down who will hold the generation.
    fn tell(&mut self, owner: &Owner) -> Result<()> {
        let text = serde_json::to_vec(owner).unwrap_or_default();
        let written = self
            .owner
            .set_len(0)
            .and_then(|()| self.owner.append(&text));
        written.map_err(JournalError::io("write", &self.path.join(OWNER)))
    }
}

/// A directory that is there and not empty cannot be replaced.
fn is_occupied(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty
    )
}

/// The name of the file that becomes the head.
pub(super) const TICKET: &str = "ticket";
/// The name of the file that tells who holds a generation.
const OWNER: &str = "owner";
/// What the names of spares begin with.
const SPARE: &str = "spare-";

fn own_folder(identity: &Identity) -> String {
    format!("by-{:016x}", identity.draw())
}

fn is_own_folder(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with("by-"))
}

/// The generation that a folder's name stands for, and whether it is held.
fn generation_of(name: &str) -> Option<(u64, bool)> {
    let (digits, is_held) = match name.strip_prefix("gen-") {
        Some(digits) => (digits, true),
        None => (name.strip_prefix("fenced-")?, false),
    };
    let is_hex = digits.len() == 16
        && digits
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if !is_hex {
        return None;
    }
    let generation = u64::from_str_radix(digits, 16).ok()?;
    // Larger ones were never counted up to: a forged name must not end the counting.
    (generation < u64::MAX / 2).then_some((generation, is_held))
}
