//! Canonical LEB128: exactly one encoding per value.

use crate::{Cursor, Short};

/// The longest encoding of a u64.
pub const LEN_MAX: usize = 10;

/// Why bytes are not a canonical LEB128 value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VarintFault {
    /// The bytes end inside the value.
    #[error("varint cut off")]
    CutOff,
    /// The value has a shorter encoding.
    #[error("varint longer than its value needs")]
    NotCanonical,
    /// The value does not fit 64 bits.
    #[error("varint above 64 bits")]
    TooLarge,
}

impl From<Short> for VarintFault {
    fn from(_: Short) -> Self {
        Self::CutOff
    }
}

/// Appends the encoding of `value`.
#[expect(clippy::cast_possible_truncation, reason = "masked to seven bits")]
pub fn encode(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes one value from `cursor`.
///
/// # Errors
/// See [`VarintFault`]. The cursor is then somewhere inside the value.
pub fn decode(cursor: &mut Cursor<'_>) -> Result<u64, VarintFault> {
    let mut value = 0u64;
    for index in 0..LEN_MAX {
        let byte = cursor.u8()?;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit only.
        if index == LEN_MAX - 1 && bits > 1 {
            return Err(VarintFault::TooLarge);
        }
        value |= bits << (7 * index);
        if byte & 0x80 == 0 {
            return if byte == 0 && index > 0 {
                Err(VarintFault::NotCanonical)
            } else {
                Ok(value)
            };
        }
    }
    Err(VarintFault::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(bytes: &[u8]) -> Result<u64, VarintFault> {
        let mut cursor = Cursor::new(bytes);
        let value = decode(&mut cursor)?;
        cursor.finish().unwrap();
        Ok(value)
    }

    #[test]
    fn varints_have_the_published_encodings() {
        for (value, bytes) in [
            (0, &[0][..]),
            (1, &[1]),
            (127, &[0x7f]),
            (128, &[0x80, 1]),
            (624_485, &[0xe5, 0x8e, 0x26]),
            (
                u64::MAX,
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            ),
        ] {
            let mut out = Vec::new();
            encode(value, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(decoded(bytes), Ok(value));
        }
    }

    #[test]
    fn overlong_cut_off_and_oversized_varints_are_refused() {
        assert_eq!(decoded(&[0x80, 0]), Err(VarintFault::NotCanonical));
        assert_eq!(decoded(&[0xff, 0x80, 0]), Err(VarintFault::NotCanonical));
        assert_eq!(decoded(&[]), Err(VarintFault::CutOff));
        assert_eq!(decoded(&[0x80]), Err(VarintFault::CutOff));
        assert_eq!(decoded(&[0xff; 10]), Err(VarintFault::TooLarge));
        let mut two_to_the_64 = [0x80; 10];
        two_to_the_64[9] = 2;
        assert_eq!(decoded(&two_to_the_64), Err(VarintFault::TooLarge));
    }

    proptest! {
        #[test]
        fn every_value_round_trips_in_one_encoding(value: u64) {
            let mut out = Vec::new();
            encode(value, &mut out);
            prop_assert_eq!(decoded(&out), Ok(value));
        }

        #[test]
        fn whatever_decodes_is_what_encode_writes(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            let mut cursor = Cursor::new(&bytes);
            if let Ok(value) = decode(&mut cursor) {
                let mut out = Vec::new();
                encode(value, &mut out);
                prop_assert_eq!(&out[..], &bytes[..cursor.position()]);
            }
        }
    }
}
