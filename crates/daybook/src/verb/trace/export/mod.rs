//! `daybook trace export`: spans for other tools.

mod parquet;
mod text;

use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anstream::eprintln;
use clap::{Args, ValueEnum};
use durable::{Access, parent_of};
use traza::otlp::Losses;
use traza::span::Span;
use traza::store::{Query, Store};

use self::text::Text;
use super::filter::FilterArgs;
use super::folder;
use super::place::{Place, PlaceArgs};
use super::server::{Server, Target};
use super::spans;
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
///
/// A server is asked for page after page, each of which is as the store is then: what is taken in meanwhile may be there or
/// not. Every page comes whole or ends the work, so that nothing is left out unnoticed.
#[derive(Args, Debug)]
#[command(after_help = "Formats:
  jsonl      One span per line, as it is stored: daybook trace ingest takes it in again.
  csv        A row per span; attributes, events, links and unknown members as JSON.
  parquet    The same columns, compressed, for data frames; read back and counted before it gets its name. Needs --output.
  otlp-json  Export requests of OpenTelemetry, one per line, for collectors; daybook trace ingest reads them too. Ids must be of
             hexadecimal digits. What OpenTelemetry has no place for is left out and counted: a status other than ok and
             error, members that spans do not have there, parents and links with other ids. Integers above 2^63-1
             become doubles, and values nested more than 24 deep texts. The tenant is the resource attribute traza.tenant.

Examples:
  daybook trace export traces/ -o spans.jsonl
  daybook trace export traces/ --since -1d --status error --format csv -o errors.csv
  daybook trace export traces/ --format parquet -o spans.parquet
  daybook trace export --url http://127.0.0.1:4318 --status error --format parquet -o errors.parquet
  daybook trace export traces/ --tenant acme | daybook trace ingest acme/ -")]
pub(super) struct TraceExportArgs {
    #[command(flatten)]
    place: PlaceArgs,
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
    /// Parquet for data frames.
    Parquet,
    /// Export requests of OpenTelemetry for collectors.
    OtlpJson,
}

pub(super) fn run(args: &TraceExportArgs) -> Outcome {
    let query = Query::new(args.filter.filter(&[])?);
    let place = args.place.place()?;
    let source = match &place {
        Place::Folder(dir) => Source::Store(Box::new(folder::open_to_read(dir)?)),
        Place::Server(server) => Source::Server(server, args.filter.target("/v1/spans", &[])?),
    };
    let mut pages = Pages::new(source, query, args.limit);
    let Some(output) = &args.output else {
        if args.format == Format::Parquet {
            let what =
                "a parquet file is read back before it counts, which standard output cannot be";
            return Err(Failure::new(what).with_hint("name a file with --output"));
        }
        return to_stdout(pages, args.format);
    };
    if matches!(place, Place::Folder(dir) if stands_in(output, dir)) {
        let what = format!("{} would stand in the store itself", output.display());
        return Err(Failure::new(what).with_hint("name a file in another folder"));
    }
    let mut file = NewFile::create(output, Access::Shared, args.force)?;
    if args.format == Format::Parquet {
        parquet::write(&mut pages, &mut file, output)?;
    } else {
        write_text(&mut pages, &mut file, output, args.format)?;
    }
    file.finish()?;
    let written = count(pages.spans, "span");
    eprintln!("daybook: {written} written to {}", output.display());
    Ok(DONE)
}

fn to_stdout(mut pages: Pages<'_>, format: Format) -> Outcome {
    let mut out = Out::raw();
    let mut text = Text::new(format);
    while let Some(spans) = pages.next()? {
        out.write_all(&text.page(&spans)?)?;
        if out.is_closed() {
            return Ok(DONE);
        }
    }
    out.flush()?;
    tell(&text.losses);
    Ok(DONE)
}

fn write_text(
    pages: &mut Pages<'_>,
    file: &mut NewFile,
    output: &Path,
    format: Format,
) -> Result<(), Failure> {
    let cannot_write =
        |error: io::Error| Failure::io(&format!("cannot write {}", output.display()), &error);
    let mut text = Text::new(format);
    let mut buffered = BufWriter::with_capacity(256 << 10, file);
    while let Some(spans) = pages.next()? {
        buffered
            .write_all(&text.page(&spans)?)
            .map_err(cannot_write)?;
    }
    buffered.flush().map_err(cannot_write)?;
    tell(&text.losses);
    Ok(())
}

/// What the format had no place for.
fn tell(losses: &Losses) {
    for (count, what) in losses.in_words() {
        eprintln!("daybook: {count} × {what}");
    }
}

fn stands_in(output: &Path, dir: &Path) -> bool {
    match (parent_of(output).canonicalize(), dir.canonicalize()) {
        (Ok(folder), Ok(dir)) => folder.starts_with(dir),
        _ => false,
    }
}

/// Where the spans come from.
enum Source<'p> {
    Store(Box<Store>),
    Server(&'p Server, Target),
}

/// Goes through the answer page by page.
struct Pages<'p> {
    source: Source<'p>,
    query: Query,
    left: u64,
    /// So many were handed out.
    spans: u64,
    has_ended: bool,
}

impl<'p> Pages<'p> {
    fn new(source: Source<'p>, query: Query, limit: u64) -> Self {
        Self {
            source,
            query,
            left: if limit == 0 { u64::MAX } else { limit },
            spans: 0,
            has_ended: false,
        }
    }

    /// The next page; the first one is there even without a span, for the titles of a table.
    fn next(&mut self) -> Result<Option<Vec<Arc<Span>>>, Failure> {
        if self.has_ended {
            return Ok(None);
        }
        let most = match self.source {
            Source::Store(_) => PAGE,
            Source::Server(..) => spans::PAGE,
        };
        self.query.limit = usize::try_from(self.left).map_or(most, |left| left.min(most));
        let page = match &self.source {
            Source::Store(store) => store.query(&self.query).map_err(Failure::from),
            Source::Server(server, target) => {
                let after = self.query.after.as_ref();
                spans::page(server, target, after, self.query.limit)
            }
        };
        let page = page.map_err(|failure| {
            let after = count(self.spans, "span");
            let message = format!("stopped after {after}: {}", failure.message);
            Failure { message, ..failure }
        })?;
        self.spans += page.spans.len() as u64;
        self.left -= page.spans.len() as u64;
        self.has_ended = page.next.is_none() || self.left == 0;
        self.query.after = page.next;
        Ok(Some(page.spans))
    }
}
