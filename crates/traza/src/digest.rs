//! The 128-bit digest of attribute pairs and content tokens (`docs/formats/traza-segment.md`, digest).
//!
//! Two passes of a SipHash-like function with one compression and three finalisation rounds, under two
//! fixed keys. It is no published 128-bit mode, and the keys are public: it spreads values, it proves nothing.

use std::fmt;

/// A digest: the low half, then the high half, each little-endian. Ordered byte by byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// The low and the high half.
    #[inline]
    pub fn halves(self) -> (u64, u64) {
        let whole = u128::from_le_bytes(self.0);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves are wanted")]
        (whole as u64, (whole >> 64) as u64)
    }

    fn of_halves(low: u64, high: u64) -> Self {
        Self((u128::from(low) | (u128::from(high) << 64)).to_le_bytes())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&durable::digest::hex(&self.0))
    }
}

/// The digest of `bytes`.
///
/// ```
/// let digest = traza::digest::hash128(b"mistral-7b");
/// assert_eq!(format!("{digest:?}"), "dee333c334c03b0cd5d494b52793f701");
/// ```
#[inline]
pub fn hash128(bytes: &[u8]) -> Digest {
    let mut state = State::new();
    state.absorb_whole(bytes, 0, 0, bytes.len());
    state.finish()
}

/// The digest of an attribute: of the key's length in bytes as u32, the key, and the index text of the value.
#[inline]
pub fn pair_digest(key: &str, value: &str) -> Digest {
    let mut state = State::new();
    let len = 4 + key.len() + value.len();
    // The length is a u32 on the disk; a record with a longer key has no encoding and is refused before.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "keys are shorter than 4 GiB"
    )]
    let pending = u64::from(key.len() as u32);
    let (pending, pending_len) = state.absorb(key.as_bytes(), pending, 4);
    state.absorb_whole(value.as_bytes(), pending, pending_len, len);
    state.finish()
}

/// Both passes at once: they have no data dependency, so a processor runs them side by side.
struct State {
    low: Lane,
    high: Lane,
}

#[derive(Clone, Copy)]
struct Lane([u64; 4]);

impl Lane {
    const fn new(k0: u64, k1: u64) -> Self {
        Self([
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ])
    }

    #[expect(
        clippy::inline_always,
        reason = "the hash is most of encoding, and measures slower without"
    )]
    #[inline(always)]
    fn round(&mut self) {
        let [mut v0, mut v1, mut v2, mut v3] = self.0;
        v0 = v0.wrapping_add(v1);
        v1 = v1.rotate_left(13) ^ v0;
        v0 = v0.rotate_left(32);
        v2 = v2.wrapping_add(v3);
        v3 = v3.rotate_left(16) ^ v2;
        v0 = v0.wrapping_add(v3);
        v3 = v3.rotate_left(21) ^ v0;
        v2 = v2.wrapping_add(v1);
        v1 = v1.rotate_left(17) ^ v2;
        v2 = v2.rotate_left(32);
        self.0 = [v0, v1, v2, v3];
    }

    #[expect(clippy::inline_always, reason = "as `round`")]
    #[inline(always)]
    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        self.round();
        self.round();
        self.round();
        let [v0, v1, v2, v3] = self.0;
        v0 ^ v1 ^ v2 ^ v3
    }
}

impl State {
    #[inline]
    fn new() -> Self {
        Self {
            low: Lane::new(0x243f_6a88_85a3_08d3, 0x9e37_79b9_7f4a_7c15),
            high: Lane::new(0xb7e1_5162_8aed_2a6b, 0x6a09_e667_f3bc_c908),
        }
    }

    #[expect(clippy::inline_always, reason = "as `Lane::round`")]
    #[inline(always)]
    fn word(&mut self, word: u64) {
        self.low.absorb(word);
        self.high.absorb(word);
    }

    /// Takes in the whole words of what is pending (`pending_len` bytes, 0 to 7, in the low end of
    /// `pending`) and `bytes` behind it. Answers what is left over, in the same form.
    #[inline]
    fn absorb(&mut self, bytes: &[u8], pending: u64, pending_len: usize) -> (u64, usize) {
        let (words, tail) = bytes.as_chunks::<8>();
        let mut pending = pending;
        if pending_len == 0 {
            for word in words {
                self.word(u64::from_le_bytes(*word));
            }
        } else {
            let shift = 8 * pending_len;
            for word in words {
                let word = u64::from_le_bytes(*word);
                self.word(pending | (word << shift));
                pending = word >> (64 - shift);
            }
        }
        let tail_word = little_endian(tail);
        let len = pending_len + tail.len();
        let joined = pending | (tail_word << (8 * pending_len));
        if len < 8 {
            return (joined, len);
        }
        self.word(joined);
        // `len >= 8` and a tail of at most 7 bytes: something was pending, so the shift is below 64.
        (tail_word >> (8 * (8 - pending_len)), len - 8)
    }

    /// Takes in the last bytes of a message of `len` bytes, and its final word.
    #[inline]
    fn absorb_whole(&mut self, bytes: &[u8], pending: u64, pending_len: usize, len: usize) {
        let (rest, _) = self.absorb(bytes, pending, pending_len);
        self.word(rest | ((len as u64 & 0xff) << 56));
    }

    #[inline]
    fn finish(self) -> Digest {
        Digest::of_halves(self.low.finish(), self.high.finish())
    }
}

/// Up to seven bytes as the low end of a little-endian word.
#[inline]
fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |word, byte| (word << 8) | u64::from(*byte))
}
