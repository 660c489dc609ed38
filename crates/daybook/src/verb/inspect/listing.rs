//! Records, one per line.

use std::io;

use anstream::eprintln;
use omniloop_core::export::{Selection, json_text};
use omniloop_core::journal::{Error, FrameRef, SegmentedPlayer};

use crate::output::{Out, terminal_width};
use crate::styles::FAINT;
use crate::text::{count, duration, shorten};

/// A payload on a line of its own is shortened to this many characters when there is no terminal.
const WIDTH_MAX: usize = 500;

/// The line of a record: tick, time since the start of the run, kind and payload.
pub(super) fn line(frame: &FrameRef<'_>) -> String {
    let head = format!(
        "{:>8}  {:>12}  {:<9}  ",
        frame.tick,
        duration(frame.mono_ns),
        frame.kind
    );
    let payload = match json_text(frame.payload) {
        Some(text) => text.into_owned(),
        None => format!("0x{}", durable::digest::hex(frame.payload)),
    };
    let width = terminal_width().map_or(WIDTH_MAX, |width| width.saturating_sub(head.len()));
    format!("{FAINT}{head}{FAINT:#}{}", shorten(&payload, width.max(20)))
}

/// Lists the records of a selection up to a limit.
pub(super) struct Listing {
    limit: u64,
    shown: u64,
    has_more: bool,
}

impl Listing {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            shown: 0,
            has_more: false,
        }
    }

    /// Prints the records; answers the damage that reading came to.
    pub(super) fn print(
        &mut self,
        out: &mut Out,
        player: &mut SegmentedPlayer,
        selection: &Selection,
    ) -> io::Result<Option<Error>> {
        if let Some(error) = selection
            .first_tick
            .and_then(|t| player.seek_to_tick(t).err())
        {
            return Ok(Some(error));
        }
        while !out.is_closed() {
            match player.next_frame() {
                Ok(Some(frame)) if selection.ends_before(&frame) => break,
                Ok(Some(frame)) if !selection.takes(&frame) => {}
                Ok(Some(_)) if self.shown == self.limit => {
                    self.has_more = true;
                    break;
                }
                Ok(Some(frame)) => {
                    self.shown += 1;
                    out.line(line(&frame))?;
                }
                Ok(None) => return Ok(player.check_complete().err()),
                Err(error) => return Ok(Some(error)),
            }
        }
        Ok(None)
    }

    /// A list that was cut short says so.
    pub(super) fn tell_rest(&self) {
        if self.has_more {
            let shown = count(self.shown, "record");
            eprintln!("daybook: the first {shown}; there are more (--limit 0 shows all)");
        }
    }
}
