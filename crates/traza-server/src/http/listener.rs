//! Where connections come from, how many there may be, and how they end.

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustls::ServerConfig;

use super::refusal::Refusal;
use super::response::Response;
use super::stream::Stream;
use super::{connection, hello};
use crate::grpc::Greeting;
use crate::server::Server;

/// So many connections that are one too many are told so at one time; more are dropped.
const REFUSALS_MAX: usize = 64;
/// So long such a one has to read it.
const LINGER: Duration = Duration::from_millis(250);
/// The stack of a connection's thread. The deepest thing it does is to read a value that nests as deep as JSON may.
const STACK_LEN: usize = 1 << 20;
/// Rest after the system had no descriptor left.
const REST: Duration = Duration::from_millis(50);
/// How the bytes of a gRPC client begin.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// The connections of a server.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    live: AtomicUsize,
    refusing: AtomicUsize,
    is_stopping: AtomicBool,
    open: Mutex<Open>,
    closed: Condvar,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    sockets: HashMap<u64, (TcpStream, Arc<AtomicBool>)>,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are open now.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::SeqCst)
    }

    /// True when no further request is to be begun.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Lets those end that are answering, at most so long, and ends the others at once. Answers how many had to be broken off.
    pub(crate) fn drain(&self, at_most: Duration) -> usize {
        self.is_stopping.store(true, Ordering::SeqCst);
        let until = Instant::now() + at_most;
        let mut open = self.open();
        loop {
            for (socket, is_idle) in open.sockets.values() {
                if is_idle.load(Ordering::SeqCst) {
                    socket.shutdown(Shutdown::Both).ok();
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if open.sockets.is_empty() || left.is_zero() {
                break;
            }
            // One may become idle without ending.
            let step = left.min(Duration::from_millis(20));
            let waited = self.closed.wait_timeout(open, step);
            open = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        for (socket, _) in open.sockets.values() {
            socket.shutdown(Shutdown::Both).ok();
        }
        open.sockets.len()
    }
}

/// A slot of a connection; free again when it is dropped, also by a panic.
struct Slot {
    server: Arc<Server>,
    number: u64,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.server.metrics.panicked();
            log::error!("the handler of a request panicked; its connection is dropped");
        }
        let connections = &self.server.connections;
        connections.open().sockets.remove(&self.number);
        connections.live.fetch_sub(1, Ordering::SeqCst);
        connections.closed.notify_all();
    }
}

/// A listener that takes connections in, on a thread of its own.
#[derive(Debug)]
pub(crate) struct Listening {
    address: SocketAddr,
    thread: JoinHandle<()>,
    /// Closing it ends the thread.
    wake: UnixStream,
}

impl Listening {
    /// Begins to take connections in.
    pub(crate) fn start(
        server: Arc<Server>,
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let (wake, woken) = UnixStream::pair()?;
        let thread = std::thread::Builder::new()
            .name("traza-accept".to_owned())
            .spawn(move || accept_all(&server, &listener, tls.as_ref(), &woken))?;
        Ok(Self {
            address,
            thread,
            wake,
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections in.
    pub(crate) fn stop(self) {
        drop(self.wake);
        self.thread.join().ok();
    }
}

fn accept_all(
    server: &Arc<Server>,
    listener: &TcpListener,
    tls: Option<&Arc<ServerConfig>>,
    woken: &UnixStream,
) {
    loop {
        let mut ready = [
            PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(woken.as_fd(), PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => {
                log::error!("no more connections are taken in: {error}");
                return;
            }
        }
        if ready.iter().skip(1).any(|fd| !fd.revents().is_empty()) {
            return;
        }
        match listener.accept() {
            Ok((socket, _)) => take(server, socket, tls),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                log::warn!("a connection could not be taken in: {error}");
                server.metrics.connection_refused();
                std::thread::sleep(REST);
            }
        }
    }
}

fn take(server: &Arc<Server>, socket: TcpStream, tls: Option<&Arc<ServerConfig>>) {
    if socket.set_nonblocking(false).is_err() {
        return;
    }
    let connections = &server.connections;
    if connections.live.fetch_add(1, Ordering::SeqCst) >= server.options.max_connections {
        connections.live.fetch_sub(1, Ordering::SeqCst);
        server.metrics.connection_refused();
        refuse(server, socket, tls.is_some());
        return;
    }
    server.metrics.connection_accepted();
    let is_idle = Arc::new(AtomicBool::new(true));
    let number = {
        let mut open = connections.open();
        open.next += 1;
        let number = open.next;
        if let Ok(clone) = socket.try_clone() {
            open.sockets.insert(number, (clone, Arc::clone(&is_idle)));
        }
        number
    };
    let slot = Slot {
        server: Arc::clone(server),
        number,
    };
    let tls = tls.map(Arc::clone);
    let spawned = std::thread::Builder::new()
        .name("traza-request".to_owned())
        .stack_size(STACK_LEN)
        .spawn(move || {
            let slot = slot;
            run(&slot.server, socket, tls, &is_idle);
        });
    if let Err(error) = spawned {
        // The slot went with the closure.
        log::warn!("no thread for a connection: {error}");
        server.metrics.connection_refused();
    }
}

fn run(
    server: &Arc<Server>,
    socket: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    is_idle: &AtomicBool,
) {
    let timeout = server.options.socket_timeout;
    let stream = match tls {
        None => {
            if is_preface(&socket, timeout) {
                server.take_grpc(socket, Greeting::Plain(Vec::new()));
                return;
            }
            Stream::Plain(socket)
        }
        Some(config) => match hello::read(&socket, timeout) {
            Ok(hello) if hello.wants_only_http2() => {
                server.take_grpc(socket, Greeting::Tls(hello.into_bytes()));
                return;
            }
            Ok(hello) => match hello.into_connection(config, &socket) {
                Ok(connection) => Stream::tls(connection, socket),
                Err(error) => {
                    log::debug!("a connection could not be encrypted: {error}");
                    return;
                }
            },
            Err(error) => {
                log::debug!("a connection did not begin with a handshake of TLS: {error}");
                return;
            }
        },
    };
    connection::serve(server, stream, is_idle);
}

/// True when an HTTP/2 client speaks. Nothing is taken from the socket.
fn is_preface(socket: &TcpStream, timeout: Duration) -> bool {
    let mut begin = [0; PREFACE.len()];
    if socket.set_read_timeout(Some(timeout)).is_err() {
        return false;
    }
    let until = Instant::now() + timeout;
    loop {
        let Ok(len) = socket.peek(&mut begin) else {
            return false;
        };
        let came = begin.get(..len).unwrap_or_default();
        if came.is_empty() || !PREFACE.starts_with(came) {
            return false;
        }
        if came.len() == PREFACE.len() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        // The rest of the first line is on its way.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Tells a connection that is one too many.
fn refuse(server: &Arc<Server>, socket: TcpStream, is_tls: bool) {
    let connections = &server.connections;
    // What is not encrypted would not be understood.
    if is_tls || connections.refusing.fetch_add(1, Ordering::SeqCst) >= REFUSALS_MAX {
        if !is_tls {
            connections.refusing.fetch_sub(1, Ordering::SeqCst);
        }
        return;
    }
    let counted = Arc::clone(server);
    let spawned = std::thread::Builder::new()
        .name("traza-refuse".to_owned())
        .stack_size(128 << 10)
        .spawn(move || {
            let mut stream = Stream::Plain(socket);
            let refusal = Refusal::unavailable("server at connection limit").closing();
            let is_set = stream.socket().set_write_timeout(Some(LINGER)).is_ok();
            if is_set && Response::from(refusal).write(&mut stream, false).is_ok() {
                stream.linger(LINGER);
            }
            counted.connections.refusing.fetch_sub(1, Ordering::SeqCst);
        });
    if spawned.is_err() {
        connections.refusing.fetch_sub(1, Ordering::SeqCst);
    }
}
