//! The flags of a server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use traza::llm::Pricing;
use traza::span::is_tenant_name;
use traza::store::{Compaction, Durability, StoreOptions};
use traza_server::{McpOptions, ServerOptions, Tls, Tokens, mcp, read_tls};

use crate::failure::{Failure, chain_text};

/// Serves a store of traces: takes OTLP in over HTTP and gRPC, answers questions, shows a web page.
///
/// The store is a folder, which is made when it is not there; one process serves it at a time. SIGTERM and Ctrl-C end the
/// server when everything is safe: requests that are being answered end, what is buffered is sealed, a generation is
/// published. `TRAZA_TOKENS` holds the tokens (`scope[@tenant]:token,…`); without it everybody who reaches the port may do
/// everything, so it listens on this machine only.
#[derive(Args, Debug)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  daybook serve
  daybook serve --data traces/ --port 4318 --otlp
  TRAZA_TOKENS=rw:secret,ro@acme:other daybook serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
  curl -s localhost:4318/v1/spans?status=error | jq .spans"
)]
pub(crate) struct ServeArgs {
    /// The folder of the store.
    #[arg(
        long,
        visible_alias = "data",
        value_name = "DIR",
        default_value = "./data"
    )]
    pub(super) data_dir: PathBuf,
    /// The address to listen on.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    pub(super) host: String,
    /// The port to listen on; 0 takes a free one. 4318, and 8080 under the name traza-server, when it is left out.
    #[arg(long, value_name = "N", value_parser = port)]
    pub(super) port: Option<u16>,
    /// Listens on the ports of OTLP too: 4317 and 4318.
    #[arg(long)]
    pub(super) otlp: bool,
    /// The certificate chain to encrypt with, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// What to tune for. Flags of their own go before it.
    #[arg(long, value_name = "PROFILE", default_value = "balanced")]
    profile: Profile,
    /// When spans are acknowledged.
    #[arg(long, value_name = "MODE", default_value = "wal")]
    durability: Mode,
    /// Seals when so many spans are buffered (10000).
    #[arg(long, value_name = "N", value_parser = number)]
    flush_spans: Option<u64>,
    /// Seals when the log has so many bytes; 0 never.
    #[arg(long, value_name = "N", value_parser = number, default_value = "67108864")]
    flush_wal_bytes: u64,
    /// Seals when the oldest buffered span is so many seconds old; 0 never.
    #[arg(long, value_name = "N", value_parser = number, default_value = "300")]
    max_buffer_age_seconds: u64,
    /// Accepted for the sake of scripts: what was superseded is dropped by merges, and never shown.
    #[arg(long)]
    no_shadow_seal: bool,
    /// How long a sync of the log waits for more, in microseconds.
    #[arg(long, value_name = "N", value_parser = number)]
    wal_commit_window_us: Option<u64>,
    /// How many seconds after its end a span is kept; 0 for ever.
    #[arg(long, value_name = "N", value_parser = number, default_value = "0")]
    ttl_seconds: u64,
    /// The same for one tenant. May be repeated.
    #[arg(long, value_name = "TENANT=N", value_parser = tenant_ttl)]
    tenant_ttl: Vec<(String, u64)>,
    /// How many connections are served at one time.
    #[arg(long, value_name = "N", value_parser = number, default_value = "1024")]
    max_connections: u64,
    /// How long a question may be worked on, in milliseconds; 0 as long as it takes.
    #[arg(long, value_name = "N", value_parser = number, default_value = "30000")]
    query_deadline_ms: u64,
    /// Attribute texts above so many bytes are kept beside the spans; 0 never.
    #[arg(long, value_name = "N", value_parser = number, default_value = "262144")]
    payload_threshold_bytes: u64,
    /// How many segments of about one size are merged; 0 or 1 never.
    #[arg(long, value_name = "N", value_parser = number, default_value = "4")]
    compaction_fanout: u64,
    /// A merge makes no longer segment than this, in bytes; 0 any.
    #[arg(long, value_name = "N", value_parser = number, default_value = "268435456")]
    compaction_max_segment_bytes: u64,
    /// Accepted for the sake of scripts: answers are the same, and words are always indexed.
    #[arg(long)]
    no_content_index: bool,
    /// How many spans the live tail keeps.
    #[arg(long, value_name = "N", value_parser = number, default_value = "8192")]
    tail_ring_spans: u64,
    /// How many bytes of them.
    #[arg(long, value_name = "N", value_parser = number, default_value = "33554432")]
    tail_ring_bytes: u64,
    /// Where the web pages are; without it `TRAZA_UI_DIR`, `ui` beside the program, `../share/traza/ui`, `./ui/dist`, or else
    /// the built-in page.
    #[arg(long, value_name = "DIR")]
    ui_dir: Option<PathBuf>,
    /// The prices that costs are derived from: `{"models": {NAME: {"input_per_mtok": F, "output_per_mtok": F}}}`.
    #[arg(long, value_name = "FILE")]
    pub(super) pricing: Option<PathBuf>,
    /// Has an endpoint for agents at /v1/mcp.
    #[arg(long)]
    mcp: bool,
    /// Lets agents record annotations; with --mcp.
    #[arg(long)]
    mcp_annotations: bool,
    /// Lets agents make datasets of failures; with --mcp.
    #[arg(long)]
    mcp_promote: bool,
    /// The longest answer to an agent, in bytes; 1024 at least.
    #[arg(long, value_name = "N", value_parser = number, default_value = "32768")]
    mcp_max_result_bytes: u64,
    /// The longest part of a payload in one, in bytes.
    #[arg(long, value_name = "N", value_parser = number, default_value = "262144")]
    mcp_max_payload_bytes: u64,
    /// A web origin from which agents may ask; with --mcp. May be repeated.
    #[arg(long, value_name = "ORIGIN")]
    mcp_allowed_origin: Vec<mcp::AllowedOrigin>,
    /// Listens beyond this machine without tokens.
    #[arg(long)]
    pub(super) allow_unauthenticated_non_loopback: bool,
    /// Verifies a backup and installs it in the folder of the store first.
    #[arg(long, value_name = "DIR")]
    pub(super) restore: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Profile {
    /// Long batches: seals at 30000 spans, syncs wait 500 µs for company.
    Throughput,
    /// Seals at 10000 spans.
    Balanced,
    /// Short ones: seals at 5000 spans.
    Latency,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// In memory; a crash loses what is not sealed.
    Buffered,
    /// In the synced log.
    Wal,
    /// In a synced segment.
    Flushed,
}

/// What every flag of a number says that is none.
const NO_NUMBER: &str = "must be a non-negative number";

fn number(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| NO_NUMBER)
}

fn port(text: &str) -> Result<u16, &'static str> {
    text.parse()
        .map_err(|_| "must be a non-negative number up to 65535")
}

fn tenant_ttl(text: &str) -> Result<(String, u64), String> {
    let (tenant, ttl) = text.split_once('=').ok_or("must be TENANT=SECONDS")?;
    if !is_tenant_name(tenant) {
        return Err(format!(
            "{tenant:?} is no tenant: lowercase [a-z0-9][a-z0-9._-], at most 64 bytes"
        ));
    }
    let ttl = ttl.parse().map_err(|_| NO_NUMBER.to_owned())?;
    Ok((tenant.to_owned(), ttl))
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn unless_zero(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

impl ServeArgs {
    fn flush_spans(&self) -> usize {
        let of_profile = match self.profile {
            Profile::Throughput => 30_000,
            Profile::Balanced => 10_000,
            Profile::Latency => 5_000,
        };
        self.flush_spans.map_or(of_profile, size).max(1)
    }

    fn commit_window_us(&self) -> u64 {
        let of_profile = match self.profile {
            Profile::Throughput => 500,
            Profile::Balanced | Profile::Latency => 0,
        };
        self.wal_commit_window_us.unwrap_or(of_profile)
    }

    pub(super) fn durability(&self) -> &'static str {
        self.store_durability().as_str()
    }

    fn store_durability(&self) -> Durability {
        match self.durability {
            Mode::Buffered => Durability::Buffered,
            Mode::Wal => Durability::Wal,
            Mode::Flushed => Durability::Flushed,
        }
    }

    /// How the store is tuned, for the log.
    pub(super) fn profile_line(&self) -> String {
        let name = match self.profile {
            Profile::Throughput => "throughput",
            Profile::Balanced => "balanced",
            Profile::Latency => "latency",
        };
        let window = match self.commit_window_us() {
            0 => "off".to_owned(),
            us => format!("{us}us"),
        };
        let spans = self.flush_spans();
        format!("profile={name} — flush-spans={spans}, wal-commit-window={window}")
    }

    pub(super) fn has_mcp(&self) -> bool {
        self.mcp || self.mcp_annotations || self.mcp_promote || !self.mcp_allowed_origin.is_empty()
    }

    pub(super) fn tls(&self) -> Result<Option<Tls>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let tls = read_tls(certificate, key);
        Ok(Some(tls.map_err(|error| Failure::new(chain_text(&error)))?))
    }

    pub(super) fn store_options(&self, pricing: Pricing) -> Result<StoreOptions, Failure> {
        let seconds = |seconds| unless_zero(seconds).map(Duration::from_secs);
        let mut options = StoreOptions::default();
        options.durability = self.store_durability();
        options.flush_spans = self.flush_spans();
        options.flush_wal_bytes = self.flush_wal_bytes;
        options.max_buffer_age = seconds(self.max_buffer_age_seconds);
        options.commit_window = Duration::from_micros(self.commit_window_us());
        options.payload_threshold = unless_zero(self.payload_threshold_bytes).map(size);
        options.pricing = Arc::new(pricing);
        options.compaction = (self.compaction_fanout >= 2).then(|| Compaction {
            fanout: size(self.compaction_fanout),
            output_len_max: self.compaction_max_segment_bytes,
            ..Compaction::default()
        });
        options.retention.ttl = seconds(self.ttl_seconds);
        let by_tenant: BTreeMap<_, _> = self
            .tenant_ttl
            .iter()
            .map(|(tenant, ttl)| (tenant.clone(), seconds(*ttl)))
            .collect();
        options.retention.tenants = by_tenant;
        if let Some(interval) = milliseconds("TRAZA_RETENTION_TICK_MS")? {
            options.expiry_every = interval;
        }
        Ok(options)
    }

    pub(super) fn server_options(&self, tokens: Tokens) -> Result<ServerOptions, Failure> {
        let mut options = ServerOptions::default();
        options.tokens = tokens;
        options.max_connections = size(self.max_connections).max(1);
        options.query_deadline = unless_zero(self.query_deadline_ms).map(Duration::from_millis);
        options.tail_spans_max = size(self.tail_ring_spans).max(1);
        options.tail_bytes_max = size(self.tail_ring_bytes).max(1);
        options.ui_dir = self.find_ui();
        options.mcp = self.mcp_options()?;
        if let Some(timeout) = milliseconds("TRAZA_SOCKET_TIMEOUT_MS")? {
            options.socket_timeout = timeout;
        }
        if let Some(interval) = milliseconds("TRAZA_TAIL_HEARTBEAT_MS")? {
            options.tail_heartbeat = interval;
        }
        let panics = std::env::var("TRAZA_TEST_PANIC").unwrap_or_default();
        options.has_panic_route = !panics.is_empty() && panics != "0";
        Ok(options)
    }

    fn mcp_options(&self) -> Result<Option<McpOptions>, Failure> {
        if !self.has_mcp() {
            return Ok(None);
        }
        let tools = mcp::Options {
            annotations: self.mcp_annotations,
            promote: self.mcp_promote,
            result_len_max: size(self.mcp_max_result_bytes),
            payload_len_max: size(self.mcp_max_payload_bytes),
        };
        tools
            .check()
            .map_err(|error| Failure::new(error.to_string()))?;
        let allowed_origins = self.mcp_allowed_origin.clone();
        Ok(Some(McpOptions {
            tools,
            allowed_origins,
        }))
    }

    /// The first folder that has a page; one that was named counts whatever is in it.
    fn find_ui(&self) -> Option<PathBuf> {
        if let Some(named) = &self.ui_dir {
            return Some(named.clone());
        }
        let program = std::env::current_exe().ok();
        let beside = program.as_deref().and_then(std::path::Path::parent);
        let candidates = [
            std::env::var_os("TRAZA_UI_DIR").map(PathBuf::from),
            beside.map(|folder| folder.join("ui")),
            beside.map(|folder| folder.join("../share/traza/ui")),
            Some(PathBuf::from("ui/dist")),
        ];
        let mut candidates = candidates.into_iter().flatten();
        candidates.find(|folder| folder.join("index.html").is_file())
    }
}

fn milliseconds(variable: &str) -> Result<Option<Duration>, Failure> {
    let Some(text) = std::env::var_os(variable) else {
        return Ok(None);
    };
    let number = text.to_str().and_then(|text| text.parse().ok());
    match number.filter(|number| *number > 0) {
        Some(number) => Ok(Some(Duration::from_millis(number))),
        None => Err(Failure::new(format!(
            "{variable} must be a number of milliseconds"
        ))),
    }
}
