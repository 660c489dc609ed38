//! `daybook export`: hands records on in formats that other tools read.

mod otlp;
mod parquet;

use std::io::{self, BufRead as _, BufWriter, Write};
use std::path::{Path, PathBuf};

use anstream::eprintln;
use clap::{Args, ValueEnum};
use durable::{Access, FsFile, RealFs};
use omniloop_core::export::{
    ExportError, Exported, McapEncoding, McapExtras, Selection, count_mcap, write_csv, write_jsonl,
    write_mcap,
};
use omniloop_core::journal::{FrameKind, SegmentedPlayer, SetOptions};

use crate::amounts::{Ticks, ticks};
use crate::failure::{DONE, Failure, Outcome};
use crate::kind::kind_of;
use crate::new_file::{NewFile, would_replace};
use crate::output::Out;
use crate::parquet_rows::count_rows;
use crate::text::count;
use crate::verb::verify_run;

/// The longest file of an attestation that goes into an export.
const ATTACHMENT_LEN_MAX: u64 = 64 << 20;

/// Writes the records of a run in another format, and reads what was written to a file once more before it says so.
///
/// A rotated set is one stream. Where the run is damaged, what stands before is written, the place is
/// named, and the exit code is 1: an export is never shorter without saying so.
#[derive(Args, Debug)]
#[command(after_help = "Formats:
  jsonl  One object per record: segment, offset, kind, tick, mono_ns, wall_ns, payload. The payload stands
         as it was written; one that is not JSON is null, with its bytes in payload_hex.
  csv    Telemetry: tick, mono_ns, wall_ns and a column per variable (a.b for members, a.0 for elements).
         With --kind of another kind: one row per record with its payload as text.
  mcap   For Foxglove and other viewers: a channel per kind, and /log with what was done to the loop.
         The attestation's files go with it. With --encoding protobuf telemetry has a field per variable.
  parquet  As csv, with a typed column per variable: true or false, whole numbers, numbers, texts.
  otlp   The run as spans, for `daybook trace ingest` and other stores of traces: the run, its phases between
         halt, resume and checkpoint, and in them as events what was done to the loop. They belong to the
         trace that the run names.

Examples:
  daybook export run.omni --to csv -o run.csv
  daybook export run.omni --to jsonl --kind mutation --kind guardrail | jq .payload
  daybook export run.omni --to csv --ticks 1000..2000 | head
  daybook export run.omni --to mcap -o run.mcap
  daybook export run.omni --to mcap --encoding protobuf -o run.mcap
  daybook export run.omni --to parquet -o run.parquet
  daybook export run.omni --to otlp -o run.jsonl && daybook trace ingest traces/ run.jsonl")]
pub(crate) struct ExportArgs {
    /// The run, or the first file of a set.
    path: PathBuf,
    /// The format.
    #[arg(long, value_enum)]
    to: Format,
    /// How MCAP spells its messages.
    #[arg(long, value_enum, default_value_t = Encoding::Json)]
    encoding: Encoding,
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
    /// MCAP for the viewers of the robotics world.
    Mcap,
    /// Parquet for data frames and engines.
    Parquet,
    /// Spans as export requests of OpenTelemetry in JSON, one in a line.
    Otlp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Encoding {
    /// JSON, with JSON Schemas.
    Json,
    /// Protobuf, with descriptors.
    Protobuf,
}

/// What was written, and how many of the format's own items that are.
struct Written {
    exported: Exported,
    items: u64,
}

impl From<Exported> for Written {
    fn from(exported: Exported) -> Self {
        Self {
            items: exported.records,
            exported,
        }
    }
}

pub(crate) fn run(args: &ExportArgs) -> Outcome {
    kind_of(&args.path)?.run(&args.path, "`daybook study export` writes its trials")?;
    if args.encoding != Encoding::Json && args.to != Format::Mcap {
        return Err(Failure::new("--encoding is for --to mcap"));
    }
    let mut player = SegmentedPlayer::open(&args.path)?;
    let ticks = args.ticks.unwrap_or_default();
    let selection = Selection {
        kinds: args.kind.clone(),
        first_tick: ticks.first,
        last_tick: ticks.last,
    };
    let exported = match &args.output {
        None => to_stdout(args, &mut player, &selection)?.exported,
        Some(output) => {
            refuse_input(output, &player)?;
            let file = NewFile::create(output, Access::Shared, args.force)?;
            let mut buffered = BufWriter::with_capacity(256 << 10, file);
            let written = write(args, &mut buffered, &mut player, &selection)?;
            let file = buffered
                .into_inner()
                .map_err(|e| ExportError::Write(e.into_error()))?;
            check(args, &file, written.items)?;
            file.finish()?;
            written.exported
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
    args: &ExportArgs,
    player: &mut SegmentedPlayer,
    selection: &Selection,
) -> Result<Written, Failure> {
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
    match write(args, Pipe(Out::raw()), player, selection) {
        Err(ExportError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            let nothing = Exported {
                records: 0,
                truncated: false,
                stopped: None,
            };
            Ok(nothing.into())
        }
        other => Ok(other?),
    }
}

fn write(
    args: &ExportArgs,
    out: impl Write + Send,
    player: &mut SegmentedPlayer,
    selection: &Selection,
) -> Result<Written, ExportError> {
    let exported = match args.to {
        Format::Jsonl => write_jsonl(out, player, selection),
        Format::Csv => write_csv(out, player, selection),
        Format::Mcap => {
            let encoding = match args.encoding {
                Encoding::Json => McapEncoding::Json,
                Encoding::Protobuf => McapEncoding::Protobuf,
            };
            write_mcap(out, player, selection, encoding, &extras(args, player))
        }
        Format::Parquet => parquet::write(out, player, selection),
        Format::Otlp => {
            let facts = verified(args);
            let facts: Vec<(String, String)> = facts
                .into_iter()
                .map(|(name, value)| (format!("omni.{name}"), value))
                .collect();
            let written = otlp::write(out, player, selection, &args.path, &facts)?;
            return Ok(Written {
                exported: written.exported,
                items: written.spans,
            });
        }
    };
    exported.map(Written::from)
}

/// What the run proves of itself: the verdict, and the head of each file's chain.
fn verified(args: &ExportArgs) -> Vec<(&'static str, String)> {
    match verify_run(&args.path, &SetOptions::default()) {
        Ok(verified) => {
            let verdict = format!("{:?}", verified.outcome()).to_lowercase();
            let heads = verified.results().map(|result| result.chain.head.clone());
            let heads: Vec<String> = heads.map(Option::unwrap_or_default).collect();
            vec![("verdict", verdict), ("heads", heads.join(" "))]
        }
        Err(error) => vec![("verdict", format!("not verified: {error}"))],
    }
}

/// What a viewer should know of the run beside its records, and the files that prove it.
fn extras(args: &ExportArgs, player: &SegmentedPlayer) -> McapExtras {
    let mut extras = McapExtras::default();
    let mut tell = |name: &str, value: String| extras.metadata.insert(name.to_owned(), value);
    tell("source", args.path.display().to_string());
    tell("segments", player.segment_count().to_string());
    for (name, value) in verified(args) {
        tell(name, value);
    }
    for (suffix, media_type) in [
        (".checkpoint", "text/plain"),
        (".leaves", "application/octet-stream"),
    ] {
        let mut path = args.path.as_os_str().to_owned();
        path.push(suffix);
        let path = PathBuf::from(path);
        if let Ok(bytes) = durable::read_all(&RealFs, &path, ATTACHMENT_LEN_MAX) {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            extras.attachments.push((name, media_type, bytes));
        }
    }
    extras
}

/// Reads the file before it gets its name, and counts what is in it.
fn check(args: &ExportArgs, file: &NewFile, written: u64) -> Result<(), Failure> {
    let fail = |what: String| {
        Failure::new(format!(
            "the export did not read back: {what}; nothing was left under its name"
        ))
    };
    let reopened = file
        .reopen()
        .map_err(|error| Failure::io("cannot reopen the export", &error))?;
    let found = match args.to {
        Format::Jsonl => count_lines(Reopened::new(reopened)),
        Format::Csv => {
            let mut rows = csv::Reader::from_reader(Reopened::new(reopened));
            let mut count = 0;
            rows.byte_records()
                .try_for_each(|row| row.map(|_| count += 1))
                .map(|()| count)
                .map_err(io::Error::other)
        }
        Format::Parquet => count_rows(reopened).map_err(io::Error::other),
        Format::Otlp => count_spans(Reopened::new(reopened)),
        Format::Mcap => match reopened.map() {
            Ok(Some(map)) => count_mcap(&map),
            Ok(None) => read_whole(reopened.as_ref()).and_then(|bytes| count_mcap(&bytes)),
            Err(error) => Err(error),
        },
    };
    match found {
        Ok(found) if found == written => Ok(()),
        Ok(found) => Err(fail(format!(
            "{found} of {} are in it",
            count(written, "item")
        ))),
        Err(error) => Err(fail(error.to_string())),
    }
}

fn count_lines(from: impl io::Read) -> io::Result<u64> {
    let mut lines = io::BufReader::with_capacity(256 << 10, from);
    let (mut line, mut count) = (Vec::new(), 0);
    while lines.read_until(b'\n', &mut line)? > 0 {
        serde_json::from_slice::<serde::de::IgnoredAny>(&line).map_err(io::Error::other)?;
        count += 1;
        line.clear();
    }
    Ok(count)
}

/// Reads every request as a store of traces does.
fn count_spans(from: impl io::Read) -> io::Result<u64> {
    let mut lines = io::BufReader::with_capacity(256 << 10, from);
    let (mut line, mut count) = (Vec::new(), 0);
    while lines.read_until(b'\n', &mut line)? > 0 {
        let spans = traza::otlp::spans_from_json(&line).map_err(io::Error::other)?;
        count += spans.len() as u64;
        line.clear();
    }
    Ok(count)
}

fn read_whole(file: &dyn FsFile) -> io::Result<Vec<u8>> {
    let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
    let mut bytes = vec![0; len];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

/// The bytes of a file from its start.
struct Reopened {
    file: Box<dyn FsFile>,
    at: u64,
}

impl Reopened {
    fn new(file: Box<dyn FsFile>) -> Self {
        Self { file, at: 0 }
    }
}

impl io::Read for Reopened {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(self.at, into)?;
        self.at += len as u64;
        Ok(len)
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
