//! `daybook completions`: what a shell needs to complete the command line.

use std::io::Write as _;

use clap::Args;
use clap_complete::Shell;

use crate::failure::{DONE, Outcome};
use crate::output::Out;

/// Prints a completion script for a shell.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook completions bash > ~/.local/share/bash-completion/completions/daybook
  daybook completions fish > ~/.config/fish/completions/daybook.fish
  daybook completions zsh > ~/.zfunc/_daybook")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "daybook", &mut script);
    let mut out = Out::raw();
    out.write_all(&script)?;
    out.flush()?;
    Ok(DONE)
}
