//! Getting the lease, and keeping it: the part of the storage that waits.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use super::error::{JournalError, Result};
use super::lease::{Held, Owner, SignOfLife, Survey};
use super::migrate::migrate;
use super::reader::{HEAD_FILE_LEN_MAX, JournalReader};
use super::storage::{IDLE, Shared, locked, nanos};
use super::turn::SOON;
use super::waiting::{Entry, LOOK, UNCLAIMED, Waited};

impl Shared {
    /// Waits for the lease. Of those who wait in one process at most one is here.
    pub(super) fn acquire(&self, handed_over: Option<(u64, u64)>) -> Result<Held> {
        let mut entry = locked(&self.entry);
        let acquired = self.contend(handed_over, &mut entry);
        self.waiting().leave(&mut entry);
        acquired
    }

    fn contend(&self, handed_over: Option<(u64, u64)>, entry: &mut Entry) -> Result<Held> {
        let leases = self.leases();
        let waiting = self.waiting();
        let watcher = self.watcher.as_deref();
        let mut waited = None;
        let mut free_since: Option<(u64, u64)> = None;
        let mut alive: Option<(SignOfLife, u64)> = None;
        if self.had_to_wait.swap(false, Ordering::Relaxed) {
            waited = Some(waiting.wait(watcher, entry, self.clock.wall_ns(), LOOK)?);
        }
        loop {
            // A listing may miss what is renamed meanwhile. The head tells whether anybody published since.
            let expects_held = waited == Some(Waited::Entered);
            let mut head = if expects_held {
                Vec::new()
            } else {
                self.head_bytes()?
            };
            let mut survey = leases.survey()?;
            let now = self.clock.mono_ns();
            if survey.is_held {
                free_since = None;
                if !expects_held && self.is_over(&survey, &mut alive, now) {
                    leases.fence(survey.largest)?;
                    continue;
                }
            } else {
                let handed_at = handed_over.filter(|(generation, _)| *generation == survey.largest);
                let since = match free_since.or(handed_at) {
                    Some((generation, since)) if generation == survey.largest => since,
                    _ => now,
                };
                free_since = Some((survey.largest, since));
                let is_my_turn = waited == Some(Waited::Woken)
                    || now.saturating_sub(since) > nanos(UNCLAIMED)
                    || (handed_at.is_none() && waiting.is_first(entry));
                if is_my_turn {
                    if expects_held {
                        head = self.head_bytes()?;
                        survey = leases.survey()?;
                    }
                    if survey.is_held {
                        continue;
                    }
                    let Some(held) = self.try_acquire(&survey, now)? else {
                        waited = None;
                        continue;
                    };
                    let again = self.head_bytes();
                    if again.as_ref().is_ok_and(|again| *again == head) {
                        return Ok(held);
                    }
                    leases.release(&held);
                    self.clean_up(held);
                    again?;
                }
            }
            self.had_to_wait.store(true, Ordering::Relaxed);
            let time = if survey.is_held { LOOK } else { UNCLAIMED };
            waited = Some(waiting.wait(watcher, entry, self.clock.wall_ns(), time)?);
        }
    }

    /// Whether the holder of the lease gave no sign of life for too long, or is known to be gone.
    fn is_over(&self, survey: &Survey, alive: &mut Option<(SignOfLife, u64)>, now_ns: u64) -> bool {
        let leases = self.leases();
        let sign = leases.sign_of_life(survey.largest);
        let owner = leases.owner(survey.largest, true);
        let since = match &alive {
            Some((seen, since)) if *seen == sign => *since,
            _ => now_ns,
        };
        *alive = Some((sign, since));
        let lease_ns = owner.as_ref().map_or(self.lease_ns(), |owner| {
            owner.lease_millis.clamp(1, 3_600_000) * 1_000_000
        });
        let is_gone =
            owner.is_some_and(|o| leases.is_owner_gone(survey.largest, &o, &self.identity));
        is_gone || now_ns.saturating_sub(since) > lease_ns
    }

    fn try_acquire(&self, survey: &Survey, now_ns: u64) -> Result<Option<Held>> {
        let mut folders = locked(&self.folders);
        let owner = self.owner();
        let leases = self.leases();
        leases.try_acquire(survey, &mut folders, &owner, &self.identity, now_ns)
    }

    fn head_bytes(&self) -> Result<Vec<u8>> {
        // A study of an older format is long; its first lines do not change.
        let io = || JournalError::io("read", &self.path);
        let file = self.fs.open(&self.path).map_err(io())?;
        let mut bytes = vec![0; HEAD_FILE_LEN_MAX];
        let len = file.read_at(0, &mut bytes).map_err(io())?;
        bytes.truncate(len);
        Ok(bytes)
    }

    fn owner(&self) -> Owner {
        Owner {
            worker: self.options.worker.0,
            pid: self.identity.pid,
            host: self.identity.host.clone(),
            boot: self.identity.boot.clone(),
            acquired_at_millis: self.clock.wall_ns() / 1_000_000,
            lease_millis: u64::try_from(self.options.lease.as_millis()).unwrap_or(u64::MAX),
            durability: self.options.durability,
        }
    }

    fn lease_ns(&self) -> u64 {
        nanos(self.options.lease)
    }

    /// Rewrites a study of an older format, under the lease.
    pub(super) fn migrate(&self) -> Result<()> {
        let held = self.acquire(None)?;
        let name = format!(
            "data-{:016x}-{:08x}-{:016x}",
            self.clock.wall_ns(),
            self.identity.pid,
            self.identity.draw()
        );
        let migrated = migrate(
            &self.fs,
            self.press(),
            &held,
            &name,
            self.options.extent_len_max,
        );
        let mut state = self.lock();
        state.lease = Some(held);
        self.give_back(&mut state);
        migrated?;
        state.reader = JournalReader::open_on(Arc::clone(&self.fs), &self.path)?;
        Ok(())
    }
}

/// Gives back a lease that lies idle, and renews one that is held for long.
pub(super) fn keep(shared: &Weak<Shared>) {
    loop {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let mut state = shared.lock();
        if state.is_closed {
            return;
        }
        let third = shared.options.lease / 3;
        let pause = if state.lease.is_none() {
            third
        } else {
            let now = shared.clock.mono_ns();
            let is_free = !state.is_flushing && state.pending.is_none();
            let is_kept = state.turn.kept_until().is_some();
            let lies_idle = match state.turn.kept_until() {
                Some(until) => now >= until,
                None => now.saturating_sub(state.last_commit_ns) > nanos(IDLE),
            };
            if is_free && lies_idle {
                let held = shared.release(&mut state, &[]);
                drop(state);
                if let Some(held) = held {
                    shared.clean_up(held);
                }
                continue;
            }
            let is_due = |held: &&mut Held| now.saturating_sub(held.renewed_ns) > nanos(third);
            if let Some(held) = state.lease.as_mut().filter(is_due) {
                // A lease that is lost shows at the next commit.
                shared.leases().renew(held, now).ok();
            }
            let look = if is_free && is_kept { SOON } else { IDLE };
            look.min(third)
        };
        state.is_keeper_asleep = pause > IDLE;
        let waited = shared.keep.wait_timeout(state, pause);
        waited
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .is_keeper_asleep = false;
    }
}
