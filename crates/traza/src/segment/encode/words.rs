//! The words of the records, block by block, and the filters over them.

use super::tokens::each_token;
use super::vocabulary::{Key, Vocabulary};
use crate::content::{
    BLOCK_FILTER_LEN_MAX, BLOCK_FILTER_LEN_MIN, SUMMARY_FILTER_LEN_MAX, SUMMARY_FILTER_LEN_MIN,
    bit_positions_of, filter_bits,
};
use crate::digest::Digest;
use crate::record::Record;
use crate::segment::codec::len_u64;
use crate::segment::index::content::{self, ContentGeometry, bit};
use crate::segment::layout::CONTENT_BLOCK_RECORDS;

/// Records that share a filter.
pub(super) const RECORDS_PER_BLOCK: usize = 128;

/// The distinct filter keys of some content blocks.
#[derive(Default)]
pub(super) struct WordLists {
    vocabulary: Vocabulary,
    /// For each block the places of its words in the vocabulary.
    blocks: Vec<Vec<u32>>,
}

impl WordLists {
    /// Lists the words of the next block.
    pub(super) fn add(&mut self, records: &[&Record]) {
        // Below 2^32, like the number of records.
        let block = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        let mut words = Vec::with_capacity(self.blocks.last().map_or(0, Vec::len));
        for text in records.iter().filter_map(|record| record.content.text()) {
            each_token(text.as_bytes(), |token| {
                if let Some(word) = self.vocabulary.add(token, block) {
                    words.push(word);
                }
            });
        }
        self.blocks.push(words);
    }
}

/// The body of the content index: from the lists of all blocks, in their order.
pub(super) fn body(lists: &[&WordLists]) -> Vec<u8> {
    let block_count = lists.iter().map(|lists| lists.blocks.len()).sum::<usize>();
    let busiest = lists
        .iter()
        .flat_map(|lists| &lists.blocks)
        .map(Vec::len)
        .max()
        .unwrap_or(0);
    let words = distinct(lists);
    let geometry = ContentGeometry {
        records_per_block: CONTENT_BLOCK_RECORDS,
        // Fewer blocks than records, which are below 2^32.
        block_count: u32::try_from(block_count).unwrap_or(u32::MAX),
        summary_bits: filter_bits(
            len_u64(words.len()),
            SUMMARY_FILTER_LEN_MIN,
            SUMMARY_FILTER_LEN_MAX,
        ),
        block_bits: filter_bits(len_u64(busiest), BLOCK_FILTER_LEN_MIN, BLOCK_FILTER_LEN_MAX),
    };
    let mut summary = vec![0u8; usize::try_from(geometry.summary_len()).unwrap_or(0)];
    for word in words {
        for position in bit_positions_of(word, geometry.summary_bits) {
            set(&mut summary, position / 8, position);
        }
    }
    let mut rows = vec![0u8; usize::try_from(geometry.rows_len()).unwrap_or(0)];
    let row_len = geometry.row_len();
    let blocks = lists
        .iter()
        .flat_map(|lists| lists.blocks.iter().map(move |block| (lists, block)));
    for (block, (lists, words)) in (0u64..).zip(blocks) {
        for word in words {
            let Some(digest) = lists.vocabulary.digest(*word) else {
                continue;
            };
            for position in bit_positions_of(digest, geometry.block_bits) {
                set(&mut rows, position * row_len + block / 8, block);
            }
        }
    }
    content::encode(geometry, &summary, &rows)
}

#[inline]
fn set(bytes: &mut [u8], at: u64, position: u64) {
    if let Some(byte) = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at)) {
        *byte |= bit(position);
    }
}

/// The digests of all distinct words.
fn distinct(lists: &[&WordLists]) -> Vec<Digest> {
    let mut digests = Vec::new();
    for (index, list) in lists.iter().enumerate() {
        let before = lists.get(..index).unwrap_or_default();
        let is_new = |key: &Key<'_>| !before.iter().any(|list| list.vocabulary.contains(key));
        digests.extend(
            list.vocabulary
                .iter()
                .filter(|(key, _)| is_new(key))
                .map(|(_, digest)| digest),
        );
    }
    digests
}
