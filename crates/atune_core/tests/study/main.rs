//! Studies as people use them.

mod asking;
mod enqueueing;
mod opening;
mod optimizing;
mod resuming;
mod samplers;
mod support;
