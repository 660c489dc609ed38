//! The geometry of the content filters: sizes, and which bits a token sets.

use crate::digest::{Digest, hash128};

/// Bits that a token sets in each filter; the only value that readers know.
pub const HASHES_PER_TOKEN: usize = 4;
/// A filter sees this many first bytes of a token.
pub const FILTER_KEY_LEN_MAX: usize = 40;
/// Smallest block filter in bytes.
pub const BLOCK_FILTER_LEN_MIN: u64 = 64;
/// Largest block filter in bytes.
pub const BLOCK_FILTER_LEN_MAX: u64 = 8 * 1024;
/// Smallest summary filter in bytes.
pub const SUMMARY_FILTER_LEN_MIN: u64 = 256;
/// Largest summary filter in bytes.
pub const SUMMARY_FILTER_LEN_MAX: u64 = 32 * 1024;

/// What the filters hash of a token: its first [`FILTER_KEY_LEN_MAX`] bytes.
pub fn filter_key(token: &str) -> &[u8] {
    let bytes = token.as_bytes();
    bytes.get(..FILTER_KEY_LEN_MAX).unwrap_or(bytes)
}

/// The bits that a token with this filter key sets in a filter of `bits` bits, a power of two. They may repeat.
#[inline]
pub fn bit_positions(filter_key: &[u8], bits: u64) -> [u64; HASHES_PER_TOKEN] {
    bit_positions_of(hash128(filter_key), bits)
}

/// [`bit_positions`] for a filter key whose digest is known.
#[inline]
pub fn bit_positions_of(digest: Digest, bits: u64) -> [u64; HASHES_PER_TOKEN] {
    let (low, high) = digest.halves();
    let step = high | 1;
    let mask = bits.wrapping_sub(1);
    [0, 1, 2, 3].map(|index: u64| low.wrapping_add(step.wrapping_mul(index)) & mask)
}

/// The size in bits of a filter for `count` distinct filter keys: eight bits for each, as a power of two,
/// between the two limits, which are in bytes.
pub fn filter_bits(count: u64, len_min: u64, len_max: u64) -> u64 {
    let floor = len_min.saturating_mul(8);
    let ceiling = power_of_two(len_max.saturating_mul(8));
    power_of_two(count.saturating_mul(8).max(floor)).clamp(floor, ceiling.max(floor))
}

fn power_of_two(least: u64) -> u64 {
    least.checked_next_power_of_two().unwrap_or(1 << 63)
}
