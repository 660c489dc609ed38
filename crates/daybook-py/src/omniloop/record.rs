//! Records, what stamps them, and payloads.

use omniloop_core::journal::{self, FrameKind};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::raise::misuse;

/// One record of a journal.
#[pyclass(frozen, eq, module = "omniloop")]
#[derive(PartialEq, Eq)]
pub(crate) struct FrameRecord(journal::FrameRecord);

impl From<journal::FrameRecord> for FrameRecord {
    fn from(record: journal::FrameRecord) -> Self {
        Self(record)
    }
}

#[pymethods]
impl FrameRecord {
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind.as_str()
    }

    #[getter]
    fn tick(&self) -> u64 {
        self.0.tick
    }

    #[getter]
    fn mono_ns(&self) -> u64 {
        self.0.mono_ns
    }

    #[getter]
    fn wall_ns(&self) -> u64 {
        self.0.wall_ns
    }

    #[getter]
    fn offset(&self) -> u64 {
        self.0.offset
    }

    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.payload)
    }

    /// Python's own parser, so that a number is what it is everywhere else in Python.
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = PyString::from_encoded_object(
            &PyBytes::new(py, &self.0.payload),
            Some(c"utf-8"),
            Some(c"strict"),
        )?;
        py.import("json")?.call_method1("loads", (text,))
    }

    fn __repr__(&self) -> String {
        format!(
            "FrameRecord(kind={:?}, tick={}, payload={} bytes)",
            self.0.kind.as_str(),
            self.0.tick,
            self.0.payload.len()
        )
    }
}

/// What the journal stamped onto a record.
#[pyclass(frozen, eq, get_all, module = "omniloop")]
#[derive(PartialEq, Eq)]
pub(crate) struct Stamp {
    tick: u64,
    mono_ns: u64,
    wall_ns: u64,
}

impl From<journal::Stamp> for Stamp {
    fn from(stamp: journal::Stamp) -> Self {
        Self {
            tick: stamp.tick,
            mono_ns: stamp.mono_ns,
            wall_ns: stamp.wall_ns,
        }
    }
}

#[pymethods]
impl Stamp {
    fn __repr__(&self) -> String {
        format!(
            "Stamp(tick={}, mono_ns={}, wall_ns={})",
            self.tick, self.mono_ns, self.wall_ns
        )
    }
}

/// The kind with this name.
pub(super) fn kind(py: Python<'_>, name: &str) -> PyResult<FrameKind> {
    name.parse().map_err(|text: String| misuse(py, &text))
}

/// The bytes of a payload: bytes and text as they are, anything else as JSON.
pub(super) fn payload(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.to_str()?.as_bytes().to_vec());
    }
    let encoded = value
        .py()
        .import("omniloop._payload")?
        .call_method1("encode", (value,))?;
    Ok(encoded.cast::<PyBytes>()?.as_bytes().to_vec())
}
