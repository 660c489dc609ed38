//! Reading the two files beside the journal. Neither is needed to read the journal.

use std::io;
use std::path::Path;

use durable::{Fs, read_all};

use super::leaf::{Leaf, layout};
use crate::journal::{Error, Result};

/// What stands in a file that may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Missing,
    /// Longer than such a file can honestly be; not read.
    TooLong,
    Bytes(Vec<u8>),
}

impl Side {
    pub(super) fn read(fs: &dyn Fs, path: &Path, len_max: u64) -> Result<Self> {
        match read_all(fs, path, len_max) {
            Ok(bytes) => Ok(Self::Bytes(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Self::Missing),
            Err(e) if e.kind() == io::ErrorKind::FileTooLarge => Ok(Self::TooLong),
            Err(e) => Err(Error::io("read", path)(e)),
        }
    }

    pub(super) fn is_missing(&self) -> bool {
        *self == Self::Missing
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Missing | Self::TooLong => &[],
        }
    }

    /// The leaves that the bytes spell, up to the first that is none.
    pub(super) fn leaves(&self) -> Vec<Leaf> {
        let (whole, _) = self.bytes().as_chunks::<{ layout::leaf::LEN }>();
        whole.iter().map_while(Leaf::decode).collect()
    }
}

/// The longest file of leaves that is read beside a journal that gives `derived` leaves: room for
/// as many that it does not give, and for a note that is far ahead of a journal cut short.
pub(super) fn leaves_len_max(derived: usize) -> u64 {
    const SPARE: u64 = 1 << 20;
    (derived as u64)
        .saturating_mul(2)
        .saturating_add(SPARE)
        .saturating_mul(layout::leaf::LEN as u64)
}
