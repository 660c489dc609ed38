//! `daybook serve`, and the command `traza-server`: a store behind HTTP and gRPC.

mod args;
mod bare;

use std::net::{IpAddr, TcpListener, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;

use anstream::eprintln;
use durable::{Clock, RealFs, SystemClock, read_all};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use traza::llm::Pricing;
use traza::store::{Progress, Store, restore};
use traza_server::{Listeners, Running, Tokens};

use crate::failure::{DONE, Failure, Outcome, chain_text};

pub(crate) use args::ServeArgs;
pub(crate) use bare::TrazaServer;

/// The longest price list that is read, in bytes.
const PRICING_LEN_MAX: u64 = 16 << 20;
/// The port of OTLP over gRPC.
const OTLP_GRPC_PORT: u16 = 4317;
/// The port of OTLP over HTTP, and of `daybook serve`.
const OTLP_HTTP_PORT: u16 = 4318;

pub(crate) fn run(args: &ServeArgs) -> Outcome {
    serve(args, OTLP_HTTP_PORT)
}

/// Serves until a signal ends it. `port` is the one that holds when none is named.
fn serve(args: &ServeArgs, port: u16) -> Outcome {
    let port = args.port.unwrap_or(port);
    let mut signals = Signals::new([SIGTERM, SIGINT])
        .map_err(|error| Failure::io("cannot wait for signals", &error))?;
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn"))
        .format_timestamp_millis()
        .init();
    let tokens = tokens()?;
    check_bind(args, &tokens)?;
    let tls = args.tls()?;
    if let Some(source) = &args.restore {
        let restored = restore(&RealFs, source, &args.data_dir)?;
        eprintln!(
            "traza-server: restored generation {} of {}",
            restored.source_generation,
            source.display()
        );
    }
    let options = args.store_options(pricing(args.pricing.as_ref())?)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let store = Store::open_with_progress(
        Arc::new(RealFs),
        Arc::clone(&clock),
        &args.data_dir,
        options,
        &mut |progress: Progress<'_>| {
            log::warn!(
                "converting a store of an older release: {} of {} bytes, at {}",
                progress.done_bytes,
                progress.total_bytes,
                progress.path.display()
            );
        },
    )?;
    let mut listeners = Listeners {
        tls,
        ..Listeners::default()
    };
    listeners.http.push(bind(&args.host, port)?);
    if args.otlp && port != OTLP_HTTP_PORT {
        listeners.http.push(bind(&args.host, OTLP_HTTP_PORT)?);
    }
    if args.otlp {
        listeners.grpc.push(bind(&args.host, OTLP_GRPC_PORT)?);
    }
    let server_options = args.server_options(tokens)?;
    let has_page = server_options.ui_dir.clone();
    let running = traza_server::start(Arc::new(store), clock, server_options, listeners)
        .map_err(|error| Failure::new(chain_text(&error)))?;
    announce(args, &running, has_page);
    signals.forever().next();
    finish(running, signals)
}

/// Ends as soon as everything is safe; a second signal ends it at once.
fn finish(running: Running, mut signals: Signals) -> Outcome {
    let handle = signals.handle();
    let impatient = std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            // What was acknowledged is in the log.
            signal_hook::low_level::exit(130);
        }
    });
    let stopped = running.stop();
    handle.close();
    impatient.join().ok();
    if stopped.broken_off > 0 {
        eprintln!(
            "traza-server: {} requests did not end in time and were broken off",
            stopped.broken_off
        );
    }
    match stopped.generation {
        Ok(generation) => {
            eprintln!("traza-server: stopped; generation {generation} holds everything");
            Ok(DONE)
        }
        Err(error) => Err(Failure::new(format!(
            "stopped, and no generation was published: {}",
            chain_text(&error)
        ))
        .with_hint("what was acknowledged is in the store; the next start goes on with it")),
    }
}

fn announce(args: &ServeArgs, running: &Running, ui_dir: Option<PathBuf>) {
    let addresses = running.addresses();
    let mut addresses = addresses.iter();
    if let Some(first) = addresses.next() {
        eprintln!("traza-server listening on {first}");
    }
    eprintln!("traza-server: durability={}", args.durability());
    eprintln!("traza-server: {}", args.profile_line());
    for address in addresses {
        eprintln!("traza-server: OTLP over HTTP on {address}");
    }
    if args.otlp {
        eprintln!("traza-server: OTLP over gRPC on port {OTLP_GRPC_PORT}");
    }
    if args.has_mcp() {
        eprintln!("traza-server: MCP at /v1/mcp");
    }
    match ui_dir {
        Some(folder) => eprintln!("traza-server: web pages from {}", folder.display()),
        None => eprintln!("traza-server: the built-in web page at /"),
    }
}

fn tokens() -> Result<Tokens, Failure> {
    let Some(list) = std::env::var_os("TRAZA_TOKENS") else {
        return Ok(Tokens::default());
    };
    let hint = "TRAZA_TOKENS is a list of scope[@tenant]:token with commas between; scopes are ro, rw and admin";
    let failure =
        |what: String| Failure::new(format!("auth configuration: {what}")).with_hint(hint);
    let list = list
        .into_string()
        .map_err(|_| failure("not UTF-8".to_owned()))?;
    Tokens::parse(&list).map_err(|error| failure(error.to_string()))
}

/// Whoever can reach the port of a server without tokens can read and erase everything.
fn check_bind(args: &ServeArgs, tokens: &Tokens) -> Result<(), Failure> {
    let host = args.host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host.eq_ignore_ascii_case("localhost")
        || host
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback());
    if is_loopback || !tokens.is_open() || args.allow_unauthenticated_non_loopback {
        return Ok(());
    }
    let what = format!(
        "refusing unauthenticated non-loopback bind to {host}: everybody who can reach it could read and erase everything"
    );
    let hint = "set TRAZA_TOKENS, or say --allow-unauthenticated-non-loopback if something else keeps strangers out";
    Err(Failure::new(what).with_hint(hint))
}

fn bind(host: &str, port: u16) -> Result<TcpListener, Failure> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let tried = format!("cannot listen on {host}:{port}");
    let addresses: Vec<_> = (host, port)
        .to_socket_addrs()
        .map_err(|error| Failure::io(&tried, &error))?
        .collect();
    TcpListener::bind(addresses.as_slice()).map_err(|error| {
        Failure::io(&tried, &error)
            .with_hint("--port 0 takes a free one; another server may have this one")
    })
}

fn pricing(path: Option<&PathBuf>) -> Result<Pricing, Failure> {
    let Some(path) = path else {
        return Ok(Pricing::default());
    };
    let tried = format!("cannot read {}", path.display());
    let bytes =
        read_all(&RealFs, path, PRICING_LEN_MAX).map_err(|error| Failure::io(&tried, &error))?;
    Pricing::from_json(&bytes)
        .map_err(|error| Failure::new(format!("{}: {}", path.display(), chain_text(&error))))
}
