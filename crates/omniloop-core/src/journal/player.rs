//! Reading one file. Strict by default: what cannot be right is an error that names its place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{FileKind, Fs, RealFs, Window, checksum};

use super::codec::{
    FILE_HEADER_LEN, FileHeader, IndexEntry, RECORD_HEADER_LEN, RecordHeader, Trailer, decode_entry,
};
use super::error::{Error, Fault, Result, Section};
use super::frame::{FrameKind, FrameRecord, FrameRef};
use super::layout::{
    FILE_MAGIC, FORMAT_VERSION, INDEX_MAGIC, LEGACY_VERSION, file_header, index_entry,
    index_header, record_header, trailer,
};
use super::legacy;

/// Bytes fetched at a time.
const READ_LEN: usize = 256 * 1024;

/// How a file is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlayerOptions {
    /// Skips records of unknown kind, accepts ticks that go back, and does without an index or
    /// trailer that does not fit. Checksums are always checked.
    pub lenient: bool,
    /// Reads a sealed file through a memory map. Quicker to seek; whoever shortens the file meanwhile
    /// ends this process (see [`durable::Map`]). Unsealed files are never mapped.
    pub mapped: bool,
}

/// Reads the records of one file in order, from any tick.
#[derive(Debug)]
pub struct JournalPlayer {
    path: PathBuf,
    options: PlayerOptions,
    window: Window,
    version: u32,
    header: FileHeader,
    seal: Option<Trailer>,
    index: Option<Arc<[IndexEntry]>>,
    /// Where the records end.
    end: u64,
    position: u64,
    ordinal: u64,
    last_tick: u64,
    current: Option<Current>,
    truncated: bool,
    ended: bool,
}

/// The record that the player stands on: its payload is still in the window.
#[derive(Clone, Copy, Debug)]
struct Current {
    kind: FrameKind,
    tick: u64,
    mono_ns: u64,
    wall_ns: u64,
    offset: u64,
    payload_offset: u64,
    payload_len: usize,
}

impl JournalPlayer {
    /// Opens a file.
    ///
    /// # Errors
    /// `Io`; `NotAJournal`; `Unsupported` for a newer version; `Incomplete` when the file ends inside
    /// its header; `Corrupt` when trailer and index do not fit the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(&RealFs, path, PlayerOptions::default())
    }

    /// Opens a file of a given file system.
    pub fn open_with(fs: &dyn Fs, path: impl AsRef<Path>, options: PlayerOptions) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let mut window = open_window(fs, &path)?;
        let (version, header) = read_identity(&mut window, &path)?;
        let mut player = Self {
            path,
            options,
            end: window.file_len(),
            window,
            version,
            header,
            seal: None,
            index: None,
            position: if version == LEGACY_VERSION {
                0
            } else {
                FILE_HEADER_LEN
            },
            ordinal: 0,
            last_tick: 0,
            current: None,
            truncated: false,
            ended: false,
        };
        player.find_seal()?;
        if options.mapped && player.seal.is_some() {
            let file = fs
                .open(&player.path)
                .map_err(Error::io("open", &player.path))?;
            player.window =
                Window::mapped(file, READ_LEN).map_err(Error::io("map", &player.path))?;
        }
        Ok(player)
    }

    /// The file's format version: 2, or 1 for a legacy file.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Records in this file, of every kind, from its trailer; `None` when it was never sealed.
    pub fn record_count(&self) -> Option<u64> {
        self.seal.map(|seal| seal.record_count)
    }

    /// True when this file is part of a rotated set.
    pub fn is_segmented(&self) -> bool {
        self.header.is_segmented()
    }

    /// This file's ordinal within its set; `None` for a journal without rotation.
    pub fn segment_index(&self) -> Option<u64> {
        self.is_segmented().then_some(self.header.segment_index)
    }

    /// The file header. All zero for a legacy file.
    pub fn header(&self) -> FileHeader {
        self.header
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True when the file was sealed: it has index and trailer.
    pub fn is_finalized(&self) -> bool {
        self.seal.is_some()
    }

    /// True when reading met a record (or an index) that the end of an unsealed file cuts off.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Where the next record starts.
    pub fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn last_tick(&self) -> u64 {
        self.last_tick
    }

    /// Makes a tick below the last one of the segment before an error.
    pub(crate) fn continue_after(&mut self, last_tick: u64) {
        self.last_tick = last_tick;
    }

    /// The next record, chain and signature records included; `None` at the end.
    ///
    /// # Errors
    /// `Corrupt` with the offset of the damage. The player stays where it is: asking again gives the
    /// same answer.
    pub fn read_next_record(&mut self) -> Result<Option<FrameRecord>> {
        Ok(self.next_frame()?.map(FrameRef::to_record))
    }

    /// The next record that describes the run: chain and signature records are skipped.
    pub fn read_next_data_record(&mut self) -> Result<Option<FrameRecord>> {
        Ok(self.next_data_frame()?.map(FrameRef::to_record))
    }

    /// As [`read_next_record`](Self::read_next_record), borrowed until the next call.
    pub fn next_frame(&mut self) -> Result<Option<FrameRef<'_>>> {
        self.advance()?;
        Ok(self.frame())
    }

    /// As [`read_next_data_record`](Self::read_next_data_record), borrowed until the next call.
    pub fn next_data_frame(&mut self) -> Result<Option<FrameRef<'_>>> {
        while self.advance()? {
            if self.at_data() {
                break;
            }
        }
        Ok(self.frame())
    }

    /// The record that the player stands on.
    pub(crate) fn frame(&mut self) -> Option<FrameRef<'_>> {
        let current = self.current?;
        // The window still holds these bytes: `advance` has just checked them.
        let payload = self
            .window
            .bytes(current.payload_offset, current.payload_len)
            .ok()?;
        Some(FrameRef {
            kind: current.kind,
            tick: current.tick,
            mono_ns: current.mono_ns,
            wall_ns: current.wall_ns,
            offset: current.offset,
            payload,
        })
    }

    pub(crate) fn at_data(&self) -> bool {
        self.current.is_some_and(|current| current.kind.is_data())
    }

    /// Steps to the next record and checks it; false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        self.step(true)
    }

    /// Steps to the next record. A seek passes over records without looking at their payloads, which
    /// it hands to nobody; so that it answers the same with an index, which skips them altogether.
    fn step(&mut self, check_payload: bool) -> Result<bool> {
        self.current = None;
        if self.version == LEGACY_VERSION {
            return self.advance_legacy();
        }
        loop {
            let offset = self.position;
            let Some(header) = self.header_at(offset)? else {
                return Ok(false);
            };
            let payload_offset = offset + RECORD_HEADER_LEN;
            let payload_len = usize::try_from(header.payload_len).unwrap_or(usize::MAX);
            if check_payload && !self.payload_is_there(&header, payload_offset, payload_len)? {
                return Ok(false);
            }
            if header.tick < self.last_tick && !self.options.lenient {
                let fault = Fault::TickWentBack {
                    previous: self.last_tick,
                    found: header.tick,
                };
                return Err(self.corrupt_at(Section::RecordHeader, offset, header.tick, fault));
            }
            let kind = FrameKind::from_code(header.kind);
            if kind.is_none() && !self.options.lenient {
                let fault = Fault::UnknownKind(header.kind);
                return Err(self.corrupt_at(Section::RecordHeader, offset, header.tick, fault));
            }
            self.position = offset.saturating_add(header.record_len());
            self.ordinal += 1;
            self.last_tick = self.last_tick.max(header.tick);
            if let Some(kind) = kind {
                self.current = Some(Current {
                    kind,
                    tick: header.tick,
                    mono_ns: header.mono_ns,
                    wall_ns: header.wall_ns,
                    offset,
                    payload_offset,
                    payload_len,
                });
                return Ok(true);
            }
        }
    }

    /// Checks a payload; false when the file was shortened under the reader.
    fn payload_is_there(&mut self, header: &RecordHeader, offset: u64, len: usize) -> Result<bool> {
        let payload = self
            .window
            .bytes(offset, len)
            .map_err(Error::io("read", &self.path))?;
        if payload.len() < len {
            self.truncated = true;
            return Ok(false);
        }
        let computed = checksum::crc32(payload);
        if computed == header.crc32 {
            return Ok(true);
        }
        let fault = Fault::CrcMismatch {
            stored: header.crc32,
            computed,
        };
        Err(self.corrupt_at(Section::Payload, offset, header.tick, fault))
    }

    /// The header at `offset`; `None` where the records end, with [`is_truncated`](Self::is_truncated)
    /// saying whether they end in the middle of one.
    fn header_at(&mut self, offset: u64) -> Result<Option<RecordHeader>> {
        let left = self.end.saturating_sub(offset);
        if left == 0 {
            return Ok(None);
        }
        let bytes = self
            .window
            .bytes(offset, record_header::LEN)
            .map_err(Error::io("read", &self.path))?;
        let sealed = self.seal.is_some();
        if !sealed && bytes.starts_with(&INDEX_MAGIC) {
            self.truncated = true;
            return Ok(None);
        }
        let bytes = bytes.get(..usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len()));
        let bytes = bytes.unwrap_or_default();
        let Ok(header) = RecordHeader::decode(bytes) else {
            if sealed {
                let fault = Fault::PastEnd {
                    len: RECORD_HEADER_LEN,
                    left,
                };
                return Err(self.corrupt_at(Section::RecordHeader, offset, self.last_tick, fault));
            }
            self.truncated = true;
            return Ok(None);
        };
        if header.payload_len == 0 && bytes.iter().all(|&b| b == 0) {
            // A crash can leave zeros where the last writes should be, but not in a sealed file.
            return if !sealed && self.only_zeros_from(offset)? {
                self.truncated = true;
                Ok(None)
            } else {
                Err(self.corrupt_at(
                    Section::RecordHeader,
                    offset,
                    self.last_tick,
                    Fault::ZeroHeader,
                ))
            };
        }
        if header.record_len() > left {
            if sealed {
                let fault = Fault::PastEnd {
                    len: header.record_len(),
                    left,
                };
                return Err(self.corrupt_at(Section::RecordHeader, offset, header.tick, fault));
            }
            self.truncated = true;
            return Ok(None);
        }
        Ok(Some(header))
    }

    fn only_zeros_from(&mut self, mut offset: u64) -> Result<bool> {
        while offset < self.end {
            let bytes = self
                .window
                .bytes(offset, READ_LEN)
                .map_err(Error::io("read", &self.path))?;
            if bytes.is_empty() {
                break;
            }
            if bytes.iter().any(|&b| b != 0) {
                return Ok(false);
            }
            offset += bytes.len() as u64;
        }
        Ok(true)
    }

    fn advance_legacy(&mut self) -> Result<bool> {
        let offset = self.position;
        let len =
            legacy::payload_len(&mut self.window, offset).map_err(Error::io("read", &self.path))?;
        let Some(len) = len else { return Ok(false) };
        self.ordinal += 1;
        self.last_tick = self.ordinal;
        self.position = offset + 4 + u64::from(len);
        self.current = Some(Current {
            kind: FrameKind::Telemetry,
            tick: self.ordinal,
            mono_ns: 0,
            wall_ns: 0,
            offset,
            payload_offset: offset + 4,
            payload_len: usize::try_from(len).unwrap_or(usize::MAX),
        });
        Ok(true)
    }

    /// Places the player so that the next record is the first one with tick ≥ `tick`.
    ///
    /// In a sealed file the index leads close to the place (logarithmic); the records decide. Without
    /// an index the file is scanned from its start.
    ///
    /// # Errors
    /// `Corrupt { section: Index, .. }` when the index is not ascending or its entry does not describe
    /// the record at its offset; with `lenient` the file is scanned instead.
    pub fn seek_to_tick(&mut self, tick: u64) -> Result<()> {
        self.rewind();
        if self.seal.is_some() {
            match self.start_near(tick) {
                Err(error @ Error::Corrupt { .. }) => {
                    if !self.options.lenient {
                        return Err(error);
                    }
                    self.rewind();
                }
                other => other?,
            }
        }
        loop {
            let (position, ordinal, last_tick) = (self.position, self.ordinal, self.last_tick);
            if !self.step(false)? {
                return Ok(());
            }
            if self.current.is_some_and(|current| current.tick >= tick) {
                self.current = None;
                (self.position, self.ordinal, self.last_tick) = (position, ordinal, last_tick);
                return Ok(());
            }
        }
    }

    fn rewind(&mut self) {
        self.position = if self.version == LEGACY_VERSION {
            0
        } else {
            FILE_HEADER_LEN
        };
        self.ordinal = 0;
        self.last_tick = 0;
        self.current = None;
        self.truncated = false;
        self.ended = false;
    }

    /// Goes to the last indexed record whose tick is below `tick`, if there is one.
    fn start_near(&mut self, tick: u64) -> Result<()> {
        let index = self.load_index()?;
        // Strictly below: records with the same tick may stand before the indexed one.
        let below = index.partition_point(|entry| entry.tick < tick);
        let Some(entry) = below.checked_sub(1).and_then(|at| index.get(at)) else {
            return Ok(());
        };
        let number = below as u64 - 1;
        let header = match self.header_at(entry.offset) {
            // The entry led there, so that it is what is wrong.
            Err(Error::Corrupt { .. }) => None,
            other => other?,
        };
        if header.is_none_or(|h| h.tick != entry.tick || FrameKind::from_code(h.kind).is_none()) {
            return Err(self.corrupt_index(Fault::EntryMismatch(number)));
        }
        self.position = entry.offset;
        self.ordinal = number.saturating_mul(super::layout::INDEX_EVERY);
        Ok(())
    }

    /// Reads the index once and checks that it ascends within the records.
    fn load_index(&mut self) -> Result<Arc<[IndexEntry]>> {
        if let Some(index) = &self.index {
            return Ok(Arc::clone(index));
        }
        let count = self
            .seal
            .and_then(|seal| seal.entry_count(self.window.file_len()))
            .and_then(|count| usize::try_from(count).ok())
            .ok_or_else(|| self.corrupt_index(Fault::Geometry("index does not fit the file")))?;
        let mut entries: Vec<IndexEntry> = Vec::new();
        let start = self.end + index_header::LEN as u64;
        for number in 0..count {
            let at = start + (number * index_entry::LEN) as u64;
            let bytes = self
                .window
                .bytes(at, index_entry::LEN)
                .map_err(Error::io("read", &self.path))?;
            let entry = decode_entry(bytes);
            let floor = entries
                .last()
                .map_or((0, FILE_HEADER_LEN), |e| (e.tick, e.offset + 1));
            match entry {
                Some(entry)
                    if entry.tick >= floor.0
                        && entry.offset >= floor.1
                        && entry.offset < self.end =>
                {
                    entries.push(entry);
                }
                _ => {
                    return Err(self.corrupt_index(Fault::Geometry(
                        "entries do not ascend within the records",
                    )));
                }
            }
        }
        let index: Arc<[IndexEntry]> = entries.into();
        self.index = Some(Arc::clone(&index));
        Ok(index)
    }

    /// Looks again at a file that may be growing: reading then goes on where it had stopped.
    pub fn refresh(&mut self) -> Result<()> {
        if self.seal.is_some() || self.version == LEGACY_VERSION {
            return Ok(());
        }
        self.window
            .refresh()
            .map_err(Error::io("read", &self.path))?;
        self.end = self.window.file_len();
        self.truncated = false;
        self.ended = false;
        self.find_seal()
    }

    /// Looks for a trailer and checks that it and the index fit the file.
    fn find_seal(&mut self) -> Result<()> {
        let file_len = self.window.file_len();
        if self.version == LEGACY_VERSION {
            return Ok(());
        }
        let Some(at) = file_len
            .checked_sub(trailer::LEN as u64)
            .filter(|&at| at >= FILE_HEADER_LEN)
        else {
            return Ok(());
        };
        let bytes = self
            .window
            .bytes(at, trailer::LEN)
            .map_err(Error::io("read", &self.path))?;
        let Some(seal) = Trailer::decode(bytes) else {
            return Ok(());
        };
        let fits = seal.entry_count(file_len).is_some() && {
            let bytes = self
                .window
                .bytes(seal.index_offset, index_header::LEN)
                .map_err(Error::io("read", &self.path))?;
            bytes.starts_with(&INDEX_MAGIC)
                && index_header::COUNT.u64(bytes).ok() == seal.entry_count(file_len)
        };
        if fits {
            self.end = seal.index_offset;
            self.seal = Some(seal);
            return Ok(());
        }
        if self.options.lenient || !self.leads_to_index()? {
            return Ok(());
        }
        Err(Error::Corrupt {
            path: self.path.clone(),
            section: Section::Trailer,
            offset: at,
            tick: None,
            fault: Fault::Geometry("index and trailer do not fit the file"),
        })
    }

    /// True when the records, by their lengths, lead to an index: the file was sealed, and a trailer
    /// that does not fit it is damaged. Otherwise those bytes are the end of a payload in an open file.
    fn leads_to_index(&mut self) -> Result<bool> {
        let mut offset = FILE_HEADER_LEN;
        loop {
            let bytes = self
                .window
                .bytes(offset, record_header::LEN)
                .map_err(Error::io("read", &self.path))?;
            if bytes.starts_with(&INDEX_MAGIC) {
                return Ok(true);
            }
            let Ok(header) = RecordHeader::decode(bytes) else {
                return Ok(false);
            };
            offset = offset.saturating_add(header.record_len());
        }
    }

    fn corrupt_at(&self, section: Section, offset: u64, tick: u64, fault: Fault) -> Error {
        Error::Corrupt {
            path: self.path.clone(),
            section,
            offset,
            tick: Some(tick),
            fault,
        }
    }

    fn corrupt_index(&self, fault: Fault) -> Error {
        let path = self.path.clone();
        Error::Corrupt {
            path,
            section: Section::Index,
            offset: self.end,
            tick: None,
            fault,
        }
    }
}

impl Iterator for JournalPlayer {
    type Item = Result<FrameRecord>;

    /// The next record; after an error the stream ends.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read_next_record().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Opens a regular file for positional reads.
pub(super) fn open_window(fs: &dyn Fs, path: &Path) -> Result<Window> {
    let found = fs.metadata(path).map_err(Error::io("open", path))?;
    if found.kind == FileKind::Directory {
        let source = std::io::Error::from(std::io::ErrorKind::IsADirectory);
        return Err(Error::Io {
            op: "read",
            path: path.to_owned(),
            source,
        });
    }
    let file = fs.open(path).map_err(Error::io("open", path))?;
    Window::buffered(file, READ_LEN).map_err(Error::io("read", path))
}

/// Tells what the file is from its own bytes: its version and header.
pub(super) fn read_identity(window: &mut Window, path: &Path) -> Result<(u32, FileHeader)> {
    let read = Error::io("read", path);
    let file_len = window.file_len();
    let bytes = match window.bytes(0, file_header::LEN) {
        Ok(bytes) => bytes.to_vec(),
        Err(e) => return Err(read(e)),
    };
    let magic_len = bytes.len().min(FILE_MAGIC.len());
    let has_magic = bytes.get(..magic_len) == FILE_MAGIC.get(..magic_len);
    if has_magic && file_len < FILE_HEADER_LEN {
        return Err(Error::Incomplete {
            path: path.to_owned(),
            len: file_len,
        });
    }
    if has_magic {
        let found = file_header::VERSION.u32(&bytes).unwrap_or_default();
        if found != FORMAT_VERSION {
            return Err(Error::Unsupported {
                path: path.to_owned(),
                found,
                newest: FORMAT_VERSION,
            });
        }
        let header = FileHeader::decode(&bytes);
        return header
            .map(|header| (FORMAT_VERSION, header))
            .map_err(|_| Error::Incomplete {
                path: path.to_owned(),
                len: file_len,
            });
    }
    if legacy::fits(window).map_err(Error::io("read", path))? {
        let header = FileHeader {
            flags: 0,
            created_wall_ns: 0,
            segment_index: 0,
        };
        return Ok((LEGACY_VERSION, header));
    }
    // A sealed journal whose first bytes were damaged is still recognised by its last ones.
    let at = file_len.saturating_sub(trailer::LEN as u64);
    let bytes = window
        .bytes(at, trailer::LEN)
        .map_err(Error::io("read", path))?;
    if Trailer::decode(bytes).is_some_and(|seal| seal.entry_count(file_len).is_some()) {
        return Err(Error::Corrupt {
            path: path.to_owned(),
            section: Section::FileHeader,
            offset: 0,
            tick: None,
            fault: Fault::BadMagic,
        });
    }
    Err(Error::NotAJournal {
        path: path.to_owned(),
    })
}
