//! Why a sidecar is not believed.

use durable::Short;

/// What is wrong with a sidecar. It always means the same: make it again from the segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RollupError {
    /// The bytes end before the structure does, or go on behind it.
    #[error("rollup sidecar cut off or too long: {0}")]
    Length(#[from] Short),
    /// It does not begin with the identity of a sidecar.
    #[error("not a rollup sidecar (bad magic)")]
    Magic,
    /// A word is not the only one that this build can use: another version, or not zero where nothing is.
    #[error("rollup sidecar with {field} {found}, but this build reads {expected}")]
    Word {
        /// Row of the layout table.
        field: &'static str,
        /// As stored.
        found: u64,
        /// What it must be.
        expected: u64,
    },
    /// It was made for another segment, another state of this one, or another price list.
    #[error("rollup sidecar for {field} {found}, the segment has {expected}")]
    Binding {
        /// Row of the layout table.
        field: &'static str,
        /// As stored.
        found: u64,
        /// What it must be.
        expected: u64,
    },
    /// The bytes differ from what was written.
    #[error(
        "corrupt rollup sidecar: checksum of bytes 0..{len} is {computed:016x}, stored is {stored:016x}"
    )]
    Checksum {
        /// How many bytes it is of, from the start of the file.
        len: usize,
        /// As stored.
        stored: u64,
        /// Of the bytes that are there.
        computed: u64,
    },
    /// Text is not UTF-8.
    #[error("text at byte {offset} of the rollup sidecar is not UTF-8")]
    Utf8 {
        /// Where the text begins in the file.
        offset: usize,
    },
    /// Entries do not ascend.
    #[error(
        "entry that ends at byte {offset} of the rollup sidecar is not above the one before it"
    )]
    Order {
        /// Where the entry, or what it is sorted by, ends in the file.
        offset: usize,
    },
    /// A sum of money is not a finite number.
    #[error("amount in the counters at byte {offset} of the rollup sidecar is not finite")]
    Amount {
        /// Where the counters begin in the file.
        offset: usize,
    },
    /// No attribute has this index.
    #[error("unknown session key {found} in the rollup sidecar")]
    SessionKey {
        /// As stored.
        found: u32,
    },
    /// The two lists of sessions differ.
    #[error("the sums by session and the sessions of the rollup sidecar differ")]
    Sessions,
}
