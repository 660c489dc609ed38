//! The command line of Daybook. It knows no format: what a file is, and what its bytes prove, the
//! record crates say.
//!
//! Results go to standard output and talk to standard error. The exit code is 0 when a thing is done
//! or checked and good, 1 when it was checked and is bad, 2 when it could not be checked or done.

mod amounts;
mod attesting;
mod cli;
mod controlling;
mod failure;
mod keys;
mod kind;
mod moment;
mod new_file;
mod output;
mod parquet_rows;
mod progress;
mod series;
mod sparkline;
mod styles;
mod text;
mod trace_parent;
mod verb;
mod verdict;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};

/// The definition of the command line, from which help, completions and the reference are made.
pub fn command() -> clap::Command {
    cli::Cli::command()
}

/// Runs `daybook` with these arguments, the program's name first.
pub fn main_with(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    run(verb::trace::fill_folder(args), "daybook", cli::Cli::run)
}

/// Runs `omniloop` with these arguments, the program's name first.
pub fn omniloop_with(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    run(args, "omniloop", verb::omniloop::Omniloop::run)
}

/// Runs `traza-server` with these arguments, the program's name first.
pub fn traza_server_with(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    use verb::serve::TrazaServer;
    let outcome = match TrazaServer::parse(args) {
        Ok(parsed) => parsed.run(),
        Err(error) => TrazaServer::fault(&error).map_or_else(
            || {
                error.print().ok();
                Ok(failure::DONE)
            },
            Err,
        ),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.print("traza-server");
            ExitCode::from(failure.code)
        }
    }
}

fn run<P: Parser>(
    args: impl IntoIterator<Item = OsString>,
    program: &str,
    verb: impl FnOnce(P) -> failure::Outcome,
) -> ExitCode {
    let parsed = match P::try_parse_from(args) {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help that nobody reads to its end is not a failure.
            error.print().ok();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(failure::COULD_NOT));
        }
    };
    match verb(parsed) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.print(program);
            ExitCode::from(failure.code)
        }
    }
}
