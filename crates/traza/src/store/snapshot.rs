//! A store as it was at one moment.

use std::sync::Arc;
use std::time::Duration;

use super::budget::Budget;
use super::error::Result;
use super::filter::Filter;
use super::query::{Page, Query};
use super::spans::Spans;
use super::{Shared, Store, View};
use crate::span::Span;

/// What the store held when the view was taken. Whatever is written, sealed or merged later, its answers stay the same,
/// and several of them fit together. It costs nothing to take; while it is kept, the files and buffered spans that it
/// shows are kept too.
///
/// The questions about sums and statistics are described in [`analytics`](super::analytics).
#[derive(Clone, Debug)]
pub struct SnapshotView {
    pub(super) shared: Arc<Shared>,
    pub(super) view: Arc<View>,
    deadline: Option<Duration>,
}

impl Store {
    /// Pins what the store holds now.
    pub fn snapshot(&self) -> SnapshotView {
        SnapshotView {
            shared: Arc::clone(&self.shared),
            view: self.shared.view(),
            deadline: None,
        }
    }
}

impl SnapshotView {
    /// The same view, with a limit of time for each question to it. [`SnapshotView::spans`] has none.
    #[must_use]
    pub fn within(self, deadline: Duration) -> Self {
        Self {
            deadline: Some(deadline),
            ..self
        }
    }

    /// [`Store::query`] on this view. The question's own deadline goes before that of the view.
    ///
    /// # Errors
    /// Those of [`Store::query`].
    pub fn query(&self, query: &Query) -> Result<Page> {
        let deadline = query.deadline.or(self.deadline);
        match self.by_duration(query, deadline)? {
            Some(page) => Ok(page),
            None => self.shared.query(&self.view, query, deadline),
        }
    }

    /// [`Store::get_trace`] on this view.
    ///
    /// # Errors
    /// Those of [`Store::get_trace`]; [`StoreError::Deadline`](super::StoreError::Deadline).
    pub fn get_trace(&self, trace_id: &str, tenant: Option<&str>) -> Result<Vec<Arc<Span>>> {
        self.view.trace(trace_id, tenant, self.budget())
    }

    /// Every span that `filter` takes, each once, in the order of starts: what an export needs. They are read while they
    /// are asked for, so that an export of any size takes little memory.
    pub fn spans<'v>(&'v self, filter: &'v Filter) -> Spans<'v> {
        Spans::new(&self.view, filter)
    }

    /// For a question that begins now.
    pub(super) fn budget(&self) -> Budget<'_> {
        Budget::new(self.shared.clock.as_ref(), self.deadline)
    }
}
