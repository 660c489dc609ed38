//! Errors of the record crates as Python exceptions. The classes are Python's own, in
//! `omniloop/errors.py`: there they can be subclasses of two.

use std::io;
use std::path::Path;

use omniloop_core::journal::{Error, ErrorKind, Fault};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::owned::Gone;

/// The class of `omniloop.errors` for a kind of error.
fn journal_class(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::Io => "JournalIOError",
        ErrorKind::Corrupt => match error {
            Error::Corrupt {
                fault: Fault::CrcMismatch { .. },
                ..
            } => "CrcError",
            _ => "CorruptError",
        },
        ErrorKind::Incomplete => "IncompleteError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Misuse => "MisuseError",
    }
}

/// An error of a journal as an exception with its facts as attributes.
pub(crate) fn journal_error(py: Python<'_>, error: &Error) -> PyErr {
    let facts = PyDict::new(py);
    let told = match error {
        Error::Io { path, source, .. } => facts
            .set_item("errno", errno(py, source))
            .and_then(|()| facts.set_item("path", path))
            .map(|()| format!("{error}: {source}")),
        Error::Corrupt {
            path,
            section,
            offset,
            tick,
            ..
        } => facts
            .set_item("path", path)
            .and_then(|()| facts.set_item("section", section.to_string()))
            .and_then(|()| facts.set_item("offset", offset))
            .and_then(|()| facts.set_item("tick", tick))
            .map(|()| error.to_string()),
        Error::Incomplete { path, .. }
        | Error::NotAJournal { path }
        | Error::Unsupported { path, .. } => {
            facts.set_item("path", path).map(|()| error.to_string())
        }
        _ => Ok(error.to_string()),
    };
    told.and_then(|text| exception(py, "omniloop.errors", journal_class(error), &text, &facts))
        .unwrap_or_else(|failure| failure)
}

/// The number that Python tells refusals apart by; ours have one even where no system call failed.
pub(crate) fn errno<'py>(py: Python<'py>, source: &io::Error) -> Option<Bound<'py, PyAny>> {
    let name = match source.kind() {
        io::ErrorKind::NotFound => "ENOENT",
        io::ErrorKind::AlreadyExists => "EEXIST",
        io::ErrorKind::PermissionDenied => "EACCES",
        _ => {
            return source
                .raw_os_error()?
                .into_pyobject(py)
                .ok()
                .map(Bound::into_any);
        }
    };
    py.import("errno")
        .and_then(|codes| codes.getattr(name))
        .ok()
}

/// Whatever is done with something that is closed, or that another process opened.
pub(crate) fn gone(py: Python<'_>, gone: Gone, what: &Path) -> PyErr {
    let why = match gone {
        Gone::Closed => "is closed",
        Gone::Forked => "belongs to the process that opened it; a forked process opens its own",
    };
    misuse(py, &format!("{} {why}", what.display()))
}

/// A call that makes no sense.
pub(crate) fn misuse(py: Python<'_>, text: &str) -> PyErr {
    exception(py, "omniloop.errors", "MisuseError", text, &PyDict::new(py))
        .unwrap_or_else(|failure| failure)
}

/// An exception of a class of `module`, with facts as attributes.
pub(crate) fn exception(
    py: Python<'_>,
    module: &str,
    class: &str,
    text: &str,
    facts: &Bound<'_, PyDict>,
) -> PyResult<PyErr> {
    let class = py.import(module)?.getattr(class)?;
    let made = class.call_method("of", (text,), Some(facts))?;
    Ok(PyErr::from_value(made))
}
