//! Why erasures are still pending: for those who wait for them, also in another process.
//!
//! The note beside the store is a convenience. It is written and read as well as it goes, and nothing depends on it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use durable::{Fs, publish, read_all};
use serde::{Deserialize, Serialize};

/// Other releases ignore the name.
const FILE_NAME: &str = ".erasures-failed.json";
const LEN_MAX: u64 = 1 << 20;

/// An erasure whose last attempt failed. It stays pending, and is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureFailure {
    /// Which erasure.
    pub id: u64,
    /// When it failed, in nanoseconds since the Unix epoch.
    pub failed_unix_ns: u64,
    /// Why: the error and its causes.
    pub reason: String,
}

/// The failures of the erasures that are pending.
#[derive(Debug)]
pub(in crate::store) struct Failures {
    path: PathBuf,
    known: Mutex<Vec<ErasureFailure>>,
}

impl Failures {
    /// What is noted in the folder of a store.
    pub(in crate::store) fn read(fs: &dyn Fs, dir: &Path) -> Self {
        let path = dir.join(FILE_NAME);
        let noted = read_all(fs, &path, LEN_MAX).ok();
        let known = noted.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self {
            path,
            known: Mutex::new(known.unwrap_or_default()),
        }
    }

    fn known(&self) -> MutexGuard<'_, Vec<ErasureFailure>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of erasures that `is_pending` says are pending, by number.
    pub(super) fn list(&self, is_pending: impl Fn(u64) -> bool) -> Vec<ErasureFailure> {
        let known = self.known();
        known
            .iter()
            .filter(|each| is_pending(each.id))
            .cloned()
            .collect()
    }

    /// These are all there are now.
    pub(super) fn set(&self, fs: &dyn Fs, failures: Vec<ErasureFailure>) {
        let mut known = self.known();
        if *known == failures {
            return;
        }
        if failures.is_empty() {
            fs.remove_file(&self.path).ok();
        } else if let Ok(bytes) = serde_json::to_vec_pretty(&failures) {
            publish(fs, &self.path, &bytes).ok();
        }
        *known = failures;
    }
}

/// An error and its causes.
pub(super) fn reason(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
