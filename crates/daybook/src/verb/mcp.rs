//! `daybook mcp`: the endpoint of a server for agents that start a program and talk to it.

use std::io;

use clap::Args;
use traza_server::mcp::{Endpoint, bridge};

use crate::failure::{DONE, Failure, Outcome, chain_text};

/// Carries messages of MCP from standard input to a server, and its answers back.
///
/// One message a line, in both directions, until the input ends. The server must have been started with `--mcp`. The token
/// is taken from `TRAZA_TOKEN` when `--token` is left out; an argument can be seen by everybody on this machine.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook mcp --url http://127.0.0.1:4318
  TRAZA_TOKEN=secret daybook mcp --url http://127.0.0.1:8080/v1/mcp")]
pub(crate) struct McpArgs {
    /// The server, `http://HOST[:PORT][/PATH]`; the path of the endpoint when none is named.
    #[arg(long, value_name = "URL")]
    url: String,
    /// The token to send with every message.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

pub(crate) fn run(args: &McpArgs) -> Outcome {
    let token = match (&args.token, std::env::var_os("TRAZA_TOKEN")) {
        (Some(token), _) => Some(token.clone()),
        (None, Some(token)) => Some(
            token
                .into_string()
                .map_err(|_| Failure::new("TRAZA_TOKEN is not UTF-8"))?,
        ),
        (None, None) => None,
    };
    let failure = |error| Failure::new(chain_text(&error));
    let endpoint = Endpoint::new(&args.url, token.as_deref()).map_err(failure)?;
    let (input, output) = (io::stdin(), io::stdout());
    bridge(
        &endpoint,
        &mut input.lock(),
        &mut output.lock(),
        &mut io::stderr(),
    )
    .map_err(failure)?;
    Ok(DONE)
}
