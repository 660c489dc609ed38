//! `cargo dev`: see `cargo dev --help`.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    xtask::exit_code(xtask::Cli::parse().run())
}
