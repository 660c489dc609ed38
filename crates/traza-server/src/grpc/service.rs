//! The service: admission, the message, its spans, the answer.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes};
use http::header::AUTHORIZATION;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::body::Body;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, UnaryService};
use tonic::transport::server::TlsConnectInfo;
use tonic::{Code, Request, Response, Status};
use tower_service::Service;
use traza::otlp;

use super::connection::Peer;
use super::{Caller, Refusal, Sink};

/// The one method.
const EXPORT_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// How long a sender waits that comes while too many calls are under way.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The service, for all connections.
#[derive(Debug)]
pub(super) struct TraceService<S> {
    sink: Arc<S>,
    message_len_max: usize,
    calls: Arc<Semaphore>,
}

impl<S> Clone for TraceService<S> {
    fn clone(&self) -> Self {
        Self {
            sink: Arc::clone(&self.sink),
            message_len_max: self.message_len_max,
            calls: Arc::clone(&self.calls),
        }
    }
}

impl<S: Sink> TraceService<S> {
    /// At most `calls_max` calls are under way at a time.
    pub(super) fn new(sink: Arc<S>, message_len_max: usize, calls_max: usize) -> Self {
        Self {
            sink,
            message_len_max,
            calls: Arc::new(Semaphore::new(calls_max.min(Semaphore::MAX_PERMITS))),
        }
    }

    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        if request.uri().path() != EXPORT_PATH {
            return Status::unimplemented("the only method is TraceService/Export").into_http();
        }
        let answer = match self.admit(&request) {
            Ok((grant, permit)) => self.export(request, grant, permit).await,
            Err(refusal) => Status::from(refusal).into_http(),
        };
        // A call that succeeded says so behind its message, not in the headers.
        let code = Status::from_header_map(answer.headers()).map_or(Code::Ok, |s| s.code());
        self.sink.answered(code);
        answer
    }

    fn admit(
        &self,
        request: &http::Request<Body>,
    ) -> Result<(S::Grant, OwnedSemaphorePermit), Refusal> {
        let grant = self.sink.admit(&caller(request))?;
        let permit =
            Arc::clone(&self.calls)
                .try_acquire_owned()
                .map_err(|_| Refusal::Unavailable {
                    message: "too many calls are under way".to_owned(),
                    retry_after: BUSY_RETRY_AFTER,
                })?;
        Ok((grant, permit))
    }

    async fn export(
        &self,
        request: http::Request<Body>,
        grant: S::Grant,
        permit: OwnedSemaphorePermit,
    ) -> http::Response<Body> {
        let mut export = Export {
            sink: Arc::clone(&self.sink),
            admitted: Some((grant, permit)),
        };
        let answer = Grpc::new(RawCodec)
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Zstd)
            .max_decoding_message_size(self.message_len_max)
            .unary(&mut export, request)
            .await;
        if export.admitted.is_none() {
            return answer;
        }
        // The message did not get through the framing. What that answers by itself makes exporters send it again for ever.
        match Status::from_header_map(answer.headers()) {
            Some(status) => match status.code() {
                Code::OutOfRange | Code::ResourceExhausted => Status::invalid_argument(format!(
                    "the message is longer than {} bytes; send fewer spans at a time",
                    self.message_len_max
                ))
                .into_http(),
                Code::Internal => Status::invalid_argument(status.message()).into_http(),
                _ => answer,
            },
            None => answer,
        }
    }
}

impl<S: Sink> Service<http::Request<Body>> for TraceService<S> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

fn caller(request: &http::Request<Body>) -> Caller<'_> {
    let extensions = request.extensions();
    let peer = extensions.get::<Peer>().copied().or_else(|| {
        let info = extensions.get::<TlsConnectInfo<Peer>>()?;
        Some(*info.get_ref())
    });
    let token = request.headers().get(AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.to_str().ok()?.trim().split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then(|| token.trim_start())
    });
    Caller {
        token,
        peer: peer.and_then(|Peer(address)| address),
    }
}

/// One call.
struct Export<S: Sink> {
    sink: Arc<S>,
    /// Taken when the message is there.
    admitted: Option<(S::Grant, OwnedSemaphorePermit)>,
}

impl<S: Sink> UnaryService<Bytes> for &mut Export<S> {
    type Response = Vec<u8>;
    type Future = BoxFuture<Result<Response<Vec<u8>>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let sink = Arc::clone(&self.sink);
        let admitted = self.admitted.take();
        Box::pin(async move {
            let Some((grant, permit)) = admitted else {
                return Err(Status::internal("a call was answered before"));
            };
            let stored = tokio::task::spawn_blocking(move || {
                // Until the work is done, even if nobody waits for it any more.
                let _permit = permit;
                let spans = otlp::spans_from_protobuf(request.get_ref())
                    .map_err(|error| Refusal::Invalid(error.to_string()))?;
                sink.store(grant, spans)
            });
            match stored.await {
                Ok(Ok(suppressed)) => Ok(Response::new(otlp::response_protobuf(suppressed))),
                Ok(Err(refusal)) => Err(refusal.into()),
                Err(_) => Err(Status::internal(
                    "the call was ended by a fault of the server",
                )),
            }
        })
    }
}

/// Leaves messages as they are.
#[derive(Clone, Copy)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for RawCodec {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&message);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}
