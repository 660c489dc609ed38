//! `cargo dev bench atj`: what trials on `.atj` journals cost, next to the synced append that no
//! durable commit can avoid and next to the tuners that a user would pick instead. The method is in
//! `docs/benchmarks/atj.md`.
//!
//! Writers are processes of their own, as workers are. Measurements are interleaved (A B C A B C …),
//! so that a machine that slows down does so for all of them.

mod crew;
mod engine;
mod floor;
mod load;
mod machine;
mod peers;
mod rates;
mod report;
mod stall;
mod stats;
mod trial;
mod worker;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use durable::{Fs as _, RealFs};

use crate::load::Prepared;
use crate::peers::Peers;
use crate::report::Report;
use crate::worker::Role;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// What is measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Group {
    Rate,
    Held,
    Open,
    Stall,
    Peers,
}

/// Measures `.atj` journals.
#[derive(Debug, Parser)]
struct Options {
    /// A tenth of the trials and three rounds: shows that everything works.
    #[arg(long)]
    quick: bool,
    /// Rounds, of which medians are taken [default: 5, with --quick 3].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Folder for scratch files, which are removed [default: the build's own temporary folder].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Only these groups, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Group>,
    /// Writes the JSON document there instead of to standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Given by cargo to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
    /// How the program starts itself.
    #[command(subcommand)]
    role: Option<Role>,
}

/// Options with their defaults filled in.
#[derive(Debug)]
struct Plan {
    quick: bool,
    rounds: u64,
    only: Vec<Group>,
}

impl Plan {
    fn has(&self, group: Group) -> bool {
        self.only.is_empty() || self.only.contains(&group)
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.role {
        Some(role) => role.run(),
        None => run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr(), "atj bench: {error}").ok();
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let plan = Plan {
        quick: options.quick,
        rounds: options.rounds.unwrap_or(if options.quick { 3 } else { 5 }),
        only: options.only.clone(),
    };
    let dir = options.dir.as_deref();
    let dir = dir.unwrap_or(Path::new(env!("CARGO_TARGET_TMPDIR")));
    RealFs.create_dir_all(dir)?;
    let scratch = tempfile::tempdir_in(dir)?;
    let report = measure_all(&plan, scratch.path())?;
    let document = serde_json::to_string_pretty(&report.json())? + "\n";
    match &options.json {
        Some(path) => durable::publish(&RealFs, path, document.as_bytes())?,
        None => io::stdout().write_all(document.as_bytes())?,
    }
    io::stderr().write_all(report.markdown().as_bytes())?;
    Ok(())
}

fn measure_all(plan: &Plan, dir: &Path) -> Result<Report> {
    let mut report = Report::new(machine::facts()?, plan.rounds);
    let mut peers = Peers::none();
    if plan.has(Group::Peers) {
        say("preparing the Python peers")?;
        match Peers::prepare() {
            Ok(prepared) => peers = prepared,
            Err(why) => report.skip("Python", &why.to_string()),
        }
    }
    let mut prepared = None;
    if plan.has(Group::Open) || plan.has(Group::Held) {
        say("writing studies")?;
        prepared = Some(Prepared::new(plan, dir)?);
    }
    if let Some(prepared) = prepared.as_ref().filter(|_| plan.has(Group::Open)) {
        say("opening studies")?;
        load::measure(plan, dir, &peers, prepared, &mut report)?;
    }
    if plan.has(Group::Peers) {
        say("opening studies of the peers")?;
        load::measure_peers(plan, dir, &peers, &mut report);
    }
    let held = load::sizes(plan).last().copied().unwrap_or_default();
    let mut rates = rates::rates(plan, held);
    for round in 0..plan.rounds {
        say(&format!("rates: round {} of {}", round + 1, plan.rounds))?;
        report.floors_us.push(stats::median(&floor::micros(dir)?));
        rates::round(&mut rates, dir, &peers, prepared.as_ref())?;
    }
    rates::add_to(&mut report, &rates);
    if plan.has(Group::Stall) {
        say("killing writers")?;
        report.stall = Some(stall::measure(plan, dir)?);
    }
    Ok(report)
}

/// Where the run has come to, for whoever waits.
fn say(what: &str) -> io::Result<()> {
    writeln!(io::stderr(), "# {what}")
}
