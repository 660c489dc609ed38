//! Every span that a filter takes, in its last version, as the few words that statistics need: from the column cache where
//! that can tell, else from the spans.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::digest::Digest;
use crate::llm::{Cost, Facts, Pricing};
use crate::rollup::Counters;
use crate::span::Span;
use crate::store::budget::Budget;
use crate::store::columns::{Columns, Conditions, TextColumn, identity};
use crate::store::error::Result;
use crate::store::filter::{Filter, duration_ns};
use crate::store::{SnapshotView, View};

/// A span.
pub(super) enum Row<'r> {
    Span(&'r Arc<Span>),
    Stored {
        segment: usize,
        columns: &'r Columns,
        ordinal: usize,
    },
}

/// Where to find a span again.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Span(Arc<Span>),
    Stored { segment: usize, ordinal: usize },
}

impl Row<'_> {
    pub(super) fn start_ns(&self) -> u64 {
        match self {
            Self::Span(span) => span.start_time_ns,
            Self::Stored {
                columns, ordinal, ..
            } => columns.start_ns(*ordinal),
        }
    }

    pub(super) fn end_ns(&self) -> u64 {
        match self {
            Self::Span(span) => span.end_time_ns,
            Self::Stored {
                columns, ordinal, ..
            } => columns.end_ns(*ordinal),
        }
    }

    pub(super) fn duration_ns(&self) -> u64 {
        match self {
            Self::Span(span) => duration_ns(span),
            Self::Stored {
                columns, ordinal, ..
            } => columns.duration_ns(*ordinal),
        }
    }

    pub(super) fn service(&self) -> &str {
        self.text(|span| &span.service, TextColumn::Service)
    }

    pub(super) fn name(&self) -> &str {
        self.text(|span| &span.name, TextColumn::Name)
    }

    pub(super) fn status(&self) -> &str {
        self.text(|span| &span.status, TextColumn::Status)
    }

    fn text(&self, of: impl Fn(&Span) -> &str, column: TextColumn) -> &str {
        match self {
            Self::Span(span) => of(span),
            Self::Stored {
                columns, ordinal, ..
            } => columns.text(column, *ordinal),
        }
    }

    pub(super) fn counters(&self, pricing: &Pricing) -> Counters {
        let facts = match self {
            Self::Span(span) => Facts::of(span),
            Self::Stored {
                columns, ordinal, ..
            } => columns.facts(*ordinal),
        };
        let cost = Cost::of(&facts, pricing);
        Counters::of_facts(&facts, cost, self.status(), self.duration_ns())
    }

    pub(super) fn place(&self) -> Place {
        match self {
            Self::Span(span) => Place::Span(Arc::clone(span)),
            Self::Stored {
                segment, ordinal, ..
            } => Place::Stored {
                segment: *segment,
                ordinal: *ordinal,
            },
        }
    }
}

impl SnapshotView {
    /// Hands every match to `visit`, in the order of [`View::each_match`].
    pub(super) fn each_row(&self, filter: &Filter, visit: impl FnMut(&Row<'_>)) -> Result<()> {
        self.each_row_within(filter, &mut self.budget(), visit)
    }

    /// The same for a question that has begun.
    pub(super) fn each_row_within(
        &self,
        filter: &Filter,
        budget: &mut Budget<'_>,
        mut visit: impl FnMut(&Row<'_>),
    ) -> Result<()> {
        let view = self.view.as_ref();
        // Columns do not tell what a pending erasure hides.
        if !view.mask.is_empty() || !Conditions::suffice(filter) {
            return view.each_match(filter, budget, &mut |span| visit(&Row::Span(span)));
        }
        let buffered: HashSet<Digest, RandomState> =
            view.buffer.in_order().map(|span| identity(span)).collect();
        for (segment, sealed) in view.segments.iter().enumerate() {
            let is_outside = !sealed
                .segment()
                .may_contain_timestamps(filter.since, filter.until);
            if is_outside {
                continue;
            }
            budget.check()?;
            let columns = self.shared.columns(sealed)?;
            let Some(conditions) = Conditions::of(filter, &columns) else {
                continue;
            };
            let replaced = self.shared.replaced(view, segment, &columns)?;
            for ordinal in columns.window(filter.since, filter.until) {
                budget.examine()?;
                if conditions.hold(&columns, ordinal)
                    && !replaced.get(ordinal).copied().unwrap_or(false)
                    && (buffered.is_empty() || !buffered.contains(&columns.identity(ordinal)))
                {
                    visit(&Row::Stored {
                        segment,
                        columns: &columns,
                        ordinal,
                    });
                }
            }
        }
        view.each_buffered_match(filter, budget, &mut |span| visit(&Row::Span(span)))
    }
}

impl View {
    /// The spans at these places, in the same order.
    pub(super) fn fetch(&self, places: &[Place]) -> Result<Vec<Arc<Span>>> {
        // In the order of records, so that a block is decoded once.
        let mut wanted: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        let mut spans: Vec<Arc<Span>> = Vec::with_capacity(places.len());
        for (position, place) in places.iter().enumerate() {
            match place {
                Place::Span(span) => spans.push(Arc::clone(span)),
                Place::Stored { segment, ordinal } => {
                    wanted
                        .entry(*segment)
                        .or_default()
                        .push((*ordinal, position));
                    spans.push(Arc::default());
                }
            }
        }
        for (segment, mut records) in wanted {
            let Some(sealed) = self.segments.get(segment) else {
                continue;
            };
            // Descending order decodes a block once and not beyond what is needed of it.
            records.sort_unstable_by(|a, b| b.cmp(a));
            let mut reader = sealed.segment().reader();
            for (ordinal, position) in records {
                let record = reader.record(ordinal).map_err(sealed.error())?;
                let span = sealed.span(ordinal, record.payload())?;
                if let Some(slot) = spans.get_mut(position) {
                    *slot = Arc::new(span);
                }
            }
        }
        Ok(spans)
    }
}
