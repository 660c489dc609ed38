//! The endpoint for agents: the Model Context Protocol over the store, without sockets.
//!
//! [`handle()`] answers one message; whoever has the socket checks the `Origin` with [`origin_allowed`] and the version header
//! with [`is_served`] before, and turns the [`Reply`] into a response. [`bridge()`] is for clients that speak over standard input.
//!
//! What the store holds was written by programs that are observed, and by whoever talks to them. In answers it stands inside
//! a marked block only, which it cannot leave, whatever it says; and no result is longer than its limit.

mod args;
mod bridge;
mod catalog;
mod clean;
mod context;
pub mod diagnosis;
mod error;
mod format;
mod handle;
mod options;
mod origin;
mod overview;
mod prompts;
mod report;
mod resources;
mod rpc;
mod schema;
mod spans;
mod time;
mod tools;
mod tree;
mod version;

pub use bridge::{BridgeError, Endpoint, bridge};
pub use context::{Caller, Context};
pub use handle::handle;
pub use options::{Options, RESULT_LEN_MIN, ResultLimitTooSmall};
pub use origin::{AllowedOrigin, NotAnOrigin, origin_allowed};
pub use rpc::Reply;
pub use tools::payload::holds_payload;
pub use version::{PROTOCOL_VERSIONS, is_served};
