//! The conformance vectors of `docs/formats/vectors`: what writers of other hands are held against.
//!
//! Promise: they are what our writers give today, by a clock that the test moves, and our readers say of every case what the
//! vector says. Oracle: the independent readers in `examples/readers`, which `python/tests/test_vectors.py` holds against
//! the same files. `DAYBOOK_BLESS=1` rewrites them, for review as a diff.
// Each module is marked as a test, so that its helpers may unwrap like the tests themselves.

#[cfg(test)]
mod atj;
#[cfg(test)]
mod case;
#[cfg(test)]
mod omni;
#[cfg(test)]
mod traza;
