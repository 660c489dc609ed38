//! A file of JSON lines: read whole at open, appended durably, replaced atomically
//! (`docs/formats/traza-store-logs.md`, the files).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{Access, Fs, FsFile, TEMPORARY_SUFFIX, publish, read_all, sync_parent};

use crate::json::JsonError;
use crate::segment::codec::len_u64;

/// The longest line in bytes, without its newline: 256 MiB.
pub const LINE_LEN_MAX: u64 = 256 << 20;
/// The longest log in bytes: 1 GiB. It is read into memory when it is opened.
pub const FILE_LEN_MAX: u64 = 1 << 30;
/// The unit in bytes in which a disk keeps or loses what was not synced.
const SECTOR_LEN: usize = 512;

/// What the lines of a log mean, as far as reading the file needs to know.
#[derive(Debug)]
pub struct LineFormat<R> {
    /// Reads one line, without its newline.
    pub decode: fn(&[u8]) -> Result<R, LineFault>,
    /// Whether the lines `after` a stretch that no write reached can be of one append with it, given those `before`.
    /// `None` stands for a line that is torn itself. Where every append is one line, there must be none.
    pub one_append: fn(before: &[R], after: &[Option<R>]) -> bool,
}

/// Why a line is not a record of its log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineFault {
    /// It is not one JSON object. Offsets count from the start of the line.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A required member is missing.
    #[error("missing member `{field}`")]
    Missing {
        /// The member.
        field: &'static str,
    },
    /// A member occurs twice, maybe under two of its names.
    #[error("member `{field}` twice")]
    Twice {
        /// The member.
        field: String,
    },
    /// A member has another type than it must have.
    #[error("member `{field}` is not {wanted}")]
    Shape {
        /// The member.
        field: &'static str,
        /// What it has to be.
        wanted: &'static str,
    },
    /// The member that says what kind of record it is names none that is known.
    #[error("member `{field}` names no known kind: {found:?}")]
    Kind {
        /// The member.
        field: &'static str,
        /// What it says.
        found: String,
    },
    /// The record follows a schema that this build does not know.
    #[error("schema {found} is not one of 1 to {newest}")]
    Schema {
        /// What the line says.
        found: u64,
        /// The newest that can be read.
        newest: u64,
    },
}

/// Why a log cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// A line that no crash can have torn is not a record.
    #[error("{}: line {line}, at byte {offset}, is malformed", path.display())]
    Malformed {
        /// The log.
        path: PathBuf,
        /// The line, counted from 1; blank ones count too.
        line: u64,
        /// Where the line begins, in bytes from the start of the file.
        offset: u64,
        /// What is wrong with it.
        source: LineFault,
    },
    /// A line or the file is, or would become, too long.
    #[error("{}: {what} too long: len={len} max={max}", path.display())]
    TooLong {
        /// The log.
        path: PathBuf,
        /// `line` or `file`.
        what: &'static str,
        /// Its length in bytes.
        len: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// The file system failed.
    #[error("{op} {}", path.display())]
    Io {
        /// What was being done.
        op: &'static str,
        /// To which file.
        path: PathBuf,
        /// How it failed.
        source: io::Error,
    },
}

/// What a crash left at the end of a log, and what opening it for writing does about that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Healed {
    /// The last line is a record that lacks its newline: the newline is added.
    Newline {
        /// The line, counted from 1.
        line: u64,
    },
    /// The end is a part of an append that was never acknowledged: it is cut off.
    TornTail {
        /// The first line that is cut off, counted from 1.
        line: u64,
        /// Where it begins, in bytes from the start of the file.
        offset: u64,
        /// How many bytes are cut off.
        len: u64,
    },
}

/// The records of a log, and what its end needs.
#[derive(Debug, PartialEq)]
pub struct Scan<R> {
    /// The records, in the order of the file.
    pub records: Vec<R>,
    /// What a crash left, if anything.
    pub healed: Option<Healed>,
}

/// A log that was opened for writing.
#[derive(Debug)]
pub struct Opened<R> {
    /// The log.
    pub log: LineLog,
    /// Its records, in the order of the file.
    pub records: Vec<R>,
    /// What was healed, if anything.
    pub healed: Option<Healed>,
}

/// Reads the bytes of a log, changing nothing: for verification, and for copies of a log. `path` is for errors only.
///
/// Lines of white space only are skipped. A malformed last line without a newline is a torn tail. So is a line with a sector
/// of zeros, and what follows it, when all of it can be one append ([`LineFormat::one_append`]): JSON text has no
/// zero bytes, but a disk that lost sectors of an append and kept later ones reads as zeros there.
///
/// # Errors
/// [`LogError::Malformed`] for any other line that is no record; [`LogError::TooLong`] beyond the limits.
pub fn scan<R>(path: &Path, bytes: &[u8], format: &LineFormat<R>) -> Result<Scan<R>, LogError> {
    check_len(path, "file", len_u64(bytes.len()), FILE_LEN_MAX)?;
    let mut records = Vec::new();
    let mut healed = None;
    let mut offset = 0;
    for (index, whole) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let line = len_u64(index) + 1;
        let text = whole.strip_suffix(b"\n");
        let terminated = text.is_some();
        let text = text.unwrap_or(whole);
        check_len(path, "line", len_u64(text.len()), LINE_LEN_MAX)?;
        let decoded = if is_blank(text) {
            Ok(None)
        } else {
            (format.decode)(text).map(Some)
        };
        match decoded {
            Ok(record) => {
                records.extend(record);
                if !terminated {
                    healed = Some(Healed::Newline { line });
                }
            }
            Err(source) => {
                let rest = bytes.get(offset..).unwrap_or_default();
                if terminated && !is_unwritten(rest, offset, &records, format) {
                    return Err(LogError::Malformed {
                        path: path.to_owned(),
                        line,
                        offset: len_u64(offset),
                        source,
                    });
                }
                healed = Some(Healed::TornTail {
                    line,
                    offset: len_u64(offset),
                    len: len_u64(rest.len()),
                });
                break;
            }
        }
        offset += whole.len();
    }
    Ok(Scan { records, healed })
}

/// Whether `rest`, which begins with a malformed line at `offset`, is what is left of one append whose beginning was
/// never written.
fn is_unwritten<R>(rest: &[u8], offset: usize, before: &[R], format: &LineFormat<R>) -> bool {
    let mut lines = rest.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let Some(zero) = first.iter().position(|byte| *byte == 0) else {
        return false;
    };
    // A disk keeps or loses whole sectors. Zeros that begin or end elsewhere are no loss of a crash.
    let zeros = rest
        .iter()
        .skip(zero)
        .take_while(|byte| **byte == 0)
        .count();
    let end = zero + zeros;
    let begins = zero == 0 || (offset + zero).is_multiple_of(SECTOR_LEN);
    let ends = end == rest.len() || (offset + end).is_multiple_of(SECTOR_LEN);
    if !begins || !ends {
        return false;
    }
    let mut after = Vec::new();
    for line in lines {
        match line.strip_suffix(b"\n").map(format.decode) {
            Some(Ok(record)) => after.push(Some(record)),
            Some(Err(_)) if !line.contains(&0) => return false,
            Some(Err(_)) | None => after.push(None),
        }
    }
    (format.one_append)(before, &after)
}

fn is_blank(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_whitespace)
}

/// A log that can be appended to. One at a time per file.
#[derive(Debug)]
pub struct LineLog {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    /// Length in bytes of what is acknowledged; all of it is whole lines.
    len: u64,
    /// Whether the name of the file is durable.
    named: bool,
    /// The handle of the last append, if that went well.
    file: Option<Box<dyn FsFile>>,
    damage: Option<Damage>,
}

/// What a change that failed may have left on the disk, to be undone before the next one.
#[derive(Debug)]
enum Damage {
    /// Bytes behind the acknowledged ones, or a name that is not durable.
    Appended,
    /// A new file in the place of the one with these bytes.
    Replaced(Vec<u8>),
}

impl LineLog {
    /// Reads the log at `path` and heals its end. A file that does not exist is an empty log; the first append creates it.
    /// What a rewrite that was interrupted left beside it is removed.
    ///
    /// # Errors
    /// Those of [`scan`], and [`LogError::Io`]. The file is healed then or as it was.
    ///
    /// # Durability
    /// Everything that is handed out is durable, also what a killed process had written and not synced.
    pub fn open<R>(
        fs: Arc<dyn Fs>,
        path: PathBuf,
        format: &LineFormat<R>,
    ) -> Result<Opened<R>, LogError> {
        let mut log = Self {
            fs,
            path,
            len: 0,
            named: false,
            file: None,
            damage: None,
        };
        log.remove(&log.temporary())?;
        if !log.fs.exists(&log.path).map_err(log.io("look for"))? {
            return Ok(Opened {
                log,
                records: Vec::new(),
                healed: None,
            });
        }
        let bytes = log.read()?;
        let Scan { records, healed } = scan(&log.path, &bytes, format)?;
        log.len = len_u64(bytes.len());
        let mut file = log.fs.open_append(&log.path).map_err(log.io("open"))?;
        match healed {
            Some(Healed::Newline { .. }) => {
                file.append(b"\n").map_err(log.io("end the last line of"))?;
                log.len += 1;
            }
            Some(Healed::TornTail { offset, .. }) => {
                file.set_len(offset).map_err(log.io("cut back"))?;
                log.len = offset;
            }
            None => {}
        }
        file.sync().map_err(log.io("sync"))?;
        sync_parent(&*log.fs, &log.path).map_err(log.io("sync the folder of"))?;
        log.named = true;
        log.file = Some(file);
        Ok(Opened {
            log,
            records,
            healed,
        })
    }

    /// Reads the log at `path` and changes nothing; for a store that is not written. What would be healed counts as healed
    /// in the answer, and only there. Nothing may be appended.
    ///
    /// # Errors
    /// Those of [`scan`], and [`LogError::Io`].
    pub fn read_only<R>(
        fs: Arc<dyn Fs>,
        path: PathBuf,
        format: &LineFormat<R>,
    ) -> Result<Opened<R>, LogError> {
        let log = Self {
            fs,
            path,
            len: 0,
            named: false,
            file: None,
            damage: None,
        };
        if !log.fs.exists(&log.path).map_err(log.io("look for"))? {
            return Ok(Opened {
                log,
                records: Vec::new(),
                healed: None,
            });
        }
        let Scan { records, healed } = scan(&log.path, &log.read()?, format)?;
        Ok(Opened {
            log,
            records,
            healed,
        })
    }

    /// Where the log is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes: what a manifest may count on.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True when there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends `lines`, which have no newlines in them, as one write.
    ///
    /// # Errors
    /// [`LogError::TooLong`] beyond the limits, with nothing written. [`LogError::Io`]: none of the lines counts, and what
    /// was written of them is cut off before anything else is written; a crash before that may leave them.
    ///
    /// # Durability
    /// When it returns `Ok`, the lines survive a power loss.
    pub fn append(&mut self, lines: &[String]) -> Result<(), LogError> {
        if lines.is_empty() {
            return Ok(());
        }
        let text = self.joined(lines, self.len)?;
        self.undo()?;
        match self.append_text(text.as_bytes()) {
            Ok(file) => {
                self.file = Some(file);
                self.named = true;
                self.len += len_u64(text.len());
                Ok(())
            }
            Err(e) => {
                self.damage = Some(Damage::Appended);
                Err(e)
            }
        }
    }

    /// Replaces the whole log by `lines`. Answers whether that changed anything; if not, nothing is written.
    ///
    /// # Errors
    /// As [`LineLog::append`]; on an error the old lines count.
    ///
    /// # Durability
    /// When it returns `Ok`, the new file survives a power loss. A crash during it leaves the old lines or the new ones.
    pub fn rewrite(&mut self, lines: &[String]) -> Result<bool, LogError> {
        let text = self.joined(lines, 0)?;
        self.undo()?;
        let old = if self.named { self.read()? } else { Vec::new() };
        if old == text.as_bytes() {
            return Ok(false);
        }
        // The handle stays with the file that is about to be replaced.
        self.file = None;
        match publish(&*self.fs, &self.path, text.as_bytes()) {
            Ok(()) => {
                self.named = true;
                self.len = len_u64(text.len());
                Ok(true)
            }
            Err(source) => {
                // Once renamed, the name may stand for either file after a crash. What failed before that, such as a full
                // disk, needs no second file to be undone.
                if !self.read().is_ok_and(|found| found == old) {
                    self.damage = Some(Damage::Replaced(old));
                }
                Err(self.io("replace")(source))
            }
        }
    }

    /// Brings the file back to what is acknowledged, if a change failed.
    fn undo(&mut self) -> Result<(), LogError> {
        match &self.damage {
            None => return Ok(()),
            // A sync of the folder that failed cannot be made up for by another one: the name is made anew.
            Some(Damage::Appended) if !self.named => self.remove(&self.path)?,
            Some(Damage::Appended) => {
                // A new handle, since a failed sync poisons the old one.
                let mut file = self.fs.open_append(&self.path).map_err(self.io("open"))?;
                file.set_len(self.len).map_err(self.io("cut back"))?;
                file.sync().map_err(self.io("sync"))?;
                self.file = Some(file);
            }
            Some(Damage::Replaced(old)) => {
                publish(&*self.fs, &self.path, old).map_err(self.io("restore"))?;
                self.named = true;
            }
        }
        self.damage = None;
        Ok(())
    }

    fn append_text(&mut self, text: &[u8]) -> Result<Box<dyn FsFile>, LogError> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None if self.named => self.fs.open_append(&self.path).map_err(self.io("open"))?,
            None => self
                .fs
                .create_new(&self.path, Access::Shared)
                .map_err(self.io("create"))?,
        };
        file.append(text).map_err(self.io("append to"))?;
        file.sync().map_err(self.io("sync"))?;
        if !self.named {
            sync_parent(&*self.fs, &self.path).map_err(self.io("sync the folder of"))?;
        }
        Ok(file)
    }

    /// The lines as text, if there is room for them behind `len` bytes.
    fn joined(&self, lines: &[String], len: u64) -> Result<String, LogError> {
        let mut text = String::new();
        for line in lines {
            check_len(&self.path, "line", len_u64(line.len()), LINE_LEN_MAX)?;
            text.push_str(line);
            text.push('\n');
        }
        let len = len.saturating_add(len_u64(text.len()));
        check_len(&self.path, "file", len, FILE_LEN_MAX)?;
        Ok(text)
    }

    fn read(&self) -> Result<Vec<u8>, LogError> {
        let len = self
            .fs
            .metadata(&self.path)
            .map_err(self.io("look at"))?
            .len;
        check_len(&self.path, "file", len, FILE_LEN_MAX)?;
        read_all(&*self.fs, &self.path, FILE_LEN_MAX).map_err(self.io("read"))
    }

    fn remove(&self, path: &Path) -> Result<(), LogError> {
        match self.fs.remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(self.io("remove what is left of")(e))
            }
            _ => Ok(()),
        }
    }

    fn temporary(&self) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(TEMPORARY_SUFFIX);
        PathBuf::from(name)
    }

    fn io(&self, op: &'static str) -> impl FnOnce(io::Error) -> LogError {
        move |source| LogError::Io {
            op,
            path: self.path.clone(),
            source,
        }
    }
}

impl Drop for LineLog {
    /// A failed change is undone while somebody knows of it: whoever opens the file next would read what a failed sync has
    /// lost on the disk, and take it for durable.
    fn drop(&mut self) {
        self.undo().ok();
    }
}

fn check_len(path: &Path, what: &'static str, len: u64, max: u64) -> Result<(), LogError> {
    if len <= max {
        return Ok(());
    }
    Err(LogError::TooLong {
        path: path.to_owned(),
        what,
        len,
        max,
    })
}
