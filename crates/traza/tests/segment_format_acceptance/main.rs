//! What `docs/formats/traza-segment.md` promises, held against the code.
//!
//! The tables of the format stand here once more, as data, with a decoder that knows only them. Whole segments are
//! taken apart with it and compared with what follows from the spans by plain loops.
// Each module is marked as a test, so that its helpers may unwrap like the tests themselves.

#[cfg(test)]
mod collisions;
#[cfg(test)]
mod contents;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod order;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod queries;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod tables;
