//! Serves a store of spans over HTTP and gRPC (`docs/guide/trace-server.md`).
#![forbid(unsafe_code)]

mod api;
mod auth;
pub mod encoding;
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
pub use http::{TlsError, tls_config};
pub use options::{McpOptions, ServerOptions};
pub use rustls::ServerConfig as TlsConfig;
pub use server::{Bind, Running, Stopped, start};
