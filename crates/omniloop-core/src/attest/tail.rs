//! Walking one segment on from where the last look at it ended: a small sequential twin of the
//! journal's own walk, for a file that grows.

use std::path::{Path, PathBuf};

use durable::digest::Digest;
use durable::{Fs, FsFile, checksum};

use super::derive::point_leaf;
use super::error::AttestError;
use super::leaf::{Leaf, LeafKind};
use crate::journal::chain::{ChainHasher, genesis};
use crate::journal::codec::{FILE_HEADER_LEN, IndexEntry, RECORD_HEADER_LEN, encode_seal};
use crate::journal::layout::{
    FILE_MAGIC, FORMAT_VERSION, INDEX_EVERY, INDEX_MAGIC, file_header, record_header,
};
use crate::journal::{ChainPoint, Error, FileHeader, FrameKind, RecordHeader};

/// Bytes read at a time.
const CHUNK_LEN: u64 = 1 << 20;

/// One segment, as far as it was followed.
#[derive(Debug)]
pub(super) struct SegmentTail {
    path: PathBuf,
    file: Box<dyn FsFile>,
    ordinal: u64,
    header: FileHeader,
    hasher: ChainHasher,
    chain: Digest,
    offset: u64,
    record_count: u64,
    /// What the seal must say of the records.
    index: Vec<IndexEntry>,
    opened: bool,
    seal: Option<Leaf>,
}

impl SegmentTail {
    pub(super) fn open(fs: &dyn Fs, path: &Path, ordinal: u64) -> Result<Self, AttestError> {
        let file = fs.open(path).map_err(Error::io("open", path))?;
        let len = file.len().map_err(Error::io("read", path))?;
        if len < FILE_HEADER_LEN {
            let path = path.to_owned();
            return Err(Error::Incomplete { path, len }.into());
        }
        let mut bytes = [0; file_header::LEN];
        file.read_exact_at(0, &mut bytes)
            .map_err(Error::io("read", path))?;
        let identified = file_header::MAGIC.of(&bytes).is_ok_and(|m| m == FILE_MAGIC)
            && file_header::VERSION.u32(&bytes) == Ok(FORMAT_VERSION);
        let header = FileHeader::decode(&bytes).ok().filter(|_| identified);
        let Some(header) = header else {
            let path = path.to_owned();
            return Err(Error::NotAJournal { path }.into());
        };
        let tail = Self {
            path: path.to_owned(),
            file,
            ordinal,
            header,
            hasher: ChainHasher::new(),
            chain: genesis(&bytes),
            offset: FILE_HEADER_LEN,
            record_count: 0,
            index: Vec::new(),
            opened: false,
            seal: None,
        };
        if header.segment_index != ordinal || !header.is_chained() {
            return Err(tail.broken("its header does not fit its place in the run"));
        }
        Ok(tail)
    }

    pub(super) fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The leaf of its seal, once that is whole on disk.
    pub(super) fn seal(&self) -> Option<Leaf> {
        self.seal
    }

    /// Where the bytes that were followed end.
    pub(super) fn file_len(&self) -> u64 {
        self.offset
    }

    /// Makes what was followed durable, through the handle that read it.
    pub(super) fn sync(&mut self) -> Result<(), AttestError> {
        self.file
            .sync_data()
            .map_err(|e| Error::io("sync", &self.path)(e).into())
    }

    /// Follows the file as far as whole records, or a whole seal, are there, and adds their leaves.
    /// `earlier` records stand in the segments before.
    pub(super) fn advance(
        &mut self,
        earlier: u64,
        leaves: &mut Vec<Leaf>,
    ) -> Result<(), AttestError> {
        if !self.opened {
            self.opened = true;
            leaves.push(Leaf {
                kind: LeafKind::SegmentOpen,
                segment: self.ordinal,
                records: earlier,
                offset: FILE_HEADER_LEN,
                value: self.chain,
            });
        }
        // Fixed before anything is read: what comes later belongs to the next call.
        let file_len = self.file.len().map_err(Error::io("read", &self.path))?;
        while self.seal.is_none() {
            let chunk = self.read_chunk(file_len)?;
            if chunk.starts_with(&INDEX_MAGIC) {
                self.take_seal(earlier, file_len, leaves)?;
                return Ok(());
            }
            if self.take_records(&chunk, earlier, leaves)? == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The bytes from where the following stands: a chunk, or the next record when that is longer.
    fn read_chunk(&self, file_len: u64) -> Result<Vec<u8>, AttestError> {
        let left = file_len.saturating_sub(self.offset);
        let mut chunk = self.read(left.min(CHUNK_LEN))?;
        if let Some(header) = next_header(&chunk) {
            let len = header.record_len();
            if len > chunk.len() as u64 && len <= left {
                chunk = self.read(len)?;
            }
        }
        Ok(chunk)
    }

    fn read(&self, len: u64) -> Result<Vec<u8>, AttestError> {
        let what = "record in bytes";
        let max = usize::MAX as u64;
        let len = usize::try_from(len).map_err(|_| Error::Limit {
            what,
            value: len,
            max,
        })?;
        let mut bytes = vec![0; len];
        self.file
            .read_exact_at(self.offset, &mut bytes)
            .map_err(Error::io("read", &self.path))?;
        Ok(bytes)
    }

    /// Takes the whole records of a chunk; answers how many.
    fn take_records(
        &mut self,
        chunk: &[u8],
        earlier: u64,
        leaves: &mut Vec<Leaf>,
    ) -> Result<u64, AttestError> {
        let before = self.record_count;
        let mut rest = chunk;
        while let Some((header_bytes, after)) = rest.split_first_chunk::<{ record_header::LEN }>() {
            let Some(header) = next_header(rest) else {
                break;
            };
            let len = usize::try_from(header.payload_len).unwrap_or(usize::MAX);
            let Some((payload, after)) = after.split_at_checked(len) else {
                break;
            };
            self.take_record(&header, header_bytes, payload, earlier, leaves)?;
            rest = after;
        }
        Ok(self.record_count - before)
    }

    fn take_record(
        &mut self,
        header: &RecordHeader,
        header_bytes: &[u8; record_header::LEN],
        payload: &[u8],
        earlier: u64,
        leaves: &mut Vec<Leaf>,
    ) -> Result<(), AttestError> {
        let Some(kind) = FrameKind::from_code(header.kind) else {
            return Err(self.broken("a record of an unknown kind"));
        };
        if checksum::crc32(payload) != header.crc32 {
            return Err(self.broken("the payload does not have its checksum"));
        }
        let value = self.chain;
        if kind == FrameKind::Chain && payload != value {
            return Err(self.broken("a checkpoint does not carry the chain value before it"));
        }
        if self.record_count.is_multiple_of(INDEX_EVERY) {
            self.index.push(IndexEntry {
                tick: header.tick,
                offset: self.offset,
            });
        }
        let offset = self.offset;
        self.chain = self.hasher.step(&value, header_bytes, payload);
        self.offset += header.record_len();
        self.record_count += 1;
        if kind == FrameKind::Chain {
            let point = ChainPoint {
                record_count: self.record_count,
                offset,
                tick: header.tick,
                value,
                after: self.chain,
            };
            leaves.push(point_leaf(self.ordinal, earlier, &point, self.offset));
        }
        Ok(())
    }

    /// Takes index and trailer, once they are whole.
    fn take_seal(
        &mut self,
        earlier: u64,
        file_len: u64,
        leaves: &mut Vec<Leaf>,
    ) -> Result<(), AttestError> {
        let expected = encode_seal(&self.index, self.offset, self.record_count);
        let left = file_len - self.offset;
        if left < expected.len() as u64 {
            return Ok(());
        }
        if left > expected.len() as u64 || self.read(left)? != expected {
            return Err(self.broken("index or trailer is not the one that the records call for"));
        }
        let seal = Leaf {
            kind: LeafKind::SegmentSeal,
            segment: self.ordinal,
            records: earlier.saturating_add(self.record_count),
            offset: self.offset,
            value: self.chain,
        };
        self.offset = file_len;
        self.seal = Some(seal);
        leaves.push(seal);
        Ok(())
    }

    fn broken(&self, what: &str) -> AttestError {
        AttestError::Broken {
            place: format!("{} byte {}", self.path.display(), self.offset),
            what: what.to_owned(),
        }
    }
}

/// The record header at the front; `None` when there is none yet, or the index stands there.
fn next_header(bytes: &[u8]) -> Option<RecordHeader> {
    let header = bytes.first_chunk::<{ record_header::LEN }>()?;
    let is_record = !header.starts_with(&INDEX_MAGIC) && header.iter().any(|&b| b != 0);
    is_record
        .then(|| RecordHeader::decode(header).ok())
        .flatten()
}

const _: () = assert!(RECORD_HEADER_LEN == record_header::LEN as u64);
