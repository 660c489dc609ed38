//! A server: its parts, its start and its end.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use durable::Clock;
use traza::llm::Facts;
use traza::logs::tombstone::{Erasure, SpanKey, Subject};
use traza::span::Span;
use traza::store::{Ingested, Receipt, Standing, Stats, Store, StoreError};

use crate::auth::Tokens;
use crate::grpc::{Greeting, GrpcError, GrpcOptions, GrpcServer};
use crate::grpc_sink::GrpcSink;
use crate::http::{BODIES_LEN_MAX, Connections, Listening, Memory, Refusal, Tls};
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::tail::Ring;

/// What the connections of a server share.
pub(crate) struct Server {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tokens: Tokens,
    pub(crate) options: ServerOptions,
    pub(crate) connections: Connections,
    pub(crate) memory: Memory,
    pub(crate) metrics: Metrics,
    pub(crate) tail: Ring,
    /// Taken out when the server stops.
    grpc: Mutex<Option<GrpcServer>>,
    started: Instant,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    fn new(store: Arc<Store>, clock: Arc<dyn Clock>, options: ServerOptions) -> Self {
        Self {
            tail: Ring::new(
                clock.wall_ns(),
                options.tail_spans_max,
                options.tail_bytes_max,
            ),
            tokens: options.tokens.clone(),
            connections: Connections::default(),
            memory: Memory::new(BODIES_LEN_MAX),
            metrics: Metrics::default(),
            grpc: Mutex::default(),
            started: Instant::now(),
            store,
            clock,
            options,
        }
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Takes spans in; followers of the tail see them once they are as durable as they will be when this returns.
    pub(crate) fn ingest(&self, spans: Vec<Span>) -> Result<Ingested, StoreError> {
        self.store
            .ingest_and(spans, |admitted| self.tail.add(admitted))
    }

    /// Erases something, and answers where that stands.
    pub(crate) fn erase(&self, subject: Subject, now_unix_ns: u64) -> Result<Erasure, Refusal> {
        let doomed = subject.clone();
        self.tail.blank(|span| covers(&doomed, span));
        let id = self.store.erase(subject, now_unix_ns)?;
        // Also what came between; from here on nothing of it comes in.
        self.tail.blank(|span| covers(&doomed, span));
        self.store.resume_erasures()?;
        let mut all = self.store.erasures().into_iter();
        all.find(|erasure| erasure.id == id)
            .ok_or_else(|| StoreError::NoErasure { id }.into())
    }

    /// The receipt of an erasure, the live tail included.
    pub(crate) fn receipt(&self, erasure: &Erasure) -> Result<Receipt, StoreError> {
        let mut receipt = self.store.receipt(erasure.id)?;
        let scope = &erasure.scope;
        let (mut named, mut new) = (0, 0);
        self.tail.each(|span| {
            let key = SpanKey {
                tenant: span.tenant.to_string(),
                trace_id: span.trace_id.to_string(),
                span_id: span.span_id.to_string(),
            };
            if scope.span_keys.contains(&key) {
                named += 1;
            } else if covers(&scope.subject, span) {
                new += 1;
            }
        });
        let mut domains = receipt.domains.iter_mut();
        if let Some(domain) = domains.find(|domain| domain.name == "live-tail") {
            "the spans that are kept for followers were compared".clone_into(&mut domain.detail);
            domain.re_delivered = named;
            domain.new_activity = new;
            if named > 0 {
                domain.standing = Standing::HoldsData;
                receipt.is_erased = false;
            }
        }
        Ok(receipt)
    }

    /// A client that speaks HTTP/2 has come to the port of HTTP/1.
    pub(crate) fn take_grpc(&self, socket: TcpStream, greeting: Greeting) {
        if let Some(grpc) = self.grpc().as_ref()
            && let Err(error) = grpc.adopt(socket, greeting)
        {
            log::info!("a gRPC connection was not taken: {error}");
        }
    }

    fn grpc(&self) -> MutexGuard<'_, Option<GrpcServer>> {
        self.grpc.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True when the subject names the span.
fn covers(subject: &Subject, span: &Span) -> bool {
    match subject {
        Subject::Trace { trace_id, tenant } => span.trace_id == *trace_id && span.tenant == *tenant,
        Subject::Span {
            trace_id,
            span_id,
            tenant,
        } => span.trace_id == *trace_id && span.span_id == *span_id && span.tenant == *tenant,
        Subject::Session { session_id, tenant } => {
            let session = Facts::of(span).session;
            span.tenant == *tenant && session.is_some_and(|session| session.id == *session_id)
        }
        Subject::Tenant { tenant } => span.tenant == *tenant,
        Subject::Payload { reference } => {
            let mut text = String::new();
            span.write(&mut text);
            text.contains(reference.to_ascii_lowercase().as_str())
        }
    }
}

/// Where a server listens. The sockets are bound already, so that a port of 0 has its number.
#[derive(Debug, Default)]
pub struct Listeners {
    /// For HTTP/1; clients that speak gRPC may come here too.
    pub http: Vec<TcpListener>,
    /// For gRPC only.
    pub grpc: Vec<TcpListener>,
    /// What all of them encrypt with.
    pub tls: Option<Tls>,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The system has no threads or sockets left.
    #[error("cannot start the threads of the server")]
    Io(#[from] io::Error),
    /// The service of gRPC does not start.
    #[error(transparent)]
    Grpc(#[from] GrpcError),
}

/// A server at work. Without [`Running::stop`] it goes on when this is dropped.
#[derive(Debug)]
pub struct Running {
    server: Arc<Server>,
    listening: Vec<Listening>,
    upkeep: Upkeep,
}

/// What stopping has done.
#[derive(Debug)]
pub struct Stopped {
    /// Connections that were answering and did not end in time.
    pub broken_off: usize,
    /// The generation that has everything.
    pub generation: Result<u64, StoreError>,
}

/// Serves a store.
///
/// # Errors
/// See [`StartError`].
pub fn start(
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    options: ServerOptions,
    listeners: Listeners,
) -> Result<Running, StartError> {
    let server = Arc::new(Server::new(store, clock, options));
    let grpc = GrpcOptions {
        connections_max: server.options.max_connections,
        tls: listeners.tls.as_ref().map(|tls| tls.pem.clone()),
        ..GrpcOptions::default()
    };
    let sink = Arc::new(GrpcSink(Arc::clone(&server)));
    *server.grpc() = Some(GrpcServer::start(sink, &grpc, listeners.grpc)?);
    let upkeep = Upkeep::start(&server)?;
    let config = listeners.tls.map(|tls| tls.config);
    let listening = listeners
        .http
        .into_iter()
        .map(|listener| Listening::start(Arc::clone(&server), listener, config.clone()))
        .collect::<io::Result<_>>()?;
    Ok(Running {
        server,
        listening,
        upkeep,
    })
}

impl Running {
    /// Where it listens for HTTP, in the order in which it was told.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listening.iter().map(Listening::address).collect()
    }

    /// Takes no more connections in, lets requests end that are being answered, seals what is buffered and publishes a
    /// generation.
    pub fn stop(self) -> Stopped {
        for listening in self.listening {
            listening.stop();
        }
        self.server.tail.close();
        let broken_off = self
            .server
            .connections
            .drain(self.server.options.drain_at_most);
        self.upkeep.stop();
        Stopped {
            broken_off,
            generation: self.server.store.checkpoint(),
        }
    }
}

/// The thread that publishes generations.
#[derive(Debug)]
struct Upkeep {
    thread: JoinHandle<()>,
    end: Arc<(Mutex<bool>, Condvar)>,
}

impl Upkeep {
    fn start(server: &Arc<Server>) -> io::Result<Self> {
        let end = Arc::new((Mutex::new(false), Condvar::new()));
        let (server, told) = (Arc::clone(server), Arc::clone(&end));
        let thread = std::thread::Builder::new()
            .name("traza-upkeep".to_owned())
            .spawn(move || publish(&server, &told))?;
        Ok(Self { thread, end })
    }

    fn stop(self) {
        let (is_over, told) = &*self.end;
        *is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        told.notify_all();
        self.thread.join().ok();
    }
}

fn publish(server: &Server, end: &(Mutex<bool>, Condvar)) {
    let (is_over, told) = end;
    let mut published: Option<Stats> = None;
    loop {
        let over = is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = told.wait_timeout_while(over, server.options.checkpoint_every, |over| !*over);
        let (over, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *over {
            return;
        }
        drop(over);
        // A store at rest is not given a new generation every few minutes.
        if published.as_ref() == Some(&server.store.stats()) {
            continue;
        }
        match server.store.checkpoint() {
            Ok(generation) => log::debug!("generation {generation} is published"),
            Err(error) => log::warn!(
                "no generation was published: {}",
                crate::http::chain(&error)
            ),
        }
        published = Some(server.store.stats());
    }
}
