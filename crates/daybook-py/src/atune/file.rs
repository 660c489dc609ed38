//! A study file as its operations: what other tuners' storages are built upon.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

use atune_core::number::JsonF64;
use atune_core::replica::{Refusal, Replica, Trial};
use atune_core::space::Param;
use atune_core::storage::journal::record::{
    CreateTrial, Op, ParamsBatch, Report, SetError, SetTrialUserAttr, SetValues, Transition,
};
use atune_core::storage::journal::{Durability, JournalError, JournalOptions, JournalStorage};
use atune_core::storage::{Plan, Storage, StorageError};
use atune_core::trial::{StudyConfig, StudyId, TrialId, TrialState, WorkerId};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde::Deserialize;
use serde_json::Value;

use super::convert::{self, from_python};
use super::raise::{plain, storage_error};

/// A change of a raw trial: an operation of the journal without the trial.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum Change {
    ParamsBatch { params: Vec<Param> },
    Report { step: u64, values: Vec<JsonF64> },
    SetValues { values: Vec<JsonF64> },
    SetError { message: String },
    SetTrialUserAttr { key: String, value: Value },
    Transition { from: TrialState, to: TrialState },
}

impl Change {
    fn of(&self, trial: TrialId) -> Op {
        match self {
            Self::ParamsBatch { params } => ParamsBatch {
                trial,
                params: params.clone(),
            }
            .into(),
            Self::Report { step, values } => Report {
                trial,
                step: *step,
                values: values.clone(),
            }
            .into(),
            Self::SetValues { values } => SetValues {
                trial,
                values: values.clone(),
            }
            .into(),
            Self::SetError { message } => SetError {
                trial,
                message: message.clone(),
            }
            .into(),
            Self::SetTrialUserAttr { key, value } => SetTrialUserAttr {
                trial,
                key: key.clone(),
                value: value.clone(),
            }
            .into(),
            Self::Transition { from, to } => Transition {
                trial,
                from: *from,
                to: *to,
            }
            .into(),
        }
    }
}

/// A study file that is open for writing.
#[pyclass(frozen, module = "atune")]
pub(crate) struct StudyFile {
    path: PathBuf,
    storage: JournalStorage,
}

#[pymethods]
impl StudyFile {
    #[new]
    #[pyo3(signature = (path, *, create=true, durability="full", worker=0))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        create: bool,
        durability: &str,
        worker: u64,
    ) -> PyResult<Self> {
        let storage = open_file(py, &path, create, durability, Some(worker))?;
        Ok(Self { path, storage })
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.path.as_os_str()
    }

    fn create_study(&self, py: Python<'_>, config: &Bound<'_, PyAny>) -> PyResult<u64> {
        let config: StudyConfig = from_python(config)?;
        py.detach(|| self.storage.create_study(&config))
            .map(|study| study.0)
            .map_err(|error| storage_error(py, &error))
    }

    fn set_study_user_attr(
        &self,
        py: Python<'_>,
        study: u64,
        key: &str,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let value: Value = from_python(value)?;
        py.detach(|| {
            self.storage
                .set_study_user_attr(StudyId(study), key, &value)
        })
        .map_err(|error| storage_error(py, &error))
    }

    /// Creates a raw trial and changes it in the same commit.
    fn create_trial(
        &self,
        py: Python<'_>,
        study: u64,
        changes: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let changes: Vec<Change> = from_python(changes)?;
        py.detach(|| self.commit(Place::New(StudyId(study)), &changes))
            .map(|trial| trial.0)
            .map_err(|error| storage_error(py, &error))
    }

    /// Changes a raw trial, in one commit. Nothing is changed of one that has ended.
    fn change_trial(&self, py: Python<'_>, trial: u64, changes: &Bound<'_, PyAny>) -> PyResult<()> {
        let changes: Vec<Change> = from_python(changes)?;
        py.detach(|| self.commit(Place::Of(TrialId(trial)), &changes))
            .map(drop)
            .map_err(|error| storage_error(py, &error))
    }

    fn studies<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut studies = Vec::new();
        py.detach(|| {
            self.storage
                .read(&mut |replica| studies = replica.studies().to_vec())
        })
        .map_err(|error| storage_error(py, &error))?;
        let dicts = studies.iter().map(|study| convert::study(py, study));
        PyList::new(py, dicts.collect::<PyResult<Vec<Bound<'py, PyDict>>>>()?)
    }

    /// The trials that changed after a sequence number, and the number to ask with next time.
    fn changes_since<'py>(&self, py: Python<'py>, seq: u64) -> PyResult<(u64, Bound<'py, PyList>)> {
        let (now, changed) = py
            .detach(|| {
                let mut changed: Vec<Trial> = Vec::new();
                let mut now = seq;
                // A backend may look again.
                self.storage.read(&mut |replica| {
                    now = replica.seq();
                    changed = replica.changed_since(seq).cloned().collect();
                })?;
                Ok((now, changed))
            })
            .map_err(|error: StorageError| storage_error(py, &error))?;
        let dicts = changed.iter().rev().map(|trial| convert::trial(py, trial));
        let list = PyList::new(py, dicts.collect::<PyResult<Vec<Bound<'py, PyDict>>>>()?)?;
        Ok((now, list))
    }
}

/// What is changed.
#[derive(Clone, Copy)]
enum Place {
    /// A new trial of a study.
    New(StudyId),
    /// A trial that exists.
    Of(TrialId),
}

impl StudyFile {
    fn commit(&self, place: Place, changes: &[Change]) -> Result<TrialId, StorageError> {
        let id = Cell::new(match place {
            Place::New(_) => TrialId(0),
            Place::Of(trial) => trial,
        });
        // Whether a change was refused; a commit that is tried again begins anew.
        let is_over = Cell::new(false);
        let mut begin = |replica: &Replica| {
            let Place::New(study) = place else {
                return Err(Refusal::UnknownTrial(id.get()));
            };
            let (trial, number) = replica.next_trial(study)?;
            id.set(trial);
            Ok(CreateTrial {
                study,
                trial,
                number,
                template: None,
            }
            .into())
        };
        let mut later: Vec<_> = changes
            .iter()
            .enumerate()
            .map(|(nth, change)| {
                let (id, is_over) = (&id, &is_over);
                move |replica: &Replica| {
                    let trial = replica.trial(id.get())?;
                    if nth == 0 {
                        is_over.set(false);
                    }
                    if is_over.get() || trial.state.is_terminal() {
                        is_over.set(true);
                        return Err(Refusal::Ended(trial.id));
                    }
                    Ok(change.of(trial.id))
                }
            })
            .collect();
        let mut plans: Vec<&mut Plan<'_>> = Vec::new();
        if matches!(place, Place::New(_)) {
            plans.push(&mut begin);
        }
        plans.extend(later.iter_mut().map(|plan| plan as &mut Plan<'_>));
        for answer in self.storage.commit_batch(&mut plans)? {
            answer?;
        }
        Ok(id.get())
    }
}

/// Opens a study file for a worker; without one, for a number made of the process's.
pub(super) fn open_file(
    py: Python<'_>,
    path: &std::path::Path,
    create: bool,
    durability: &str,
    worker: Option<u64>,
) -> PyResult<JournalStorage> {
    let options = JournalOptions {
        durability: durability_of(py, durability)?,
        worker: WorkerId(worker.unwrap_or_else(|| u64::from(std::process::id()))),
        ..JournalOptions::default()
    };
    py.detach(|| open(path, create, &options))
        .map_err(|error| storage_error(py, &error.into()))
}

/// Opens a study file, or creates it. Of several processes that create it, all have the same one then.
fn open(
    path: &std::path::Path,
    create: bool,
    options: &JournalOptions,
) -> Result<JournalStorage, JournalError> {
    let is_missing = |error: &JournalError| matches!(error, JournalError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound);
    let is_there = |error: &JournalError| matches!(error, JournalError::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists);
    match JournalStorage::open(path, options.clone()) {
        Err(error) if create && is_missing(&error) => {
            match JournalStorage::create(path, options.clone()) {
                Err(error) if is_there(&error) => JournalStorage::open(path, options.clone()),
                other => other,
            }
        }
        other => other,
    }
}

fn durability_of(py: Python<'_>, name: &str) -> PyResult<Durability> {
    match name {
        "full" => Ok(Durability::Full),
        "process" => Ok(Durability::Process),
        other => {
            let text = format!("no durability {other:?}; there are full, process");
            Err(plain(py, "MisuseError", &text))
        }
    }
}

/// Whether the core takes a parameter: its distribution has values, and this is one.
#[pyfunction]
pub(crate) fn param_fits(param: &Bound<'_, PyAny>) -> bool {
    let param: PyResult<Param> = from_python(param);
    param.is_ok_and(|param| {
        param.dist.check().is_ok() && param.dist.check_value(&param.value).is_ok()
    })
}
