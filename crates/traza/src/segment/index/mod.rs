//! The bodies of the index sections: for each one what writes it and what reads it.

pub(crate) mod attribute;
pub(crate) mod content;
pub(crate) mod offsets;
pub(crate) mod trace;
