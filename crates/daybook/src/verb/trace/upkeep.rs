//! `daybook trace compact|checkpoint|pin|unpin|pins|restore`: what keeps a store small, provable and recoverable.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use durable::RealFs;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use traza::store::{Pin, StoreOptions};

use super::cold_codec::ColdCodecArgs;
use super::folder;
use super::place::{NoServer, Place, PlaceArgs};
use super::server::Target;
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
    #[command(flatten)]
    no_server: NoServer,
}

/// Seals what is buffered, and writes the manifest of a new generation, with the digest of every file.
///
/// `daybook verify` compares the store with it from then on.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace checkpoint traces/ && daybook verify traces/
  daybook trace checkpoint --url http://127.0.0.1:4318")]
pub(super) struct CheckpointArgs {
    #[command(flatten)]
    place: PlaceArgs,
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
  daybook trace unpin traces/ before-upgrade
  daybook trace pin --url http://127.0.0.1:4318 before-upgrade")]
pub(super) struct PinArgs {
    #[command(flatten)]
    place: PlaceArgs,
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
    #[command(flatten)]
    no_server: NoServer,
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
    #[command(flatten)]
    no_server: NoServer,
}

pub(super) fn compact(args: &CompactArgs) -> Outcome {
    args.no_server.check(&[&args.dir])?;
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
    let (generation, files) = match args.place.place()? {
        Place::Folder(dir) => {
            let store = folder::open_to_change(dir)?;
            let generation = store.checkpoint()?;
            (generation, Some(store.manifest()?.files.len()))
        }
        Place::Server(server) => {
            let Published { generation } = server.post(&Target::new("/v1/checkpoint"), "")?;
            (generation, None)
        }
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        let path = args.place.name();
        out.json(&json!({ "path": path, "generation": generation, "files": files }))?;
    } else {
        let files = files.map(|files| format!(", {}", count(files as u64, "file")));
        let files = files.unwrap_or_default();
        out.line(format_args!("generation {generation}{files}"))?;
    }
    out.flush()?;
    Ok(DONE)
}

pub(super) fn pin(args: &PinArgs) -> Outcome {
    let (document, words) = match args.place.place()? {
        Place::Folder(dir) => {
            let pin = folder::open_to_change(dir)?.pin(&args.label)?;
            (document(&pin), in_words(&pin))
        }
        Place::Server(server) => {
            let target = backup(&args.label)?;
            let Published { generation } = server.post(&target, "")?;
            // What else a folder tells, a server does not.
            let document = json!({
                "label": args.label, "generation": generation, "files": null, "bytes": null,
                "created_unix_ns": null,
            });
            (document, format!("{}: generation {generation}", args.label))
        }
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&document)?;
    } else {
        out.line(format_args!("kept {words}"))?;
    }
    out.flush()?;
    Ok(DONE)
}

pub(super) fn unpin(args: &PinArgs) -> Outcome {
    match args.place.place()? {
        Place::Folder(dir) => {
            if !folder::open_to_change(dir)?.unpin(&args.label)? {
                let hint = format!("`daybook trace pins {}` lists them", dir.display());
                let what = format!("there is no pin {:?}", args.label);
                return Err(Failure::new(what).with_hint(hint));
            }
        }
        Place::Server(server) => {
            // Which is content when there was no such pin.
            let target = backup(&args.label)?.part("release");
            server.post::<IgnoredAny>(&target, "")?;
        }
    }
    let mut out = Out::for_json(args.json);
    if args.json {
        let path = args.place.name();
        out.json(&json!({ "path": path, "label": args.label, "released": true }))?;
    } else {
        out.line(format_args!("released {}", args.label))?;
    }
    out.flush()?;
    Ok(DONE)
}

pub(super) fn pins(args: &PinsArgs) -> Outcome {
    args.no_server.check(&[&args.dir])?;
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
    args.no_server.check(&[&args.pin, &args.dir])?;
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

/// A generation that a server has published.
#[derive(Deserialize)]
struct Published {
    generation: u64,
}

/// Where a server has a pin. It takes the label as it stands in the path.
fn backup(label: &str) -> Result<Target, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    if label.is_empty() || !label.chars().all(is_plain) {
        let what = format!("{label:?} is no name that a server takes");
        let hint = "letters and digits of ASCII and -._~ are";
        return Err(Failure::new(what).with_hint(hint));
    }
    Ok(Target::new("/v1/backups").part(label))
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
