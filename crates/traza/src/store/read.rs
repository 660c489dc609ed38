//! Answers that are about single traces and spans.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::budget::Budget;
use super::buffer::in_order;
use super::error::Result;
use super::{Store, View};
use crate::json::Text;
use crate::span::Span;

impl Store {
    /// The spans of a trace, at any age: the last version of each, in the order of their starts. Of all tenants, or of
    /// one; `Some("")` is the default one. Empty when there is no such trace.
    ///
    /// # Errors
    /// Damage of a segment that holds some of them; a failing disk.
    pub fn get_trace(&self, trace_id: &str, tenant: Option<&str>) -> Result<Vec<Arc<Span>>> {
        let budget = Budget::new(self.shared.clock.as_ref(), None);
        self.shared.view().trace(trace_id, tenant, budget)
    }
}

impl View {
    pub(super) fn trace(
        &self,
        trace_id: &str,
        tenant: Option<&str>,
        mut budget: Budget<'_>,
    ) -> Result<Vec<Arc<Span>>> {
        let is_wanted = |span: &Span| tenant.is_none_or(|tenant| span.tenant == tenant);
        // The newest comes first, and stays.
        let mut newest: BTreeMap<(Text, Text), Arc<Span>> = BTreeMap::new();
        let mut add = |span: Arc<Span>| {
            if is_wanted(&span) {
                let key = (span.tenant.clone(), span.span_id.clone());
                newest.entry(key).or_insert(span);
            }
        };
        for span in self.buffer.trace(trace_id) {
            budget.examine()?;
            add(Arc::clone(span));
        }
        for sealed in self.segments.iter().rev() {
            let spans = sealed.trace(trace_id)?;
            // Within a segment the later record counts, should it hold one identity twice.
            for span in spans.into_iter().rev() {
                budget.examine()?;
                add(Arc::new(span));
            }
            budget.check()?;
        }
        // After the choice of versions: one that is being erased hides those that it replaced.
        newest.retain(|_, span| !self.mask.hides(span));
        let mut spans: Vec<Arc<Span>> = newest.into_values().collect();
        spans.sort_unstable_by(|a, b| in_order(a, b));
        Ok(spans)
    }

    /// True when a newer source than segment `id` holds the identity of `span`.
    pub(super) fn is_superseded(&self, span: &Span, id: u64) -> Result<bool> {
        Ok(self.newer_version(span, id)?.is_some())
    }

    /// The newest version of `span`, if a newer source than segment `id` holds one.
    pub(super) fn newer_version(&self, span: &Span, id: u64) -> Result<Option<Arc<Span>>> {
        if let Some(buffered) = self.buffer.version_of(span) {
            return Ok(Some(Arc::clone(buffered)));
        }
        for newer in self.segments.iter().rev() {
            if newer.id() <= id {
                break;
            }
            if let Some(version) = newer.version_of(span)? {
                return Ok(Some(Arc::new(version)));
            }
        }
        Ok(None)
    }
}
