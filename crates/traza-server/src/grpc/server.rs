//! The threads of the service, and how connections get to it.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Server, ServerTlsConfig};
use tonic::transport::{self, Identity};

use super::Sink;
use super::connection::Connection;
use super::service::TraceService;
use crate::encoding::BODY_LEN_MAX;

/// So many new connections wait for their first poll.
const CONNECTIONS_WAITING: usize = 64;
/// A listener that cannot accept, for want of file descriptors for example, pauses for so long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A certificate chain and its key, for TLS.
#[derive(Clone)]
pub struct Pem {
    /// The chain, the server's own certificate first.
    pub certificate: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
}

/// What was read already from a connection that somebody else has accepted; empty when it was only peeked at.
#[derive(Debug)]
pub enum Greeting {
    /// The preface `PRI * HTTP/2.0` and maybe more.
    Plain(Vec<u8>),
    /// The first message of a TLS client and maybe more.
    Tls(Vec<u8>),
}

/// How the service works.
#[derive(Clone)]
#[non_exhaustive]
pub struct GrpcOptions {
    /// The longest message in bytes, after decompression too.
    pub message_len_max: usize,
    /// So many calls may be under way, each of which may hold a message; more are told to come back.
    pub calls_max: usize,
    /// So many connections may be open; more are closed at once.
    pub connections_max: usize,
    /// How long a call may take from its headers to its answer.
    pub call_time_max: Duration,
    /// A connection that is silent for so long is asked whether it is there, and closed if it does not say so.
    pub keepalive: Duration,
    /// TLS, for accepted connections and for adopted ones that begin with it.
    pub tls: Option<Pem>,
}

impl Default for GrpcOptions {
    fn default() -> Self {
        Self {
            message_len_max: BODY_LEN_MAX,
            calls_max: 64,
            connections_max: 1024,
            call_time_max: Duration::from_mins(1),
            keepalive: Duration::from_secs(30),
            tls: None,
        }
    }
}

/// Why the service does not start or take a connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrpcError {
    /// The operating system refused something.
    #[error("cannot {op}")]
    Io {
        /// What.
        op: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("cannot use the certificate and its key for gRPC")]
    Tls {
        /// The cause.
        source: transport::Error,
    },
    /// The connection is encrypted, and there is nothing to decrypt it with.
    #[error("a gRPC connection is encrypted, but the service has no certificate")]
    NoCertificate,
    /// There are as many connections as there may be.
    #[error("{max} gRPC connections are open, which is the limit")]
    TooManyConnections {
        /// The limit.
        max: usize,
    },
    /// The service is ending.
    #[error("the gRPC service is ending")]
    Ending,
}

/// A running service.
pub struct GrpcServer {
    runtime: Runtime,
    serving: Vec<JoinHandle<Result<(), transport::Error>>>,
    /// Where connections go that speak as the listeners do.
    accepted: mpsc::Sender<io::Result<Connection>>,
    /// Where plain ones go whatever the listeners speak.
    adopted: mpsc::Sender<io::Result<Connection>>,
    has_tls: bool,
    door: Door,
    stop: watch::Sender<bool>,
}

/// What every connection passes.
#[derive(Clone)]
struct Door {
    places: Arc<Semaphore>,
    connections_max: usize,
    refused: Arc<AtomicU64>,
}

impl GrpcServer {
    /// Starts the service on sockets that listen already; none is fine when connections are only to be adopted.
    ///
    /// # Errors
    /// [`GrpcError::Io`] and [`GrpcError::Tls`].
    pub fn start<S: Sink>(
        sink: Arc<S>,
        options: &GrpcOptions,
        listeners: Vec<TcpListener>,
    ) -> Result<Self, GrpcError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            // Calls that wait for the disk together share its syncs.
            .max_blocking_threads(options.calls_max.clamp(1, 512))
            .thread_name("grpc")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|source| GrpcError::Io {
                op: "start the threads of the gRPC service",
                source,
            })?;
        let plain = Server::builder()
            .timeout(options.call_time_max)
            .http2_keepalive_interval(Some(options.keepalive))
            .http2_keepalive_timeout(Some(options.keepalive));
        let outer = match &options.tls {
            None => plain.clone(),
            Some(pem) => {
                let identity = Identity::from_pem(&pem.certificate, &pem.key);
                let config = ServerTlsConfig::new().identity(identity);
                plain
                    .clone()
                    .tls_config(config)
                    .map_err(|source| GrpcError::Tls { source })?
            }
        };
        let service = TraceService::new(sink, options.message_len_max, options.calls_max);
        let door = Door {
            places: Arc::new(Semaphore::new(
                options.connections_max.min(Semaphore::MAX_PERMITS),
            )),
            connections_max: options.connections_max,
            refused: Arc::default(),
        };
        let (stop, stopped) = watch::channel(false);
        let (accepted, incoming) = mpsc::channel(CONNECTIONS_WAITING);
        {
            // Tokio registers sockets with the runtime around it.
            let _inside = runtime.enter();
            for listener in listeners {
                let listener = listener
                    .set_nonblocking(true)
                    .and_then(|()| tokio::net::TcpListener::from_std(listener))
                    .map_err(|source| GrpcError::Io {
                        op: "listen for gRPC",
                        source,
                    })?;
                runtime.spawn(accept(
                    listener,
                    door.clone(),
                    accepted.clone(),
                    stopped.clone(),
                ));
            }
        }
        let (adopted, incoming_adopted) = mpsc::channel(CONNECTIONS_WAITING);
        let serve = |server: Server, incoming| {
            let service = service.clone();
            let end = ended(stopped.clone());
            let incoming = ReceiverStream::new(incoming);
            runtime.spawn(server.serve_with_incoming_shutdown(service, incoming, end))
        };
        let serving = vec![serve(outer, incoming), serve(plain, incoming_adopted)];
        Ok(Self {
            runtime,
            serving,
            accepted,
            adopted,
            has_tls: options.tls.is_some(),
            door,
            stop,
        })
    }

    /// Takes over a connection that somebody else has accepted and that speaks HTTP/2.
    ///
    /// # Errors
    /// [`GrpcError`]; the connection is closed then.
    pub fn adopt(&self, stream: TcpStream, greeting: Greeting) -> Result<(), GrpcError> {
        let (to, read_ahead) = match greeting {
            Greeting::Plain(bytes) => (&self.adopted, bytes),
            Greeting::Tls(bytes) if self.has_tls => (&self.accepted, bytes),
            Greeting::Tls(_) => return Err(GrpcError::NoCertificate),
        };
        let op = "adopt a connection";
        let _inside = self.runtime.enter();
        let stream = stream
            .set_nonblocking(true)
            .and_then(|()| stream.set_nodelay(true))
            .and_then(|()| tokio::net::TcpStream::from_std(stream))
            .map_err(|source| GrpcError::Io { op, source })?;
        let connection = self.door.enter(stream, read_ahead)?;
        to.try_send(Ok(connection)).map_err(|_| GrpcError::Ending)
    }

    /// How many connections were closed at once because too many were open.
    pub fn connections_refused(&self) -> u64 {
        self.door.refused.load(Ordering::Relaxed)
    }

    /// Ends the service: no new connection and no new call, the calls under way get their answers, for no longer than `grace`.
    /// Answers whether all of them got theirs.
    pub fn shutdown(self, grace: Duration) -> bool {
        self.stop.send_replace(true);
        let serving = self.serving;
        let ended = self.runtime.block_on(async move {
            tokio::time::timeout(grace, async {
                for task in serving {
                    task.await.ok();
                }
            })
            .await
        });
        self.runtime.shutdown_background();
        ended.is_ok()
    }
}

impl Door {
    fn enter(
        &self,
        stream: tokio::net::TcpStream,
        read_ahead: Vec<u8>,
    ) -> Result<Connection, GrpcError> {
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Connection::new(stream, read_ahead, permit));
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(GrpcError::TooManyConnections {
            max: self.connections_max,
        })
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    door: Door,
    accepted: mpsc::Sender<io::Result<Connection>>,
    stopped: watch::Receiver<bool>,
) {
    let accepting = async {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            stream.set_nodelay(true).ok();
            let Ok(connection) = door.enter(stream, Vec::new()) else {
                continue;
            };
            if accepted.send(Ok(connection)).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = ended(stopped) => {}
    }
}

/// Returns when the service is to end.
async fn ended(mut stopped: watch::Receiver<bool>) {
    // It also ends when nobody is left to say so.
    stopped.wait_for(|stop| *stop).await.ok();
}
