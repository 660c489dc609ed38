//! Studies as people use them.

mod asking;
mod support;
