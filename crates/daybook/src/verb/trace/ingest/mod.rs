//! `daybook trace ingest`: takes spans in from files.

mod field;
mod items;
mod sink;
mod source;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use traza::json::Value;
use traza::otlp;
use traza::span::{Span, SpanError};
use traza::store::{self, StoreOptions};

use self::field::{field_at, object_at};
use self::items::{Fault, Item, Items, Place, Step, What};
use self::sink::Sink;
use self::source::{Read, Source};
use super::cold_codec::ColdCodecArgs;
use super::folder;
use super::place::{self, PlaceArgs};
use crate::amounts::size;
use crate::failure::{DONE, Failure, Outcome};
use crate::output::Out;
use crate::progress::Progress;
use crate::text::count;

/// A batch ends early when its JSON has so many bytes: it is held in memory, and becomes one frame of the log.
const BATCH_LEN_MAX: usize = 8 << 20;

/// Takes spans into a store, which is created when there is none.
///
/// The input is spans as JSON Lines, a JSON array of them, or OTLP export requests as JSON; which one, its bytes tell. It
/// is read as a stream, and stored in batches: each is stored as a whole. A span replaces an earlier one with the same
/// tenant, trace id and span id, so that the same input can be taken in again.
///
/// A span that is wrong ends the work: it is named with its file, line, offset and field. What stands before it is stored,
/// nothing behind it is, and the exit code is 2. Ctrl-C ends the work in the same way, after the batch that is being stored.
///
/// A server is sent the same batches, and a batch again a few times when the server says that it is too much at the moment.
/// When a batch counts as stored, and what is kept out of the spans, is for the server to say.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace ingest traces/ spans.jsonl
  daybook trace ingest traces/ --batch 5000 --durability flushed export-*.json
  daybook trace ingest --url http://127.0.0.1:4318 spans.jsonl
  zcat old.jsonl.gz | daybook trace ingest traces/ -
  daybook trace ingest traces/ --payload-threshold 64KiB --acknowledge spans.jsonl | tail -1")]
pub(super) struct IngestArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// What to read; - is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// When a batch counts as stored; wal when it is left out.
    #[arg(long, value_enum, value_name = "WHEN")]
    durability: Option<Durability>,
    /// How many spans are stored at once. It may be fewer: when they are long, and when standard input pauses.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Keeps attribute texts longer than this out of the spans, as files of their own (1000, 64KiB).
    #[arg(long, value_name = "BYTES", value_parser = size)]
    payload_threshold: Option<u64>,
    #[command(flatten)]
    cold: ColdCodecArgs,
    /// Prints a line of JSON for each batch as soon as it is stored, with the offset in the input up to which everything
    /// is; the summary is the last line.
    #[arg(long)]
    acknowledge: bool,
    /// Prints the summary as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Durability {
    /// In memory; a crash loses what the end has not put into a segment yet.
    Buffered,
    /// In the log, synced.
    Wal,
    /// In a segment, synced.
    Flushed,
}

impl IngestArgs {
    fn durability(&self) -> store::Durability {
        match self.durability {
            Some(Durability::Buffered) => store::Durability::Buffered,
            None | Some(Durability::Wal) => store::Durability::Wal,
            Some(Durability::Flushed) => store::Durability::Flushed,
        }
    }

    fn sink(&self) -> Result<Sink, Failure> {
        match self.place.place()? {
            place::Place::Folder(dir) => {
                let mut options = StoreOptions::default();
                options.durability = self.durability();
                options.payload_threshold = self
                    .payload_threshold
                    .map(|threshold| usize::try_from(threshold).unwrap_or(usize::MAX));
                options.cold_codec = self.cold.codec();
                let store = folder::open_to_write(dir, options)?;
                Ok(Sink::Store(Box::new(store)))
            }
            place::Place::Server(server) => {
                for (is_given, name) in [
                    (self.durability.is_some(), "--durability"),
                    (self.payload_threshold.is_some(), "--payload-threshold"),
                    (self.cold.codec().is_some(), "--cold-codec"),
                ] {
                    if is_given {
                        let what = format!("{name} is for a folder: a server has its own");
                        return Err(Failure::new(what).with_hint("`daybook serve` takes it"));
                    }
                }
                Ok(Sink::Server(Box::new(server)))
            }
        }
    }
}

pub(super) fn run(args: &IngestArgs) -> Outcome {
    // All of them, before anything is done.
    let sources: Result<Vec<Source>, Failure> =
        args.files.iter().map(|path| Source::open(path)).collect();
    let sources = sources?;
    let of_input = |path: &&PathBuf| path.as_os_str() == "-";
    if args.files.iter().filter(of_input).count() > 1 {
        return Err(Failure::new("standard input can be read only once"));
    }
    let interrupted = listen()?;
    let sink = args.sink()?;
    let mut ingest = Ingest {
        args,
        durability: match &sink {
            Sink::Store(_) => Some(args.durability().as_str().to_owned()),
            Sink::Server(_) => None,
        },
        sink: &sink,
        out: Out::for_json(args.json || args.acknowledge),
        interrupted,
        progress: Progress::of_bytes(sources.iter().map(Source::len).sum()),
        batch: Vec::new(),
        batch_len: 0,
        input: String::new(),
        through_offset: 0,
        accepted: 0,
        batches: 0,
        was_interrupted: false,
    };
    let read = sources
        .into_iter()
        .try_for_each(|mut source| ingest.source(&mut source));
    // Also when reading has failed: what was read before is whole.
    let stored = ingest
        .store_batch()
        .and_then(|()| sink.end(args.durability()));
    let was_interrupted = ingest.was_interrupted;
    drop(ingest.progress);
    let result = stored.and(read);
    let is_complete = result.is_ok() && !was_interrupted;
    let summary = Summary {
        accepted: ingest.accepted,
        batches: ingest.batches,
        durability: ingest.durability.take(),
        is_server: matches!(sink, Sink::Server(_)),
        is_complete,
    };
    summary.print(&mut ingest.out, args)?;
    let stored = count(summary.accepted, "span");
    match result {
        Err(failure) if failure.hint.is_some() => Err(failure),
        Err(failure) => Err(failure.with_hint(format!(
            "stored before that: {stored}; nothing behind it is"
        ))),
        Ok(()) if was_interrupted => Err(Failure::new(format!(
            "interrupted; stored so far: {stored}"
        ))),
        Ok(()) => Ok(DONE),
    }
}

/// Ctrl-C and a request to terminate are noticed between two batches; a second one ends the process at once, as it may.
fn listen() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for (signal, code) in [(SIGINT, 130), (SIGTERM, 143)] {
        let flag = || Arc::clone(&interrupted);
        signal_hook::flag::register_conditional_shutdown(signal, code, flag())
            .and_then(|_| signal_hook::flag::register(signal, flag()))
            .map_err(|error| Failure::io("cannot listen for Ctrl-C", &error))?;
    }
    Ok(interrupted)
}

struct Summary {
    accepted: u64,
    batches: u64,
    /// Nothing when a server was sent nothing.
    durability: Option<String>,
    is_server: bool,
    is_complete: bool,
}

impl Summary {
    fn print(&self, out: &mut Out, args: &IngestArgs) -> io::Result<()> {
        let facts = json!({
            "accepted": self.accepted, "batches": self.batches, "durability": self.durability,
            "complete": self.is_complete,
        });
        if args.acknowledge {
            out.line(facts)?;
        } else if args.json {
            out.json(&facts)?;
        } else {
            let batches = match self.batches {
                1 => "1 batch".to_owned(),
                batches => format!("{batches} batches"),
            };
            out.line(format_args!(
                "accepted {} in {batches}{}",
                count(self.accepted, "span"),
                match self.durability.as_deref() {
                    None => "",
                    Some("wal") => ", durable in the log",
                    Some("buffered") if self.is_server => ", in the memory of the server",
                    Some(_) => ", durable in segments",
                }
            ))?;
        }
        out.flush()
    }
}

struct Ingest<'i> {
    args: &'i IngestArgs,
    sink: &'i Sink,
    durability: Option<String>,
    out: Out,
    interrupted: Arc<AtomicBool>,
    progress: Progress,
    batch: Vec<Span>,
    batch_len: usize,
    /// Where the last span of the batch came from.
    input: String,
    through_offset: u64,
    accepted: u64,
    batches: u64,
    was_interrupted: bool,
}

impl Ingest<'_> {
    fn source(&mut self, source: &mut Source) -> Result<(), Failure> {
        let name = source.name();
        let mut items = Items::new();
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                self.was_interrupted = true;
                return Ok(());
            }
            let step = items.next().map_err(|fault| bad_input(&name, &fault))?;
            match step {
                Step::Item(item) => {
                    self.item(&item).map_err(|fault| bad_input(&name, &fault))?;
                    if self.input != name {
                        self.input.clone_from(&name);
                    }
                    if self.is_full() {
                        self.store_batch()?;
                    }
                }
                Step::More => match source.read(items.input())? {
                    Read::Bytes => {}
                    Read::Pause => self.store_batch()?,
                    Read::End => items.end(),
                },
                Step::End => return Ok(()),
            }
            let done = items.place().offset;
            self.progress.at(Path::new(&name), done, source.len());
        }
    }

    fn is_full(&self) -> bool {
        self.batch.len() as u64 >= u64::from(self.args.batch) || self.batch_len >= BATCH_LEN_MAX
    }

    /// Puts the spans of an item into the batch.
    fn item(&mut self, item: &Item<'_>) -> Result<(), Fault> {
        let spans = spans_of(item)?;
        for span in &spans {
            span.validate().map_err(|fault| Fault {
                place: item.place,
                what: fault.to_string(),
            })?;
        }
        self.batch.extend(spans);
        self.batch_len += item.bytes.len();
        self.through_offset = item.place.offset + item.bytes.len() as u64;
        Ok(())
    }

    /// Stores what has come together. A request can hold many spans, so that these may be several batches.
    fn store_batch(&mut self) -> Result<(), Failure> {
        let size = usize::try_from(self.args.batch).unwrap_or(usize::MAX);
        let mut spans = std::mem::take(&mut self.batch).into_iter();
        self.batch_len = 0;
        while spans.len() > 0 {
            let batch = spans.by_ref().take(size).collect();
            let stored = self.sink.store(batch, self.args.durability())?;
            self.accepted += stored.accepted;
            self.batches += 1;
            self.durability = Some(stored.durability);
            if !self.args.acknowledge {
                continue;
            }
            let mut line = json!({
                "batch": self.batches, "accepted": stored.accepted, "total": self.accepted,
                "durability": self.durability,
            });
            if let Some(line) = line.as_object_mut().filter(|_| spans.len() == 0) {
                line.insert("input".into(), self.input.as_str().into());
                line.insert("through_offset".into(), self.through_offset.into());
            }
            self.out.line(line)?;
            self.out.flush()?;
        }
        Ok(())
    }
}

fn spans_of(item: &Item<'_>) -> Result<Vec<Span>, Fault> {
    let fault = |what: String| Fault {
        place: item.place,
        what,
    };
    match item.what {
        What::ResourceSpans => {
            otlp::resource_spans_from_json(item.bytes).map_err(|error| fault(error.to_string()))
        }
        What::Value => match Span::from_json(item.bytes) {
            Ok(span) => Ok(vec![span]),
            // A request whose array does not come first.
            Err(_) if is_request(item.bytes) => {
                otlp::spans_from_json(item.bytes).map_err(|error| fault(error.to_string()))
            }
            Err(error) => Err(wrong_span(item, &error)),
        },
    }
}

fn is_request(bytes: &[u8]) -> bool {
    let value = Value::parse(bytes);
    value.is_ok_and(|value| {
        let members = value.as_object();
        members.is_some_and(|members| members.contains_key("resourceSpans"))
    })
}

/// The field, and the place of what is wrong with it.
fn wrong_span(item: &Item<'_>, error: &SpanError) -> Fault {
    let (offset, field, what) = match error {
        SpanError::Json(error) => {
            let field = field_at(item.bytes, error.offset);
            (error.offset, field, error.fault.to_string())
        }
        SpanError::Missing { field, offset } => {
            // The object that misses it ends there.
            let field = match object_at(item.bytes, offset.saturating_sub(1)).as_str() {
                "" => (*field).to_owned(),
                object => format!("{object}.{field}"),
            };
            (0, field, "missing".to_owned())
        }
        SpanError::Twice { field, offset } => (
            *offset,
            (*field).to_owned(),
            "there a second time".to_owned(),
        ),
        other => (0, String::new(), other.to_string()),
    };
    let what = match field.as_str() {
        "" => format!("not a span: {what}"),
        field => format!("field `{field}`: {what}"),
    };
    Fault {
        place: item
            .place
            .behind(item.bytes.get(..offset).unwrap_or_default()),
        what,
    }
}

fn bad_input(name: &str, fault: &Fault) -> Failure {
    let Place { line, offset } = fault.place;
    Failure::new(format!(
        "{name}: line {line}, byte {offset}: {}",
        fault.what
    ))
}
