//! `daybook trace compact|checkpoint|pin|unpin|pins|restore`: what keeps a store small, provable and recoverable.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use durable::RealFs;
use serde_json::json;
use traza::store::{Pin, StoreOptions};

use super::cold_codec::ColdCodecArgs;
use super::folder;
use crate::failure::{DONE, Failure, Outcome};
use crate::output::Out;
use crate::text::{bytes, count, wall_time};

/// Merges small segments into larger ones, and drops older versions of spans that newer ones have replaced.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace compact traces/
  daybook trace compact traces/ --cold-codec zstd")]
pub(super) struct CompactArgs {
    /// The folder of the store.
    dir: PathBuf,
    #[command(flatten)]
    cold: ColdCodecArgs,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Seals what is buffered, and writes the manifest of a new generation, with the digest of every file.
///
/// `daybook verify` compares the store with it from then on.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace checkpoint traces/ && daybook verify traces/")]
pub(super) struct CheckpointArgs {
    /// The folder of the store.
    dir: PathBuf,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Keeps a generation under a name (`pin`), or gives it up (`unpin`).
///
/// A pin is a checkpoint in a folder of its own, below `pins/`. It shares its files with the store, so it takes room only
/// for what the store replaces afterwards. To have a backup, copy the folder of the pin to another disk.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace pin traces/ before-upgrade
  daybook trace unpin traces/ before-upgrade")]
pub(super) struct PinArgs {
    /// The folder of the store.
    dir: PathBuf,
    /// The name: without slashes, and not beginning with a dot.
    label: String,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The pins of a store.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace pins traces/")]
pub(super) struct PinsArgs {
    /// The folder of the store.
    dir: PathBuf,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Puts a pin, or a copy of one, in the place of a store. What the store held is gone afterwards.
///
/// Every file of the pin is checked against its manifest before anything is changed. Interrupted, it leaves the old
/// store or the new one: the next opening brings it to its end.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace restore traces/pins/before-upgrade traces/ --yes
  daybook trace restore /backup/before-upgrade new-traces/")]
pub(super) struct RestoreArgs {
    /// The folder of the pin.
    pin: PathBuf,
    /// The folder of the store.
    dir: PathBuf,
    /// Replaces the store that is there.
    #[arg(long)]
    yes: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn compact(args: &CompactArgs) -> Outcome {
    let mut options = StoreOptions::default();
    options.cold_codec = args.cold.codec();
    let store = folder::open_to_change_with(&args.dir, options)?;
    let done = store.compact()?;
    let segments = store.stats().segments;
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&json!({
            "path": args.dir, "merged_segments": done.merged_segments,
            "written_segments": done.written_segments, "dropped_records": done.dropped_records,
            "segments": segments,
        }))?;
    } else if done.merged_segments == 0 {
        let segments = count(segments as u64, "segment");
        out.line(format_args!("nothing to merge; {segments}"))?;
    } else {
        out.line(format_args!(
            "{} merged into {}, {} dropped",
            count(done.merged_segments as u64, "segment"),
            done.written_segments,
            count(done.dropped_records, "older record")
        ))?;
    }
    out.flush()?;
    Ok(DONE)
}

pub(super) fn checkpoint(args: &CheckpointArgs) -> Outcome {
    let store = folder::open_to_change(&args.dir)?;
    let generation = store.checkpoint()?;
    let files = store.manifest()?.files.len();
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&json!({ "path": args.dir, "generation": generation, "files": files }))?;
    } else {
        let files = count(files as u64, "file");
        out.line(format_args!("generation {generation}, {files}"))?;
    }
    out.flush()?;
    Ok(DONE)
}

pub(super) fn pin(args: &PinArgs) -> Outcome {
    let store = folder::open_to_change(&args.dir)?;
    let pin = store.pin(&args.label)?;
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&document(&pin))?;
    } else {
        out.line(format_args!("kept {}", in_words(&pin)))?;
    }
    out.flush()?;
    Ok(DONE)
}

pub(super) fn unpin(args: &PinArgs) -> Outcome {
    let store = folder::open_to_change(&args.dir)?;
    if !store.unpin(&args.label)? {
        let hint = format!("`daybook trace pins {}` lists them", args.dir.display());
        let what = format!("there is no pin {:?}", args.label);
        return Err(Failure::new(what).with_hint(hint));
    }
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&json!({ "path": args.dir, "label": args.label, "released": true }))?;
    } else {
        out.line(format_args!("released {}", args.label))?;
    }
    out.flush()?;
    Ok(DONE)
}

pub(super) fn pins(args: &PinsArgs) -> Outcome {
    let store = folder::open_to_read(&args.dir)?;
    let pins = store.pins()?;
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&pins.iter().map(document).collect::<Vec<_>>())?;
    } else {
        for pin in &pins {
            out.line(in_words(pin))?;
        }
    }
    out.flush()?;
    Ok(DONE)
}

pub(super) fn restore(args: &RestoreArgs) -> Outcome {
    let is_there = durable::Fs::exists(&RealFs, &args.dir.join("CURRENT"))
        .map_err(|error| Failure::io(&format!("cannot look at {}", args.dir.display()), &error))?;
    if is_there && !args.yes {
        let what = format!("{} is a store, which would be replaced", args.dir.display());
        return Err(Failure::new(what).with_hint("--yes replaces it; a pin of it would keep it"));
    }
    let restored = traza::store::restore(&RealFs, &args.pin, &args.dir)?;
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&json!({
            "path": args.dir, "pin": args.pin, "generation": restored.generation,
            "source_generation": restored.source_generation, "files": restored.files,
            "bytes": restored.bytes,
        }))?;
    } else {
        out.line(format_args!(
            "{} of {}; generation {} is now {}",
            count(restored.files as u64, "file"),
            bytes(restored.bytes),
            restored.source_generation,
            restored.generation
        ))?;
    }
    out.flush()?;
    Ok(DONE)
}

fn document(pin: &Pin) -> serde_json::Value {
    json!({
        "label": pin.label, "generation": pin.generation, "files": pin.files,
        "bytes": pin.bytes, "created_unix_ns": pin.created_unix_ns,
    })
}

fn in_words(pin: &Pin) -> String {
    format!(
        "{}: generation {} of {}, {} of {}",
        pin.label,
        pin.generation,
        wall_time(pin.created_unix_ns),
        count(pin.files as u64, "file"),
        bytes(pin.bytes)
    )
}
