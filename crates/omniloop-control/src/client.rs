//! The other end of the socket.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// The longest answer that is read: `status` of a loop with many parameters.
const ANSWER_LEN_MAX: u64 = 16 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The system refused, or the other end is gone.
    #[error("cannot {op} {}", path.display())]
    Io {
        /// What was tried.
        op: &'static str,
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What came is no answer of this protocol.
    #[error("{} gave no answer of the protocol", path.display())]
    NotAnAnswer {
        /// The socket.
        path: PathBuf,
    },
}

/// A connection to an attended loop.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the socket at `path`. An answer may take `patience`; `None` waits as long as the loop
    /// takes for a tick.
    ///
    /// # Errors
    /// `Io`.
    pub fn connect(path: &Path, patience: Option<Duration>) -> Result<Self, ClientError> {
        let connected = UnixStream::connect(path)
            .and_then(|stream| stream.set_read_timeout(patience).map(|()| stream));
        let stream = connected.map_err(|source| ClientError::Io {
            op: "connect to",
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            stream: BufReader::new(stream),
        })
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// `Io` with `WouldBlock` when the patience is over; what was asked may still be done. `NotAnAnswer`
    /// when something else listens there.
    pub fn ask(&mut self, request: &Value) -> Result<Value, ClientError> {
        let mut line = request.to_string();
        line.push('\n');
        // A server that ends the connection may have said why before.
        let sent = self.stream.get_mut().write_all(line.as_bytes());
        let mut bytes = Vec::new();
        let mut bounded = self.stream.by_ref().take(ANSWER_LEN_MAX);
        let got = bounded.read_until(b'\n', &mut bytes);
        let failed = |op, source| ClientError::Io {
            op,
            path: self.path.clone(),
            source,
        };
        if bytes.is_empty() {
            sent.map_err(|source| failed("write to", source))?;
        }
        if got.map_err(|source| failed("read from", source))? == 0 {
            return Err(failed("read from", io::ErrorKind::UnexpectedEof.into()));
        }
        match serde_json::from_slice(&bytes) {
            Ok(answer @ Value::Object(_)) => Ok(answer),
            _ => Err(ClientError::NotAnAnswer {
                path: self.path.clone(),
            }),
        }
    }
}
