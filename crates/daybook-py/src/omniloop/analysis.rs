//! Questions about runs, and inputs once more.

use std::path::PathBuf;

use omniloop_core::analysis::{self, DivergenceOptions, ReplayOptions};
use omniloop_core::journal::Result;
use pyo3::prelude::*;
use serde::Serialize;

use crate::owned::Owned;
use crate::raise::{gone, journal_error};

/// Answers without the interpreter, and hands the answer over as dicts and lists.
fn answer<T: Serialize + Send>(
    py: Python<'_>,
    ask: impl FnOnce() -> Result<T> + Send,
) -> PyResult<Bound<'_, PyAny>> {
    let found = py.detach(ask).map_err(|error| journal_error(py, &error))?;
    Ok(pythonize::pythonize(py, &found)?)
}

/// What led to the value of a variable, newest first.
#[pyfunction]
#[pyo3(signature = (path, name, tick = None))]
pub(crate) fn cause_of(
    py: Python<'_>,
    path: PathBuf,
    name: String,
    tick: Option<u64>,
) -> PyResult<Bound<'_, PyAny>> {
    answer(py, move || analysis::cause_of(path, &name, tick))
}

/// What has a correlation id, and what came of it.
#[pyfunction]
pub(crate) fn effects_of(
    py: Python<'_>,
    path: PathBuf,
    correlation_id: String,
) -> PyResult<Bound<'_, PyAny>> {
    answer(py, move || analysis::effects_of(path, &correlation_id))
}

/// Where two runs part.
#[pyfunction]
#[pyo3(signature = (a, b, *, ignore = None, tolerance = 0.0, ignore_inputs = false))]
pub(crate) fn find_divergence(
    py: Python<'_>,
    a: PathBuf,
    b: PathBuf,
    ignore: Option<Vec<String>>,
    tolerance: f64,
    ignore_inputs: bool,
) -> PyResult<Bound<'_, PyAny>> {
    let options = DivergenceOptions {
        ignore: ignore.unwrap_or_default(),
        ignore_inputs,
        tolerance,
    };
    answer(py, move || analysis::find_divergence(a, b, &options))
}

/// Hands the inputs of a run back.
#[pyclass(module = "omniloop", frozen)]
pub(crate) struct InputReplayer {
    path: PathBuf,
    inputs: Owned<analysis::InputReplayer>,
}

impl InputReplayer {
    fn with<'py, T: Serialize + Send>(
        &self,
        py: Python<'py>,
        ask: impl FnOnce(&mut analysis::InputReplayer) -> Result<T> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = py
            .detach(|| self.inputs.with(ask))
            .map_err(|why| gone(py, why, &self.path))?
            .map_err(|error| journal_error(py, &error))?;
        Ok(pythonize::pythonize(py, &found)?)
    }
}

#[pymethods]
impl InputReplayer {
    #[new]
    #[pyo3(signature = (path, *, strict = true))]
    fn new(py: Python<'_>, path: PathBuf, strict: bool) -> PyResult<Self> {
        let opened = path.clone();
        let inputs = py
            .detach(move || analysis::InputReplayer::open(opened, ReplayOptions { strict }))
            .map_err(|error| journal_error(py, &error))?;
        Ok(Self {
            path,
            inputs: Owned::new(inputs),
        })
    }

    fn next_input<'py>(
        &self,
        py: Python<'py>,
        channel: String,
        tick: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.with(py, move |inputs| inputs.next_input(&channel, tick))
    }

    #[pyo3(signature = (name = "default"))]
    fn seed<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.with(py, |inputs| inputs.seed(name))
    }

    #[getter]
    fn unused<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.with(py, |inputs| Ok(inputs.unused()))
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = self.with(py, analysis::InputReplayer::next_any)?;
        Ok((!next.is_none()).then_some(next))
    }
}
