//! `daybook study compare`: two studies side by side.

use std::io;
use std::path::PathBuf;

use atune_core::replica::{Study, Trial};
use atune_core::storage::journal::JournalReader;
use atune_core::study::constraints::are_met;
use atune_core::trial::{Direction, TrialState};
use clap::Args;
use serde_json::{Value, json};

use super::values::{self, word};
use super::{chosen, open};
use crate::failure::{DONE, Failure, Outcome};
use crate::output::Out;
use crate::styles::STRONG;
use crate::text::{clean, number};

/// Numbers of trials after which the best so far is compared.
const CHECKPOINTS: [usize; 5] = [10, 25, 50, 100, 200];

/// Compares two studies: how far each came after how many trials, and with which parameters.
///
/// They need the same objectives. Values are compared trial by trial in the order of their numbers,
/// pruned and failed ones counted: what a budget was spent on.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook study compare tpe.atj random.atj
  daybook study compare all.atj all.atj --study first --other-study second --json")]
pub(super) struct CompareArgs {
    /// The one study file.
    path: PathBuf,
    /// The other study file.
    other: PathBuf,
    /// The name of the one study, when its file holds several.
    #[arg(long, value_name = "NAME")]
    study: Option<String>,
    /// The name of the other study, when its file holds several.
    #[arg(long, value_name = "NAME")]
    other_study: Option<String>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// One side.
struct Side<'a> {
    study: &'a Study,
    trials: Vec<&'a Trial>,
}

impl<'a> Side<'a> {
    fn new(reader: &'a JournalReader, name: Option<&str>) -> Result<Self, Failure> {
        let study = chosen(reader, name)?;
        let trials = reader.replica().trials_of(study.id).into_iter().flatten();
        Ok(Self {
            study,
            trials: trials.collect(),
        })
    }

    /// The best of the first `count` trials in one objective.
    fn best(&self, count: usize, objective: usize) -> Option<(&'a Trial, f64)> {
        let direction = *self.study.config.directions.get(objective)?;
        let values = self.trials.iter().take(count).filter_map(|trial| {
            let value = trial.values.as_ref()?.get(objective)?.0;
            let is_complete = trial.state == TrialState::Complete;
            let counts = is_complete && !value.is_nan() && are_met(trial);
            counts.then_some((*trial, value))
        });
        values.min_by(|a, b| direction.signed(a.1).total_cmp(&direction.signed(b.1)))
    }

    /// After how many trials one was at least as good as `value`.
    fn reached(&self, value: f64, objective: usize) -> Option<usize> {
        let direction = *self.study.config.directions.get(objective)?;
        let is_good = |trial: &&Trial| {
            let found = trial
                .values
                .as_ref()
                .and_then(|values| values.get(objective));
            let is_good = |found: f64| direction.signed(found) <= direction.signed(value);
            trial.state == TrialState::Complete
                && found.is_some_and(|found| is_good(found.0))
                && are_met(trial)
        };
        self.trials.iter().position(is_good).map(|at| at + 1)
    }

    fn count(&self, state: TrialState) -> usize {
        self.trials
            .iter()
            .filter(|trial| trial.state == state)
            .count()
    }
}

pub(super) fn run(args: &CompareArgs) -> Outcome {
    let (left, right) = (open(&args.path)?, open(&args.other)?);
    let sides = [
        Side::new(&left, args.study.as_deref())?,
        Side::new(&right, args.other_study.as_deref())?,
    ];
    let [one, other] = &sides;
    let (a, b) = (&one.study.config, &other.study.config);
    if a.directions != b.directions || a.metric_names != b.metric_names {
        let objectives = |config: &atune_core::trial::StudyConfig| {
            let names = config.directions.iter().enumerate().map(|(at, direction)| {
                let name = config.metric_names.get(at).map_or("?", String::as_str);
                format!("{} {name}", word(direction))
            });
            names.collect::<Vec<_>>().join(", ")
        };
        return Err(Failure::new(format!(
            "the studies have different objectives: {}, and {}",
            objectives(a),
            objectives(b)
        )));
    }
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&document(&sides))?;
    } else {
        words(&mut out, args, &sides)?;
    }
    io::Write::flush(&mut out)?;
    Ok(DONE)
}

fn objectives(side: &Side<'_>) -> Vec<(usize, String, Direction)> {
    let config = &side.study.config;
    let name = |at: usize| {
        let name = config.metric_names.get(at);
        name.cloned().unwrap_or_else(|| format!("value {at}"))
    };
    let directions = config.directions.iter().enumerate();
    directions
        .map(|(at, direction)| (at, name(at), *direction))
        .collect()
}

fn document(sides: &[Side<'_>; 2]) -> Value {
    let [one, other] = sides;
    let objective = |(at, name, direction): (usize, String, Direction)| {
        let side = |side: &Side<'_>, opponent: &Side<'_>| {
            let best = side.best(usize::MAX, at);
            let checkpoints = CHECKPOINTS
                .iter()
                .filter(|count| **count <= side.trials.len());
            let checkpoints: Vec<Value> = checkpoints
                .map(|count| json!({ "trials": count, "best": side.best(*count, at).map(|b| b.1) }))
                .collect();
            let theirs = opponent.best(usize::MAX, at);
            json!({
                "best": best.map(|best| values::trial(best.0)),
                "after": checkpoints,
                "reached_the_others_best_after": theirs.and_then(|best| side.reached(best.1, at)),
            })
        };
        json!({
            "name": name,
            "direction": word(direction),
            "studies": [side(one, other), side(other, one)],
        })
    };
    let study = |side: &Side<'_>| {
        json!({
            "name": side.study.config.name,
            "trials": side.trials.len(),
            "complete": side.count(TrialState::Complete),
            "pruned": side.count(TrialState::Pruned),
            "failed": side.count(TrialState::Failed),
        })
    };
    json!({
        "studies": sides.iter().map(study).collect::<Vec<_>>(),
        "objectives": objectives(one).into_iter().map(objective).collect::<Vec<_>>(),
    })
}

fn words(out: &mut Out, args: &CompareArgs, sides: &[Side<'_>; 2]) -> io::Result<()> {
    let [one, other] = sides;
    let paths = [&args.path, &args.other];
    for ((side, path), letter) in sides.iter().zip(paths).zip(["A", "B"]) {
        out.line(format_args!(
            "{STRONG}{letter}{STRONG:#}  {} in {}: {} trials, {} complete, {} pruned, {} failed",
            clean(&side.study.config.name),
            path.display(),
            side.trials.len(),
            side.count(TrialState::Complete),
            side.count(TrialState::Pruned),
            side.count(TrialState::Failed),
        ))?;
    }
    let text = |best: Option<f64>| best.map_or_else(|| "-".to_owned(), number);
    for (at, name, direction) in objectives(one) {
        out.line(format_args!(
            "\n{STRONG}{}{STRONG:#} ({})\n{:<22}  {:>12}  {:>12}",
            clean(&name),
            word(direction),
            "best after",
            "A",
            "B"
        ))?;
        let most = one.trials.len().max(other.trials.len());
        let rows = CHECKPOINTS
            .into_iter()
            .filter(|count| *count < most)
            .chain([most]);
        for count in rows {
            let best = |side: &Side<'_>| text(side.best(count, at).map(|best| best.1));
            let label = format!("{count} trials");
            out.line(format_args!(
                "{label:<22}  {:>12}  {:>12}",
                best(one),
                best(other)
            ))?;
        }
        let reached = |side: &Side<'_>, opponent: &Side<'_>| {
            let best = opponent.best(usize::MAX, at);
            let after = best.and_then(|best| side.reached(best.1, at));
            after.map_or_else(|| "never".to_owned(), |after| format!("{after} trials"))
        };
        let label = "reached other's best";
        out.line(format_args!(
            "{label:<22}  {:>12}  {:>12}",
            reached(one, other),
            reached(other, one)
        ))?;
        for (side, letter) in sides.iter().zip(["A", "B"]) {
            if let Some((best, _)) = side.best(usize::MAX, at) {
                let params = best.params.iter();
                let params: Vec<String> = params
                    .map(|p| format!("{}={}", clean(&p.key.name), clean(&values::param_text(p))))
                    .collect();
                out.line(format_args!(
                    "{letter}: trial {}, {}",
                    best.number,
                    params.join(" ")
                ))?;
            }
        }
    }
    Ok(())
}
