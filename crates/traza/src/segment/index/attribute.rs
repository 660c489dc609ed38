//! The attribute index: key and value digest to the records that carry the pair.
#![warn(clippy::arithmetic_side_effects, clippy::as_conversions)]

use std::ops::Range;

use durable::varint;

use super::trace::duplicate;
use crate::digest::Digest;
use crate::segment::codec::{
    BodyReader, PostingBounds, Postings, len_u64, put_bytes, put_postings,
};
use crate::segment::error::Fault;

/// An empty name.
const KEY_LEN_MIN: u64 = 1;
/// A key id, a digest, and an empty posting list.
const ENTRY_LEN_MIN: u64 = 1 + 16 + 1;

/// The body. `keys` come in byte order, as many `entries` as `entry_count` says by key id (position in
/// `keys`) and digest, each with ascending offsets.
pub(crate) fn encode<'a, P: ExactSizeIterator<Item = u64>>(
    keys: impl ExactSizeIterator<Item = &'a str>,
    entry_count: usize,
    entries: impl Iterator<Item = (u32, Digest, P)>,
) -> Vec<u8> {
    const ENTRY_LEN_USUAL: usize = 24;
    let mut body = Vec::with_capacity(entry_count.saturating_mul(ENTRY_LEN_USUAL));
    varint::encode(len_u64(keys.len()), &mut body);
    for key in keys {
        put_bytes(key.as_bytes(), &mut body);
    }
    varint::encode(len_u64(entry_count), &mut body);
    for (key_id, digest, offsets) in entries {
        varint::encode(u64::from(key_id), &mut body);
        body.extend_from_slice(&digest.0);
        put_postings(offsets, &mut body);
    }
    body
}

/// Where an entry is in the body, and the front of its digest: a search rarely needs to look further.
#[derive(Clone, Copy, Debug)]
struct Entry {
    prefix: u32,
    at: u32,
}

/// The index: the body as it is, where each key and each entry is in it.
#[derive(Clone, Debug)]
pub(crate) struct AttributeIndex {
    body: Box<[u8]>,
    /// Where the keys' names are in `body`, by key id.
    keys: Box<[Range<u32>]>,
    /// Key ids in the byte order of their names.
    by_name: Box<[u32]>,
    /// The entries, by key id and digest.
    entries: Box<[Entry]>,
    /// For each key id, and one more, the first of its entries.
    first_entry: Box<[u32]>,
}

impl AttributeIndex {
    /// Checks the whole body. The order of keys and entries is not enforced; a key or a pair that is
    /// there twice is refused.
    pub(crate) fn decode(body: Vec<u8>, bounds: PostingBounds) -> Result<Self, Fault> {
        let mut reader = BodyReader::new(&body, 0);
        let (keys, by_name) = decode_keys(&mut reader)?;
        let key_count = len_u64(keys.len());
        let count = reader.count("entry count", ENTRY_LEN_MIN)?;
        let mut entries = Vec::with_capacity(usize::try_from(count).unwrap_or(usize::MAX));
        let mut counts = vec![0u32; keys.len().saturating_add(1)];
        let mut before = None;
        let mut sorted = true;
        for _ in 0..count {
            let at = place(reader.at());
            let key_id = reader.varint()?;
            let seen = usize::try_from(key_id).ok().filter(|_| key_id < key_count);
            let Some(seen) = seen.and_then(|key_id| counts.get_mut(key_id)) else {
                return Err(Fault::KeyId {
                    key_id,
                    keys: key_count,
                });
            };
            *seen = seen.saturating_add(1);
            let digest = reader.bytes(16)?;
            entries.push(Entry {
                prefix: prefix(digest),
                at,
            });
            reader.check_postings(bounds)?;
            // As the bytes order, without a call for each comparison.
            let order = (key_id, prefix(digest), digest);
            sorted &= before.is_none_or(|before| before < order);
            before = Some(order);
        }
        reader.finish()?;
        if !sorted {
            entries.sort_by_key(|found| entry(&body, found.at).0);
            if let Some(twice) = duplicate(entries.iter().map(|found| entry(&body, found.at).0)) {
                return Err(Fault::Duplicate {
                    field: "attribute pair",
                    entry: twice,
                });
            }
        }
        // Counts become the running sum of those before.
        let mut first = 0u32;
        for count in &mut counts {
            let here = *count;
            *count = first;
            first = first.saturating_add(here);
        }
        Ok(Self {
            keys,
            by_name,
            entries: entries.into(),
            first_entry: counts.into(),
            body: body.into(),
        })
    }

    /// The keys, by id.
    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.keys.iter().map(|range| text(&self.body, range))
    }

    /// Number of pairs.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The id of `key`.
    pub(crate) fn key_id(&self, key: &str) -> Option<u32> {
        let name = |id: u32| {
            self.keys
                .get(index(id))
                .map(|range| text(&self.body, range))
        };
        let found = self
            .by_name
            .binary_search_by(|&id| name(id).cmp(&Some(key)));
        self.by_name.get(found.ok()?).copied()
    }

    /// The records that carry the pair, as far as digests tell.
    pub(crate) fn postings(&self, key_id: u32, digest: Digest) -> Postings<'_> {
        let entries = self.entries_of(key_id);
        let wanted = prefix(&digest.0);
        let start = entries.partition_point(|found| found.prefix < wanted);
        let same = entries.get(start..).unwrap_or_default().iter();
        same.take_while(|found| found.prefix == wanted)
            .map(|found| entry(&self.body, found.at))
            .find(|((_, stored), _)| *stored == digest.0)
            .map_or_else(Postings::none, |(_, postings)| postings)
    }

    /// The distinct values of a key, by digest.
    pub(crate) fn values(
        &self,
        key_id: u32,
    ) -> impl ExactSizeIterator<Item = (Digest, Postings<'_>)> {
        self.entries_of(key_id).iter().map(|found| {
            let ((_, digest), postings) = entry(&self.body, found.at);
            let digest = digest.first_chunk().copied().unwrap_or_default();
            (Digest(digest), postings)
        })
    }

    fn entries_of(&self, key_id: u32) -> &[Entry] {
        let bound = |id: Option<usize>| id.and_then(|id| self.first_entry.get(id)).copied();
        let first = bound(Some(index(key_id)));
        let end = bound(index(key_id).checked_add(1));
        match (first, end) {
            (Some(first), Some(end)) => self.entries.get(index(first)..index(end)),
            _ => None,
        }
        .unwrap_or_default()
    }

    /// Bytes of memory that the index takes.
    pub(crate) fn resident_len(&self) -> usize {
        [
            self.body.len(),
            size_of_val(self.keys.as_ref()),
            size_of_val(self.by_name.as_ref()),
            size_of_val(self.entries.as_ref()),
            size_of_val(self.first_entry.as_ref()),
        ]
        .iter()
        .fold(0, |sum, len| sum.saturating_add(*len))
    }
}

type Keys = (Box<[Range<u32>]>, Box<[u32]>);

fn decode_keys(reader: &mut BodyReader<'_>) -> Result<Keys, Fault> {
    let count = reader.count("key count", KEY_LEN_MIN)?;
    let mut keys = Vec::with_capacity(usize::try_from(count).unwrap_or(usize::MAX));
    let mut names = Vec::new();
    for id in 0..count {
        let name = reader.text("attribute key")?;
        let end = reader.at();
        keys.push(place(end.saturating_sub(name.len()))..place(end));
        names.push((name, u32::try_from(id).unwrap_or(u32::MAX)));
    }
    names.sort_unstable();
    if let Some(twice) = duplicate(names.iter().map(|(name, _)| *name)) {
        return Err(Fault::Duplicate {
            field: "attribute key",
            entry: twice,
        });
    }
    let by_name = names.into_iter().map(|(_, id)| id).collect();
    Ok((keys.into(), by_name))
}

/// The front of a digest, as a number that orders as the bytes do.
#[inline]
fn prefix(digest: &[u8]) -> u32 {
    digest.first_chunk().map_or(0, |front| {
        let [a, b, c, d] = *front;
        u32::from_le_bytes([d, c, b, a])
    })
}

/// A place in a body; bodies are below 4 GiB.
fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn index(id: u32) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX)
}

/// The text at a place of a checked body.
fn text<'a>(body: &'a [u8], range: &Range<u32>) -> &'a str {
    let bytes = body.get(index(range.start)..index(range.end));
    std::str::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
}

/// The entry at `at` of a checked body.
#[inline]
fn entry(body: &[u8], at: u32) -> ((u64, &[u8]), Postings<'_>) {
    let mut reader = BodyReader::new(body, index(at));
    let key_id = reader.varint().unwrap_or(u64::MAX);
    let digest = reader.bytes(16).unwrap_or_default();
    ((key_id, digest), Postings::at(body, reader.at()))
}
