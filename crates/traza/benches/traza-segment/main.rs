//! `cargo dev bench traza-segment`: what segments cost to write, to open and to ask. The method is in
//! `docs/benchmarks/traza-segment.md`.

mod corpus;
mod latency;
mod lookup;
mod machine;
mod measure;
mod open;
mod report;
mod spans;
mod write;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use durable::{Fs as _, RealFs};

use crate::corpus::{Corpus, Size};
use crate::report::Report;
use crate::spans::Profile;

/// The one of the command `daybook`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Measures segments.
#[derive(Debug, Parser)]
struct Options {
    /// Few spans and one round: shows that everything works.
    #[arg(long)]
    quick: bool,
    /// Asks a million generic spans instead of the two usual corpora: in segments of 10 000, as they are sealed, and in
    /// segments of 250 000, as they are after a store has merged the small ones.
    #[arg(long)]
    million: bool,
    /// Rounds, of which medians are taken [default: 3, with --quick 1].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Only this profile.
    #[arg(long, value_enum)]
    profile: Option<Profile>,
    /// Folder for scratch files, which are removed [default: the build's own temporary folder].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Writes the JSON document there instead of to standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Given by cargo to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    fn rounds(&self) -> u64 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 })
    }

    /// The corpora to measure.
    fn sizes(&self) -> Vec<Size> {
        let size = |profile, spans, per_segment| Size {
            profile,
            spans,
            per_segment,
        };
        let (generic, llm) = (Profile::Generic, Profile::Llm);
        let sizes = match (self.million, self.quick) {
            (true, false) => [10_000, 250_000].map(|len| size(generic, 1_000_000, len)),
            (true, true) => [10_000, 25_000].map(|len| size(generic, 100_000, len)),
            (false, false) => [size(generic, 200_000, 10_000), size(llm, 50_000, 10_000)],
            (false, true) => [size(generic, 6_000, 1_500), size(llm, 1_500, 1_500)],
        };
        sizes
            .into_iter()
            .filter(|size| self.profile.is_none_or(|only| only == size.profile))
            .collect()
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr(), "traza-segment bench: {error}").ok();
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let dir = options.dir.as_deref();
    let dir = dir.unwrap_or(Path::new(env!("CARGO_TARGET_TMPDIR")));
    RealFs.create_dir_all(dir)?;
    let scratch = tempfile::tempdir_in(dir)?;
    let mut report = Report::new(machine::facts()?, options.rounds());
    for size in options.sizes() {
        let corpus = Corpus::new(size, scratch.path())?;
        measure_corpus(options, &corpus, &mut report)?;
        corpus.remove()?;
    }
    let document = serde_json::to_string_pretty(&report.json())? + "\n";
    match &options.json {
        Some(path) => durable::publish(&RealFs, path, document.as_bytes())?,
        None => io::stdout().write_all(document.as_bytes())?,
    }
    io::stderr().write_all(report.markdown().as_bytes())?;
    Ok(())
}

fn measure_corpus(options: &Options, corpus: &Corpus, report: &mut Report) -> Result<()> {
    let name = corpus.size.name();
    say(&format!("{name}: writing"))?;
    // A million spans are there to be asked; how quickly they are written is measured on the usual corpora.
    let rounds = if options.million { 1 } else { options.rounds() };
    let written = write::measure(corpus, rounds)?;
    report.add_rates(corpus, &written.rates);
    report.add_sizes(corpus, &written.sizes);
    say(&format!("{name}: opening"))?;
    let opened = open::measure(corpus, options.rounds())?;
    report.add_latencies(corpus, &opened.latencies);
    report.add_residency(corpus, &opened);
    say(&format!("{name}: asking"))?;
    let asked = lookup::measure(corpus, &written.subjects, options.quick)?;
    report.add_latencies(corpus, &asked);
    Ok(())
}

/// Where the run has come to, for whoever waits.
fn say(what: &str) -> io::Result<()> {
    writeln!(io::stderr(), "# {what}")
}
