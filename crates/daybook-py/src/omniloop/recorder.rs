//! Writing a journal without holding up the loop.

use std::ffi::OsStr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use omniloop_core::journal::Result;
use omniloop_core::recorder::{self, Policy, Recorded, RecorderOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::options::{Durability, RotationPolicy, journal_options};
use super::record::{kind, payload};
use super::writer::sealed_dict;
use crate::owned::Owned;
use crate::raise::{gone, journal_error, misuse};

/// A journal behind a bounded queue and a thread.
#[pyclass(frozen, module = "omniloop")]
pub(crate) struct Recorder {
    path: PathBuf,
    recorder: Owned<recorder::Recorder>,
}

#[pymethods]
impl Recorder {
    #[new]
    #[pyo3(signature = (
        path, *, policy="block", queue_records=8192, queue_bytes=67_108_864, flush_interval=0.2,
        rotation=None, durability=None, overwrite=false, signing_key=None, sign_every=None
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "named arguments of a Python call"
    )]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        policy: &str,
        queue_records: usize,
        queue_bytes: usize,
        flush_interval: f64,
        rotation: Option<RotationPolicy>,
        durability: Option<Durability>,
        overwrite: bool,
        signing_key: Option<&Bound<'_, PyAny>>,
        sign_every: Option<NonZeroU64>,
    ) -> PyResult<Self> {
        let policy = match policy {
            "block" => Policy::Block,
            "drop_telemetry" => Policy::DropTelemetry,
            other => {
                let text = format!("no policy {other:?}; there are block, drop_telemetry");
                return Err(misuse(py, &text));
            }
        };
        let flush_interval = Duration::try_from_secs_f64(flush_interval)
            .map_err(|error| misuse(py, &format!("flush_interval: {error}")))?;
        let options = RecorderOptions {
            journal: journal_options(py, rotation, durability, overwrite, signing_key, sign_every)?,
            queue_records,
            queue_bytes,
            policy,
            flush_interval,
        };
        let recorder = py
            .detach(|| recorder::Recorder::create(&path, options))
            .map_err(|error| journal_error(py, &error))?;
        Ok(Self {
            path,
            recorder: Owned::new(recorder),
        })
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.path.as_os_str()
    }

    /// True when the record is in the queue, false when it was dropped.
    fn record(&self, py: Python<'_>, kind_name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (kind, payload) = (kind(py, kind_name)?, payload(value)?);
        self.with(py, |recorder| recorder.record(kind, payload))
            .map(|recorded| recorded == Recorded::Queued)
    }

    #[getter]
    fn dropped(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |recorder| Ok(recorder.dropped()))
    }

    #[getter]
    fn written(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |recorder| Ok(recorder.written()))
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, recorder::Recorder::check)
    }

    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let closed = py
            .detach(|| self.recorder.take().map(recorder::Recorder::close))
            .map_err(|why| gone(py, why, &self.path))?
            .map_err(|error| journal_error(py, &error))?;
        let dict = sealed_dict(py, &closed.sealed)?;
        dict.set_item("dropped", closed.dropped)?;
        Ok(dict)
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
        match py.detach(|| self.recorder.take().map(recorder::Recorder::close)) {
            Ok(closed) => closed
                .map(|_| ())
                .map_err(|error| journal_error(py, &error)),
            Err(_) => Ok(()),
        }
    }
}

impl Recorder {
    pub(super) fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&recorder::Recorder) -> Result<R> + Send,
    ) -> PyResult<R> {
        py.detach(|| self.recorder.with(|recorder| work(recorder)))
            .map_err(|why| gone(py, why, &self.path))?
            .map_err(|error| journal_error(py, &error))
    }
}
