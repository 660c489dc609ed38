//! Checking a file's chain, and the names of a set.

use std::path::PathBuf;

use omniloop_core::journal::{self, ChainBreak, IndexState};
use pyo3::prelude::*;
use serde::Serialize;

use super::writer::texts;
use crate::raise::journal_error;

/// The answer of `verify_chain`; its members are the keys of the dict.
#[derive(Serialize)]
struct Answer<'a> {
    ok: bool,
    declared_chained: bool,
    checkpoints: u64,
    head: Option<&'a str>,
    break_at: Option<&'a ChainBreak>,
    records: u64,
    finalized: bool,
    unverified_tail: u64,
    truncated: bool,
    index: IndexState,
    trailing_bytes: u64,
}

/// Verifies the chain of one file.
#[pyfunction]
pub(crate) fn verify_chain(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    let found = py
        .detach(move || journal::verify_chain(path))
        .map_err(|error| journal_error(py, &error))?;
    let answer = Answer {
        ok: found.ok,
        declared_chained: found.declared_chained,
        checkpoints: found.checkpoints,
        head: found.head.as_deref(),
        break_at: found.break_at.as_ref(),
        records: found.records,
        finalized: found.finalized,
        unverified_tail: found.unverified_tail,
        truncated: found.truncated,
        index: found.index,
        trailing_bytes: found.trailing_bytes,
    };
    Ok(pythonize::pythonize(py, &answer)?)
}

/// The files of the set that starts at a path, in order.
#[pyfunction]
pub(crate) fn journal_segments(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    let paths = py
        .detach(move || journal::segment_paths(path))
        .map_err(|error| journal_error(py, &error))?;
    texts(&paths).into_pyobject(py)
}
