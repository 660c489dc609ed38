//! How a journal is written.

use std::num::NonZeroU64;
use std::time::Duration;

use omniloop_core::journal::{self, JournalOptions, JournalSigner};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::raise::{journal_error, misuse};

/// When appended records become durable.
#[pyclass(frozen, eq, from_py_object, module = "omniloop")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Durability(journal::Durability);

#[pymethods]
impl Durability {
    #[staticmethod]
    fn buffered() -> Self {
        Self(journal::Durability::Buffered)
    }

    #[staticmethod]
    fn each_record() -> Self {
        Self(journal::Durability::EachRecord)
    }

    #[staticmethod]
    fn every_n(records: NonZeroU64) -> Self {
        Self(journal::Durability::EveryN(records.get()))
    }

    #[staticmethod]
    fn every_ms(milliseconds: u64) -> Self {
        Self(journal::Durability::EveryMs(milliseconds))
    }

    fn __repr__(&self) -> String {
        match self.0 {
            journal::Durability::Buffered => "Durability.buffered()".to_owned(),
            journal::Durability::EachRecord => "Durability.each_record()".to_owned(),
            journal::Durability::EveryN(records) => format!("Durability.every_n({records})"),
            journal::Durability::EveryMs(ms) => format!("Durability.every_ms({ms})"),
        }
    }
}

/// When to start a new segment.
#[pyclass(frozen, eq, from_py_object, module = "omniloop")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RotationPolicy(journal::RotationPolicy);

#[pymethods]
impl RotationPolicy {
    #[new]
    #[pyo3(signature = (*, max_bytes=None, max_records=None, max_age=None))]
    fn new(
        py: Python<'_>,
        max_bytes: Option<u64>,
        max_records: Option<u64>,
        max_age: Option<f64>,
    ) -> PyResult<Self> {
        let max_age = max_age
            .map(Duration::try_from_secs_f64)
            .transpose()
            .map_err(|error| misuse(py, &format!("max_age: {error}")))?;
        Ok(Self(journal::RotationPolicy {
            max_bytes,
            max_records,
            max_age,
        }))
    }

    fn __repr__(&self) -> String {
        let of = |value: Option<u64>| value.map_or_else(|| "None".to_owned(), |v| v.to_string());
        let age = self
            .0
            .max_age
            .map_or_else(|| "None".to_owned(), |age| age.as_secs_f64().to_string());
        format!(
            "RotationPolicy(max_bytes={}, max_records={}, max_age={age})",
            of(self.0.max_bytes),
            of(self.0.max_records)
        )
    }
}

/// The options that both writers take.
pub(super) fn journal_options(
    py: Python<'_>,
    rotation: Option<RotationPolicy>,
    durability: Option<Durability>,
    overwrite: bool,
    signing_key: Option<&Bound<'_, PyAny>>,
    sign_every: Option<NonZeroU64>,
) -> PyResult<JournalOptions> {
    if sign_every.is_some() && signing_key.is_none() {
        return Err(misuse(py, "sign_every needs a signing_key"));
    }
    Ok(JournalOptions {
        durability: durability.map_or_else(journal::Durability::default, |d| d.0),
        rotation: rotation.map(|policy| policy.0),
        overwrite,
        signer: signing_key.map(signer).transpose()?,
        sign_every,
        ..JournalOptions::default()
    })
}

/// A signer from 32 secret bytes or from the PEM text of a private key.
fn signer(key: &Bound<'_, PyAny>) -> PyResult<JournalSigner> {
    let py = key.py();
    if let Ok(bytes) = key.cast::<PyBytes>() {
        let seed = bytes
            .as_bytes()
            .try_into()
            .map_err(|_| misuse(py, "signing_key: a secret key has 32 bytes"))?;
        return Ok(JournalSigner::from_seed(seed));
    }
    let text: String = key.extract()?;
    JournalSigner::from_pem(&text).map_err(|error| journal_error(py, &error))
}
