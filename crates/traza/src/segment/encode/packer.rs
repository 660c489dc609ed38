//! Compresses one block after the other in the same memory, with the output of [`Codec::compress`].

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use zstd::bulk::Compressor;

use crate::segment::codec::{Codec, ZSTD_LEVEL};

/// The encoder hashes shorter inputs in another way, and gives other bytes when it is handed the table for long ones.
const SHORT_LEN_MAX: usize = 65_534;

/// Tables and buffers of the compressors. Made when first needed.
#[derive(Default)]
pub(super) struct Packer {
    short: Option<CompressTable>,
    long: Option<CompressTable>,
    zstd: Option<Compressor<'static>>,
    out: Vec<u8>,
}

impl Packer {
    /// The compressed block; `None` when that is not strictly shorter.
    pub(super) fn pack(&mut self, codec: Codec, plain: &[u8]) -> Option<&[u8]> {
        let len = match codec {
            Codec::Raw => return None,
            Codec::Lz4 => {
                let table = if plain.len() <= SHORT_LEN_MAX {
                    self.short.get_or_insert_with(CompressTable::small)
                } else {
                    self.long.get_or_insert_with(CompressTable::large)
                };
                grow(&mut self.out, get_maximum_output_size(plain.len()));
                compress_into_with_table(plain, &mut self.out, table).ok()?
            }
            Codec::Zstd => {
                if self.zstd.is_none() {
                    self.zstd = Compressor::new(ZSTD_LEVEL).ok();
                }
                grow(&mut self.out, zstd::zstd_safe::compress_bound(plain.len()));
                // It fails only when it finds no memory; the block is then stored as it is.
                self.zstd
                    .as_mut()?
                    .compress_to_buffer(plain, &mut self.out)
                    .ok()?
            }
        };
        self.out
            .get(..len)
            .filter(|packed| packed.len() < plain.len())
    }
}

fn grow(out: &mut Vec<u8>, len: usize) {
    if out.len() < len {
        out.resize(len, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text of few words, in which later parts refer to earlier ones.
    fn text(len: usize, seed: u64) -> Vec<u8> {
        let words = [
            "refund ",
            "order ",
            "the ",
            "\"service\":",
            "42",
            "checkout ",
        ];
        let mut state = seed;
        let mut text = Vec::new();
        while text.len() < len {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.extend(words[usize::try_from(state >> 33).unwrap() % words.len()].bytes());
        }
        text.truncate(len);
        text
    }

    #[test]
    fn memory_of_earlier_blocks_does_not_change_later_ones() {
        let lens = [
            0, 1, 12, 13, 500, 65_534, 65_535, 65_536, 131_072, 200, 131_072, 65_534, 300_000, 7,
        ];
        for codec in [Codec::Raw, Codec::Lz4, Codec::Zstd] {
            let mut packer = Packer::default();
            for (seed, len) in (0..).zip(lens) {
                let plain = text(len, seed);
                let packed = packer.pack(codec, &plain).map(<[u8]>::to_vec);
                assert_eq!(packed, codec.compress(&plain), "{codec:?} {len}");
            }
        }
    }
}
