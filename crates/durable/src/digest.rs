//! SHA-256, in the two shapes that the formats need: streaming, and one short message after another.

use sha2::Digest as _;
use sha2::block_api::compress256;

/// The 32 bytes of a SHA-256 digest.
pub type Digest = [u8; 32];

/// SHA-256 of `bytes`.
///
/// ```
/// let digest = durable::digest::sha256(b"abc");
/// assert_eq!(durable::digest::hex(&digest)[..16], *"ba7816bf8f01cfea");
/// ```
pub fn sha256(bytes: &[u8]) -> Digest {
    sha2::Sha256::digest(bytes).into()
}

/// SHA-256 over bytes that arrive in pieces.
#[derive(Clone, Debug, Default)]
pub struct Sha256(sha2::Sha256);

impl Sha256 {
    /// Adds the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all pieces.
    pub fn finish(self) -> Digest {
        self.0.finalize().into()
    }
}

const BLOCK_LEN: usize = 64;
/// The bit 1 that ends a message, and its length in bits as a big-endian u64.
const PADDING_LEN_MIN: usize = 1 + 8;
const INITIAL_STATE: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// Digests of many short messages, each laid out whole with its padding and handed to the block
/// function at once. For messages of a few hundred bytes this saves the bookkeeping of the streaming
/// interface, which is a fifth of the time (`cargo dev bench omni` prints both).
#[derive(Clone, Debug)]
pub struct ShortMessages {
    blocks: Vec<[u8; BLOCK_LEN]>,
}

impl ShortMessages {
    /// The longest message that is worth laying out; longer ones take the streaming way.
    pub const LEN_MAX: usize = 64 * 1024;

    /// Room for messages of up to `len` bytes; grows when needed.
    pub fn with_capacity(len: usize) -> Self {
        let count = (len.min(Self::LEN_MAX) + PADDING_LEN_MIN).div_ceil(BLOCK_LEN);
        Self {
            blocks: vec![[0; BLOCK_LEN]; count],
        }
    }

    /// The digest of the message that `parts` make, one behind the other.
    #[inline]
    pub fn digest<const PARTS: usize>(&mut self, parts: [&[u8]; PARTS]) -> Digest {
        let len = parts
            .iter()
            .fold(0usize, |len, part| len.saturating_add(part.len()));
        if len > Self::LEN_MAX {
            let mut streaming = Sha256::default();
            for part in parts {
                streaming.update(part);
            }
            return streaming.finish();
        }
        let count = (len + PADDING_LEN_MIN).div_ceil(BLOCK_LEN);
        if self.blocks.len() < count {
            self.blocks.resize(count, [0; BLOCK_LEN]);
        }
        let (blocks, _) = self.blocks.split_at_mut(count);
        let mut rest = blocks.as_flattened_mut();
        for part in parts {
            let (place, behind) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = behind;
        }
        rest.fill(0);
        if let Some(first) = rest.first_mut() {
            *first = 0x80;
        }
        if let Some(length) = rest.last_chunk_mut::<8>() {
            *length = (len as u64 * 8).to_be_bytes();
        }
        let mut state = INITIAL_STATE;
        compress256(&mut state, blocks);
        state_bytes(&state)
    }
}

fn state_bytes(state: &[u32; 8]) -> Digest {
    let mut digest = [0; 32];
    for (place, word) in digest.chunks_exact_mut(4).zip(state) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

/// Lower-case hexadecimal of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or('?');
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
    }
    text
}

/// The bytes that `text` spells in hexadecimal; `None` when it is not that.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let (pairs, _) = digits.as_chunks::<2>();
    pairs
        .iter()
        .map(|pair| {
            std::str::from_utf8(pair)
                .ok()
                .and_then(|s| u8::from_str_radix(s, 16).ok())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_has_its_published_check_values() {
        let check = |text: &[u8]| hex(&sha256(text));
        assert_eq!(
            check(b""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(
            check(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            check(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        );
    }

    #[test]
    fn short_messages_have_the_digest_of_the_plain_hasher_at_every_length() {
        let mut short = ShortMessages::with_capacity(0);
        let head = [7u8; 90];
        let tail: Vec<u8> = (0..400u32)
            .map(|i| u8::try_from(i % 251).unwrap())
            .collect();
        let long = vec![9; ShortMessages::LEN_MAX + 1];
        for len in (0..tail.len()).chain([0, 1]) {
            let whole = [&head[..], &tail[..len]].concat();
            assert_eq!(
                short.digest([&head, &tail[..len]]),
                sha256(&whole),
                "len={len}"
            );
        }
        let whole = [&head[..], &long[..]].concat();
        assert_eq!(short.digest([&head, &long]), sha256(&whole));
        assert_eq!(ShortMessages::with_capacity(0).digest([]), sha256(b""));
    }

    #[test]
    fn hexadecimal_round_trips_and_refuses_what_it_is_not() {
        assert_eq!(from_hex(&hex(&[0, 15, 255])), Some(vec![0, 15, 255]));
        assert_eq!(
            (from_hex("0"), from_hex("zz"), from_hex("+1")),
            (None, None, None)
        );
    }
}
