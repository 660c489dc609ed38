//! The socket before a [`Control`]: one thread that accepts, and one for each connection.
//!
//! The loop never meets a client: requests wait in the control for the loop's turn, answers in a channel
//! for the connection. A client that is slow, silent or hostile costs its own thread and a slot.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;

use crate::control::Control;
use crate::error::ServerError;
use crate::protocol::{Command, LINE_LEN_MAX, Peer, Refusal, RefusalKind, Request};
use crate::socket::{Named, io_error, listen_at, peer_of};

/// Connections at a time; a further one is told so and ended.
const CONNECTIONS_MAX: usize = 16;
/// How long a connection that is no controller may say nothing.
const IDLE: Duration = Duration::from_mins(1);
/// How long an answer may wait for a client to read it.
const SLOW: Duration = Duration::from_secs(5);

/// A socket at which a loop is attended.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
    /// Its loss ends the accepting thread.
    wake: Option<UnixStream>,
    named: Named,
}

#[derive(Debug)]
struct Shared {
    control: Arc<Control>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    is_closing: bool,
    next_id: u64,
    connections: HashMap<u64, Connected>,
}

#[derive(Debug)]
struct Connected {
    stream: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `path`, for requests to `control`.
    ///
    /// # Errors
    /// `InUse` when another process listens there, `NotASocket` when a file stands there, `Io` when the
    /// system refuses, above all when the path is longer than the 107 bytes that a socket's may have.
    pub fn start(path: &Path, control: Arc<Control>) -> Result<Self, ServerError> {
        let (listener, named) = listen_at(path)?;
        let shared = Arc::new(Shared {
            control,
            open: Mutex::default(),
        });
        let started = UnixStream::pair().and_then(|(wake, woken)| {
            let shared = Arc::clone(&shared);
            let accept = move || accept(&listener, &woken, &shared);
            let thread = std::thread::Builder::new().name("omni-control".to_owned());
            Ok((wake, thread.spawn(accept)?))
        });
        match started {
            Ok((wake, thread)) => Ok(Self {
                shared,
                accepting: Some(thread),
                wake: Some(wake),
                named,
            }),
            Err(source) => {
                named.remove();
                Err(io_error("listen at", path, source))
            }
        }
    }

    /// Ends the control and every connection, and removes the socket.
    pub fn close(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(accepting) = self.accepting.take() else {
            return;
        };
        // Whoever waits for an answer gets one.
        self.shared.control.end();
        drop(self.wake.take());
        accepting.join().ok();
        let connections = {
            let mut open = self.shared.lock();
            open.is_closing = true;
            std::mem::take(&mut open.connections)
        };
        for connected in connections.into_values() {
            // Reading ends; an answer under way is still written.
            connected.stream.shutdown(Shutdown::Read).ok();
            if let Some(thread) = connected.thread {
                thread.join().ok();
            }
        }
        self.named.remove();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &UnixListener, woken: &UnixStream, shared: &Arc<Shared>) {
    loop {
        let mut fds = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(woken, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        let [_, woken] = &fds;
        if !woken.revents().is_empty() {
            return;
        }
        match listener.accept() {
            Ok((stream, _)) => admit(stream, shared),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Out of descriptors, or of memory: the client waits in the backlog meanwhile.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn admit(stream: UnixStream, shared: &Arc<Shared>) {
    let ready = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_write_timeout(Some(SLOW)))
        .and_then(|()| stream.set_read_timeout(Some(IDLE)))
        .and_then(|()| Ok((peer_of(&stream)?, stream.try_clone()?)));
    let Ok((peer, for_shutdown)) = ready else {
        return;
    };
    let mut open = shared.lock();
    open.connections.retain(|_, connected| {
        let thread = connected.thread.as_ref();
        thread.is_some_and(|thread| !thread.is_finished())
    });
    if open.is_closing || open.connections.len() >= CONNECTIONS_MAX {
        drop(open);
        let what = format!("there are {CONNECTIONS_MAX} connections already");
        // A fresh connection has room for a line: this does not wait.
        answer(&stream, &Refusal::new(RefusalKind::Busy, what).answer()).ok();
        return;
    }
    let id = open.next_id;
    open.next_id = open.next_id.wrapping_add(1);
    let control = Arc::clone(&shared.control);
    let thread = std::thread::Builder::new()
        .name("omni-client".to_owned())
        .spawn(move || Connection::new(stream, peer, control).serve());
    if let Ok(thread) = thread {
        let connected = Connected {
            stream: for_shutdown,
            thread: Some(thread),
        };
        open.connections.insert(id, connected);
    }
}

fn answer(mut stream: &UnixStream, answer: &Value) -> io::Result<()> {
    let mut line = answer.to_string();
    line.push('\n');
    stream.write_all(line.as_bytes())
}

struct Connection {
    stream: UnixStream,
    peer: Peer,
    control: Arc<Control>,
    is_controller: bool,
}

/// What came in.
enum Came {
    Line(Vec<u8>),
    TooLong,
    Idle,
    End,
}

impl Connection {
    fn new(stream: UnixStream, peer: Peer, control: Arc<Control>) -> Self {
        Self {
            stream,
            peer,
            control,
            is_controller: false,
        }
    }

    fn serve(mut self) {
        if let Ok(stream) = self.stream.try_clone() {
            let mut reader = BufReader::with_capacity(LINE_LEN_MAX, stream);
            while self.serve_one(&mut reader).is_ok_and(|goes_on| goes_on) {}
        }
        self.stream.shutdown(Shutdown::Both).ok();
        if self.is_controller {
            self.control.lose(self.peer);
        }
    }

    /// One request; false at the end of the connection.
    fn serve_one(&mut self, reader: &mut BufReader<UnixStream>) -> io::Result<bool> {
        let line = match next_line(reader)? {
            Came::Line(line) => line,
            Came::End => return Ok(false),
            Came::TooLong => {
                let what = format!("a request has at most {LINE_LEN_MAX} bytes");
                let refusal = Refusal::new(RefusalKind::LineTooLong, what);
                answer(&self.stream, &refusal.answer())?;
                return Ok(false);
            }
            Came::Idle => {
                let what = "nothing was said for a minute; a controller may be silent: attend";
                let refusal = Refusal::new(RefusalKind::Idle, what);
                answer(&self.stream, &refusal.answer())?;
                return Ok(false);
            }
        };
        match Request::parse(&line) {
            Ok(request) => self.take(request)?,
            Err(refusal) => answer(&self.stream, &refusal.answer())?,
        }
        Ok(true)
    }

    fn take(&mut self, request: Request) -> io::Result<()> {
        let becomes = match request.command {
            Command::Attend {} => Some(true),
            Command::Leave {} => Some(false),
            _ => None,
        };
        // What a connection is already, it need not become.
        if becomes == Some(self.is_controller) {
            let what = if self.is_controller {
                "this connection attends already"
            } else {
                "this connection does not attend"
            };
            let refusal = Refusal::new(RefusalKind::BadRequest, what);
            return answer(&self.stream, &refusal.answer());
        }
        // An answer always comes, at the latest with the end of the run.
        let Ok(answered) = self.control.ask(request, self.peer).recv() else {
            return Err(io::ErrorKind::ConnectionAborted.into());
        };
        let is_done = answered.get("ok").and_then(Value::as_bool) == Some(true);
        if let (Some(becomes), true) = (becomes, is_done) {
            self.is_controller = becomes;
            let idle = (!becomes).then_some(IDLE);
            self.stream.set_read_timeout(idle)?;
        }
        answer(&self.stream, &answered)
    }
}

fn next_line(reader: &mut BufReader<UnixStream>) -> io::Result<Came> {
    let mut line = Vec::new();
    let mut bounded = reader.by_ref().take(LINE_LEN_MAX as u64);
    match bounded.read_until(b'\n', &mut line) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
            ) =>
        {
            return Ok(Came::Idle);
        }
        result => result?,
    };
    if line.pop_if(|byte| *byte == b'\n').is_some() {
        return Ok(Came::Line(line));
    }
    // A line that its sender did not finish is no request.
    Ok(if line.len() >= LINE_LEN_MAX {
        Came::TooLong
    } else {
        Came::End
    })
}
