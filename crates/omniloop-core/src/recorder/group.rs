//! The processes of a recorded command as one group, for callers that end commands themselves.

use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::payload::Payload;
use super::queue::Recorder;
use crate::journal::FrameKind;

/// The process group of a recorded command: signals reach the command and its children together, and
/// none of them outlives it.
///
/// A child that makes itself a group of its own is out of reach, as it is for a shell.
#[derive(Debug, Default)]
pub struct CommandGroup(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    NotStarted,
    /// A signal came before the command was started.
    Awaited(Signal, String),
    Running(Pid, Weak<Recorder>),
    Ended,
}

impl CommandGroup {
    /// Asks the group to end, with SIGTERM. `why` goes into the recording.
    pub fn terminate(&self, why: &str) {
        self.send(Signal::TERM, why);
    }

    /// Ends the group, with SIGKILL. `why` goes into the recording.
    pub fn kill(&self, why: &str) {
        self.send(Signal::KILL, why);
    }

    fn send(&self, signal: Signal, why: &str) {
        let mut state = self.lock();
        match &*state {
            State::NotStarted | State::Awaited(..) => {
                *state = State::Awaited(signal, why.to_owned());
            }
            State::Running(leader, recorder) => deliver(*leader, recorder, signal, why),
            State::Ended => {}
        }
    }

    /// The command runs, as the leader of its group.
    pub(super) fn start(&self, child: &Child, recorder: Weak<Recorder>) {
        let Some(leader) = pid_of(child) else {
            return;
        };
        let mut state = self.lock();
        if let State::Awaited(signal, why) = &*state {
            deliver(leader, &recorder, *signal, why);
        }
        *state = State::Running(leader, recorder);
    }

    /// Waits for the command, and ends what it left of its group.
    pub(super) fn wait(&self, child: &mut Child) -> std::io::Result<ExitStatus> {
        if let Some(leader) = pid_of(child) {
            // Seen, not reaped: as long as the leader is a zombie, nobody else's group has its number.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(error) = waitid(WaitId::Pid(leader), options) {
                if error != rustix::io::Errno::INTR {
                    break;
                }
            }
            kill_process_group(leader, Signal::KILL).ok();
        }
        *self.lock() = State::Ended;
        child.wait()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn deliver(leader: Pid, recorder: &Weak<Recorder>, signal: Signal, why: &str) {
    if let Some(recorder) = recorder.upgrade() {
        let name = signal_hook::low_level::signal_name(signal.as_raw()).unwrap_or("unknown");
        let payload = Payload::new("command", "signal")
            .with("signal", name)
            .with("sender_pid", std::process::id())
            .with("passed_on", true)
            .with("why", why);
        recorder.record(FrameKind::Control, payload.bytes()).ok();
    }
    kill_process_group(leader, signal).ok();
}
