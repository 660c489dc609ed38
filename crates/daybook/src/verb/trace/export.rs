//! `daybook trace export`: spans for other tools.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anstream::eprintln;
use clap::{Args, ValueEnum};
use durable::{Access, parent_of};
use traza::json::Value;
use traza::span::Span;
use traza::store::{Query, Store};

use super::filter::FilterArgs;
use super::folder;
use crate::failure::{DONE, Failure, Outcome};
use crate::new_file::NewFile;
use crate::output::Out;
use crate::text::count;

/// So many spans are in memory at a time.
const PAGE: usize = 4096;

/// Writes spans in another format, each once, in its last version and in the order of their starts.
///
/// Where the store is damaged, what stands before is written, the place is named, and the exit code is 1. An output file
/// appears only when it is whole.
#[derive(Args, Debug)]
#[command(after_help = "Formats:
  jsonl  One span per line, as it is stored: daybook trace ingest takes it in again.
  csv    A row per span; attributes, events, links and unknown members as JSON.

Examples:
  daybook trace export traces/ -o spans.jsonl
  daybook trace export traces/ --since -1d --status error --format csv -o errors.csv
  daybook trace export traces/ --tenant acme | daybook trace ingest acme/ -")]
pub(super) struct TraceExportArgs {
    /// The folder of the store.
    dir: PathBuf,
    /// The format.
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
    /// Where it goes; by default standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replaces the output file if it exists.
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    filter: FilterArgs,
    /// At most so many spans; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 0)]
    limit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON Lines, nothing lost.
    Jsonl,
    /// Comma-separated values for spreadsheets and data frames.
    Csv,
}

pub(super) fn run(args: &TraceExportArgs) -> Outcome {
    let query = Query::new(args.filter.filter(&[])?);
    let store = folder::open_to_read(&args.dir)?;
    let Some(output) = &args.output else {
        let mut out = Out::raw();
        let mut export = Export::new(&store, query, args);
        while let Some(page) = export.page()? {
            page.write(&mut out)?;
            if out.is_closed() {
                return Ok(DONE);
            }
        }
        out.flush()?;
        return Ok(DONE);
    };
    if stands_in(output, &args.dir) {
        let what = format!("{} would stand in the store itself", output.display());
        return Err(Failure::new(what).with_hint("name a file in another folder"));
    }
    let file = NewFile::create(output, Access::Shared, args.force)?;
    let mut buffered = BufWriter::with_capacity(256 << 10, file);
    let cannot_write =
        |error: io::Error| Failure::io(&format!("cannot write {}", output.display()), &error);
    let mut export = Export::new(&store, query, args);
    while let Some(page) = export.page()? {
        page.write(&mut buffered).map_err(cannot_write)?;
    }
    let written = count(export.written, "span");
    let file = buffered
        .into_inner()
        .map_err(|error| cannot_write(error.into_error()))?;
    file.finish()?;
    eprintln!("daybook: {written} written to {}", output.display());
    Ok(DONE)
}

fn stands_in(output: &Path, dir: &Path) -> bool {
    match (parent_of(output).canonicalize(), dir.canonicalize()) {
        (Ok(folder), Ok(dir)) => folder.starts_with(dir),
        _ => false,
    }
}

/// Goes through the answer page by page.
struct Export<'e> {
    store: &'e Store,
    query: Query,
    format: Format,
    left: u64,
    written: u64,
    is_first: bool,
    has_ended: bool,
}

/// Spans in the format.
struct Formatted(Vec<u8>);

impl Formatted {
    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.0)
    }
}

impl<'e> Export<'e> {
    fn new(store: &'e Store, query: Query, args: &TraceExportArgs) -> Self {
        Self {
            store,
            query,
            format: args.format,
            left: if args.limit == 0 {
                u64::MAX
            } else {
                args.limit
            },
            written: 0,
            is_first: true,
            has_ended: false,
        }
    }

    /// The next page; the first one is there even without a span, for the titles of a table.
    fn page(&mut self) -> Result<Option<Formatted>, Failure> {
        if self.has_ended {
            return Ok(None);
        }
        self.query.limit = usize::try_from(self.left).map_or(PAGE, |left| left.min(PAGE));
        let page = self.store.query(&self.query).map_err(|error| {
            let failure = Failure::from(error);
            let after = count(self.written, "span");
            let message = format!("stopped after {after}: {}", failure.message);
            Failure { message, ..failure }
        })?;
        self.written += page.spans.len() as u64;
        self.left -= page.spans.len() as u64;
        self.has_ended = page.next.is_none() || self.left == 0;
        self.query.after = page.next;
        let formatted = match self.format {
            Format::Jsonl => jsonl(&page.spans),
            Format::Csv => csv_rows(&page.spans, self.is_first)?,
        };
        self.is_first = false;
        Ok(Some(Formatted(formatted)))
    }
}

fn jsonl(spans: &[impl AsRef<Span>]) -> Vec<u8> {
    let mut lines = String::new();
    for span in spans {
        span.as_ref().write(&mut lines);
        lines.push('\n');
    }
    lines.into_bytes()
}

const TITLES: [&str; 14] = [
    "trace_id",
    "span_id",
    "tenant",
    "parent_span_id",
    "service",
    "name",
    "status",
    "start_time_ns",
    "end_time_ns",
    "duration_ns",
    "attributes",
    "events",
    "links",
    "unknown",
];

fn csv_rows(spans: &[impl AsRef<Span>], with_titles: bool) -> io::Result<Vec<u8>> {
    let mut rows = csv::Writer::from_writer(Vec::new());
    if with_titles {
        rows.write_record(TITLES)?;
    }
    for span in spans {
        let span = span.as_ref();
        // Events and links have no JSON of their own: they are taken from that of the span.
        let stored = Value::parse(span.to_json().as_bytes()).ok();
        let part = |name: &str| {
            let members = stored.as_ref().and_then(Value::as_object);
            members
                .and_then(|members| members.get(name))
                .map(Value::to_string)
        };
        rows.write_record([
            &span.trace_id,
            &span.span_id,
            &span.tenant,
            span.parent_span_id.as_deref().unwrap_or_default(),
            &span.service,
            &span.name,
            &span.status,
            &span.start_time_ns.to_string(),
            &span.end_time_ns.to_string(),
            &span
                .end_time_ns
                .saturating_sub(span.start_time_ns)
                .to_string(),
            &part("attributes").unwrap_or_default(),
            &part("events").unwrap_or_default(),
            &part("links").unwrap_or_else(|| "[]".to_owned()),
            &Value::Object(span.unknown.clone()).to_string(),
        ])?;
    }
    rows.into_inner()
        .map_err(|error| io::Error::other(error.to_string()))
}
