//! `daybook trace dump`: one line per record.

use std::io::{self, Write as _};
use std::path::Path;

use anstream::eprintln;
use durable::{RealFs, read_all};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use traza::migration;
use traza::segment::layout::FORMAT_VERSION;
use traza::segment::{Segment, SegmentError};
use traza::span::Span;

use super::DumpArgs;
use super::line::{attributes, span_line};
use crate::failure::{DONE, Failure, Outcome};
use crate::kind::{Kind, kind_of};
use crate::output::Out;
use crate::styles::{BAD, FAINT};
use crate::text::{clean, count, wall_time};

/// A record, from a segment of whichever version.
struct Row<'a> {
    ordinal: u64,
    timestamp: u64,
    trace_id: &'a str,
    payload: &'a [u8],
}

/// Why a listing ended early.
enum End {
    Failed(Failure),
    /// Enough was shown, or nobody reads on.
    Enough,
}

impl From<SegmentError> for End {
    fn from(error: SegmentError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.into())
    }
}

pub(super) fn run(args: &DumpArgs) -> Outcome {
    args.no_server.check(&[&args.path])?;
    match kind_of(&args.path)? {
        Kind::Segment => {}
        other => {
            let hint = format!("daybook inspect {}", args.path.display());
            return Err(other
                .instead_of("a segment of traces", &args.path)
                .with_hint(hint));
        }
    }
    let limit = match args.limit {
        0 => u64::MAX,
        _ if args.json => u64::MAX,
        limit => limit,
    };
    let mut listing = Listing {
        out: Out::for_json(args.json),
        as_json: args.json,
        attributes: args.attributes,
        limit,
        shown: 0,
    };
    let (records, end) = match each(&args.path, &mut |row| listing.row(&row)) {
        Ok(records) | Err((records, End::Enough)) => (records, None),
        Err((records, End::Failed(failure))) => (records, Some(failure)),
    };
    listing.out.flush()?;
    if let Some(more) = records.checked_sub(listing.shown).filter(|more| *more > 0)
        && end.is_none()
        && !listing.out.is_closed()
    {
        eprintln!("{FAINT}{} more: --limit 0{FAINT:#}", count(more, "record"));
    }
    end.map_or(Ok(DONE), Err)
}

/// Hands out the records in stored order. Answers how many the segment has, as far as it is known.
fn each(path: &Path, visit: &mut dyn FnMut(Row<'_>) -> Result<(), End>) -> Result<u64, (u64, End)> {
    let segment = match Segment::open(&RealFs, path) {
        Ok(segment) => segment,
        Err(SegmentError::Version { found, .. }) if found < FORMAT_VERSION => {
            return each_of_older(path, visit);
        }
        Err(error) => return Err((0, error.into())),
    };
    let records = segment.header().record_count;
    for (ordinal, record) in (0u64..).zip(segment.scan()) {
        let record = record.map_err(|error| (records, error.into()))?;
        let row = Row {
            ordinal,
            timestamp: record.timestamp(),
            trace_id: record.trace_id(),
            payload: record.payload(),
        };
        visit(row).map_err(|end| (records, end))?;
    }
    Ok(records)
}

/// As [`each`], of version 6 or 7. The stream is walked once before: nothing is shown of a segment whose
/// records are not all accounted for.
fn each_of_older(
    path: &Path,
    visit: &mut dyn FnMut(Row<'_>) -> Result<(), End>,
) -> Result<u64, (u64, End)> {
    let read = read_all(&RealFs, path, u64::MAX);
    let bytes = read.map_err(|error| {
        let tried = format!("cannot read {}", path.display());
        (0, End::Failed(Failure::io(&tried, &error)))
    })?;
    let summary = migration::walk(&bytes, &mut |_| Ok(())).map_err(|error| (0, error.into()))?;
    let records = summary.record_count;
    eprintln!(
        "{FAINT}version {}: converted when a store opens it; its query indexes are not read{FAINT:#}",
        summary.version
    );
    let mut end = None;
    let walked = migration::walk(&bytes, &mut |legacy| {
        let row = Row {
            ordinal: legacy.ordinal,
            timestamp: legacy.timestamp,
            trace_id: legacy.trace_id,
            payload: legacy.payload,
        };
        if end.is_none() {
            end = visit(row).err();
        }
        Ok(())
    });
    walked.map_err(|error| (records, error.into()))?;
    end.map_or(Ok(records), |end| Err((records, end)))
}

struct Listing {
    out: Out,
    as_json: bool,
    attributes: bool,
    limit: u64,
    shown: u64,
}

impl Listing {
    fn row(&mut self, row: &Row<'_>) -> Result<(), End> {
        if self.shown >= self.limit || self.out.is_closed() {
            return Err(End::Enough);
        }
        self.shown += 1;
        if self.as_json {
            return Ok(self.json(row)?);
        }
        Ok(self.words(row)?)
    }

    /// The span stands as it is stored; a payload that is no JSON is null, with its text beside it.
    fn json(&mut self, row: &Row<'_>) -> io::Result<()> {
        let text = String::from_utf8_lossy(row.payload);
        let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        let mut line = json!({
            "record": row.ordinal, "timestamp_ns": row.timestamp, "trace_id": row.trace_id,
        });
        if let Some(line) = line.as_object_mut().filter(|_| !is_json) {
            line.insert("span".into(), Value::Null);
            line.insert("payload_text".into(), text.as_ref().into());
        }
        let line = line.to_string();
        match line.strip_suffix('}').filter(|_| is_json) {
            // A line break in JSON is white space: inside strings it is escaped.
            Some(open) => writeln!(
                self.out,
                "{open},\"span\":{}}}",
                text.replace(['\n', '\r'], " ")
            ),
            None => writeln!(self.out, "{line}"),
        }
    }

    fn words(&mut self, row: &Row<'_>) -> io::Result<()> {
        let Row {
            ordinal,
            timestamp,
            trace_id,
            payload,
        } = row;
        let time = wall_time(*timestamp);
        let span = match Span::from_json(payload) {
            Ok(span) => span,
            Err(error) => {
                return self.out.line(format_args!(
                    "{ordinal:>6}  {time}  {BAD}no span{BAD:#}: {} (trace {})",
                    clean(&error.to_string()),
                    clean(trace_id)
                ));
            }
        };
        self.out
            .line(format_args!("{ordinal:>6}  {}", span_line(&span)))?;
        if self.attributes {
            for attribute in attributes(&span) {
                self.out.line(format_args!("          {attribute}"))?;
            }
        }
        Ok(())
    }
}
