//! A damaged header or index is an error that names the section, never a shorter answer.
//!
//! A small segment is damaged in every way: each bit of header and metadata flipped; lengths, counts, places
//! and lists forged behind fresh checksums; bytes changed while the segment is open. The oracle is what plain
//! loops over the input records answer.
// Each module is marked as a test, so that its helpers may unwrap like the tests themselves.

#[cfg(test)]
mod after_open;
#[cfg(test)]
mod answers;
#[cfg(test)]
mod bodies;
#[cfg(test)]
mod content;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod corrupt_stores;
#[cfg(test)]
mod flips;
#[cfg(test)]
mod forge;
#[cfg(test)]
mod fuzz_corpus;
#[cfg(test)]
mod geometry;
#[cfg(test)]
mod legacy;
#[cfg(test)]
mod memory_file;
#[cfg(test)]
mod ranges;
#[cfg(test)]
mod verdicts;
