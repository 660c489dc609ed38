//! Processes that begin at the same moment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::Result;

/// A process that speaks as `worker` does. It is killed when nobody waits for it any more.
#[derive(Debug)]
pub(crate) struct Member {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Member {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().ok_or("no standard input")?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let stdout = BufReader::new(stdout);
        Ok(Self {
            child,
            stdin,
            stdout,
        })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            return Err("a process ended without an answer".into());
        }
        Ok(line)
    }

    pub(crate) fn wait_ready(&mut self) -> Result<()> {
        match self.line()?.trim() {
            "ready" => Ok(()),
            other => Err(format!("a process said {other:?} instead of being ready").into()),
        }
    }

    /// To begin, or to stop.
    pub(crate) fn signal(&mut self) -> Result<()> {
        Ok(self.stdin.write_all(b"go\n")?)
    }

    /// What the process found, once it has ended.
    pub(crate) fn answer(&mut self) -> Result<Value> {
        let answer = serde_json::from_str(&self.line()?)?;
        self.child.wait()?;
        Ok(answer)
    }

    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // A process that has ended cannot be killed, which is fine.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Starts all, waits until each is ready, and lets them begin.
pub(crate) fn begin(commands: impl IntoIterator<Item = Command>) -> Result<Vec<Member>> {
    let mut crew = commands
        .into_iter()
        .map(|mut command| Member::start(&mut command))
        .collect::<Result<Vec<_>>>()?;
    crew.iter_mut().try_for_each(Member::wait_ready)?;
    crew.iter_mut().try_for_each(Member::signal)?;
    Ok(crew)
}

/// What each process found.
pub(crate) fn run(commands: impl IntoIterator<Item = Command>) -> Result<Vec<Value>> {
    begin(commands)?.iter_mut().map(Member::answer).collect()
}
