//! `daybook study create`: a new study file, or a further study in one.

use std::io::Write as _;
use std::path::PathBuf;

use atune_core::storage::Storage as _;
use atune_core::storage::journal::{JournalOptions, JournalStorage};
use atune_core::trial::{Direction, ResourceUnit, StudyConfig};
use clap::{Args, ValueEnum};
use durable::{Fs as _, RealFs};
use serde_json::json;

use crate::failure::{DONE, Failure, Outcome};
use crate::output::Out;

/// Creates a study, and its file when that does not exist yet.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook study create study.atj --minimize loss
  daybook study create study.atj --name tuned --minimize loss --maximize reward --unit epochs")]
pub(super) struct CreateArgs {
    /// The study file.
    path: PathBuf,
    /// The study's name; without, that of the file.
    #[arg(long)]
    name: Option<String>,
    /// An objective to minimize. May be repeated; these come before those to maximize.
    #[arg(long, value_name = "METRIC")]
    minimize: Vec<String>,
    /// An objective to maximize. May be repeated.
    #[arg(long, value_name = "METRIC")]
    maximize: Vec<String>,
    /// Where its random numbers start from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What the steps of reports count.
    #[arg(long, value_enum, default_value_t = Unit::Steps)]
    unit: Unit,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Unit {
    Steps,
    Epochs,
    Seconds,
    Samples,
}

pub(super) fn run(args: &CreateArgs) -> Outcome {
    let objectives = args.minimize.len() + args.maximize.len();
    if objectives == 0 {
        let what = "a study needs at least one objective";
        return Err(Failure::new(what).with_hint("--minimize METRIC or --maximize METRIC"));
    }
    let stem = args.path.file_stem().unwrap_or_default();
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| stem.to_string_lossy().into_owned());
    let directions = |count: usize, direction| std::iter::repeat_n(direction, count);
    let config = StudyConfig {
        name: name.clone(),
        directions: directions(args.minimize.len(), Direction::Minimize)
            .chain(directions(args.maximize.len(), Direction::Maximize))
            .collect(),
        seed: args.seed,
        space: None,
        resource_unit: match args.unit {
            Unit::Steps => ResourceUnit::Steps,
            Unit::Epochs => ResourceUnit::Epochs,
            Unit::Seconds => ResourceUnit::Seconds,
            Unit::Samples => ResourceUnit::Samples,
        },
        metric_names: [&args.minimize[..], &args.maximize[..]].concat(),
    };
    let options = JournalOptions::default();
    let storage = if RealFs.exists(&args.path).unwrap_or(false) {
        super::open(&args.path)?;
        JournalStorage::open(&args.path, options)?
    } else {
        JournalStorage::create(&args.path, options)?
    };
    let study = storage
        .create_study(&config)
        .map_err(|e| Failure::new(e.to_string()))?;
    let mut out = Out::for_json(args.json);
    if args.json {
        let facts = json!({ "path": args.path, "study": study, "name": name });
        out.json(&facts)?;
    } else {
        out.line(format_args!("study {name:?} in {}", args.path.display()))?;
    }
    out.flush()?;
    Ok(DONE)
}
