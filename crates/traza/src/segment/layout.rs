//! The fixed structures and the limits of a segment file, as tables.
//! `docs/formats/traza-segment.md` shows them.

use durable::layout;

/// First eight bytes of every segment.
pub const MAGIC: [u8; 8] = *b"TRAZASEG";
/// The one format version that is written and served.
pub const FORMAT_VERSION: u16 = 8;
/// Target of a compression block: whole records are added while the block stays within this many
/// bytes before compression. Only a block of one record may be longer.
pub const BLOCK_LEN_TARGET: u64 = 128 * 1024;
/// One record's encoding stays below this many bytes: bit 31 of a directory entry's stored length
/// is the raw flag.
pub const RECORD_LEN_LIMIT: u64 = 1 << 31;
/// Directory entry: bit 31 of the stored length says that the block is stored as it is.
pub const BLOCK_RAW_FLAG: u32 = 1 << 31;
/// Wrapper flag: the body is LZ4-compressed. Every other bit must be zero.
pub const WRAPPER_FLAG_LZ4: u32 = 1 << 0;
/// Records that share one content filter when this build writes.
pub const CONTENT_BLOCK_RECORDS: u32 = 128;
/// Bytes of the content rows that one entry of the page table covers.
pub const CONTENT_PAGE_LEN: u64 = 4096;
/// Declared minimum timestamp of a segment without records.
pub const EMPTY_MIN_TIMESTAMP: u64 = u64::MAX;
/// Declared maximum timestamp of a segment without records.
pub const EMPTY_MAX_TIMESTAMP: u64 = 0;
/// Longest uncompressed body of an index section, so that places in it fit 32 bits in memory.
pub const BODY_LEN_MAX: u64 = u32::MAX as u64;

layout! {
    /// The segment header.
    pub mod header [132] {
        MAGIC: [0; 8] "File identity, `TRAZASEG`.",
        VERSION: [8; 2] "Format version, u16: 8.",
        HEADER_LEN: [10; 2] "Length of this header, u16: 132.",
        CODEC: [12; 4] "Codec of the record blocks, u32: 0 raw, 1 LZ4 block format, 2 Zstandard.",
        RECORD_COUNT: [16; 8] "Number of records, u64.",
        RECORDS_OFFSET: [24; 8] "Offset of the record blocks in the file, u64: 132.",
        RECORDS_LEN: [32; 8] "Length of the record blocks as stored, u64.",
        OFFSETS_OFFSET: [40; 8] "Offset of the record-offset index, u64.",
        OFFSETS_LEN: [48; 8] "Length of the record-offset index with its wrapper, u64.",
        TRACE_OFFSET: [56; 8] "Offset of the trace index, u64.",
        TRACE_LEN: [64; 8] "Length of the trace index with its wrapper, u64.",
        ATTRIBUTE_OFFSET: [72; 8] "Offset of the attribute index, u64; it ends where the content index begins.",
        MIN_TIMESTAMP: [80; 8] "Smallest timestamp of a record, u64 nanoseconds; 2^64 - 1 without records.",
        MAX_TIMESTAMP: [88; 8] "Largest timestamp of a record, u64 nanoseconds; 0 without records.",
        CONTENT_OFFSET: [96; 8] "Offset of the content index, u64; it ends with the file.",
        DIRECTORY_OFFSET: [104; 8] "Offset of the block directory, u64.",
        DIRECTORY_LEN: [112; 8] "Length of the block directory with its wrapper, u64.",
        LOGICAL_LEN: [120; 8] "Length of all records before compression, u64.",
        CRC32: [128; 4] "CRC-32 of bytes [0..128), u32.",
    }
}

layout! {
    /// The wrapper at the front of each of the five metadata sections.
    pub mod wrapper [16] {
        CRC32: [0; 4] "CRC-32 of everything behind this word to the end of the section, u32.",
        FLAGS: [4; 4] "u32. Bit 0: the body is LZ4-compressed. Other bits are zero; a reader refuses them.",
        BODY_LEN: [8; 8] "Length of the body before compression, u64.",
    }
}

layout! {
    /// One entry of the block directory.
    pub mod directory_entry [32] {
        LOGICAL_START: [0; 8] "Where the block begins in the uncompressed records, u64.",
        STORED_OFFSET: [8; 8] "Where its stored bytes begin, counted from the record blocks' offset, u64.",
        STORED_LEN: [16; 4] "u32. Bit 31: stored as it is. Bits 0 to 30: number of stored bytes.",
        CRC32: [20; 4] "CRC-32 of the stored bytes, u32.",
        MIN_TIMESTAMP: [24; 8] "Timestamp of the block's first record, u64.",
    }
}

layout! {
    /// The fixed front of a record.
    pub mod record_header [24] {
        TIMESTAMP: [0; 8] "Start of the span, u64 nanoseconds.",
        TRACE_ID_LEN: [8; 4] "Length of the trace id in bytes, u32.",
        ATTRIBUTE_COUNT: [12; 4] "Number of attribute pairs, u32.",
        PAYLOAD_LEN: [16; 4] "Length of the payload in bytes, u32.",
        RESERVED: [20; 4] "Written as zero; a reader ignores it.",
    }
}

layout! {
    /// One attribute pair of a record.
    pub mod attribute_pair [20] {
        KEY_ID: [0; 4] "Index into the key dictionary of the attribute index, u32.",
        DIGEST: [4; 16] "Digest of key and value.",
    }
}

layout! {
    /// The front of the content index's body.
    pub mod content_prologue [32] {
        RESERVED: [0; 4] "Written as zero; a reader ignores it.",
        RECORDS_PER_BLOCK: [4; 4] "Records that share a filter, u32: 128.",
        BLOCK_COUNT: [8; 4] "Number of filters, u32; 0 when there is no content index.",
        HASHES: [12; 4] "Positions per token, u32: 4.",
        SUMMARY_BITS: [16; 8] "Bits of the summary filter, u64: a power of two up to 262144.",
        BLOCK_BITS: [24; 8] "Bits of each block filter, u64: a power of two up to 65536.",
    }
}
