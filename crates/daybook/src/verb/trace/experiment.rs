//! `daybook trace experiment`: what went through the examples of a dataset, and how well.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use traza::json;
use traza::logs::eval::EvalState;
use traza::logs::eval::record::Experiment;
use traza::logs::eval::scores::{ScoreDiff, ScoreSummary};

use super::{annotate, dataset, folder, json_value, no_such, now_ns, stored};
use crate::failure::{DONE, Outcome};
use crate::output::Out;
use crate::styles::{BAD, FAINT, GOOD, STRONG};
use crate::text::{count, number, shorten, wall_time};

/// So many examples of a list are named.
const NAMED_MAX: usize = 10;

/// What went through the examples of a dataset, and how it was scored.
///
/// A run says in which trace an example was gone through; a score is an annotation of an example
/// (daybook trace annotate --experiment).
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace experiment create traces/ 1 035bcd7e420d --name nightly --config '{\"temperature\":0.5}'
  daybook trace experiment run traces/ 1 ex-1 --trace 4bf92f3577b34da6a3ce929d0e0e4736
  daybook trace annotate traces/ pass true --experiment 1 --example ex-1
  daybook trace experiment summary traces/ 1
  daybook trace experiment diff traces/ 1 2")]
pub(super) struct ExperimentArgs {
    #[command(subcommand)]
    verb: ExperimentVerb,
}

#[derive(Debug, Subcommand)]
enum ExperimentVerb {
    Create(CreateArgs),
    List(ListArgs),
    /// An experiment with its runs.
    Show(OneArgs),
    Run(RunArgs),
    /// The scores of an experiment, the newest first.
    Scores(OneArgs),
    /// What the scores of an experiment add up to, by name.
    Summary(OneArgs),
    Diff(DiffArgs),
}

/// Creates an experiment over a version of a dataset, and prints its number.
#[derive(Args, Debug)]
struct CreateArgs {
    /// The folder of the store.
    dir: PathBuf,
    /// The number of the dataset.
    dataset: u64,
    /// The version; the first digits of its name do, when no other version has them.
    version: String,
    /// What it is called.
    #[arg(long, default_value = "", hide_default_value = true)]
    name: String,
    /// How it is set up: any JSON.
    #[arg(long, value_name = "JSON", value_parser = json_value)]
    config: Option<json::Value>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The experiments of a store.
#[derive(Args, Debug)]
struct ListArgs {
    /// The folder of the store.
    dir: PathBuf,
    /// Over this dataset.
    #[arg(long, value_name = "N")]
    dataset: Option<u64>,
    /// Of this tenant; an empty text for those without one.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct OneArgs {
    /// The folder of the store.
    dir: PathBuf,
    /// The number of the experiment.
    experiment: u64,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Records that an experiment went through an example, in that trace.
#[derive(Args, Debug)]
struct RunArgs {
    /// The folder of the store.
    dir: PathBuf,
    /// The number of the experiment.
    experiment: u64,
    /// The example.
    example: String,
    /// The trace of the run.
    #[arg(long, value_name = "ID")]
    trace: String,
    /// The span of it.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    span: String,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Compares the scores of two experiments, example by example. A higher number is better.
#[derive(Args, Debug)]
struct DiffArgs {
    /// The folder of the store.
    dir: PathBuf,
    /// The number of the experiment that is compared with.
    base: u64,
    /// The number of the experiment that is judged.
    candidate: u64,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ExperimentArgs) -> Outcome {
    match &args.verb {
        ExperimentVerb::Create(args) => create(args),
        ExperimentVerb::List(args) => list(args),
        ExperimentVerb::Show(args) => show(args),
        ExperimentVerb::Run(args) => add_run(args),
        ExperimentVerb::Scores(args) => scores(args),
        ExperimentVerb::Summary(args) => summary(args),
        ExperimentVerb::Diff(args) => diff(args),
    }
}

fn create(args: &CreateArgs) -> Outcome {
    let store = folder::open_to_change(&args.dir)?;
    let version = store.read_evals(|state| {
        let found = state.dataset(args.dataset);
        let found = found.ok_or_else(|| no_such("dataset", args.dataset, "dataset", &args.dir))?;
        dataset::version_of(state, found, &args.version).map(|found| found.version_id.clone())
    })?;
    let config = args.config.clone();
    let id = store.create_experiment(args.dataset, &version, &args.name, config, now_ns())?;
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&json!({ "experiment_id": id }))?;
    } else {
        out.line(format_args!("experiment {id}"))?;
    }
    out.flush()?;
    Ok(DONE)
}

fn list(args: &ListArgs) -> Outcome {
    let store = folder::open_to_read(&args.dir)?;
    let mut out = Out::for_json(args.json);
    store.read_evals(|state| -> io::Result<()> {
        let wanted = |experiment: &&Experiment| {
            let tenant = args.tenant.as_deref();
            tenant.is_none_or(|tenant| tenant == experiment.tenant)
                && args.dataset.is_none_or(|id| id == experiment.dataset_id)
        };
        let experiments = state.experiments().filter(wanted);
        if args.json {
            let experiments = experiments.map(|experiment| document(state, experiment));
            return out.json(&json!({ "experiments": experiments.collect::<Vec<_>>() }));
        }
        for experiment in experiments {
            out.line(headline(state, experiment))?;
        }
        Ok(())
    })?;
    out.flush()?;
    Ok(DONE)
}

fn show(args: &OneArgs) -> Outcome {
    let store = folder::open_to_read(&args.dir)?;
    let mut out = Out::for_json(args.json);
    let found = store.read_evals(|state| -> io::Result<bool> {
        let Some(experiment) = state.experiment(args.experiment) else {
            return Ok(false);
        };
        let runs = state.runs(experiment.experiment_id);
        if args.json {
            let runs = runs.iter().map(|run| {
                json!({
                    "example_id": run.example_id, "trace_id": run.trace_id, "span_id": run.span_id,
                    "created_unix_ns": run.created_unix_ns,
                })
            });
            let mut shown = document(state, experiment);
            if let Value::Object(members) = &mut shown {
                members.insert("runs".into(), runs.collect());
            }
            out.json(&shown)?;
            return Ok(true);
        }
        out.line(headline(state, experiment))?;
        if let Some(config) = &experiment.config {
            out.line(format_args!("  {}", shorten(&config.to_string(), 120)))?;
        }
        for run in runs {
            out.line(format_args!(
                "  {}  {STRONG}{}{STRONG:#}  {FAINT}{} {}{FAINT:#}",
                wall_time(run.created_unix_ns),
                shorten(&run.example_id, 40),
                shorten(&run.trace_id, 40),
                shorten(&run.span_id, 40)
            ))?;
        }
        Ok(true)
    })?;
    if !found {
        return Err(no_such(
            "experiment",
            args.experiment,
            "experiment",
            &args.dir,
        ));
    }
    out.flush()?;
    Ok(DONE)
}

fn add_run(args: &RunArgs) -> Outcome {
    let store = folder::open_to_change(&args.dir)?;
    store.add_run(
        args.experiment,
        &args.example,
        &args.trace,
        &args.span,
        now_ns(),
    )?;
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&json!({ "recorded": true }))?;
    } else {
        out.line("recorded")?;
    }
    out.flush()?;
    Ok(DONE)
}

fn scores(args: &OneArgs) -> Outcome {
    let store = folder::open_to_read(&args.dir)?;
    let Some(scores) = store.experiment_scores(args.experiment) else {
        return Err(no_such(
            "experiment",
            args.experiment,
            "experiment",
            &args.dir,
        ));
    };
    let mut out = Out::for_json(args.json);
    annotate::list(&mut out, &scores, args.json)?;
    out.flush()?;
    Ok(DONE)
}

fn summary(args: &OneArgs) -> Outcome {
    let store = folder::open_to_read(&args.dir)?;
    let Some(summary) = store.summarise_experiment(args.experiment) else {
        return Err(no_such(
            "experiment",
            args.experiment,
            "experiment",
            &args.dir,
        ));
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        let scores: Vec<Value> = summary.scores.iter().map(summary_document).collect();
        out.json(&json!({
            "experiment_id": args.experiment, "examples_total": summary.examples_total, "scores": scores,
        }))?;
    } else {
        for score in &summary.scores {
            out.line(summary_line(score, summary.examples_total))?;
        }
    }
    out.flush()?;
    Ok(DONE)
}

fn summary_line(score: &ScoreSummary, total: usize) -> String {
    let mut parts = vec![format!(
        "{STRONG}{}{STRONG:#}  {} of {}",
        shorten(&score.name, 40),
        score.examples,
        count(total as u64, "example")
    )];
    if let Some(numbers) = score.numbers {
        let [mean, p50, p95] = [numbers.mean, numbers.p50, numbers.p95].map(number);
        let (min, max) = (number(numbers.min), number(numbers.max));
        parts.push(format!("mean {mean}, {min} to {max}, p50 {p50}, p95 {p95}"));
    }
    if let Some(rate) = score.true_rate {
        parts.push(format!("{} % true", number(rate * 100.0)));
    }
    parts.join(", ")
}

fn summary_document(score: &ScoreSummary) -> Value {
    let numbers = score.numbers;
    json!({
        "name": score.name, "count": score.examples, "examples_scored": score.examples,
        "mean": numbers.map(|numbers| numbers.mean), "min": numbers.map(|numbers| numbers.min),
        "max": numbers.map(|numbers| numbers.max), "p50": numbers.map(|numbers| numbers.p50),
        "p95": numbers.map(|numbers| numbers.p95), "true_rate": score.true_rate,
    })
}

fn diff(args: &DiffArgs) -> Outcome {
    let store = folder::open_to_read(&args.dir)?;
    let Some(diffs) = store.compare_experiments(args.base, args.candidate) else {
        let exists = |id| store.read_evals(|state| state.experiment(id).is_some());
        let missing = if exists(args.base) {
            args.candidate
        } else {
            args.base
        };
        return Err(no_such("experiment", missing, "experiment", &args.dir));
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        let scores: Vec<Value> = diffs.iter().map(diff_document).collect();
        out.json(&json!({
            "base": args.base, "candidate": args.candidate, "scores": scores,
        }))?;
    } else {
        for diff in &diffs {
            print_diff(&mut out, diff)?;
        }
    }
    out.flush()?;
    Ok(DONE)
}

fn print_diff(out: &mut Out, diff: &ScoreDiff) -> io::Result<()> {
    let mean = |mean: Option<f64>| mean.map_or("none".to_owned(), number);
    let mut parts = vec![format!(
        "{STRONG}{}{STRONG:#}  mean {} → {}",
        shorten(&diff.name, 40),
        mean(diff.mean_base),
        mean(diff.mean_candidate)
    )];
    if let Some(delta) = diff.delta() {
        let sign = if delta > 0.0 { "+" } else { "" };
        parts.push(format!("{sign}{}", number(delta)));
    }
    parts.push(format!("{} unchanged", diff.unchanged));
    out.line(parts.join(", "))?;
    for (style, what, examples) in [
        (GOOD, "improved", &diff.improved),
        (BAD, "regressed", &diff.regressed),
        (FAINT, "changed", &diff.changed),
        (FAINT, "only in the base", &diff.only_base),
        (FAINT, "only in the candidate", &diff.only_candidate),
    ] {
        if examples.is_empty() {
            continue;
        }
        let shown = examples.iter().take(NAMED_MAX);
        let mut names: Vec<String> = shown.map(|example| shorten(example, 40)).collect();
        if let Some(more) = examples
            .len()
            .checked_sub(NAMED_MAX)
            .filter(|more| *more > 0)
        {
            names.push(format!("and {more} more"));
        }
        out.line(format_args!(
            "  {style}{what}{style:#} {}: {}",
            examples.len(),
            names.join(", ")
        ))?;
    }
    Ok(())
}

fn diff_document(diff: &ScoreDiff) -> Value {
    json!({
        "name": diff.name, "mean_base": diff.mean_base, "mean_candidate": diff.mean_candidate,
        "delta": diff.delta(), "improved": diff.improved, "regressed": diff.regressed,
        "unchanged": diff.unchanged, "changed": diff.changed, "only_base": diff.only_base,
        "only_candidate": diff.only_candidate,
    })
}

fn headline(state: &EvalState, experiment: &Experiment) -> String {
    let tenant = match experiment.tenant.as_str() {
        "" => String::new(),
        tenant => format!("[{}] ", shorten(tenant, 64)),
    };
    let deleted = if is_tombstoned(state, experiment) {
        format!("  {BAD}its version is not to be used{BAD:#}")
    } else {
        String::new()
    };
    format!(
        "{:>4}  {}  {tenant}{STRONG}{}{STRONG:#}  dataset {}, version {}, {}{deleted}",
        experiment.experiment_id,
        wall_time(experiment.created_unix_ns),
        shorten(&experiment.name, 60),
        experiment.dataset_id,
        shorten(&experiment.dataset_version, 12),
        count(state.runs(experiment.experiment_id).len() as u64, "run"),
    )
}

fn is_tombstoned(state: &EvalState, experiment: &Experiment) -> bool {
    state
        .tombstone(experiment.dataset_id, &experiment.dataset_version)
        .is_some()
}

fn document(state: &EvalState, experiment: &Experiment) -> Value {
    let config = experiment.config.as_ref();
    json!({
        "experiment_id": experiment.experiment_id, "tenant": experiment.tenant,
        "dataset_id": experiment.dataset_id, "dataset_version": experiment.dataset_version,
        "name": experiment.name, "config": config.map(|config| stored(&config.to_string())),
        "created_unix_ns": experiment.created_unix_ns,
        "dataset_version_deleted": is_tombstoned(state, experiment),
        "run_count": state.runs(experiment.experiment_id).len(),
    })
}
