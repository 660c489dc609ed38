//! The form before version 2: bare `[u32 length][payload]` repeated, no header.

use std::io;

use durable::Window;

/// True when the whole file is a sequence of length-prefixed payloads, at least one and none empty.
///
/// Nothing in such a file identifies it, so only a walk that fits exactly counts. Empty payloads are
/// not accepted: any file of zeros would fit.
pub(super) fn fits(window: &mut Window) -> io::Result<bool> {
    let mut offset = 0u64;
    while let Some(len) = payload_len(window, offset)? {
        offset = offset.saturating_add(4).saturating_add(u64::from(len));
    }
    Ok(offset > 0 && offset == window.file_len())
}

/// The length at `offset`; `None` when no whole, non-empty payload stands there.
pub(super) fn payload_len(window: &mut Window, offset: u64) -> io::Result<Option<u32>> {
    let file_len = window.file_len();
    let Some(prefix) = window.bytes(offset, 4)?.first_chunk().copied() else {
        return Ok(None);
    };
    let len = u32::from_le_bytes(prefix);
    let end = offset.saturating_add(4).saturating_add(u64::from(len));
    Ok((len > 0 && end <= file_len).then_some(len))
}
