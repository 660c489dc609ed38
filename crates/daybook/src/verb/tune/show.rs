//! What people see while a study is tuned, and what is left to say at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anstream::eprintln;
use atune_core::replica::{self, Replica};
use atune_core::study::StudyError;
use atune_core::trial::{Direction, TrialState};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use omniloop_core::recorder::RUN_PATH;
use serde_json::{Value, json};

use super::pool::{Ended, Why};
use super::session::{Session, told};
use super::trial::Finished;
use crate::failure::Failure;
use crate::output::Out;
use crate::styles::{BAD, GOOD, HINT, STRONG, WARN};
use crate::text::{clean, number};
use crate::verb::study::{param_text, trial_json};

const REDRAW: Duration = Duration::from_millis(200);
/// Trials that are named one by one while they run.
const RUNNING_SHOWN: usize = 8;

/// The progress bar, and the lines above it.
#[derive(Debug)]
pub(super) struct Board {
    bar: Option<ProgressBar>,
    quiet: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: BTreeSet<u64>,
    best: Option<(u64, f64)>,
}

impl Board {
    pub(super) fn new(session: &Session<'_>) -> Result<Self, Failure> {
        let args = session.args;
        let is_shown = !args.quiet && io::stderr().is_terminal();
        let board = Self {
            bar: is_shown.then(|| bar(args.trials)),
            quiet: args.quiet,
            state: Mutex::default(),
        };
        board.refresh(session).map_err(|error| told(&error))?;
        if let Some(bar) = &board.bar {
            // What earlier processes did says nothing of how long this one will take.
            bar.reset_eta();
        }
        Ok(board)
    }

    pub(super) fn begin(&self, number: u64) {
        self.lock().running.insert(number);
        self.draw();
    }

    pub(super) fn end(&self, number: u64) {
        self.lock().running.remove(&number);
        self.draw();
    }

    /// One line for a trial that ended.
    pub(super) fn tell(
        &self,
        session: &Session<'_>,
        finished: &Finished,
    ) -> Result<(), StudyError> {
        self.refresh(session)?;
        if !self.quiet {
            self.say(&self.line(session, finished));
        }
        if let Some(warning) = &finished.warning {
            let number = finished.number;
            self.print(&format!(
                "{WARN}daybook:{WARN:#} trial {number}: {}",
                clean(warning)
            ));
        }
        Ok(())
    }

    /// A line of talk.
    pub(super) fn say(&self, text: &str) {
        if !self.quiet {
            self.print(&format!("daybook: {text}"));
        }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn print(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    fn line(&self, session: &Session<'_>, finished: &Finished) -> String {
        let Finished {
            number: trial,
            state,
            ..
        } = finished;
        let (style, what) = match state {
            TrialState::Complete => (GOOD, values(session, &finished.values)),
            TrialState::Pruned => (HINT, "pruned".to_owned()),
            TrialState::Paused => (HINT, "released".to_owned()),
            _ => (
                BAD,
                format!(
                    "failed: {}",
                    clean(finished.error.as_deref().unwrap_or_default())
                ),
            ),
        };
        let params = finished.params.join(" ");
        let best = match self.lock().best {
            Some((best, _)) if best == *trial => "  (the best so far)".to_owned(),
            _ => String::new(),
        };
        format!(
            "trial {trial:>4}  {style}{what}{style:#}  {}{best}",
            clean(&params)
        )
    }

    fn refresh(&self, session: &Session<'_>) -> Result<(), StudyError> {
        let (done, best) = session.study.look(|history| {
            let trials = history.trials().iter();
            let done = trials.filter(|past| past.state.is_terminal()).count() as u64;
            let best = history.ranking().first().and_then(|rank| {
                let past = history.trial(rank.number)?;
                let value = past.values.as_ref()?.first()?;
                (past.state == TrialState::Complete).then_some((rank.number, value.0))
            });
            (done, best)
        })?;
        self.lock().best = best;
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
        self.draw();
        Ok(())
    }

    fn draw(&self) {
        let Some(bar) = &self.bar else {
            return;
        };
        let state = self.lock();
        let best = state
            .best
            .map(|(trial, value)| format!("best {} of trial {trial}", number(value)));
        let running: Vec<String> = state
            .running
            .iter()
            .take(RUNNING_SHOWN)
            .map(u64::to_string)
            .collect();
        let more = state.running.len().saturating_sub(RUNNING_SHOWN);
        let running = match (running.is_empty(), more) {
            (true, _) => None,
            (false, 0) => Some(format!("running {}", running.join(" "))),
            (false, more) => Some(format!("running {} and {more} more", running.join(" "))),
        };
        let parts: Vec<String> = best.into_iter().chain(running).collect();
        bar.set_message(parts.join(", "));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bar(trials: Option<u64>) -> ProgressBar {
    let (bar, template) = match trials {
        Some(trials) => (
            ProgressBar::new(trials),
            "{bar:24} {pos}/{len} trials, {msg}, {eta} left",
        ),
        None => (
            ProgressBar::no_length(),
            "{spinner} {pos} trials, {msg}, {elapsed}",
        ),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar.enable_steady_tick(REDRAW);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn values(session: &Session<'_>, values: &[f64]) -> String {
    let pairs = session.names.objectives.iter().zip(values);
    let pair = |(name, value): (&String, &f64)| format!("{} {}", clean(name), number(*value));
    pairs.map(pair).collect::<Vec<_>>().join(", ")
}

/// What is left to say.
#[derive(Debug)]
pub(super) struct Summary {
    study: String,
    path: std::path::PathBuf,
    metrics: Vec<String>,
    directions: Vec<Direction>,
    ended: Ended,
    by_state: BTreeMap<&'static str, u64>,
    best: Vec<replica::Trial>,
}

impl Summary {
    pub(super) fn of(session: &Session<'_>, ended: &Ended) -> Result<Self, Failure> {
        let study = &session.study;
        let mut by_state = BTreeMap::new();
        let read = study.storage().read(&mut |replica: &Replica| {
            by_state.clear();
            for trial in replica.trials_of(study.id()).into_iter().flatten() {
                *by_state.entry(word(trial.state)).or_insert(0) += 1;
            }
        });
        read.map_err(|error| told(&error.into()))?;
        Ok(Self {
            study: study.name().to_owned(),
            path: session.args.study.clone(),
            metrics: session.names.objectives.clone(),
            directions: study.config().directions.clone(),
            ended: ended.clone(),
            by_state,
            best: study.best_trials().map_err(|error| told(&error))?,
        })
    }

    pub(super) fn print(&self, as_json: bool) -> Result<(), Failure> {
        let mut out = Out::for_json(as_json);
        if as_json {
            out.json(&self.document())?;
        } else {
            self.words(&mut out)?;
        }
        out.flush()?;
        Ok(())
    }

    fn document(&self) -> Value {
        let counts = self.ended.counts;
        let directions: Vec<String> = self
            .directions
            .iter()
            .map(|d| format!("{d:?}").to_lowercase())
            .collect();
        json!({
            "path": self.path,
            "study": self.study,
            "metric_names": self.metrics,
            "directions": directions,
            "ended": match self.ended.why {
                Why::Budget => "budget",
                Why::Time => "time",
                Why::Interrupt => "interrupted",
                Why::Stopped => "stopped",
            },
            "trials_by_state": self.by_state,
            "this_process": {
                "complete": counts.complete,
                "pruned": counts.pruned,
                "failed": counts.failed,
                "released": counts.released,
            },
            "best": self.best.iter().map(trial_json).collect::<Vec<_>>(),
        })
    }

    fn words(&self, out: &mut Out) -> io::Result<()> {
        let counts: Vec<String> = self
            .by_state
            .iter()
            .map(|(state, count)| format!("{count} {state}"))
            .collect();
        let counts = if counts.is_empty() {
            "no trials".to_owned()
        } else {
            counts.join(", ")
        };
        out.line(format_args!(
            "{STRONG}{}{STRONG:#}: {counts}",
            clean(&self.study)
        ))?;
        if self.best.len() > 1 {
            let count = self.best.len();
            out.line(format_args!("{count} trials that no other one beats:"))?;
        }
        for trial in &self.best {
            let values = trial.values.iter().flat_map(|values| values.iter());
            let pairs = self.metrics.iter().zip(values);
            let values: Vec<String> = pairs
                .map(|(name, value)| format!("{} {}", clean(name), number(value.0)))
                .collect();
            let best = if self.best.len() == 1 { "best: " } else { "  " };
            out.line(format_args!(
                "{best}trial {}, {}",
                trial.number,
                values.join(", ")
            ))?;
            for param in &trial.params {
                let (name, text) = (clean(&param.key.name), param_text(param));
                out.line(format_args!("  {name} = {}", clean(&text)))?;
            }
            if let Some(run) = trial.user_attrs().find(|(key, _)| *key == RUN_PATH) {
                let run = run.1.as_str().unwrap_or_default();
                out.line(format_args!("  run: {}", clean(run)))?;
            }
        }
        if self.ended.why == Why::Interrupt {
            out.line(format_args!(
                "{HINT}hint:{HINT:#} repeat the command to go on"
            ))?;
        }
        Ok(())
    }
}

fn word(state: TrialState) -> &'static str {
    match state {
        TrialState::Waiting => "waiting",
        TrialState::Running => "running",
        TrialState::Paused => "paused",
        TrialState::Complete => "complete",
        TrialState::Pruned => "pruned",
        TrialState::Failed => "failed",
    }
}
