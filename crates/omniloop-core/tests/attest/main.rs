//! The attestation beside a run. What is promised: a note by a trusted key proves every record up to
//! the last leaf that it covers, and says so only then. How it is attacked: cuts, removals, edits
//! and rewrites of the journal, every bit of the side files, crashes at every call. The oracles: the
//! journal's own bytes, other implementations of the same note and tree, and the check itself.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of tests fail by panicking, as the tests do"
)]

mod crash;
mod foreign;
mod life;
mod support;
mod tamper;
