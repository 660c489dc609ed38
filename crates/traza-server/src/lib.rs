//! Serves a store of spans over HTTP and gRPC (`docs/guide/trace-server.md`).
#![forbid(unsafe_code)]

mod api;
mod auth;
pub mod encoding;
pub mod grpc;
mod grpc_sink;
mod http;
pub mod mcp;
mod metrics;
mod openapi;
mod options;
mod otlp;
mod parameters;
mod render;
mod router;
mod server;
mod tail;
mod ui;

pub use auth::{Caller, Scope, Tokens, TokensError};
pub use http::{Tls, TlsError, read_tls};
pub use options::{McpOptions, ServerOptions};
pub use server::{Listeners, Running, StartError, Stopped, start};
