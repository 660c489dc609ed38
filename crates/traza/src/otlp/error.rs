//! Why an export request is refused.

use std::fmt::{self, Display};

use super::protobuf::Fault;
use crate::json::JsonError;

/// The most bytes that are copied from resources and scopes into spans, for one request. A request that says once what
/// every span repeats could otherwise grow a thousandfold.
pub const COPIED_LEN_MAX: u64 = 64 << 20;

/// Why a request is refused, as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// It is not JSON.
    #[error("invalid OTLP request: {0}")]
    Json(#[from] JsonError),
    /// A field is missing, or is not what it has to be.
    #[error("invalid OTLP request: {path} {what}")]
    Field {
        /// Where it is, such as `resourceSpans[0].scopeSpans[1].spans[2].traceId`.
        path: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Resources and scopes would be repeated too often; see [`COPIED_LEN_MAX`].
    #[error(
        "invalid OTLP request: its resources and scopes take more than {COPIED_LEN_MAX} bytes once they are repeated in \
         every span; send it in parts"
    )]
    TooLarge,
    /// It is not the protobuf message, or holds what no span can be made of.
    #[error("protobuf decode error: {fault} at byte {offset}{}", InPath(path))]
    Protobuf {
        /// What is wrong.
        fault: Fault,
        /// Where, in bytes from the start of the request.
        offset: usize,
        /// In which message or field, such as `resourceSpans[0].scopeSpans[1].spans[2].traceId`; empty for the request
        /// itself.
        path: String,
    },
}

/// What a decoder answers with.
pub(super) type Result<T> = std::result::Result<T, OtlpError>;

impl OtlpError {
    /// Says that the error is inside `place`.
    pub(super) fn inside(mut self, place: impl Display) -> Self {
        if let Self::Field { path, .. } | Self::Protobuf { path, .. } = &mut self {
            *path = match path.as_str() {
                "" => place.to_string(),
                path => format!("{place}.{path}"),
            };
        }
        self
    }
}

struct InPath<'p>(&'p str);

impl Display for InPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => Ok(()),
            path => write!(f, " in {path}"),
        }
    }
}
