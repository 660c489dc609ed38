//! `cargo dev bench omni`: what `.omni` journals cost, next to the arithmetic that no chained journal
//! can avoid and next to the recorder that a user would pick instead. The method and a full run's
//! figures are in `docs/benchmarks/omni.md`.
//!
//! Repetitions are interleaved (A B C A B C …) and a ratio is taken within each round, so that a
//! machine that slows down or speeds up does so on both sides of it.

mod append;
mod files;
mod floor;
mod latency;
mod machine;
mod mcap_side;
mod measure;
mod memory;
mod read;
mod report;
mod seek;
mod tables;
mod texts;
mod verify;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use durable::{Fs as _, RealFs};

use crate::files::Prepared;
use crate::measure::Side;
use crate::report::Report;
use crate::texts::Texts;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// What is measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Group {
    Memory,
    Append,
    Verify,
    Read,
    Seek,
    Mcap,
    Latency,
}

/// Measures `.omni` journals.
#[derive(Debug, Parser)]
struct Options {
    /// A tenth of the records and three rounds: shows that everything works.
    #[arg(long)]
    quick: bool,
    /// Records per repetition [default: 1000000, with --quick 100000].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1000..))]
    records: Option<u64>,
    /// Rounds, of which medians are taken [default: 5, with --quick 3].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,
    /// Folder for scratch files, which are removed [default: the system's temporary folder].
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
}

/// Options with their defaults filled in.
#[derive(Debug)]
struct Plan {
    quick: bool,
    records: u64,
    runs: u64,
    only: Vec<Group>,
}

impl Plan {
    fn has(&self, group: Group) -> bool {
        self.only.is_empty() || self.only.contains(&group)
    }
}

/// Payload lengths in bytes.
const PAYLOAD_LENS: [usize; 3] = [64, 256, 1024];

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr(), "omni bench: {error}").ok();
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let plan = Plan {
        quick: options.quick,
        records: options
            .records
            .unwrap_or(if options.quick { 100_000 } else { 1_000_000 }),
        runs: options.runs.unwrap_or(if options.quick { 3 } else { 5 }),
        only: options.only.clone(),
    };
    let scratch = match &options.dir {
        Some(dir) => {
            RealFs.create_dir_all(dir)?;
            tempfile::tempdir_in(dir)?
        }
        None => tempfile::tempdir()?,
    };
    let report = measure_all(&plan, scratch.path())?;
    let document = serde_json::to_string_pretty(&report.json())? + "\n";
    match &options.json {
        Some(path) => durable::publish(&RealFs, path, document.as_bytes())?,
        None => io::stdout().write_all(document.as_bytes())?,
    }
    io::stderr().write_all(tables::markdown(&report).as_bytes())?;
    Ok(())
}

fn measure_all(plan: &Plan, dir: &Path) -> Result<Report> {
    let mut report = Report::new(machine::facts()?, plan.records, plan.runs);
    // First, while the process is still small.
    if plan.has(Group::Memory) {
        say("memory")?;
        report.memory = Some(memory::growth(plan, dir)?);
    }
    for payload_len in PAYLOAD_LENS {
        let texts = Texts::new(payload_len);
        say(&format!("payloads of {payload_len} bytes: preparing files"))?;
        let prepared = Prepared::new(plan, dir, &texts)?;
        let mut sides = sides(plan, dir, &texts, &prepared);
        for round in 0..plan.runs {
            say(&format!(
                "payloads of {payload_len} bytes: round {} of {}",
                round + 1,
                plan.runs
            ))?;
            for side in &mut sides {
                report.add_samples(payload_len, side()?);
            }
        }
        drop(sides);
        if plan.has(Group::Seek) {
            say(&format!("payloads of {payload_len} bytes: seeking"))?;
            report
                .latencies
                .extend(seek::measure(plan, &texts, &prepared)?);
        }
    }
    if plan.has(Group::Latency) {
        say("latency of the recorder")?;
        report.latencies.extend(latency::measure(plan, dir)?);
    }
    Ok(report)
}

fn sides<'a>(
    plan: &Plan,
    dir: &'a Path,
    texts: &'a Texts,
    prepared: &'a Prepared,
) -> Vec<Side<'a>> {
    let records = plan.records;
    let mut sides = Vec::new();
    if plan.has(Group::Append) || plan.has(Group::Verify) {
        sides.push(floor::side(records, texts));
    }
    if plan.has(Group::Append) {
        sides.extend(append::sides(records, dir, texts));
    }
    if plan.has(Group::Mcap) {
        sides.extend(mcap_side::write_sides(records, dir, texts));
    }
    if plan.has(Group::Verify) {
        sides.extend(verify::sides(prepared));
    }
    if plan.has(Group::Read) {
        sides.extend(read::sides(texts, prepared));
    }
    if plan.has(Group::Mcap) {
        sides.extend(mcap_side::read_sides(texts, prepared));
    }
    sides
}

/// Where the run has come to, for whoever waits.
fn say(what: &str) -> io::Result<()> {
    writeln!(io::stderr(), "# {what}")
}
