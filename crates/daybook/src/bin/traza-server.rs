//! The command `traza-server`, by the name that clients of the wire surface start.

use std::process::ExitCode;

fn main() -> ExitCode {
    daybook::traza_server_with(std::env::args_os())
}
