//! What a call over gRPC does: the same as an export request over HTTP.

use std::sync::Arc;
use std::time::{Duration, Instant};

use traza::span::Span;
use traza::store::StoreError;

use crate::api::bind;
use crate::auth::{self, Scope};
use crate::grpc::{Caller, Code, Refusal, Sink};
use crate::http;
use crate::metrics::Class;
use crate::server::Server;

/// When a call that could not be served now may come again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The server as gRPC sees it.
pub(crate) struct GrpcSink(pub(crate) Arc<Server>);

/// What a caller was granted, and when.
pub(crate) struct Grant {
    caller: auth::Caller,
    admitted: Instant,
}

impl Sink for GrpcSink {
    type Grant = Grant;

    fn admit(&self, caller: &Caller<'_>) -> Result<Grant, Refusal> {
        let tokens = &self.0.tokens;
        let found = if tokens.is_open() {
            Some(auth::Caller::operator())
        } else {
            caller.token.and_then(|token| tokens.caller(token))
        };
        let Some(found) = found else {
            self.0.metrics.reject();
            return Err(Refusal::Unauthenticated("unauthorized".to_owned()));
        };
        if found.scope < Scope::ReadWrite {
            self.0.metrics.reject();
            return Err(Refusal::Forbidden("forbidden".to_owned()));
        }
        Ok(Grant {
            caller: found,
            admitted: Instant::now(),
        })
    }

    fn store(&self, grant: Grant, mut spans: Vec<Span>) -> Result<u64, Refusal> {
        let server = &self.0;
        // From the head of the call on: what came in between is mostly the decoding.
        server
            .metrics
            .decoded(spans.len(), grant.admitted.elapsed());
        bind(&mut spans, grant.caller.tenant.as_deref()).map_err(|refusal| refuse(&refusal))?;
        let ingested = server.ingest(spans).map_err(|error: StoreError| {
            let refusal = http::Refusal::from(error);
            refuse(&refusal)
        })?;
        server
            .metrics
            .answered(Class::Ingest, 200, grant.admitted.elapsed());
        Ok(ingested.suppressed as u64)
    }

    fn answered(&self, code: Code) {
        let status = match code {
            // Counted with its time, or by the gate.
            Code::Ok | Code::Unauthenticated | Code::PermissionDenied => return,
            Code::InvalidArgument | Code::Unimplemented | Code::OutOfRange => 400,
            _ => 503,
        };
        log::info!("a call over gRPC ended with {code:?}");
        self.0
            .metrics
            .answered(Class::Ingest, status, Duration::ZERO);
    }
}

/// What HTTP would have answered, as gRPC says it.
fn refuse(refusal: &http::Refusal) -> Refusal {
    let message = refusal.text().to_owned();
    if refusal.status >= 500 {
        Refusal::Unavailable {
            message,
            retry_after: RETRY_AFTER,
        }
    } else {
        Refusal::Invalid(message)
    }
}
