//! Studies whose trials are asked for and told: the loop over them is Python's.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{self, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atune_core::analysis::importance::{Method, importance};
use atune_core::number::JsonF64;
use atune_core::replica;
use atune_core::sampler::{self, Sampler};
use atune_core::scheduler::{self, Scheduler};
use atune_core::space::{Distribution, Param, ParamValue};
use atune_core::storage::Storage;
use atune_core::study::{self, FinishedTrial, History, StudyError, StudyOptions, Told};
use atune_core::trial::{Direction, ResourceUnit, StudyConfig, TrialId, TrialState};
use atune_core::worker::{RetryPolicy, WorkerSettings};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::convert::{self, from_python, to_python};
use super::file::open_file;
use super::raise::{plain, storage_error, study_error};
use super::run::{Fault, Place, kept_of};
use crate::raise::{exception, journal_error};

/// What a study is opened with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    path: Option<PathBuf>,
    durability: String,
    name: Option<String>,
    directions: Vec<Direction>,
    metric_names: Vec<String>,
    seed: u64,
    sampler: Option<Component>,
    scheduler: Option<Component>,
    max_attempts: u32,
    heartbeat_interval: f64,
    grace: f64,
}

/// A sampler or scheduler by name, with its options.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Component {
    kind: String,
    options: Value,
}

/// A trial that was run elsewhere.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Added {
    state: TrialState,
    values: Option<Vec<JsonF64>>,
    params: Vec<Param>,
    reports: Vec<(u64, Vec<JsonF64>)>,
    user_attrs: BTreeMap<String, Value>,
    constraints: BTreeMap<String, JsonF64>,
    error: String,
}

impl Added {
    /// The trial, if it has ended.
    fn finished(self) -> Option<FinishedTrial> {
        let plain = |values: Vec<JsonF64>| values.into_iter().map(|value| value.0).collect();
        let values = self.values.map(plain);
        let told = match self.state {
            TrialState::Complete => Told::Complete(values.unwrap_or_default()),
            TrialState::Pruned => Told::Pruned(values),
            TrialState::Failed => Told::Failed(self.error),
            _ => return None,
        };
        let reports = self.reports.into_iter();
        let constraints = self.constraints.into_iter();
        Some(FinishedTrial {
            params: self.params,
            reports: reports
                .map(|(step, values)| (step, plain(values)))
                .collect(),
            user_attrs: self.user_attrs,
            constraints: constraints.map(|(name, value)| (name, value.0)).collect(),
            told,
        })
    }
}

/// A study that is open.
#[pyclass(frozen, module = "atune", name = "NativeStudy")]
pub(crate) struct Study {
    study: study::Study,
    /// Nothing of a study in memory.
    place: Option<Arc<Place>>,
}

/// A trial that runs; gone once it was told.
#[pyclass(frozen, module = "atune", name = "NativeTrial")]
pub(crate) struct Trial {
    study: study::Study,
    place: Option<Arc<Place>>,
    id: TrialId,
    number: u64,
    trial: Mutex<Option<study::Trial>>,
}

/// Opens a study: `create`, `load` or `load_or_create`.
#[pyfunction]
pub(crate) fn open_study(
    py: Python<'_>,
    how: &str,
    settings: &Bound<'_, PyAny>,
) -> PyResult<Study> {
    let settings: Settings = from_python(settings)?;
    let options = options(py, &settings)?;
    let config = StudyConfig {
        name: settings.name.clone().unwrap_or_default(),
        directions: settings.directions,
        seed: settings.seed,
        space: None,
        resource_unit: ResourceUnit::Steps,
        metric_names: settings.metric_names,
    };
    let Some(path) = settings.path else {
        return py
            .detach(|| study::Study::create_in_memory(&config, options))
            .map(|study| Study { study, place: None })
            .map_err(|error| study_error(py, &error));
    };
    let path = path::absolute(path)?;
    let storage = open_file(py, &path, how != "load", &settings.durability, None)?;
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let opened = py.detach(|| match how {
        "create" => study::Study::create(storage, &config, options),
        "load" => {
            let name = match settings.name {
                Some(name) => name,
                None => only_name(&*storage)?,
            };
            study::Study::load(storage, &name, options)
        }
        _ => study::Study::load_or_create(storage, &config, options),
    });
    let study = opened.map_err(|error| study_error(py, &error))?;
    let place = py
        .detach(|| Place::of(path, &study))
        .map_err(|error| study_error(py, &error))?;
    let place = Some(Arc::new(place));
    Ok(Study { study, place })
}

/// The name of the one study that a file has.
fn only_name(storage: &dyn Storage) -> study::Result<String> {
    let mut names = Vec::new();
    storage.read(&mut |replica| {
        let studies = replica.studies().iter();
        names = studies.map(|study| study.config.name.clone()).collect();
    })?;
    match names.as_slice() {
        [name] => Ok(name.clone()),
        _ => Err(StudyError::from(
            atune_core::storage::StorageError::UnknownName {
                name: String::new(),
                existing: names,
            },
        )),
    }
}

fn options(py: Python<'_>, settings: &Settings) -> PyResult<StudyOptions> {
    let sampler: Option<Arc<dyn Sampler>> = settings
        .sampler
        .as_ref()
        .map(|component| sampler::by_kind(&component.kind, &component.options))
        .transpose()
        .map_err(|error| plain(py, "SamplerError", &error.to_string()))?;
    let scheduler: Option<Arc<dyn Scheduler>> = settings
        .scheduler
        .as_ref()
        .map(|component| scheduler::by_kind(&component.kind, &component.options))
        .transpose()
        .map_err(|error| plain(py, "SchedulerError", &error.to_string()))?;
    let seconds = |value: f64| {
        Duration::try_from_secs_f64(value)
            .map_err(|error| plain(py, "MisuseError", &format!("{value} seconds: {error}")))
    };
    Ok(StudyOptions {
        sampler,
        scheduler,
        retry: RetryPolicy {
            max_attempts: settings.max_attempts,
        },
        worker: WorkerSettings {
            heartbeat_interval: seconds(settings.heartbeat_interval)?,
            grace: seconds(settings.grace)?,
            ..WorkerSettings::default()
        },
        ..StudyOptions::default()
    })
}

#[pymethods]
impl Study {
    #[getter]
    fn name(&self) -> &str {
        self.study.name()
    }

    /// What runs and traces call it.
    #[getter]
    fn id(&self) -> Option<&str> {
        self.place.as_ref().map(|place| place.id.as_str())
    }

    /// The file, by its whole path.
    #[getter]
    fn path(&self) -> Option<&OsStr> {
        self.place.as_ref().map(|place| place.path.as_os_str())
    }

    #[getter]
    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, self.study.config())
    }

    /// Kind and options.
    #[getter]
    fn sampler<'py>(&self, py: Python<'py>) -> PyResult<(&'static str, Bound<'py, PyAny>)> {
        let sampler = self.study.sampler();
        Ok((sampler.kind(), to_python(py, &sampler.options())?))
    }

    /// Kind and options.
    #[getter]
    fn scheduler<'py>(&self, py: Python<'py>) -> PyResult<(&'static str, Bound<'py, PyAny>)> {
        let scheduler = self.study.scheduler();
        Ok((scheduler.kind(), to_python(py, &scheduler.options())?))
    }

    #[pyo3(signature = (budget=None))]
    fn ask(&self, py: Python<'_>, budget: Option<u64>) -> PyResult<Trial> {
        let trial = self.with(py, |study| study.ask_within(budget))?;
        Ok(self.running(trial))
    }

    /// As `ask`; with the budget spent, a trial that a dead worker left to be tried again.
    #[pyo3(signature = (budget=None))]
    fn ask_any(&self, py: Python<'_>, budget: Option<u64>) -> PyResult<Trial> {
        let trial = self.with(py, |study| study.ask_any_within(budget))?;
        Ok(self.running(trial))
    }

    /// Adds a trial that was run elsewhere; its identity.
    fn add(&self, py: Python<'_>, trial: &Bound<'_, PyAny>) -> PyResult<u64> {
        let given: Added = from_python(trial)?;
        let finished = given
            .finished()
            .ok_or_else(|| plain(py, "BadTrialError", "the trial has not ended"))?;
        self.with(py, |study| study.add_trial(&finished))
            .map(|trial| trial.0)
    }

    /// Ends a trial as `Complete`, `Pruned`, `Failed` or `Released`; answers the state that was recorded.
    #[pyo3(signature = (trial, state, values=None, message=None))]
    fn tell<'py>(
        &self,
        py: Python<'py>,
        trial: &Trial,
        state: &str,
        values: Option<Vec<f64>>,
        message: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let told = match state {
            "Complete" => Told::Complete(values.unwrap_or_default()),
            "Pruned" => Told::Pruned(values),
            "Failed" => Told::Failed(message.unwrap_or_default()),
            "Released" => Told::Released,
            other => return Err(plain(py, "MisuseError", &format!("no ending {other:?}"))),
        };
        let running = trial.take(py)?;
        let state = self.with(py, |study| study.tell(running, told))?;
        to_python(py, &state)
    }

    /// Enqueues a trial with some parameters; its identity, or nothing when it is known.
    fn enqueue(
        &self,
        py: Python<'_>,
        params: &Bound<'_, PyAny>,
        skip_if_known: bool,
    ) -> PyResult<Option<u64>> {
        let params: Map<String, Value> = from_python(params)?;
        let enqueued = self.with(py, |study| study.enqueue(&params, skip_if_known))?;
        Ok(enqueued.map(|trial| trial.0))
    }

    fn trials<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let trials = self.with(py, study::Study::trials)?;
        dicts(py, &trials)
    }

    fn trial<'py>(&self, py: Python<'py>, id: u64) -> PyResult<Bound<'py, PyDict>> {
        let trial = py
            .detach(|| self.study.storage().trial(TrialId(id)))
            .map_err(|error| storage_error(py, &error))?;
        convert::trial(py, &trial)
    }

    fn best_trial<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let trial = self.with(py, study::Study::best_trial)?;
        convert::trial(py, &trial)
    }

    fn best_trials<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let trials = self.with(py, study::Study::best_trials)?;
        dicts(py, &trials)
    }

    fn user_attrs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let study = py
            .detach(|| self.study.storage().study(self.study.id()))
            .map_err(|error| storage_error(py, &error))?;
        to_python(py, &study.user_attrs)
    }

    fn set_user_attr(&self, py: Python<'_>, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value: Value = from_python(value)?;
        let storage = self.study.storage();
        py.detach(|| storage.set_study_user_attr(self.study.id(), key, &value))
            .map_err(|error| storage_error(py, &error))
    }

    /// The shares of the parameters in an objective, the largest first.
    fn importances(
        &self,
        py: Python<'_>,
        objective: usize,
        method: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<(String, f64)>> {
        let method: Method = from_python(method)?;
        self.with(py, |study| {
            let mut history = History::new(study.id(), study.config());
            let mut changes = None;
            study.storage().read(&mut |replica| {
                changes = Some(history.changes(replica));
            })?;
            if let Some(changes) = changes {
                history.take(changes);
            }
            let shares = importance(&history, objective, method);
            Ok(shares.into_iter().map(|s| (s.name, s.share)).collect())
        })
    }

    /// How many trials the study is to have: what sampler and scheduler plan with.
    #[pyo3(signature = (trials))]
    fn set_budget(&self, trials: Option<u64>) {
        self.study.set_budget(trials);
    }

    /// Raises in a forked child. Whoever has locks of its own asks this before it takes them.
    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, study::Study::check_process)
    }

    /// Fails running trials whose owner fell silent for so many seconds; how many there were.
    fn fail_stale(&self, py: Python<'_>, grace: f64) -> PyResult<usize> {
        let grace = Duration::try_from_secs_f64(grace)
            .map_err(|error| plain(py, "MisuseError", &error.to_string()))?;
        self.with(py, |study| study.fail_stale(grace))
    }
}

impl Study {
    fn running(&self, trial: study::Trial) -> Trial {
        Trial {
            study: self.study.clone(),
            place: self.place.clone(),
            id: trial.id(),
            number: trial.number(),
            trial: Mutex::new(Some(trial)),
        }
    }

    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&study::Study) -> study::Result<R> + Send,
    ) -> PyResult<R> {
        py.detach(|| work(&self.study))
            .map_err(|error| study_error(py, &error))
    }
}

#[pymethods]
impl Trial {
    #[getter]
    fn id(&self) -> u64 {
        self.id.0
    }

    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// A value of a distribution; for a choice, its place in the list.
    fn suggest<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        dist: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let dist: Distribution = from_python(dist)?;
        match self.with(py, |trial| trial.suggest(name, &dist))? {
            ParamValue::F64(value) => value.0.into_bound_py_any(py),
            ParamValue::I64(value) => value.into_bound_py_any(py),
            ParamValue::Bool(value) => value.into_bound_py_any(py),
            ParamValue::Cat(place) => place.into_bound_py_any(py),
        }
    }

    fn report(&self, py: Python<'_>, step: u64, values: Vec<f64>) -> PyResult<()> {
        self.with(py, move |trial| trial.report_all(step, &values))
    }

    fn should_prune(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, study::Trial::should_prune)
    }

    fn set_user_attr(&self, py: Python<'_>, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value: Value = from_python(value)?;
        self.with(py, |trial| trial.set_user_attr(key, value))
    }

    fn set_constraint(&self, py: Python<'_>, name: &str, value: f64) -> PyResult<()> {
        self.with(py, |trial| trial.set_constraint(name, value))
    }

    /// Verifies a run and keeps path, name and head of it; the attributes that were set.
    fn keep_run<'py>(&self, py: Python<'py>, run: PathBuf) -> PyResult<Bound<'py, PyAny>> {
        let run = path::absolute(run)?;
        // First of all: a trial that was told keeps nothing.
        self.with(py, |_| Ok(()))?;
        let attrs = py
            .detach(|| kept_of(&run, self.place.as_deref(), self.number))
            .map_err(|fault| not_kept(py, &run, fault))?;
        let set = attrs.clone();
        self.with(py, |trial| {
            let mut attrs = set.into_iter();
            attrs.try_for_each(|(key, value)| trial.set_user_attr(key, value))
        })?;
        to_python(py, &BTreeMap::from_iter(attrs))
    }

    /// What earlier attempts reported, and this one.
    fn reports(&self, py: Python<'_>) -> PyResult<Vec<(u64, Vec<f64>)>> {
        self.with(py, |trial| {
            let reports = trial.reports()?.into_iter();
            let plain = reports.map(|(step, values)| (step, values.iter().map(|v| v.0).collect()));
            Ok(plain.collect())
        })
    }

    /// Parameters by name, as the journal spells them.
    fn params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let params: BTreeMap<String, ParamValue> = self.with(py, study::Trial::params)?;
        to_python(py, &params)
    }
}

impl Trial {
    /// The trial, unless it was told; never in a forked child, where a thread that is not there may have it.
    fn lock(&self) -> study::Result<MutexGuard<'_, Option<study::Trial>>> {
        self.study.check_process()?;
        Ok(self.trial.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take(&self, py: Python<'_>) -> PyResult<study::Trial> {
        py.detach(|| self.lock().map(|mut trial| trial.take()))
            .map_err(|error| study_error(py, &error))?
            .ok_or_else(|| over(py, self.number))
    }

    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&study::Trial) -> study::Result<R> + Send,
    ) -> PyResult<R> {
        py.detach(|| self.lock()?.as_ref().map(work).transpose())
            .map_err(|error| study_error(py, &error))?
            .ok_or_else(|| over(py, self.number))
    }
}

/// Why a trial does not keep a run.
fn not_kept(py: Python<'_>, run: &Path, fault: Fault) -> PyErr {
    match fault {
        Fault::Journal(error) => journal_error(py, &error),
        Fault::Other(text) => plain(py, "MisuseError", &text),
        Fault::Damaged(what) => {
            let text = format!("{} is damaged: {what}", run.display());
            let facts = PyDict::new(py);
            facts
                .set_item("path", run)
                .and_then(|()| exception(py, "omniloop.errors", "CorruptError", &text, &facts))
                .unwrap_or_else(|failure| failure)
        }
    }
}

fn over(py: Python<'_>, number: u64) -> PyErr {
    let text = format!("trial {number} was told before, and has ended");
    plain(py, "EndedError", &text)
}

fn dicts<'py>(py: Python<'py>, trials: &[replica::Trial]) -> PyResult<Bound<'py, PyList>> {
    let dicts = trials.iter().map(|trial| convert::trial(py, trial));
    PyList::new(py, dicts.collect::<PyResult<Vec<Bound<'py, PyDict>>>>()?)
}
