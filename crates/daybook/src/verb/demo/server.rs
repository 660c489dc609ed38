//! The server of traces that the story runs beside.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anstream::eprintln;

use super::steps::{Running, Steps};
use crate::failure::Failure;
use crate::styles::FAINT;

/// How long a server may take to listen.
const START_MAX: Duration = Duration::from_mins(1);
const TICK: Duration = Duration::from_millis(50);
/// What stands before the address.
const LISTENING: &str = "listening on ";

/// A server, which ends with the story.
pub(super) struct Served {
    child: Running,
    /// Where it is, without a slash at the end.
    pub(super) url: String,
    passing_on: Option<JoinHandle<()>>,
}

/// Starts a server of the folder `traces`, and waits until it listens.
pub(super) fn start(steps: &Steps, port: u16) -> Result<Served, Failure> {
    let (folder, port) = (steps.text("traces"), port.to_string());
    let args = ["serve", "--data", &folder, "--port", &port];
    steps.show(&[], &args)?;
    let mut command = steps.command(&args);
    // A group of its own: Ctrl-C reaches the teller, who ends the server last, and once.
    command.process_group(0).stderr(Stdio::piped());
    let mut child = Running::of("the server", command.spawn())?;
    let (sender, receiver) = channel();
    let passing_on = child.0.stderr.take().map(|stderr| {
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if let Some((_, address)) = line.split_once(LISTENING) {
                    sender.send(format!("http://{address}")).ok();
                }
                eprintln!("{FAINT}{line}{FAINT:#}");
            }
        })
    });
    let url = address(steps, &mut child, &receiver)?;
    Ok(Served {
        child,
        url,
        passing_on,
    })
}

fn address(
    steps: &Steps,
    child: &mut Running,
    receiver: &Receiver<String>,
) -> Result<String, Failure> {
    let begun = Instant::now();
    loop {
        match receiver.recv_timeout(TICK) {
            Ok(url) => return Ok(url),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new("the server ended before it listened")
                    .with_hint("--port 0 takes a free port"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        steps.check()?;
        if child.status()?.is_none() && begun.elapsed() > START_MAX {
            return Err(Failure::new(format!(
                "the server did not listen within {START_MAX:?}"
            )));
        }
    }
}

impl Served {
    /// Asks it to end, as an operator does, and waits until everything is in the folder.
    pub(super) fn stop(mut self) -> Result<ExitStatus, Failure> {
        let status = self.child.end()?;
        if let Some(passing_on) = self.passing_on.take() {
            passing_on.join().ok();
        }
        Ok(status)
    }

    /// How it ended, if it has.
    pub(super) fn status(&mut self) -> Result<Option<ExitStatus>, Failure> {
        self.child.status()
    }
}
