//! Every span that a filter takes, in its last version and in no particular order.

use std::sync::Arc;

use crate::span::Span;
use crate::store::View;
use crate::store::budget::Budget;
use crate::store::error::Result;
use crate::store::filter::Filter;
use crate::store::query::candidates::Plan;
use crate::store::sealed::Sealed;

impl View {
    /// Hands every match to `visit`: those of the oldest segment first and the buffered ones last, which is the same for
    /// every reader of this view.
    pub(super) fn each_match(
        &self,
        filter: &Filter,
        budget: &mut Budget<'_>,
        visit: &mut dyn FnMut(&Arc<Span>),
    ) -> Result<()> {
        let plan = Plan::of(filter);
        for sealed in self.segments.iter() {
            self.each_match_in(sealed, filter, &plan, budget, visit)?;
        }
        self.each_buffered_match(filter, budget, visit)
    }

    /// Those of one segment, in the order of its records.
    pub(super) fn each_match_in(
        &self,
        sealed: &Sealed,
        filter: &Filter,
        plan: &Plan<'_>,
        budget: &mut Budget<'_>,
        visit: &mut dyn FnMut(&Arc<Span>),
    ) -> Result<()> {
        let segment = sealed.segment();
        if !segment.may_contain_timestamps(filter.since, filter.until) {
            return Ok(());
        }
        let candidates = plan.candidates(sealed, filter.since, filter.until)?;
        let mut reader = segment.reader();
        let mut block_end = 0;
        for ordinal in candidates.iter() {
            budget.examine()?;
            candidates
                .reach(segment, &mut reader, ordinal, &mut block_end)
                .map_err(sealed.error())?;
            let record = reader.record(ordinal).map_err(sealed.error())?;
            if !plan.payload_may_match(sealed, record.payload()) {
                continue;
            }
            let span = sealed.span(ordinal, record.payload())?;
            let is_wanted = filter.matches(&span) && !self.mask.hides(&span);
            if is_wanted && !self.is_superseded(&span, sealed.id())? {
                visit(&Arc::new(span));
            }
        }
        Ok(())
    }

    /// Those that no segment holds yet, in the order of answers.
    pub(super) fn each_buffered_match(
        &self,
        filter: &Filter,
        budget: &mut Budget<'_>,
        visit: &mut dyn FnMut(&Arc<Span>),
    ) -> Result<()> {
        for span in self.buffer.since(filter.since.unwrap_or(0)) {
            if filter.until.is_some_and(|until| span.start_time_ns > until) {
                break;
            }
            budget.examine()?;
            if filter.matches(span) && !self.mask.hides(span) {
                visit(span);
            }
        }
        Ok(())
    }
}
