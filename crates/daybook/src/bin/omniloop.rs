//! The command `omniloop`, by the name that the format's own documents use.

use std::process::ExitCode;

fn main() -> ExitCode {
    daybook::omniloop_with(std::env::args_os())
}
