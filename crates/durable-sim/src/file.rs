//! One file: its live bytes, its synced bytes, and the changes between the two.

use std::collections::BTreeSet;

use crate::random::{Pattern, Random};

/// What a disk writes in one piece, in bytes.
pub(crate) const SECTOR_LEN: usize = 512;

/// An inode that holds bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileNode {
    live: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<Change>,
    /// How many handles are open: a file without a name lives on until they are closed.
    pub(crate) handles: usize,
    /// The handle that has the lock.
    pub(crate) locked_by: Option<u64>,
}

#[derive(Clone, Debug)]
enum Change {
    Write {
        offset: usize,
        bytes: Vec<u8>,
        /// A failed sync dropped the bytes: a later sync succeeds without writing them.
        lost: bool,
    },
    SetLen(usize),
}

impl FileNode {
    /// A file whose bytes are all synced.
    pub(crate) fn settled(bytes: Vec<u8>) -> Self {
        Self {
            live: bytes.clone(),
            synced: bytes,
            ..Self::default()
        }
    }

    pub(crate) fn live(&self) -> &[u8] {
        &self.live
    }

    pub(crate) fn synced(&self) -> &[u8] {
        &self.synced
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.unsynced.push(Change::Write {
            offset: self.live.len(),
            bytes: bytes.to_vec(),
            lost: false,
        });
        self.live.extend_from_slice(bytes);
    }

    pub(crate) fn set_len(&mut self, len: usize) {
        self.unsynced.push(Change::SetLen(len));
        self.live.resize(len, 0);
    }

    pub(crate) fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            match change {
                Change::Write {
                    offset,
                    bytes,
                    lost: false,
                } => overlay(&mut self.synced, offset, &bytes),
                // The length is metadata and was not lost; the bytes read as zeros.
                Change::Write { offset, bytes, .. } => {
                    let end = offset + bytes.len();
                    let len = self.synced.len().max(end);
                    self.synced.resize(len, 0);
                }
                Change::SetLen(len) => self.synced.resize(len, 0),
            }
        }
    }

    /// A sync that failed: as on Linux, the dirty pages are marked clean and never written again.
    pub(crate) fn sync_failed(&mut self) {
        for change in &mut self.unsynced {
            if let Change::Write { lost, .. } = change {
                *lost = true;
            }
        }
    }

    /// What a power cut may leave: every synced byte, and of the unsynced sectors some. A sector
    /// that was written several times holds one of its versions, never a later part without an
    /// earlier one. The length is anything between what was synced and what is live.
    pub(crate) fn survivor(&self, random: &mut Random) -> Vec<u8> {
        let count = self.unsynced.iter().map(Change::units).sum();
        let mut pattern = Pattern::draw(random, count);
        let mut bytes = self.synced.clone();
        let mut len_min = bytes.len();
        let mut stale = BTreeSet::new();
        let mut index = 0;
        for change in &self.unsynced {
            match change {
                Change::SetLen(len) => {
                    len_min = len_min.min(*len);
                    if pattern.keeps(index) {
                        bytes.resize(*len, 0);
                    }
                    index += 1;
                }
                Change::Write {
                    offset,
                    bytes: written,
                    ..
                } => {
                    for (at, piece) in sectors(*offset, written) {
                        let sector = at / SECTOR_LEN;
                        if pattern.keeps(index) && !stale.contains(&sector) {
                            overlay(&mut bytes, at, piece);
                        } else {
                            stale.insert(sector);
                        }
                        index += 1;
                    }
                }
            }
        }
        let len = match random.up_to(3) {
            0 => bytes.len(),
            1 => bytes.len().max(self.live.len()),
            2 => random.between(bytes.len(), self.live.len()),
            _ => random.between(len_min.min(bytes.len()), bytes.len()),
        };
        bytes.resize(len, 0);
        bytes
    }
}

impl Change {
    /// How many of its parts survive or are lost on their own.
    fn units(&self) -> usize {
        match self {
            Self::Write { offset, bytes, .. } => sectors(*offset, bytes).count(),
            Self::SetLen(_) => 1,
        }
    }
}

/// Cuts `bytes`, written at `offset`, where sectors end.
fn sectors(offset: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let first_len = (SECTOR_LEN - offset % SECTOR_LEN).min(bytes.len());
    let (first, rest) = bytes.split_at_checked(first_len).unwrap_or((bytes, &[]));
    let rest_at = offset + first.len();
    let rest = rest
        .chunks(SECTOR_LEN)
        .enumerate()
        .map(move |(index, piece)| (rest_at + index * SECTOR_LEN, piece));
    std::iter::once((offset, first)).chain(rest)
}

fn overlay(target: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if target.len() < end {
        target.resize(end, 0);
    }
    if let Some(place) = target.get_mut(offset..end) {
        place.copy_from_slice(bytes);
    }
}
