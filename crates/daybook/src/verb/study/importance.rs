//! `daybook study importance`: which parameters matter.

use std::io::Write as _;
use std::path::PathBuf;

use atune_core::analysis::importance::{Method, Share, importance};
use atune_core::replica::{Replica, Study};
use atune_core::study::History;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{chosen, open};
use crate::failure::{DONE, Failure, Outcome};
use crate::output::Out;
use crate::styles::STRONG;
use crate::text::clean;

/// The width of a bar of share 1.
const BAR: usize = 40;

/// Shows how much of the difference between the trials each parameter explains.
///
/// Looked at are complete trials with finite values. A parameter that only some of them have is measured over these, and
/// counts as much as the variance among them has a part in the whole.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook study importance study.atj
  daybook study importance study.atj --method variance --json")]
pub(super) struct ImportanceArgs {
    /// The study file.
    path: PathBuf,
    /// The study's name, when the file holds several.
    #[arg(long, value_name = "NAME")]
    study: Option<String>,
    /// Only this objective, by its name.
    #[arg(long, value_name = "METRIC")]
    objective: Option<String>,
    /// How it is measured.
    #[arg(long, value_enum, default_value_t = How::Fanova)]
    method: How,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// How importance is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum How {
    /// An analysis of variance over a random forest.
    Fanova,
    /// The variance between trials of similar values; quicker.
    Variance,
}

pub(super) fn run(args: &ImportanceArgs) -> Outcome {
    let reader = open(&args.path)?;
    let study = chosen(&reader, args.study.as_deref())?;
    let names = names(study);
    if let Some(wanted) = args
        .objective
        .as_ref()
        .filter(|wanted| !names.contains(wanted))
    {
        return Err(
            Failure::new(format!("the study has no objective {wanted:?}"))
                .with_hint(format!("it has {}", names.join(", "))),
        );
    }
    let method = match args.method {
        How::Fanova => Method::Fanova,
        How::Variance => Method::Variance,
    };
    let history = history_of(reader.replica(), study);
    let wanted = names.iter().enumerate();
    let wanted =
        wanted.filter(|(_, name)| args.objective.as_ref().is_none_or(|only| only == *name));
    let found: Vec<(&String, Vec<Share>)> = wanted
        .map(|(at, name)| (name, importance(&history, at, method)))
        .collect();
    let mut out = Out::for_json(args.json);
    if args.json {
        let objectives: Vec<Value> = found
            .iter()
            .map(|(name, shares)| {
                let shares = shares.iter();
                let shares: Vec<Value> = shares
                    .map(|s| json!({ "param": s.name, "share": s.share }))
                    .collect();
                json!({ "name": name, "importance": shares })
            })
            .collect();
        out.json(&json!({ "study": study.config.name, "objectives": objectives }))?;
    } else {
        for (name, shares) in found {
            out.line(format_args!("{STRONG}{}{STRONG:#}", clean(name)))?;
            let width = shares
                .iter()
                .map(|s| s.name.chars().count())
                .max()
                .unwrap_or_default();
            for Share { name, share } in &shares {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    clippy::cast_precision_loss,
                    reason = "from 0 to the width of a bar"
                )]
                let len = (share * BAR as f64).round() as usize;
                let name = clean(name);
                out.line(format_args!(
                    "  {name:<width$}  {share:.3}  {}",
                    "█".repeat(len)
                ))?;
            }
            if shares.is_empty() {
                out.line("  too few trials are complete to tell")?;
            }
        }
    }
    out.flush()?;
    Ok(DONE)
}

/// The objectives by their names.
fn names(study: &Study) -> Vec<String> {
    let count = study.config.directions.len();
    let name = |at: usize| {
        let name = study.config.metric_names.get(at);
        name.cloned().unwrap_or_else(|| format!("value {at}"))
    };
    (0..count).map(name).collect()
}

/// A study as the analysis takes it.
pub(super) fn history_of(replica: &Replica, study: &Study) -> History {
    let mut history = History::new(study.id, &study.config);
    let changes = history.changes(replica);
    history.take(changes);
    history
}
