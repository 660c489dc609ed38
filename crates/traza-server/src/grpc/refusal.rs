//! Why a call is refused, and what its sender is told to do about it.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// Why a call is refused. Exporters send again what is [`Refusal::Unavailable`] or [`Refusal::Exhausted`], and drop the spans of
/// every other call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no token, or one that is not known: `UNAUTHENTICATED`.
    #[error("{0}")]
    Unauthenticated(String),
    /// The token does not allow this: `PERMISSION_DENIED`.
    #[error("{0}")]
    Forbidden(String),
    /// The request is wrong, and stays so: `INVALID_ARGUMENT`.
    #[error("{0}")]
    Invalid(String),
    /// The server cannot take it now: `UNAVAILABLE`.
    #[error("{message}")]
    Unavailable {
        /// Why.
        message: String,
        /// When it may be sent again.
        retry_after: Duration,
    },
    /// The sender has had its share for now: `RESOURCE_EXHAUSTED`.
    #[error("{message}")]
    Exhausted {
        /// Why.
        message: String,
        /// When it may be sent again.
        retry_after: Duration,
    },
    /// The server is broken, and sending again will not help: `INTERNAL`.
    #[error("{0}")]
    Failed(String),
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unauthenticated(message) => Self::unauthenticated(message),
            Refusal::Forbidden(message) => Self::permission_denied(message),
            Refusal::Invalid(message) => Self::invalid_argument(message),
            Refusal::Unavailable {
                message,
                retry_after,
            } => later(Code::Unavailable, message, retry_after),
            Refusal::Exhausted {
                message,
                retry_after,
            } => later(Code::ResourceExhausted, message, retry_after),
            Refusal::Failed(message) => Self::internal(message),
        }
    }
}

/// With a `RetryInfo`: without one, exporters drop the spans of an exhausted call.
fn later(code: Code, message: String, retry_after: Duration) -> Status {
    let details = ErrorDetails::with_retry_info(Some(retry_after));
    Status::with_error_details(code, message, details)
}
