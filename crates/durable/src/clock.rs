//! Time as a parameter, so that bytes are reproducible and tests never sleep.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::time::{ClockId, clock_gettime};

/// A source of the two times that records carry.
pub trait Clock: Send + Sync + Debug {
    /// Nanoseconds since this clock was made. Never goes back.
    fn mono_ns(&self) -> u64;
    /// Nanoseconds since the Unix epoch. May step in either direction.
    fn wall_ns(&self) -> u64;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start_ns: u64,
}

impl SystemClock {
    /// Starts the monotonic clock at zero.
    pub fn start() -> Self {
        Self {
            start_ns: monotonic_ns(),
        }
    }
}

/// The system's monotonic clock. Read directly: a record is stamped with every reading, and the way
/// over [`std::time::Instant`] and back to nanoseconds costs as much again.
#[inline]
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let [seconds, nanos] = [now.tv_sec, now.tv_nsec].map(|n| u64::try_from(n).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

impl Clock for SystemClock {
    #[inline]
    fn mono_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.start_ns)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that others are handed"
    )]
    fn wall_ns(&self) -> u64 {
        // Before 1970 there is nothing sensible to store; 0 says so.
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A clock that moves only when told: by [`ManualClock::advance`], and by a fixed step at each
/// reading of the monotonic time. All in nanoseconds.
#[derive(Debug)]
pub struct ManualClock {
    mono: AtomicU64,
    wall_start: u64,
    step: u64,
}

impl ManualClock {
    /// A clock whose wall time starts at `wall_start_ns` and whose every monotonic reading is
    /// `step_ns` after the one before.
    pub fn new(wall_start_ns: u64, step_ns: u64) -> Self {
        Self {
            mono: AtomicU64::new(0),
            wall_start: wall_start_ns,
            step: step_ns,
        }
    }

    /// Moves both times forward by `ns`.
    pub fn advance(&self, ns: u64) {
        self.mono.fetch_add(ns, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn mono_ns(&self) -> u64 {
        self.mono.fetch_add(self.step, Ordering::SeqCst)
    }

    fn wall_ns(&self) -> u64 {
        self.wall_start + self.mono.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_by_its_step_and_when_told() {
        let clock = ManualClock::new(1_000, 5);
        assert_eq!((clock.mono_ns(), clock.mono_ns()), (0, 5));
        assert_eq!(clock.wall_ns(), 1_010);
        clock.advance(100);
        assert_eq!(clock.mono_ns(), 110);
    }

    #[test]
    fn the_system_clock_never_goes_back() {
        let clock = SystemClock::start();
        let first = clock.mono_ns();
        assert!(clock.mono_ns() >= first);
        assert!(clock.wall_ns() > 1_600_000_000_000_000_000);
    }
}
