//! The two directions of a connection: bytes with a time by which they must have come.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustls::ServerConnection;

/// A connection, plain or encrypted.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<Tls>),
}

/// An encrypted connection.
#[derive(Debug)]
pub(crate) struct Tls {
    connection: ServerConnection,
    socket: TcpStream,
}

impl Stream {
    /// A connection that begins with the handshake of TLS.
    pub(crate) fn tls(connection: ServerConnection, socket: TcpStream) -> Self {
        Self::Tls(Box::new(Tls { connection, socket }))
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &tls.socket,
        }
    }

    /// Tells the other side that nothing follows, and waits a little so that it can read what was written.
    pub(crate) fn linger(&mut self, at_most: Duration) {
        if let Self::Tls(tls) = self {
            tls.connection.send_close_notify();
            tls.send().ok();
        }
        let socket = self.socket();
        if socket.shutdown(std::net::Shutdown::Write).is_err() {
            return;
        }
        let until = Instant::now() + at_most;
        let mut drained = [0; 8_192];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || socket.set_read_timeout(Some(left)).is_err() {
                return;
            }
            match (&*socket).read(&mut drained) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

impl Tls {
    /// Hands everything that is encrypted to the system.
    fn send(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    /// Reads once from the system at most, so that whoever asks can look at the time in between.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.connection.reader().read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
        // The other side waits for the answer to its first message.
        self.send()?;
        if self.connection.read_tls(&mut self.socket)? == 0 {
            return Ok(0);
        }
        let processed = self.connection.process_new_packets();
        // An alert says why, also when the bytes were none of TLS.
        self.send()?;
        processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        match self.connection.reader().read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(io::ErrorKind::Interrupted.into())
            }
            read => read,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(bytes),
            Self::Tls(tls) => tls.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(tls) => {
                let written = tls.connection.writer().write(bytes)?;
                tls.send()?;
                Ok(written)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(tls) => tls.send(),
        }
    }
}

/// Why bytes did not come.
#[derive(Debug)]
pub(crate) enum ReadFault {
    /// The other side has ended.
    End,
    /// A line is longer than it may be.
    TooLong,
    /// The system says why, a time that is over included.
    Io(io::Error),
}

/// What has come and was not used yet.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// What comes before is used.
    start: usize,
}

impl Buffer {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    pub(crate) fn advance(&mut self, len: usize) {
        self.start = (self.start + len).min(self.bytes.len());
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }
}

/// The incoming direction.
#[derive(Debug)]
pub(crate) struct Input<'c> {
    stream: &'c mut Stream,
    buffer: &'c mut Buffer,
    timeout: Duration,
    /// When all that is awaited must have come.
    until: Instant,
}

/// So much is asked of the system at a time.
const READ_LEN: usize = 16 << 10;

impl<'c> Input<'c> {
    pub(crate) fn new(stream: &'c mut Stream, buffer: &'c mut Buffer, timeout: Duration) -> Self {
        Self {
            stream,
            buffer,
            timeout,
            until: Instant::now() + timeout,
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sets when what is awaited must have come.
    pub(crate) fn allow(&mut self, until: Instant) {
        self.until = until;
    }

    pub(crate) fn buffer(&mut self) -> &mut Buffer {
        self.buffer
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ReadFault> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let wait = left.min(self.timeout);
            if wait.is_zero() {
                return Err(ReadFault::Io(io::ErrorKind::TimedOut.into()));
            }
            let socket = self.stream.socket();
            socket.set_read_timeout(Some(wait)).map_err(ReadFault::Io)?;
            match self.stream.read(bytes) {
                Ok(0) => return Err(ReadFault::End),
                Ok(len) => return Ok(len),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(ReadFault::End);
                }
                Err(error) => return Err(ReadFault::Io(error)),
            }
        }
    }

    /// Takes in what the system has, at least a byte.
    pub(crate) fn fill(&mut self) -> Result<(), ReadFault> {
        let len = self.buffer.bytes.len();
        if self.buffer.start > 0 && len + READ_LEN > self.buffer.bytes.capacity() {
            self.buffer.bytes.drain(..self.buffer.start);
            self.buffer.start = 0;
        }
        let mut bytes = std::mem::take(&mut self.buffer.bytes);
        let len = bytes.len();
        bytes.resize(len + READ_LEN, 0);
        let read = match bytes.get_mut(len..) {
            Some(free) => self.read(free),
            None => Ok(0),
        };
        bytes.truncate(len + *read.as_ref().unwrap_or(&0));
        self.buffer.bytes = bytes;
        read.map(|_| ())
    }

    /// Appends exactly `len` bytes to `to`.
    pub(crate) fn read_into(&mut self, to: &mut Vec<u8>, len: usize) -> Result<(), ReadFault> {
        let buffered = self.buffer.bytes();
        let at_hand = buffered.get(..len.min(buffered.len())).unwrap_or_default();
        to.extend_from_slice(at_hand);
        let mut missing = len - at_hand.len();
        let used = at_hand.len();
        self.buffer.advance(used);
        // Zeroed once, however many pieces it comes in.
        let mut filled = to.len();
        to.resize(filled + missing, 0);
        while missing > 0 {
            let read = match to.get_mut(filled..) {
                Some(free) => self.read(free),
                None => Ok(0),
            };
            match read {
                Ok(len) => {
                    filled += len;
                    missing -= len;
                }
                Err(fault) => {
                    to.truncate(filled);
                    return Err(fault);
                }
            }
        }
        Ok(())
    }

    /// A line with its end.
    pub(crate) fn line(&mut self, len_max: usize) -> Result<Vec<u8>, ReadFault> {
        loop {
            let bytes = self.buffer.bytes();
            if let Some(at) = memchr::memchr(b'\n', bytes) {
                let line = bytes.get(..=at).unwrap_or_default().to_vec();
                self.buffer.advance(line.len());
                return if line.len() > len_max {
                    Err(ReadFault::TooLong)
                } else {
                    Ok(line)
                };
            }
            if bytes.len() >= len_max {
                return Err(ReadFault::TooLong);
            }
            self.fill()?;
        }
    }
}
