//! Rates: how much of something was done in how much time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Result;
pub(crate) use crate::latency::{Latency, float, quantile};

/// Which clock a rate is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// CPU time of the calling thread: a busy machine does not count.
    ThreadCpu,
    /// Time that passed: for work on several threads.
    Wall,
}

impl Basis {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ThreadCpu => "thread CPU",
            Self::Wall => "wall",
        }
    }

    fn now(self) -> Result<Duration> {
        Ok(Duration::try_from(clock_gettime(match self {
            Self::ThreadCpu => ClockId::ThreadCPUTime,
            Self::Wall => ClockId::Monotonic,
        }))?)
    }

    /// Does `work` and says how many seconds it took.
    pub(crate) fn seconds<T>(self, work: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
        let start = self.now()?;
        let done = work()?;
        Ok((self.now()?.saturating_sub(start).as_secs_f64(), done))
    }
}

/// How much of something was done in how much time.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    pub(crate) name: &'static str,
    pub(crate) basis: Basis,
    /// Bytes of span JSON.
    pub(crate) bytes: u64,
    pub(crate) spans: u64,
    /// The sum over the segments of the median over the rounds.
    pub(crate) seconds: f64,
}

impl Rate {
    pub(crate) fn new(name: &'static str, basis: Basis) -> Self {
        Self {
            name,
            basis,
            bytes: 0,
            spans: 0,
            seconds: 0.0,
        }
    }

    /// Adds what one segment took, once per round.
    pub(crate) fn add(&mut self, bytes: u64, spans: u64, seconds: &[f64]) {
        self.bytes += bytes;
        self.spans += spans;
        self.seconds += quantile(seconds, 1, 2);
    }

    pub(crate) fn megabytes_per_second(&self) -> f64 {
        float(self.bytes) / self.seconds / 1e6
    }

    pub(crate) fn spans_per_second(&self) -> f64 {
        float(self.spans) / self.seconds
    }
}
