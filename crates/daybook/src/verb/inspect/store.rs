//! What `daybook inspect` says of a store of traces.

use std::io;
use std::path::Path;
use std::sync::Arc;

use durable::{Fs, RealFs};
use serde_json::{Map, Value, json};
use traza::store::{StoreSurvey, survey};

use crate::failure::Failure;
use crate::output::Out;
use crate::styles::{FAINT, STRONG, WARN};
use crate::text::{approximate, bytes, count, wall_time};

/// Prints files, segments, generation, lock, pins and unfinished work; at most `limit` segments in words, and all of
/// them as JSON.
pub(super) fn print(out: &mut Out, path: &Path, limit: u64, as_json: bool) -> Result<(), Failure> {
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let survey = survey(&fs, path)?;
    if as_json {
        return Ok(out.json(&document(path, &survey))?);
    }
    Ok(in_words(out, path, &survey, limit)?)
}

fn document(path: &Path, survey: &StoreSurvey) -> Value {
    let segments = survey.segments.iter().map(|segment| {
        json!({
            "id": segment.id, "path": segment.path, "bytes": segment.file_len,
            "records": segment.record_count, "logical_bytes": segment.logical_len,
            "codec": segment.codec.as_str(),
            "first_timestamp_ns": segment.timestamps.0, "last_timestamp_ns": segment.timestamps.1,
        })
    });
    let files = survey
        .bytes
        .iter()
        .map(|(what, files, len)| json!({ "what": what, "files": files, "bytes": len }));
    let pins = survey.pins.iter().map(|pin| {
        json!({
            "label": pin.label, "generation": pin.generation, "files": pin.files,
            "bytes": pin.bytes, "created_unix_ns": pin.created_unix_ns,
        })
    });
    json!({
        "path": path, "kind": "store", "generation": survey.generation,
        "writer_pid": survey.writer, "logged_spans": survey.logged_spans,
        "records": records(survey), "bytes": survey.file_len(),
        "logical_bytes": logical_len(survey), "files": files.collect::<Vec<_>>(),
        "segments": segments.collect::<Vec<_>>(), "pins": pins.collect::<Vec<_>>(),
        "pending": survey.pending,
        "checkpoint": survey.manifest.as_ref().map(|manifest| json!({
            "created_unix_ns": manifest.created_unix_ns, "files": manifest.files.len(),
            "segment_format": manifest.segment_format,
        })),
    })
}

fn records(survey: &StoreSurvey) -> u64 {
    let counts = survey.segments.iter().map(|segment| segment.record_count);
    counts.sum()
}

fn logical_len(survey: &StoreSurvey) -> u64 {
    let lens = survey.segments.iter().map(|segment| segment.logical_len);
    lens.sum()
}

fn in_words(out: &mut Out, path: &Path, survey: &StoreSurvey, limit: u64) -> io::Result<()> {
    out.line(format_args!(
        "{STRONG}{}{STRONG:#}: store of traces, generation {}",
        path.display(),
        survey.generation
    ))?;
    out.line(format_args!(
        "  contains  {} in {}, {} only in the log",
        count(records(survey), "record"),
        count(survey.segments.len() as u64, "segment"),
        count(survey.logged_spans as u64, "span")
    ))?;
    out.line(format_args!(
        "  size      {} on disk for {} of records{}",
        bytes(survey.file_len()),
        bytes(logical_len(survey)),
        amplification(survey)
    ))?;
    if let Some(manifest) = &survey.manifest {
        out.line(format_args!(
            "  made      {} as of {}",
            count(manifest.files.len() as u64, "file"),
            wall_time(manifest.created_unix_ns)
        ))?;
    }
    match survey.writer {
        Some(pid) => out.line(format_args!("  writer    process {pid}"))?,
        None => out.line("  writer    none")?,
    }
    for path in &survey.pending {
        out.line(format_args!(
            "  {WARN}unfinished{WARN:#} {}; the next opening decides it",
            path.display()
        ))?;
    }
    out.line(format_args!("\n  {:>8} {:>12}  what", "files", "bytes"))?;
    for (what, files, len) in &survey.bytes {
        out.line(format_args!("  {files:>8} {:>12}  {what}", bytes(*len)))?;
    }
    segments(out, survey, limit)?;
    pins(out, survey)
}

/// Bytes on disk for each byte of records.
fn amplification(survey: &StoreSurvey) -> String {
    match logical_len(survey) {
        0 => String::new(),
        logical => {
            let ratio = approximate(survey.file_len()) / approximate(logical);
            format!(" ({ratio:.2}x)")
        }
    }
}

fn segments(out: &mut Out, survey: &StoreSurvey, limit: u64) -> io::Result<()> {
    if survey.segments.is_empty() {
        return Ok(());
    }
    out.line(format_args!(
        "\n  {:>8} {:>10} {:>12} {:>12} {:>5}  first and last start",
        "segment", "records", "stored", "logical", "codec"
    ))?;
    for (segment, _) in survey.segments.iter().zip(0..limit) {
        let (first, last) = segment.timestamps;
        out.line(format_args!(
            "  {:>8} {:>10} {:>12} {:>12} {:>5}  {} to {}",
            segment.id,
            segment.record_count,
            bytes(segment.file_len),
            bytes(segment.logical_len),
            segment.codec.as_str(),
            wall_time(first),
            wall_time(last)
        ))?;
    }
    match (survey.segments.len() as u64)
        .checked_sub(limit)
        .filter(|more| *more > 0)
    {
        Some(more) => out.line(format_args!("  {FAINT}… {more} more: --limit 0{FAINT:#}")),
        None => Ok(()),
    }
}

fn pins(out: &mut Out, survey: &StoreSurvey) -> io::Result<()> {
    if survey.pins.is_empty() {
        return Ok(());
    }
    out.line(format_args!(
        "\n  {:>10} {:>8} {:>12}  pin",
        "generation", "files", "bytes"
    ))?;
    for pin in &survey.pins {
        out.line(format_args!(
            "  {:>10} {:>8} {:>12}  {}",
            pin.generation,
            pin.files,
            bytes(pin.bytes),
            pin.label
        ))?;
    }
    Ok(())
}

/// The facts of a verdict on a store, in a few words.
pub(crate) fn summary(facts: &Map<String, Value>) -> String {
    let number = |name: &str| facts.get(name).and_then(Value::as_u64).unwrap_or(0);
    let pins = facts
        .get("pins")
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    format!(
        "generation {}: {} in {}, {} in the log, {}, {}",
        number("generation"),
        count(number("records"), "record"),
        count(number("segments"), "segment"),
        count(number("logged_spans"), "span"),
        count(number("payloads"), "payload"),
        count(pins as u64, "pin")
    )
}
