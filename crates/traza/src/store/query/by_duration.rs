//! Answers in the order of durations from columns: which spans come first is known before a single one is parsed.

use std::time::Duration;

use super::{Page, Query, SORT_MAX, Sort};
use crate::store::SnapshotView;
use crate::store::budget::Budget;
use crate::store::columns::Conditions;
use crate::store::error::{Result, StoreError};

use super::{Cost, Cursor};

impl SnapshotView {
    /// The answer, if columns can tell it.
    pub(in crate::store) fn by_duration(
        &self,
        query: &Query,
        deadline: Option<Duration>,
    ) -> Result<Option<Page>> {
        let longest_first = match query.sort {
            Some(Sort::DurationAscending) => false,
            Some(Sort::DurationDescending) => true,
            _ => return Ok(None),
        };
        let filter = &query.filter;
        let is_told = self.view.mask.is_empty()
            && query.after.is_none()
            && query.limit > 0
            && Conditions::suffice(filter);
        if !is_told {
            return Ok(None);
        }
        let mut budget = Budget::new(self.shared.clock.as_ref(), deadline);
        let (spans, count) =
            self.first_by_duration(filter, query.limit, longest_first, &mut budget)?;
        if count > SORT_MAX {
            return Err(StoreError::TooManyToSort { max: SORT_MAX });
        }
        let segments = self.view.segments.iter();
        let pruned = segments.filter(|sealed| {
            let segment = sealed.segment();
            !segment.may_contain_timestamps(filter.since, filter.until)
        });
        let next = spans.last().filter(|_| spans.len() == query.limit);
        Ok(Some(Page {
            next: next.map(|span| Cursor::of(span)),
            cost: Cost {
                elapsed_ns: budget.elapsed_ns(),
                segments_examined: self.view.segments.len(),
                segments_pruned: pruned.count(),
                spans_examined: budget.examined(),
            },
            spans,
        }))
    }
}
