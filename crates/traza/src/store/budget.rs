//! How long a question may take.

use std::time::Duration;

use durable::Clock;

use super::error::{Result, StoreError};

/// So many spans are looked at between two looks at the clock.
const CLOCK_EVERY: u64 = 256;

/// What one question may still use, and what it has used.
#[derive(Debug)]
pub(super) struct Budget<'c> {
    clock: &'c dyn Clock,
    started_ns: u64,
    limit: Option<Duration>,
    examined: u64,
}

impl<'c> Budget<'c> {
    /// For a question that begins now.
    pub(super) fn new(clock: &'c dyn Clock, limit: Option<Duration>) -> Self {
        Self {
            clock,
            started_ns: clock.mono_ns(),
            limit,
            examined: 0,
        }
    }

    /// Counts a span that is looked at.
    pub(super) fn examine(&mut self) -> Result<()> {
        self.examined += 1;
        if self.examined.is_multiple_of(CLOCK_EVERY) {
            self.check()?;
        }
        Ok(())
    }

    /// Fails when the time is over.
    pub(super) fn check(&self) -> Result<()> {
        let Some(limit) = self.limit else {
            return Ok(());
        };
        if u128::from(self.elapsed_ns()) <= limit.as_nanos() {
            return Ok(());
        }
        Err(StoreError::Deadline {
            limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Nanoseconds so far.
    pub(super) fn elapsed_ns(&self) -> u64 {
        self.clock.mono_ns().saturating_sub(self.started_ns)
    }

    /// How many spans were looked at.
    pub(super) fn examined(&self) -> u64 {
        self.examined
    }
}
