//! Checksums detect accidents. They are no defence against a person: see [`crate::digest`].

use std::hash::Hasher as _;

/// CRC-32 (IEEE 802.3, the one of zip and PNG) of `bytes`.
///
/// ```
/// assert_eq!(durable::checksum::crc32(b"123456789"), 0xcbf4_3926);
/// ```
#[inline]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// CRC-32 over bytes that arrive in pieces.
#[derive(Clone, Debug, Default)]
pub struct Crc32(crc32fast::Hasher);

impl Crc32 {
    /// Adds the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all pieces so far.
    pub fn value(&self) -> u32 {
        self.0.clone().finalize()
    }
}

/// FNV-1a, 64 bit, of `bytes`.
///
/// ```
/// assert_eq!(durable::checksum::fnv1a_64(b"foobar"), 0x8594_4171_f739_67e8);
/// ```
pub fn fnv1a_64(bytes: &[u8]) -> u64 {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

/// FNV-1a, 64 bit, of each of four. Every step of it waits for the step before: those of four that do not
/// depend on each other take hardly longer than those of one.
///
/// ```
/// use durable::checksum::{fnv1a_64, fnv1a_64_of_four};
/// let four: [&[u8]; 4] = [b"a", b"", b"foobar", b"b"];
/// assert_eq!(fnv1a_64_of_four(four), four.map(fnv1a_64));
/// ```
pub fn fnv1a_64_of_four(pieces: [&[u8]; 4]) -> [u64; 4] {
    const PRIME: u64 = 0x0100_0000_01b3;
    let mut states = [fnv1a_64(b""); 4];
    let [first, second, third, fourth] = pieces;
    let together = first.iter().zip(second).zip(third).zip(fourth);
    let common = together.len();
    for (((first, second), third), fourth) in together {
        for (state, byte) in states.iter_mut().zip([first, second, third, fourth]) {
            *state = (*state ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }
    let mut rests = pieces.iter().map(|piece| piece.get(common..));
    states.map(|state| {
        let mut hasher = fnv::FnvHasher::with_key(state);
        hasher.write(rests.next().flatten().unwrap_or_default());
        hasher.finish()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_has_its_published_check_values() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"a"), 0xe8b7_be43);
        assert_eq!(crc32(&[0; 32]), 0x190a_55ad);
        assert_eq!(crc32(&[0xff; 32]), 0xff6c_ab0b);
    }

    #[test]
    fn crc32_of_pieces_is_the_crc32_of_the_whole() {
        let bytes: Vec<u8> = (0..=255).collect();
        for cut in 0..bytes.len() {
            let mut pieces = Crc32::default();
            pieces.update(&bytes[..cut]);
            pieces.update(&bytes[cut..]);
            assert_eq!(pieces.value(), crc32(&bytes), "cut={cut}");
        }
    }

    #[test]
    fn fnv1a_64_of_four_is_that_of_each_whatever_their_lengths() {
        let bytes: Vec<u8> = (0..=255).collect();
        for lens in [
            [0, 0, 0, 0],
            [256, 255, 254, 1],
            [0, 3, 3, 3],
            [7, 7, 7, 7],
            [1, 2, 200, 3],
        ] {
            let four = lens.map(|len| &bytes[256 - len..]);
            assert_eq!(fnv1a_64_of_four(four), four.map(fnv1a_64), "{lens:?}");
        }
    }

    #[test]
    fn fnv1a_64_has_its_published_check_values() {
        assert_eq!(fnv1a_64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a_64(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a_64(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
