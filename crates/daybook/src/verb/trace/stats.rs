//! `daybook trace stats` and `daybook trace flush`.

use std::io::Write as _;

use clap::Args;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use traza::store::{Opened, Stats};

use super::folder;
use super::place::{Place, PlaceArgs};
use super::server::{Server, Target};
use crate::failure::{DONE, Failure, Outcome};
use crate::output::Out;
use crate::styles::{BAD, STRONG};
use crate::text::{bytes, clean, count, wall_time};

/// How much a store holds, and what opening it has found.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace stats traces/
  daybook trace stats --url http://127.0.0.1:4318
  daybook trace stats traces/ --json | jq .persisted_records")]
pub(super) struct StatsArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Puts what only the log holds into a segment.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace flush traces/
  daybook trace flush --url http://127.0.0.1:4318")]
pub(super) struct FlushArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// What is known of a store: all of it for a folder, of a server what it tells.
#[derive(Default)]
struct Facts {
    generation: Option<u64>,
    segments: u64,
    persisted_records: u64,
    segment_bytes: u64,
    buffered_spans: u64,
    wal_bytes: u64,
    resident_bytes: Option<u64>,
    sealed_range: Option<(u64, u64)>,
    seal_failure: Option<String>,
    erasure_failure: Option<String>,
    opened: Option<Opened>,
}

/// What a server says about its store.
#[derive(Deserialize)]
struct Told {
    buffered_records: u64,
    persisted_records: u64,
    segment_count: u64,
    bytes_on_disk: u64,
    wal_bytes: u64,
}

impl Facts {
    fn of(stats: Stats, opened: &Opened) -> Self {
        Self {
            generation: Some(stats.generation),
            segments: stats.segments as u64,
            persisted_records: stats.persisted_records,
            segment_bytes: stats.segment_bytes,
            buffered_spans: stats.buffered_spans as u64,
            wal_bytes: stats.wal_bytes,
            resident_bytes: Some(stats.resident_bytes),
            sealed_range: stats.sealed_range,
            seal_failure: stats.seal_failure,
            erasure_failure: stats.erasure_failure,
            opened: Some(opened.clone()),
        }
    }

    fn told_by(server: &Server) -> Result<Self, Failure> {
        let told: Told = server.read(&Target::new("/v1/stats"))?;
        Ok(Self {
            segments: told.segment_count,
            persisted_records: told.persisted_records,
            segment_bytes: told.bytes_on_disk,
            buffered_spans: told.buffered_records,
            wal_bytes: told.wal_bytes,
            ..Self::default()
        })
    }

    fn document(&self, place: &PlaceArgs) -> Value {
        let opened = self.opened.as_ref().map(|opened| {
            json!({
                "replayed_frames": opened.replayed_frames, "replayed_spans": opened.replayed_spans,
                "torn_bytes": opened.torn_bytes, "swept_files": opened.swept_files,
            })
        });
        json!({
            "path": place.name(), "generation": self.generation, "segments": self.segments,
            "persisted_records": self.persisted_records, "segment_bytes": self.segment_bytes,
            "buffered_spans": self.buffered_spans, "wal_bytes": self.wal_bytes,
            "resident_bytes": self.resident_bytes,
            "first_sealed_ns": self.sealed_range.map(|range| range.0),
            "last_sealed_ns": self.sealed_range.map(|range| range.1),
            "seal_failure": self.seal_failure, "erasure_failure": self.erasure_failure,
            "opened": opened,
        })
    }
}

pub(super) fn stats(args: &StatsArgs) -> Outcome {
    let facts = match args.place.place()? {
        Place::Folder(dir) => {
            let store = folder::open_to_read(dir)?;
            Facts::of(store.stats(), store.opened())
        }
        Place::Server(server) => Facts::told_by(&server)?,
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&facts.document(&args.place))?;
        return Ok(DONE);
    }
    let generation = facts.generation;
    let generation = generation.map(|generation| format!(": generation {generation}"));
    out.line(format_args!(
        "{STRONG}{}{STRONG:#}{}",
        args.place.name(),
        generation.unwrap_or_default()
    ))?;
    out.line(format_args!(
        "  sealed    {} in {} of {}",
        count(facts.persisted_records, "record"),
        count(facts.segments, "segment"),
        bytes(facts.segment_bytes)
    ))?;
    if let Some((first, last)) = facts.sealed_range {
        let (first, last) = (wall_time(first), wall_time(last));
        out.line(format_args!("  times     {first} to {last}"))?;
    }
    out.line(format_args!(
        "  in log    {} of {}",
        count(facts.buffered_spans, "span"),
        bytes(facts.wal_bytes)
    ))?;
    if let Some(resident) = facts.resident_bytes {
        out.line(format_args!("  in memory {}", bytes(resident)))?;
    }
    let torn = facts.opened.as_ref().map_or(0, |opened| opened.torn_bytes);
    if torn > 0 {
        out.line(format_args!(
            "  cut off   {} of an append that was never acknowledged",
            bytes(torn)
        ))?;
    }
    for failure in facts.seal_failure.iter().chain(&facts.erasure_failure) {
        out.line(format_args!("  {BAD}failure{BAD:#}   {}", clean(failure)))?;
    }
    out.flush()?;
    Ok(DONE)
}

pub(super) fn flush(args: &FlushArgs) -> Outcome {
    // How many spans it was, a server does not tell.
    let (sealed, segments) = match args.place.place()? {
        Place::Folder(dir) => {
            let store = folder::open_to_change(dir)?;
            let sealed = store.flush()? as u64;
            (Some(sealed), store.stats().segments as u64)
        }
        Place::Server(server) => {
            server.post::<IgnoredAny>(&Target::new("/v1/flush"), "")?;
            (None, Facts::told_by(&server)?.segments)
        }
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        let path = args.place.name();
        out.json(&json!({ "path": path, "sealed": sealed, "segments": segments }))?;
    } else {
        let sealed = sealed.map_or("all".to_owned(), |sealed| count(sealed, "span"));
        let segments = count(segments, "segment");
        out.line(format_args!("{sealed} sealed; {segments} now"))?;
    }
    out.flush()?;
    Ok(DONE)
}
