//! Letting somebody attend a loop while it runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use omniloop_control::{self as live, HaltPolicy, Order, Server, Standing};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use super::record::payload;
use super::recorder::Recorder;
use crate::owned::Owned;
use crate::raise::{exception, gone, misuse};

/// How long a halted loop may not notice a signal.
const LOOK: Duration = Duration::from_millis(50);

/// The control of a loop, and the socket before it.
#[pyclass(frozen, module = "omniloop")]
pub(crate) struct Control {
    path: PathBuf,
    control: Arc<live::Control>,
    server: Owned<Server>,
}

/// What a tick came to: the changes that the loop has to take over, and why it is to end.
type Turned = (Vec<(String, Value)>, Standing);

/// The same for the interpreter: the reason when it is to end.
type Attended<'py> = (Vec<(String, Bound<'py, PyAny>)>, Option<String>);

#[pymethods]
impl Control {
    #[new]
    #[pyo3(signature = (path, run, *, halt_policy = "halt"))]
    fn new(py: Python<'_>, path: PathBuf, run: PathBuf, halt_policy: &str) -> PyResult<Self> {
        let policy = match halt_policy {
            "continue" => HaltPolicy::Continue,
            "halt" => HaltPolicy::Halt,
            "exit" => HaltPolicy::Exit,
            other => {
                let text = format!("no halt policy {other:?}; there are continue, halt, exit");
                return Err(misuse(py, &text));
            }
        };
        let control = Arc::new(live::Control::new(run, policy));
        let server = py
            .detach(|| Server::start(&path, Arc::clone(&control)))
            .map_err(|error| refused(py, &error))?;
        Ok(Self {
            path,
            control,
            server: Owned::new(server),
        })
    }

    /// Takes `{"value": …, "min": …, "max": …}`.
    fn declare(&self, py: Python<'_>, name: &str, param: &Bound<'_, PyAny>) -> PyResult<()> {
        let param = serde_json::from_value(json(param)?)
            .map_err(|error| misuse(py, &format!("{name}: {error}")))?;
        py.detach(|| self.control.declare(name, param));
        Ok(())
    }

    #[getter]
    fn has_watches(&self, py: Python<'_>) -> bool {
        py.detach(|| self.control.has_watches())
    }

    #[getter]
    fn halted(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.control.halted())
    }

    fn halt(&self, py: Python<'_>, recorder: &Recorder, reason: &str) -> PyResult<()> {
        recorder.with(py, |recorder| self.control.halt(recorder, reason))
    }

    fn resume(&self, py: Python<'_>, recorder: &Recorder, reason: &str) -> PyResult<bool> {
        recorder.with(py, |recorder| self.control.resume(recorder, reason))
    }

    #[pyo3(signature = (tick, state = None))]
    fn count(&self, py: Python<'_>, tick: u64, state: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let state = state.map(json).transpose()?;
        py.detach(|| self.control.count_tick(tick, state.as_ref()));
        Ok(())
    }

    /// Waits while the loop is halted, without the interpreter; the second part says why the loop is to end.
    fn attend<'py>(&self, py: Python<'py>, recorder: &Recorder) -> PyResult<Attended<'py>> {
        let mut changes = Vec::new();
        loop {
            let (turn, seen) = self.turn(py, recorder)?;
            changes.extend(turn.0);
            let reason = match turn.1 {
                Standing::Halted(_) if changes.is_empty() => {
                    py.detach(|| self.control.wait(seen, LOOK));
                    py.check_signals()?;
                    continue;
                }
                // The caller takes the changes over and comes again.
                Standing::Halted(_) | Standing::Going => None,
                Standing::Leaving(reason) => Some(reason),
            };
            let changes: PyResult<Vec<_>> = changes
                .into_iter()
                .map(|(name, value)| Ok((name, pythonize::pythonize(py, &value)?)))
                .collect();
            return Ok((changes?, reason));
        }
    }

    /// The run is about to end: whoever waits is told, and the socket goes.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.server.take().map(Server::close))
            .map_err(|why| gone(py, why, &self.path))
    }
}

impl Control {
    fn turn(&self, py: Python<'_>, recorder: &Recorder) -> PyResult<(Turned, u64)> {
        let mut changes = Vec::new();
        let turn = recorder.with(py, |recorder| {
            self.control.turn(recorder, &mut |order| {
                if let Order::Set(change) = order {
                    changes.push((change.name.clone(), change.value.clone()));
                }
                Ok(())
            })
        })?;
        Ok(((changes, turn.standing), turn.seen))
    }
}

/// A value of Python as JSON, as it would be recorded.
fn json(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    let text = payload(value)?;
    serde_json::from_slice(&text).map_err(|error| misuse(value.py(), &error.to_string()))
}

/// Python tells what the system refuses by its number.
fn refused(py: Python<'_>, error: &live::ServerError) -> PyErr {
    let text = match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    let facts = PyDict::new(py);
    facts
        .set_item("errno", error.errno())
        .and_then(|()| facts.set_item("path", error.path()))
        .and_then(|()| exception(py, "omniloop.errors", "JournalIOError", &text, &facts))
        .unwrap_or_else(|failure| failure)
}
