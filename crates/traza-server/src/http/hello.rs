//! The first message of a TLS client. It says which protocols the client speaks, so that gRPC and HTTP/1 share a port.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::server::{Accepted, Acceptor};
use rustls::{ServerConfig, ServerConnection};

/// The longest first message, with its records. Those of clients have some hundred bytes, up to two thousand with keys
/// of post-quantum groups.
const LEN_MAX: usize = 32 << 10;

/// A first message, read whole.
pub(crate) struct Hello {
    accepted: Accepted,
    /// All that was read from the socket.
    bytes: Vec<u8>,
}

/// Reads it. A client that sends something else is told so by an alert.
///
/// # Errors
/// What the socket says; `InvalidData` for what is no first message; `TimedOut` when it did not come within `timeout`.
pub(crate) fn read(mut socket: &TcpStream, timeout: Duration) -> io::Result<Hello> {
    let until = Instant::now() + timeout;
    let mut acceptor = Acceptor::default();
    let mut bytes = Vec::new();
    let mut piece = [0; 4 << 10];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let came = match socket.read(&mut piece) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => piece.get(..len).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        bytes.extend_from_slice(came);
        if bytes.len() > LEN_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut came = came;
        while !came.is_empty() {
            if acceptor.read_tls(&mut came)? == 0 {
                break;
            }
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => return Ok(Hello { accepted, bytes }),
            Ok(None) => {}
            Err((error, mut alert)) => {
                let mut message = Vec::new();
                alert.write_all(&mut message)?;
                socket.write_all(&message)?;
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }
}

impl Hello {
    /// True for a client that cannot speak HTTP/1, as those of gRPC.
    pub(crate) fn wants_only_http2(&self) -> bool {
        let hello = self.accepted.client_hello();
        let offers = |wanted: &[u8]| {
            hello
                .alpn()
                .is_some_and(|mut protocols| protocols.any(|protocol| protocol == wanted))
        };
        offers(b"h2") && !offers(b"http/1.1")
    }

    /// What was read, for one who begins anew with it.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Goes on with the handshake.
    ///
    /// # Errors
    /// `InvalidData` for a client that wants what is not served, which is told so by an alert.
    pub(crate) fn into_connection(
        self,
        config: Arc<ServerConfig>,
        mut socket: &TcpStream,
    ) -> io::Result<ServerConnection> {
        self.accepted
            .into_connection(config)
            .map_err(|(error, mut alert)| {
                let mut message = Vec::new();
                // Whoever is gone needs no alert.
                if alert.write_all(&mut message).is_ok() {
                    socket.write_all(&message).ok();
                }
                io::Error::new(io::ErrorKind::InvalidData, error)
            })
    }
}
