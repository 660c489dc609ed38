//! What an erasure covers: which spans and annotations, and where in a segment they are.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use memchr::memmem;

use super::super::error::Result;
use super::super::liveness::addresses;
use super::super::sealed::Sealed;
use crate::json::Value;
use crate::llm::{Facts, SessionKey};
use crate::logs::annotation::Annotation;
use crate::logs::tombstone::{Erasure, Scope, Subject};
use crate::payload::{self, ContentAddress};
use crate::record::{TENANT_KEY, attribute_texts};
use crate::segment::Segment;
use crate::span::{PAYLOAD_MEMBER, Span};

/// What becomes of a span.
#[derive(Debug)]
pub(super) enum Fate {
    /// It is not covered.
    Stays,
    /// It goes.
    Dropped,
    /// It stays, with markers in the place of the payload.
    Redacted(Arc<Span>),
}

/// What one erasure covers.
#[derive(Debug)]
pub(in crate::store) struct Coverage {
    pub(super) subject: Subject,
    /// The spans that were found when it was asked for, tenant and span id by trace id.
    keys: HashMap<String, BTreeSet<(String, String)>>,
    /// The payloads that it accounts for.
    pub(super) payloads: BTreeSet<ContentAddress>,
    /// The payload that is its subject.
    payload: Option<ContentAddress>,
}

impl Coverage {
    pub(super) fn of(erasure: &Erasure) -> Self {
        Self::of_scope(&erasure.scope)
    }

    pub(super) fn of_scope(scope: &Scope) -> Self {
        let mut keys: HashMap<String, BTreeSet<(String, String)>> = HashMap::new();
        for key in &scope.span_keys {
            let of_trace = keys.entry(key.trace_id.clone()).or_default();
            of_trace.insert((key.tenant.clone(), key.span_id.clone()));
        }
        let payload = match &scope.subject {
            Subject::Payload { reference } => reference.parse().ok(),
            _ => None,
        };
        Self {
            subject: scope.subject.clone(),
            keys,
            payloads: addresses(scope.payload_refs.iter().map(String::as_str)).collect(),
            payload,
        }
    }

    /// True for a span that was found when the erasure was asked for.
    pub(super) fn names(&self, tenant: &str, trace_id: &str, span_id: &str) -> bool {
        self.keys
            .get(trace_id)
            .is_some_and(|spans| spans.contains(&(tenant.to_owned(), span_id.to_owned())))
    }

    /// True for a span that has to go.
    pub(super) fn drops(&self, span: &Span) -> bool {
        let covers = match &self.subject {
            Subject::Trace { trace_id, tenant } => {
                span.tenant == *tenant && span.trace_id == *trace_id
            }
            Subject::Session { session_id, tenant } => {
                span.tenant == *tenant
                    && Facts::of(span)
                        .session
                        .is_some_and(|found| found.id == *session_id)
            }
            Subject::Tenant { tenant } => span.tenant == *tenant,
            // The one span is among the keys.
            Subject::Span { .. } => false,
            Subject::Payload { .. } => return false,
        };
        covers || self.names(&span.tenant, &span.trace_id, &span.span_id)
    }

    /// True for a span that refers to the payload that is the subject.
    pub(super) fn redacts(&self, span: &Span) -> bool {
        self.payload.is_some_and(|payload| {
            addresses(payload::live_references(span)).any(|address| address == payload)
        })
    }

    /// True for a span in which there is something to be erased.
    pub(super) fn covers(&self, span: &Span) -> bool {
        self.drops(span) || self.redacts(span)
    }

    /// True when the payload is the subject.
    pub(super) fn erases(&self, address: ContentAddress) -> bool {
        self.payload == Some(address)
    }

    pub(super) fn fate(&self, span: &Span) -> Fate {
        if self.drops(span) {
            return Fate::Dropped;
        }
        match self.payload {
            Some(payload) if self.redacts(span) => {
                let mut redacted = span.clone();
                payload::redact(&mut redacted, payload);
                Fate::Redacted(Arc::new(redacted))
            }
            _ => Fate::Stays,
        }
    }

    /// True for an annotation that has to go.
    pub(super) fn drops_annotation(&self, annotation: &Annotation) -> bool {
        let Annotation {
            trace_id,
            span_id,
            tenant,
            session_id,
            ..
        } = annotation;
        let covers = match &self.subject {
            Subject::Trace {
                trace_id: erased,
                tenant: of,
            } => tenant == of && trace_id == erased,
            Subject::Session {
                session_id: erased,
                tenant: of,
            } => tenant == of && session_id == erased,
            Subject::Tenant { tenant: erased } => tenant == erased,
            Subject::Span { .. } => false,
            Subject::Payload { .. } => return false,
        };
        covers || (!span_id.is_empty() && self.names(tenant, trace_id, span_id))
    }

    /// Hands out every record of the segment that the erasure covers, older versions too.
    ///
    /// Which records are looked at is up to the indexes of the segment itself, never to its sidecar: that is a cache, and
    /// what it lacked would stay. No index has payloads, so their erasure goes through all records.
    pub(super) fn each_record_in(
        &self,
        sealed: &Sealed,
        visit: &mut dyn FnMut(Span),
    ) -> Result<()> {
        let segment = sealed.segment();
        if self.payload.is_some() {
            for record in segment.scan() {
                let record = record.map_err(sealed.error())?;
                let text = record.payload();
                if memmem::find(text, PAYLOAD_MEMBER.as_bytes()).is_none() {
                    continue;
                }
                let span = sealed.span(record.ordinal(), text)?;
                if self.redacts(&span) {
                    visit(span);
                }
            }
            return Ok(());
        }
        let offsets = self.offsets(segment);
        let ordinals = segment
            .ordinals(offsets.into_iter())
            .map_err(sealed.error())?;
        let mut reader = segment.reader();
        for ordinal in ordinals {
            let record = reader.record(ordinal).map_err(sealed.error())?;
            let span = sealed.span(ordinal, record.payload())?;
            if self.drops(&span) {
                visit(span);
            }
        }
        Ok(())
    }

    /// Where the records are that the indexes propose.
    fn offsets(&self, segment: &Segment) -> BTreeSet<u64> {
        let mut offsets = BTreeSet::new();
        for trace_id in self.keys.keys() {
            offsets.extend(segment.trace_candidate_offsets(trace_id));
        }
        match &self.subject {
            Subject::Trace { trace_id, .. } => {
                offsets.extend(segment.trace_candidate_offsets(trace_id));
            }
            Subject::Session { session_id, .. } => {
                let texts = attribute_texts(&Value::from(session_id.as_str()));
                for key in SessionKey::ALL {
                    for text in &texts {
                        let found = segment.attribute_candidate_offsets(key.attribute(), text);
                        offsets.extend(found);
                    }
                }
            }
            Subject::Tenant { tenant } => {
                offsets.extend(segment.attribute_candidate_offsets(TENANT_KEY, tenant));
            }
            Subject::Span { .. } | Subject::Payload { .. } => {}
        }
        offsets
    }
}
