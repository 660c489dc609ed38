//! Answers questions over all spans: narrow by time and by the indexes, decode, and let the span itself decide.

mod by_duration;
pub(super) mod candidates;
mod cursor;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

pub use cursor::Cursor;

use self::candidates::{Candidates, Plan};
use super::budget::Budget;
use super::buffer::in_order;
use super::columns::Conditions;
use super::error::{Result, StoreError};
use super::filter::{Filter, duration_ns};
use super::sealed::Sealed;
use super::{Shared, Store, View};
use crate::span::Span;

/// The most spans that are sorted otherwise than by their start.
pub const SORT_MAX: usize = 200_000;

/// An order of answers. Spans that are equal in it stay in the order of their starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// The earliest start first; also what answers without a sort have.
    StartAscending,
    /// The latest start first.
    StartDescending,
    /// The shortest first.
    DurationAscending,
    /// The longest first.
    DurationDescending,
}

/// With so many candidates in a segment it is worth to look at its columns, which may have to be made first.
const WORTH_COLUMNS: usize = 1_000;

/// A question.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Query {
    /// Which spans.
    pub filter: Filter,
    /// How many of them at most.
    pub limit: usize,
    /// In which order; `None` is by start.
    pub sort: Option<Sort>,
    /// Only those behind this place. It narrows the question, whatever the order of the answer: pages follow each other
    /// when the order is that of the place.
    pub after: Option<Cursor>,
    /// How long it may take.
    pub deadline: Option<Duration>,
}

impl Query {
    /// The first 100 spans that `filter` takes.
    pub fn new(filter: Filter) -> Self {
        Self {
            filter,
            limit: 100,
            sort: None,
            after: None,
            deadline: None,
        }
    }
}

/// What an answer has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Nanoseconds.
    pub elapsed_ns: u64,
    /// Segments in the store.
    pub segments_examined: usize,
    /// Of those the ones that could be left out by their range of times.
    pub segments_pruned: usize,
    /// Spans that were read and compared.
    pub spans_examined: u64,
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The spans.
    pub spans: Vec<Arc<Span>>,
    /// Where the next page begins; present when the page is full. With [`Sort::StartDescending`] it is a place in that
    /// order, with every other one in the order of starts: an answer sorted by duration has no next page.
    pub next: Option<Cursor>,
    /// What it has cost.
    pub cost: Cost,
}

impl Store {
    /// Answers a question: each span at most once, in its last version.
    ///
    /// # Errors
    /// [`StoreError::Deadline`], [`StoreError::TooManyToSort`]; damage of a segment that had to be read.
    pub fn query(&self, query: &Query) -> Result<Page> {
        self.snapshot().query(query)
    }
}

impl Shared {
    pub(super) fn query(
        &self,
        view: &View,
        query: &Query,
        deadline: Option<Duration>,
    ) -> Result<Page> {
        let mut run = Run {
            shared: self,
            view,
            query,
            budget: Budget::new(self.clock.as_ref(), deadline),
            found: Found::new(query),
            cost: Cost {
                segments_examined: view.segments.len(),
                ..Cost::default()
            },
        };
        if query.limit > 0 {
            run.buffer()?;
            run.segments()?;
        }
        let cost = Cost {
            elapsed_ns: run.budget.elapsed_ns(),
            spans_examined: run.budget.examined(),
            ..run.cost
        };
        self.meters
            .segments_examined
            .add(cost.segments_examined as u64);
        self.meters.segments_pruned.add(cost.segments_pruned as u64);
        let place: fn(&Span) -> Cursor = if run.found.is_descending() {
            Cursor::of_descending
        } else {
            Cursor::of
        };
        let spans = run.found.into_spans();
        let is_full = !spans.is_empty() && spans.len() == query.limit;
        let next = spans.last().filter(|_| is_full);
        Ok(Page {
            next: next.map(|span| place(span)),
            spans,
            cost,
        })
    }
}

/// A span that compares by the order of answers.
#[derive(Debug)]
pub(super) struct Ranked(pub(super) Arc<Span>);

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Ranked {}
impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        in_order(&self.0, &other.0)
    }
}

/// A span that compares by the order of answers with the latest start first.
#[derive(Debug)]
struct Latest(Arc<Span>);

impl PartialEq for Latest {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Latest {}
impl PartialOrd for Latest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Latest {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_start = other.0.start_time_ns.cmp(&self.0.start_time_ns);
        by_start.then_with(|| in_order(&self.0, &other.0))
    }
}

/// A span that compares by its duration, then by the order of answers.
#[derive(Debug)]
struct Timed {
    /// The duration; its complement when the longest comes first.
    rank: u64,
    span: Arc<Span>,
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Timed {}
impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timed {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_rank = self.rank.cmp(&other.rank);
        by_rank.then_with(|| in_order(&self.span, &other.span))
    }
}

/// The answer so far.
#[derive(Debug)]
enum Found {
    /// The first `limit` in the order of starts; the last of them on top.
    First {
        limit: usize,
        heap: BinaryHeap<Ranked>,
    },
    /// The `limit` that start last; the last of them on top.
    Last {
        limit: usize,
        heap: BinaryHeap<Latest>,
    },
    /// The first `limit` in the order of durations, of so many that match; the last of them on top.
    Timed {
        limit: usize,
        longest_first: bool,
        count: usize,
        heap: BinaryHeap<Timed>,
    },
}

impl Found {
    fn new(query: &Query) -> Self {
        let limit = query.limit;
        match query.sort {
            None | Some(Sort::StartAscending) => Self::First {
                limit,
                heap: BinaryHeap::new(),
            },
            Some(Sort::StartDescending) => Self::Last {
                limit,
                heap: BinaryHeap::new(),
            },
            Some(sort) => Self::Timed {
                limit,
                longest_first: sort == Sort::DurationDescending,
                count: 0,
                heap: BinaryHeap::new(),
            },
        }
    }

    fn add(&mut self, span: Arc<Span>) -> Result<()> {
        match self {
            Self::First { limit, heap } => {
                heap.push(Ranked(span));
                if heap.len() > *limit {
                    heap.pop();
                }
            }
            Self::Last { limit, heap } => {
                heap.push(Latest(span));
                if heap.len() > *limit {
                    heap.pop();
                }
            }
            Self::Timed {
                limit,
                longest_first,
                count,
                heap,
            } => {
                if *count == SORT_MAX {
                    return Err(StoreError::TooManyToSort { max: SORT_MAX });
                }
                *count += 1;
                let duration = duration_ns(&span);
                let rank = if *longest_first { !duration } else { duration };
                heap.push(Timed { rank, span });
                if heap.len() > *limit {
                    heap.pop();
                }
            }
        }
        Ok(())
    }

    /// No span that starts later can change the answer.
    fn latest_start(&self) -> Option<u64> {
        match self {
            Self::First { limit, heap } if heap.len() >= *limit => {
                heap.peek().map(|last| last.0.start_time_ns)
            }
            _ => None,
        }
    }

    /// No span that starts earlier can change the answer.
    fn earliest_start(&self) -> Option<u64> {
        match self {
            Self::Last { limit, heap } if heap.len() >= *limit => {
                heap.peek().map(|last| last.0.start_time_ns)
            }
            _ => None,
        }
    }

    fn is_descending(&self) -> bool {
        matches!(self, Self::Last { .. })
    }

    fn into_spans(self) -> Vec<Arc<Span>> {
        match self {
            Self::First { heap, .. } => heap
                .into_sorted_vec()
                .into_iter()
                .map(|ranked| ranked.0)
                .collect(),
            Self::Last { heap, .. } => heap
                .into_sorted_vec()
                .into_iter()
                .map(|latest| latest.0)
                .collect(),
            Self::Timed { heap, .. } => heap
                .into_sorted_vec()
                .into_iter()
                .map(|timed| timed.span)
                .collect(),
        }
    }
}

/// One question while it is answered.
struct Run<'r> {
    shared: &'r Shared,
    view: &'r View,
    query: &'r Query,
    budget: Budget<'r>,
    found: Found,
    cost: Cost,
}

impl Run<'_> {
    fn buffer(&mut self) -> Result<()> {
        let view = self.view;
        let since = self.since().unwrap_or(0);
        let spans: Box<dyn Iterator<Item = &Arc<Span>>> = if self.found.is_descending() {
            Box::new(view.buffer.in_reverse())
        } else {
            Box::new(view.buffer.since(since))
        };
        for span in spans {
            let start = span.start_time_ns;
            if self.found.is_descending() && self.until().is_some_and(|until| start > until) {
                continue;
            }
            let is_past = if self.found.is_descending() {
                start < since || self.found.earliest_start().is_some_and(|min| start < min)
            } else {
                self.until().is_some_and(|until| start > until)
            };
            if is_past {
                break;
            }
            self.budget.examine()?;
            if self.is_wanted(span) {
                self.found.add(Arc::clone(span))?;
            }
        }
        Ok(())
    }

    fn segments(&mut self) -> Result<()> {
        let view = self.view;
        let plan = Plan::of(&self.query.filter);
        let mut segments: Vec<(usize, &Arc<Sealed>)> = view.segments.iter().enumerate().collect();
        // Those whose spans are first in the answer come first, so that the others can be left out.
        if self.found.is_descending() {
            segments.sort_by_key(|(_, sealed)| Reverse(sealed.segment().header().max_timestamp));
        } else {
            segments.sort_by_key(|(_, sealed)| sealed.segment().header().min_timestamp);
        }
        for (index, sealed) in segments {
            let (since, until) = (self.since(), self.until());
            if !sealed.segment().may_contain_timestamps(since, until) {
                self.cost.segments_pruned += 1;
                continue;
            }
            let candidates = plan.candidates(sealed, since, until)?;
            if candidates.len() > 0 {
                self.segment(index, sealed, &candidates, &plan)?;
            }
        }
        Ok(())
    }

    fn segment(
        &mut self,
        index: usize,
        sealed: &Sealed,
        candidates: &Candidates,
        plan: &Plan<'_>,
    ) -> Result<()> {
        let filter = &self.query.filter;
        let may_be_replaced = !self.view.buffer.is_empty() || self.view.may_be_replaced(index)?;
        let columns = if Conditions::narrow(filter) && candidates.len() >= WORTH_COLUMNS {
            Some(self.shared.columns(sealed)?)
        } else {
            None
        };
        let conditions = match &columns {
            Some(columns) => match Conditions::of(filter, columns) {
                Some(conditions) => Some((columns, conditions)),
                None => return Ok(()),
            },
            None => None,
        };
        let mut reader = sealed.segment().reader();
        let mut block_end = 0;
        let ordinals: Box<dyn Iterator<Item = usize>> = if self.found.is_descending() {
            Box::new(candidates.iter().rev())
        } else {
            Box::new(candidates.iter())
        };
        for ordinal in ordinals {
            if let Some((columns, conditions)) = &conditions
                && !conditions.hold(columns, ordinal)
            {
                self.budget.examine()?;
                continue;
            }
            if !self.found.is_descending() {
                candidates
                    .reach(sealed.segment(), &mut reader, ordinal, &mut block_end)
                    .map_err(sealed.error())?;
            }
            let record = reader.record(ordinal).map_err(sealed.error())?;
            let start = record.timestamp();
            let is_past = self.until().is_some_and(|until| start > until)
                || self.since().is_some_and(|since| start < since);
            if is_past {
                // Candidates come in the order of their starts, and are within the window of the question.
                break;
            }
            self.budget.examine()?;
            if !plan.payload_may_match(sealed, record.payload()) {
                continue;
            }
            let span = sealed.span(ordinal, record.payload())?;
            if self.is_wanted(&span)
                && !(may_be_replaced && self.view.is_superseded(&span, sealed.id())?)
            {
                self.found.add(Arc::new(span))?;
            }
        }
        Ok(())
    }

    fn is_wanted(&self, span: &Span) -> bool {
        let is_behind = self
            .query
            .after
            .as_ref()
            .is_none_or(|after| after.is_before(span));
        is_behind && self.query.filter.matches(span) && !self.view.mask.hides(span)
    }

    /// What can still change the answer starts then or later.
    fn since(&self) -> Option<u64> {
        let after = self.query.after.as_ref().and_then(Cursor::since);
        [self.query.filter.since, after, self.found.earliest_start()]
            .into_iter()
            .flatten()
            .max()
    }

    /// What can still change the answer starts then or earlier.
    fn until(&self) -> Option<u64> {
        let after = self.query.after.as_ref().and_then(Cursor::until);
        [self.query.filter.until, after, self.found.latest_start()]
            .into_iter()
            .flatten()
            .min()
    }
}
