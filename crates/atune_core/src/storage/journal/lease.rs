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
    older: Vec<PathBuf>,
}

/// A lease that was acquired. Dropping it does not release it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) generation: u64,
    /// The folder that only this acquisition has, with the ticket in it.
    pub(super) own: PathBuf,
    pub(super) renewed_ns: u64,
    renewals: u64,
    /// Whether a head was published under it: only then may it remove what is older.
    pub(super) has_published: bool,
    older: Vec<PathBuf>,
    /// Its lock tells others of this machine that the owner lives.
    _owner: Box<dyn FsFile>,
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
            .map(|(_, _, path)| path)
            .collect();
        Ok(survey)
    }

    /// Tries to become the owner of the generation after the largest, which is over. `None`: another was
    /// first.
    pub(super) fn try_acquire(
        self,
        survey: &Survey,
        owner: &Owner,
        identity: &Identity,
        now_ns: u64,
    ) -> Result<Option<Held>> {
        // Before the next generation exists, not after: who dies in between must leave no ticket behind.
        self.remove_tickets(&self.fenced(survey.largest))?;
        let generation = survey.largest + 1;
        let folder = self.held(generation);
        match self.fs.create_dir(&folder) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(None),
            other => other.map_err(JournalError::io("create", &folder))?,
        }
        let acquired = self.furnish(generation, &folder, owner, identity, now_ns);
        if matches!(acquired, Err(_) | Ok(None)) {
            // Whatever went wrong, nobody should have to wait for this generation to expire.
            self.fs.rename(&folder, &self.fenced(generation)).ok();
        }
        acquired
    }

    fn furnish(
        self,
        generation: u64,
        folder: &Path,
        owner: &Owner,
        identity: &Identity,
        now_ns: u64,
    ) -> Result<Option<Held>> {
        // A folder that nobody else ever had: a stale owner's path must not lead into this generation.
        let own = folder.join(format!("by-{:016x}", identity.draw()));
        match self.fs.create_dir(&own) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(JournalError::io("create", &own))?,
        }
        let again = self.survey()?;
        if again.largest != generation || !again.is_held {
            self.fs.remove_dir(&own).ok();
            return Ok(None);
        }
        let path = folder.join("owner");
        let file = match self.fs.create_new(&path, Access::Shared) {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => {
                return Ok(None);
            }
            other => other.map_err(JournalError::io("create", &path))?,
        };
        let mut file = file;
        // Where there are no such locks, others wait for the lease time.
        file.try_lock().ok();
        let text = serde_json::to_vec(owner).unwrap_or_default();
        file.append(&text)
            .map_err(JournalError::io("write", &path))?;
        Ok(Some(Held {
            generation,
            own,
            renewed_ns: now_ns,
            renewals: 0,
            has_published: false,
            older: again.older,
            _owner: file,
        }))
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

    /// Removes what was over long ago when the lease was acquired, if something was published since: a
    /// latecomer whose listing misses what is removed sees at least another head. What cannot be removed
    /// stays.
    pub(super) fn clean_up(self, held: &Held) {
        if !held.has_published {
            return;
        }
        for old in &held.older {
            self.remove_generation(old);
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
        held.renewals += 1;
        file.append(format!("{}\n", held.renewals).as_bytes())?;
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
        let bytes = read_all(self.fs, &folder.join("owner"), SMALL_LEN_MAX).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// True when the owner of a generation ran on this machine, since its last start, and is gone.
    pub(super) fn is_owner_gone(self, generation: u64, owner: &Owner, identity: &Identity) -> bool {
        if owner.boot != identity.boot || owner.host != identity.host || owner.boot.is_empty() {
            return false;
        }
        let path = self.held(generation).join("owner");
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

/// The name of the file that becomes the head.
pub(super) const TICKET: &str = "ticket";

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
