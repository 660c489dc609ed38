//! Studies and trials as Python sees them: dicts with the spelling of the journal.

use atune_core::number::JsonF64;
use atune_core::replica::{Study, Trial};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use pythonize::{depythonize, pythonize};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value of the core as Python objects.
pub(super) fn to_python<'py, T: Serialize>(
    py: Python<'py>,
    value: &T,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(pythonize(py, value)?)
}

/// Python objects as a value of the core.
pub(super) fn from_python<T: DeserializeOwned>(value: &Bound<'_, PyAny>) -> PyResult<T> {
    Ok(depythonize(value)?)
}

/// A study: identity, configuration, attributes, and how many trials it has.
pub(super) fn study<'py>(py: Python<'py>, study: &Study) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("id", study.id.0)?;
    dict.set_item("config", to_python(py, &study.config)?)?;
    dict.set_item("user_attrs", to_python(py, &study.user_attrs)?)?;
    dict.set_item("trial_count", study.trials.len())?;
    Ok(dict)
}

/// A trial. Numbers that are not finite are floats here, except inside of attributes and distributions.
pub(super) fn trial<'py>(py: Python<'py>, trial: &Trial) -> PyResult<Bound<'py, PyDict>> {
    let floats = |values: &[JsonF64]| values.iter().map(|value| value.0).collect::<Vec<f64>>();
    let dict = PyDict::new(py);
    dict.set_item("id", trial.id.0)?;
    dict.set_item("study", trial.study.0)?;
    dict.set_item("number", trial.number)?;
    dict.set_item("state", to_python(py, &trial.state)?)?;
    dict.set_item("managed", trial.managed)?;
    let params = PyList::empty(py);
    for param in &trial.params {
        let dist = to_python(py, &param.key.dist)?;
        let value = to_python(py, &param.value)?;
        params.append((&param.key.name, dist, value))?;
    }
    dict.set_item("params", params)?;
    let reports = trial.reports.iter();
    let reports: Vec<_> = reports.map(|r| (r.step, floats(&r.values))).collect();
    dict.set_item("reports", reports)?;
    dict.set_item("values", trial.values.as_deref().map(floats))?;
    let attrs = PyDict::new(py);
    for (key, value) in trial.user_attrs() {
        attrs.set_item(key, to_python(py, value)?)?;
    }
    dict.set_item("user_attrs", attrs)?;
    dict.set_item("error", trial.error())?;
    dict.set_item("created_millis", trial.times.created)?;
    dict.set_item("started_millis", trial.times.started)?;
    dict.set_item("ended_millis", trial.times.ended)?;
    dict.set_item("owner", trial.owner.map(|worker| worker.0))?;
    dict.set_item("retry_of", trial.retry_of().map(|trial| trial.0))?;
    let fixed = trial.template().map(|template| &template.fixed);
    dict.set_item("fixed", fixed.map(|f| to_python(py, f)).transpose()?)?;
    Ok(dict)
}
