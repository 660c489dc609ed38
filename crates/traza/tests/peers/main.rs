//! Files that released peers wrote are read as they meant them.
//!
//! The fixtures are one set of inputs sealed by releases 0.23 (version 6), 0.24 (version 7) and 0.26
//! (version 8, the same bytes as those of 0.25).

#[cfg(test)]
mod blobs;
#[cfg(test)]
mod segments;
