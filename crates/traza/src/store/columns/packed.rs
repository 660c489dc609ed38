//! Numbers as their smallest one and what each is above it, in as few bytes as the largest difference needs.
#![warn(clippy::arithmetic_side_effects, clippy::as_conversions)]

use durable::Cursor;

use super::ColumnsError;

/// A column of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    min: u64,
    above: Words,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Words {
    /// All numbers are the smallest one.
    None,
    U8(Box<[u8]>),
    U16(Box<[u16]>),
    U32(Box<[u32]>),
    U64(Box<[u64]>),
}

impl Packed {
    pub(super) fn of(values: &[u64]) -> Self {
        let min = values.iter().copied().min().unwrap_or(0);
        let max = values.iter().copied().max().unwrap_or(0);
        let above = || values.iter().map(|value| value.saturating_sub(min));
        let width = max.saturating_sub(min);
        let above = if width == 0 {
            Words::None
        } else if u8::try_from(width).is_ok() {
            Words::U8(
                above()
                    .map(|v| u8::try_from(v).unwrap_or(u8::MAX))
                    .collect(),
            )
        } else if u16::try_from(width).is_ok() {
            Words::U16(
                above()
                    .map(|v| u16::try_from(v).unwrap_or(u16::MAX))
                    .collect(),
            )
        } else if u32::try_from(width).is_ok() {
            Words::U32(
                above()
                    .map(|v| u32::try_from(v).unwrap_or(u32::MAX))
                    .collect(),
            )
        } else {
            Words::U64(above().collect())
        };
        Self { min, above }
    }

    /// The number at `index`. Past the end, or past 2^64 in a forged file, it is any number.
    #[inline]
    pub(super) fn get(&self, index: usize) -> u64 {
        let above = match &self.above {
            Words::None => 0,
            Words::U8(words) => words.get(index).copied().map_or(0, u64::from),
            Words::U16(words) => words.get(index).copied().map_or(0, u64::from),
            Words::U32(words) => words.get(index).copied().map_or(0, u64::from),
            Words::U64(words) => words.get(index).copied().unwrap_or(0),
        };
        self.min.wrapping_add(above)
    }

    pub(super) fn resident_len(&self) -> usize {
        match &self.above {
            Words::None => 0,
            Words::U8(words) => size_of_val(words.as_ref()),
            Words::U16(words) => size_of_val(words.as_ref()),
            Words::U32(words) => size_of_val(words.as_ref()),
            Words::U64(words) => size_of_val(words.as_ref()),
        }
    }

    /// Appends the smallest number, the length of a word, and the words.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.min.to_le_bytes());
        match &self.above {
            Words::None => out.push(0),
            Words::U8(words) => {
                out.push(1);
                out.extend_from_slice(words);
            }
            Words::U16(words) => {
                out.push(2);
                words
                    .iter()
                    .for_each(|w| out.extend_from_slice(&w.to_le_bytes()));
            }
            Words::U32(words) => {
                out.push(4);
                words
                    .iter()
                    .for_each(|w| out.extend_from_slice(&w.to_le_bytes()));
            }
            Words::U64(words) => {
                out.push(8);
                words
                    .iter()
                    .for_each(|w| out.extend_from_slice(&w.to_le_bytes()));
            }
        }
    }

    /// A column of `count` numbers. Takes memory only for bytes that are there.
    pub(super) fn take(cursor: &mut Cursor<'_>, count: usize) -> Result<Self, ColumnsError> {
        let min = cursor.u64()?;
        let width = cursor.u8()?;
        let len = count.saturating_mul(usize::from(width));
        let above = match width {
            0 => Words::None,
            1 => Words::U8(cursor.bytes(len)?.into()),
            2 => Words::U16(words(cursor.bytes(len)?, u16::from_le_bytes)),
            4 => Words::U32(words(cursor.bytes(len)?, u32::from_le_bytes)),
            8 => Words::U64(words(cursor.bytes(len)?, u64::from_le_bytes)),
            found => return Err(ColumnsError::Width { found }),
        };
        Ok(Self { min, above })
    }
}

fn words<T, const N: usize>(bytes: &[u8], word: impl Fn([u8; N]) -> T) -> Box<[T]> {
    let (words, _) = bytes.as_chunks();
    words.iter().copied().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_spread_come_back_in_as_few_bytes_as_they_need() {
        for (values, width) in [
            (vec![], 0),
            (vec![7; 9], 0),
            (vec![7, 262, 7], 1),
            (vec![7, 263], 2),
            (vec![u64::MAX - 65_535, u64::MAX], 2),
            (vec![1, 65_537], 4),
            (vec![0, 1 << 32], 8),
            (vec![u64::MAX, 0], 8),
        ] {
            let packed = Packed::of(&values);
            let mut bytes = Vec::new();
            packed.put(&mut bytes);
            assert_eq!(bytes.len(), 9 + width * values.len());
            let mut cursor = Cursor::new(&bytes);
            let again = Packed::take(&mut cursor, values.len()).unwrap();
            assert_eq!(again, packed);
            let found: Vec<u64> = (0..values.len()).map(|index| again.get(index)).collect();
            assert_eq!(found, values);
        }
    }
}
