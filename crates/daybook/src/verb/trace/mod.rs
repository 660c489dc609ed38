//! `daybook trace`: stores of traces, and the segments in them.

mod annotate;
mod cold_codec;
mod dataset;
mod dump;
mod erase;
mod experiment;
mod export;
mod filter;
mod folder;
mod get;
mod highlight;
mod ingest;
mod line;
mod linked;
mod place;
mod query;
mod server;
mod sessions;
mod spans;
mod stats;
mod upkeep;

pub(crate) use erase::receipt_alone;
pub(crate) use linked::{Lead, Traces};
pub(crate) use place::fill_folder;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use durable::{Clock as _, SystemClock};

use self::place::NoServer;
use crate::failure::{Failure, Outcome};

/// Takes spans into a store of traces, and answers questions about them.
///
/// A store is a folder. One process writes it at a time, others can ask it meanwhile; a verb that would change it has the
/// exit code 2 while another process writes. A single segment
/// of it is shown by `dump` as it stands, of version 8, 7 or 6.
///
/// While a server has the store, the verbs ask the server: `--url` and its address take the place of the folder, or the
/// address is written where the folder would stand. The token is that of `--token`, or else of the environment,
/// `TRAZA_TOKEN`. The verbs compact, pins, restore and dump need the folder.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace ingest traces/ spans.jsonl
  daybook trace query traces/ --status error --since -1h
  daybook trace get traces/ 4bf92f3577b34da6a3ce929d0e0e4736
  daybook trace query --url http://127.0.0.1:4318 --status error
  daybook trace search traces/ refund order
  daybook trace export traces/ -o spans.jsonl
  daybook trace pin traces/ before-upgrade
  daybook trace dump segment-00000000000000000000.seg --json | jq -r .span.name | sort | uniq -c")]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    verb: TraceVerb,
}

#[derive(Debug, Subcommand)]
enum TraceVerb {
    Ingest(ingest::IngestArgs),
    Get(get::GetArgs),
    Query(Box<query::QueryArgs>),
    Search(Box<query::SearchArgs>),
    Stats(stats::StatsArgs),
    Flush(stats::FlushArgs),
    Export(Box<export::TraceExportArgs>),
    Compact(upkeep::CompactArgs),
    Checkpoint(upkeep::CheckpointArgs),
    Pin(upkeep::PinArgs),
    Unpin(upkeep::PinArgs),
    Pins(upkeep::PinsArgs),
    Restore(upkeep::RestoreArgs),
    Erase(erase::EraseArgs),
    Erasures(erase::ErasuresArgs),
    Receipt(erase::ReceiptArgs),
    Annotate(annotate::AnnotateArgs),
    Annotations(annotate::AnnotationsArgs),
    Sessions(sessions::SessionsArgs),
    Dataset(dataset::DatasetArgs),
    Experiment(experiment::ExperimentArgs),
    Dump(DumpArgs),
}

/// The records of a segment, in the order of their times.
///
/// Where the segment is damaged, what stands before is shown, the place is named, and the exit code is 1.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace dump segment-00000000000000000000.seg
  daybook trace dump segment-00000000000000000000.seg --limit 0 | less")]
struct DumpArgs {
    /// The segment.
    path: PathBuf,
    /// Prints one JSON object per line, with the span as it is stored, and all records.
    #[arg(long)]
    json: bool,
    /// Shows at most so many records; 0 shows all.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u64,
    /// Shows the attributes too.
    #[arg(long)]
    attributes: bool,
    #[command(flatten)]
    no_server: NoServer,
}

fn now_ns() -> u64 {
    SystemClock::start().wall_ns()
}

/// JSON of the library's own writers, for printing among other JSON. A number that only that library can spell is a text.
fn stored(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Any JSON on the command line.
fn json_value(text: &str) -> Result<traza::json::Value, String> {
    traza::json::Value::parse(text.as_bytes()).map_err(|error| error.to_string())
}

/// There is nothing of that number in the store at `place`; `verb` lists what there is.
fn no_such(what: &str, id: u64, verb: &str, place: &str) -> Failure {
    let hint = format!("`daybook trace {verb} list {place}` shows what there is");
    Failure::new(format!("there is no {what} {id}")).with_hint(hint)
}

pub(crate) fn run(args: &TraceArgs) -> Outcome {
    match &args.verb {
        TraceVerb::Ingest(args) => ingest::run(args),
        TraceVerb::Get(args) => get::run(args),
        TraceVerb::Query(args) => query::query(args),
        TraceVerb::Search(args) => query::search(args),
        TraceVerb::Stats(args) => stats::stats(args),
        TraceVerb::Flush(args) => stats::flush(args),
        TraceVerb::Export(args) => export::run(args),
        TraceVerb::Compact(args) => upkeep::compact(args),
        TraceVerb::Checkpoint(args) => upkeep::checkpoint(args),
        TraceVerb::Pin(args) => upkeep::pin(args),
        TraceVerb::Unpin(args) => upkeep::unpin(args),
        TraceVerb::Pins(args) => upkeep::pins(args),
        TraceVerb::Restore(args) => upkeep::restore(args),
        TraceVerb::Erase(args) => erase::erase(args),
        TraceVerb::Erasures(args) => erase::erasures(args),
        TraceVerb::Receipt(args) => erase::receipt(args),
        TraceVerb::Annotate(args) => annotate::annotate(args),
        TraceVerb::Annotations(args) => annotate::annotations(args),
        TraceVerb::Sessions(args) => sessions::run(args),
        TraceVerb::Dataset(args) => dataset::run(args),
        TraceVerb::Experiment(args) => experiment::run(args),
        TraceVerb::Dump(args) => dump::run(args),
    }
}
