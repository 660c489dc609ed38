//! Why the store refuses or fails.

use std::io;
use std::path::{Path, PathBuf};

use crate::logs::annotation::AppendError;
use crate::logs::eval::EvalError;
use crate::logs::file::LogError;
use crate::logs::tombstone::EraseError;
use crate::payload::BlobError;
use crate::segment::SegmentError;
use crate::span::SpanFault;

/// What a store answers with.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why a call was refused or failed. What was acknowledged before is not touched by it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process, or another `Store` of this one, writes this store.
    #[error("the store {} is open already{}", path.display(), owner_text(*owner))]
    Busy {
        /// The store.
        path: PathBuf,
        /// The process in its lock file, if one is named there.
        owner: Option<u32>,
    },
    /// There is no store.
    #[error("no trace store at {}", path.display())]
    NoStore {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file system failed.
    #[error("cannot {op} {}", path.display())]
    Io {
        /// What was tried.
        op: &'static str,
        /// On what.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file of the store is not as it was written.
    #[error("{}{}: {what}", path.display(), place_text(*offset))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it, in bytes from its start.
        offset: Option<u64>,
        /// What is wrong.
        what: String,
    },
    /// A segment of the store is damaged or cannot be read.
    #[error("{}", path.display())]
    Segment {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: SegmentError,
    },
    /// A payload blob of the store is damaged.
    #[error("{}", path.display())]
    Blob {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: BlobError,
    },
    /// A span of a batch cannot be stored; so nothing of the batch was.
    #[error("span {index} of the batch")]
    Span {
        /// Its position in the batch, from 0.
        index: usize,
        /// What is wrong.
        source: SpanFault,
    },
    /// Something is larger than the store takes.
    #[error("{what} of {len} bytes, at most {max} are possible")]
    TooLarge {
        /// What.
        what: &'static str,
        /// Its length in bytes.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// The question took longer than it was allowed to.
    #[error("the query did not end within {limit_ms} ms; narrow it by time, service or attribute")]
    Deadline {
        /// What it was allowed, in milliseconds.
        limit_ms: u64,
    },
    /// More spans match than can be sorted.
    #[error("more than {max} spans match, too many to sort; narrow the query")]
    TooManyToSort {
        /// The limit.
        max: usize,
    },
    /// The store is open for reading only.
    #[error("the store {} is open for reading only", path.display())]
    ReadOnly {
        /// The store.
        path: PathBuf,
    },
    /// A parameter makes no sense.
    #[error("{what}")]
    Invalid {
        /// Why.
        what: String,
    },
    /// These files are of no format that this build reads or converts. They are as they were.
    #[error("{} cannot be read or converted: {}", count_text(files.len()), list_text(files))]
    Unreadable {
        /// All of them.
        files: Vec<UnreadableFile>,
    },
    /// An annotation was not recorded.
    #[error(transparent)]
    Annotation(#[from] AppendError),
    /// A change of datasets or experiments was refused, or failed.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// An erasure was not recorded.
    #[error(transparent)]
    Erase(#[from] EraseError),
    /// There is no such erasure.
    #[error("no erasure {id} is recorded in the tombstone log")]
    NoErasure {
        /// Its number.
        id: u64,
    },
    /// Everything of the tenant is being erased, so nothing of it can be changed.
    #[error("tenant {tenant} has an erasure pending; retry after it settles")]
    ErasurePending {
        /// The tenant.
        tenant: String,
    },
    /// A log of what is not a span is damaged or cannot be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An older release wrote the store, and this opening only reads.
    #[error("{} holds segments of an older version; open it for writing once, which converts them", path.display())]
    Older {
        /// The store.
        path: PathBuf,
    },
}

/// A file that no format fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableFile {
    /// The file.
    pub path: PathBuf,
    /// Why it is not read.
    pub what: String,
}

impl UnreadableFile {
    pub(crate) fn new(path: PathBuf, what: &dyn std::fmt::Display) -> Self {
        let what = what.to_string();
        Self { path, what }
    }
}

fn count_text(count: usize) -> String {
    match count {
        1 => "a file of the store".to_owned(),
        _ => format!("{count} files of the store"),
    }
}

fn list_text(files: &[UnreadableFile]) -> String {
    let texts: Vec<String> = files
        .iter()
        .map(|file| format!("{}: {}", file.path.display(), file.what))
        .collect();
    texts.join("; ")
}

fn owner_text(owner: Option<u32>) -> String {
    owner.map_or_else(String::new, |pid| format!(" in process {pid}"))
}

fn place_text(offset: Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!(" byte {offset}"))
}

/// Says what was tried on which path.
pub(crate) trait During<T> {
    /// Turns an I/O error into one that says so.
    fn during(self, op: &'static str, path: &Path) -> Result<T>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, op: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| StoreError::Io {
            op,
            path: path.to_owned(),
            source,
        })
    }
}

/// Names the segment that an error is about.
pub(crate) fn in_segment(path: &Path) -> impl Fn(SegmentError) -> StoreError + '_ {
    |source| match source {
        SegmentError::Io { op, path, source } => StoreError::Io { op, path, source },
        source => StoreError::Segment {
            path: path.to_owned(),
            source,
        },
    }
}
