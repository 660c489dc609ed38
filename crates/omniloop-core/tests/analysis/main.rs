//! Questions about runs: every answer is compared with one that a naive reader of the same records gives,
//! and damage is an error, never a shorter answer.
// Each module is marked as a test, so that its helpers may unwrap like the tests themselves.

#[cfg(test)]
mod cause;
#[cfg(test)]
mod divergence;
#[cfg(test)]
mod effects;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod support;
