//! The command `daybook`.

use std::process::ExitCode;

/// Spans go from thread to thread: see `docs/dependencies.md`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    daybook::main_with(std::env::args_os())
}
