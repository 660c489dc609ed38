//! HTTP/1 as the wire contract fixes it (`docs/decisions/0005-http-connections.md`): heads and bodies with their limits, answers,
//! connections and the listeners they come from.

mod body;
mod connection;
mod head;
mod hello;
mod listener;
mod refusal;
mod response;
mod stream;
mod tls;

pub(crate) use body::{BODIES_LEN_MAX, LARGE_LEN, Memory};
pub(crate) use connection::{Answer, Request};
pub(crate) use head::{BODY_LEN_MAX, Head};
pub(crate) use listener::{Connections, Listening};
pub(crate) use refusal::{Cause, Refusal, chain};
pub(crate) use response::{Chunks, JSON, Response};
pub use tls::{Tls, TlsError, read_tls};
