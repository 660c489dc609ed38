//! Comma-separated values (RFC 4180, line ends `\n`).
//!
//! Telemetry alone is a table with a row per record: `tick`, `mono_ns`, `wall_ns`, then a column per
//! variable, named as [`flatten()`] does, in the order of first appearance. A variable that a record
//! does not have, and `null`, are empty. A variable with the name of a stamp gets `telemetry.` before
//! it; a payload that is not JSON stands in the column `payload_hex`.
//!
//! Other kinds have no common variables: a selection with any of them is a table of `segment`,
//! `offset`, `kind`, `tick`, `mono_ns`, `wall_ns`, `payload` (JSON text) and `payload_hex` (the bytes
//! of a payload that is not JSON).

use std::collections::HashMap;
use std::io::{self, Write};

use durable::digest::hex;
use serde_json::Value;

use super::jsonl::json_text;
use super::{ExportError, Exported, Selection, each_selected, flatten};
use crate::journal::{FrameKind, FrameRef, SegmentedPlayer};

/// The most variables that telemetry may have as a table.
pub const COLUMNS_MAX: usize = 4096;

const STAMPS: [&str; 3] = ["tick", "mono_ns", "wall_ns"];
const RAW: &str = "payload_hex";

/// Writes the selected records, or telemetry when the selection names no kind, as CSV.
///
/// Telemetry is read twice, first for its columns: memory does not grow with the length of the run.
///
/// # Errors
/// `Write`; `TooManyColumns`. Damage of the journal is in the result.
pub fn write_csv(
    out: impl Write,
    player: &mut SegmentedPlayer,
    selection: &Selection,
) -> Result<Exported, ExportError> {
    let telemetry = [FrameKind::Telemetry];
    if selection.kinds.is_empty() || selection.kinds == telemetry {
        let selection = Selection {
            kinds: telemetry.to_vec(),
            ..selection.clone()
        };
        write_variables(csv::Writer::from_writer(out), player, &selection)
    } else {
        write_records(csv::Writer::from_writer(out), player, selection)
    }
}

fn write_variables(
    mut out: csv::Writer<impl Write>,
    player: &mut SegmentedPlayer,
    selection: &Selection,
) -> Result<Exported, ExportError> {
    let mut columns = Columns::default();
    // Damage ends this pass as it will end the next: the columns are those of what can be read.
    let mut again = match player.reopen() {
        Ok(again) => again,
        Err(error) => {
            return Ok(Exported {
                records: 0,
                truncated: false,
                stopped: Some(error),
            });
        }
    };
    let first = each_selected(&mut again, selection, u64::MAX, |_, frame| {
        columns.learn(frame)
    })?;
    out.write_record(STAMPS.iter().copied().chain(columns.headings()))
        .map_err(write_error)?;
    let mut row = vec![String::new(); columns.names.len()];
    // A journal that is being written has grown since: only what the columns were made from.
    let mut pass = each_selected(player, selection, first.records, |_, frame| {
        row.iter_mut().for_each(String::clear);
        variables(frame, &mut |name, value| {
            if let Some(cell) = columns.names.get(name).and_then(|&at| row.get_mut(at)) {
                cell.push_str(&value);
            }
        });
        let stamps = [frame.tick, frame.mono_ns, frame.wall_ns].map(|stamp| stamp.to_string());
        let cells = stamps.iter().chain(&row);
        out.write_record(cells).map_err(write_error)
    })?;
    pass.stopped = pass.stopped.or(first.stopped);
    out.flush()?;
    Ok(Exported {
        records: pass.records,
        truncated: first.truncated,
        stopped: pass.stopped,
    })
}

/// Calls `take` with every variable of a record and the text of its cell.
fn variables(frame: &FrameRef<'_>, take: &mut dyn FnMut(&str, String)) {
    match serde_json::from_slice::<Value>(frame.payload) {
        Ok(value) => flatten(&value, &mut |name, value| take(name, cell(value))),
        Err(_) => take(RAW, hex(frame.payload)),
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The variables met so far.
#[derive(Default)]
struct Columns {
    names: HashMap<String, usize>,
    order: Vec<String>,
}

impl Columns {
    fn learn(&mut self, frame: &FrameRef<'_>) -> Result<(), ExportError> {
        variables(frame, &mut |name, _| {
            if !self.names.contains_key(name) && self.order.len() <= COLUMNS_MAX {
                self.names.insert(name.to_owned(), self.order.len());
                self.order.push(name.to_owned());
            }
        });
        if self.order.len() > COLUMNS_MAX {
            return Err(ExportError::TooManyColumns { max: COLUMNS_MAX });
        }
        Ok(())
    }

    fn headings(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(|name| match name.as_str() {
            "tick" => "telemetry.tick",
            "mono_ns" => "telemetry.mono_ns",
            "wall_ns" => "telemetry.wall_ns",
            other => other,
        })
    }
}

fn write_records(
    mut out: csv::Writer<impl Write>,
    player: &mut SegmentedPlayer,
    selection: &Selection,
) -> Result<Exported, ExportError> {
    let [tick, mono, wall] = STAMPS;
    out.write_record([
        "segment", "offset", "kind", tick, mono, wall, "payload", RAW,
    ])
    .map_err(write_error)?;
    let pass = each_selected(player, selection, u64::MAX, |segment, frame| {
        let text = json_text(frame.payload);
        let raw = text.is_none().then(|| hex(frame.payload));
        let row = [
            &segment.to_string(),
            &frame.offset.to_string(),
            frame.kind.as_str(),
            &frame.tick.to_string(),
            &frame.mono_ns.to_string(),
            &frame.wall_ns.to_string(),
            text.as_deref().unwrap_or_default(),
            raw.as_deref().unwrap_or_default(),
        ];
        out.write_record(row).map_err(write_error)
    })?;
    out.flush()?;
    Ok(pass)
}

fn write_error(error: csv::Error) -> ExportError {
    ExportError::Write(match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    })
}
