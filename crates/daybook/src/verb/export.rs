//! `daybook export`: hands records on in formats that other tools read.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anstream::eprintln;
use clap::{Args, ValueEnum};
use durable::Access;
use omniloop_core::export::{ExportError, Exported, Selection, write_csv, write_jsonl};
use omniloop_core::journal::{FrameKind, SegmentedPlayer};

use crate::amounts::{Ticks, ticks};
use crate::failure::{DONE, Failure, Outcome};
use crate::kind::kind_of;
use crate::new_file::{NewFile, would_replace};
use crate::output::Out;
use crate::text::count;

/// Writes the records of a run in another format.
///
/// A rotated set is one stream. Where the run is damaged, what stands before is written, the place is
/// named, and the exit code is 1: an export is never shorter without saying so.
#[derive(Args, Debug)]
#[command(after_help = "Formats:
  jsonl  One object per record: segment, offset, kind, tick, mono_ns, wall_ns, payload. The payload stands
         as it was written; one that is not JSON is null, with its bytes in payload_hex.
  csv    Telemetry: tick, mono_ns, wall_ns and a column per variable (a.b for members, a.0 for elements).
         With --kind of another kind: one row per record with its payload as text.

Examples:
  daybook export run.omni --to csv -o run.csv
  daybook export run.omni --to jsonl --kind mutation --kind guardrail | jq .payload
  daybook export run.omni --to csv --ticks 1000..2000 | head")]
pub(crate) struct ExportArgs {
    /// The run, or the first file of a set.
    path: PathBuf,
    /// The format.
    #[arg(long, value_enum)]
    to: Format,
    /// Where it goes; by default standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only records of this kind. May be repeated.
    #[arg(long, value_name = "KIND")]
    kind: Vec<FrameKind>,
    /// Only records with these ticks: A..B, both included; either may be left out.
    #[arg(long, value_name = "A..B", value_parser = ticks)]
    ticks: Option<Ticks>,
    /// Replaces the output file if it exists.
    #[arg(long, requires = "output")]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON Lines, nothing lost.
    Jsonl,
    /// Comma-separated values for spreadsheets and data frames.
    Csv,
}

pub(crate) fn run(args: &ExportArgs) -> Outcome {
    kind_of(&args.path)?.run(&args.path, "`daybook study export` writes its trials")?;
    let mut player = SegmentedPlayer::open(&args.path)?;
    let ticks = args.ticks.unwrap_or_default();
    let selection = Selection {
        kinds: args.kind.clone(),
        first_tick: ticks.first,
        last_tick: ticks.last,
    };
    let exported = match &args.output {
        None => to_stdout(args.to, &mut player, &selection)?,
        Some(output) => {
            refuse_input(output, &player)?;
            let file = NewFile::create(output, Access::Shared, args.force)?;
            let mut buffered = BufWriter::with_capacity(256 << 10, file);
            let exported = write(args.to, &mut buffered, &mut player, &selection)?;
            let file = buffered
                .into_inner()
                .map_err(|e| ExportError::Write(e.into_error()))?;
            file.finish()?;
            exported
        }
    };
    tell(args, &exported);
    match exported.stopped {
        None => Ok(DONE),
        Some(error) => {
            let failure = Failure::from(error);
            let what = format!(
                "stopped after {}: {}",
                count(exported.records, "record"),
                failure.message
            );
            Err(Failure {
                message: what,
                ..failure
            })
        }
    }
}

/// A reader of standard output that goes away ends the export early, and that is no failure.
fn to_stdout(
    format: Format,
    player: &mut SegmentedPlayer,
    selection: &Selection,
) -> Result<Exported, Failure> {
    struct Pipe(Out);
    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.is_closed() {
                return Err(io::Error::from(io::ErrorKind::BrokenPipe));
            }
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }
    match write(format, Pipe(Out::raw()), player, selection) {
        Err(ExportError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(Exported {
                records: 0,
                truncated: false,
                stopped: None,
            })
        }
        other => Ok(other?),
    }
}

fn write(
    format: Format,
    out: impl Write,
    player: &mut SegmentedPlayer,
    selection: &Selection,
) -> Result<Exported, ExportError> {
    match format {
        Format::Jsonl => write_jsonl(out, player, selection),
        Format::Csv => write_csv(out, player, selection),
    }
}

/// Not even `--force` writes over what is being read.
fn refuse_input(output: &Path, player: &SegmentedPlayer) -> Result<(), Failure> {
    match player
        .paths()
        .iter()
        .find(|input| would_replace(output, input))
    {
        None => Ok(()),
        Some(input) => Err(Failure::new(format!(
            "{} is the run itself ({}); name another file",
            output.display(),
            input.display()
        ))),
    }
}

fn tell(args: &ExportArgs, exported: &Exported) {
    if let (Some(output), None) = (&args.output, &exported.stopped) {
        let records = count(exported.records, "record");
        eprintln!("daybook: {records} written to {}", output.display());
    }
    if exported.truncated {
        let path = args.path.display();
        eprintln!("daybook: {path} was never sealed and ends in the middle of a record");
    }
}
