//! All matching spans in the order of starts, one after the other.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use super::View;
use super::buffer::in_order;
use super::error::Result;
use super::filter::Filter;
use super::query::Ranked;
use super::query::candidates::Plan;
use super::sealed::Sealed;
use crate::segment::Reader;
use crate::span::Span;

/// Spans in the stable order of answers, each identity once, in its last version. It merges the buffer and those segments
/// that have spans at the time it has come to, and holds one block of each of these. Ends at the first error.
pub struct Spans<'v> {
    view: &'v View,
    filter: &'v Filter,
    plan: Plan<'v>,
    /// Segments that were not needed yet, the one that begins last in front.
    waiting: Vec<&'v Sealed>,
    sources: Vec<Source<'v>>,
    /// The next span of every source that has one, and which source that is.
    heads: BinaryHeap<Reverse<(Ranked, usize)>>,
    is_started: bool,
}

impl std::fmt::Debug for Spans<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spans")
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}

/// Where spans come from, in order.
enum Source<'v> {
    Buffer(Box<dyn Iterator<Item = &'v Arc<Span>> + 'v>),
    Segment(OfSegment<'v>),
}

struct OfSegment<'v> {
    sealed: &'v Sealed,
    reader: Reader<'v>,
    ordinals: Box<dyn Iterator<Item = usize>>,
    /// Spans with one start, in order.
    run: VecDeque<Arc<Span>>,
    /// The first span behind the run.
    ahead: Option<Arc<Span>>,
}

impl<'v> Spans<'v> {
    pub(super) fn new(view: &'v View, filter: &'v Filter) -> Self {
        let mut waiting: Vec<&Sealed> = view
            .segments
            .iter()
            .map(Arc::as_ref)
            .filter(|sealed| {
                sealed
                    .segment()
                    .may_contain_timestamps(filter.since, filter.until)
            })
            .collect();
        waiting.sort_by_key(|sealed| Reverse(sealed.segment().header().min_timestamp));
        Self {
            view,
            filter,
            plan: Plan::of(filter),
            waiting,
            sources: Vec::new(),
            heads: BinaryHeap::new(),
            is_started: false,
        }
    }

    fn advance(&mut self) -> Result<Option<Arc<Span>>> {
        if !self.is_started {
            self.is_started = true;
            let buffered = self.view.buffer.since(self.filter.since.unwrap_or(0));
            self.add(Source::Buffer(Box::new(buffered)))?;
        }
        // A segment that begins no later than the next span may hold one that comes before it.
        while let Some(sealed) = self.waiting.last() {
            let begins = sealed.segment().header().min_timestamp;
            let is_later = |head: &Reverse<(Ranked, usize)>| head.0.0.0.start_time_ns < begins;
            if self.heads.peek().is_some_and(is_later) {
                break;
            }
            if let Some(sealed) = self.waiting.pop() {
                let source = self.open(sealed)?;
                self.add(source)?;
            }
        }
        let Some(Reverse((Ranked(span), source))) = self.heads.pop() else {
            return Ok(None);
        };
        self.refill(source)?;
        Ok(Some(span))
    }

    fn open(&self, sealed: &'v Sealed) -> Result<Source<'v>> {
        let candidates = self
            .plan
            .candidates(sealed, self.filter.since, self.filter.until)?;
        Ok(Source::Segment(OfSegment {
            sealed,
            reader: sealed.segment().reader(),
            ordinals: candidates.into_ordinals(),
            run: VecDeque::new(),
            ahead: None,
        }))
    }

    fn add(&mut self, source: Source<'v>) -> Result<()> {
        self.sources.push(source);
        self.refill(self.sources.len() - 1)
    }

    /// Puts the next span of a source among the heads.
    fn refill(&mut self, index: usize) -> Result<()> {
        let (view, filter) = (self.view, self.filter);
        let next = match self.sources.get_mut(index) {
            Some(Source::Buffer(spans)) => spans
                .take_while(|span| filter.until.is_none_or(|until| span.start_time_ns <= until))
                .find(|span| filter.matches(span) && !view.mask.hides(span))
                .map(Arc::clone),
            Some(Source::Segment(segment)) => segment.next(view, filter, &self.plan)?,
            None => None,
        };
        if let Some(span) = next {
            self.heads.push(Reverse((Ranked(span), index)));
        }
        Ok(())
    }
}

impl OfSegment<'_> {
    /// The next span. Records are in the order of their starts; those with one start are put into that of answers.
    fn next(&mut self, view: &View, filter: &Filter, plan: &Plan<'_>) -> Result<Option<Arc<Span>>> {
        if let Some(span) = self.run.pop_front() {
            return Ok(Some(span));
        }
        let first = match self.ahead.take() {
            Some(ahead) => ahead,
            None => match self.read(view, filter, plan)? {
                Some(read) => read,
                None => return Ok(None),
            },
        };
        let start = first.start_time_ns;
        self.run.push_back(first);
        while let Some(span) = self.read(view, filter, plan)? {
            if span.start_time_ns != start {
                self.ahead = Some(span);
                break;
            }
            self.run.push_back(span);
        }
        self.run.make_contiguous().sort_by(|a, b| in_order(a, b));
        Ok(self.run.pop_front())
    }

    fn read(&mut self, view: &View, filter: &Filter, plan: &Plan<'_>) -> Result<Option<Arc<Span>>> {
        for ordinal in self.ordinals.by_ref() {
            let record = self.reader.record(ordinal).map_err(self.sealed.error())?;
            if !plan.payload_may_match(self.sealed, record.payload()) {
                continue;
            }
            let span = self.sealed.span(ordinal, record.payload())?;
            let is_wanted = filter.matches(&span) && !view.mask.hides(&span);
            if is_wanted && !view.is_superseded(&span, self.sealed.id())? {
                return Ok(Some(Arc::new(span)));
            }
        }
        Ok(None)
    }
}

impl Iterator for Spans<'_> {
    type Item = Result<Arc<Span>>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        if next.is_err() {
            self.waiting.clear();
            self.heads.clear();
        }
        next.transpose()
    }
}
