//! `daybook trace`: looks into segments of traces.

mod dump;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::failure::Outcome;

/// Shows the spans of a segment of traces.
///
/// A segment is read as it stands, of version 8, 7 or 6; nothing is written.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace dump segment-00000000000000000000.seg
  daybook trace dump segment-00000000000000000000.seg --limit 0 | less
  daybook trace dump segment-00000000000000000000.seg --json | jq -r .span.name | sort | uniq -c")]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    verb: TraceVerb,
}

#[derive(Debug, Subcommand)]
enum TraceVerb {
    Dump(DumpArgs),
}

/// The records of a segment, in the order of their times.
///
/// Where the segment is damaged, what stands before is shown, the place is named, and the exit code is 1.
#[derive(Args, Debug)]
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
}

pub(crate) fn run(args: &TraceArgs) -> Outcome {
    match &args.verb {
        TraceVerb::Dump(args) => dump::run(args),
    }
}
