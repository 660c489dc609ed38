//! Handing a run on in the formats that other tools read.
//!
//! An export reads the whole set as one stream. Where reading has to stop, what stood before is
//! written and [`Exported::stopped`] names the place: an export is never shorter without saying so.

mod columns;
mod csv;
mod flatten;
mod jsonl;
mod mcap;
#[cfg(test)]
mod tests;

use std::io;

use crate::journal::{Error, FrameKind, FrameRef, SegmentedPlayer};

pub use self::csv::{COLUMNS_MAX, write_csv};
pub use self::mcap::{LOG_LINES_MAX, McapEncoding, McapExtras, count_mcap, write_mcap};
pub use columns::{Cell, Column, ColumnKind, Columns};
pub use flatten::{flatten, number_of};
pub use jsonl::{json_text, write_jsonl, write_jsonl_line};

/// Which records of a run are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only these kinds; when empty, every kind that describes the run.
    pub kinds: Vec<FrameKind>,
    /// No record with a lower tick.
    pub first_tick: Option<u64>,
    /// No record with a higher tick.
    pub last_tick: Option<u64>,
}

impl Selection {
    /// True when the record is meant.
    pub fn takes(&self, frame: &FrameRef<'_>) -> bool {
        let kind = if self.kinds.is_empty() {
            frame.kind.is_data()
        } else {
            self.kinds.contains(&frame.kind)
        };
        kind && self.first_tick.is_none_or(|first| frame.tick >= first) && !self.ends_before(frame)
    }

    /// True when this record and, since ticks never decrease, all later ones are past the selection.
    pub fn ends_before(&self, frame: &FrameRef<'_>) -> bool {
        self.last_tick.is_some_and(|last| frame.tick > last)
    }
}

/// What was exported.
#[derive(Debug)]
#[must_use]
pub struct Exported {
    /// Records written.
    pub records: u64,
    /// True when the journal, which was never sealed, ends in the middle of a record.
    pub truncated: bool,
    /// Why reading stopped before the end of the journal. Everything before the place is written.
    pub stopped: Option<Error>,
}

/// Why nothing more could be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The output could not be written.
    #[error("cannot write the export")]
    Write(#[from] io::Error),
    /// The run has more variables than a table can have columns.
    #[error("the telemetry has more than {max} variables, too many for columns of a table")]
    TooManyColumns {
        /// How many there may be.
        max: usize,
    },
}

/// Calls `take` with each selected record and its segment's ordinal, at most `records_max` times.
///
/// # Errors
/// What `take` fails with. Damage of the journal is in the result.
pub fn each_selected(
    player: &mut SegmentedPlayer,
    selection: &Selection,
    records_max: u64,
    mut take: impl FnMut(u64, &FrameRef<'_>) -> Result<(), ExportError>,
) -> Result<Exported, ExportError> {
    let mut records = 0;
    let mut stopped = selection
        .first_tick
        .and_then(|first| player.seek_to_tick(first).err());
    while stopped.is_none() && records < records_max {
        match player.next_placed_frame() {
            Ok(Some((_, frame))) if selection.ends_before(&frame) => break,
            Ok(Some((segment, frame))) => {
                if selection.takes(&frame) {
                    take(segment, &frame)?;
                    records += 1;
                }
            }
            Ok(None) => {
                stopped = player.check_complete().err();
                break;
            }
            Err(error) => stopped = Some(error),
        }
    }
    Ok(Exported {
        records,
        truncated: player.is_truncated(),
        stopped,
    })
}
