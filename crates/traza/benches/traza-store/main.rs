//! `cargo dev bench traza-store`: what a store costs to fill, to open and to ask. The method is in
//! `docs/benchmarks/traza-store.md`.

mod ask;
mod folder;
#[path = "../traza-segment/latency.rs"]
mod latency;
#[path = "../traza-segment/machine.rs"]
mod machine;
mod memory;
mod migrate;
mod reference;
#[path = "../traza-segment/spans/mod.rs"]
mod spans;
mod write;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use durable::{Fs as _, RealFs};
use serde_json::{Map, Value, json};

use crate::spans::Profile;

/// The one of the command `daybook`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Measures stores.
#[derive(Debug, Parser)]
struct Options {
    /// Few spans: shows that everything works.
    #[arg(long)]
    quick: bool,
    /// A million generic spans instead of the two usual corpora.
    #[arg(long)]
    million: bool,
    /// Only this profile.
    #[arg(long, value_enum)]
    profile: Option<Profile>,
    /// Folder for the stores, which are removed [default: the build's own temporary folder].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The server of the reference's release, which is filled and asked too [default: `traza-server` on the path].
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
    /// Only the reference; nothing of this store is measured.
    #[arg(long)]
    only_reference: bool,
    /// Writes the JSON document there instead of to standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Given by cargo to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// So many spans of one profile.
#[derive(Clone, Copy, Debug)]
struct Corpus {
    profile: Profile,
    spans: usize,
}

impl Options {
    fn corpora(&self) -> Vec<Corpus> {
        let (generic, llm) = match (self.million, self.quick) {
            (true, false) => (1_000_000, 0),
            (true, true) => (50_000, 0),
            (false, false) => (200_000, 50_000),
            (false, true) => (5_000, 1_500),
        };
        [(Profile::Generic, generic), (Profile::Llm, llm)]
            .into_iter()
            .filter(|(profile, spans)| {
                *spans > 0 && self.profile.is_none_or(|only| only == *profile)
            })
            .map(|(profile, spans)| Corpus { profile, spans })
            .collect()
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr(), "traza-store bench: {error}").ok();
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let dir = options.dir.as_deref();
    let dir = dir.unwrap_or(Path::new(env!("CARGO_TARGET_TMPDIR")));
    RealFs.create_dir_all(dir)?;
    let reference = reference::find(options.reference.as_deref());
    if reference.is_none() {
        say("the reference is not installed, so it is left out")?;
    }
    let mut corpora = Vec::new();
    for corpus in options.corpora() {
        let scratch = tempfile::tempdir_in(dir)?;
        let name = format!("{} {}k", corpus.profile.name(), corpus.spans / 1000);
        let mut parts = Map::new();
        parts.insert("corpus".to_owned(), json!(name));
        if !options.only_reference {
            say(&format!("{name}: taking in"))?;
            let written = write::measure(corpus, scratch.path())?;
            parts.insert("write".to_owned(), written);
            say(&format!("{name}: opening and asking"))?;
            let kept = scratch.path().join(write::KEPT);
            let asked = ask::measure(corpus, &kept, options.quick)?;
            parts.insert("ask".to_owned(), asked);
            say(&format!("{name}: migrating"))?;
            let migrated = migrate::measure(corpus, &scratch.path().join("old"))?;
            parts.insert("migrate".to_owned(), json!({ "migration": [migrated] }));
        }
        if let Some(binary) = &reference {
            say(&format!("{name}: the reference"))?;
            let measured = reference::measure(binary, corpus, scratch.path(), options.quick)?;
            parts.insert("reference".to_owned(), measured);
        }
        corpora.push(Value::Object(parts));
    }
    let report = json!({ "machine": machine::facts()?, "corpora": corpora });
    let document = serde_json::to_string_pretty(&report)? + "\n";
    match &options.json {
        Some(path) => durable::publish(&RealFs, path, document.as_bytes())?,
        None => io::stdout().write_all(document.as_bytes())?,
    }
    io::stderr().write_all(markdown(&report).as_bytes())?;
    Ok(())
}

/// Where the run has come to, for whoever waits.
fn say(what: &str) -> io::Result<()> {
    writeln!(io::stderr(), "# {what}")
}

/// The same figures as tables: one line for each object of the lists.
fn markdown(report: &Value) -> String {
    let mut text = String::new();
    for corpus in report["corpora"].as_array().into_iter().flatten() {
        let name = corpus["corpus"].as_str().unwrap_or_default();
        for part in ["write", "ask", "migrate", "reference"] {
            for (list, rows) in corpus[part].as_object().into_iter().flatten() {
                let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
                let Some(columns) = rows.first().and_then(Value::as_object) else {
                    continue;
                };
                let head: Vec<&str> = columns.keys().map(String::as_str).collect();
                let columns = head.join(" | ");
                // Writing to a string does not fail.
                write!(text, "\n{name}, {part}, {list}:\n\n| {columns} |\n").ok();
                writeln!(text, "|{}", "---|".repeat(head.len())).ok();
                for row in rows {
                    let cells = head.iter().map(|column| match &row[*column] {
                        Value::Number(number) => number
                            .as_f64()
                            .filter(|_| !number.is_u64())
                            .map_or_else(|| number.to_string(), |value| format!("{value:.1}")),
                        Value::String(word) => word.clone(),
                        other => other.to_string(),
                    });
                    writeln!(text, "| {} |", cells.collect::<Vec<_>>().join(" | ")).ok();
                }
            }
        }
    }
    text
}
