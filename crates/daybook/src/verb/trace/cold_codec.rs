//! `--cold-codec`: how the largest segments are compressed.

use clap::{Args, ValueEnum};
use traza::segment::codec::Codec;

/// For the verbs that merge segments.
#[derive(Args, Debug)]
pub(super) struct ColdCodecArgs {
    /// Compresses segments that merges will not make any larger better: they take less room, and daybook reads them without
    /// being told, but other programs may refuse the store.
    #[arg(long, value_enum, value_name = "CODEC")]
    cold_codec: Option<ColdCodec>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ColdCodec {
    /// As all other segments.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl ColdCodecArgs {
    pub(super) fn codec(&self) -> Option<Codec> {
        self.cold_codec.map(|codec| match codec {
            ColdCodec::Lz4 => Codec::Lz4,
            ColdCodec::Zstd => Codec::Zstd,
        })
    }
}
