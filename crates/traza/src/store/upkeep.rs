//! The threads of a store: one seals, one erases, merges and expires. A merge can take long; a seal must not wait for it.

use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Shared;
use super::seal::Due;

/// How often the age of the buffer is looked at.
const SEAL_TICK: Duration = Duration::from_secs(1);
/// Rest after a failure, so that a full disk is not asked over and over.
const REST: Duration = Duration::from_millis(200);
/// The same for merges, which only save space and time.
const MERGE_REST: Duration = Duration::from_secs(30);
/// The same for erasures, for which somebody waits.
const ERASURE_REST: Duration = Duration::from_secs(5);

/// Merges wait until no batch has come for so long: they take the processors from those who write.
const QUIET: Duration = Duration::from_millis(250);
/// But not when there are so many segments more than after the last merge, each of which every question has to look at.
const UNMERGED_MAX: usize = 32;

/// Starts them. They end when the store is closed.
pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<Vec<JoinHandle<()>>> {
    let spawn = |name: &str, run: fn(&Shared)| {
        let shared = Arc::clone(shared);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&shared))
    };
    Ok(vec![
        spawn("traza-seal", seal)?,
        spawn("traza-merge", merge)?,
    ])
}

impl Shared {
    /// Waits until there may be something to do. False when the store is closed.
    fn wait_for_work(&self, at_most: Duration) -> bool {
        let writer = self.writer();
        if writer.is_closing {
            return false;
        }
        let (writer, _) = self
            .work
            .wait_timeout(writer, at_most)
            .unwrap_or_else(PoisonError::into_inner);
        !writer.is_closing
    }

    fn why_seal_is_due(&self) -> Option<Due> {
        let writer = self.writer();
        self.why_due(&writer, &self.view().buffer)
    }
}

fn seal(shared: &Shared) {
    loop {
        let Some(due) = shared.why_seal_is_due() else {
            if !shared.wait_for_work(SEAL_TICK) {
                return;
            }
            continue;
        };
        // The store keeps the reason of a failure, for those who wait for room and for `stats`.
        let rest = match shared.seal() {
            Ok(_) => {
                if due == Due::Age {
                    shared.meters.age_seals.add(1);
                }
                // There may be something to merge.
                shared.work.notify_all();
                continue;
            }
            Err(_) => REST,
        };
        if !shared.wait_for_work(rest) {
            return;
        }
    }
}

fn merge(shared: &Shared) {
    let tick = shared.options.expiry_every;
    let mut expired_ns = shared.clock.mono_ns();
    // What an earlier process did not settle is not kept waiting.
    let mut rest = if shared.has_pending_erasures() {
        Duration::ZERO
    } else {
        tick
    };
    let mut pace = Pace::new(shared);
    while shared.wait_for_work(rest) {
        rest = tick;
        shared.trim_log();
        if shared.has_pending_erasures() && shared.resume_erasures().is_err() {
            rest = ERASURE_REST;
        }
        if pace.says_wait(shared) {
            rest = rest.min(QUIET);
        } else if shared.compact().is_err() {
            rest = rest.min(MERGE_REST);
        } else {
            pace.settled = shared.view().segments.len();
        }
        let now_ns = shared.clock.mono_ns();
        if u128::from(now_ns.saturating_sub(expired_ns)) >= tick.as_nanos() {
            expired_ns = now_ns;
            // What fails is tried again with the next tick.
            shared.expire().ok();
        }
    }
}

/// Whether merges can wait.
struct Pace {
    /// The batches that had come when there was last a new one, and when that was.
    batches: u64,
    changed: Instant,
    /// How many segments the last merges have left.
    settled: usize,
}

impl Pace {
    /// The segments of an earlier process wait for a first quiet moment too.
    fn new(shared: &Shared) -> Self {
        Self {
            batches: shared.meters.batches_admitted.get(),
            changed: Instant::now(),
            settled: 0,
        }
    }

    fn says_wait(&mut self, shared: &Shared) -> bool {
        let batches = shared.meters.batches_admitted.get();
        if batches != self.batches {
            self.batches = batches;
            self.changed = Instant::now();
        }
        let segments = shared.view().segments.len();
        self.changed.elapsed() < QUIET && segments < self.settled.saturating_add(UNMERGED_MAX)
    }
}
