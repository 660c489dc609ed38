//! What may go wrong for a worker.

use std::sync::Arc;

use crate::lifecycle::Outcome;
use crate::replica::Refusal;
use crate::storage::StorageError;
use crate::trial::{StudyId, TrialId, TrialState, WorkerId};

/// A result of a worker.
pub type Result<T> = std::result::Result<T, WorkerError>;

/// Why a worker did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The state machine refuses it; nothing was written. [`Refusal::OverBudget`] ends a loop of trials.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The storage failed. Changes that were gathered are kept and written by the next commit.
    #[error(transparent)]
    Storage(Arc<StorageError>),
    /// The trial is not this worker's any more. Its objective may stop; the worker goes on with others.
    #[error("trial {trial} was taken from this worker: {why}")]
    FenceLost {
        /// The trial.
        trial: TrialId,
        /// What happened to it.
        why: Lost,
        /// The result that came too late, from [`finish`](super::TrialHandle::finish).
        late: Option<Box<Outcome>>,
    },
    /// Some of the changes that were gathered are refused. All others were written, and an ending too.
    #[error("trial {trial}: {} gathered changes were refused, the first: {}", .refusals.len(), first(.refusals))]
    NotKept {
        /// The trial.
        trial: TrialId,
        /// Why, one for each.
        refusals: Vec<Refusal>,
    },
    /// The study was stopped: no further trials are started.
    #[error("study {study} was stopped: {reason}")]
    Stopped {
        /// The study.
        study: StudyId,
        /// Why.
        reason: String,
    },
    /// The handle finished or paused its trial before.
    #[error("trial {trial} was finished or paused by this handle before")]
    Over {
        /// The trial.
        trial: TrialId,
    },
    /// The system gives no thread.
    #[error("cannot start the worker's thread")]
    Thread(#[source] std::io::Error),
}

impl From<StorageError> for WorkerError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Refused(refusal) => Self::Refused(refusal),
            other => Self::Storage(Arc::new(other)),
        }
    }
}

/// What happened to a trial that a worker lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// It was failed.
    #[error("it was failed: {reason}")]
    Failed {
        /// Why.
        reason: String,
    },
    /// It has ended otherwise.
    #[error("it has ended as {state:?}")]
    Ended {
        /// How.
        state: TrialState,
    },
    /// Another worker has it.
    #[error("worker {worker} has it in epoch {epoch}")]
    Claimed {
        /// Its owner.
        worker: WorkerId,
        /// The epoch of that ownership.
        epoch: u64,
    },
    /// It was set aside.
    #[error("it was paused in epoch {epoch}")]
    Unowned {
        /// The epoch.
        epoch: u64,
    },
}

fn first(refusals: &[Refusal]) -> String {
    refusals.first().map(Refusal::to_string).unwrap_or_default()
}
