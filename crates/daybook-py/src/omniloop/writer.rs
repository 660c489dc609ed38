//! Writing a journal, one call after the other.

use std::ffi::OsStr;
use std::num::NonZeroU64;
use std::path::PathBuf;

use omniloop_core::journal::{self, Result, Sealed};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::options::{Durability, RotationPolicy, journal_options};
use super::record::{Stamp, kind, payload};
use crate::owned::Owned;
use crate::raise::{gone, journal_error};

/// An open journal.
#[pyclass(frozen, module = "omniloop")]
pub(crate) struct StateJournal {
    path: PathBuf,
    journal: Owned<journal::StateJournal>,
}

#[pymethods]
impl StateJournal {
    #[new]
    #[pyo3(signature = (path, *, rotation=None, durability=None, overwrite=false, signing_key=None, sign_every=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        rotation: Option<RotationPolicy>,
        durability: Option<Durability>,
        overwrite: bool,
        signing_key: Option<&Bound<'_, PyAny>>,
        sign_every: Option<NonZeroU64>,
    ) -> PyResult<Self> {
        let options =
            journal_options(py, rotation, durability, overwrite, signing_key, sign_every)?;
        let journal = py
            .detach(|| journal::StateJournal::create_with(&path, options))
            .map_err(|error| journal_error(py, &error))?;
        Ok(Self {
            path,
            journal: Owned::new(journal),
        })
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.path.as_os_str()
    }

    fn append(&self, py: Python<'_>, kind_name: &str, value: &Bound<'_, PyAny>) -> PyResult<Stamp> {
        let (kind, payload) = (kind(py, kind_name)?, payload(value)?);
        self.with(py, |journal| journal.append(kind, &payload))
            .map(Stamp::from)
    }

    #[getter]
    fn last_stamp(&self, py: Python<'_>) -> PyResult<Stamp> {
        self.with(py, |journal| Ok(journal.last_stamp()))
            .map(Stamp::from)
    }

    #[getter]
    fn segment_ordinal(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |journal| Ok(journal.segment_ordinal()))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, journal::StateJournal::flush)
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, journal::StateJournal::sync)
    }

    fn seal<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let sealed = py
            .detach(|| self.journal.take().map(journal::StateJournal::seal))
            .map_err(|why| gone(py, why, &self.path))?
            .map_err(|error| journal_error(py, &error))?;
        sealed_dict(py, &sealed)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// Seals in any case, unless that was done: what was recorded before an exception is whole.
    #[pyo3(signature = (*_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _exception: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        match py.detach(|| self.journal.take().map(journal::StateJournal::seal)) {
            Ok(sealed) => sealed
                .map(|_| ())
                .map_err(|error| journal_error(py, &error)),
            Err(_) => Ok(()),
        }
    }
}

impl StateJournal {
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut journal::StateJournal) -> Result<R> + Send,
    ) -> PyResult<R> {
        py.detach(|| self.journal.with(work))
            .map_err(|why| gone(py, why, &self.path))?
            .map_err(|error| journal_error(py, &error))
    }
}

/// What a sealed journal consists of.
pub(super) fn sealed_dict<'py>(py: Python<'py>, sealed: &Sealed) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("paths", texts(&sealed.paths))?;
    dict.set_item("record_count", sealed.record_count)?;
    dict.set_item("head", hex(&sealed.head))?;
    Ok(dict)
}

pub(super) fn texts(paths: &[PathBuf]) -> Vec<&OsStr> {
    paths.iter().map(|path| path.as_os_str()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}
