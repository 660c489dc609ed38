//! JSON Lines: one object per record, nothing lost.
//!
//! Members: `segment`, `offset` (where the record starts in that segment's file), `kind`, `tick`,
//! `mono_ns`, `wall_ns` and `payload`. A payload that is JSON stands there as it was written, its
//! numbers spelled as they were; of its white space, line breaks become spaces. Any other payload is
//! `null`, and `payload_hex` has its bytes.

use std::borrow::Cow;
use std::io::Write;

use durable::digest::hex;
use serde::de::IgnoredAny;

use super::{ExportError, Exported, Selection, each_selected};
use crate::journal::{FrameRef, SegmentedPlayer};

/// Writes the selected records as JSON Lines.
///
/// # Errors
/// `Write`. Damage of the journal is in the result.
pub fn write_jsonl(
    mut out: impl Write,
    player: &mut SegmentedPlayer,
    selection: &Selection,
) -> Result<Exported, ExportError> {
    let exported = each_selected(player, selection, u64::MAX, |segment, frame| {
        Ok(write_jsonl_line(&mut out, segment, frame)?)
    })?;
    out.flush()?;
    Ok(exported)
}

/// Writes one record as a line.
pub fn write_jsonl_line(
    out: &mut impl Write,
    segment: u64,
    frame: &FrameRef<'_>,
) -> std::io::Result<()> {
    let FrameRef {
        kind,
        tick,
        mono_ns,
        wall_ns,
        offset,
        payload,
    } = frame;
    write!(
        out,
        "{{\"segment\":{segment},\"offset\":{offset},\"kind\":\"{kind}\",\"tick\":{tick},\
         \"mono_ns\":{mono_ns},\"wall_ns\":{wall_ns},\"payload\":"
    )?;
    match json_text(payload) {
        Some(text) => out.write_all(text.as_bytes())?,
        None => write!(out, "null,\"payload_hex\":\"{}\"", hex(payload))?,
    }
    out.write_all(b"}\n")
}

/// The payload as JSON text on one line; `None` when it is not JSON.
pub fn json_text(payload: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(payload).ok()?;
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    // JSON has line breaks between its tokens only: inside strings they are escaped.
    Some(if text.contains(['\n', '\r']) {
        Cow::Owned(text.replace(['\n', '\r'], " "))
    } else {
        Cow::Borrowed(text)
    })
}
