//! What a subject amounts to when its erasure is asked for.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::budget::Budget;
use super::super::error::Result;
use super::super::filter::Filter;
use super::super::query::Query;
use super::super::{Shared, View};
use super::coverage::Coverage;
use super::mask::Mask;
use crate::logs::tombstone::{Scope, SpanKey, Subject};
use crate::payload;
use crate::span::Span;

impl Shared {
    /// The spans of the subject, and the payloads that they refer to. Of a tenant neither is listed: its name says as much,
    /// and there can be very many.
    ///
    /// The last version of a span decides whether it belongs to the subject; then all its versions go. Older versions that
    /// belong to it go too, without the span.
    pub(super) fn resolve(&self, subject: Subject) -> Result<Scope> {
        let view = self.unmasked_view();
        let mut scope = Scope {
            subject,
            span_keys: BTreeSet::new(),
            payload_refs: BTreeSet::new(),
            eval_datasets: Vec::new(),
            eval_experiments: Vec::new(),
        };
        match scope.subject.clone() {
            Subject::Trace { trace_id, tenant } => {
                let budget = Budget::new(self.clock.as_ref(), None);
                let spans = view.trace(&trace_id, Some(&tenant), budget)?;
                scope.span_keys = spans.iter().map(|span| key_of(span)).collect();
            }
            Subject::Span {
                trace_id,
                span_id,
                tenant,
            } => {
                scope.span_keys.insert(SpanKey {
                    tenant,
                    trace_id,
                    span_id,
                });
            }
            Subject::Session { session_id, tenant } => {
                let mut query = Query::new(Filter {
                    session: Some(session_id),
                    tenant: Some(tenant),
                    ..Filter::default()
                });
                query.limit = usize::MAX;
                let spans = self.query(&view, &query, None)?.spans;
                scope.span_keys = spans.iter().map(|span| key_of(span)).collect();
            }
            Subject::Payload { reference } => {
                let coverage = Coverage::of_scope(&scope);
                view.each_covered(&coverage, &mut |span| {
                    scope.span_keys.insert(key_of(span));
                })?;
                scope.payload_refs.insert(reference);
                return Ok(scope);
            }
            Subject::Tenant { tenant } => {
                let found = self.logs.evals().survey_tenant(&tenant);
                scope.eval_datasets = found.datasets;
                scope.eval_experiments = found.experiments;
                return Ok(scope);
            }
        }
        let coverage = Coverage::of_scope(&scope);
        scope.payload_refs = view.references(&coverage)?;
        Ok(scope)
    }

    /// The payloads that the spans and the examples of a tenant refer to.
    pub(super) fn references_of_tenant(
        &self,
        coverage: &Coverage,
        tenant: &str,
    ) -> Result<BTreeSet<String>> {
        let mut references = self.unmasked_view().references(coverage)?;
        let of_evals = self.logs.evals().survey_tenant(tenant).payload_refs;
        references.extend(of_evals.iter().filter_map(|reference| canonical(reference)));
        Ok(references)
    }

    /// The view with what is being erased.
    pub(super) fn unmasked_view(&self) -> View {
        View {
            mask: Arc::new(Mask::default()),
            ..View::clone(&self.view())
        }
    }
}

impl View {
    /// Hands out every record that the erasure covers, older versions too.
    pub(super) fn each_covered(
        &self,
        coverage: &Coverage,
        visit: &mut dyn FnMut(&Span),
    ) -> Result<()> {
        for span in self.buffer.in_order() {
            if coverage.covers(span) {
                visit(span);
            }
        }
        for sealed in self.segments.iter() {
            coverage.each_record_in(sealed, &mut |span| visit(&span))?;
        }
        Ok(())
    }

    fn references(&self, coverage: &Coverage) -> Result<BTreeSet<String>> {
        let mut references = BTreeSet::new();
        self.each_covered(coverage, &mut |span| {
            references.extend(payload::live_references(span).filter_map(canonical));
        })?;
        Ok(references)
    }
}

fn key_of(span: &Span) -> SpanKey {
    SpanKey {
        tenant: span.tenant.to_string(),
        trace_id: span.trace_id.to_string(),
        span_id: span.span_id.to_string(),
    }
}

/// The reference as the store spells it, if it names a payload.
fn canonical(reference: &str) -> Option<String> {
    let address: payload::ContentAddress = reference.parse().ok()?;
    Some(address.to_string())
}
