//! The logs of a store: judgments, datasets with their experiments, and erasures, as JSON lines
//! (`docs/formats/traza-store-logs.md`).
//!
//! One engine, [`file::LineLog`], appends whole lines durably and heals what a crash tore; the other modules say what
//! the lines mean. Every change returns only when its bytes are durable, and one that fails leaves memory as it was. Time
//! is a parameter.

pub mod annotation;
pub mod eval;
pub mod file;
mod members;
pub mod tombstone;
