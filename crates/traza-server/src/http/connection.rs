//! One connection: requests come one after the other, and are answered in that order.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::body::{self, Body, LARGE_LEN};
use super::head::{Framing, HEAD_LEN_MAX, Head, HeadFault, head_len};
use super::refusal::{Cause, Refusal};
use super::response::Response;
use super::stream::{Buffer, Input, ReadFault, Stream};
use crate::auth::Caller;
use crate::server::Server;
use crate::{router, ui};

/// So many requests are answered on one connection.
const REQUESTS_MAX: usize = 100_000;
/// So long a client has to read the answer to what it was still sending.
const LINGER: Duration = Duration::from_millis(250);

/// A request as a whole.
#[derive(Debug)]
pub(crate) struct Request<'r> {
    pub(crate) head: Head,
    pub(crate) body: &'r [u8],
    pub(crate) caller: Caller,
}

/// Writes the answer, head included; ends the connection.
pub(crate) type Writer<'a> = Box<dyn FnOnce(&mut dyn Write) -> std::io::Result<()> + 'a>;

/// What a request is answered with.
pub(crate) enum Answer<'a> {
    Whole(Response),
    Streamed(Writer<'a>),
}

impl From<Response> for Answer<'_> {
    fn from(response: Response) -> Self {
        Self::Whole(response)
    }
}

enum Next {
    Goes,
    Ends,
    /// The other side may still be sending what nobody reads.
    EndsEarly,
}

/// Serves a connection until one side ends it. `is_idle` is true while no request has begun.
pub(super) fn serve(server: &Server, mut stream: Stream, is_idle: &AtomicBool) {
    let timeout = server.options.socket_timeout;
    let socket = stream.socket();
    if socket.set_nodelay(true).is_err() || socket.set_write_timeout(Some(timeout)).is_err() {
        return;
    }
    let mut buffer = Buffer::default();
    for number in 1..=REQUESTS_MAX {
        if buffer.bytes().is_empty() {
            is_idle.store(true, Ordering::SeqCst);
            let came = Input::new(&mut stream, &mut buffer, timeout).fill();
            is_idle.store(false, Ordering::SeqCst);
            // Nothing was asked, so nothing is answered: it could be taken for the answer to the next request.
            if came.is_err() {
                return;
            }
        }
        if server.connections.is_stopping() && number > 1 {
            return;
        }
        match one(server, &mut stream, &mut buffer) {
            Next::Goes => {}
            Next::Ends => {
                stream.linger(Duration::ZERO);
                return;
            }
            Next::EndsEarly => {
                stream.linger(LINGER);
                return;
            }
        }
    }
    // More may have been asked already, and an end with unread bytes would take answers back that are on their way.
    stream.linger(LINGER);
}

/// Answers one request of which a byte has come.
fn one(server: &Server, stream: &mut Stream, buffer: &mut Buffer) -> Next {
    let timeout = server.options.socket_timeout;
    let mut input = Input::new(stream, buffer, timeout);
    let head = match read_head(&mut input) {
        Ok(head) => head,
        Err(refusal) => return refuse(server, stream, refusal),
    };
    if let Some(mut response) = ui::answer(server, &head) {
        let keeps_alive = head.keeps_alive && head.framing == Framing::Length(0);
        response.closes = !keeps_alive;
        // Pages are no requests to the API, and are not counted with them.
        return write(stream, &response, keeps_alive);
    }
    let started = Instant::now();
    let class = router::class(&head);
    let caller = match server.tokens.admit(&head) {
        Ok(caller) => caller,
        Err(refusal) => {
            server.metrics.reject();
            return refuse(server, stream, refusal.closing());
        }
    };
    let body = match Body::read(&mut input, head.framing, &server.memory) {
        Ok(body) => body,
        Err(refusal) => return refuse(server, stream, refusal),
    };
    let keeps_alive = head.keeps_alive && !server.connections.is_stopping();
    let request = Request {
        head,
        body: &body.bytes,
        caller,
    };
    let turn = (request.body.len() > LARGE_LEN).then(|| server.memory.turn());
    let answer = router::answer(server, &request);
    // What is written from here on can wait for a slow reader.
    drop(turn);
    // Before it is written: who has read an answer finds it counted.
    let count = |status| server.metrics.answered(class, status, started.elapsed());
    match answer {
        Ok(Answer::Whole(response)) => {
            count(response.status);
            write(stream, &response, keeps_alive)
        }
        Ok(Answer::Streamed(writer)) => {
            let written = writer(stream);
            count(200);
            if let Err(error) = written {
                log::debug!(
                    "{} {} broke off: {error}",
                    request.head.method,
                    request.head.path
                );
            }
            Next::Ends
        }
        Err(refusal) => {
            if refusal.cause == Cause::Deadline {
                server.metrics.deadline();
            }
            if refusal.status >= 500 {
                log::warn!(
                    "{} {} answered {}: {:?}",
                    request.head.method,
                    request.head.path,
                    refusal.status,
                    refusal.text()
                );
            }
            count(refusal.status);
            write(stream, &refusal.into(), keeps_alive)
        }
    }
}

fn read_head(input: &mut Input<'_>) -> Result<Head, Refusal> {
    let mut searched = 0;
    loop {
        let bytes = input.buffer().bytes();
        if let Some(len) = head_len(bytes, searched) {
            if len > HEAD_LEN_MAX {
                return Err(HeadFault::TooLarge.into());
            }
            let head = Head::parse(bytes.get(..len).unwrap_or_default());
            input.buffer().advance(len);
            return Ok(head?);
        }
        searched = bytes.len();
        if searched >= HEAD_LEN_MAX {
            return Err(HeadFault::TooLarge.into());
        }
        input
            .fill()
            .map_err(|fault: ReadFault| body::refusal(fault, "incomplete request"))?;
    }
}

/// Answers what ends the connection before the request was read to its end.
fn refuse(server: &Server, stream: &mut Stream, refusal: Refusal) -> Next {
    log::info!(
        "refused a request with {}: {:?}",
        refusal.status,
        refusal.text()
    );
    if refusal.cause != Cause::Gate {
        server.metrics.malformed();
    }
    Response::from(refusal).write(stream, false).ok();
    Next::EndsEarly
}

fn write(stream: &mut Stream, response: &Response, keeps_alive: bool) -> Next {
    let keeps_alive = keeps_alive && !response.closes;
    match response.write(stream, keeps_alive) {
        Ok(()) if keeps_alive => Next::Goes,
        Ok(()) => Next::EndsEarly,
        Err(_) => Next::Ends,
    }
}
