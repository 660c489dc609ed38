//! Content search: which words a span holds (`docs/formats/traza-segment.md`, content index).
//!
//! Search is by whole word. The filters of a segment only propose records; [`Query::matches`] decides.

mod filter;
mod query;
mod tokens;

pub use filter::{
    BLOCK_FILTER_LEN_MAX, BLOCK_FILTER_LEN_MIN, FILTER_KEY_LEN_MAX, HASHES_PER_TOKEN,
    SUMMARY_FILTER_LEN_MAX, SUMMARY_FILTER_LEN_MIN, bit_positions, bit_positions_of, filter_bits,
    filter_key,
};
pub use query::Query;
pub use tokens::{Tokens, tokens};
