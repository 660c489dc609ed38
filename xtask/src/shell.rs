//! Runs other programs, from the root of the workspace and with nothing on standard input.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::Outcome;

/// The root of the workspace: the folder above this package, wherever the tree was put.
pub(crate) fn root() -> PathBuf {
    // Cargo sets the variable for whatever it runs, so a moved tree needs no rebuild.
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package
        .parent()
        .map_or_else(|| PathBuf::from("."), PathBuf::from)
}

/// The project's own place for tools that the machine lacks.
pub(crate) fn tools_folder() -> PathBuf {
    root().join(".tools")
}

/// A call of cargo with `args`, split at spaces.
pub(crate) fn cargo(args: &str) -> Command {
    let mut command = program("cargo");
    command.args(args.split_whitespace());
    command
}

/// A call of `name`, which may be one of the project's own tools.
pub(crate) fn program(name: impl Into<OsString>) -> Command {
    let mut command = Command::new(name.into());
    let machine = env::var_os("PATH").unwrap_or_default();
    let own = tools_folder().join("bin");
    if let Ok(path) = env::join_paths(env::split_paths(&machine).chain([own])) {
        command.env("PATH", path);
    }
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// Shows and runs `command`; an exit code other than zero is an error.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let shown = line(command);
    println!("$ {shown}");
    let status = command
        .status()
        .map_err(|e| format!("cannot start `{shown}`: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{shown}` failed: {status}"))
    }
}

/// Runs `command` unseen and gives its standard output.
pub(crate) fn output(command: &mut Command) -> Outcome<String> {
    let shown = line(command);
    let output = command
        .output()
        .map_err(|e| format!("cannot start `{shown}`: {e}"))?;
    if !output.status.success() {
        let talk = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "`{shown}` failed: {}: {}",
            output.status,
            talk.trim()
        ));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("`{shown}` did not print text: {e}"))
}

fn line(command: &Command) -> String {
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    words
        .map(|w| {
            let word = w.to_string_lossy();
            if word.contains([' ', '(', '*']) {
                format!("'{word}'")
            } else {
                word.into_owned()
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}
