//! Why a segment is refused.

use std::io;
use std::path::PathBuf;

use durable::varint::VarintFault;

/// A named part of a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Section {
    /// The fixed header.
    Header,
    /// The record blocks.
    Records,
    /// The table of the record blocks.
    BlockDirectory,
    /// Where each record begins.
    RecordOffsets,
    /// Trace id to records.
    TraceIndex,
    /// Key and value digest to records.
    AttributeIndex,
    /// Words to blocks of records: prologue, summary and page table.
    ContentIndex,
    /// The bit-sliced rows of the content index, which are read when a query needs them.
    ContentRows,
}

impl Section {
    /// The name that errors and documents use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Records => "records",
            Self::BlockDirectory => "block directory",
            Self::RecordOffsets => "record-offset index",
            Self::TraceIndex => "trace index",
            Self::AttributeIndex => "attribute index",
            Self::ContentIndex => "content index",
            Self::ContentRows => "content rows",
        }
    }
}

impl std::fmt::Display for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is wrong with the bytes of a section.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file or the section ends before the structure does.
    #[error("cut off: wanted={wanted} left={left}")]
    CutOff {
        /// Bytes that the structure needs.
        wanted: u64,
        /// Bytes that are there.
        left: u64,
    },
    /// The stored checksum is not that of the bytes.
    #[error("checksum mismatch: stored={stored:08x} computed={computed:08x}")]
    Checksum {
        /// As stored.
        stored: u32,
        /// Of the bytes that are there.
        computed: u32,
    },
    /// A header word does not have the only value it can have.
    #[error("{field} is {found}, expected {expected}")]
    Word {
        /// Row of the layout table.
        field: &'static str,
        /// As stored.
        found: u64,
        /// What the rest of the file calls for.
        expected: u64,
    },
    /// A declared length or count is above what the bytes that are there can hold.
    #[error("{field} is {found}, at most {max} are possible")]
    Bound {
        /// What is counted.
        field: &'static str,
        /// As stored.
        found: u64,
        /// The most that is possible.
        max: u64,
    },
    /// Something that holds a byte at least is declared empty.
    #[error("{field} of entry {entry} is zero")]
    Empty {
        /// Row of the layout table.
        field: &'static str,
        /// Position of the entry.
        entry: u64,
    },
    /// The sections do not lie one behind the other, from the header to the end of the file.
    #[error("sections not contiguous: {field} is {found}, expected {expected}")]
    Layout {
        /// Row of the layout table.
        field: &'static str,
        /// As stored.
        found: u64,
        /// Where the section before it ends.
        expected: u64,
    },
    /// The codec does not decode the bytes.
    #[error("does not decompress to {declared} bytes")]
    Decompress {
        /// Length that the bytes should have.
        declared: u64,
    },
    /// A record's timestamp is outside the range that the header declares.
    #[error("timestamp {timestamp} outside the declared range {min}..={max}")]
    OutsideRange {
        /// The record's.
        timestamp: u64,
        /// Declared minimum.
        min: u64,
        /// Declared maximum.
        max: u64,
    },
    /// The header's declared range is not that of the records.
    #[error("{field} is {declared}, the records say {found}")]
    Range {
        /// Row of the layout table.
        field: &'static str,
        /// As declared.
        declared: u64,
        /// As the records have it.
        found: u64,
    },
    /// A directory entry's timestamp is not that of the block's first record.
    #[error("block {block} declares first timestamp {declared}, its first record has {found}")]
    Fence {
        /// Position in the directory.
        block: u64,
        /// In the directory.
        declared: u64,
        /// In the record.
        found: u64,
    },
    /// Values that must ascend do not.
    #[error("{field} not ascending at entry {entry}")]
    Order {
        /// What must ascend.
        field: &'static str,
        /// Position of the entry that does not follow its predecessor.
        entry: u64,
    },
    /// The same entry twice.
    #[error("duplicate {field} at entry {entry}")]
    Duplicate {
        /// What is there twice.
        field: &'static str,
        /// Position of the second one.
        entry: u64,
    },
    /// A block begins where no record does.
    #[error("block {block} begins at {logical_start}, where no record does")]
    BlockBoundary {
        /// Position in the directory.
        block: u64,
        /// Where it begins in the uncompressed records.
        logical_start: u64,
    },
    /// A posting or a request names a place where no record begins.
    #[error("no record begins at logical offset {logical}")]
    NoRecord {
        /// The place in the uncompressed records.
        logical: u64,
    },
    /// A varint is not one.
    #[error("{fault} at body byte {at}")]
    Varint {
        /// Place in the uncompressed body.
        at: u64,
        /// What is wrong with it.
        fault: VarintFault,
    },
    /// A posting list repeats an offset.
    #[error("zero gap in a posting list at body byte {at}")]
    ZeroGap {
        /// Place in the uncompressed body.
        at: u64,
    },
    /// A posting list or a table goes past what a u64 or the records hold.
    #[error("offset {found} at body byte {at} is not within {max} bytes of records")]
    OffsetBound {
        /// Place in the uncompressed body.
        at: u64,
        /// The offset.
        found: u64,
        /// Length of all records.
        max: u64,
    },
    /// Bytes are left over.
    #[error("{left} bytes left over at body byte {at}")]
    Trailing {
        /// Place in the uncompressed body.
        at: u64,
        /// How many.
        left: u64,
    },
    /// Text is not UTF-8.
    #[error("{field} at body byte {at} is not UTF-8")]
    Utf8 {
        /// Which text.
        field: &'static str,
        /// Place in the uncompressed body.
        at: u64,
    },
    /// A pair or an entry names a key that the dictionary does not have.
    #[error("key id {key_id} outside the dictionary of {keys}")]
    KeyId {
        /// The id.
        key_id: u64,
        /// Number of keys.
        keys: u64,
    },
    /// The body of a section that must be stored raw is compressed.
    #[error("compressed, but must be stored raw")]
    MustBeRaw,
    /// A filter or table of the content index has an impossible size.
    #[error("{field} of {found} is not a power of two up to {max}")]
    Geometry {
        /// Row of the layout table.
        field: &'static str,
        /// As stored.
        found: u64,
        /// Largest value.
        max: u64,
    },
    /// A page of the content rows is not the one that was written.
    #[error("page {page}: checksum mismatch: stored={stored:08x} computed={computed:08x}")]
    Page {
        /// Number of the page.
        page: u64,
        /// In the page table.
        stored: u32,
        /// Of the bytes that are there.
        computed: u32,
    },
    /// A legacy record stream is not gap-free, or not what the file declares of it.
    #[error("{field} is {declared}, the record stream says {found}")]
    Stream {
        /// What disagrees.
        field: &'static str,
        /// As declared.
        declared: u64,
        /// As the stream has it.
        found: u64,
    },
    /// A legacy record's payload is not a span, so that it cannot be written again.
    #[error("payload of record {ordinal} is not a span: {reason}")]
    Payload {
        /// Position of the record.
        ordinal: u64,
        /// What the parser says.
        reason: String,
    },
}

/// Why a segment cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The file does not begin as a segment does.
    #[error("not a Traza segment (bad magic)")]
    NotASegment,
    /// A version that this operation does not read.
    #[error("segment format v{found}, but this build reads v{newest}")]
    Version {
        /// In the file.
        found: u16,
        /// The version that is read.
        newest: u16,
    },
    /// Something that another decoder would be needed for.
    #[error("unsupported {what} {found} in the {section}")]
    Unsupported {
        /// Where.
        section: Section,
        /// What it is, e.g. `codec id`.
        what: &'static str,
        /// Its value.
        found: u64,
    },
    /// The bytes contradict themselves or a checksum.
    #[error("corrupt segment {section} at byte {offset}: {fault}")]
    Corrupt {
        /// Where.
        section: Section,
        /// Byte of the file where the damaged section, block, page or word begins.
        offset: u64,
        /// What is wrong.
        fault: Fault,
    },
    /// A record that no segment can hold, since its encoding reaches 2 GiB or a field 4 GiB.
    #[error("record of trace {trace_id:?} at timestamp {timestamp} is too large for a segment")]
    TooLarge {
        /// The record's trace.
        trace_id: String,
        /// The record's timestamp.
        timestamp: u64,
    },
    /// A limit of this build.
    #[error("{what} of {value} bytes is above the limit of {max}")]
    Limit {
        /// What is too long.
        what: &'static str,
        /// Its length.
        value: u64,
        /// The limit.
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

/// The result of everything that reads or writes segments.
pub type Result<T, E = SegmentError> = std::result::Result<T, E>;

impl SegmentError {
    /// Damage of `section`, which begins at byte `offset` of the file.
    pub(crate) fn corrupt(section: Section, offset: u64, fault: Fault) -> Self {
        Self::Corrupt {
            section,
            offset,
            fault,
        }
    }

    /// The damaged section, when the file is damaged.
    pub fn section(&self) -> Option<Section> {
        match self {
            Self::Corrupt { section, .. } => Some(*section),
            _ => None,
        }
    }
}
