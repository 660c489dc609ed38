//! Spans that came together, sorted in two ways. Nothing in a run changes.

use std::cmp::Ordering;
use std::sync::Arc;

use super::in_order;
use crate::span::Span;

/// What a span is found by: the hashes of what identifies it, and the span itself, which decides when those are equal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a> {
    /// Of the trace id, so that a trace stays together.
    pub(super) trace: u64,
    /// Of tenant and span id.
    pub(super) id: u64,
    pub(super) span: &'a Span,
}

impl Key<'_> {
    fn cmp(&self, other: &Key<'_>) -> Ordering {
        let hashes = (self.trace, self.id).cmp(&(other.trace, other.id));
        hashes.then_with(|| identity(self.span).cmp(&identity(other.span)))
    }
}

fn identity(span: &Span) -> (&str, &str, &str) {
    (&span.trace_id, &span.tenant, &span.span_id)
}

/// A span, with the hashes of its [`Key`].
#[derive(Clone, Debug)]
pub(super) struct Entry {
    trace: u64,
    id: u64,
    /// The smaller, the earlier its identity first came.
    pub(super) place: u64,
    pub(super) span: Arc<Span>,
}

impl Entry {
    pub(super) fn key(&self) -> Key<'_> {
        Key {
            trace: self.trace,
            id: self.id,
            span: &self.span,
        }
    }
}

/// The place of a span in the order of answers: its start, which mostly decides, and where it is.
type Timed = (u64, u32);

/// Spans of different identities.
#[derive(Debug)]
pub(super) struct Run {
    by_key: Vec<Entry>,
    by_time: Vec<Timed>,
    filter: Filter,
    memory_len: usize,
}

impl Run {
    /// Of spans in the order in which they came, with their hashes. Of one identity the last counts, at the place of the
    /// first; `place` is that of the very first span.
    pub(super) fn of(spans: impl IntoIterator<Item = (u64, u64, Arc<Span>)>, place: u64) -> Self {
        let spans = (place..).zip(spans);
        let mut entries: Vec<Entry> = spans
            .map(|(place, (trace, id, span))| Entry {
                trace,
                id,
                place,
                span,
            })
            .collect();
        // Stable: those of one identity stay in the order in which they came.
        entries.sort_by(|a, b| a.key().cmp(&b.key()));
        entries.dedup_by(|later, kept| {
            let is_same = later.key().cmp(&kept.key()).is_eq();
            if is_same {
                std::mem::swap(&mut later.span, &mut kept.span);
            }
            is_same
        });
        Self::sorted(entries)
    }

    /// Of entries in the order of their keys.
    fn sorted(by_key: Vec<Entry>) -> Self {
        let numbered = (0u32..).zip(&by_key);
        let mut by_time: Vec<Timed> = numbered
            .map(|(number, entry)| (entry.span.start_time_ns, number))
            .collect();
        let span = |number: u32| by_key.get(number as usize).map(|entry| &entry.span);
        by_time.sort_unstable_by(|a, b| {
            let at_once = || match (span(a.1), span(b.1)) {
                (Some(a), Some(b)) => in_order(a, b),
                _ => Ordering::Equal,
            };
            a.0.cmp(&b.0).then_with(at_once)
        });
        let filter = Filter::of(&by_key);
        let memory_len = by_key.iter().map(|entry| entry.span.memory_len()).sum();
        Self {
            by_key,
            by_time,
            filter,
            memory_len,
        }
    }

    /// All spans of some runs that have no identity in common.
    pub(super) fn joined(runs: &[Arc<Self>]) -> Self {
        let mut entries: Vec<Entry> = runs
            .iter()
            .flat_map(|run| run.by_key.iter().cloned())
            .collect();
        // Sorted pieces, which this sort makes use of.
        entries.sort_by(|a, b| a.key().cmp(&b.key()));
        Self::sorted(entries)
    }

    /// The spans whose identity `other` does not hold.
    pub(super) fn without(&self, other: &Self) -> Self {
        let kept = self
            .by_key
            .iter()
            .filter(|entry| other.entry(entry.key()).is_none());
        Self::sorted(kept.cloned().collect())
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// About how many bytes the spans take in memory.
    pub(super) fn memory_len(&self) -> usize {
        self.memory_len
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.by_key
    }

    /// To be changed in their places only.
    pub(super) fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.by_key
    }

    /// The entry of that identity.
    pub(super) fn entry(&self, key: Key<'_>) -> Option<&Entry> {
        if !self.filter.may_hold(key.id) {
            return None;
        }
        let found = self.by_key.binary_search_by(|entry| entry.key().cmp(&key));
        self.by_key.get(found.ok()?)
    }

    /// The spans whose trace id has that hash.
    pub(super) fn of_trace(&self, trace: u64) -> impl Iterator<Item = &Arc<Span>> {
        let first = self.by_key.partition_point(|entry| entry.trace < trace);
        let behind = self.by_key.get(first..).unwrap_or_default();
        behind
            .iter()
            .take_while(move |entry| entry.trace == trace)
            .map(|entry| &entry.span)
    }

    /// The spans in the order of answers.
    pub(super) fn in_order(&self) -> impl DoubleEndedIterator<Item = &Arc<Span>> {
        self.timed(&self.by_time)
    }

    /// Those that start at `since` or later.
    pub(super) fn since(&self, since: u64) -> impl Iterator<Item = &Arc<Span>> {
        let first = self.by_time.partition_point(|(start, _)| *start < since);
        self.timed(self.by_time.get(first..).unwrap_or_default())
    }

    fn timed<'r>(&'r self, timed: &'r [Timed]) -> impl DoubleEndedIterator<Item = &'r Arc<Span>> {
        let number = |(_, number): &Timed| *number as usize;
        let entries = timed
            .iter()
            .filter_map(move |at| self.by_key.get(number(at)));
        entries.map(|entry| &entry.span)
    }
}

/// Tells of most hashes that they are not there, by one bit.
#[derive(Debug)]
struct Filter {
    bits: Vec<u64>,
}

/// So many bits for each hash: one of sixteen that are not there passes.
const BITS_PER_HASH: usize = 16;

impl Filter {
    fn of(entries: &[Entry]) -> Self {
        let words = (entries.len() * BITS_PER_HASH)
            .div_ceil(64)
            .next_power_of_two();
        let mut filter = Self {
            bits: vec![0; words],
        };
        for entry in entries {
            let (word, bit) = filter.place(entry.id);
            if let Some(word) = filter.bits.get_mut(word) {
                *word |= bit;
            }
        }
        filter
    }

    fn may_hold(&self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
        self.bits.get(word).is_some_and(|word| word & bit != 0)
    }

    /// A word, and a bit of it. There is a power of two of words.
    fn place(&self, hash: u64) -> (usize, u64) {
        let word = (hash >> 6) as usize & (self.bits.len() - 1);
        (word, 1 << (hash & 63))
    }
}
