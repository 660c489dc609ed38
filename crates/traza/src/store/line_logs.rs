//! The three logs of a store, open.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use durable::Fs;

use super::error::Result;
use crate::logs::annotation::{self, Annotations};
use crate::logs::eval::{self, Evals};
use crate::logs::file::Healed;
use crate::logs::tombstone::{self, Tombstones};

/// What a crash had left at the ends of the logs, and was put right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HealedLogs {
    /// Of `annotations.jsonl`.
    pub annotations: Option<Healed>,
    /// Of `evals.jsonl`.
    pub evals: Option<Healed>,
    /// Of `tombstones.jsonl`.
    pub tombstones: Option<Healed>,
}

/// The logs. Each lock is held while its log is synced: a reader must not see what may still fail.
#[derive(Debug)]
pub(super) struct LineLogs {
    annotations: Mutex<Annotations>,
    evals: Mutex<Evals>,
    tombstones: Mutex<Tombstones>,
}

impl LineLogs {
    pub(super) fn open(fs: &Arc<dyn Fs>, dir: &Path) -> Result<(Self, HealedLogs)> {
        let place = |name: &str| (Arc::clone(fs), dir.join(name));
        let (log_fs, path) = place(annotation::FILE_NAME);
        let (annotations, healed_annotations) = Annotations::open(log_fs, path)?;
        let (log_fs, path) = place(eval::FILE_NAME);
        let (evals, healed_evals) = Evals::open(log_fs, path)?;
        let (log_fs, path) = place(tombstone::FILE_NAME);
        let (tombstones, healed_tombstones) = Tombstones::open(log_fs, path)?;
        let logs = Self {
            annotations: Mutex::new(annotations),
            evals: Mutex::new(evals),
            tombstones: Mutex::new(tombstones),
        };
        let healed = HealedLogs {
            annotations: healed_annotations,
            evals: healed_evals,
            tombstones: healed_tombstones,
        };
        Ok((logs, healed))
    }

    /// The logs of a store that is only read.
    pub(super) fn read_only(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Self> {
        let place = |name: &str| (Arc::clone(fs), dir.join(name));
        let (log_fs, path) = place(annotation::FILE_NAME);
        let annotations = Mutex::new(Annotations::read_only(log_fs, path)?);
        let (log_fs, path) = place(eval::FILE_NAME);
        let evals = Mutex::new(Evals::read_only(log_fs, path)?);
        let (log_fs, path) = place(tombstone::FILE_NAME);
        let tombstones = Mutex::new(Tombstones::read_only(log_fs, path)?);
        Ok(Self {
            annotations,
            evals,
            tombstones,
        })
    }

    /// How many bytes of the log of this name are acknowledged; `None` for a name that no log has.
    pub(super) fn len_of(&self, name: &str) -> Option<u64> {
        match name {
            annotation::FILE_NAME => Some(self.annotations().log().len()),
            eval::FILE_NAME => Some(self.evals().log().len()),
            tombstone::FILE_NAME => Some(self.tombstones().log().len()),
            _ => None,
        }
    }

    // A panic in between leaves what the log says or what it said before: memory changes last.

    pub(super) fn annotations(&self) -> MutexGuard<'_, Annotations> {
        self.annotations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn evals(&self) -> MutexGuard<'_, Evals> {
        self.evals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tombstones(&self) -> MutexGuard<'_, Tombstones> {
        self.tombstones
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
