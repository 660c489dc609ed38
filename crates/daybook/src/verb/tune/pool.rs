//! Threads that take trials and run them, until there are no more to take.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use atune_core::study::StudyError;
use atune_core::trial::TrialState;

use super::interrupt::Interrupt;
use super::session::{Session, told};
use super::settle::{Settled, settle};
use super::show::Board;
use super::trial::{self, Finished};
use crate::failure::Failure;

/// Why there are no more trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The study has as many as it is to have, or the sampler has no further points.
    Budget,
    /// The time is over.
    Time,
    /// This process was asked to end.
    Interrupt,
    /// The study was stopped.
    Stopped,
}

/// What this process did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) why: Why,
    pub(super) counts: Counts,
}

/// The trials that this process ran, by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) complete: u64,
    pub(super) pruned: u64,
    pub(super) failed: u64,
    pub(super) released: u64,
}

impl Counts {
    fn add(&mut self, state: TrialState) {
        match state {
            TrialState::Complete => self.complete += 1,
            TrialState::Pruned => self.pruned += 1,
            TrialState::Failed => self.failed += 1,
            TrialState::Paused => self.released += 1,
            TrialState::Waiting | TrialState::Running => {}
        }
    }

    /// Whether there were trials, and nothing came of any.
    pub(super) fn all_failed(self) -> bool {
        self.failed > 0 && self.complete + self.pruned + self.released == 0
    }
}

/// What the threads share.
struct Pool<'a> {
    session: &'a Session<'a>,
    interrupt: &'a Interrupt,
    board: &'a Board,
    until: Option<Instant>,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    counts: Counts,
    why: Option<Why>,
    failure: Option<Failure>,
}

/// Runs trials until there are none left for this process.
///
/// # Errors
/// What keeps trials from being run at all.
pub(super) fn run(session: &Session<'_>, interrupt: &Interrupt) -> Result<Ended, Failure> {
    let board = Board::new(session)?;
    let limit = session.args.stop_after;
    let pool = Pool {
        session,
        interrupt,
        board: &board,
        until: limit.and_then(|limit| Instant::now().checked_add(limit)),
        shared: Mutex::new(Shared::default()),
    };
    loop {
        pool.round()?;
        let why = pool.lock().why.unwrap_or(Why::Budget);
        // The trials of workers that died are part of the budget: they end too, and may be retried.
        if why == Why::Budget
            && settle(session, interrupt, &board).map_err(|error| told(&error))? == Settled::Retried
        {
            pool.lock().why = None;
            continue;
        }
        board.finish();
        let counts = pool.lock().counts;
        return Ok(Ended { why, counts });
    }
}

impl Pool<'_> {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One thread per worker, until each has nothing to do.
    fn round(&self) -> Result<(), Failure> {
        let workers = self.session.args.workers;
        std::thread::scope(|scope| {
            for worker in 1..workers {
                let thread = std::thread::Builder::new().name(format!("tune-{worker}"));
                let spawned = thread.spawn_scoped(scope, || self.work());
                if let Err(error) = spawned {
                    self.fail(Failure::io("cannot start a worker", &error));
                    break;
                }
            }
            self.work();
        });
        self.lock().failure.take().map_or(Ok(()), Err)
    }

    fn work(&self) {
        while let Some(trial) = self.next() {
            let number = trial.number();
            self.board.begin(number);
            let done = trial::run(self.session, trial, self.interrupt);
            self.board.end(number);
            match done {
                Ok(finished) => self.take(&finished),
                Err(failure) => return self.fail(failure),
            }
        }
    }

    fn next(&self) -> Option<atune_core::study::Trial> {
        if self.lock().failure.is_some() {
            return None;
        }
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        if self.interrupt.is_asked() || is_late {
            return self.end(if is_late { Why::Time } else { Why::Interrupt });
        }
        match self.session.study.ask_within(self.session.args.trials) {
            Ok(trial) => Some(trial),
            Err(StudyError::BudgetSpent { .. }) => self.end(Why::Budget),
            Err(StudyError::Stopped { .. }) => self.end(Why::Stopped),
            Err(error) => {
                self.fail(told(&error));
                None
            }
        }
    }

    fn end<T>(&self, why: Why) -> Option<T> {
        self.lock().why.get_or_insert(why);
        None
    }

    fn take(&self, finished: &Finished) {
        self.lock().counts.add(finished.state);
        if let Err(error) = self.board.tell(self.session, finished) {
            self.fail(told(&error));
        }
        if finished.is_unstartable {
            let what = finished.error.clone().unwrap_or_default();
            self.fail(
                Failure::new(what).with_hint("the command after -- is a program and its arguments"),
            );
        }
    }

    /// Keeps the first failure. The other trials run to their end.
    fn fail(&self, failure: Failure) {
        self.lock().failure.get_or_insert(failure);
    }
}
