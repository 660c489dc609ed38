//! `daybook migrate`: what opening an older file for writing does by itself, on its own.

use std::io::Write as _;
use std::path::PathBuf;

use atune_core::storage::journal::{JournalOptions, JournalStorage, record::FORMAT_VERSION};
use clap::Args;
use serde_json::json;

use crate::failure::{DONE, Outcome};
use crate::output::Out;
use crate::verb::study;

/// Rewrites a study file of an older version in the present one.
///
/// The old file stays reachable in the folder of data files. Stop all writers of the older version first.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook migrate study.atj")]
pub(crate) struct MigrateArgs {
    /// The study file.
    path: PathBuf,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &MigrateArgs) -> Outcome {
    let before = study::open(&args.path)?;
    let from = before.header().format;
    drop(before);
    if from < FORMAT_VERSION {
        drop(JournalStorage::open(&args.path, JournalOptions::default())?);
    }
    let operations = study::open(&args.path)?.head().ops;
    let mut out = Out::for_json(args.json);
    let path = args.path.display();
    if args.json {
        let facts = json!({
            "path": args.path, "from": from, "to": FORMAT_VERSION, "operations": operations,
            "migrated": from < FORMAT_VERSION,
        });
        out.json(&facts)?;
    } else if from < FORMAT_VERSION {
        out.line(format_args!(
            "{path}: version {from} to {FORMAT_VERSION}, {operations} operations; the old file is {path}.d/legacy-v{from}.jsonl"
        ))?;
    } else {
        out.line(format_args!("{path} has version {FORMAT_VERSION} already"))?;
    }
    out.flush()?;
    Ok(DONE)
}
