//! What `daybook inspect` says of a segment of traces.

use std::cmp::Reverse;
use std::io;
use std::path::Path;

use durable::RealFs;
use serde_json::{Map, Value, json};
use traza::segment::{SectionPlace, Survey, survey};

use crate::failure::Failure;
use crate::output::Out;
use crate::styles::{FAINT, STRONG, WARN};
use crate::text::{approximate, bytes, count, duration, shorten, wall_time};

/// The version that is served; older ones are read, and that is said.
const SERVED_VERSION: u16 = traza::segment::layout::FORMAT_VERSION;

/// Prints sections, records, times, keys, content geometry and blocks; at most `limit` keys and blocks in
/// words, and all of them as JSON.
pub(super) fn print(out: &mut Out, path: &Path, limit: u64, as_json: bool) -> Result<(), Failure> {
    let survey = survey(&RealFs, path)?;
    if as_json {
        return Ok(out.json(&document(path, &survey))?);
    }
    Ok(in_words(out, path, &survey, limit)?)
}

fn document(path: &Path, survey: &Survey) -> Value {
    let sections = survey.sections.iter().map(|place| {
        json!({
            "section": place.section.as_str(), "offset": place.offset,
            "stored_bytes": place.stored_len, "body_bytes": place.body_len,
        })
    });
    let keys = survey
        .keys
        .iter()
        .map(|key| json!({ "key": key.key, "values": key.values, "postings": key.postings }));
    let blocks = survey.blocks.iter().map(|block| {
        json!({
            "first_record": block.first_ordinal, "first_timestamp_ns": block.min_timestamp,
            "logical_start": block.logical_start, "logical_bytes": block.logical_len,
            "stored_offset": block.stored_offset, "stored_bytes": block.stored_len,
            "raw": block.is_raw, "crc32": format!("{:08x}", block.crc),
        })
    });
    let content = survey.content.map(|content| {
        json!({
            "records_per_block": content.records_per_block, "blocks": content.block_count,
            "summary_bits": content.summary_bits, "block_bits": content.block_bits,
        })
    });
    json!({
        "path": path, "kind": "segment", "format": survey.version,
        "codec": survey.codec.map(traza::segment::Codec::as_str),
        "bytes": survey.file_len, "records": survey.record_count,
        "logical_bytes": survey.logical_len, "traces": survey.trace_count,
        "first_timestamp_ns": survey.timestamps.map(|(first, _)| first),
        "last_timestamp_ns": survey.timestamps.map(|(_, last)| last),
        "sections": sections.collect::<Vec<_>>(), "keys": keys.collect::<Vec<_>>(),
        "content": content, "blocks": blocks.collect::<Vec<_>>(),
    })
}

fn in_words(out: &mut Out, path: &Path, survey: &Survey, limit: u64) -> io::Result<()> {
    let codec = survey.codec.map(|codec| format!(", {}", codec.as_str()));
    out.line(format_args!(
        "{STRONG}{}{STRONG:#}: segment of traces, version {}{}",
        path.display(),
        survey.version,
        codec.unwrap_or_default()
    ))?;
    if survey.version < SERVED_VERSION {
        out.line(format_args!(
            "  {WARN}older{WARN:#}     version {} is converted when a store opens it; its query indexes \
             were not read, keys and traces are those of the spans",
            survey.version
        ))?;
    }
    out.line(format_args!(
        "  contains  {} in {}, {} before compression",
        count(survey.record_count, "record"),
        count(survey.trace_count, "trace"),
        bytes(survey.logical_len)
    ))?;
    if let Some((first, last)) = survey.timestamps {
        out.line(format_args!(
            "  times     {} to {} ({})",
            wall_time(first),
            wall_time(last),
            duration(last.saturating_sub(first))
        ))?;
    }
    sections(out, survey)?;
    content(out, survey)?;
    keys(out, survey, limit)?;
    blocks(out, survey, limit)
}

fn sections(out: &mut Out, survey: &Survey) -> io::Result<()> {
    out.line(format_args!(
        "\n  {:<20} {:>12} {:>12} {:>7} {:>7}",
        "section", "offset", "stored", "of file", "ratio"
    ))?;
    for place in &survey.sections {
        out.line(format_args!(
            "  {:<20} {:>12} {:>12} {:>6.1}% {}",
            place.section.as_str(),
            place.offset,
            bytes(place.stored_len),
            100.0 * share(place.stored_len, survey.file_len),
            ratio(place)
        ))?;
    }
    Ok(())
}

/// How much shorter a section is than before compression.
fn ratio(place: &SectionPlace) -> String {
    if place.body_len <= place.stored_len {
        return format!("{:>7}", "-");
    }
    format!("{:>6.2}x", share(place.body_len, place.stored_len))
}

fn share(part: u64, whole: u64) -> f64 {
    approximate(part) / approximate(whole.max(1))
}

fn content(out: &mut Out, survey: &Survey) -> io::Result<()> {
    let Some(content) = survey.content else {
        let why = match survey.version {
            SERVED_VERSION => "none: a word search reads every record",
            _ => "not read",
        };
        return out.line(format_args!("\n  words     {why}"));
    };
    out.line(format_args!(
        "\n  words     {} of {} records, filters of {} bits, summary of {} bits",
        count(u64::from(content.block_count), "group"),
        content.records_per_block,
        content.block_bits,
        content.summary_bits
    ))
}

fn keys(out: &mut Out, survey: &Survey, limit: u64) -> io::Result<()> {
    out.line(format_args!("\n  {:>10} {:>10}  key", "values", "postings"))?;
    let mut keys: Vec<_> = survey.keys.iter().collect();
    // Stable: keys of as many records stay in the dictionary's order.
    keys.sort_by_key(|key| Reverse(key.postings));
    for (key, _) in keys.into_iter().zip(0..limit) {
        let (name, note) = match key.key.strip_prefix('\0') {
            Some(reserved) => (reserved, " (of the span)"),
            None if key.key.is_empty() => ("\"\"", " (no name)"),
            None => (key.key.as_str(), ""),
        };
        out.line(format_args!(
            "  {:>10} {:>10}  {}{FAINT}{note}{FAINT:#}",
            key.values,
            key.postings,
            shorten(name, 80)
        ))?;
    }
    rest(out, survey.keys.len(), limit)
}

fn blocks(out: &mut Out, survey: &Survey, limit: u64) -> io::Result<()> {
    if survey.blocks.is_empty() {
        return Ok(());
    }
    out.line(format_args!(
        "\n  {:>6} {:>12} {:>12} {:>12} {:>7}  first time",
        "block", "record", "stored", "logical", "ratio"
    ))?;
    for (index, (block, _)) in survey.blocks.iter().zip(0..limit).enumerate() {
        let stored = u64::from(block.stored_len);
        let ratio = if block.is_raw {
            "raw".to_owned()
        } else {
            format!("{:.2}x", share(block.logical_len, stored))
        };
        out.line(format_args!(
            "  {index:>6} {:>12} {:>12} {:>12} {ratio:>7}  {}",
            block.first_ordinal,
            bytes(stored),
            bytes(block.logical_len),
            wall_time(block.min_timestamp)
        ))?;
    }
    rest(out, survey.blocks.len(), limit)
}

fn rest(out: &mut Out, len: usize, limit: u64) -> io::Result<()> {
    match (len as u64).checked_sub(limit).filter(|more| *more > 0) {
        Some(more) => out.line(format_args!("  {FAINT}… {more} more: --limit 0{FAINT:#}")),
        None => Ok(()),
    }
}

/// The facts of a verdict on a segment, in a few words.
pub(crate) fn summary(facts: &Map<String, Value>) -> String {
    let number = |name: &str| facts.get(name).and_then(Value::as_u64);
    let mut text = count(number("records").unwrap_or_default(), "record");
    for (name, noun) in [("blocks", "block"), ("traces", "trace"), ("pairs", "pair")] {
        if let Some(found) = number(name) {
            text = format!("{text}, {}", count(found, noun));
        }
    }
    let version = number("format").unwrap_or_default();
    format!("version {version}: {text}")
}
