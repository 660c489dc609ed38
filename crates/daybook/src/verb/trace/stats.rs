//! `daybook trace stats` and `daybook trace flush`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::folder;
use crate::failure::{DONE, Outcome};
use crate::output::Out;
use crate::styles::{BAD, STRONG};
use crate::text::{bytes, clean, count, wall_time};

/// How much a store holds, and what opening it has found.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace stats traces/
  daybook trace stats traces/ --json | jq .persisted_records")]
pub(super) struct StatsArgs {
    /// The folder of the store.
    dir: PathBuf,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Puts what only the log holds into a segment.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace flush traces/")]
pub(super) struct FlushArgs {
    /// The folder of the store.
    dir: PathBuf,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn stats(args: &StatsArgs) -> Outcome {
    let store = folder::open_to_read(&args.dir)?;
    let (stats, opened) = (store.stats(), store.opened());
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&json!({
            "path": args.dir, "generation": stats.generation, "segments": stats.segments,
            "persisted_records": stats.persisted_records, "segment_bytes": stats.segment_bytes,
            "buffered_spans": stats.buffered_spans, "wal_bytes": stats.wal_bytes,
            "resident_bytes": stats.resident_bytes,
            "first_sealed_ns": stats.sealed_range.map(|range| range.0),
            "last_sealed_ns": stats.sealed_range.map(|range| range.1),
            "seal_failure": stats.seal_failure,
            "erasure_failure": stats.erasure_failure,
            "opened": {
                "replayed_frames": opened.replayed_frames, "replayed_spans": opened.replayed_spans,
                "torn_bytes": opened.torn_bytes, "swept_files": opened.swept_files,
            },
        }))?;
        return Ok(DONE);
    }
    let dir = args.dir.display();
    out.line(format_args!(
        "{STRONG}{dir}{STRONG:#}: generation {}",
        stats.generation
    ))?;
    out.line(format_args!(
        "  sealed    {} in {} of {}",
        count(stats.persisted_records, "record"),
        count(stats.segments as u64, "segment"),
        bytes(stats.segment_bytes)
    ))?;
    if let Some((first, last)) = stats.sealed_range {
        let (first, last) = (wall_time(first), wall_time(last));
        out.line(format_args!("  times     {first} to {last}"))?;
    }
    out.line(format_args!(
        "  in log    {} of {}",
        count(stats.buffered_spans as u64, "span"),
        bytes(stats.wal_bytes)
    ))?;
    out.line(format_args!("  in memory {}", bytes(stats.resident_bytes)))?;
    if opened.torn_bytes > 0 {
        out.line(format_args!(
            "  cut off   {} of an append that was never acknowledged",
            bytes(opened.torn_bytes)
        ))?;
    }
    for failure in stats.seal_failure.iter().chain(&stats.erasure_failure) {
        out.line(format_args!("  {BAD}failure{BAD:#}   {}", clean(failure)))?;
    }
    out.flush()?;
    Ok(DONE)
}

pub(super) fn flush(args: &FlushArgs) -> Outcome {
    let store = folder::open_to_change(&args.dir)?;
    let sealed = store.flush()? as u64;
    let segments = store.stats().segments;
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&json!({ "path": args.dir, "sealed": sealed, "segments": segments }))?;
    } else {
        let segments = count(segments as u64, "segment");
        out.line(format_args!(
            "{} sealed; {segments} now",
            count(sealed, "span")
        ))?;
    }
    out.flush()?;
    Ok(DONE)
}
