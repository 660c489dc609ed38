//! The key dictionary, and every record's attributes as pairs of key id and digest.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::digest::{Digest, hash128};
use crate::record::{RawPair, Record};

/// A key id and the digest of key and value.
pub(super) type Pair = (u32, Digest);

/// The attributes of all records.
pub(super) struct KeyedPairs<'a> {
    /// The dictionary, in the order of the keys' bytes: a key's id is its place.
    pub(super) keys: Vec<&'a [u8]>,
    /// The pairs of all records, one record after the other, ascending within each.
    pub(super) pairs: Vec<Pair>,
    /// Where in `pairs` the pairs of each record end.
    ends: Vec<usize>,
}

impl KeyedPairs<'_> {
    /// The pairs of a record.
    #[inline]
    pub(super) fn of(&self, ordinal: usize) -> &[Pair] {
        let end = self.ends.get(ordinal).copied().unwrap_or(0);
        let start = match ordinal.checked_sub(1) {
            Some(before) => self.ends.get(before).copied().unwrap_or(0),
            None => 0,
        };
        self.pairs.get(start..end).unwrap_or_default()
    }

    /// How many records there are.
    pub(super) fn record_count(&self) -> usize {
        self.ends.len()
    }
}

/// Gives every key its id. The shares are those of all records, in their order.
pub(super) fn join<'a>(records: &[&Record], mut shares: Vec<SharePairs<'a>>) -> KeyedPairs<'a> {
    let mut keys: Vec<&[u8]> = shares
        .iter()
        .flat_map(|share| share.keys.iter().copied())
        .collect();
    keys.sort_unstable();
    keys.dedup();
    for share in &mut shares {
        share.give_ids(&keys);
    }
    let mut end = 0;
    let ends = records.iter().map(|record| {
        end += record.attributes.len();
        end
    });
    let ends = ends.collect();
    let mut shares = shares.into_iter().map(|share| share.pairs);
    let mut pairs = shares.next().unwrap_or_default();
    shares.for_each(|share| pairs.extend(share));
    KeyedPairs { keys, pairs, ends }
}

/// The pairs of some of the records, under ids of their own: by first occurrence.
#[derive(Default)]
pub(super) struct SharePairs<'a> {
    keys: Vec<&'a [u8]>,
    pairs: Vec<Pair>,
    ids: HashMap<&'a [u8], u32, RandomState>,
    /// For each key the one that followed it last time, and in front of them the first key of a record.
    next: Vec<u32>,
}

impl<'a> SharePairs<'a> {
    /// Room for the pairs of these records.
    pub(super) fn with_capacity(records: &[&Record]) -> Self {
        let count = records.iter().map(|record| record.attributes.len()).sum();
        Self {
            pairs: Vec::with_capacity(count),
            ..Self::default()
        }
    }

    /// Digests the attributes of the next records.
    pub(super) fn add(&mut self, records: &[&'a Record]) {
        for record in records {
            let mut before = 0;
            for RawPair { key, hashed } in record.attributes.raw() {
                let id = self.id(before, key);
                before = id as usize + 1;
                self.pairs.push((id, hash128(hashed)));
            }
        }
    }

    /// The id of `key`, which follows another one: `before` is the place of that one in `next`.
    #[inline]
    fn id(&mut self, before: usize, key: &'a [u8]) -> u32 {
        let guess = self.next.get(before).copied().unwrap_or(u32::MAX);
        if self
            .keys
            .get(guess as usize)
            .is_some_and(|guess| *guess == key)
        {
            return guess;
        }
        let id = *self.ids.entry(key).or_insert_with(|| {
            self.keys.push(key);
            // There are fewer keys than pairs in a segment, whose body is below 4 GiB.
            u32::try_from(self.keys.len() - 1).unwrap_or(u32::MAX)
        });
        self.next.resize(self.keys.len() + 1, u32::MAX);
        if let Some(next) = self.next.get_mut(before) {
            *next = id;
        }
        id
    }

    /// Replaces the own ids by the places in the sorted dictionary.
    fn give_ids(&mut self, sorted: &[&[u8]]) {
        let place =
            |key: &&[u8]| u32::try_from(sorted.binary_search(key).unwrap_or(0)).unwrap_or(0);
        let ids: Vec<u32> = self.keys.iter().map(place).collect();
        for (id, _) in &mut self.pairs {
            *id = ids.get(*id as usize).copied().unwrap_or(u32::MAX);
        }
    }
}
