//! How a server works.

use std::path::PathBuf;
use std::time::Duration;

use crate::auth::Tokens;
use crate::mcp;

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
    /// So often a follower of the tail hears something, so that both sides notice when the other is gone.
    pub tail_heartbeat: Duration,
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
#[derive(Clone, Debug, Default)]
pub struct McpOptions {
    /// What the tools may do, and how much they may answer.
    pub tools: mcp::Options,
    /// Web origins that may ask, besides those of this machine.
    pub allowed_origins: Vec<mcp::AllowedOrigin>,
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
            tail_heartbeat: Duration::from_secs(15),
            ui_dir: None,
            mcp: None,
            checkpoint_every: Duration::from_mins(5),
            drain_at_most: Duration::from_secs(10),
            has_panic_route: false,
        }
    }
}
