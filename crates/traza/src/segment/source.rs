//! Where the bytes of an open segment come from.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use durable::FsFile;

use super::codec::len_u64;
use super::error::{Fault, Result, Section, SegmentError};

/// The bytes of a segment: all in memory, or in a file from which ranges are read.
#[derive(Debug)]
pub(crate) enum Source {
    /// In memory.
    Bytes(Box<[u8]>),
    /// In a file.
    File {
        /// The open file.
        file: Box<dyn FsFile>,
        /// What errors call it.
        path: PathBuf,
        /// Its length when it was opened.
        len: u64,
    },
}

impl Source {
    /// Length of the whole segment.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => len_u64(bytes.len()),
            Self::File { len, .. } => *len,
        }
    }

    /// The bytes of `range`, which belongs to `section`. `buffer` is where those of a file go.
    ///
    /// # Errors
    /// [`SegmentError::Corrupt`] when the file ends before the range does, also when it was cut while
    /// it was open; nothing is allocated for more bytes than the file has.
    pub(crate) fn read<'a>(
        &'a self,
        section: Section,
        range: Range<u64>,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8]> {
        let wanted = range.end.saturating_sub(range.start);
        let cut_off =
            |left| SegmentError::corrupt(section, range.start, Fault::CutOff { wanted, left });
        let left = self.len().saturating_sub(range.start);
        if wanted > left {
            return Err(cut_off(left));
        }
        match self {
            Self::Bytes(bytes) => {
                let place = |at| usize::try_from(at).map_err(|_| cut_off(left));
                let range = place(range.start)?..place(range.end)?;
                bytes.get(range).ok_or_else(|| cut_off(left))
            }
            Self::File { file, path, .. } => {
                buffer.resize(usize::try_from(wanted).map_err(|_| cut_off(left))?, 0);
                match file.read_exact_at(range.start, buffer) {
                    Ok(()) => Ok(buffer),
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        let left = file.len().unwrap_or(0).saturating_sub(range.start);
                        Err(cut_off(left))
                    }
                    Err(source) => Err(SegmentError::Io {
                        op: "read",
                        path: path.clone(),
                        source,
                    }),
                }
            }
        }
    }

    /// As [`read`](Self::read), always into `buffer`.
    pub(crate) fn read_into(
        &self,
        section: Section,
        range: Range<u64>,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        if let Self::Bytes(_) = self {
            let mut unused = Vec::new();
            let bytes = self.read(section, range, &mut unused)?;
            buffer.clear();
            buffer.extend_from_slice(bytes);
            return Ok(());
        }
        self.read(section, range, buffer).map(drop)
    }
}
