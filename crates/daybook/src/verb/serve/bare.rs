//! The command `traza-server`: the same server under the name, with the flags and the words that its clients know.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::ServeArgs;
use crate::failure::{Failure, Outcome};
use crate::verb::{mcp, trace};

/// The port when none is named.
const PORT: u16 = 8080;

/// Serves a store of traces over HTTP and gRPC.
#[derive(Debug, Parser)]
#[command(
    name = "traza-server",
    version,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
pub(crate) struct TrazaServer {
    #[command(subcommand)]
    verb: Option<TrazaVerb>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
enum TrazaVerb {
    Verify(VerifyErasureArgs),
    Mcp(mcp::McpArgs),
}

/// The receipt of an erasure, of a folder that nobody serves.
#[derive(Args, Debug)]
struct VerifyErasureArgs {
    /// The number of the erasure, or `latest`.
    #[arg(long, value_name = "ID")]
    erasure: String,
    /// The folder of the store.
    #[arg(long, value_name = "DIR", default_value = "./data")]
    data_dir: std::path::PathBuf,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

impl TrazaServer {
    /// Reads the arguments. A negative number is a value that is wrong, and no flag.
    pub(crate) fn parse(
        args: impl IntoIterator<Item = std::ffi::OsString>,
    ) -> Result<Self, clap::Error> {
        let command = Self::command().mut_args(|arg| {
            let takes_one = arg.get_action().takes_values();
            arg.allow_negative_numbers(takes_one)
        });
        Self::from_arg_matches(&command.try_get_matches_from(args)?)
    }

    pub(crate) fn run(self) -> Outcome {
        let outcome = match &self.verb {
            None => super::serve(&self.serve, PORT),
            Some(TrazaVerb::Verify(args)) => {
                trace::receipt_alone(&args.data_dir, &args.erasure, args.json)
            }
            Some(TrazaVerb::Mcp(args)) => mcp::run(args),
        };
        // Whatever could not be done has always been this code here.
        outcome.map_err(|failure| failure.with_code(1))
    }

    /// What is wrong with the arguments, in the words of this command; `None` for help and version, which are no errors.
    pub(crate) fn fault(error: &clap::Error) -> Option<Failure> {
        let text = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => {
                text.split([' ', '=']).next().unwrap_or_default().to_owned()
            }
            _ => String::new(),
        };
        let value = match error.get(ContextKind::InvalidValue) {
            Some(ContextValue::String(value)) => value.clone(),
            _ => String::new(),
        };
        let argument = text(ContextKind::InvalidArg);
        let what = match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return None,
            ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand => {
                let subcommand = text(ContextKind::InvalidSubcommand);
                let name = if argument.is_empty() {
                    subcommand
                } else {
                    argument
                };
                format!("unknown argument: {name}")
            }
            ErrorKind::InvalidValue if value.is_empty() => format!("{argument} requires a value"),
            ErrorKind::MissingRequiredArgument => {
                let missing = match error.get(ContextKind::InvalidArg) {
                    Some(ContextValue::Strings(missing)) => missing.join(", "),
                    _ => argument,
                };
                format!("{missing} is required")
            }
            ErrorKind::ValueValidation => match std::error::Error::source(error) {
                Some(cause) => format!("{argument} {cause}"),
                None => format!("{argument} must be a non-negative number"),
            },
            _ => {
                let text = error.to_string();
                let line = text.lines().next().unwrap_or_default();
                line.trim_start_matches("error: ").to_owned()
            }
        };
        Some(Failure::new(what).with_code(1))
    }
}
