//! One trial's command: run, recorded, watched, and ended when its time is over.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use omniloop_core::journal::{self, JournalOptions};
use omniloop_core::recorder::{
    Closed, CommandGroup, CommandOptions, CommandOutcome, ExitStatus, RecorderOptions,
    TelemetryListener, record_command,
};
use serde_json::{Map, Value};

use super::interrupt::Interrupt;
use super::result::{Names, Said};

/// How often a command that says nothing is looked after.
const TICK: Duration = Duration::from_millis(50);
/// Reports that wait to be looked at, before the command has to wait.
const REPORTS_AHEAD: usize = 64;
/// How much of the end of standard error is kept, for the message of a command that failed.
const TAIL_LEN: usize = 4096;
const MESSAGE_LEN: usize = 300;

/// What is to be run.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) argv: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    /// Where it is recorded.
    pub(super) run: PathBuf,
    /// What the run belongs to.
    pub(super) context: Map<String, Value>,
    pub(super) names: &'a Names,
    /// How long it may take.
    pub(super) timeout: Option<Duration>,
    /// How long it may take to end after SIGTERM.
    pub(super) grace: Duration,
}

/// What is to become of a trial after a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    GoOn,
    Prune(String),
    /// The trial belongs to somebody else now, or cannot be written.
    Abandon(String),
}

/// How a trial's command ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ending {
    Values(Vec<f64>),
    Pruned,
    Failed(String),
    /// There is no such program, or it may not be run.
    CannotStart(String),
    /// It was ended because this process is to end.
    Interrupted,
    /// Its trial was lost on the way.
    Abandoned(String),
}

/// What is left of a command.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) ending: Ending,
    /// What the constraints came to that the command told of.
    pub(super) constraints: BTreeMap<String, f64>,
    pub(super) recorded: Option<Closed>,
    /// What went wrong with the recording, which does not fail a trial.
    pub(super) unrecorded: Option<String>,
}

enum Event {
    Said(Said),
    Ended(journal::Result<CommandOutcome>),
}

/// Runs it to its end. `on_report` is asked after every report.
///
/// # Errors
/// When the journal cannot be created, or the system gives no thread.
pub(super) fn run(
    job: &Job<'_>,
    interrupt: &Interrupt,
    on_report: &mut dyn FnMut(u64, &[f64]) -> Verdict,
) -> Result<Ended, journal::Error> {
    let group = Arc::new(CommandGroup::default());
    let tail = Tail::default();
    let (sender, receiver) = sync_channel(REPORTS_AHEAD);
    let options = options(job, Arc::clone(&group), sender.clone());
    let (path, stderr) = (job.run.clone(), tail.clone());
    let thread = std::thread::Builder::new()
        .name("tune-recorder".to_owned())
        .spawn(move || {
            let ended = record_command(&path, &options, Box::new(io::sink()), Box::new(stderr));
            sender.send(Event::Ended(ended)).ok();
        });
    let thread = thread.map_err(|source| journal::Error::Io {
        op: "start a thread for",
        path: job.run.clone(),
        source,
    })?;

    let mut watch = Watch::new(job, &group);
    let outcome = loop {
        match receiver.recv_timeout(TICK) {
            Ok(Event::Said(said)) => watch.hear(said, on_report),
            Ok(Event::Ended(outcome)) => break outcome,
            Err(RecvTimeoutError::Timeout) => {}
            // Only a panic of the thread drops the sender without a word.
            Err(RecvTimeoutError::Disconnected) => {
                break Err(journal::Error::Misuse {
                    what: "the thread that records the command ended early",
                });
            }
        }
        watch.tick(interrupt);
    };
    thread.join().ok();
    watch.end(outcome, &tail)
}

fn options(job: &Job<'_>, group: Arc<CommandGroup>, sender: SyncSender<Event>) -> CommandOptions {
    let names = job.names.clone();
    CommandOptions {
        argv: job.argv.clone(),
        env: Vec::new(),
        environment: job.environment.clone(),
        record_stdin: false,
        tick_on: None,
        context: job.context.clone(),
        listener: Some(TelemetryListener(Arc::new(move |object| {
            for said in names.read(object) {
                // A child of the command may go on printing when nobody listens any more.
                sender.send(Event::Said(said)).ok();
            }
        }))),
        group: Some(group),
        recorder: RecorderOptions {
            journal: JournalOptions::default(),
            ..RecorderOptions::default()
        },
    }
}

/// What is known of the command so far, and what was done to it.
struct Watch<'a> {
    job: &'a Job<'a>,
    group: &'a CommandGroup,
    begun: Instant,
    result: Option<Result<Vec<f64>, String>>,
    constraints: BTreeMap<String, Result<f64, String>>,
    is_final: bool,
    /// Why it was asked to end, and when it is to be killed.
    stopped: Option<(Ending, Instant)>,
    is_killed: bool,
}

impl<'a> Watch<'a> {
    fn new(job: &'a Job<'a>, group: &'a CommandGroup) -> Self {
        Self {
            job,
            group,
            begun: Instant::now(),
            result: None,
            constraints: BTreeMap::new(),
            is_final: false,
            stopped: None,
            is_killed: false,
        }
    }

    fn hear(&mut self, said: Said, on_report: &mut dyn FnMut(u64, &[f64]) -> Verdict) {
        match said {
            // What was asked to end is not asked again; what it printed on its way out does not count.
            Said::Report { .. } if self.stopped.is_some() => {}
            Said::Report { step, values } => match on_report(step, &values) {
                Verdict::GoOn => {}
                Verdict::Prune(why) => self.stop(Ending::Pruned, &why),
                Verdict::Abandon(why) => self.stop(Ending::Abandoned(why.clone()), &why),
            },
            Said::Result { .. } | Said::Constraint { .. } if self.is_final => {}
            Said::Constraint { name, value } => {
                self.constraints.insert(name, value);
            }
            Said::Result { values, is_final } => {
                self.result = Some(values);
                self.is_final = is_final;
            }
        }
    }

    fn tick(&mut self, interrupt: &Interrupt) {
        if self.stopped.is_none() {
            let timeout = self.job.timeout;
            if let Some(limit) = timeout.filter(|limit| self.begun.elapsed() >= *limit) {
                let why = format!("it took longer than {limit:?}");
                self.stop(Ending::Failed(why.clone()), &why);
            } else if interrupt.is_asked() {
                self.stop(Ending::Interrupted, "the tuner was asked to end");
            }
        }
        let is_over = |(_, at): &(Ending, Instant)| Instant::now() >= *at || interrupt.is_urgent();
        if !self.is_killed && self.stopped.as_ref().is_some_and(is_over) {
            self.is_killed = true;
            self.group.kill("it did not end after SIGTERM");
        }
    }

    fn stop(&mut self, ending: Ending, why: &str) {
        let now = Instant::now();
        // A grace that the clock cannot hold is one of a year.
        let year = Duration::from_hours(365 * 24);
        let at = now.checked_add(self.job.grace).unwrap_or(now + year);
        self.stopped = Some((ending, at));
        self.group.terminate(why);
    }

    fn end(
        self,
        outcome: journal::Result<CommandOutcome>,
        tail: &Tail,
    ) -> Result<Ended, journal::Error> {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error @ journal::Error::Io { op: "start", .. }) => {
                let ending = Ending::CannotStart(crate::failure::chain_text(&error));
                return Ok(Ended {
                    ending,
                    constraints: BTreeMap::new(),
                    recorded: None,
                    unrecorded: None,
                });
            }
            Err(error) => return Err(error),
        };
        let ending = if let Some((ending, _)) = self.stopped {
            ending
        } else {
            let ending = ending_of(self.job.names, outcome.exit, self.result, tail);
            constrained(self.job.names, ending, &self.constraints)
        };
        let told = self.constraints.into_iter();
        let constraints = told.filter_map(|(name, value)| Some((name, value.ok()?)));
        let (recorded, unrecorded) = match outcome.recording {
            Ok(closed) => (Some(closed), None),
            Err(error) => (None, Some(crate::failure::chain_text(&error))),
        };
        Ok(Ended {
            ending,
            constraints: constraints.filter(|(_, value)| !value.is_nan()).collect(),
            recorded,
            unrecorded,
        })
    }
}

fn ending_of(
    names: &Names,
    exit: ExitStatus,
    result: Option<Result<Vec<f64>, String>>,
    tail: &Tail,
) -> Ending {
    let told = || {
        tail.last_line()
            .map(|line| format!(": {line}"))
            .unwrap_or_default()
    };
    match exit {
        ExitStatus::Code(code) if names.is_exit_code() => Ending::Values(vec![f64::from(code)]),
        ExitStatus::Signal(signal) => {
            let name = signal_hook::low_level::signal_name(signal);
            let name = name.map_or_else(|| format!("signal {signal}"), str::to_owned);
            Ending::Failed(format!("its command was ended by {name}{}", told()))
        }
        ExitStatus::Code(code) if code != 0 => {
            Ending::Failed(format!("its command ended with exit code {code}{}", told()))
        }
        ExitStatus::Code(_) => match result {
            Some(Ok(values)) => match values.iter().position(|value| value.is_nan()) {
                None => Ending::Values(values),
                Some(at) => {
                    let name = names.objectives.get(at).map_or("value", String::as_str);
                    Ending::Failed(format!("its {name:?} is not a number"))
                }
            },
            Some(Err(what)) => Ending::Failed(what),
            None => {
                let names = names.objectives.join("\" or \"");
                Ending::Failed(format!("its command printed no JSON line with \"{names}\""))
            }
        },
    }
}

/// A trial that has values needs all of its constraints as well.
fn constrained(
    names: &Names,
    ending: Ending,
    told: &BTreeMap<String, Result<f64, String>>,
) -> Ending {
    let missing = |name: &String| match told.get(name) {
        None => Some(format!("its command told no constraint {name:?}")),
        Some(Err(what)) => Some(what.clone()),
        Some(Ok(value)) if value.is_nan() => {
            Some(format!("its constraint {name:?} is not a number"))
        }
        Some(Ok(_)) => None,
    };
    match ending {
        Ending::Values(values) => match names.constraints.iter().find_map(missing) {
            None => Ending::Values(values),
            Some(what) => Ending::Failed(what),
        },
        other => other,
    }
}

/// The last bytes of standard error.
#[derive(Clone, Debug, Default)]
struct Tail(Arc<Mutex<VecDeque<u8>>>);

impl Tail {
    fn last_line(&self) -> Option<String> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = held.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let line = text
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| !line.is_empty())?;
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        Some(line.chars().map(shown).take(MESSAGE_LEN).collect())
    }
}

impl Write for Tail {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = bytes
            .get(bytes.len().saturating_sub(TAIL_LEN)..)
            .unwrap_or_default();
        let excess = (held.len() + kept.len())
            .saturating_sub(TAIL_LEN)
            .min(held.len());
        held.drain(..excess);
        held.extend(kept);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use omniloop_core::journal::verify_chain;
    use serde_json::json;

    use super::super::result::EXIT_CODE;
    use super::*;

    /// Runs a shell script as a trial that minimizes `loss`, in a folder of its own.
    fn run_script(script: &str, change: impl FnOnce(&mut Job<'_>)) -> (Ended, Vec<(u64, f64)>) {
        run_with(script, &Interrupt::default(), change, |_, _| Verdict::GoOn)
    }

    fn run_with(
        script: &str,
        interrupt: &Interrupt,
        change: impl FnOnce(&mut Job<'_>),
        mut verdict: impl FnMut(u64, f64) -> Verdict,
    ) -> (Ended, Vec<(u64, f64)>) {
        let dir = tempfile::tempdir().unwrap();
        let names = Names {
            objectives: vec!["loss".to_owned()],
            constraints: Vec::new(),
            step: "step".to_owned(),
        };
        let mut job = Job {
            argv: ["sh", "-c", script].map(OsString::from).to_vec(),
            environment: Vec::new(),
            run: dir.path().join("run.omni"),
            context: Map::from_iter([("trial".to_owned(), json!(7))]),
            names: &names,
            timeout: None,
            grace: Duration::from_millis(300),
        };
        change(&mut job);
        let mut reports = Vec::new();
        let ended = run(&job, interrupt, &mut |step, values| {
            reports.push((step, values[0]));
            verdict(step, values[0])
        });
        let ended = ended.unwrap();
        if let Some(closed) = &ended.recorded {
            let checked = verify_chain(&job.run).unwrap();
            assert_eq!(
                checked.head,
                Some(durable::digest::hex(&closed.sealed.head))
            );
        }
        (ended, reports)
    }

    fn failed(ended: &Ended) -> &str {
        match &ended.ending {
            Ending::Failed(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_last_line_is_the_result_and_every_step_a_report() {
        let script = r#"for i in 1 2 3; do echo "{\"step\":$i,\"loss\":0.$i}"; done; echo done"#;
        let (ended, reports) = run_script(script, |_| {});
        assert_eq!(ended.ending, Ending::Values(vec![0.3]));
        assert_eq!(reports, [(1, 0.1), (2, 0.2), (3, 0.3)]);
        assert!(ended.recorded.is_some());
    }

    #[test]
    fn a_final_line_is_the_result_whatever_follows() {
        let script = r#"echo '{"final":true,"loss":1}'; echo '{"loss":2}'"#;
        assert_eq!(
            run_script(script, |_| {}).0.ending,
            Ending::Values(vec![1.0])
        );
    }

    #[test]
    fn a_command_without_a_result_fails_with_what_is_missing() {
        for (script, what) in [
            ("true", "printed no JSON line with \"loss\""),
            (r#"echo '{"los":1}'"#, "printed no JSON line"),
            (r#"echo '{"loss":NaN}'"#, "\"loss\" is not a number"),
            (r#"echo '{"loss":null}'"#, "\"loss\" is null"),
            (r#"echo '{"loss":[1,2]}'"#, "\"loss\" is a list"),
            (
                r#"echo '{"loss":1}'; echo 'no memory' >&2; exit 3"#,
                "exit code 3: no memory",
            ),
            ("kill -SEGV $$", "SIGSEGV"),
        ] {
            let (ended, _) = run_script(script, |_| {});
            assert!(failed(&ended).contains(what), "{script}: {ended:?}");
        }
        let (ended, _) = run_script("", |job| job.argv = vec!["/nonexistent/program".into()]);
        let Ending::CannotStart(why) = &ended.ending else {
            panic!("{ended:?}");
        };
        assert!(
            why.contains("cannot start /nonexistent/program: No such file"),
            "{why}"
        );
    }

    #[test]
    fn infinity_is_a_result() {
        let (ended, _) = run_script(r#"echo '{"loss":Infinity}'"#, |_| {});
        assert_eq!(ended.ending, Ending::Values(vec![f64::INFINITY]));
    }

    #[test]
    fn a_command_that_hangs_is_ended_and_its_children_with_it() {
        let script = "sleep 1000 & echo $! ; sleep 1000";
        let (ended, _) = run_script(script, |job| job.timeout = Some(Duration::from_millis(200)));
        assert!(
            failed(&ended).contains("took longer than 200ms"),
            "{ended:?}"
        );
    }

    #[test]
    fn a_command_that_ignores_sigterm_is_killed_after_its_grace() {
        let script = r#"trap '' TERM; echo '{"step":1,"loss":1}'; while :; do sleep 0.05; done"#;
        let verdict = |_, _| Verdict::Prune("it is behind".to_owned());
        let (ended, reports) = run_with(script, &Interrupt::default(), |_| {}, verdict);
        assert_eq!(ended.ending, Ending::Pruned);
        assert_eq!(reports, [(1, 1.0)]);
    }

    #[test]
    fn a_command_may_use_its_grace_and_what_it_prints_then_changes_nothing() {
        let script = r#"trap 'echo "{\"step\":2,\"loss\":2}"; exit 0' TERM
            echo '{"step":1,"loss":1}'; while :; do sleep 0.01; done"#;
        let verdict = |_, _| Verdict::Prune("it is behind".to_owned());
        let change = |job: &mut Job<'_>| job.grace = Duration::from_secs(50);
        let (ended, reports) = run_with(script, &Interrupt::default(), change, verdict);
        assert_eq!(ended.ending, Ending::Pruned);
        assert_eq!(reports, [(1, 1.0)]);
    }

    #[test]
    fn being_asked_to_end_interrupts_the_command() {
        let interrupt = Interrupt::default();
        let asking = interrupt.clone();
        let script = r#"echo '{"step":1,"loss":1}'; sleep 1000"#;
        let (ended, _) = run_with(
            script,
            &interrupt,
            |_| {},
            move |_, _| {
                asking.ask();
                Verdict::GoOn
            },
        );
        assert_eq!(ended.ending, Ending::Interrupted);
    }

    #[test]
    fn bytes_that_are_no_text_and_lines_without_an_end_do_no_harm() {
        let script = r#"head -c 200000 /dev/urandom; echo; head -c 20000000 /dev/zero | tr '\0' x; echo
            echo '{"loss":0.5}'"#;
        assert_eq!(
            run_script(script, |_| {}).0.ending,
            Ending::Values(vec![0.5])
        );
    }

    #[test]
    fn a_grandchild_that_keeps_the_output_open_does_not_keep_the_trial() {
        // In the group it is ended with it; in a session of its own it is left behind.
        for script in [
            r#"(while :; do sleep 0.05; done) & echo '{"loss":0.5}'"#,
            r#"setsid sleep 20 & echo '{"loss":0.5}'"#,
        ] {
            let begun = Instant::now();
            assert_eq!(
                run_script(script, |_| {}).0.ending,
                Ending::Values(vec![0.5])
            );
            assert!(begun.elapsed() < Duration::from_secs(15), "{script}");
        }
    }

    #[test]
    fn the_exit_code_is_the_value_when_it_is_asked_for() {
        let names = Names {
            objectives: vec![EXIT_CODE.to_owned()],
            constraints: Vec::new(),
            step: "step".to_owned(),
        };
        let ending = ending_of(&names, ExitStatus::Code(3), None, &Tail::default());
        assert_eq!(ending, Ending::Values(vec![3.0]));
        let ending = ending_of(&names, ExitStatus::Signal(9), None, &Tail::default());
        assert!(matches!(ending, Ending::Failed(_)));
    }

    #[test]
    fn of_standard_error_the_last_line_is_kept_in_bounds() {
        let mut tail = Tail::default();
        for _ in 0..100 {
            tail.write_all(&[b'x'; 1000]).unwrap();
        }
        assert_eq!(tail.0.lock().unwrap().len(), TAIL_LEN);
        assert_eq!(tail.last_line().unwrap().len(), MESSAGE_LEN);
        tail.write_all(b"\nValueError: \x1b[1mbad\n\n  \n").unwrap();
        assert_eq!(tail.last_line().unwrap(), "ValueError:  [1mbad");
    }
}
