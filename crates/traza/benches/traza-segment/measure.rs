//! Clocks and statistics.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Result;

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

/// How long single calls took, by the wall clock.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    pub(crate) name: &'static str,
    pub(crate) micros: Vec<f64>,
    /// What the calls gave, all together: spans, ranges, bytes.
    pub(crate) results: u64,
}

impl Latency {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            micros: Vec::new(),
            results: 0,
        }
    }

    /// Makes one call; it says how much it gave.
    pub(crate) fn call(&mut self, work: impl FnOnce() -> Result<u64>) -> Result<()> {
        let start = Instant::now();
        let results = work()?;
        self.micros.push(start.elapsed().as_secs_f64() * 1e6);
        self.results += results;
        Ok(())
    }

    /// p50, p99 and the longest.
    pub(crate) fn quantiles(&self) -> [f64; 3] {
        [(1, 2), (99, 100), (1, 1)].map(|(part, of)| quantile(&self.micros, part, of))
    }
}

/// The value below which `part` of `of` equal parts of the values lie. NaN without any.
pub(crate) fn quantile(values: &[f64], part: usize, of: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() * part / of).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// A count as a number to calculate with.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark are far below 2^53"
)]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}
