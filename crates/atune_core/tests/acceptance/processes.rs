//! Real processes: a test starts its own binary again for each, and they speak in lines. A process that
//! finds a part in its environment plays it instead of being the test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const STUDY: &str = "ATUNE_PART_STUDY";
const WORKER: &str = "ATUNE_PART_WORKER";
const ORDERS: &str = "ATUNE_PART_ORDERS";
/// What a process says stands behind this: the test harness prints too, on the same line at times.
const SAID: &str = "said: ";
/// Longer than anything takes on a busy machine, and shorter than the time that a test has.
const PATIENCE: Duration = Duration::from_secs(45);

/// What a process that a test started is to do.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) study: PathBuf,
    pub(crate) worker: u64,
    pub(crate) orders: String,
}

/// The part of this process; none in the test itself.
pub(crate) fn part() -> Option<Part> {
    Some(Part {
        study: std::env::var_os(STUDY)?.into(),
        worker: std::env::var(WORKER).ok()?.parse().ok()?,
        orders: std::env::var(ORDERS).ok()?,
    })
}

/// Tells the test something. It arrives even if the process is killed right afterwards.
pub(crate) fn say(what: impl std::fmt::Display) {
    println!("{SAID}{what}");
}

/// Waits for a word of the test.
pub(crate) fn hear() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// Ends this process as `kill -9` does.
pub(crate) fn kill_itself() -> ! {
    kill_process(rustix::process::getpid(), Signal::KILL).ok();
    unreachable!("the signal cannot be caught")
}

/// Waits until something is so that another process or thread brings about.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Lets processes begin at the same moment, once each has said that it is ready.
pub(crate) fn begin(crew: &mut [Member]) {
    for member in &*crew {
        member.expect("ready");
    }
    for member in crew {
        member.tell("go");
    }
}

/// A process that plays a part. It is killed when nobody waits for it any more.
#[derive(Debug)]
pub(crate) struct Member {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Member {
    /// Starts the test of this full name once more, as a part of itself.
    pub(crate) fn start(test: &str, study: &Path, worker: u64, orders: &str) -> Self {
        Self::start_by(&[], test, study, worker, orders)
    }

    /// As [`start`](Self::start), through a command that starts what follows its own words.
    pub(crate) fn start_by(
        starter: &[&str],
        test: &str,
        study: &Path,
        worker: u64,
        orders: &str,
    ) -> Self {
        let own = std::env::current_exe().unwrap();
        let words: Vec<&std::ffi::OsStr> = starter
            .iter()
            .map(|word| std::ffi::OsStr::new(*word))
            .chain([own.as_os_str()])
            .collect();
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .args([test, "--exact", "--nocapture"])
            .env(STUDY, study)
            .env(WORKER, worker.to_string())
            .env(ORDERS, orders)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            // What a process that was killed did not say to the end does not count.
            while stdout.read_line(&mut line).is_ok() && line.ends_with('\n') {
                if let Some((_, said)) = line.trim_end().split_once(SAID) {
                    send.send(said.to_owned()).ok();
                }
                line.clear();
            }
        });
        Self {
            child,
            stdin,
            lines,
        }
    }

    /// The next thing that the process says; none when it has ended.
    pub(crate) fn listen(&self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(said) => Some(said),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("a process says nothing"),
        }
    }

    /// Waits until the process says exactly this.
    pub(crate) fn expect(&self, what: &str) {
        assert_eq!(self.listen().as_deref(), Some(what));
    }

    pub(crate) fn tell(&mut self, what: &str) {
        writeln!(self.stdin, "{what}").unwrap();
    }

    /// Stops the process where it stands, soon.
    pub(crate) fn pause(&mut self) {
        self.send(Signal::STOP);
    }

    /// Stops the process where it stands, all its threads, and waits until that is so.
    pub(crate) fn stop(&mut self) {
        self.pause();
        let stat = PathBuf::from(format!("/proc/{}/stat", self.child.id()));
        until("a process has stopped", || {
            // The state follows the name, which stands in brackets.
            let mut bytes = [0; 256];
            let file = durable::Fs::open(&durable::RealFs, &stat).unwrap();
            let len = file.read_at(0, &mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[..len]).contains(") T ")
        });
    }

    /// Lets a stopped process go on.
    pub(crate) fn go_on(&mut self) {
        self.send(Signal::CONT);
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether the process has ended.
    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Everything else that the process says until it ends, which must be in peace.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let said = self.rest();
        assert!(self.child.wait().unwrap().success(), "a process failed");
        said
    }

    /// Everything else that the process says until it ends, however that is.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.listen()).collect()
    }

    fn send(&mut self, signal: Signal) {
        // The number of one that has ended may be another's by now.
        if !self.is_over() {
            let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
            kill_process(pid, signal).unwrap();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // One that has ended cannot be killed, which is fine.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
