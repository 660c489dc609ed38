//! Running an objective over and over.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{Result, Study, StudyError, Told, Trial};
use crate::replica;
use crate::trial::TrialState;
use crate::worker::WorkerError;

/// What an objective may fail with: anything.
pub type ObjectiveError = Box<dyn Error + Send + Sync>;

/// Which errors of an objective end its trial only, not the whole run.
pub enum Catch<'a> {
    /// None: the first error ends the run.
    Nothing,
    /// All. A panic still ends the run.
    Everything,
    /// Those for which it answers true.
    If(&'a (dyn Fn(&(dyn Error + 'static)) -> bool + Sync)),
}

/// Is called after each trial of this run, with the trial as it ended.
pub type Callback<'a> = Box<dyn Fn(&Study, &replica::Trial) + Send + Sync + 'a>;

/// How an objective is run.
pub struct Optimize<'a> {
    /// How many trials the study is to have, all those together that were ever started by anybody. Retries
    /// are not counted. `None` for as many as there is time for.
    pub trials: Option<u64>,
    /// After how long no further trial is started.
    pub timeout: Option<Duration>,
    /// How many trials this process runs at once. At least 1.
    pub threads: usize,
    /// Which errors end their trial only.
    pub catch: Catch<'a>,
    /// What is called after each trial.
    pub callbacks: Vec<Callback<'a>>,
}

impl Default for Optimize<'_> {
    fn default() -> Self {
        Self {
            trials: None,
            timeout: None,
            threads: 1,
            catch: Catch::Nothing,
            callbacks: Vec::new(),
        }
    }
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The study has all its trials, or the sampler has no further points.
    BudgetSpent,
    /// Time was up.
    TimeOut,
    /// The [stop flag](Study::stop_flag) was set.
    Interrupted,
    /// The study was stopped, for all its workers.
    Stopped(String),
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Why it ended.
    pub ended: Ended,
    /// How many trials this run ended.
    pub trials: u64,
}

/// What the threads of a run share.
struct Run<'a, F> {
    study: &'a Study,
    objective: &'a F,
    options: &'a Optimize<'a>,
    until_ns: Option<u64>,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    trials: u64,
    ended: Option<Ended>,
    error: Option<StudyError>,
}

impl Study {
    /// Runs an objective for one trial after the other. An error of the objective fails its trial. Other
    /// processes may do the same on the same study.
    ///
    /// # Errors
    /// [`StudyError::Objective`] for an error that is not to be caught, or a panic; what the storage says.
    /// That a trial was taken from this worker, because it was silent for too long, is no error.
    pub fn optimize<F>(&self, objective: F, options: &Optimize<'_>) -> Result<Summary>
    where
        F: Fn(&Trial) -> std::result::Result<Told, ObjectiveError> + Sync,
    {
        self.set_budget(options.trials);
        let timeout = options.timeout.map(|timeout| timeout.as_nanos());
        let timeout = timeout.map(|ns| u64::try_from(ns).unwrap_or(u64::MAX));
        let now = self.shared.clock.mono_ns();
        let run = Run {
            study: self,
            objective: &objective,
            options,
            until_ns: timeout.map(|ns| now.saturating_add(ns)),
            shared: Mutex::default(),
        };
        self.drive_others(true)?;
        if options.threads <= 1 {
            run.work();
        } else {
            std::thread::scope(|scope| {
                for _ in 0..options.threads {
                    scope.spawn(|| run.work());
                }
            });
        }
        let shared = run.shared.into_inner();
        let shared = shared.unwrap_or_else(PoisonError::into_inner);
        match shared.error {
            Some(error) => Err(error),
            None => Ok(Summary {
                ended: shared.ended.unwrap_or(Ended::BudgetSpent),
                trials: shared.trials,
            }),
        }
    }
}

impl<F> Run<'_, F>
where
    F: Fn(&Trial) -> std::result::Result<Told, ObjectiveError> + Sync,
{
    /// Runs trials until there is a reason not to.
    fn work(&self) {
        loop {
            if self.is_over() {
                return;
            }
            let trial = match self.study.ask_any_within(self.options.trials) {
                Ok(trial) => trial,
                Err(StudyError::BudgetSpent { .. } | StudyError::SamplerSpent { .. }) => {
                    return self.end(Ended::BudgetSpent);
                }
                Err(StudyError::Stopped { reason }) => return self.end(Ended::Stopped(reason)),
                Err(error) => return self.fail(error),
            };
            if let Err(error) = self.run(trial) {
                return self.fail(error);
            }
        }
    }

    fn is_over(&self) -> bool {
        let now = || self.study.shared.clock.mono_ns();
        if self.study.stop_flag().is_set() {
            self.end(Ended::Interrupted);
        } else if self.until_ns.is_some_and(|until| now() >= until) {
            self.end(Ended::TimeOut);
        } else {
            return self.lock().error.is_some();
        }
        true
    }

    /// Runs one trial.
    fn run(&self, trial: Trial) -> Result<()> {
        let (number, id) = (trial.number(), trial.id());
        let answer = catch_unwind(AssertUnwindSafe(|| (self.objective)(&trial)));
        let (told, uncaught) = match answer {
            Ok(Ok(told)) => (told, None),
            Ok(Err(error)) => {
                let message = in_full(&*error);
                let is_caught = match self.options.catch {
                    Catch::Nothing => false,
                    Catch::Everything => true,
                    Catch::If(is_caught) => is_caught(&*error),
                };
                (
                    Told::Failed(message.clone()),
                    (!is_caught).then_some(message),
                )
            }
            Err(panic) => {
                let message = format!("its objective panicked: {}", panic_text(&*panic));
                (Told::Failed(message.clone()), Some(message))
            }
        };
        let state = match self.study.tell(trial, told) {
            Ok(state) => state,
            Err(StudyError::Worker(error)) if matches!(*error, WorkerError::FenceLost { .. }) => {
                log::warn!("study {}: {error}", self.study.name());
                return Ok(());
            }
            Err(StudyError::Worker(error)) if matches!(*error, WorkerError::Refused(_)) => {
                // The wrong number of values, say. The trial has failed with it.
                return match self.options.catch {
                    Catch::Everything => Ok(()),
                    _ => Err(StudyError::Objective {
                        number,
                        message: error.to_string(),
                    }),
                };
            }
            Err(other) => return Err(other),
        };
        if state == TrialState::Paused {
            return Ok(());
        }
        self.lock().trials += 1;
        if !self.options.callbacks.is_empty() {
            let ended = self.study.storage().trial(id)?;
            for callback in &self.options.callbacks {
                callback(self.study, &ended);
            }
        }
        match uncaught {
            None => Ok(()),
            Some(message) => Err(StudyError::Objective { number, message }),
        }
    }

    fn end(&self, ended: Ended) {
        self.lock().ended.get_or_insert(ended);
    }

    fn fail(&self, error: StudyError) {
        self.lock().error.get_or_insert(error);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An error with what led to it.
fn in_full(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let part = error.to_string();
        // Transparent errors have the text of their source.
        if !text.ends_with(&part) {
            text = format!("{text}: {part}");
        }
        source = error.source();
    }
    text
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a text".to_owned())
}
