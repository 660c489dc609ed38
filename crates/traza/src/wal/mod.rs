//! The write-ahead log `wal.log`: acknowledged spans that no segment holds yet
//! (`docs/formats/traza-store.md`, write-ahead log).

mod commit;
mod log;
mod scan;

pub use scan::{Frame, FrameFault, Recovered, ScanError, scan};

pub(crate) use commit::Commit;
pub(crate) use log::{Log, Place};

use durable::checksum::crc32;
use durable::layout;

/// Its name in the folder of a store.
pub const FILE_NAME: &str = "wal.log";
/// First eight bytes of every log.
pub const MAGIC: [u8; 8] = *b"TRZWAL02";
/// The longest payload of a frame in bytes.
pub const PAYLOAD_LEN_MAX: u64 = 256 << 20;

layout! {
    /// What stands in front of the payload of each frame.
    pub mod frame_header [24] {
        PAYLOAD_LEN: [0; 4] "Length of the payload, u32: 1 to 268,435,456.",
        CRC32: [4; 4] "CRC-32 of the payload, u32.",
        EPOCH: [8; 8] "Generation that was live when the frame was written, u64.",
        SEQUENCE: [16; 8] "One more than that of the frame before, u64.",
    }
}

/// Where a frame stands in the history of the store. Ordered by epoch, then by sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Generation that was live.
    pub epoch: u64,
    /// Number of the frame.
    pub sequence: u64,
}

/// A frame with its header.
pub(crate) fn frame(stamp: Stamp, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(frame_header::LEN + payload.len());
    // The caller keeps to `PAYLOAD_LEN_MAX`.
    frame.extend_from_slice(
        &u32::try_from(payload.len())
            .unwrap_or(u32::MAX)
            .to_le_bytes(),
    );
    frame.extend_from_slice(&crc32(payload).to_le_bytes());
    frame.extend_from_slice(&stamp.epoch.to_le_bytes());
    frame.extend_from_slice(&stamp.sequence.to_le_bytes());
    frame.extend_from_slice(payload);
    frame
}
