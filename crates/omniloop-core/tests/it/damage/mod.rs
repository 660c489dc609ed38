//! Promised: no change to a finished journal goes unnoticed, and no damage makes a reader invent a
//! record. Reading stops at the damage or names it; it never panics and never reserves memory that
//! the file does not justify.
//!
//! Attacked by sweeps (`sweep`): every length, every bit of every byte; by forgery (`forged`): files
//! made to mislead, with chains and checksums that fit; and by what stands at a path that is no sound
//! file at all (`places`).
//!
//! The oracle is the file as it was written: what is read must be the beginning of that, and the
//! verdict on anything else must not be `intact`. The bytes that nothing in a file covers are named by
//! the verifier itself, and the sweep insists that it names exactly those.

mod forged;
mod index;
mod places;
mod sweep;
