//! Telling the story: words, commands that are shown before they run, and claims that are checked before they are printed.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::failure::{BAD_CODE, Failure};
use crate::output::Out;
use crate::styles::{FAINT, GOOD, STRONG};
use crate::verb::tune::interrupt::Interrupt;

/// How often a process is looked after.
const TICK: Duration = Duration::from_millis(5);
/// How long a process may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(20);
/// What would make the commands of the story do something else than they say.
const FOREIGN: [&str; 6] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_RESOURCE_ATTRIBUTES",
    "TRACEPARENT",
    "TRAZA_TOKEN",
    "TRAZA_TOKENS",
    "TRAZA_UI_DIR",
];

/// The teller.
pub(super) struct Steps {
    dir: PathBuf,
    program: PathBuf,
    interrupt: Interrupt,
}

impl Steps {
    pub(super) fn new(dir: &Path, interrupt: Interrupt) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|e| Failure::io("cannot find myself", &e))?;
        Ok(Self {
            dir: dir.to_owned(),
            program,
            interrupt,
        })
    }

    /// The path of a file of the demo.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The same as an argument.
    pub(super) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The training program, as a command.
    pub(super) fn trainer(&self) -> String {
        self.program.display().to_string()
    }

    /// A heading, and the words below it.
    pub(super) fn say(&self, heading: &str, words: &str) -> Result<(), Failure> {
        self.check()?;
        print(format_args!("\n{STRONG}{heading}{STRONG:#}\n{words}"))
    }

    /// What cannot be shown as a command.
    pub(super) fn tell(&self, words: &str) -> Result<(), Failure> {
        self.check()?;
        print(format_args!("{FAINT}{words}{FAINT:#}"))
    }

    /// Something that holds; a false one fails the demo.
    pub(super) fn claim(&self, what: &str, holds: bool) -> Result<(), Failure> {
        self.check()?;
        if !holds {
            let what = format!("this should hold and does not: {what}");
            return Err(Failure::new(what).with_code(BAD_CODE));
        }
        print(format_args!("  {GOOD}✓{GOOD:#} {what}"))
    }

    /// Shows a command, runs it, and has it say what it has to say. It must exit with `expected`.
    pub(super) fn run(&self, args: &[&str], expected: i32) -> Result<(), Failure> {
        self.show(&[], args)?;
        let child = self.command(args).spawn();
        let mut child = Running::of("a step", child)?;
        let status = self.wait(&mut child)?;
        expect(status, expected, args)?;
        if expected != 0 {
            print(format_args!(
                "{FAINT}(exit code {expected}, as it must be){FAINT:#}"
            ))?;
        }
        Ok(())
    }

    /// As [`run`](Self::run), with what it prints put away.
    pub(super) fn run_quietly(&self, args: &[&str]) -> Result<(), Failure> {
        self.show(&[], args)?;
        let child = self.command(args).stdout(Stdio::null()).spawn();
        let mut child = Running::of("a step", child)?;
        let status = self.wait(&mut child)?;
        expect(status, 0, args)
    }

    /// The JSON that a command prints, which is not shown. It must exit with `expected`.
    pub(super) fn ask(&self, args: &[&str], expected: i32) -> Result<Value, Failure> {
        let args = [args, &["--json"]].concat();
        let mut command = self.command(&args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Running::of("a question", command.spawn())?;
        let out = child.0.stdout.take().map(gather);
        let err = child.0.stderr.take().map(gather);
        let status = self.wait(&mut child)?;
        let joined = |thread: Option<std::thread::JoinHandle<String>>| {
            thread.and_then(|thread| thread.join().ok())
        };
        let (out, err) = (joined(out).unwrap_or_default(), joined(err));
        expect(status, expected, &args)
            .map_err(|failure| failure.with_hint(err.unwrap_or_default()))?;
        // One that could not answer has nothing to print.
        Ok(serde_json::from_str(&out).unwrap_or_default())
    }

    /// A command of this program, with nothing of the surroundings that would change what it does.
    pub(super) fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).stdin(Stdio::null());
        for name in FOREIGN {
            command.env_remove(name);
        }
        command
    }

    /// Prints a command as one would type it.
    pub(super) fn show(&self, before: &[&str], args: &[&str]) -> Result<(), Failure> {
        self.check()?;
        let trainer = self.trainer();
        let words = args.iter().map(|arg| match *arg {
            own if own == trainer => "daybook".to_owned(),
            arg => quoted(arg),
        });
        let words: Vec<String> = before
            .iter()
            .map(|word| (*word).to_owned())
            .chain(["daybook".to_owned()])
            .chain(words)
            .collect();
        print(format_args!("$ {}", words.join(" ")))
    }

    /// Waits for a process, and ends it when this one is asked to end.
    pub(super) fn wait(&self, child: &mut Running) -> Result<ExitStatus, Failure> {
        loop {
            if let Some(status) = child.status()? {
                // Who pressed Ctrl-C hit both.
                self.check()?;
                return Ok(status);
            }
            self.check()?;
            std::thread::sleep(TICK);
        }
    }

    /// Stops the story when this process was asked to end.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.interrupt.is_asked() {
            return Err(Failure::new("interrupted: everything that ran was ended")
                .with_code(super::INTERRUPTED));
        }
        Ok(())
    }
}

/// What a document has at a JSON pointer: nothing, `null`, where it has no such place.
pub(super) fn at<'v>(document: &'v Value, pointer: &str) -> &'v Value {
    document.pointer(pointer).unwrap_or(&Value::Null)
}

/// A process that is ended when nobody needs it any more.
pub(super) struct Running(pub(super) Child);

impl Running {
    pub(super) fn of(what: &str, child: io::Result<Child>) -> Result<Self, Failure> {
        child
            .map(Self)
            .map_err(|e| Failure::io(&format!("cannot start {what} of the demo"), &e))
    }

    /// How it ended, if it has.
    pub(super) fn status(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let found = self.0.try_wait();
        found.map_err(|e| Failure::io("cannot wait for a process of the demo", &e))
    }

    /// Sends a signal, unless it has ended.
    pub(super) fn signal(&mut self, signal: Signal) -> Result<(), Failure> {
        if self.status()?.is_some() {
            return Ok(());
        }
        kill_process(Pid::from_child(&self.0), signal)
            .map_err(|e| Failure::io("cannot signal a process of the demo", &e.into()))
    }

    /// Asks it to end.
    pub(super) fn ask_to_end(&mut self) -> Result<(), Failure> {
        self.signal(Signal::TERM)?;
        // One that is stopped hears of it when it goes on.
        self.signal(Signal::CONT)
    }

    /// Asks it to end, and waits for that; one that takes too long is killed.
    pub(super) fn end(&mut self) -> Result<ExitStatus, Failure> {
        self.ask_to_end()?;
        let begun = Instant::now();
        while begun.elapsed() < GRACE {
            if let Some(status) = self.status()? {
                return Ok(status);
            }
            std::thread::sleep(TICK);
        }
        self.0
            .kill()
            .and_then(|()| self.0.wait())
            .map_err(|e| Failure::io("cannot end a process of the demo", &e))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end().ok();
    }
}

fn gather(mut from: impl io::Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).ok();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn expect(found: ExitStatus, expected: i32, args: &[&str]) -> Result<(), Failure> {
    if found.code() == Some(expected) {
        return Ok(());
    }
    let verb = args.join(" ");
    Err(Failure::new(format!(
        "`daybook {verb}` ended with {found}, not {expected}"
    )))
}

pub(super) fn print(text: impl std::fmt::Display) -> Result<(), Failure> {
    let mut out = Out::new();
    out.line(text)
        .and_then(|()| out.flush())
        .map_err(|e| Failure::io("cannot print", &e))
}

/// An argument as one would type it.
fn quoted(arg: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=#{},".contains(c);
    if !arg.is_empty() && arg.chars().all(is_plain) {
        arg.to_owned()
    } else {
        format!("'{}'", arg.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_shown_as_a_shell_takes_it() {
        for (arg, shown) in [
            ("study.atj#3", "study.atj#3"),
            ("{lr}", "{lr}"),
            ("lr=float(1e-3,3,log)", "'lr=float(1e-3,3,log)'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(arg), shown);
        }
    }

    #[test]
    fn a_false_claim_is_a_failure_and_an_interrupted_story_goes_on_with_nothing() {
        let steps = Steps::new(Path::new("d"), Interrupt::default()).unwrap();
        let failure = steps.claim("two is three", false).unwrap_err();
        assert_eq!(failure.code, BAD_CODE);
        assert!(failure.message.contains("two is three"));
        steps.interrupt.ask();
        let failure = steps.claim("one is one", true).unwrap_err();
        assert_eq!(failure.code, super::super::INTERRUPTED);
    }
}
