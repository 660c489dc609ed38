//! A study with four workers, one of whom is killed.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::thread::JoinHandle;
use std::time::Duration;

use durable::{Fs as _, RealFs};
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::INTERRUPTED;
use super::steps::{Running, Steps, at, print};
use crate::failure::Failure;
use crate::styles::FAINT;
use crate::text::number;

const WORKERS: usize = 4;
/// How many trials the study is to have.
const TRIALS: &str = "32";
/// So many trials have ended before a worker is killed.
const ENDED_BEFORE: usize = 2;
/// How long a worker lives on between two tries to catch it in the middle of a trial.
const BETWEEN: Duration = Duration::from_millis(20);

/// A trial, as `daybook study trials --json` tells of it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Trial {
    pub(super) number: u64,
    id: u64,
    state: String,
    values: Option<Vec<f64>>,
    params: Map<String, Value>,
    owner: Option<u64>,
    retry_of: Option<u64>,
    user_attrs: Map<String, Value>,
}

impl Trial {
    /// What the tuner attached to it.
    pub(super) fn attribute(&self, name: &str) -> &str {
        let value = self.user_attrs.get(name).and_then(Value::as_str);
        value.unwrap_or_default()
    }

    /// The path of its run, below the folder of the demo.
    pub(super) fn run(&self) -> String {
        self.attribute("run.path").to_owned()
    }

    pub(super) fn trace(&self) -> &str {
        self.attribute("run.trace_id")
    }

    fn loss(&self) -> f64 {
        let values = self.values.as_ref();
        values
            .and_then(|values| values.first())
            .copied()
            .unwrap_or(f64::NAN)
    }

    fn is(&self, state: &str) -> bool {
        self.state == state
    }

    fn has_ended(&self) -> bool {
        ["complete", "pruned", "failed"].contains(&self.state.as_str())
    }

    /// Its values, as arguments of the training program.
    pub(super) fn arguments(&self) -> Vec<String> {
        let params = self.params.iter();
        params
            .flat_map(|(name, value)| [format!("--{name}"), value.to_string()])
            .collect()
    }
}

/// What came of the study.
pub(super) struct Tuned {
    pub(super) best: Trial,
    /// The worst of those that came to their end.
    pub(super) worst: Trial,
}

/// A process that takes trials of the study.
struct Worker {
    number: usize,
    child: Running,
    passing_on: Option<JoinHandle<()>>,
}

/// Tunes the training program.
pub(super) fn tune(steps: &Steps, url: &str) -> Result<Tuned, Failure> {
    steps.say(
        "2. A study of a training program, with four workers that share one file.",
        "Every trial trains a small network, is recorded as a run, and sends its spans to the server.\n\
         Trials that fall behind are ended early. One worker is killed in the middle of a trial.",
    )?;
    let study = steps.text("study.atj");
    let trainer = steps.trainer();
    let args = [
        "tune",
        &study,
        "--minimize",
        "loss",
        "--param",
        "lr=float(0.01,2,log)",
        "--param",
        "width=int(2,24)",
        "--param",
        "momentum=float(0,0.95)",
        "--trials",
        TRIALS,
        "--sampler",
        "tpe",
        "--retries",
        "1",
        "--stale-after",
        "5s",
        "--grace",
        "2s",
        "--",
        &trainer,
        "demo-train",
        "--lr",
        "{lr}",
        "--width",
        "{width}",
        "--momentum",
        "{momentum}",
    ];
    let endpoint = format!("OTEL_EXPORTER_OTLP_ENDPOINT={url}");
    steps.show(&[&endpoint], &args)?;
    steps.tell("(four times at once)")?;
    let start = |number| Worker::start(steps, number, &args, url);
    let mut workers = Workers(
        (1..=WORKERS)
            .map(start)
            .collect::<Result<Vec<Worker>, Failure>>()?,
    );
    let killed = kill(steps, &mut workers)?;
    for worker in workers.0.iter_mut().take(WORKERS - 1) {
        let status = steps.wait(&mut worker.child)?;
        if !status.success() {
            let what = format!("worker {} ended with {status}", worker.number);
            return Err(Failure::new(what));
        }
    }
    for worker in &mut workers.0 {
        if let Some(passing_on) = worker.passing_on.take() {
            passing_on.join().ok();
        }
    }
    settle(steps, killed)
}

/// Looks at what the workers have left.
fn settle(steps: &Steps, killed: u64) -> Result<Tuned, Failure> {
    let study = steps.text("study.atj");
    steps.run(&["study", "show", &study], 0)?;
    steps.run(&["verify", &study], 0)?;
    let verdict = steps.ask(&["verify", &study], 0)?;
    steps.claim("the study is intact", at(&verdict, "/verdict") == "intact")?;
    let trials = trials(steps)?;
    let first = trials.iter().filter(|trial| trial.retry_of.is_none());
    steps.claim(
        &format!("it has its {TRIALS} trials, each of which has ended"),
        first.count().to_string() == TRIALS && trials.iter().all(Trial::has_ended),
    )?;
    let find = |number| trials.iter().find(|trial| trial.number == number);
    let killed = find(killed).ok_or_else(|| Failure::new(format!("trial {killed} is gone")))?;
    let again = trials
        .iter()
        .find(|trial| trial.retry_of == Some(killed.id))
        .ok_or_else(|| Failure::new(format!("trial {} was not tried again", killed.number)))?;
    steps.claim(
        &format!(
            "trial {} died with its worker; another worker tried its values again, as trial {}: {}",
            killed.number, again.number, again.state
        ),
        killed.is("failed") && !again.is("failed") && again.params == killed.params,
    )?;
    let failed = trials.iter().filter(|trial| trial.is("failed"));
    steps.claim("no other trial was lost", failed.count() == 1)?;
    steps.claim(
        &format!(
            "the run of trial {} is cut off: unproven, not damaged",
            killed.number
        ),
        has_no_end(steps, killed)?,
    )?;
    let plot = steps.text("study.html");
    steps.run(&["study", "plot", &study, "-o", &plot], 0)?;
    let best: Vec<Trial> = read(steps.ask(&["study", "best", &study], 0)?)?;
    let complete = trials.iter().filter(|trial| trial.is("complete"));
    let worst = complete.max_by(|a, b| a.loss().total_cmp(&b.loss()));
    match (best.into_iter().next(), worst.cloned()) {
        (Some(best), Some(worst)) if best.number != worst.number => {
            let (by, of) = (number(best.loss()), number(worst.loss()));
            steps.claim(
                &format!(
                    "trial {} is the best of them, with a loss of {by}; the worst that came to its end is trial {}, with {of}",
                    best.number, worst.number
                ),
                trials.iter().filter(|t| t.is("complete")).all(|t| t.loss() >= best.loss()),
            )?;
            Ok(Tuned { best, worst })
        }
        _ => Err(Failure::new("fewer than two trials came to their end")),
    }
}

impl Worker {
    fn start(steps: &Steps, number: usize, args: &[&str], url: &str) -> Result<Self, Failure> {
        let mut command = steps.command(args);
        // A group of its own: Ctrl-C reaches the teller, who ends the workers before the server.
        command
            .process_group(0)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", url)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = Running::of("a worker", command.spawn())?;
        let passing_on = child.0.stderr.take().map(|stderr| {
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    let line = line.strip_prefix("daybook: ").unwrap_or(&line);
                    print(format_args!("{FAINT}worker {number}{FAINT:#}  {line}")).ok();
                }
            })
        });
        Ok(Self {
            number,
            child,
            passing_on,
        })
    }
}

/// All workers, who end together.
struct Workers(Vec<Worker>);

impl Workers {
    fn signal(&mut self, signal: Signal) -> Result<(), Failure> {
        let mut workers = self.0.iter_mut();
        workers.try_for_each(|worker| worker.child.signal(signal))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // All at once: the first to end may have to wait for one that is stopped.
        for worker in &mut self.0 {
            worker.child.ask_to_end().ok();
        }
    }
}

/// Kills the last worker in the middle of a trial, and answers which one. To be sure that it is in the middle, all are
/// stopped before the study is looked at, and go on if it is not.
fn kill(steps: &Steps, workers: &mut Workers) -> Result<u64, Failure> {
    loop {
        workers.signal(Signal::STOP)?;
        let victim = workers.0.last_mut();
        let victim = victim.ok_or_else(|| Failure::new("there is no worker"))?;
        let Some(number) = caught(steps, victim)? else {
            workers.signal(Signal::CONT)?;
            std::thread::sleep(BETWEEN);
            continue;
        };
        victim.child.signal(Signal::KILL)?;
        let (pid, worker) = (victim.child.0.id(), victim.number);
        print(format_args!(
            "$ kill -9 {pid}\n{FAINT}worker {worker}, in the middle of trial {number}, is gone{FAINT:#}"
        ))?;
        steps.wait(&mut victim.child)?;
        workers.signal(Signal::CONT)?;
        return Ok(number);
    }
}

/// The trial in whose middle a worker is that was stopped.
fn caught(steps: &Steps, victim: &mut Worker) -> Result<Option<u64>, Failure> {
    if let Some(status) = victim.child.status()? {
        let number = victim.number;
        let what = format!("worker {number} ended before it was killed: {status}");
        return Err(Failure::new(what));
    }
    let known = match trials(steps) {
        Err(failure) if failure.code == INTERRUPTED => return Err(failure),
        // The study is not there yet.
        Err(_) => return Ok(None),
        Ok(known) => known,
    };
    let owner = Some(u64::from(victim.child.0.id()));
    let ended = known.iter().filter(|trial| trial.has_ended()).count();
    let its_own = known
        .iter()
        .find(|trial| trial.is("running") && trial.owner == owner);
    match its_own {
        Some(trial) if ended >= ENDED_BEFORE && has_no_end(steps, trial)? => Ok(Some(trial.number)),
        _ => Ok(None),
    }
}

/// Whether the run of a trial is being recorded, or was when its recorder was killed.
fn has_no_end(steps: &Steps, trial: &Trial) -> Result<bool, Failure> {
    let run = trial.run();
    let is_there = RealFs.exists(&steps.path(&run));
    if run.is_empty() || !is_there.unwrap_or(false) {
        return Ok(false);
    }
    match steps.ask(&["verify", &steps.text(&run)], 2) {
        Err(failure) if failure.code == INTERRUPTED => Err(failure),
        told => Ok(told.is_ok_and(|told| at(&told, "/verdict") == "unproven")),
    }
}

fn trials(steps: &Steps) -> Result<Vec<Trial>, Failure> {
    #[derive(Deserialize)]
    struct Told {
        trials: Vec<Trial>,
    }
    let study = steps.text("study.atj");
    let told: Told = read(steps.ask(&["study", "trials", &study, "--limit", "0"], 0)?)?;
    Ok(told.trials)
}

fn read<T: serde::de::DeserializeOwned>(document: Value) -> Result<T, Failure> {
    serde_json::from_value(document)
        .map_err(|error| Failure::new(format!("the study is not understood: {error}")))
}
