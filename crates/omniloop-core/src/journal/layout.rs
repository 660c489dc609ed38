//! The fixed structures of an `.omni` file, as tables. `docs/formats/omni.md` shows them.

use durable::layout;

/// First eight bytes of every journal.
pub const FILE_MAGIC: [u8; 8] = *b"OMNILOG1";
/// First eight bytes of the index.
pub const INDEX_MAGIC: [u8; 8] = *b"OMNIIDX1";
/// First eight bytes of the trailer.
pub const TRAILER_MAGIC: [u8; 8] = *b"OMNIEND1";
/// The format version that is written, and the newest that is read.
pub const FORMAT_VERSION: u32 = 2;
/// What a legacy file without a header reports as its version.
pub const LEGACY_VERSION: u32 = 1;
/// Header flag: the file is one segment of a rotated set.
pub const FLAG_SEGMENTED: u32 = 1 << 0;
/// Header flag: the records carry a hash chain.
pub const FLAG_CHAINED: u32 = 1 << 1;
/// A chain checkpoint follows this many records that are neither chain nor signature records.
pub const CHECKPOINT_EVERY: u32 = 64;
/// The index has an entry for every record whose ordinal is a multiple of this.
pub const INDEX_EVERY: u64 = 64;
/// The largest payload that the writer accepts: 256 MiB. Readers accept what the file holds.
pub const PAYLOAD_LEN_MAX: usize = 256 << 20;
/// Length of a chain checkpoint's payload.
pub const CHECKPOINT_PAYLOAD_LEN: usize = 32;
/// Length of a signature's payload: public key, then signature.
pub const SIGNATURE_PAYLOAD_LEN: usize = 32 + 64;

layout! {
    /// The file header.
    pub mod file_header [32] {
        MAGIC: [0; 8] "File identity, `OMNILOG1`.",
        VERSION: [8; 4] "Format version, u32: 2.",
        FLAGS: [12; 4] "u32. Bit 0 SEGMENTED, bit 1 CHAINED; a reader ignores the other bits.",
        CREATED_WALL_NS: [16; 8] "When this file was created, u64 nanoseconds since the Unix epoch.",
        SEGMENT_INDEX: [24; 8] "Ordinal within a rotated set, u64; 0 when SEGMENTED is clear.",
    }
}

layout! {
    /// The header of a record; its payload follows.
    pub mod record_header [36] {
        PAYLOAD_LEN: [0; 4] "Length of the payload in bytes, u32.",
        KIND: [4; 1] "Kind of record, u8: see the table of kinds.",
        PADDING: [5; 3] "Written as zero; a reader ignores it, `verify` reports a byte that is not zero.",
        TICK: [8; 8] "Frame counter, u64; never decreases, across segments too.",
        MONO_NS: [16; 8] "Nanoseconds since the journal was created, u64, from a monotonic clock.",
        WALL_NS: [24; 8] "Nanoseconds since the Unix epoch, u64.",
        CRC32: [32; 4] "IEEE CRC-32 of the payload, u32.",
    }
}

layout! {
    /// The head of the index, written when a segment is sealed; its entries follow.
    pub mod index_header [16] {
        MAGIC: [0; 8] "Section identity, `OMNIIDX1`.",
        COUNT: [8; 8] "Number of entries, u64: one for each record ordinal 0, 64, 128, …",
    }
}

layout! {
    /// One entry of the index.
    pub mod index_entry [16] {
        TICK: [0; 8] "Tick of the record, u64.",
        OFFSET: [8; 8] "Absolute offset of the record in the file, u64.",
    }
}

layout! {
    /// The last 24 bytes of a sealed file.
    pub mod trailer [24] {
        MAGIC: [0; 8] "Section identity, `OMNIEND1`.",
        INDEX_OFFSET: [8; 8] "Absolute offset of the index, u64; the records end here.",
        RECORD_COUNT: [16; 8] "Number of records in this file, u64, of every kind.",
    }
}
