//! How a server works.

use std::path::PathBuf;
use std::time::Duration;

use crate::auth::Tokens;

/// How a server works. The defaults are those of the wire contract.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// Who may ask; everybody when there are no tokens.
    pub tokens: Tokens,
    /// So many connections are served at one time.
    pub max_connections: usize,
    /// How long a read or a write of a socket may take.
    pub socket_timeout: Duration,
    /// How long a question may be worked on; `None` for as long as it takes.
    pub query_deadline: Option<Duration>,
    /// The live tail keeps so many spans.
    pub tail_spans_max: usize,
    /// And so many bytes of them.
    pub tail_bytes_max: usize,
    /// Where the web pages are; `None` for the built-in one.
    pub ui_dir: Option<PathBuf>,
    /// What the endpoint for agents may do; `None` when there is none.
    pub mcp: Option<McpOptions>,
    /// How often a generation is published.
    pub checkpoint_every: Duration,
    /// How long requests may go on that are being answered when the server stops.
    pub drain_at_most: Duration,
    /// The route that makes its handler panic, for tests.
    pub has_panic_route: bool,
}

/// What agents may do (`/v1/mcp`).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct McpOptions {
    /// Record annotations.
    pub annotations: bool,
    /// Make datasets of failures.
    pub promote: bool,
    /// The longest result, in bytes.
    pub result_len_max: usize,
    /// The longest part of a payload in a result, in bytes.
    pub payload_len_max: usize,
    /// Web origins that may ask, besides those of this machine; in lower case, without a slash at the end.
    pub allowed_origins: Vec<String>,
}

impl Default for McpOptions {
    fn default() -> Self {
        Self {
            annotations: false,
            promote: false,
            result_len_max: 32_768,
            payload_len_max: 262_144,
            allowed_origins: Vec::new(),
        }
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            tokens: Tokens::default(),
            max_connections: 1_024,
            socket_timeout: Duration::from_secs(30),
            query_deadline: Some(Duration::from_secs(30)),
            tail_spans_max: 8_192,
            tail_bytes_max: 32 << 20,
            ui_dir: None,
            mcp: None,
            checkpoint_every: Duration::from_mins(5),
            drain_at_most: Duration::from_secs(10),
            has_panic_route: false,
        }
    }
}
