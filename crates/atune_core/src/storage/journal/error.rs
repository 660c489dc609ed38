//! What can go wrong with a `.atj` journal, first split by who must act.

use std::io;
use std::path::{Path, PathBuf};

use crate::replica::Refusal;

/// A result of this module.
pub(super) type Result<T> = std::result::Result<T, JournalError>;

/// Why an operation on a journal failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The operating system refused.
    #[error("cannot {op} {}", path.display())]
    Io {
        /// What was tried.
        op: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes contradict the format.
    #[error("corrupt {section} in {} at byte {offset}: {fault}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Which part of it.
        section: Section,
        /// Where the part starts, in bytes from the start of the file.
        offset: u64,
        /// What is wrong.
        fault: Fault,
    },
    /// The file is no study.
    #[error("{} is no .atj study: {why}", path.display())]
    NotAStudy {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        why: &'static str,
    },
    /// The file was written by a newer format. Upgrade to read it.
    #[error("{} has .atj version {found}; this build reads up to version {newest}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this build reads.
        newest: u32,
    },
    /// An operation was published, but the disk would not say that it is durable: it is there now, and may
    /// be gone after a power cut.
    #[error("{} was written, but may not survive a power cut: its folder cannot be synced", path.display())]
    Unsettled {
        /// The file at the study's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The lease was lost again and again: the machine, or this process, stops for longer than the lease.
    #[error("{} could not be written: the lease was lost {times} times in a row", path.display())]
    LeaseLost {
        /// The file.
        path: PathBuf,
        /// How often.
        times: u32,
    },
    /// The handle came from another process, by a fork. Open the study again in this one.
    #[error("{} was opened in process {process}, which this one was forked from; open it again here", path.display())]
    Forked {
        /// The file.
        path: PathBuf,
        /// The process that opened it.
        process: u32,
    },
    /// The head went back, or leads to another history than the one that was read before.
    #[error("{} no longer contains the history that was read from it: {why}", path.display())]
    HistoryChanged {
        /// The file.
        path: PathBuf,
        /// How that shows.
        why: &'static str,
    },
}

impl JournalError {
    pub(super) fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { op, path, source }
    }

    /// The same error again, for the next of several callers that share a commit.
    pub(super) fn again(&self) -> Self {
        let same = |e: &io::Error| match e.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(e.kind(), e.to_string()),
        };
        match self {
            Self::Io { op, path, source } => Self::Io {
                op,
                path: path.clone(),
                source: same(source),
            },
            Self::Unsettled { path, source } => Self::Unsettled {
                path: path.clone(),
                source: same(source),
            },
            Self::Corrupt {
                path,
                section,
                offset,
                fault,
            } => Self::Corrupt {
                path: path.clone(),
                section: *section,
                offset: *offset,
                fault: fault.clone(),
            },
            Self::NotAStudy { path, why } => Self::NotAStudy {
                path: path.clone(),
                why,
            },
            Self::Unsupported {
                path,
                found,
                newest,
            } => Self::Unsupported {
                path: path.clone(),
                found: *found,
                newest: *newest,
            },
            Self::HistoryChanged { path, why } => Self::HistoryChanged {
                path: path.clone(),
                why,
            },
            Self::LeaseLost { path, times } => Self::LeaseLost {
                path: path.clone(),
                times: *times,
            },
            Self::Forked { path, process } => Self::Forked {
                path: path.clone(),
                process: *process,
            },
        }
    }

    pub(super) fn corrupt(path: &Path, section: Section, offset: u64, fault: Fault) -> Self {
        Self::Corrupt {
            path: path.to_owned(),
            section,
            offset,
            fault,
        }
    }
}

/// A part of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Section {
    /// The first line of the file at the study's path.
    Header,
    /// The second line of it.
    Head,
    /// The metadata line of an extent.
    Extent,
    /// The operations of an extent, or of a file of an older format.
    Operations,
}

impl std::fmt::Display for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Header => "header",
            Self::Head => "head",
            Self::Extent => "extent",
            Self::Operations => "operations",
        })
    }
}

/// What is wrong with a [`Section`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A line that is no record of the format.
    #[error("not a record of this format: {0}")]
    BadRecord(String),
    /// An operation whose kind this build does not know.
    #[error(
        "an operation of the unknown kind {kind:?}; if a newer release wrote it, upgrade to read it"
    )]
    UnknownOperation {
        /// The kind, cut off after 64 characters.
        kind: String,
    },
    /// A line that is longer than it may be.
    #[error("a line of more than {max} bytes")]
    LineTooLong {
        /// How long it may be, the newline included.
        max: usize,
    },
    /// A line without an end: what should hold it stops first.
    #[error("a line that breaks off after {len} bytes, without a newline")]
    LineWithoutEnd {
        /// How many bytes of it there are.
        len: usize,
    },
    /// What is to be written is longer than any reader takes.
    #[error("{what} of {len} bytes; readers take at most {max}")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// Its length in bytes.
        len: u64,
        /// The most that readers take.
        max: u64,
    },
    /// Something other than two lines.
    #[error("the file must be two lines: header and head")]
    NotTwoLines,
    /// A name that leads out of the folder of data files.
    #[error("{0:?} is no name of a data file")]
    UnsafeName(String),
    /// An extent that does not lie in its file.
    #[error("the extent ends at byte {end}, the file at byte {file_len}")]
    PastEnd {
        /// Where the extent ends.
        end: u64,
        /// Where the file ends.
        file_len: u64,
    },
    /// A data file that is not there.
    #[error("the data file is missing")]
    MissingFile,
    /// A metadata line that starts with something else.
    #[error("magic {0:?} where \"atune.extent/6\" belongs")]
    BadMagic(String),
    /// The pointer and the metadata line give the extent different lengths.
    #[error("the pointer says {pointer} bytes, the extent has {found}")]
    WrongLength {
        /// From the pointer.
        pointer: u64,
        /// From the extent itself.
        found: u64,
    },
    /// The payload does not have its checksum.
    #[error("checksum mismatch stored={stored} computed={computed}")]
    ChecksumMismatch {
        /// As stored.
        stored: u64,
        /// As computed.
        computed: u64,
    },
    /// Extents that do not follow one another.
    #[error("{what} is {found} where {expected} belongs")]
    NotContiguous {
        /// Which number.
        what: &'static str,
        /// The number that follows from the extents before.
        expected: u64,
        /// The number in the record.
        found: u64,
    },
    /// Back-pointers that lead in a circle, or to later extents.
    #[error("a back-pointer does not lead to an earlier extent")]
    BackwardLoop,
    /// An operation that the state machine refuses.
    #[error("operation {seq} is refused: {refusal}")]
    Refused {
        /// Its sequence number.
        seq: u64,
        /// Why.
        refusal: Refusal,
    },
}
