//! The peers that are written for Python: an environment with them, and the script that runs them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use durable::{Fs as _, RealFs};

use crate::Result;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/atj/peers.py");
const ENVIRONMENT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/atj-peers");
const OPTUNA: &str = "optuna==5.0.0";
const RUSTUNA: &str = "rustuna==0.2.0";

/// How Python peers are started, if they can be.
#[derive(Debug)]
pub(crate) struct Peers {
    python: Option<PathBuf>,
}

impl Peers {
    pub(crate) fn none() -> Self {
        Self { python: None }
    }

    /// Makes the environment, unless an earlier run did.
    pub(crate) fn prepare() -> Result<Self> {
        let python = PathBuf::from(ENVIRONMENT).join("bin/python");
        let peers = Self {
            python: Some(python.clone()),
        };
        if RealFs.exists(&python)? && peers.call("check", &[]).is_ok() {
            return Ok(peers);
        }
        let python = python.to_str().ok_or("a path that is not UTF-8")?;
        if succeeds("uv", &["venv", "--clear", ENVIRONMENT]).is_ok() {
            for package in [OPTUNA, RUSTUNA] {
                succeeds("uv", &["pip", "install", "--python", python, package])?;
            }
        } else {
            succeeds("python3", &["-m", "venv", "--clear", ENVIRONMENT])?;
            succeeds(python, &["-m", "pip", "install", OPTUNA, RUSTUNA])?;
        }
        peers.call("check", &[])?;
        Ok(peers)
    }

    /// A process of the script.
    pub(crate) fn command(&self, verb: &str, args: &[&str]) -> Result<Command> {
        let python = self.python.as_ref().ok_or("Python peers are missing")?;
        let mut command = Command::new(python);
        command.arg(SCRIPT).arg(verb).args(args);
        // Threads of the arithmetic libraries would only stand in each other's way.
        command.envs([("OMP_NUM_THREADS", "1"), ("OPENBLAS_NUM_THREADS", "1")]);
        Ok(command)
    }

    pub(crate) fn call(&self, verb: &str, args: &[&str]) -> Result<()> {
        finish(&mut self.command(verb, args)?, verb)
    }
}

fn succeeds(program: &str, args: &[&str]) -> Result<()> {
    finish(Command::new(program).args(args), program)
}

fn finish(command: &mut Command, what: &str) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("{what}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    Err(format!("{what} failed: {last}").into())
}
