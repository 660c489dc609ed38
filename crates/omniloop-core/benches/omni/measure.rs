//! Clocks, samples and the statistics taken of them.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Result;

/// Which clock a figure is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// CPU time of the calling thread, system calls included: a busy machine does not count.
    ThreadCpu,
    /// CPU time of all threads of this process.
    ProcessCpu,
    /// Time that passed: for work on several threads, and for waiting for a disk.
    Wall,
}

impl Basis {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ThreadCpu => "thread CPU",
            Self::ProcessCpu => "process CPU",
            Self::Wall => "wall",
        }
    }
}

/// What each clock says about one piece of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    thread_cpu: Duration,
    process_cpu: Duration,
    wall: Duration,
}

impl Times {
    pub(crate) fn now() -> Result<Self> {
        let read = |id| Duration::try_from(clock_gettime(id));
        Ok(Self {
            wall: read(ClockId::Monotonic)?,
            process_cpu: read(ClockId::ProcessCPUTime)?,
            thread_cpu: read(ClockId::ThreadCPUTime)?,
        })
    }

    pub(crate) fn since(self, start: Self) -> Self {
        Self {
            thread_cpu: self.thread_cpu.saturating_sub(start.thread_cpu),
            process_cpu: self.process_cpu.saturating_sub(start.process_cpu),
            wall: self.wall.saturating_sub(start.wall),
        }
    }

    pub(crate) fn seconds(&self, basis: Basis) -> f64 {
        match basis {
            Basis::ThreadCpu => self.thread_cpu,
            Basis::ProcessCpu => self.process_cpu,
            Basis::Wall => self.wall,
        }
        .as_secs_f64()
    }
}

/// Does `work` and says how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(Times, T)> {
    let start = Times::now()?;
    let done = work()?;
    Ok((Times::now()?.since(start), done))
}

/// One repetition of one measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    /// The clock that the reported rate is taken from.
    pub(crate) basis: Basis,
    pub(crate) times: Times,
    pub(crate) records: u64,
    /// Bytes of those records, as the `MB/s` count them.
    pub(crate) bytes: u64,
}

impl Sample {
    /// Records per second by one clock.
    pub(crate) fn rate(&self, basis: Basis) -> f64 {
        float(self.records) / self.times.seconds(basis)
    }
}

/// Something that is measured once per round.
pub(crate) type Side<'a> = Box<dyn FnMut() -> Result<Vec<Sample>> + 'a>;

/// The middle value; of an even number the upper one of the two in the middle. NaN without any.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 1, 2)
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

/// A stream of numbers that is the same in every run: xorshift64.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
