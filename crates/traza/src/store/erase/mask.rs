//! What readers and writers must not see or bring back while erasures are pending.

use crate::logs::annotation::Annotation;
use crate::logs::tombstone::{Erasure, Subject};
use crate::payload::ContentAddress;
use crate::span::Span;

use super::coverage::{Coverage, Fate};

/// All pending erasures. Part of every view: who has the view sees nothing that they cover.
#[derive(Debug, Default)]
pub(in crate::store) struct Mask {
    pending: Vec<Coverage>,
}

impl Mask {
    /// Of erasures that are not settled.
    pub(in crate::store) fn of<'e>(pending: impl Iterator<Item = &'e Erasure>) -> Self {
        Self {
            pending: pending.map(Coverage::of).collect(),
        }
    }

    /// True when no erasure is pending: nothing is hidden then, and sums over whole segments are right.
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// True for a span that no answer may hold.
    pub(in crate::store) fn hides(&self, span: &Span) -> bool {
        self.pending.iter().any(|each| each.covers(span))
    }

    /// True for an annotation that no answer may hold, and that is not recorded.
    pub(in crate::store) fn hides_annotation(&self, annotation: &Annotation) -> bool {
        self.pending
            .iter()
            .any(|each| each.drops_annotation(annotation))
    }

    /// True for a payload that an erasure accounts for: whether it goes is not known yet.
    pub(in crate::store) fn withholds(&self, address: ContentAddress) -> bool {
        self.pending
            .iter()
            .any(|each| each.payloads.contains(&address))
    }

    /// True for a payload that is being erased whoever refers to it.
    pub(in crate::store) fn erases(&self, address: ContentAddress) -> bool {
        self.pending.iter().any(|each| each.erases(address))
    }

    /// True for a tenant of which everything is being erased.
    pub(in crate::store) fn erases_tenant(&self, tenant: &str) -> bool {
        self.tenants().any(|erased| erased == tenant)
    }

    /// The tenants of which everything is being erased.
    pub(in crate::store) fn tenants(&self) -> impl Iterator<Item = &str> {
        self.pending.iter().filter_map(|each| match &each.subject {
            Subject::Tenant { tenant } => Some(tenant.as_str()),
            _ => None,
        })
    }

    /// Takes out of a batch what is being erased. Answers how many spans.
    pub(in crate::store) fn suppress(&self, spans: &mut Vec<Span>) -> usize {
        let count = spans.len();
        spans.retain(|span| !self.pending.iter().any(|each| each.drops(span)));
        count - spans.len()
    }

    /// Puts markers in the place of payloads that are being erased.
    pub(in crate::store) fn redact(&self, span: &mut Span) {
        for each in &self.pending {
            if let Fate::Redacted(redacted) = each.fate(span) {
                *span = Span::clone(&redacted);
            }
        }
    }
}
