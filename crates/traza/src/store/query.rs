//! Answers questions over all spans: narrow by time and by the indexes, decode, and let the span itself decide.

mod candidates;
mod cursor;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use durable::Clock;

pub use cursor::Cursor;

use self::candidates::{Candidates, Plan};
use super::buffer::{in_order, order_key};
use super::error::{Result, StoreError};
use super::filter::{Filter, duration_ns};
use super::sealed::Sealed;
use super::{Shared, Store, View};
use crate::span::Span;

/// The most spans that are sorted otherwise than by their start.
pub const SORT_MAX: usize = 200_000;
/// So many spans are looked at between two looks at the clock.
const CLOCK_EVERY: u64 = 256;

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
    /// Only those behind this place in the order of starts.
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
    /// Where the next page begins; present when the page is full.
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
        self.shared.query(&self.shared.view(), query)
    }
}

impl Shared {
    fn query(&self, view: &View, query: &Query) -> Result<Page> {
        let mut run = Run {
            view,
            query,
            clock: self.clock.as_ref(),
            started_ns: self.clock.mono_ns(),
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
        let mut cost = run.cost;
        cost.elapsed_ns = self.clock.mono_ns().saturating_sub(run.started_ns);
        let spans = run.found.into_spans(query.limit);
        let is_full = !spans.is_empty() && spans.len() == query.limit;
        let next = spans.last().filter(|_| is_full);
        Ok(Page {
            next: next.map(|span| Cursor::of(span)),
            spans,
            cost,
        })
    }
}

/// A span that compares by the order of answers.
#[derive(Debug)]
struct Ranked(Arc<Span>);

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Ranked {}
impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        in_order(&self.0, &other.0)
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
    /// The last `limit` in the order of starts.
    Last {
        limit: usize,
        heap: BinaryHeap<Reverse<Ranked>>,
    },
    /// All of them, to be sorted.
    All { sort: Sort, spans: Vec<Arc<Span>> },
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
            Some(sort) => Self::All {
                sort,
                spans: Vec::new(),
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
                heap.push(Reverse(Ranked(span)));
                if heap.len() > *limit {
                    heap.pop();
                }
            }
            Self::All { spans, .. } => {
                if spans.len() == SORT_MAX {
                    return Err(StoreError::TooManyToSort { max: SORT_MAX });
                }
                spans.push(span);
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
                heap.peek().map(|first| first.0.0.start_time_ns)
            }
            _ => None,
        }
    }

    fn is_descending(&self) -> bool {
        matches!(self, Self::Last { .. })
    }

    fn into_spans(self, limit: usize) -> Vec<Arc<Span>> {
        match self {
            Self::First { heap, .. } => heap
                .into_sorted_vec()
                .into_iter()
                .map(|ranked| ranked.0)
                .collect(),
            Self::Last { heap, .. } => heap
                .into_sorted_vec()
                .into_iter()
                .map(|ranked| ranked.0.0)
                .collect(),
            Self::All { sort, mut spans } => {
                spans.sort_unstable_by(|a, b| {
                    let by_duration = duration_ns(a).cmp(&duration_ns(b));
                    let first = match sort {
                        Sort::DurationDescending => by_duration.reverse(),
                        _ => by_duration,
                    };
                    first.then_with(|| in_order(a, b))
                });
                spans.truncate(limit);
                spans
            }
        }
    }
}

/// One question while it is answered.
struct Run<'r> {
    view: &'r View,
    query: &'r Query,
    clock: &'r dyn Clock,
    started_ns: u64,
    found: Found,
    cost: Cost,
}

impl Run<'_> {
    fn buffer(&mut self) -> Result<()> {
        let view = self.view;
        let since = self.since().unwrap_or(0);
        let spans: Box<dyn Iterator<Item = &Arc<Span>>> = if self.found.is_descending() {
            Box::new(view.buffer.in_order().rev())
        } else {
            Box::new(view.buffer.since(since))
        };
        for span in spans {
            let start = span.start_time_ns;
            let is_past = if self.found.is_descending() {
                start < since || self.found.earliest_start().is_some_and(|min| start < min)
            } else {
                self.until().is_some_and(|until| start > until)
            };
            if is_past {
                break;
            }
            self.examine()?;
            if self.is_wanted(span) {
                self.found.add(Arc::clone(span))?;
            }
        }
        Ok(())
    }

    fn segments(&mut self) -> Result<()> {
        let view = self.view;
        let plan = Plan::of(&self.query.filter);
        let mut segments: Vec<&Arc<Sealed>> = view.segments.iter().collect();
        // Those whose spans are first in the answer come first, so that the others can be left out.
        if self.found.is_descending() {
            segments.sort_by_key(|sealed| Reverse(sealed.segment().header().max_timestamp));
        } else {
            segments.sort_by_key(|sealed| sealed.segment().header().min_timestamp);
        }
        for sealed in segments {
            let (since, until) = (self.since(), self.until());
            if !sealed.segment().may_contain_timestamps(since, until) {
                self.cost.segments_pruned += 1;
                continue;
            }
            let candidates = plan
                .candidates(sealed.segment(), since, until)
                .map_err(sealed.error())?;
            self.segment(sealed, &candidates, &plan)?;
        }
        Ok(())
    }

    fn segment(&mut self, sealed: &Sealed, candidates: &Candidates, plan: &Plan<'_>) -> Result<()> {
        let mut reader = sealed.segment().reader();
        let ordinals: Box<dyn Iterator<Item = usize>> = if self.found.is_descending() {
            Box::new(candidates.iter().rev())
        } else {
            Box::new(candidates.iter())
        };
        for ordinal in ordinals {
            let record = reader.record(ordinal).map_err(sealed.error())?;
            let start = record.timestamp();
            let is_past = self.until().is_some_and(|until| start > until)
                || self.since().is_some_and(|since| start < since);
            if is_past {
                // Candidates come in the order of their starts, and are within the window of the question.
                break;
            }
            self.examine()?;
            if !plan.payload_may_match(record.payload()) {
                continue;
            }
            let span = sealed.span(ordinal, record.payload())?;
            if self.is_wanted(&span) && !self.view.is_superseded(&span, sealed.id())? {
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
            .is_none_or(|after| order_key(span) > after.key());
        is_behind && self.query.filter.matches(span)
    }

    /// What can still change the answer starts then or later.
    fn since(&self) -> Option<u64> {
        let after = self.query.after.as_ref().map(Cursor::start);
        [self.query.filter.since, after, self.found.earliest_start()]
            .into_iter()
            .flatten()
            .max()
    }

    /// What can still change the answer starts then or earlier.
    fn until(&self) -> Option<u64> {
        [self.query.filter.until, self.found.latest_start()]
            .into_iter()
            .flatten()
            .min()
    }

    fn examine(&mut self) -> Result<()> {
        self.cost.spans_examined += 1;
        let Some(limit) = self.query.deadline else {
            return Ok(());
        };
        if !self.cost.spans_examined.is_multiple_of(CLOCK_EVERY) {
            return Ok(());
        }
        let elapsed = self.clock.mono_ns().saturating_sub(self.started_ns);
        if u128::from(elapsed) <= limit.as_nanos() {
            return Ok(());
        }
        Err(StoreError::Deadline {
            limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        })
    }
}
