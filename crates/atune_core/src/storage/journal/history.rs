//! Following the published history of a journal: from the head back through the extents, then forward
//! through their operations.
//!
//! Nothing is believed before it was compared: a pointer with the file that it names, a metadata line
//! with its pointer, a payload with its checksum, numbers with those of the extents before.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use durable::{Fs, FsFile};

use super::codec::decode_extent;
use super::error::{Fault, JournalError, Result, Section};
use super::record::{ExtentHeader, ExtentPointer, METADATA_LEN_MAX};

/// The most bytes of a data file that are fetched at a time.
const READ_LEN_MAX: usize = 256 * 1024;
/// Bytes that are fetched first: one extent more is little, a whole study is much.
const READ_LEN_MIN: usize = 4 * 1024;
/// The longest payload that a reader accepts. Writers stay far below.
pub(super) const PAYLOAD_LEN_READ_MAX: u64 = 256 << 20;

/// A published extent: where it stands and what it must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Its data file, by its place in the list of files.
    pub(super) file: u32,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) metadata_len: u32,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) start: u64,
    pub(super) checksum: u64,
}

impl Place {
    /// Where its payload begins, and how long that is.
    pub(super) fn payload(&self) -> (u64, usize) {
        let metadata_len = u64::from(self.metadata_len);
        let len = usize::try_from(self.len - metadata_len).unwrap_or(usize::MAX);
        (self.offset + metadata_len, len)
    }
}

/// Data files that were opened, with the bytes fetched last from each.
#[derive(Debug)]
pub(super) struct DataFiles {
    folder: PathBuf,
    by_name: HashMap<String, u32>,
    files: Vec<DataFile>,
}

#[derive(Debug)]
struct DataFile {
    path: PathBuf,
    file: Box<dyn FsFile>,
    len: u64,
    window_start: u64,
    window: Vec<u8>,
    /// Bytes to fetch next: more each time while one fetch continues another.
    read_len: usize,
}

impl DataFiles {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            by_name: HashMap::new(),
            files: Vec::new(),
        }
    }

    /// Names and paths of the files that were opened.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, u32)> {
        self.by_name
            .iter()
            .map(|(name, number)| (name.as_str(), *number))
    }

    /// By their numbers.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    pub(super) fn path(&self, number: u32) -> &Path {
        self.files
            .get(number as usize)
            .map_or(&self.folder, |file| &file.path)
    }

    pub(super) fn len(&self, number: u32) -> u64 {
        self.files.get(number as usize).map_or(0, |file| file.len)
    }

    /// Asks a file how long it is: a writer may have appended since it was opened.
    fn len_now(&mut self, number: u32) -> Result<u64> {
        let Some(file) = self.files.get_mut(number as usize) else {
            return Ok(0);
        };
        file.len = file
            .file
            .len()
            .map_err(JournalError::io("read", &file.path))?;
        Ok(file.len)
    }

    /// The file that a pointer names; it is opened the first time.
    pub(super) fn number(&mut self, fs: &dyn Fs, pointer: &ExtentPointer) -> Result<u32> {
        if let Some(number) = self.by_name.get(&pointer.file) {
            return Ok(*number);
        }
        let path = self.folder.join(&pointer.file);
        let file = match fs.open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let fault = Fault::MissingFile;
                return Err(JournalError::corrupt(
                    &path,
                    Section::Extent,
                    pointer.offset,
                    fault,
                ));
            }
            Err(source) => {
                return Err(JournalError::Io {
                    op: "open",
                    path,
                    source,
                });
            }
        };
        let len = file.len().map_err(JournalError::io("read", &path))?;
        let number = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        self.files.push(DataFile {
            path,
            file,
            len,
            window_start: 0,
            window: Vec::new(),
            read_len: READ_LEN_MIN,
        });
        self.by_name.insert(pointer.file.clone(), number);
        Ok(number)
    }

    /// Forgets bytes and opens the files again: what was found damaged may have been put right since.
    pub(super) fn reopen(&mut self, fs: &dyn Fs) {
        for file in &mut self.files {
            file.window.clear();
            if let Ok(fresh) = fs.open(&file.path) {
                (file.file, file.len) = (fresh, 0);
            }
        }
    }

    /// `len` bytes at `offset`. `backwards` says that earlier bytes will be wanted next.
    pub(super) fn bytes(
        &mut self,
        number: u32,
        offset: u64,
        len: usize,
        backwards: bool,
    ) -> Result<&[u8]> {
        const NONE: &[u8] = &[];
        let Some(file) = self.files.get_mut(number as usize) else {
            return Ok(NONE);
        };
        file.bytes(offset, len, backwards)
    }
}

impl DataFile {
    fn bytes(&mut self, offset: u64, len: usize, backwards: bool) -> Result<&[u8]> {
        let end = offset.saturating_add(len as u64);
        if end > self.len {
            // A writer appended since the file was opened, or the extent is not there.
            self.len = self
                .file
                .len()
                .map_err(JournalError::io("read", &self.path))?;
        }
        if end > self.len {
            let fault = Fault::PastEnd {
                end,
                file_len: self.len,
            };
            return Err(JournalError::corrupt(
                &self.path,
                Section::Extent,
                offset,
                fault,
            ));
        }
        let window_end = self.window_start.saturating_add(self.window.len() as u64);
        if offset < self.window_start || end > window_end {
            let continues = if backwards {
                offset < self.window_start && end >= self.window_start
            } else {
                offset <= window_end && end > window_end
            };
            self.read_len = if continues {
                (self.read_len * 2).min(READ_LEN_MAX)
            } else {
                READ_LEN_MIN
            };
            let want = len.max(self.read_len) as u64;
            let start = if backwards {
                end.saturating_sub(want)
            } else {
                offset
            };
            let stop = start.saturating_add(want).min(self.len).max(end);
            self.window
                .resize(usize::try_from(stop - start).unwrap_or(usize::MAX), 0);
            if let Err(source) = self.file.read_exact_at(start, &mut self.window) {
                self.window.clear();
                return Err(JournalError::Io {
                    op: "read",
                    path: self.path.clone(),
                    source,
                });
            }
            self.window_start = start;
        }
        let at = usize::try_from(offset - self.window_start).unwrap_or(usize::MAX);
        Ok(self
            .window
            .get(at..at.saturating_add(len))
            .unwrap_or_default())
    }
}

/// Walks back from `tip` to the extent that was read last (`None`: to the beginning). Answers the new
/// extents, the oldest first.
pub(super) fn walk_back(
    fs: &dyn Fs,
    files: &mut DataFiles,
    study: &Path,
    tip: &ExtentPointer,
    known: Option<&Place>,
    totals: (u64, u64),
) -> Result<Vec<Place>> {
    let mut places: Vec<Place> = Vec::new();
    let known_last = known.map_or(0, |place| place.last);
    let (mut next_first, mut next_start) = (totals.0.saturating_add(1), totals.1);
    let mut pointer = Some(tip.clone());
    while let Some(at) = pointer.take() {
        let number = files.number(fs, &at)?;
        let (place, header) = place(files, number, &at)?;
        let path = files.path(number);
        let corrupt = |fault| JournalError::corrupt(path, Section::Extent, at.offset, fault);
        // Each step goes to strictly smaller numbers: a circle cannot pass this.
        if place.last >= next_first {
            return Err(corrupt(Fault::BackwardLoop));
        }
        if place.last + 1 != next_first {
            let (expected, found) = (next_first - 1, place.last);
            let what = "last sequence number";
            return Err(corrupt(Fault::NotContiguous {
                what,
                expected,
                found,
            }));
        }
        let end = place.start.saturating_add(header.payload_len);
        if end != next_start {
            let (expected, found) = (next_start, end);
            let what = "end in the virtual stream";
            return Err(corrupt(Fault::NotContiguous {
                what,
                expected,
                found,
            }));
        }
        if known == Some(&place) {
            break;
        }
        if place.last <= known_last {
            let why = "the extent that was read last is not among its extents any more";
            return Err(JournalError::HistoryChanged {
                path: study.to_owned(),
                why,
            });
        }
        (next_first, next_start) = (place.first, place.start);
        places.push(place);
        pointer = header.previous;
        if pointer.is_none() && (next_first != 1 || known_last != 0) {
            let (what, expected, found) = ("first sequence number", 1, next_first);
            return Err(corrupt(Fault::NotContiguous {
                what,
                expected,
                found,
            }));
        }
    }
    places.reverse();
    Ok(places)
}

fn place(files: &mut DataFiles, number: u32, at: &ExtentPointer) -> Result<(Place, ExtentHeader)> {
    let corrupt = |files: &DataFiles, fault| {
        JournalError::corrupt(files.path(number), Section::Extent, at.offset, fault)
    };
    let end = at.offset.saturating_add(at.len);
    if end > files.len(number) {
        let file_len = files.len_now(number)?;
        if end > file_len {
            return Err(corrupt(files, Fault::PastEnd { end, file_len }));
        }
    }
    // A short extent is fetched whole: its operations are wanted next.
    let len = usize::try_from(at.len)
        .unwrap_or(usize::MAX)
        .min(READ_LEN_MIN.max(METADATA_LEN_MAX));
    let decoded = decode_extent(files.bytes(number, at.offset, len, true)?);
    let (header, metadata_len) = decoded.map_err(|fault| corrupt(files, fault))?;
    let found = header.payload_len.saturating_add(metadata_len as u64);
    if found != at.len {
        let pointer = at.len;
        return Err(corrupt(files, Fault::WrongLength { pointer, found }));
    }
    if header.payload_len > PAYLOAD_LEN_READ_MAX {
        let fault = Fault::TooLong {
            what: "an extent's payload",
            len: header.payload_len,
            max: PAYLOAD_LEN_READ_MAX,
        };
        return Err(corrupt(files, fault));
    }
    let place = Place {
        file: number,
        offset: at.offset,
        len: at.len,
        metadata_len: u32::try_from(metadata_len).unwrap_or(u32::MAX),
        first: header.first,
        last: header.last,
        start: header.start,
        checksum: header.checksum,
    };
    Ok((place, header))
}
