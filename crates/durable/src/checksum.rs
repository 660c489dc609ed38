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
    fn fnv1a_64_has_its_published_check_values() {
        assert_eq!(fnv1a_64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a_64(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a_64(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
