//! `cargo dev bench storage-bench`: the gate on what a settled store takes on the disk. The method is in
//! `docs/benchmarks/storage-bench.md`.

#[path = "../traza-store/folder.rs"]
mod folder;
#[path = "../traza-segment/machine.rs"]
mod machine;
#[path = "../traza-segment/spans/mod.rs"]
mod spans;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use durable::{Fs as _, RealFs};
use serde_json::{Value, json};
use traza::span::Span;
use traza::store::{Store, StoreOptions};

use crate::spans::{Profile, Spans};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// A settled store takes at most so many bytes for each byte of span JSON that it was sent.
const AMPLIFICATION_MAX: f64 = 1.0;
/// Spans of a call.
const BATCH: usize = 500;
const SEED: u64 = 7;

/// Measures what settled stores take on the disk, and fails when it is more than they were sent.
#[derive(Debug, Parser)]
struct Options {
    /// Few spans: shows that everything works. Nothing is judged then.
    #[arg(long)]
    quick: bool,
    /// Folder for the stores, which are removed [default: the build's own temporary folder].
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
    fn corpora(&self) -> [(Profile, usize); 2] {
        let (generic, llm) = if self.quick {
            (20_000, 5_000)
        } else {
            (200_000, 50_000)
        };
        [(Profile::Generic, generic), (Profile::Llm, llm)]
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            writeln!(io::stderr(), "storage-bench: {error}").ok();
            ExitCode::from(2)
        }
    }
}

/// True when the gate is passed.
fn run(options: &Options) -> Result<bool> {
    let dir = options.dir.as_deref();
    let dir = dir.unwrap_or(Path::new(env!("CARGO_TARGET_TMPDIR")));
    RealFs.create_dir_all(dir)?;
    let mut rows = Vec::new();
    let mut is_passed = true;
    for (profile, count) in options.corpora() {
        let scratch = tempfile::tempdir_in(dir)?;
        let settled = settle(profile, count, scratch.path())?;
        is_passed &= settled.amplification() <= AMPLIFICATION_MAX;
        let line = format!(
            "{} {}k: {:.3} bytes on disk for each byte sent, in {} segments (at most {AMPLIFICATION_MAX:.1})",
            profile.name(),
            count / 1000,
            settled.amplification(),
            settled.segments,
        );
        writeln!(io::stderr(), "{line}")?;
        rows.push(settled.json(profile, count));
    }
    // The gate is about stores of the usual size.
    let verdict = match (options.quick, is_passed) {
        (true, _) => "not judged",
        (false, true) => "passed",
        (false, false) => "missed",
    };
    writeln!(io::stderr(), "storage-bench: {verdict}")?;
    let report = json!({
        "machine": machine::facts()?,
        "amplification_max": AMPLIFICATION_MAX,
        "corpora": rows,
        "verdict": verdict,
    });
    let document = serde_json::to_string_pretty(&report)? + "\n";
    match &options.json {
        Some(path) => durable::publish(&RealFs, path, document.as_bytes())?,
        None => io::stdout().write_all(document.as_bytes())?,
    }
    Ok(options.quick || is_passed)
}

/// A store with everything sealed and merged, and closed.
struct Settled {
    /// Bytes of span JSON.
    sent: u64,
    /// Bytes of all its files.
    on_disk: u64,
    /// Bytes of its segments among them.
    segment_bytes: u64,
    segments: usize,
}

impl Settled {
    fn amplification(&self) -> f64 {
        float(self.on_disk) / float(self.sent)
    }

    fn json(&self, profile: Profile, spans: usize) -> Value {
        json!({
            "corpus": profile.name(),
            "spans": spans,
            "sent_bytes": self.sent,
            "disk_bytes": self.on_disk,
            "segment_bytes": self.segment_bytes,
            "segments": self.segments,
            "amplification": self.amplification(),
        })
    }
}

fn settle(profile: Profile, count: usize, scratch: &Path) -> Result<Settled> {
    let dir = scratch.join("store");
    let store = Store::open(&dir, StoreOptions::default())?;
    let mut spans = Spans::new(profile, SEED).take(count);
    let mut sent = 0;
    loop {
        let batch: Vec<Span> = spans.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        let lens = batch.iter().map(|span| span.to_json().len() as u64);
        sent += lens.sum::<u64>();
        store.ingest(batch)?;
    }
    store.flush()?;
    store.compact()?;
    let stats = store.stats();
    drop(store);
    Ok(Settled {
        sent,
        on_disk: folder::len_of(&dir)?,
        segment_bytes: stats.segment_bytes,
        segments: stats.segments,
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark are far below 2^53"
)]
fn float(count: u64) -> f64 {
    count as f64
}
