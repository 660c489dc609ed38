//! The fixed structures of a column file, as tables. `docs/formats/traza-store.md` shows them.

use durable::layout;

/// First eight bytes of every column file.
pub const MAGIC: [u8; 8] = *b"TRAZACOL";
/// The one version that is written and read.
pub const FORMAT_VERSION: u16 = 2;
/// How many columns there are.
pub const COLUMN_COUNT: usize = 16;
/// Length of the checksum at the end.
pub const CHECKSUM_LEN: usize = 4;
/// The longest that one value of a column is stored.
pub const WORD_LEN_MAX: u64 = 8;

layout! {
    /// The front of a column file.
    pub mod prologue [48] {
        MAGIC: [0; 8] "File identity, `TRAZACOL`.",
        VERSION: [8; 2] "Format version, u16: 2.",
        RESERVED: [10; 2] "Zero.",
        HEADER_CRC: [12; 4] "Checksum in the segment's header, u32.",
        SEGMENT_LEN: [16; 8] "Length of the segment file, u64.",
        RECORD_COUNT: [24; 8] "Number of the segment's records, u64.",
        MIN_TIMESTAMP: [32; 8] "Smallest timestamp in the segment's header, u64.",
        MAX_TIMESTAMP: [40; 8] "Largest timestamp in the segment's header, u64.",
    }
}

/// Bits of the last column.
pub mod mark {
    /// The span is a call.
    pub const LLM: u64 = 1;
    /// It has prompt tokens.
    pub const PROMPT: u64 = 2;
    /// It has completion tokens.
    pub const COMPLETION: u64 = 4;
    /// It has a total.
    pub const TOTAL: u64 = 8;
    /// It states its cost.
    pub const COST: u64 = 16;
    /// From here on stands the index of the key that named the session.
    pub const SESSION_KEY_SHIFT: u32 = 5;
    /// The largest such index.
    pub const SESSION_KEY_MAX: usize = 3;
}
