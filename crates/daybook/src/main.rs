//! The command `daybook`.

use std::process::ExitCode;

fn main() -> ExitCode {
    daybook::main_with(std::env::args_os())
}
