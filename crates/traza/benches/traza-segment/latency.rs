//! How long single calls take.

use std::time::Instant;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::Result;

/// How long single calls took.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    pub(crate) name: &'static str,
    /// By the wall clock.
    pub(crate) micros: Vec<f64>,
    /// Of the calling thread's CPU time: what other programs do at the same time hardly counts there.
    cpu_micros: Vec<f64>,
    /// What the calls gave, all together: spans, ranges, bytes.
    pub(crate) results: u64,
}

impl Latency {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            micros: Vec::new(),
            cpu_micros: Vec::new(),
            results: 0,
        }
    }

    /// Makes one call; it says how much it gave.
    pub(crate) fn call(&mut self, work: impl FnOnce() -> Result<u64>) -> Result<()> {
        let cpu_start = cpu_seconds();
        let start = Instant::now();
        let results = work()?;
        self.micros.push(start.elapsed().as_secs_f64() * 1e6);
        self.cpu_micros.push((cpu_seconds() - cpu_start) * 1e6);
        self.results += results;
        Ok(())
    }

    /// p50 of the thread's CPU time.
    pub(crate) fn cpu_p50(&self) -> f64 {
        quantile(&self.cpu_micros, 1, 2)
    }

    /// p50, p99 and the longest by the wall clock.
    pub(crate) fn quantiles(&self) -> [f64; 3] {
        [(1, 2), (99, 100), (1, 1)].map(|(part, of)| quantile(&self.micros, part, of))
    }
}

/// CPU time of this thread.
#[expect(
    clippy::cast_precision_loss,
    reason = "a benchmark lasts far less than 2^53 nanoseconds"
)]
fn cpu_seconds() -> f64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    tv_sec as f64 + tv_nsec as f64 / 1e9
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
