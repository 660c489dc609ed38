//! The command `traza-server`, by the name that clients of the wire surface start.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    daybook::traza_server_with(std::env::args_os())
}
