//! The project's tasks, run as `cargo dev VERB`: one file per verb, and nothing of the product.
#![expect(
    clippy::disallowed_methods,
    reason = "tasks read and write the source tree, where no fault is injected"
)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the terminal is a task's only face"
)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod bless;
mod check;
mod clients;
mod crash;
mod fuzz_smoke;
pub mod generate_all;
mod python;
mod python_env;
mod quality;
pub mod reference;
mod shell;
mod soak;
mod tidy;
mod tools;
mod tree;

/// What a task comes to: nothing to add, or one text saying what went wrong.
pub type Outcome<T = ()> = Result<T, String>;

/// The tasks of the Daybook workspace.
#[derive(Debug, Parser)]
#[command(name = "dev", bin_name = "cargo dev", disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Check(check::Check),
    GenerateAll(generate_all::GenerateAll),
    Bless(bless::Bless),
    Crash(crash::Crash),
    Soak(soak::Soak),
    FuzzSmoke(fuzz_smoke::FuzzSmoke),
    Bench(bench::Bench),
}

impl Cli {
    /// Runs the chosen verb.
    pub fn run(&self) -> Outcome {
        match &self.verb {
            Verb::Check(check) => check.run(),
            Verb::GenerateAll(generate) => generate.run(),
            Verb::Bless(bless) => bless.run(),
            Verb::Crash(crash) => crash.run(),
            Verb::Soak(soak) => soak.run(),
            Verb::FuzzSmoke(smoke) => smoke.run(),
            Verb::Bench(bench) => bench.run(),
        }
    }
}

/// Prints what went wrong, if anything, and turns it into the process's exit code.
pub fn exit_code(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
