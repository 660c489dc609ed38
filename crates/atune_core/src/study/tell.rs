//! Asking for trials, and telling how they ended.

use serde_json::Value;

use super::{Result, Study, StudyError, Trial};
use crate::lifecycle::Outcome;
use crate::number::JsonF64;
use crate::replica::Refusal;
use crate::trial::{ScopedBlob, StateBlob, StateScope, TrialId, TrialState};
use crate::worker::{TrialHandle, WorkerError};

/// The kind of the state that a released trial leaves behind.
const RELEASED: &str = "released";

/// How a trial ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// With its values, one per objective. One that is not a number fails the trial.
    Complete(Vec<f64>),
    /// Early: it did not look promising. With values, if it has any.
    Pruned(Option<Vec<f64>>),
    /// With an error.
    Failed(String),
    /// Not at all: whoever ran it stops, and another may go on with it.
    Released,
}

impl Told {
    /// An ending with one value.
    pub fn value(value: f64) -> Self {
        Self::Complete(vec![value])
    }

    fn outcome(self) -> Option<Outcome> {
        let numbers = |values: Vec<f64>| values.into_iter().map(JsonF64).collect();
        match self {
            Self::Complete(values) => Some(Outcome::complete(numbers(values))),
            Self::Pruned(values) => Some(Outcome::pruned(values.map(numbers))),
            Self::Failed(message) => Some(Outcome::failed(message)),
            Self::Released => None,
        }
    }
}

impl Study {
    /// A trial to run: one that was enqueued, retried or released, or else a new one.
    ///
    /// # Errors
    /// [`StudyError::Stopped`], [`StudyError::SamplerSpent`], and what the storage says.
    pub fn ask(&self) -> Result<Trial> {
        self.ask_within(None)
    }

    /// As [`ask`](Self::ask), if the study has fewer than `budget` trials: those that were started by any
    /// worker, retries aside. However many workers ask, there are never more.
    ///
    /// # Errors
    /// [`StudyError::BudgetSpent`]; otherwise as [`ask`](Self::ask).
    pub fn ask_within(&self, budget: Option<u64>) -> Result<Trial> {
        self.record_components()?;
        self.drive_others(false)?;
        let worker = self.worker();
        if let Some(handle) = worker.claim_waiting_within(self.id(), budget)? {
            let given = self.given(handle.before())?;
            return Ok(Trial::new(self.clone(), handle, given));
        }
        self.refresh()?;
        if let Some(handle) = self.claim_released()? {
            let given = self.given(handle.before())?;
            return Ok(Trial::new(self.clone(), handle, given));
        }
        let points = self.trials_max().unwrap_or(u64::MAX);
        let wanted = budget.unwrap_or(u64::MAX);
        let least = points.min(wanted);
        let handle = match worker.start(self.id(), (least < u64::MAX).then_some(least), &[]) {
            Err(WorkerError::Refused(Refusal::OverBudget { .. })) if points < wanted => {
                let kind = self.sampler().kind();
                return Err(StudyError::SamplerSpent { kind });
            }
            started => started?,
        };
        Ok(Trial::new(self.clone(), handle, serde_json::Map::new()))
    }

    /// As [`ask_within`](Self::ask_within); with the budget spent, a trial that a dead worker left to be tried
    /// again, if its heartbeat is old enough by now.
    ///
    /// # Errors
    /// As [`ask_within`](Self::ask_within).
    pub fn ask_any_within(&self, budget: Option<u64>) -> Result<Trial> {
        match self.ask_within(budget) {
            Err(StudyError::BudgetSpent { .. } | StudyError::SamplerSpent { .. }) => {
                self.drive_others(true)?;
                self.ask_within(budget)
            }
            asked => asked,
        }
    }

    /// Claims a trial that its worker released, if there is one.
    fn claim_released(&self) -> Result<Option<TrialHandle>> {
        let released: Vec<TrialId> = {
            let history = &self.seen().history;
            let active = history.active().filter_map(|number| history.trial(number));
            let paused = active.filter(|past| past.state == TrialState::Paused);
            paused.map(|past| past.id).collect()
        };
        for trial in released {
            let scope = StateScope::TrialUser(trial);
            let mut is_released = false;
            self.storage().read(&mut |replica| {
                let blob = replica.state(scope);
                is_released = blob.is_some_and(|blob| blob.kind == RELEASED);
            })?;
            if !is_released {
                // Paused for another reason: whoever paused it knows when it goes on.
                continue;
            }
            match self.worker().claim(trial, &[]) {
                Ok(handle) => return Ok(Some(handle)),
                // Somebody was faster.
                Err(WorkerError::Refused(_)) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Ok(None)
    }

    /// How many trials the sampler has points for.
    fn trials_max(&self) -> Option<u64> {
        let number = self.seen().history.trials().len() as u64;
        self.with_view(number, |view| self.sampler().trials_max(view))
    }

    /// Ends a trial, and answers the state that was recorded: a final value that is not a number fails
    /// the trial, and a released one is paused.
    ///
    /// # Errors
    /// [`StudyError::Worker`] when the trial was taken from this worker meanwhile, or the number of values
    /// is wrong; the trial has failed then.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a trial that was told is over"
    )]
    pub fn tell(&self, trial: Trial, told: Told) -> Result<TrialState> {
        let handle = &trial.handle;
        let Some(outcome) = told.outcome() else {
            let blob = StateBlob {
                kind: RELEASED.to_owned(),
                version: 1,
                data: Value::Null,
            };
            let scope = StateScope::TrialUser(handle.id());
            handle.pause(Some(ScopedBlob { scope, blob }))?;
            return Ok(TrialState::Paused);
        };
        let finished = handle.finish(&outcome, &self.intent());
        let state = match &finished {
            Ok(state) => *state,
            // The outcome was refused: the trial has failed, and what this leaves to do is done too.
            Err(_) => TrialState::Failed,
        };
        let driven = self.drive(handle.fence(), state);
        let state = finished?;
        driven?;
        Ok(state)
    }
}
