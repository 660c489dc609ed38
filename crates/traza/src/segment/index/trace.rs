//! The trace index: trace id to the records of the trace.
#![warn(clippy::arithmetic_side_effects, clippy::as_conversions)]

use std::hash::BuildHasher as _;

use durable::varint;
use foldhash::fast::RandomState;

use crate::segment::codec::{
    BodyReader, PostingBounds, Postings, len_u64, put_bytes, put_postings,
};
use crate::segment::error::Fault;

/// An empty trace id and an empty posting list.
const ENTRY_LEN_MIN: u64 = 2;

/// The body. `entries` come in the byte order of their trace ids, each with ascending offsets.
pub(crate) fn encode<'a>(entries: impl ExactSizeIterator<Item = (&'a str, &'a [u64])>) -> Vec<u8> {
    let mut body = Vec::new();
    varint::encode(len_u64(entries.len()), &mut body);
    for (trace_id, offsets) in entries {
        put_bytes(trace_id.as_bytes(), &mut body);
        put_postings(offsets.iter().copied(), &mut body);
    }
    body
}

/// The index: the body as it is, and a table that leads from a trace id to its entry.
///
/// A lookup asks every segment of a store, and nearly all of them do not have the trace. So the table is
/// made for that answer: one place to look at, which is empty or holds other hash bits.
#[derive(Clone, Debug)]
pub(crate) struct TraceIndex {
    body: Box<[u8]>,
    count: u64,
    table: Table,
}

impl TraceIndex {
    /// Checks the whole body. The order of the entries is not enforced; two of one trace are refused.
    pub(crate) fn decode(body: Vec<u8>, bounds: PostingBounds) -> Result<Self, Fault> {
        let mut reader = BodyReader::new(&body, 0);
        let count = reader.count("entry count", ENTRY_LEN_MIN)?;
        let mut table = Table::with_room_for(count);
        for index in 0..count {
            let at = reader.at();
            let trace_id = reader.text("trace id")?;
            reader.check_postings(bounds)?;
            if !table.insert(&body, trace_id.as_bytes(), at) {
                return Err(Fault::Duplicate {
                    field: "trace id",
                    entry: index,
                });
            }
        }
        reader.finish()?;
        Ok(Self {
            count,
            table,
            body: body.into(),
        })
    }

    /// Number of traces.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX)
    }

    /// The records of `trace_id`.
    #[inline]
    pub(crate) fn postings(&self, trace_id: &str) -> Postings<'_> {
        self.table
            .find(&self.body, trace_id.as_bytes())
            .map_or_else(Postings::none, |at| Postings::at(&self.body, at))
    }

    /// Every trace and its records, in stored order: the byte order of the trace ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Postings<'_>)> {
        let mut reader = BodyReader::new(&self.body, 0);
        // The body was read once before; nothing can fail now.
        let count = reader.varint().unwrap_or(0);
        (0..count).map_while(move |_| {
            let trace_id = reader.text("trace id").ok()?;
            let postings = Postings::at(&self.body, reader.at());
            reader.skip_postings().ok()?;
            Some((trace_id, postings))
        })
    }

    /// Bytes of memory that the index takes.
    pub(crate) fn resident_len(&self) -> usize {
        self.body.len().saturating_add(self.table.resident_len())
    }
}

/// An open-addressed table of the entries that is never full. For each place of it a mark, 0 for a free one, and where
/// in the body the entry is.
///
/// The marks alone answer nearly every question for a trace that is not there. At a byte for each place those of many
/// segments stay near the processor, where the places themselves would not.
#[derive(Clone, Debug)]
struct Table {
    marks: Box<[u8]>,
    places: Box<[u32]>,
    /// Seeded at random: trace ids come from strangers, who must not choose which ones collide.
    hasher: RandomState,
}

impl Table {
    /// At most half of the places will be taken by `count` entries.
    fn with_room_for(count: u64) -> Self {
        let len = count.saturating_mul(2).max(1).next_power_of_two();
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        Self {
            marks: vec![0; len].into(),
            places: vec![0; len].into(),
            hasher: RandomState::default(),
        }
    }

    /// Adds the entry at `at`, below 4 GiB; false when the trace id has one already.
    fn insert(&mut self, body: &[u8], trace_id: &[u8], at: usize) -> bool {
        let hash = self.hasher.hash_one(trace_id);
        match self.probe(body, trace_id, hash) {
            Probe::Found(_) => false,
            Probe::Free(index) => {
                if let Some(place) = self.places.get_mut(index) {
                    *place = u32::try_from(at).unwrap_or(u32::MAX);
                }
                if let Some(free) = self.marks.get_mut(index) {
                    *free = mark(hash);
                }
                true
            }
        }
    }

    /// The place of the entry's posting list.
    #[inline]
    fn find(&self, body: &[u8], trace_id: &[u8]) -> Option<usize> {
        match self.probe(body, trace_id, self.hasher.hash_one(trace_id)) {
            Probe::Found(postings) => Some(postings),
            Probe::Free(_) => None,
        }
    }

    #[inline]
    fn probe(&self, body: &[u8], trace_id: &[u8], hash: u64) -> Probe {
        let mask = self.marks.len().wrapping_sub(1);
        let mut index = usize::try_from(hash & len_u64(mask)).unwrap_or(0);
        while let Some(&taken) = self.marks.get(index).filter(|taken| **taken != 0) {
            if taken == mark(hash)
                && let Some(&at) = self.places.get(index)
            {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                let mut reader = BodyReader::new(body, at);
                if reader.prefixed() == Ok(trace_id) {
                    return Probe::Found(reader.at());
                }
            }
            index = index.wrapping_add(1) & mask;
        }
        Probe::Free(index)
    }

    fn resident_len(&self) -> usize {
        size_of_val(self.marks.as_ref()).saturating_add(size_of_val(self.places.as_ref()))
    }
}

enum Probe {
    /// The place of the posting list.
    Found(usize),
    /// The place of the table where the entry belongs.
    Free(usize),
}

/// Bits of the hash that the place in the table is not taken from, and never 0.
#[inline]
fn mark(hash: u64) -> u8 {
    let [.., mark] = hash.to_le_bytes();
    mark | 1
}

/// Position of the first item that equals the one before it.
pub(super) fn duplicate<T: PartialEq>(sorted: impl Iterator<Item = T>) -> Option<u64> {
    let mut before = None;
    for (index, item) in (0u64..).zip(sorted) {
        if before.as_ref() == Some(&item) {
            return Some(index);
        }
        before = Some(item);
    }
    None
}
