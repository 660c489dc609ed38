//! The fixed structures of a rollup sidecar, as tables. `docs/formats/traza-store.md` shows them.

use durable::layout;

/// First eight bytes of every sidecar.
pub const MAGIC: [u8; 8] = *b"TRAZAROL";
/// The one format version that is written and read.
pub const FORMAT_VERSION: u16 = 5;
/// The one version of what the sums mean that is written and read.
pub const SCHEMA_VERSION: u32 = 4;
/// Index of the key of a session that no attribute is known of. The others count from 0 in order of precedence.
pub const NO_SESSION_KEY: u32 = u32::MAX;
/// Length of the checksum at the end.
pub const CHECKSUM_LEN: usize = 8;

layout! {
    /// The front of a sidecar, which can be trusted without the rest.
    pub mod prologue [80] {
        MAGIC: [0; 8] "File identity, `TRAZAROL`.",
        VERSION: [8; 2] "Format version, u16: 5.",
        RESERVED: [10; 2] "Zero.",
        SCHEMA_VERSION: [12; 4] "Version of what the sums mean, u32: 4.",
        SEGMENT_LEN: [16; 8] "Length of the segment file, u64.",
        RECORD_COUNT: [24; 8] "Number of the segment's records, u64.",
        MIN_TIMESTAMP: [32; 8] "Smallest timestamp in the segment's header, u64.",
        MAX_TIMESTAMP: [40; 8] "Largest timestamp in the segment's header, u64.",
        PRICING_FINGERPRINT: [48; 8] "Fingerprint of the price list that costs were derived with, u64; 0 without one.",
        MIN_END: [56; 8] "Smallest end of a span, u64 nanoseconds; 2^64 - 1 without spans.",
        MAX_END: [64; 8] "Largest end of a span, u64 nanoseconds; 0 without spans.",
        CHECKSUM: [72; 8] "FNV-1a 64 of bytes [0..72), u64.",
    }
}

layout! {
    /// The counters of one group of spans.
    pub mod counters [96] {
        SPANS: [0; 8] "Spans, u64.",
        LLM_CALLS: [8; 8] "Calls, u64.",
        PROMPT_TOKENS: [16; 8] "Prompt tokens, u64.",
        COMPLETION_TOKENS: [24; 8] "Completion tokens, u64.",
        TOTAL_TOKENS: [32; 8] "Total tokens of each span, u64.",
        COST_USD: [40; 8] "Cost, metered and derived, f64.",
        COST_DERIVED_USD: [48; 8] "Derived cost, f64.",
        COST_METERED_CALLS: [56; 8] "Spans with a metered cost, u64.",
        COST_DERIVED_CALLS: [64; 8] "Spans with a derived cost, u64.",
        COST_UNPRICED_CALLS: [72; 8] "Unpriced calls, u64.",
        ERRORS: [80; 8] "Spans with the status `error`, u64.",
        LLM_DURATION: [88; 8] "Duration of the calls, u64 nanoseconds.",
    }
}
