//! What the simulated disk promises to the tests that rely on it.
// Each module is marked as a test, so that its helpers may unwrap like the tests themselves.

#[cfg(test)]
mod crash;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod posix;
#[cfg(test)]
mod sweeps;
#[cfg(test)]
mod tidy;
