//! Studies as people use them: trials are asked for and told, or an objective is optimised.
//!
//! A [`Study`] stands on any [`Storage`]: several of them, in any number of processes, may have the same
//! study open and share its trials, its budget and its history.
//!
//! ```
//! use atune_core::study::{Study, StudyOptions, Told};
//! use atune_core::space::FloatRange;
//! use atune_core::trial::Direction;
//!
//! let study = Study::in_memory("demo", Direction::Minimize, 7, StudyOptions::default())?;
//! for _ in 0..20 {
//!     let trial = study.ask()?;
//!     let x = trial.suggest_float("x", -5.0..=5.0)?;
//!     let lr = trial.suggest_float("lr", FloatRange::log(1e-5..=1.0))?;
//!     study.tell(trial, Told::value((x - 1.0).powi(2) + (lr.log10() + 2.0).powi(2)))?;
//! }
//! let best = study.best_trial()?;
//! assert!(best.values.is_some());
//! # Ok::<(), atune_core::study::StudyError>(())
//! ```

mod component;
pub mod constraints;
mod describe;
mod endings;
mod enqueue;
mod error;
mod fronts;
mod history;
mod open;
mod optimize;
mod tell;
mod trial;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use durable::Clock;
use serde_json::Value;

pub use enqueue::FinishedTrial;
pub use error::{Result, StudyError};
pub use fronts::{Fronts, dominates};
pub use history::{Changes, Column, Compared, History, PastTrial, Rank, RankClass};
pub use open::StudyOptions;
pub use optimize::{Callback, Catch, Ended, ObjectiveError, Optimize, Summary};
pub use tell::Told;
pub use trial::Trial;

use crate::replica;
use crate::sampler::{Sampler, SamplerView};
use crate::scheduler::Scheduler;
use crate::storage::Storage;
use crate::trial::{StateScope, StudyConfig, StudyId};
use crate::worker::{Outboxes, Worker};

/// A study that is open. Cloning it is cheap, and clones share everything.
#[derive(Clone, Debug)]
pub struct Study {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    id: StudyId,
    config: StudyConfig,
    sampler: Arc<dyn Sampler>,
    scheduler: Arc<dyn Scheduler>,
    /// Whether sampler and scheduler stand in the study.
    is_recorded: AtomicBool,
    worker: Worker,
    seen: RwLock<Seen>,
    outboxes: Mutex<Outboxes>,
    retry: crate::worker::RetryPolicy,
    /// How old a heartbeat may get.
    grace_millis: u64,
    /// The trials that the study is to have, or `u64::MAX`.
    budget: AtomicU64,
    /// When the endings that others left were last looked for, by the monotonic clock.
    drive_at_ns: AtomicU64,
    stop: StopFlag,
}

/// The study as it was last seen.
#[derive(Debug)]
struct Seen {
    history: History,
    sampler_state: Option<Value>,
    scheduler_state: Option<Value>,
}

/// Says that whoever runs trials should stop. Setting it is all that a signal handler may do.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Asks to stop.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Takes the wish back.
    pub fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether it was asked to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Study {
    /// Its identity in the storage.
    pub fn id(&self) -> StudyId {
        self.shared.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.config.name
    }

    /// What it is about.
    pub fn config(&self) -> &StudyConfig {
        &self.shared.config
    }

    /// Where it is kept.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.shared.storage
    }

    /// What chooses parameters.
    pub fn sampler(&self) -> &Arc<dyn Sampler> {
        &self.shared.sampler
    }

    /// What decides which trials go on.
    pub fn scheduler(&self) -> &Arc<dyn Scheduler> {
        &self.shared.scheduler
    }

    /// What keeps its trials alive.
    pub fn worker(&self) -> &Worker {
        &self.shared.worker
    }

    /// The flag that ends its loops, and asks objectives that look to end.
    pub fn stop_flag(&self) -> &StopFlag {
        &self.shared.stop
    }

    /// Refuses in a child that was forked off the process that opened the study: it has none of the threads,
    /// and a lock that one of them held stays held. Every call that takes a lock asks this first.
    ///
    /// # Errors
    /// [`StudyError::Worker`] with the storage's error, in such a child.
    pub fn check_process(&self) -> Result<()> {
        Ok(self.worker().check_process()?)
    }

    /// Tells sampler and scheduler how many trials the study is to have. It refuses nothing: that does the
    /// budget of [`ask_within`](Self::ask_within).
    pub fn set_budget(&self, trials: Option<u64>) {
        let trials = trials.unwrap_or(u64::MAX);
        self.shared.budget.store(trials, Ordering::Relaxed);
    }

    /// How many trials the study is to have, if somebody said so.
    pub fn budget(&self) -> Option<u64> {
        let budget = self.shared.budget.load(Ordering::Relaxed);
        (budget != u64::MAX).then_some(budget)
    }

    /// Shows the history, up to date.
    ///
    /// # Errors
    /// [`StudyError::Storage`].
    pub fn look<T>(&self, look: impl FnOnce(&History) -> T) -> Result<T> {
        self.refresh()?;
        Ok(look(&self.seen().history))
    }

    /// Takes in what changed in the storage.
    fn refresh(&self) -> Result<()> {
        self.check_process()?;
        let shared = &*self.shared;
        let mut seen = shared.seen.write().unwrap_or_else(PoisonError::into_inner);
        let mut changes = None;
        let mut states = (None, None);
        let wanted = (
            shared.sampler.wants_endings(),
            shared.scheduler.wants_endings(),
        );
        shared.storage.read(&mut |replica| {
            changes = (replica.seq() != seen.history.seq()).then(|| seen.history.changes(replica));
            let state = |scope, is_wanted: bool| {
                let blob = is_wanted.then(|| replica.state(scope)).flatten();
                component::state(blob).cloned()
            };
            states = match changes {
                None => (None, None),
                Some(_) => (
                    state(StateScope::Sampler(shared.id), wanted.0),
                    state(StateScope::Scheduler(shared.id), wanted.1),
                ),
            };
        })?;
        if let Some(changes) = changes {
            seen.history.take(changes);
            (seen.sampler_state, seen.scheduler_state) = states;
        }
        Ok(())
    }

    fn seen(&self) -> RwLockReadGuard<'_, Seen> {
        let seen = self.shared.seen.read();
        seen.unwrap_or_else(PoisonError::into_inner)
    }

    fn outboxes(&self) -> MutexGuard<'_, Outboxes> {
        let outboxes = self.shared.outboxes.lock();
        outboxes.unwrap_or_else(PoisonError::into_inner)
    }

    /// The best trial of one objective: of those whose constraints are met the one with the best value, the
    /// earliest of equals.
    ///
    /// # Errors
    /// [`StudyError::NoBest`], [`StudyError::SeveralObjectives`], [`StudyError::Storage`].
    pub fn best_trial(&self) -> Result<replica::Trial> {
        let count = self.config().directions.len();
        if count != 1 {
            return Err(StudyError::SeveralObjectives(count));
        }
        let best = self.look(|history| {
            let first = history.ranking().first();
            let best = first.filter(|rank| rank.class == RankClass::Feasible)?;
            history.trial(best.number).map(|past| past.id)
        })?;
        Ok(self.storage().trial(best.ok_or(StudyError::NoBest)?)?)
    }

    /// The trials that no other dominates, of those whose constraints are met, by number. For one
    /// objective: the best.
    ///
    /// # Errors
    /// [`StudyError::Storage`].
    pub fn best_trials(&self) -> Result<Vec<replica::Trial>> {
        if self.config().directions.len() == 1 {
            return match self.best_trial() {
                Ok(best) => Ok(vec![best]),
                Err(StudyError::NoBest) => Ok(Vec::new()),
                Err(other) => Err(other),
            };
        }
        let ids = self.look(|history| {
            let best = history.fronts().best().iter();
            best.filter_map(|number| history.trial(*number).map(|past| past.id))
                .collect::<Vec<_>>()
        })?;
        let trial = |id| self.storage().trial(id).map_err(StudyError::from);
        ids.into_iter().map(trial).collect()
    }

    /// What a sampler that picks among others would pick for the next trial, and why.
    ///
    /// # Errors
    /// [`StudyError::Storage`].
    pub fn chosen_sampler(&self) -> Result<Option<String>> {
        self.refresh()?;
        let number = self.seen().history.trials().len() as u64;
        Ok(self.with_view(number, |view| self.sampler().chosen(view)))
    }

    /// Copies of all its trials, by number.
    ///
    /// # Errors
    /// [`StudyError::Storage`].
    pub fn trials(&self) -> Result<Vec<replica::Trial>> {
        let mut trials = Vec::new();
        let mut unknown = None;
        self.storage()
            .read(&mut |replica| match replica.trials_of(self.id()) {
                Ok(found) => trials = found.cloned().collect(),
                Err(refusal) => unknown = Some(refusal),
            })?;
        match unknown {
            None => Ok(trials),
            Some(refusal) => Err(crate::storage::StorageError::from(refusal).into()),
        }
    }

    /// What the sampler sees outside of any trial, for the trial that would be next.
    fn with_view<T>(&self, number: u64, ask: impl FnOnce(&SamplerView<'_>) -> T) -> T {
        let seen = self.seen();
        ask(&SamplerView {
            config: self.config(),
            number,
            history: &seen.history,
            state: seen.sampler_state.as_ref(),
            set: &std::collections::BTreeMap::new(),
            asked_count: 0,
            budget: self.budget(),
        })
    }
}
