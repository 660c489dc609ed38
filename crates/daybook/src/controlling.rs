//! Letting somebody attend a command while it is recorded.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use omniloop_control::{Change, Control, HaltPolicy, Order, Param, Server, ServerError, Standing};
use omniloop_core::recorder::{CommandGroup, RunningGroup, TelemetryListener};
use serde_json::{Value, json};

use crate::failure::Failure;

/// How long the end of a command may go unnoticed by whoever waits for an answer.
const LOOK: Duration = Duration::from_millis(50);

/// The thread that takes the turns of an attended command, and the socket before it.
///
/// A command knows of no ticks: it is halted where it is, by SIGSTOP to all of its process group, and what
/// it had printed by then is still recorded.
pub(crate) struct Controlling {
    control: Arc<Control>,
    group: Arc<CommandGroup>,
    server: Server,
    thread: JoinHandle<()>,
}

impl Controlling {
    /// Listens at `socket`. What is asked waits until the command runs.
    pub(crate) fn start(
        socket: &Path,
        run: &Path,
        policy: HaltPolicy,
        params: Vec<(String, Param)>,
    ) -> Result<Self, Failure> {
        let group = Arc::new(CommandGroup::attended(!params.is_empty()));
        let control = Arc::new(Control::new(run, policy));
        for (name, param) in params {
            control.declare(&name, param);
        }
        let server = Server::start(socket, Arc::clone(&control))?;
        let thread = {
            let (control, group) = (Arc::clone(&control), Arc::clone(&group));
            std::thread::Builder::new()
                .name("controlling".to_owned())
                .spawn(move || take_turns(&control, &group))
                .map_err(|error| Failure::io("cannot start a thread", &error))?
        };
        Ok(Self {
            control,
            group,
            server,
            thread,
        })
    }

    /// The group in which the command must run.
    pub(crate) fn group(&self) -> Arc<CommandGroup> {
        Arc::clone(&self.group)
    }

    /// Whoever must be told the telemetry.
    pub(crate) fn listener(&self) -> TelemetryListener {
        let (control, ticks) = (Arc::clone(&self.control), AtomicU64::new(0));
        TelemetryListener(Arc::new(move |object| {
            let tick = ticks.fetch_add(1, Ordering::AcqRel).saturating_add(1);
            let telemetry = control.has_watches().then(|| Value::Object(object.clone()));
            control.count_tick(tick, telemetry.as_ref());
        }))
    }

    /// The command has ended, or was never started.
    pub(crate) fn finish(self) {
        self.server.close();
        self.thread.join().ok();
    }
}

/// Until the control ends, which the socket's end brings about.
fn take_turns(control: &Control, group: &CommandGroup) {
    let mut seen = 0;
    while !control.has_ended() {
        // A recording that fails does not end the command; what is asked of it is refused from then on.
        let turned = group.while_running(|running| {
            if group.was_woken() {
                control.resume(running.recorder(), "a signal woke it").ok();
            }
            control.turn(running.recorder(), &mut |order| carry_out(running, &order))
        });
        if let Some(Ok(turn)) = turned {
            seen = turn.seen;
        } else if group.has_ended() {
            control.end();
        }
        control.wait(seen, LOOK);
    }
}

fn carry_out(running: &RunningGroup<'_>, order: &Order<'_>) -> Result<(), String> {
    match order {
        Order::Set(change) => running.send_line(&line(change)).map_err(|error| {
            match error.kind() {
                io::ErrorKind::WouldBlock => "the command does not read its standard input",
                io::ErrorKind::BrokenPipe => "the command has closed its standard input",
                _ => "the value is too long for one line of 4096 bytes",
            }
            .to_owned()
        }),
        Order::Stand(Standing::Going) => {
            running.go_on();
            Ok(())
        }
        Order::Stand(Standing::Halted(_)) => {
            running.halt();
            Ok(())
        }
        Order::Stand(Standing::Leaving(_)) => {
            running.terminate();
            Ok(())
        }
    }
}

/// The line that the command gets: the one that `daybook replay` hands to it again.
fn line(change: &Change) -> String {
    json!({ "tick": change.tick, "channel": "control", "value": change.input }).to_string()
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        let failure = Self::new(crate::failure::chain_text(&error));
        match error {
            ServerError::InUse { .. } => {
                failure.with_hint("`daybook ctl SOCK status` tells what runs there")
            }
            _ => failure,
        }
    }
}

/// A parameter as `--param` spells it: NAME=VALUE, or NAME=VALUE,MIN..MAX of which either may be left out.
pub(crate) fn param(text: &str) -> Result<(String, Param), String> {
    let (name, rest) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("a parameter is NAME=VALUE or NAME=VALUE,MIN..MAX")?;
    let (value, limits) = match rest.rsplit_once(',') {
        Some((value, limits)) if limits.contains("..") => (value, Some(limits)),
        _ => (rest, None),
    };
    let value = value_of(value);
    let Some(limits) = limits else {
        let (min, max) = (None, None);
        return Ok((name.to_owned(), Param { value, min, max }));
    };
    let limit = |text: &str| -> Result<Option<f64>, String> {
        match text.trim() {
            "" => Ok(None),
            text => match text.parse::<f64>() {
                Ok(limit) if limit.is_finite() => Ok(Some(limit)),
                _ => Err(format!("the limit {text:?} is no number")),
            },
        }
    };
    let (min, max) = limits.split_once("..").unwrap_or_default();
    let (min, max) = (limit(min)?, limit(max)?);
    let Some(number) = value.as_f64() else {
        return Err("only a number has limits".to_owned());
    };
    if min.is_some_and(|min| number < min) || max.is_some_and(|max| number > max) {
        return Err("the value is not within the limits".to_owned());
    }
    Ok((name.to_owned(), Param { value, min, max }))
}

/// A value as it is typed: JSON, or else the text itself.
pub(crate) fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_with_and_without_limits() {
        let read =
            |text| param(text).map(|(name, param)| (name, param.value, param.min, param.max));
        let lr = |min, max| Ok(("lr".to_owned(), json!(0.1), min, max));
        assert_eq!(read("lr=0.1"), lr(None, None));
        assert_eq!(read("lr=0.1,0..1"), lr(Some(0.0), Some(1.0)));
        assert_eq!(read("lr=0.1,..1e0"), lr(None, Some(1.0)));
        assert_eq!(read("lr=0.1,-1.."), lr(Some(-1.0), None));
        assert_eq!(
            read("mode=a,b"),
            Ok(("mode".to_owned(), json!("a,b"), None, None))
        );
        for odd in [
            "lr",
            "=1",
            "lr=2,0..1",
            "lr=a,0..1",
            "lr=1,a..b",
            "lr=1,0..inf",
        ] {
            assert!(read(odd).is_err(), "{odd}");
        }
    }
}
