//! Errors of studies as the exceptions of `atune.errors`, one class for each.

use atune_core::replica::Refusal;
use atune_core::storage::StorageError;
use atune_core::storage::journal::JournalError;
use atune_core::study::StudyError;
use atune_core::worker::WorkerError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::raise::{errno, exception};

const MODULE: &str = "atune.errors";

/// An error of a storage.
pub(crate) fn storage_error(py: Python<'_>, error: &StorageError) -> PyErr {
    match error {
        StorageError::Refused(refusal) => refused(py, refusal),
        StorageError::Forked { .. } => plain(py, "ForkedError", &error.to_string()),
        StorageError::UnknownName { .. } => plain(py, "UnknownNameError", &error.to_string()),
        StorageError::Journal(error) => journal_error(py, error),
        _ => plain(py, "Error", &error.to_string()),
    }
}

/// An error of a study.
pub(crate) fn study_error(py: Python<'_>, error: &StudyError) -> PyErr {
    let class = match error {
        StudyError::Storage(error) => return storage_error(py, error),
        StudyError::Worker(error) => return worker_error(py, error),
        StudyError::Space { .. } => "SpaceError",
        StudyError::Conflict { .. } => "ConflictError",
        StudyError::AskedTwice { .. } => "AskedTwiceError",
        StudyError::Sampler(_) => "SamplerError",
        StudyError::SamplerSpent { .. } => "SamplerSpentError",
        StudyError::OtherComponent { .. } => "OtherComponentError",
        StudyError::UnknownScheduler(_) => "UnknownSchedulerError",
        StudyError::OtherConfig { .. } => "OtherConfigError",
        StudyError::BudgetSpent { .. } => "BudgetSpentError",
        StudyError::Stopped { .. } => "StoppedError",
        StudyError::Objective { .. } => "ObjectiveError",
        StudyError::BadTrial(_) => "BadTrialError",
        StudyError::NoBest => "NoBestError",
        StudyError::SeveralObjectives(_) => "SeveralObjectivesError",
        StudyError::Ended { .. } => "EndedError",
        _ => "Error",
    };
    plain(py, class, &error.to_string())
}

/// An error of the worker under a study.
fn worker_error(py: Python<'_>, error: &WorkerError) -> PyErr {
    let class = match error {
        WorkerError::Refused(refusal) => return refused(py, refusal),
        WorkerError::Storage(error) => return storage_error(py, error),
        WorkerError::FenceLost { .. } => "FenceLostError",
        WorkerError::NotKept { .. } => "NotKeptError",
        WorkerError::Stopped { .. } => "StoppedError",
        WorkerError::Over { .. } => "EndedError",
        WorkerError::Thread(_) => "ThreadError",
        _ => "Error",
    };
    plain(py, class, &error.to_string())
}

/// What the state machine refuses.
pub(crate) fn refused(py: Python<'_>, refusal: &Refusal) -> PyErr {
    let class = match refusal {
        Refusal::UnknownStudy(_) => "UnknownStudyError",
        Refusal::UnknownTrial(_) => "UnknownTrialError",
        Refusal::NameTaken(_) => "NameTakenError",
        Refusal::Ended(_) => "EndedError",
        Refusal::WrongFrom { .. } => "WrongFromError",
        Refusal::TooLong { .. } => "TooLongError",
        Refusal::ReservedKey(_) => "ReservedKeyError",
        Refusal::BadParam { .. } => "BadParamError",
        _ => "RefusedError",
    };
    plain(py, class, &refusal.to_string())
}

/// An error of a study file.
pub(crate) fn journal_error(py: Python<'_>, error: &JournalError) -> PyErr {
    let (class, path, source) = match error {
        JournalError::Io { path, source, .. } => ("StudyIOError", path, Some(source)),
        JournalError::Unsettled { path, source } => ("UnsettledError", path, Some(source)),
        JournalError::Corrupt { path, .. } => ("CorruptError", path, None),
        JournalError::NotAStudy { path, .. } => ("NotAStudyError", path, None),
        JournalError::Unsupported { path, .. } => ("UnsupportedError", path, None),
        JournalError::LeaseLost { path, .. } => ("LeaseLostError", path, None),
        JournalError::Forked { path, .. } => ("ForkedError", path, None),
        JournalError::HistoryChanged { path, .. } => ("HistoryChangedError", path, None),
        _ => return plain(py, "Error", &error.to_string()),
    };
    let text = match source {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    let facts = PyDict::new(py);
    let told = (|| {
        facts.set_item("path", path)?;
        if let Some(source) = source {
            facts.set_item("errno", errno(py, source))?;
        }
        if let JournalError::Corrupt {
            section, offset, ..
        } = error
        {
            facts.set_item("section", section.to_string())?;
            facts.set_item("offset", offset)?;
        }
        exception(py, MODULE, class, &text, &facts)
    })();
    told.unwrap_or_else(|failure: PyErr| failure)
}

/// An exception without facts.
pub(crate) fn plain(py: Python<'_>, class: &str, text: &str) -> PyErr {
    exception(py, MODULE, class, text, &PyDict::new(py)).unwrap_or_else(|failure| failure)
}
