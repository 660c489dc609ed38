//! Finding the next record after bytes that cannot be read.

use durable::checksum::Crc32;
use durable::{FsFile, Window};

use super::codec::{RECORD_HEADER_LEN, RecordHeader};
use super::frame::FrameKind;
use super::layout::{CHECKPOINT_PAYLOAD_LEN, SIGNATURE_PAYLOAD_LEN, record_header};
use super::writer::Stamp;

const READ_LEN: usize = 1 << 20;

/// Checksummed bytes per byte of the file after which the search gives up: hostile bytes can make
/// every offset look like the header of a long record.
const EFFORT: u64 = 16;

/// Searches for records in damaged bytes, with bounded effort over all its searches together.
#[derive(Debug)]
pub(super) struct Resync {
    window: Window,
    effort_left: u64,
}

impl Resync {
    pub(super) fn new(file: Box<dyn FsFile>) -> std::io::Result<Self> {
        let window = Window::buffered(file, READ_LEN)?;
        let effort_left = window.file_len().saturating_mul(EFFORT).max(1 << 20);
        Ok(Self {
            window,
            effort_left,
        })
    }

    /// The first offset in `from..end` at which a whole plausible record stands: known kind, zero
    /// padding, a payload length that this kind can have, tick and monotonic time not before
    /// `floor`, and a payload with the header's checksum.
    pub(super) fn next_record(
        &mut self,
        from: u64,
        end: u64,
        floor: Stamp,
    ) -> std::io::Result<Option<(u64, RecordHeader)>> {
        let mut offset = from;
        while offset.saturating_add(RECORD_HEADER_LEN) <= end && self.effort_left > 0 {
            let Ok(header) = RecordHeader::decode(self.window.bytes(offset, record_header::LEN)?)
            else {
                return Ok(None);
            };
            if is_plausible(&header, offset, end, floor)
                && self.has_its_checksum(offset, &header)?
            {
                return Ok(Some((offset, header)));
            }
            offset += 1;
        }
        Ok(None)
    }

    fn has_its_checksum(&mut self, offset: u64, header: &RecordHeader) -> std::io::Result<bool> {
        let mut crc = Crc32::default();
        let mut at = offset + RECORD_HEADER_LEN;
        let end = offset.saturating_add(header.record_len());
        while at < end {
            let want = usize::try_from(end - at).map_or(READ_LEN, |left| left.min(READ_LEN));
            let piece = self.window.bytes(at, want)?;
            if piece.is_empty() {
                return Ok(false);
            }
            crc.update(piece);
            at += piece.len() as u64;
            self.effort_left = self.effort_left.saturating_sub(want as u64);
        }
        Ok(crc.value() == header.crc32)
    }
}

fn is_plausible(header: &RecordHeader, offset: u64, end: u64, floor: Stamp) -> bool {
    let Some(kind) = FrameKind::from_code(header.kind) else {
        return false;
    };
    let len_fits = match kind {
        FrameKind::Chain => header.payload_len as usize == CHECKPOINT_PAYLOAD_LEN,
        FrameKind::Signature => header.payload_len as usize == SIGNATURE_PAYLOAD_LEN,
        // The checksum of nothing is zero: an empty record would stand wherever zeros do.
        _ => header.payload_len > 0,
    };
    len_fits
        && header.padding == [0; 3]
        && header.tick >= floor.tick
        && header.mono_ns >= floor.mono_ns
        && offset.saturating_add(header.record_len()) <= end
}
