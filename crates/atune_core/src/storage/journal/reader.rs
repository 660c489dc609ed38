//! Reading a study: the present state, and what was added since.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::checksum::fnv1a_64;
use durable::{FileKind, Fs, FsFile, RealFs, read_all};

use super::codec::{decode_head_file, decode_header, first_line};
use super::error::{Fault, JournalError, Result, Section};
use super::history::{DataFiles, Place, walk_back};
use super::old::read_lines;
use super::publish::Draft;
use super::record::{ExtentPointer, FORMAT_VERSION, Head, Header, METADATA_LEN_MAX, OpLine};
use super::replay::read_extents;
use crate::portable::Portable;
use crate::replica::Replica;

/// The most bytes of the file at a study's path: a header line and a head line.
pub(super) const HEAD_FILE_LEN_MAX: usize = 2 * METADATA_LEN_MAX;

/// Shown every operation before it is applied: the state that it meets, and where it stands in its file.
type Show<'a> = dyn FnMut(&Replica, &OpLine, u64) + 'a;

/// A study being read. It can be [refreshed](Self::refresh) while others write to it.
#[derive(Debug)]
pub struct JournalReader {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    header: Header,
    head: Head,
    files: DataFiles,
    places: Vec<Place>,
    replica: Replica,
    torn_tail: u64,
    /// Whether the last refresh failed: what it read may have been put right since.
    has_failed: bool,
}

impl JournalReader {
    /// Opens the study at `path` and reads it whole, in one pass.
    ///
    /// # Errors
    /// `Io`; `NotAStudy`; `Unsupported` for a newer version; `Corrupt` naming file and offset when the
    /// published history does not hold.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(Arc::new(RealFs), path)
    }

    /// As [`open`](Self::open), on a given file system.
    pub fn open_on(fs: Arc<dyn Fs>, path: impl AsRef<Path>) -> Result<Self> {
        Self::open_watched(fs, path, &mut |_, _| {})
    }

    /// As [`open`](Self::open), showing every operation, and where it stands in its file, before it is
    /// applied.
    pub fn open_watched(
        fs: Arc<dyn Fs>,
        path: impl AsRef<Path>,
        watch: &mut dyn FnMut(&OpLine, u64),
    ) -> Result<Self> {
        let opened = open_file(fs.as_ref(), path.as_ref())?;
        let mut reader = Self::unread(fs, path.as_ref().to_owned(), opened.header.clone());
        if reader.header.format == FORMAT_VERSION {
            reader.catch_up(&mut |_, op, offset| watch(op, offset))?;
        } else {
            reader.read_old(opened, watch)?;
        }
        Ok(reader)
    }

    /// A reader that has not read any operation yet.
    fn unread(fs: Arc<dyn Fs>, path: PathBuf, header: Header) -> Self {
        Self {
            files: DataFiles::new(data_folder(&path)),
            head: Head {
                tip: None,
                ops: 0,
                bytes: 0,
            },
            header,
            places: Vec::new(),
            replica: Replica::new(),
            torn_tail: 0,
            has_failed: false,
            path,
            fs,
        }
    }

    /// Reads what was published since. Answers how many operations that was. A study of an older format may
    /// be migrated meanwhile: its reader goes on in the new files.
    ///
    /// # Errors
    /// `HistoryChanged` when the head went back or the history is another one; otherwise as
    /// [`open`](Self::open). After an error the state is that before the first operation that could not
    /// be applied.
    pub fn refresh(&mut self) -> Result<u64> {
        self.refresh_watched(&mut |_, _| {})
    }

    /// As [`refresh`](Self::refresh), showing every new operation, and where it stands in its file, before
    /// it is applied. After an error, operations that were shown may be shown again.
    ///
    /// # Errors
    /// As [`refresh`](Self::refresh).
    pub fn refresh_watched(&mut self, watch: &mut dyn FnMut(&OpLine, u64)) -> Result<u64> {
        let before = self.replica.seq();
        if self.header.format == FORMAT_VERSION {
            if std::mem::replace(&mut self.has_failed, true) {
                self.files.reopen(self.fs.as_ref());
                self.forget_half_extent()?;
            }
            self.catch_up(&mut |_, op, offset| watch(op, offset))?;
            self.has_failed = false;
        } else {
            self.refresh_old(watch)?;
        }
        Ok(self.replica.seq().saturating_sub(before))
    }

    /// A refused operation leaves those before it in its extent applied. What stands there when they are
    /// read again may be something else, so the state is built anew from the extents before.
    fn forget_half_extent(&mut self) -> Result<()> {
        let whole = self.places.last().map_or(0, |place| place.last);
        if self.replica.seq() == whole {
            return Ok(());
        }
        let mut replica = Replica::new();
        let take = &mut |op: OpLine, _| apply(&mut replica, &op);
        read_extents(&mut self.files, &self.places, take, &mut || {})?;
        self.replica = replica;
        Ok(())
    }

    fn catch_up(&mut self, show: &mut Show<'_>) -> Result<()> {
        let path = self.path.clone();
        let (header, head, start) = read_head_file(self.fs.as_ref(), &path)?;
        if header != self.header {
            return Err(self.changed("its header is another one"));
        }
        if head == self.head {
            return Ok(());
        }
        if head.ops < self.head.ops || head.bytes < self.head.bytes {
            return Err(self.changed("its head went back"));
        }
        let corrupt_head = |what, expected, found| {
            let fault = Fault::NotContiguous {
                what,
                expected,
                found,
            };
            JournalError::corrupt(&path, Section::Head, start, fault)
        };
        let Some(tip) = &head.tip else {
            if head.ops == 0 && head.bytes == start {
                self.head = head;
                return Ok(());
            }
            if head.ops == 0 {
                return Err(corrupt_head("number of bytes", start, head.bytes));
            }
            return Err(corrupt_head(
                "number of operations without a tip",
                0,
                head.ops,
            ));
        };
        let totals = (head.ops, head.bytes);
        let known = self.places.last();
        let mut new = walk_back(self.fs.as_ref(), &mut self.files, &path, tip, known, totals)?;
        if let Some(first) = new
            .first()
            .filter(|first| first.first == 1 && first.start != start)
        {
            let (what, expected, found) = ("start in the virtual stream", start, first.start);
            let fault = Fault::NotContiguous {
                what,
                expected,
                found,
            };
            let file = self.files.path(first.file);
            return Err(JournalError::corrupt(
                file,
                Section::Extent,
                first.offset,
                fault,
            ));
        }
        let replica = &mut self.replica;
        let take = &mut |op: OpLine, offset| {
            show(replica, &op, offset);
            apply(replica, &op)
        };
        let mut whole = 0;
        let read = read_extents(&mut self.files, &new, take, &mut || whole += 1);
        new.truncate(whole);
        if self.places.is_empty() {
            self.places = new;
        } else {
            self.places.append(&mut new);
        }
        read?;
        self.head = head;
        Ok(())
    }

    /// Versions 1 to 5 are one file of lines. A last line without an end is a torn append.
    fn read_old(&mut self, opened: OpenFile, watch: &mut dyn FnMut(&OpLine, u64)) -> Result<()> {
        let Self {
            path,
            replica,
            head,
            ..
        } = self;
        head.bytes = head.bytes.max(opened.header_len);
        let from = head.bytes;
        self.torn_tail = read_lines(path, opened.file, from, &mut |op, offset, end| {
            watch(op, offset);
            apply(replica, op)?;
            (head.ops, head.bytes) = (replica.seq(), end);
            Ok(())
        })?;
        Ok(())
    }

    /// Reads what an older writer appended since, or goes on in the files that a migration made.
    fn refresh_old(&mut self, watch: &mut dyn FnMut(&OpLine, u64)) -> Result<()> {
        let opened = open_file(self.fs.as_ref(), &self.path)?;
        if opened.header.format == FORMAT_VERSION {
            return self.follow_migration(opened.header, watch);
        }
        if opened.header != self.header {
            return Err(self.changed("its header is another one"));
        }
        let len = opened.file.len();
        if len.map_err(JournalError::io("read", &self.path))? < self.head.bytes {
            return Err(self.changed("it became shorter"));
        }
        self.read_old(opened, watch)
    }

    /// Reads the migrated study from its beginning, and compares it with what was read before.
    fn follow_migration(
        &mut self,
        header: Header,
        watch: &mut dyn FnMut(&OpLine, u64),
    ) -> Result<()> {
        let created = |header: &Header| (header.created_at_millis, header.created_by);
        if created(&header) != created(&self.header) {
            return Err(self.changed("its header is another one"));
        }
        let known = &self.replica;
        let mut is_same = None;
        let mut fresh = Self::unread(Arc::clone(&self.fs), self.path.clone(), header);
        fresh.catch_up(&mut |replica, op, offset| {
            if op.seq > known.seq() && *is_same.get_or_insert_with(|| replica == known) {
                watch(op, offset);
            }
        })?;
        if !is_same.unwrap_or_else(|| fresh.replica == *known) {
            return Err(self.changed("it was migrated from another history"));
        }
        *self = fresh;
        Ok(())
    }

    fn changed(&self, why: &'static str) -> JournalError {
        JournalError::HistoryChanged {
            path: self.path.clone(),
            why,
        }
    }

    /// Whether an extent is part of the history.
    pub(super) fn holds(&self, pointer: &ExtentPointer) -> bool {
        let number = self.files.names().find(|(name, _)| *name == pointer.file);
        number.is_some_and(|(_, number)| {
            let is_it = |place: &Place| place.file == number && place.offset == pointer.offset;
            self.places.iter().any(is_it)
        })
    }

    /// The state, for a writer that applies what it is about to publish.
    pub(super) fn replica_mut(&mut self) -> &mut Replica {
        &mut self.replica
    }

    /// Takes note of an extent that this handle published, and whose operations it has applied.
    pub(super) fn note_published(
        &mut self,
        head: &Head,
        metadata_len: usize,
        draft: &Draft,
    ) -> Result<()> {
        let Some(tip) = &head.tip else {
            return Ok(());
        };
        let file = self.files.number(self.fs.as_ref(), tip)?;
        self.places.push(Place {
            file,
            offset: tip.offset,
            len: tip.len,
            metadata_len: u32::try_from(metadata_len).unwrap_or(u32::MAX),
            first: draft.first,
            last: draft.last,
            start: self.head.bytes,
            checksum: fnv1a_64(&draft.payload),
        });
        self.head = head.clone();
        Ok(())
    }

    /// The state that the history leads to.
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// The header of the file.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The head as it was read last. For a format without one, its totals.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The file at the study's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many extents were published.
    pub fn extent_count(&self) -> usize {
        self.places.len()
    }

    /// Bytes of a torn last line in a file of an older format.
    pub fn torn_tail(&self) -> u64 {
        self.torn_tail
    }

    /// Every data file of the study's folder: how much of it is published, and how much is not.
    ///
    /// # Errors
    /// `Io` when the folder cannot be listed.
    pub fn data_files(&self) -> Result<Vec<DataFileUse>> {
        let folder = data_folder(&self.path);
        let found = match self.fs.metadata(&folder) {
            Ok(found) => found,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => {
                return Err(JournalError::Io {
                    op: "look at",
                    path: folder,
                    source,
                });
            }
        };
        if found.kind != FileKind::Directory {
            let source = std::io::Error::from(std::io::ErrorKind::NotADirectory);
            return Err(JournalError::Io {
                op: "list",
                path: folder,
                source,
            });
        }
        let mut uses = Vec::new();
        for path in self
            .fs
            .read_dir(&folder)
            .map_err(JournalError::io("list", &folder))?
        {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            if !name.starts_with("data-") {
                continue;
            }
            let len = self
                .fs
                .metadata(&path)
                .map_err(JournalError::io("look at", &path))?
                .len;
            let number = self
                .files
                .names()
                .find(|(n, _)| *n == name)
                .map(|(_, number)| number);
            let mine = self
                .places
                .iter()
                .filter(|place| Some(place.file) == number);
            let (extents, published) =
                mine.fold((0, 0), |(count, sum), place| (count + 1, sum + place.len));
            let unpublished = len.saturating_sub(published);
            uses.push(DataFileUse {
                path: path.clone(),
                len,
                extents,
                published,
                unpublished,
            });
        }
        Ok(uses)
    }
}

/// One data file and what of it counts.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DataFileUse {
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub len: u64,
    /// Published extents in it.
    pub extents: u64,
    /// Their bytes.
    pub published: u64,
    /// Bytes that no head has published: an append that was not committed, or not yet.
    pub unpublished: u64,
}

fn apply(replica: &mut Replica, op: &OpLine) -> std::result::Result<(), Fault> {
    replica.apply_line(op).map_err(|refusal| Fault::Refused {
        seq: op.seq,
        refusal,
    })
}

/// The folder of a study's data files.
pub fn data_folder(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".d");
    PathBuf::from(name)
}

/// The file at a study's path, opened once: whatever is put in its place meanwhile, header and lines are
/// of one file.
struct OpenFile {
    file: Box<dyn FsFile>,
    header: Header,
    header_len: u64,
}

/// Reads and judges the header line of the study at `path`, of any version that can be read.
///
/// # Errors
/// `Io`; `NotAStudy`; `Unsupported` for a newer version; `Corrupt` for a line that is no header.
pub fn read_header(fs: &dyn Fs, path: &Path) -> Result<Header> {
    open_file(fs, path).map(|opened| opened.header)
}

fn open_file(fs: &dyn Fs, path: &Path) -> Result<OpenFile> {
    let found = fs.metadata(path).map_err(JournalError::io("open", path))?;
    if found.kind == FileKind::Directory {
        let source = std::io::Error::from(std::io::ErrorKind::IsADirectory);
        return Err(JournalError::Io {
            op: "read",
            path: path.to_owned(),
            source,
        });
    }
    let file = fs.open(path).map_err(JournalError::io("open", path))?;
    let len = file.len().map_err(JournalError::io("read", path))?;
    let mut bytes = vec![0; METADATA_LEN_MAX.min(usize::try_from(len).unwrap_or(usize::MAX))];
    file.read_exact_at(0, &mut bytes)
        .map_err(JournalError::io("read", path))?;
    if !bytes.starts_with(br#"{"record":"header""#) {
        let why = "it does not start with a header line";
        return Err(JournalError::NotAStudy {
            path: path.to_owned(),
            why,
        });
    }
    let corrupt = |fault| JournalError::corrupt(path, Section::Header, 0, fault);
    let line = first_line(&bytes, METADATA_LEN_MAX).map_err(corrupt)?;
    // The version first: a newer header may have members that this build does not know.
    let version = serde_json::from_slice::<Portable>(line)
        .map_err(|e| corrupt(Fault::BadRecord(e.to_string())))?
        .0
        .get("format")
        .and_then(serde_json::Value::as_u64)
        .ok_or_else(|| corrupt(Fault::BadRecord("no format version".to_owned())))?;
    let version = u32::try_from(version).unwrap_or(u32::MAX);
    if version > FORMAT_VERSION {
        let (path, newest) = (path.to_owned(), FORMAT_VERSION);
        return Err(JournalError::Unsupported {
            path,
            found: version,
            newest,
        });
    }
    if version == 0 {
        return Err(corrupt(Fault::BadRecord("format version 0".to_owned())));
    }
    Ok(OpenFile {
        header: decode_header(line).map_err(corrupt)?,
        header_len: line.len() as u64 + 1,
        file,
    })
}

/// Header and head, and how long the header line is.
fn read_head_file(fs: &dyn Fs, path: &Path) -> Result<(Header, Head, u64)> {
    let bytes = match read_all(fs, path, HEAD_FILE_LEN_MAX as u64) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::FileTooLarge => {
            return Err(JournalError::corrupt(
                path,
                Section::Head,
                0,
                Fault::NotTwoLines,
            ));
        }
        Err(source) => {
            return Err(JournalError::Io {
                op: "read",
                path: path.to_owned(),
                source,
            });
        }
    };
    let header_len = bytes
        .iter()
        .position(|&b| b == b'\n')
        .map_or(0, |at| at as u64 + 1);
    decode_head_file(&bytes)
        .map(|(header, head)| (header, head, header_len))
        .map_err(|fault| JournalError::corrupt(path, Section::Head, header_len, fault))
}
