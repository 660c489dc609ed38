//! A request that is not answered as it was asked.

use traza::json::{Object, Value};
use traza::store::StoreError;

/// An answer that is an error: the status, and what the body says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// The member `error`, and what stands beside it.
    pub(crate) body: Object,
    /// True when the connection does not go on.
    pub(crate) closes: bool,
    /// A header field of its own.
    pub(crate) field: Option<(&'static str, &'static str)>,
    pub(crate) cause: Cause,
}

/// What the counters say of a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cause {
    #[default]
    Other,
    /// The gate of authentication.
    Gate,
    /// The question took too long.
    Deadline,
}

impl Refusal {
    pub(crate) fn new(status: u16, error: impl Into<String>) -> Self {
        Self {
            status,
            body: Object::from([("error", Value::from(error.into()))]),
            closes: false,
            field: None,
            cause: Cause::Other,
        }
    }

    pub(crate) fn bad_request(error: impl Into<String>) -> Self {
        Self::new(400, error)
    }

    pub(crate) fn not_found(error: impl Into<String>) -> Self {
        Self::new(404, error)
    }

    pub(crate) fn forbidden() -> Self {
        Self::new(403, "forbidden")
    }

    pub(crate) fn other_tenant() -> Self {
        Self::new(403, "this credential is bound to a different tenant")
    }

    /// The store cannot be asked now.
    pub(crate) fn unavailable(error: impl Into<String>) -> Self {
        Self::new(503, error)
    }

    /// What went wrong.
    pub(crate) fn text(&self) -> &str {
        let text = self.body.get("error").and_then(Value::as_str);
        text.unwrap_or_default()
    }

    pub(crate) fn closing(mut self) -> Self {
        self.closes = true;
        self
    }

    pub(crate) fn with(mut self, member: &str, value: Value) -> Self {
        self.body.insert(member.to_owned(), value);
        self
    }
}

/// The text of an error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        use traza::logs::annotation::AppendError;
        use traza::logs::eval::{EvalError, PayloadRefusal};
        use traza::logs::tombstone::EraseError;
        match error {
            StoreError::Deadline { limit_ms } => {
                let text = format!(
                    "query deadline exceeded: no answer within {limit_ms} ms; narrow it by time, service or attribute"
                );
                Self {
                    cause: Cause::Deadline,
                    ..Self::bad_request(text)
                }
            }
            StoreError::TooManyToSort { max } => Self::bad_request(format!(
                "query too broad: more than {max} spans match, too many to sort; narrow it by time, service or attribute"
            )),
            StoreError::Span { index, source } => {
                use traza::span::SpanFault;
                Self::bad_request(match source {
                    SpanFault::EmptyTraceId => format!("span {index}: trace_id is empty"),
                    SpanFault::EmptySpanId => format!("span {index}: span_id is empty"),
                    SpanFault::Tenant { .. } => {
                        "tenant must be lowercase [a-z0-9][a-z0-9._-], at most 64 bytes".to_owned()
                    }
                    SpanFault::Links { .. } => format!("span {index}: too many links"),
                    other => format!("span {index}: {other}"),
                })
            }
            StoreError::Eval(
                error @ (EvalError::ParentTombstoned(_)
                | EvalError::Tombstoned(_)
                | EvalError::Payload {
                    refusal:
                        PayloadRefusal::PendingErasure
                        | PayloadRefusal::Missing
                        | PayloadRefusal::Unreachable,
                    ..
                }),
            ) => Self::new(409, error.to_string()),
            error @ StoreError::ErasurePending { .. } => Self::new(409, error.to_string()),
            StoreError::Annotation(AppendError::Log(error))
            | StoreError::Eval(EvalError::Log(error))
            | StoreError::Erase(EraseError::Log(error)) => {
                Self::unavailable(format!("storage I/O error: {}", chain(&error)))
            }
            error @ (StoreError::Annotation(_)
            | StoreError::Eval(_)
            | StoreError::Erase(_)
            | StoreError::TooLarge { .. }
            | StoreError::Invalid { .. }) => Self::bad_request(error.to_string()),
            error @ StoreError::NoErasure { .. } => Self::not_found(error.to_string()),
            error => Self::unavailable(format!("storage I/O error: {}", chain(&error))),
        }
    }
}
