//! Attending a recorded loop or command while it runs: halting it, stepping it, changing its parameters,
//! watching its variables. Everything that is done so is in the record.
//!
//! [`Control`] is the state and knows no socket; [`Server`] is the socket before it, and [`Client`] the
//! other end. The protocol is described in `docs/formats/omni-control.md`.
#![forbid(unsafe_code)]

mod client;
mod control;
mod error;
mod param;
mod protocol;
mod server;
mod socket;
mod watch;

pub use client::{Client, ClientError};
pub use control::{Change, Control, HaltPolicy, Order, Standing, Turn};
pub use error::ServerError;
pub use param::Param;
pub use protocol::{Command, LINE_LEN_MAX, Peer, Refusal, RefusalKind, Request};
pub use server::Server;
pub use watch::{Condition, Operator, WatchPolicy};
