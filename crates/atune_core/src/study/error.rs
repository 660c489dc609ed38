//! Why a study does not do what it was asked.

use std::sync::Arc;

use crate::replica::Refusal;
use crate::sampler::SamplerError;
use crate::space::SpaceFault;
use crate::storage::StorageError;
use crate::trial::TrialState;
use crate::worker::WorkerError;

/// A result of a study.
pub type Result<T> = std::result::Result<T, StudyError>;

/// Why a study does not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// The distribution makes no sense, or the value is none of its values.
    #[error("parameter {name:?} from {dist}: {fault}")]
    Space {
        /// The parameter.
        name: String,
        /// The distribution, in words.
        dist: String,
        /// What is wrong.
        fault: SpaceFault,
    },
    /// The parameter has a distribution that this one cannot follow.
    #[error("parameter {name:?} is drawn from {known} in this study, not from {asked}")]
    Conflict {
        /// The parameter.
        name: String,
        /// The distribution of the study, in words.
        known: String,
        /// The one that was asked for.
        asked: String,
    },
    /// The trial asked for the parameter before, with another distribution.
    #[error(
        "parameter {name:?} was asked for twice in one trial: from {first}, then from {second}"
    )]
    AskedTwice {
        /// The parameter.
        name: String,
        /// The first distribution, in words.
        first: String,
        /// The second.
        second: String,
    },
    /// The sampler draws nothing.
    #[error(transparent)]
    Sampler(Arc<SamplerError>),
    /// The study was made with another sampler or scheduler, or with other options.
    #[error("the study has {what} {recorded}, not {given}")]
    OtherComponent {
        /// `sampler` or `scheduler`.
        what: &'static str,
        /// Kind and options in the study.
        recorded: String,
        /// Kind and options that were given.
        given: String,
    },
    /// The study names a scheduler, or options of one, that this build does not know.
    #[error("the study's scheduler: {0}")]
    UnknownScheduler(String),
    /// A study of this name exists, with another configuration.
    #[error("a study named {name:?} exists with other {what}: {found}, not {wanted}")]
    OtherConfig {
        /// The name.
        name: String,
        /// Which part of the configuration.
        what: &'static str,
        /// What the study has.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// No study has this name, or the storage failed.
    #[error(transparent)]
    Storage(Arc<StorageError>),
    /// A trial could not be started, changed or ended.
    #[error(transparent)]
    Worker(Arc<WorkerError>),
    /// The study has all the trials that it may have.
    #[error("the study has all of its {budget} trials")]
    BudgetSpent {
        /// How many.
        budget: u64,
    },
    /// The sampler has drawn all that it ever will.
    #[error("sampler {kind:?} has no further points for this study")]
    SamplerSpent {
        /// The sampler.
        kind: &'static str,
    },
    /// The study was stopped: no further trials are started.
    #[error("the study was stopped: {reason}")]
    Stopped {
        /// Why.
        reason: String,
    },
    /// An objective failed, and its error was not to be caught.
    #[error("trial {number} failed: {message}")]
    Objective {
        /// The trial's number.
        number: u64,
        /// What its objective said.
        message: String,
    },
    /// The trial has no such number of values, or an enqueued or added trial is not whole.
    #[error("{0}")]
    BadTrial(String),
    /// No trial has values yet, or none meets its constraints.
    #[error("no trial is complete with its constraints met")]
    NoBest,
    /// There is more than one objective: there is no one best trial.
    #[error("the study has {0} objectives: ask for its best trials")]
    SeveralObjectives(usize),
    /// The trial ended meanwhile.
    #[error("trial {number} has ended as {state:?}")]
    Ended {
        /// The trial's number.
        number: u64,
        /// How.
        state: TrialState,
    },
}

impl From<SamplerError> for StudyError {
    fn from(error: SamplerError) -> Self {
        Self::Sampler(Arc::new(error))
    }
}

impl From<StorageError> for StudyError {
    fn from(error: StorageError) -> Self {
        Self::Storage(Arc::new(error))
    }
}

impl From<WorkerError> for StudyError {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Refused(Refusal::OverBudget { budget, .. }) => {
                Self::BudgetSpent { budget }
            }
            WorkerError::Stopped { reason, .. } => Self::Stopped { reason },
            other => Self::Worker(Arc::new(other)),
        }
    }
}
