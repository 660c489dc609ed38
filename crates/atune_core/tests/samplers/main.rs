//! Samplers that learn, through the studies that use them.

mod learning;
mod resuming;
mod support;
