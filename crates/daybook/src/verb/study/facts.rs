//! What `daybook inspect` says of a study file.

use std::io;

use atune_core::storage::journal::{JournalReader, LeaseFacts, facts_of, lease_facts};
use durable::{Clock as _, RealFs, SystemClock};
use serde_json::Value;

use crate::failure::Failure;
use crate::output::Out;
use crate::styles::STRONG;
use crate::text::{bytes, clean, count, wall_time};

/// Prints format, extents, files and trials.
pub(crate) fn print_facts(
    out: &mut Out,
    reader: &JournalReader,
    as_json: bool,
) -> Result<(), Failure> {
    let facts = facts_of(reader)?;
    let lease = lease_facts(&RealFs, reader.path())?;
    if as_json {
        let document = serde_json::json!({ "path": reader.path(), "kind": "study", "facts": facts, "lease": lease });
        return Ok(out.json(&document)?);
    }
    in_words(out, reader)?;
    if let Some(lease) = lease {
        print_lease(out, &lease)?;
    }
    Ok(())
}

fn in_words(out: &mut Out, reader: &JournalReader) -> io::Result<()> {
    let header = reader.header();
    out.line(format_args!(
        "{STRONG}{}{STRONG:#}: study file, .atj version {}",
        reader.path().display(),
        header.format
    ))?;
    let created = wall_time(header.created_at_millis.saturating_mul(1_000_000));
    let by = header.created_by;
    out.line(format_args!(
        "  created   {created} by worker {by}, atune {}",
        clean(&header.atune)
    ))?;
    let head = reader.head();
    let extents = count(reader.extent_count() as u64, "extent");
    out.line(format_args!(
        "  contains  {} in {extents}, {} of history",
        count(head.ops, "operation"),
        bytes(head.bytes)
    ))?;
    for study in reader.replica().studies() {
        let trials = count(study.trials.len() as u64, "trial");
        out.line(format_args!(
            "  study     {}: {trials}",
            clean(&study.config.name)
        ))?;
    }
    // The listing was taken for the facts already; a folder that went away since shows as empty.
    for file in reader.data_files().unwrap_or_default() {
        let name = file.path.file_name().unwrap_or_default().to_string_lossy();
        let extents = count(file.extents, "extent");
        let open = match file.unpublished {
            0 => String::new(),
            n => format!(", {} not published", bytes(n)),
        };
        out.line(format_args!(
            "  data      {}: {extents}, {}{open}",
            clean(&name),
            bytes(file.len)
        ))?;
    }
    Ok(())
}

/// The facts of a verdict on a study, in a few words.
pub(crate) fn summary(facts: &serde_json::Map<String, Value>) -> String {
    let number = |name: &str| facts.get(name).and_then(Value::as_u64).unwrap_or_default();
    format!(
        "{} in {}, {}",
        count(number("operations"), "operation"),
        count(number("extents"), "extent"),
        count(number("trials"), "trial")
    )
}

fn print_lease(out: &mut Out, lease: &LeaseFacts) -> std::io::Result<()> {
    let Some(owner) = &lease.owner else {
        return out.line(format_args!("  lease     generation {}", lease.generation));
    };
    let what = match (lease.is_held, lease.is_owner_gone) {
        (true, true) => "held by a process that is gone:",
        (true, false) => "held by",
        (false, _) => "free; last held by",
    };
    let now_millis = SystemClock::start().wall_ns() / 1_000_000;
    out.line(format_args!(
        "  lease     {what} worker {}, process {} on {}, since {:.1} s, durability {}; {} waiting",
        owner.worker,
        owner.pid,
        clean(&owner.host),
        std::time::Duration::from_millis(now_millis.saturating_sub(owner.acquired_at_millis))
            .as_secs_f64(),
        serde_json::to_value(owner.durability)
            .ok()
            .and_then(|v| v.as_str().map(str::to_owned))
            .unwrap_or_default(),
        lease.waiting,
    ))
}
