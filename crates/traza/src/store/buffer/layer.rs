//! Spans of different identities that came in several batches.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::sync::Arc;

use super::in_order;
use super::run::{Entry, Key, Run};
use crate::span::Span;

/// So many runs of about one size are joined. The larger it is, the less often a span is copied, and the more runs each
/// question has to look at.
const FANOUT: usize = 8;

/// Spans of which each identity is there once. A clone is a snapshot, and shares all spans.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    /// No two with an identity in common, the longer ones first.
    runs: Vec<Arc<Run>>,
}

impl Layer {
    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum()
    }

    /// About how many bytes they take in memory.
    pub(super) fn memory_len(&self) -> usize {
        self.runs.iter().map(|run| run.memory_len()).sum()
    }

    /// All spans in the order of answers.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = &Arc<Span>> {
        merged(self.runs.iter().map(|run| run.in_order()), in_order)
    }

    /// All spans, the last in the order of answers first.
    pub(super) fn in_reverse(&self) -> impl Iterator<Item = &Arc<Span>> {
        let backwards = |a: &Span, b: &Span| in_order(b, a);
        merged(self.runs.iter().map(|run| run.in_order().rev()), backwards)
    }

    /// The spans that start at `since` or later, in the order of answers.
    pub(super) fn since(&self, since: u64) -> impl Iterator<Item = &Arc<Span>> {
        merged(self.runs.iter().map(move |run| run.since(since)), in_order)
    }

    /// The spans whose trace id has that hash.
    pub(super) fn of_trace(&self, trace: u64) -> impl Iterator<Item = &Arc<Span>> {
        self.runs.iter().flat_map(move |run| run.of_trace(trace))
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.runs.iter().flat_map(|run| run.entries())
    }

    pub(super) fn into_runs(self) -> Vec<Arc<Run>> {
        self.runs
    }

    /// The entry of that identity.
    pub(super) fn entry(&self, key: Key<'_>) -> Option<&Entry> {
        self.runs.iter().find_map(|run| run.entry(key))
    }

    /// Takes a run in, which replaces what it has identities in common with.
    pub(super) fn insert(&mut self, run: Arc<Run>) {
        self.remove_all(&run);
        if run.len() == 0 {
            return;
        }
        self.runs.push(run);
        while let Some(start) = self.alike() {
            let joined = Run::joined(self.runs.get(start..).unwrap_or_default());
            self.runs.truncate(start);
            self.runs.push(Arc::new(joined));
        }
    }

    /// Takes the spans out whose identities the run holds.
    pub(super) fn remove_all(&mut self, of: &Run) {
        for run in &mut self.runs {
            let entries = of.entries().iter();
            if entries
                .clone()
                .any(|entry| run.entry(entry.key()).is_some())
            {
                *run = Arc::new(run.without(of));
            }
        }
        self.runs.retain(|run| run.len() > 0);
    }

    /// Where the last runs begin, if there are enough of them that are about as long as the last one, or shorter.
    fn alike(&self) -> Option<usize> {
        let last = tier(self.runs.last()?);
        let alike = self.runs.iter().rev().take_while(|run| tier(run) <= last);
        let count = alike.count();
        (count >= FANOUT).then(|| self.runs.len() - count)
    }
}

/// The size class of a run.
fn tier(run: &Run) -> u32 {
    run.len().max(1).ilog(FANOUT)
}

/// Sorted sequences as one.
pub(super) fn merged<'a>(
    sequences: impl Iterator<Item = impl Iterator<Item = &'a Arc<Span>>>,
    order: impl Fn(&Span, &Span) -> Ordering,
) -> impl Iterator<Item = &'a Arc<Span>> {
    let mut sequences: Vec<Peekable<_>> = sequences.map(Iterator::peekable).collect();
    std::iter::from_fn(move || {
        let mut first: Option<(usize, &Arc<Span>)> = None;
        for (index, sequence) in sequences.iter_mut().enumerate() {
            if let Some(span) = sequence.peek().copied()
                && first.is_none_or(|(_, other)| order(span, other).is_lt())
            {
                first = Some((index, span));
            }
        }
        sequences.get_mut(first?.0)?.next()
    })
}
