//! OTLP over gRPC: `opentelemetry.proto.collector.trace.v1.TraceService/Export`.
//!
//! The messages are read by [`traza::otlp`], as those that come over HTTP are; tonic does the framing, the compression and the
//! connections. Everything runs on threads of its own ([`GrpcServer`]); what blocks does so on others that are meant for it.

mod connection;
mod refusal;
mod server;
mod service;

use std::net::SocketAddr;

use traza::span::Span;

pub use refusal::Refusal;
pub use server::{Greeting, GrpcError, GrpcOptions, GrpcServer, Pem};
pub use tonic::Code;

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'c> {
    /// The token of an `authorization: Bearer …` entry in the metadata.
    pub token: Option<&'c str>,
    /// Where the call comes from.
    pub peer: Option<SocketAddr>,
}

/// What takes the spans.
pub trait Sink: Send + Sync + 'static {
    /// What a caller may do; goes from [`Sink::admit`] to [`Sink::store`].
    type Grant: Send + 'static;

    /// Decides whether a caller may send spans, before the message is read. It must not block.
    ///
    /// # Errors
    /// [`Refusal::Unauthenticated`] or [`Refusal::Forbidden`].
    fn admit(&self, caller: &Caller<'_>) -> Result<Self::Grant, Refusal>;

    /// Stores the spans of one request, all of them or none. It may block. Answers how many were dropped because they are being
    /// erased.
    ///
    /// # Errors
    /// Why nothing is acknowledged.
    fn store(&self, grant: Self::Grant, spans: Vec<Span>) -> Result<u64, Refusal>;

    /// Is told how each call ended, for logs and counters. It must not block.
    fn answered(&self, code: Code);
}
