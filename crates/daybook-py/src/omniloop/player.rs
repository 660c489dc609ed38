//! Reading one file, or a rotated set as one stream.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use durable::RealFs;
use omniloop_core::journal::{self, PlayerOptions, Result};
use pyo3::prelude::*;

use super::record::FrameRecord;
use super::writer::texts;
use crate::raise::journal_error;

/// Reads one file.
#[pyclass(frozen, subclass, module = "omniloop")]
pub(crate) struct JournalPlayer {
    path: PathBuf,
    lenient: bool,
    player: Mutex<journal::JournalPlayer>,
}

#[pymethods]
impl JournalPlayer {
    #[new]
    #[pyo3(signature = (path, *, lenient=false))]
    fn new(py: Python<'_>, path: PathBuf, lenient: bool) -> PyResult<Self> {
        let options = PlayerOptions {
            lenient,
            ..PlayerOptions::default()
        };
        let player = py
            .detach(|| journal::JournalPlayer::open_with(&RealFs, &path, options))
            .map_err(|error| journal_error(py, &error))?;
        Ok(Self {
            path,
            lenient,
            player: Mutex::new(player),
        })
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.path.as_os_str()
    }

    #[getter]
    fn lenient(&self) -> bool {
        self.lenient
    }

    fn version(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, |player| Ok(player.version()))
    }

    fn record_count(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.with(py, |player| Ok(player.record_count()))
    }

    fn is_segmented(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |player| Ok(player.is_segmented()))
    }

    fn segment_index(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.with(py, |player| Ok(player.segment_index()))
    }

    fn created_wall_ns(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |player| Ok(player.header().created_wall_ns))
    }

    fn is_finalized(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |player| Ok(player.is_finalized()))
    }

    fn is_truncated(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |player| Ok(player.is_truncated()))
    }

    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |player| Ok(journal::JournalPlayer::position(player)))
    }

    fn seek_to_tick(&self, py: Python<'_>, tick: u64) -> PyResult<()> {
        self.with(py, |player| player.seek_to_tick(tick))
    }

    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, journal::JournalPlayer::refresh)
    }

    fn read_next_record(&self, py: Python<'_>) -> PyResult<Option<FrameRecord>> {
        let record = self.with(py, journal::JournalPlayer::read_next_record)?;
        Ok(record.map(FrameRecord::from))
    }

    fn read_next_data_record(&self, py: Python<'_>) -> PyResult<Option<FrameRecord>> {
        let record = self.with(py, journal::JournalPlayer::read_next_data_record)?;
        Ok(record.map(FrameRecord::from))
    }
}

impl JournalPlayer {
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut journal::JournalPlayer) -> Result<R> + Send,
    ) -> PyResult<R> {
        py.detach(|| work(&mut self.player.lock().unwrap_or_else(PoisonError::into_inner)))
            .map_err(|error| journal_error(py, &error))
    }
}

/// Reads a rotated set, or a journal without rotation, as one stream.
#[pyclass(frozen, subclass, module = "omniloop")]
pub(crate) struct SegmentedPlayer {
    path: PathBuf,
    lenient: bool,
    player: Mutex<journal::SegmentedPlayer>,
}

#[pymethods]
impl SegmentedPlayer {
    #[new]
    #[pyo3(signature = (path, *, lenient=false))]
    fn new(py: Python<'_>, path: PathBuf, lenient: bool) -> PyResult<Self> {
        let options = PlayerOptions {
            lenient,
            ..PlayerOptions::default()
        };
        let player = py
            .detach(|| journal::SegmentedPlayer::open_with(Arc::new(RealFs), &path, options))
            .map_err(|error| journal_error(py, &error))?;
        Ok(Self {
            path,
            lenient,
            player: Mutex::new(player),
        })
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.path.as_os_str()
    }

    #[getter]
    fn lenient(&self) -> bool {
        self.lenient
    }

    fn version(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, |player| Ok(player.segment().version()))
    }

    fn segment_count(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |player| Ok(player.segment_count()))
    }

    fn segment_index(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.with(py, |player| Ok(player.segment().segment_index()))
    }

    fn is_segmented(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |player| Ok(player.segment().is_segmented()))
    }

    fn paths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let paths = self.with(py, |player| Ok(player.paths().to_vec()))?;
        texts(&paths).into_pyobject(py)
    }

    fn stranded_paths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let paths = self.with(py, |player| player.stranded_paths())?;
        texts(&paths).into_pyobject(py)
    }

    fn check_complete(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |player| player.check_complete())
    }

    fn record_count(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.with(py, |player| player.record_count())
    }

    fn is_finalized(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |player| Ok(player.is_sealed_at_end()))
    }

    fn is_truncated(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |player| Ok(player.is_truncated()))
    }

    fn seek_to_tick(&self, py: Python<'_>, tick: u64) -> PyResult<()> {
        self.with(py, |player| player.seek_to_tick(tick))
    }

    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, journal::SegmentedPlayer::refresh)
    }

    fn read_next_record(&self, py: Python<'_>) -> PyResult<Option<FrameRecord>> {
        let record = self.with(py, journal::SegmentedPlayer::read_next_record)?;
        Ok(record.map(FrameRecord::from))
    }

    fn read_next_data_record(&self, py: Python<'_>) -> PyResult<Option<FrameRecord>> {
        let record = self.with(py, journal::SegmentedPlayer::read_next_data_record)?;
        Ok(record.map(FrameRecord::from))
    }
}

impl SegmentedPlayer {
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut journal::SegmentedPlayer) -> Result<R> + Send,
    ) -> PyResult<R> {
        py.detach(|| work(&mut self.player.lock().unwrap_or_else(PoisonError::into_inner)))
            .map_err(|error| journal_error(py, &error))
    }
}
