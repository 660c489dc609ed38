//! A training program to record and to tune, in Rust and without Python:
//!
//! ```text
//! cargo build --release --example moons
//! daybook record -o run.omni -- target/release/examples/moons --lr 0.5
//! daybook why run.omni lr
//! ```
//!
//! `daybook demo` runs the same training, tunes it and shows what can be asked of the records.

mod spans;
mod train;

use std::process::ExitCode;

use clap::Parser;

/// The command line.
#[derive(Parser)]
struct Moons {
    #[command(flatten)]
    args: train::TrainArgs,
}

fn main() -> ExitCode {
    match train::run(&Moons::parse().args) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever was to read the lines is gone, or the disk is full: there is nobody to tell.
        Err(_) => ExitCode::FAILURE,
    }
}
