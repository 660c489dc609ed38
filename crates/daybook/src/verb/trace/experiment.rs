//! `daybook trace experiment`: what went through the examples of a dataset, and how well.

use std::io::{self, Write as _};

use clap::{Args, Subcommand};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use traza::json;
use traza::logs::eval::EvalState;
use traza::logs::eval::{record, scores};

use super::dataset::Dataset;
use super::place::{Place, PlaceArgs};
use super::server::{Server, Target};
use super::{annotate, folder, json_value, no_such, now_ns, stored};
use crate::failure::{DONE, Failure, Outcome};
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
  daybook trace experiment diff traces/ 1 2
  daybook trace experiment diff --url http://127.0.0.1:4318 1 2")]
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
    #[command(flatten)]
    place: PlaceArgs,
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
    #[command(flatten)]
    place: PlaceArgs,
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
    #[command(flatten)]
    place: PlaceArgs,
    /// The number of the experiment.
    experiment: u64,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Records that an experiment went through an example, in that trace.
#[derive(Args, Debug)]
struct RunArgs {
    #[command(flatten)]
    place: PlaceArgs,
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
    #[command(flatten)]
    place: PlaceArgs,
    /// The number of the experiment that is compared with.
    base: u64,
    /// The number of the experiment that is judged.
    candidate: u64,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// An experiment, of a store or of a server.
#[derive(Deserialize, Serialize)]
struct Experiment {
    experiment_id: u64,
    #[serde(default)]
    tenant: String,
    dataset_id: u64,
    dataset_version: String,
    #[serde(default)]
    name: String,
    config: Option<Value>,
    created_unix_ns: u64,
    dataset_version_deleted: bool,
    run_count: u64,
}

#[derive(Deserialize, Serialize)]
struct Experiments {
    experiments: Vec<Experiment>,
}

#[derive(Deserialize, Serialize)]
struct Run {
    example_id: String,
    trace_id: String,
    #[serde(default)]
    span_id: String,
    created_unix_ns: u64,
}

#[derive(Deserialize)]
struct Runs {
    runs: Vec<Run>,
}

#[derive(Serialize)]
struct WithRuns {
    #[serde(flatten)]
    experiment: Experiment,
    runs: Vec<Run>,
}

#[derive(Deserialize, Serialize)]
struct Created {
    experiment_id: u64,
}

#[derive(Deserialize, Serialize)]
struct Summary {
    experiment_id: u64,
    examples_total: u64,
    scores: Vec<Score>,
}

/// What the scores of one name add up to.
#[derive(Deserialize, Serialize)]
struct Score {
    name: String,
    count: u64,
    examples_scored: u64,
    mean: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    p50: Option<f64>,
    p95: Option<f64>,
    true_rate: Option<f64>,
}

#[derive(Deserialize, Serialize)]
struct Diff {
    base: u64,
    candidate: u64,
    scores: Vec<ScoreDiff>,
}

/// How the scores of one name differ.
#[derive(Deserialize, Serialize)]
struct ScoreDiff {
    name: String,
    mean_base: Option<f64>,
    mean_candidate: Option<f64>,
    delta: Option<f64>,
    improved: Vec<String>,
    regressed: Vec<String>,
    unchanged: u64,
    changed: Vec<String>,
    only_base: Vec<String>,
    only_candidate: Vec<String>,
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

fn target() -> Target {
    Target::new("/v1/experiments")
}

fn absent(id: u64, place: &PlaceArgs) -> Failure {
    no_such("experiment", id, "experiment", &place.name())
}

fn create(args: &CreateArgs) -> Outcome {
    let absent = || no_such("dataset", args.dataset, "dataset", &args.place.name());
    let config = args.config.clone();
    let created = match args.place.place()? {
        Place::Folder(dir) => {
            let store = folder::open_to_change(dir)?;
            let dataset = store.read_evals(|state| Dataset::in_state(state, args.dataset));
            let dataset = dataset.ok_or_else(absent)?;
            let version = &dataset.version(&args.version)?.version_id;
            let id = store.create_experiment(args.dataset, version, &args.name, config, now_ns());
            Created { experiment_id: id? }
        }
        Place::Server(server) => {
            let dataset = Dataset::told_by(&server, args.dataset)?.ok_or_else(absent)?;
            let version = &dataset.version(&args.version)?.version_id;
            let mut body = json::Object::new();
            body.insert("dataset_id".to_owned(), args.dataset.into());
            body.insert("dataset_version".to_owned(), version.as_str().into());
            body.insert("name".to_owned(), args.name.as_str().into());
            body.extend(config.map(|config| ("config".to_owned(), config)));
            server.post(&target(), &json::Value::Object(body).to_string())?
        }
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&created)?;
    } else {
        out.line(format_args!("experiment {}", created.experiment_id))?;
    }
    out.flush()?;
    Ok(DONE)
}

fn list(args: &ListArgs) -> Outcome {
    let tenant = args.tenant.as_deref();
    let all = match args.place.place()? {
        Place::Folder(dir) => folder::open_to_read(dir)?.read_evals(|state| {
            let wanted = |experiment: &&record::Experiment| {
                tenant.is_none_or(|tenant| tenant == experiment.tenant)
                    && args.dataset.is_none_or(|id| id == experiment.dataset_id)
            };
            let wanted = state.experiments().filter(wanted);
            Experiments {
                experiments: wanted.map(|found| Experiment::of(state, found)).collect(),
            }
        }),
        Place::Server(server) => {
            let target = target().with_some("dataset_id", args.dataset);
            server.read(&target.with_some("tenant", tenant))?
        }
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&all)?;
        return Ok(DONE);
    }
    for experiment in &all.experiments {
        out.line(experiment.headline())?;
    }
    out.flush()?;
    Ok(DONE)
}

fn show(args: &OneArgs) -> Outcome {
    let id = args.experiment;
    let found = match args.place.place()? {
        Place::Folder(dir) => folder::open_to_read(dir)?.read_evals(|state| {
            let found = state.experiment(id)?;
            let runs = state.runs(id).iter().map(|run| Run {
                example_id: run.example_id.clone(),
                trace_id: run.trace_id.clone(),
                span_id: run.span_id.clone(),
                created_unix_ns: run.created_unix_ns,
            });
            Some(WithRuns {
                experiment: Experiment::of(state, found),
                runs: runs.collect(),
            })
        }),
        Place::Server(server) => Experiment::told_by(&server, id)?
            .map(|experiment| {
                let Runs { runs } = server.read(&target().part(id).part("runs"))?;
                Ok::<_, Failure>(WithRuns { experiment, runs })
            })
            .transpose()?,
    };
    let shown = found.ok_or_else(|| absent(id, &args.place))?;
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&shown)?;
        return Ok(DONE);
    }
    out.line(shown.experiment.headline())?;
    if let Some(config) = &shown.experiment.config {
        out.line(format_args!("  {}", shorten(&config.to_string(), 120)))?;
    }
    for run in &shown.runs {
        out.line(format_args!(
            "  {}  {STRONG}{}{STRONG:#}  {FAINT}{} {}{FAINT:#}",
            wall_time(run.created_unix_ns),
            shorten(&run.example_id, 40),
            shorten(&run.trace_id, 40),
            shorten(&run.span_id, 40)
        ))?;
    }
    out.flush()?;
    Ok(DONE)
}

fn add_run(args: &RunArgs) -> Outcome {
    let (id, example) = (args.experiment, args.example.as_str());
    match args.place.place()? {
        Place::Folder(dir) => {
            let store = folder::open_to_change(dir)?;
            store.add_run(id, example, &args.trace, &args.span, now_ns())?;
        }
        Place::Server(server) => {
            let body = json!({
                "example_id": example, "trace_id": args.trace, "span_id": args.span,
            });
            let target = target().part(id).part("runs");
            server.post::<IgnoredAny>(&target, &body.to_string())?;
        }
    }
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
    let id = args.experiment;
    let found = match args.place.place()? {
        Place::Folder(dir) => folder::open_to_read(dir)?.experiment_scores(id),
        Place::Server(server) => server
            .find(&target().part(id).part("scores"))?
            .map(|body| annotate::of_answer(&server, &body, "scores"))
            .transpose()?,
    };
    let scores = found.ok_or_else(|| absent(id, &args.place))?;
    let mut out = Out::for_json(args.json);
    annotate::list(&mut out, &scores, args.json)?;
    out.flush()?;
    Ok(DONE)
}

fn summary(args: &OneArgs) -> Outcome {
    let id = args.experiment;
    let found = match args.place.place()? {
        Place::Folder(dir) => {
            let found = folder::open_to_read(dir)?.summarise_experiment(id);
            found.map(|summary| Summary {
                experiment_id: id,
                examples_total: summary.examples_total as u64,
                scores: summary.scores.into_iter().map(Score::from).collect(),
            })
        }
        Place::Server(server) => server.find_and_read(&target().part(id).part("summary"))?,
    };
    let summary = found.ok_or_else(|| absent(id, &args.place))?;
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&summary)?;
        return Ok(DONE);
    }
    for score in &summary.scores {
        out.line(score.line(summary.examples_total))?;
    }
    out.flush()?;
    Ok(DONE)
}

fn diff(args: &DiffArgs) -> Outcome {
    let (base, candidate) = (args.base, args.candidate);
    let (found, has_base) = match args.place.place()? {
        Place::Folder(dir) => {
            let store = folder::open_to_read(dir)?;
            let scores = store.compare_experiments(base, candidate);
            let found = scores.map(|scores| Diff {
                base,
                candidate,
                scores: scores.into_iter().map(ScoreDiff::from).collect(),
            });
            let has_base = store.read_evals(|state| state.experiment(base).is_some());
            (found, has_base)
        }
        Place::Server(server) => {
            let target = Target::new("/v1/experiments/diff").with("base", base);
            let found = server.find_and_read(&target.with("candidate", candidate))?;
            let has_base = found.is_some() || Experiment::told_by(&server, base)?.is_some();
            (found, has_base)
        }
    };
    let missing = if has_base { candidate } else { base };
    let diff: Diff = found.ok_or_else(|| absent(missing, &args.place))?;
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&diff)?;
        return Ok(DONE);
    }
    for score in &diff.scores {
        score.print(&mut out)?;
    }
    out.flush()?;
    Ok(DONE)
}

impl Experiment {
    fn of(state: &EvalState, experiment: &record::Experiment) -> Self {
        let (dataset, version) = (experiment.dataset_id, &experiment.dataset_version);
        let config = experiment.config.as_ref();
        Self {
            experiment_id: experiment.experiment_id,
            tenant: experiment.tenant.clone(),
            dataset_id: dataset,
            dataset_version: version.clone(),
            name: experiment.name.clone(),
            config: config.map(|config| stored(&config.to_string())),
            created_unix_ns: experiment.created_unix_ns,
            dataset_version_deleted: state.tombstone(dataset, version).is_some(),
            run_count: state.runs(experiment.experiment_id).len() as u64,
        }
    }

    fn told_by(server: &Server, id: u64) -> Result<Option<Self>, Failure> {
        server.find_and_read(&target().part(id))
    }

    fn headline(&self) -> String {
        let tenant = match self.tenant.as_str() {
            "" => String::new(),
            tenant => format!("[{}] ", shorten(tenant, 64)),
        };
        let deleted = if self.dataset_version_deleted {
            format!("  {BAD}its version is not to be used{BAD:#}")
        } else {
            String::new()
        };
        format!(
            "{:>4}  {}  {tenant}{STRONG}{}{STRONG:#}  dataset {}, version {}, {}{deleted}",
            self.experiment_id,
            wall_time(self.created_unix_ns),
            shorten(&self.name, 60),
            self.dataset_id,
            shorten(&self.dataset_version, 12),
            count(self.run_count, "run"),
        )
    }
}

impl From<scores::ScoreSummary> for Score {
    fn from(score: scores::ScoreSummary) -> Self {
        let numbers = score.numbers.as_ref();
        Self {
            name: score.name,
            count: score.examples as u64,
            examples_scored: score.examples as u64,
            mean: numbers.map(|numbers| numbers.mean),
            min: numbers.map(|numbers| numbers.min),
            max: numbers.map(|numbers| numbers.max),
            p50: numbers.map(|numbers| numbers.p50),
            p95: numbers.map(|numbers| numbers.p95),
            true_rate: score.true_rate,
        }
    }
}

impl Score {
    fn line(&self, total: u64) -> String {
        let mut parts = vec![format!(
            "{STRONG}{}{STRONG:#}  {} of {}",
            shorten(&self.name, 40),
            self.examples_scored,
            count(total, "example")
        )];
        if let (Some(mean), Some(min), Some(max), Some(p50), Some(p95)) =
            (self.mean, self.min, self.max, self.p50, self.p95)
        {
            let [mean, min, max, p50, p95] = [mean, min, max, p50, p95].map(number);
            parts.push(format!("mean {mean}, {min} to {max}, p50 {p50}, p95 {p95}"));
        }
        if let Some(rate) = self.true_rate {
            parts.push(format!("{} % true", number(rate * 100.0)));
        }
        parts.join(", ")
    }
}

impl From<scores::ScoreDiff> for ScoreDiff {
    fn from(diff: scores::ScoreDiff) -> Self {
        Self {
            mean_base: diff.mean_base,
            mean_candidate: diff.mean_candidate,
            delta: diff.delta(),
            unchanged: diff.unchanged as u64,
            name: diff.name,
            improved: diff.improved,
            regressed: diff.regressed,
            changed: diff.changed,
            only_base: diff.only_base,
            only_candidate: diff.only_candidate,
        }
    }
}

impl ScoreDiff {
    fn print(&self, out: &mut Out) -> io::Result<()> {
        let mean = |mean: Option<f64>| mean.map_or("none".to_owned(), number);
        let mut parts = vec![format!(
            "{STRONG}{}{STRONG:#}  mean {} → {}",
            shorten(&self.name, 40),
            mean(self.mean_base),
            mean(self.mean_candidate)
        )];
        if let Some(delta) = self.delta {
            let sign = if delta > 0.0 { "+" } else { "" };
            parts.push(format!("{sign}{}", number(delta)));
        }
        parts.push(format!("{} unchanged", self.unchanged));
        out.line(parts.join(", "))?;
        for (style, what, examples) in [
            (GOOD, "improved", &self.improved),
            (BAD, "regressed", &self.regressed),
            (FAINT, "changed", &self.changed),
            (FAINT, "only in the base", &self.only_base),
            (FAINT, "only in the candidate", &self.only_candidate),
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
}
