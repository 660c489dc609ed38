//! Groups records by trace and by attribute pair.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::keys::KeyedPairs;
use super::near;
use crate::digest::Digest;
use crate::record::Record;

/// So many trace ids are brought near together.
const NEAR_RECORDS: usize = 128;

/// The posting list of each trace, in the order of the trace ids.
pub(super) struct TracePostings<'a> {
    /// Each trace, and where its list ends.
    groups: Vec<(&'a str, usize)>,
    offsets: Vec<u64>,
}

impl<'a> TracePostings<'a> {
    /// Trace ids with their lists.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&'a str, &[u64])> {
        let mut start = 0;
        self.groups.iter().map(move |(trace_id, end)| {
            let list = self.offsets.get(start..*end).unwrap_or_default();
            start = *end;
            (*trace_id, list)
        })
    }
}

/// The records of each trace.
pub(super) fn by_trace<'a>(records: &[&'a Record], starts: &[u64]) -> TracePostings<'a> {
    let mut ids: HashMap<&str, usize, RandomState> = HashMap::default();
    let mut groups: Vec<(&str, usize)> = Vec::new();
    let mut before = 0;
    let mut group_of = Vec::with_capacity(records.len());
    for some in records.chunks(NEAR_RECORDS) {
        near::bring(some.iter().map(|record| record.trace_id.as_bytes()));
        for record in some {
            let trace_id = record.trace_id.as_str();
            // The spans of a trace are often neighbours.
            let group = if groups
                .get(before)
                .is_some_and(|(before, _)| *before == trace_id)
            {
                before
            } else {
                *ids.entry(trace_id).or_insert_with(|| {
                    groups.push((trace_id, 0));
                    groups.len() - 1
                })
            };
            before = group;
            if let Some((_, count)) = groups.get_mut(group) {
                *count += 1;
            }
            group_of.push(group);
        }
    }
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_unstable_by_key(|group| groups.get(*group).map(|(trace_id, _)| *trace_id));
    // Where the next posting of each group goes; in the end, where its list ends.
    let mut next = vec![0; groups.len()];
    let mut end = 0;
    for group in &order {
        if let (Some(next), Some((_, count))) = (next.get_mut(*group), groups.get(*group)) {
            *next = end;
            end += count;
        }
    }
    let mut offsets = vec![0; records.len()];
    for (group, start) in group_of.iter().zip(starts) {
        if let Some(next) = next.get_mut(*group) {
            if let Some(place) = offsets.get_mut(*next) {
                *place = *start;
            }
            *next += 1;
        }
    }
    let sorted = order.iter().filter_map(|group| {
        let (trace_id, _) = groups.get(*group)?;
        Some((*trace_id, *next.get(*group)?))
    });
    TracePostings {
        groups: sorted.collect(),
        offsets,
    }
}

/// An attribute pair in a record. All of them are sorted by key, digest and record.
#[derive(Clone, Copy)]
pub(super) struct Occurrence {
    pub(super) key_id: u32,
    pub(super) ordinal: u32,
    pub(super) digest: Digest,
}

impl Occurrence {
    /// The digest as a number that is in the order of its bytes.
    #[inline]
    #[expect(clippy::big_endian_bytes, reason = "what comes first counts most")]
    fn digest_number(&self) -> u128 {
        u128::from_be_bytes(self.digest.0)
    }

    /// True for the same pair, maybe in another record.
    #[inline]
    pub(super) fn is_same_pair(&self, other: &Self) -> bool {
        self.digest == other.digest && self.key_id == other.key_id
    }
}

/// All pairs of all records, sorted.
pub(super) fn occurrences(keyed: &KeyedPairs<'_>) -> Vec<Occurrence> {
    let mut next = vec![0usize; keyed.keys.len()];
    for (key_id, _) in &keyed.pairs {
        if let Some(count) = next.get_mut(*key_id as usize) {
            *count += 1;
        }
    }
    // Counts become the places where each key begins, and by placing the pairs those where it ends.
    let mut end = 0;
    for count in &mut next {
        end += std::mem::replace(count, end);
    }
    let nothing = Occurrence {
        key_id: 0,
        ordinal: 0,
        digest: Digest([0; 16]),
    };
    let mut all = vec![nothing; keyed.pairs.len()];
    for (ordinal, position) in (0u32..).zip(0..keyed.record_count()) {
        for (key_id, digest) in keyed.of(position) {
            let Some(next) = next.get_mut(*key_id as usize) else {
                continue;
            };
            if let Some(place) = all.get_mut(*next) {
                *place = Occurrence {
                    key_id: *key_id,
                    ordinal,
                    digest: *digest,
                };
            }
            *next += 1;
        }
    }
    let mut rest = all.as_mut_slice();
    let mut start = 0;
    for end in next {
        let (bucket, behind) = rest.split_at_mut(end - start);
        (rest, start) = (behind, end);
        // Stable, so that the records of a pair stay in their order; and quick for keys with few values.
        bucket.sort_by_key(Occurrence::digest_number);
    }
    all
}
