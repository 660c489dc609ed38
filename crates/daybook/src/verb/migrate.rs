//! `daybook migrate`: what opening an older study or store for writing does by itself, on its own.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atune_core::storage::journal::{JournalOptions, JournalStorage, record::FORMAT_VERSION};
use clap::Args;
use durable::{Fs as _, RealFs, SystemClock};
use serde_json::json;
use traza::segment::layout::FORMAT_VERSION as SEGMENT_FORMAT;
use traza::store::{self, Migrated, Store, StoreError, StoreOptions};

use crate::failure::{BAD_CODE, DONE, Failure, Outcome, chain_text};
use crate::output::Out;
use crate::progress::Progress;
use crate::text::count;
use crate::verb::study;

/// Rewrites a study file or a trace store of an older version in the present one.
///
/// The old file of a study stays reachable in the folder of data files. The files of a store are replaced under their
/// own names, those of its pins too: there must be room for the store and for each pin once more, and a copy made
/// before is the only way back. Started again, an interrupted migration goes on. Stop all writers of the older version
/// first.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook migrate study.atj
  daybook migrate traces/")]
pub(crate) struct MigrateArgs {
    /// The study file, or the folder of the store.
    path: PathBuf,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &MigrateArgs) -> Outcome {
    if is_store(&args.path) {
        migrate_store(args)
    } else {
        migrate_study(args)
    }
}

fn migrate_study(args: &MigrateArgs) -> Outcome {
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

/// True for a folder in which a store of any release lies.
fn is_store(path: &Path) -> bool {
    let names = RealFs.read_dir(path).unwrap_or_default();
    names.iter().any(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let is_segment = path.extension().is_some_and(|extension| extension == "seg");
        name.is_some_and(|name| {
            matches!(name, "CURRENT" | "generations" | "wal.log")
                || is_segment && name.starts_with("segment-")
        })
    })
}

fn migrate_store(args: &MigrateArgs) -> Outcome {
    let mut options = StoreOptions::default();
    // Nothing is taken in, so nothing has to be sealed meanwhile.
    options.upkeep = store::Upkeep::Inline;
    let mut progress: Option<Progress> = None;
    let store = Store::open_with_progress(
        Arc::new(RealFs),
        Arc::new(SystemClock::start()),
        &args.path,
        options,
        &mut |come| {
            progress
                .get_or_insert_with(|| Progress::of_bytes(come.total_bytes))
                .at(&args.path, come.done_bytes, come.total_bytes);
        },
    );
    drop(progress);
    let store = store.map_err(|error| refusal(&error))?;
    let opened = store.opened();
    let mut out = Out::for_json(args.json);
    if args.json {
        let migrated = opened.migrated.clone().unwrap_or_default();
        let facts = json!({
            "path": args.path, "from": migrated.from, "to": SEGMENT_FORMAT,
            "migrated": opened.migrated.is_some(), "generation": opened.generation,
            "segments": migrated.segments, "blobs": migrated.blobs, "pins": migrated.pins,
        });
        out.json(&facts)?;
    } else {
        let path = args.path.display();
        match &opened.migrated {
            Some(migrated) => out.line(format_args!(
                "{path}: {}; generation {}",
                done_text(migrated),
                opened.generation
            ))?,
            None => out.line(format_args!(
                "{path} has version {SEGMENT_FORMAT} already, nothing to do"
            ))?,
        }
    }
    out.flush()?;
    Ok(DONE)
}

fn done_text(migrated: &Migrated) -> String {
    let from: Vec<String> = migrated.from.iter().map(u16::to_string).collect();
    let versions = match from.as_slice() {
        [] => format!("declared version {SEGMENT_FORMAT}"),
        from => format!("version {} to {SEGMENT_FORMAT}", from.join(" and ")),
    };
    let counts = [
        (migrated.segments, "segment"),
        (migrated.blobs, "payload"),
        (migrated.pins, "pin"),
    ];
    counts.into_iter().fold(versions, |text, (number, noun)| {
        format!("{text}, {}", count(number as u64, noun))
    })
}

fn refusal(error: &StoreError) -> Failure {
    let failure = Failure::new(chain_text(error));
    match error {
        StoreError::Damaged { .. } | StoreError::Segment { .. } | StoreError::Blob { .. } => failure
            .with_code(BAD_CODE)
            .with_hint("the file is as it was; restore it from a copy, and migrate again to go on"),
        StoreError::Unreadable { .. } => failure.with_hint(
            "these files are as they were; move them away, or read them with the release that wrote them",
        ),
        _ => failure,
    }
}
