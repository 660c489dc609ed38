//! One leaf: a fact about the run that the tree commits to.
#![warn(clippy::arithmetic_side_effects, clippy::as_conversions)]

use durable::digest::Digest;

/// The fixed structure of the file of leaves, as a table.
pub mod layout {
    use durable::layout;

    layout! {
        /// One leaf; the file of leaves is nothing but these.
        pub mod leaf [64] {
            KIND: [0; 1] "What the leaf says, u8: see the table of leaf kinds.",
            ZERO: [1; 7] "Zero; a leaf with anything else here is refused.",
            SEGMENT: [8; 8] "Ordinal of the segment that it speaks of, u64.",
            RECORDS: [16; 8] "Records of the whole run up to this place, u64, of every kind.",
            OFFSET: [24; 8] "The place: absolute byte offset in that segment's file, u64.",
            VALUE: [32; 32] "A chain value, a digest over seals, or a public key: see the table.",
        }
    }
}

use layout::leaf;

/// What a leaf says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeafKind {
    /// A segment begins. Value: its chain's genesis; offset: the end of the file header.
    SegmentOpen,
    /// A chain checkpoint. Value: the chain after that record; offset: the record's end.
    ChainPoint,
    /// A segment was sealed. Value: the chain after its last record; offset: its index.
    SegmentSeal,
    /// The run is complete. Value: SHA-256 over the values of all seals; offset: the length of the
    /// last segment's file.
    RunClosed,
    /// Another key signs from here on. Value: its 32 bytes; the rest repeats the leaf before.
    KeyChange,
    /// A segment was pruned. Reserved.
    SegmentPruned,
    /// Records were lost before writing went on. Reserved.
    ResumeLoss,
}

impl LeafKind {
    /// Every kind, in the order of its code.
    pub const ALL: [Self; 7] = [
        Self::SegmentOpen,
        Self::ChainPoint,
        Self::SegmentSeal,
        Self::RunClosed,
        Self::KeyChange,
        Self::SegmentPruned,
        Self::ResumeLoss,
    ];

    /// Its code in a leaf.
    pub const fn code(self) -> u8 {
        match self {
            Self::SegmentOpen => 1,
            Self::ChainPoint => 2,
            Self::SegmentSeal => 3,
            Self::RunClosed => 4,
            Self::KeyChange => 5,
            Self::SegmentPruned => 6,
            Self::ResumeLoss => 7,
        }
    }

    /// The kind with this code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// True when the journal alone gives such a leaf.
    pub fn is_derivable(self) -> bool {
        match self {
            Self::SegmentOpen | Self::ChainPoint | Self::SegmentSeal | Self::RunClosed => true,
            Self::KeyChange | Self::SegmentPruned | Self::ResumeLoss => false,
        }
    }
}

impl std::fmt::Display for LeafKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::SegmentOpen => "segment open",
            Self::ChainPoint => "chain point",
            Self::SegmentSeal => "segment seal",
            Self::RunClosed => "run closed",
            Self::KeyChange => "key change",
            Self::SegmentPruned => "segment pruned",
            Self::ResumeLoss => "loss on resume",
        })
    }
}

/// One leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// What it says.
    pub kind: LeafKind,
    /// Ordinal of the segment that it speaks of.
    pub segment: u64,
    /// Records of the whole run up to this place, of every kind.
    pub records: u64,
    /// Absolute byte offset in that segment's file.
    pub offset: u64,
    /// What [`LeafKind`] says.
    pub value: Digest,
}

impl Leaf {
    /// Its bytes.
    pub fn encode(&self) -> [u8; leaf::LEN] {
        let mut bytes = [0; leaf::LEN];
        let done = leaf::KIND
            .put(&mut bytes, &[self.kind.code()])
            .and(leaf::SEGMENT.put(&mut bytes, &self.segment.to_le_bytes()))
            .and(leaf::RECORDS.put(&mut bytes, &self.records.to_le_bytes()))
            .and(leaf::OFFSET.put(&mut bytes, &self.offset.to_le_bytes()))
            .and(leaf::VALUE.put(&mut bytes, &self.value));
        debug_assert!(done.is_ok(), "the table gives the lengths");
        bytes
    }

    /// The leaf that these bytes spell; `None` for an unknown kind or bytes that must be zero and
    /// are not.
    pub fn decode(bytes: &[u8; leaf::LEN]) -> Option<Self> {
        if leaf::ZERO.of(bytes).ok()? != [0; 7] {
            return None;
        }
        Some(Self {
            kind: LeafKind::from_code(leaf::KIND.u8(bytes).ok()?)?,
            segment: leaf::SEGMENT.u64(bytes).ok()?,
            records: leaf::RECORDS.u64(bytes).ok()?,
            offset: leaf::OFFSET.u64(bytes).ok()?,
            value: *leaf::VALUE.of(bytes).ok()?.first_chunk()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_decodes_to_what_was_encoded_and_refuses_other_padding_and_kinds() {
        for kind in LeafKind::ALL {
            let leaf = Leaf {
                kind,
                segment: 3,
                records: u64::MAX,
                offset: 5,
                value: [9; 32],
            };
            let bytes = leaf.encode();
            assert_eq!(Leaf::decode(&bytes), Some(leaf));
            for at in 1..8 {
                let mut damaged = bytes;
                damaged[at] = 1;
                assert_eq!(Leaf::decode(&damaged), None, "byte {at}");
            }
        }
        for code in [0, 8, 255] {
            let mut bytes = [0; layout::leaf::LEN];
            bytes[0] = code;
            assert_eq!(Leaf::decode(&bytes), None, "kind {code}");
        }
    }
}
