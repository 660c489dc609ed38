//! Finds the tokens of a text many bytes at a time: the encoder's own [`crate::content::tokens`].

use crate::content::FILTER_KEY_LEN_MAX;

/// Tokens up to this length have a [short key](Token::short_key).
pub(super) const SHORT_LEN_MAX: usize = 16;

/// A run of ASCII letters and digits.
#[derive(Clone, Copy)]
pub(super) struct Token<'a> {
    /// The text from where the token begins.
    text: &'a [u8],
    len: usize,
}

impl Token<'_> {
    /// The filter key of a token of up to [`SHORT_LEN_MAX`] bytes as a little-endian number. No byte of a key is
    /// zero, so the number tells the length too, and is not zero.
    #[inline]
    pub(super) fn short_key(self) -> Option<u128> {
        // Upper and lower case differ in bit 5, which digits have anyway and letters, those with bit 6, need.
        const LETTER_BITS: u128 = u128::from_le_bytes([0x40; SHORT_LEN_MAX]);
        let mask = LOW_BYTES.get(self.len)?;
        let number = match self.text.first_chunk() {
            Some(bytes) => u128::from_le_bytes(*bytes),
            None => self
                .text
                .iter()
                .rev()
                .fold(0, |number, byte| (number << 8) | u128::from(*byte)),
        };
        Some((number | ((number & LETTER_BITS) >> 1)) & mask)
    }

    /// The filter key as bytes.
    pub(super) fn long_key(self, folded: &mut [u8; FILTER_KEY_LEN_MAX]) -> &[u8] {
        let len = self.len.min(FILTER_KEY_LEN_MAX);
        for (place, byte) in folded.iter_mut().zip(self.text).take(len) {
            *place = byte.to_ascii_lowercase();
        }
        folded.get(..len).unwrap_or_default()
    }
}

/// For each length the mask of as many low bytes.
#[expect(clippy::indexing_slicing, reason = "computed when this is compiled")]
static LOW_BYTES: [u128; SHORT_LEN_MAX + 1] = {
    let mut masks = [0; SHORT_LEN_MAX + 1];
    let mut len = 1;
    while len < masks.len() {
        masks[len] = (masks[len - 1] << 8) | 0xff;
        len += 1;
    }
    masks
};

/// Calls `visit` with each token of `text`.
#[inline]
pub(super) fn each_token<'a>(text: &'a [u8], mut visit: impl FnMut(Token<'a>)) {
    let (chunks, tail) = text.as_chunks::<64>();
    let mut last = [0; 64];
    for (place, byte) in last.iter_mut().zip(tail) {
        *place = *byte;
    }
    let mut token = |start: usize, end: usize| {
        visit(Token {
            text: text.get(start..).unwrap_or_default(),
            len: end - start,
        });
    };
    let mut start = 0;
    let mut is_inside = 0;
    for (index, chunk) in chunks.iter().chain([&last]).enumerate() {
        let mask = alphanumeric(chunk);
        let before = (mask << 1) | is_inside;
        let mut starts = mask & !before;
        let mut ends = before & !mask;
        let base = 64 * index;
        if is_inside == 1 && ends != 0 {
            token(start, base + ends.trailing_zeros() as usize);
            ends &= ends - 1;
        }
        while starts != 0 {
            start = base + starts.trailing_zeros() as usize;
            starts &= starts - 1;
            if ends != 0 {
                token(start, base + ends.trailing_zeros() as usize);
                ends &= ends - 1;
            }
        }
        is_inside = mask >> 63;
    }
    // The last chunk ends with padding, unless it is full: then it is no tail.
    debug_assert_eq!(is_inside, 0);
}

/// A bit for each ASCII letter or digit.
#[inline]
fn alphanumeric(chunk: &[u8; 64]) -> u64 {
    let (words, _) = chunk.as_chunks::<8>();
    let mut mask = 0;
    for (index, word) in words.iter().enumerate() {
        mask |= alphanumeric_of_8(u64::from_le_bytes(*word)) << (8 * index);
    }
    mask
}

/// [`alphanumeric`] of eight bytes, all at once: adding 80₁₆ - x to seven bits sets the eighth when they are x or more.
#[inline]
fn alphanumeric_of_8(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH_BITS: u64 = ONES << 7;
    const fn reaches(byte: u8) -> u64 {
        ONES * (0x80 - byte as u64)
    }
    let low = word & !HIGH_BITS;
    let digits = (low + reaches(b'0')) & !(low + reaches(b'9' + 1));
    let folded = low | (ONES * 0x20);
    let letters = (folded + reaches(b'a')) & !(folded + reaches(b'z' + 1));
    let found = (digits | letters) & !word & HIGH_BITS;
    // Moves bit 8 i + 7 to bit i.
    (found >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{filter_key, tokens};
    use proptest::prelude::*;

    fn keys(text: &str) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        each_token(text.as_bytes(), |token| {
            let key = token.long_key(&mut [0; FILTER_KEY_LEN_MAX]).to_vec();
            match token.short_key() {
                Some(number) => assert_eq!(number.to_le_bytes()[..token.len], key),
                None => assert!(token.len > SHORT_LEN_MAX),
            }
            keys.push(key);
        });
        keys
    }

    fn plain_keys(text: &str) -> Vec<Vec<u8>> {
        tokens(text)
            .map(|token| filter_key(&token).to_vec())
            .collect()
    }

    #[test]
    fn every_character_is_classified_as_by_the_plain_tokenizer() {
        for code in 0..=0x2ff {
            let c = char::from_u32(code).unwrap();
            for text in [
                format!("{c}"),
                format!("ab{c}CD"),
                format!("{}{c}", "x".repeat(63)),
                format!("{c}{c}9{c}"),
            ] {
                assert_eq!(keys(&text), plain_keys(&text), "{text:?}");
            }
        }
    }

    #[test]
    fn tokens_at_the_bounds_of_chunks_are_found() {
        for start in 0..140 {
            for len in [1, 2, 15, 16, 17, 39, 40, 41, 63, 64, 65, 128] {
                let text = format!("{}{}", "-".repeat(start), "Ab3".repeat(50).split_at(len).0);
                assert_eq!(keys(&text), plain_keys(&text));
                assert_eq!(keys(&format!("{text}-x")), plain_keys(&format!("{text}-x")));
            }
        }
    }

    proptest! {
        #[test]
        fn the_quick_tokenizer_agrees_with_the_plain_one(
            text in prop_oneof!["[a-zA-Z0-9 \\-é世]{0,200}", "[a-z]{0,70}", "([a-zA-Z0-9]{1,50} ){0,5}"],
        ) {
            prop_assert_eq!(keys(&text), plain_keys(&text));
        }
    }
}
