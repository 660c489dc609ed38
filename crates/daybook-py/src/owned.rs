//! What belongs to the process that made it.

use std::sync::{Mutex, PoisonError};

/// A value that a fork of the process must leave alone, and that can be given up.
///
/// A forked child has a copy of everything but the threads: it would write the same buffer into the
/// same file a second time, or wait for a thread that it does not have. Here it gets an error, and its
/// copy is never dropped.
pub(crate) struct Owned<T> {
    pid: u32,
    value: Mutex<Option<T>>,
}

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It was given up.
    Closed,
    /// It belongs to the process that this one was forked from.
    Forked,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            pid: std::process::id(),
            value: Mutex::new(Some(value)),
        }
    }

    /// Works with the value.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Result<R, Gone> {
        self.is_ours()?;
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        value.as_mut().map(work).ok_or(Gone::Closed)
    }

    /// Gives the value up.
    pub(crate) fn take(&self) -> Result<T, Gone> {
        self.is_ours()?;
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        value.take().ok_or(Gone::Closed)
    }

    /// Before the lock is touched: in a forked child, a thread that no longer exists may hold it.
    fn is_ours(&self) -> Result<(), Gone> {
        if std::process::id() == self.pid {
            Ok(())
        } else {
            Err(Gone::Forked)
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.is_ours().is_err() {
            let value = self.value.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(value.take());
        }
    }
}
