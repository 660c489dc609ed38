//! The processes of a recorded command as one group, for callers that end, halt or address commands
//! themselves.

use std::io::{self, Write as _};
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::payload::Payload;
use super::queue::Recorder;
use crate::journal::FrameKind;

/// The longest line that a pipe takes whole or not at all.
const LINE_LEN_MAX: usize = 4096;

/// The process group of a recorded command: signals reach the command and its children together, and
/// none of them outlives it, unless it is [`attended`](Self::attended).
///
/// A child that makes itself a group of its own is out of reach, as it is for a shell.
#[derive(Debug, Default)]
pub struct CommandGroup {
    state: Mutex<State>,
    is_attended: bool,
    takes_lines: bool,
    lines: Mutex<Option<ChildStdin>>,
    /// A signal that was passed on has also woken the group.
    was_woken: AtomicBool,
}

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
    /// A group that somebody attends while it runs: it can be [halted](RunningGroup::halt), this
    /// process's signals are recorded and passed on to all of it, and what the command leaves behind is
    /// not ended. With `takes_lines` its standard input is a pipe for [`RunningGroup::send_line`].
    pub fn attended(takes_lines: bool) -> Self {
        Self {
            is_attended: true,
            takes_lines,
            ..Self::default()
        }
    }

    /// Works with the running command, which does not end meanwhile; `None` before it runs and after it
    /// has ended.
    pub fn while_running<R>(&self, work: impl FnOnce(&RunningGroup<'_>) -> R) -> Option<R> {
        let state = self.lock();
        let State::Running(leader, recorder) = &*state else {
            return None;
        };
        let recorder = recorder.upgrade()?;
        Some(work(&RunningGroup {
            group: self,
            leader: *leader,
            recorder: &recorder,
        }))
    }

    /// True once the command has ended.
    pub fn has_ended(&self) -> bool {
        matches!(&*self.lock(), State::Ended)
    }

    /// Whether a signal that was passed on has woken the group since this was last asked.
    pub fn was_woken(&self) -> bool {
        self.was_woken.swap(false, Ordering::AcqRel)
    }

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

    pub(super) fn is_attended(&self) -> bool {
        self.is_attended
    }

    pub(super) fn takes_lines(&self) -> bool {
        self.takes_lines
    }

    /// Passes on a signal that this process got. One that asks for the end also wakes the group, which
    /// could not act on it otherwise.
    pub(super) fn pass_on(&self, signal: Signal) {
        self.raise(signal);
        if [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM].contains(&signal) {
            self.raise(Signal::CONT);
            self.was_woken.store(true, Ordering::Release);
        }
    }

    fn raise(&self, signal: Signal) {
        if let State::Running(leader, _) = &*self.lock() {
            kill_process_group(*leader, signal).ok();
        }
    }

    /// The command runs, as the leader of its group.
    pub(super) fn start(&self, child: &mut Child, recorder: Weak<Recorder>) {
        let Some(leader) = pid_of(child) else {
            return;
        };
        if self.takes_lines {
            let pipe = child.stdin.take().filter(|pipe| {
                // A command that reads nothing must not hold up whoever sends lines.
                let flags = fcntl_getfl(pipe);
                flags.is_ok_and(|flags| fcntl_setfl(pipe, flags | OFlags::NONBLOCK).is_ok())
            });
            *self.lines() = pipe;
        }
        let mut state = self.lock();
        if let State::Awaited(signal, why) = &*state {
            deliver(leader, &recorder, *signal, why);
        }
        *state = State::Running(leader, recorder);
    }

    /// Waits for the command, and ends what it left of its group.
    pub(super) fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        if let Some(leader) = pid_of(child) {
            // Seen, not reaped: as long as the leader is a zombie, nobody else's group has its number.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(error) = waitid(WaitId::Pid(leader), options) {
                if error != rustix::io::Errno::INTR {
                    break;
                }
            }
            if !self.is_attended {
                kill_process_group(leader, Signal::KILL).ok();
            }
        }
        *self.lock() = State::Ended;
        *self.lines() = None;
        child.wait()
    }

    /// Locked after the state, never before it.
    fn lines(&self) -> MutexGuard<'_, Option<ChildStdin>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A group while its command runs.
#[derive(Debug)]
pub struct RunningGroup<'g> {
    group: &'g CommandGroup,
    leader: Pid,
    recorder: &'g Recorder,
}

impl RunningGroup<'_> {
    /// The recording of the command.
    pub fn recorder(&self) -> &Recorder {
        self.recorder
    }

    /// Stops every process of the group where it is, with SIGSTOP, until [`go_on`](Self::go_on).
    pub fn halt(&self) {
        kill_process_group(self.leader, Signal::STOP).ok();
    }

    /// Lets a halted group go on.
    pub fn go_on(&self) {
        kill_process_group(self.leader, Signal::CONT).ok();
    }

    /// Asks the group to end, with SIGTERM, and wakes it for that.
    pub fn terminate(&self) {
        kill_process_group(self.leader, Signal::TERM).ok();
        self.go_on();
    }

    /// Puts a line into the command's standard input, whole or not at all, and without waiting.
    ///
    /// # Errors
    /// `InvalidInput` for a line of more than 4096 bytes; `WouldBlock` when the command does not read
    /// its input; `BrokenPipe` when it has closed it, or has none.
    pub fn send_line(&self, line: &str) -> io::Result<()> {
        let mut lines = self.group.lines();
        let pipe = lines.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut bytes = line.as_bytes().to_vec();
        bytes.push(b'\n');
        if bytes.len() > LINE_LEN_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // Up to this length a write to a pipe is one piece.
        pipe.write_all(&bytes)
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
