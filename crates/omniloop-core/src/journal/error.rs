//! What can go wrong, first split by who must act.

use std::io;
use std::path::{Path, PathBuf};

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a journal failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused. Free space, fix permissions, try again.
    #[error("cannot {op} {}", path.display())]
    Io {
        /// What was tried.
        op: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes contradict the format. `daybook verify` tells more, `daybook recover` saves the rest.
    #[error("corrupt {section} in {} at byte {offset}{}: {fault}", path.display(), at_tick(*tick))]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Which part of it.
        section: Section,
        /// Where the part starts, in bytes from the start of the file.
        offset: u64,
        /// The tick of the record, or of the last one before the damage.
        tick: Option<u64>,
        /// What is wrong.
        fault: Fault,
    },
    /// The file ends before its header does: nothing was recorded, or only the start was copied.
    #[error("{} ends inside its file header: {len} of 32 bytes are there", path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// How many bytes there are.
        len: u64,
    },
    /// The bytes are not a journal at all.
    #[error("{} is not an .omni journal: no magic at its start, and not the legacy form either", path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a newer format. Upgrade to read it.
    #[error("{} has .omni version {found}; this build reads up to version {newest}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this build reads.
        newest: u32,
    },
    /// A value is larger than the format or this implementation takes.
    #[error("{what} is {value}, the most is {max}")]
    Limit {
        /// What was measured.
        what: &'static str,
        /// How much it is.
        value: u64,
        /// How much it may be.
        max: u64,
    },
    /// The caller asked for something that makes no sense, whatever the data.
    #[error("{what}")]
    Misuse {
        /// What was wrong with the call.
        what: &'static str,
    },
    /// A replayed loop asks for an input that was not recorded: it does not do what the recorded one did.
    #[error("no further input of channel {channel:?} was recorded at tick {tick}: {left}")]
    NoInput {
        /// The channel that was asked for.
        channel: String,
        /// The tick.
        tick: u64,
        /// What is left there of other channels.
        left: String,
    },
    /// A key cannot be used.
    #[error("unusable key: {what}")]
    Key {
        /// Why.
        what: String,
    },
}

/// What a caller can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Something stands in the way outside the journal.
    Io,
    /// The file is damaged.
    Corrupt,
    /// The file stops too early to say anything.
    Incomplete,
    /// Another kind of file, or a newer version.
    Unsupported,
    /// The call was wrong.
    Misuse,
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } => ErrorKind::Io,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::Incomplete { .. } => ErrorKind::Incomplete,
            Self::NotAJournal { .. } | Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Limit { .. } | Self::Misuse { .. } | Self::NoInput { .. } | Self::Key { .. } => {
                ErrorKind::Misuse
            }
        }
    }

    pub(crate) fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { op, path, source }
    }

    /// The same error again, for a writer that answers every later call with its first failure.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Io { op, path, source } => {
                let source = match source.raw_os_error() {
                    Some(code) => io::Error::from_raw_os_error(code),
                    None => io::Error::new(source.kind(), source.to_string()),
                };
                Self::Io {
                    op,
                    path: path.clone(),
                    source,
                }
            }
            other => Self::Io {
                op: "continue",
                path: PathBuf::new(),
                source: io::Error::other(other.to_string()),
            },
        }
    }
}

fn at_tick(tick: Option<u64>) -> String {
    tick.map_or_else(String::new, |tick| format!(", tick {tick}"))
}

/// A part of a journal or of what stands beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Section {
    /// The first 32 bytes.
    FileHeader,
    /// The 36 bytes before a payload.
    RecordHeader,
    /// The bytes of a record after its header.
    Payload,
    /// The seek index of a sealed file.
    Index,
    /// The last 24 bytes of a sealed file.
    Trailer,
    /// A segment's place in its set.
    SegmentSet,
    /// The file of attestation leaves.
    Leaves,
    /// The signed note.
    Note,
}

impl std::fmt::Display for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::FileHeader => "file header",
            Self::RecordHeader => "record header",
            Self::Payload => "payload",
            Self::Index => "index",
            Self::Trailer => "trailer",
            Self::SegmentSet => "segment set",
            Self::Leaves => "attestation leaves",
            Self::Note => "attestation note",
        })
    }
}

/// What is wrong with a [`Section`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The identifying bytes are not there, though the rest says they should be.
    #[error("wrong magic")]
    BadMagic,
    /// The payload's checksum is another than the header says.
    #[error("CRC mismatch stored={stored:08x} computed={computed:08x}")]
    CrcMismatch {
        /// As stored.
        stored: u32,
        /// As computed from the payload.
        computed: u32,
    },
    /// A record of a kind that this build does not know.
    #[error("unknown record kind {0}")]
    UnknownKind(u8),
    /// A record runs past the end of the records.
    #[error("record of {len} bytes where {left} are left")]
    PastEnd {
        /// Header and payload, in bytes.
        len: u64,
        /// Bytes to the end of the records.
        left: u64,
    },
    /// A tick smaller than the one before it.
    #[error("tick went back from {previous} to {found}")]
    TickWentBack {
        /// The tick before.
        previous: u64,
        /// The smaller one.
        found: u64,
    },
    /// Zeros where a record should start: in a sealed file, or with other bytes after them.
    #[error("zeros where a record header should be")]
    ZeroHeader,
    /// Index and trailer do not fit the file.
    #[error("{0}")]
    Geometry(&'static str),
    /// The index entry with this ordinal does not describe the record at its offset.
    #[error("entry {0} does not describe the record at its offset")]
    EntryMismatch(u64),
    /// A segment's header gives it another place than its name.
    #[error("header says segment {found}, name says {expected}")]
    WrongSegment {
        /// From the file's name.
        expected: u64,
        /// From its header.
        found: u64,
    },
    /// A segment without its end, though another follows it: records between them are missing.
    #[error("never sealed, though another segment follows")]
    NotSealed,
    /// A continuation file whose header does not say that it belongs to a set.
    #[error("not marked as part of a rotated set")]
    NotSegmented,
    /// A segment is not there, though a later one is.
    #[error("segment {missing} is missing, though {} is there", later.display())]
    SegmentMissing {
        /// The first ordinal without a file.
        missing: u64,
        /// The first file behind it.
        later: PathBuf,
    },
    /// A text form that cannot be read.
    #[error("{0}")]
    Malformed(String),
}
