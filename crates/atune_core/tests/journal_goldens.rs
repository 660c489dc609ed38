//! The journal of a whole study, byte for byte.

#[cfg(test)]
#[path = "golden/study.rs"]
mod study;
