//! Folds spans into a rollup.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::hash::Hasher as _;

use fnv::FnvHasher;

use super::day::day_of;
use super::{Counters, Rollup, SessionId, SessionTotals, add_to};
use crate::llm::{Cost, Facts, Pricing};
use crate::payload::live_references;
use crate::span::Span;

/// A rollup in the making, for spans that come one by one.
#[derive(Clone, Debug)]
pub struct Fold<'a> {
    pricing: &'a Pricing,
    rollup: Rollup,
}

impl<'a> Fold<'a> {
    /// No spans yet; costs will be derived by `pricing`.
    pub fn new(pricing: &'a Pricing) -> Self {
        Self {
            pricing,
            rollup: Rollup::default(),
        }
    }

    /// Adds a span. The order counts: sums of doubles round, so that only the order of the records gives the same bytes
    /// again.
    pub fn push(&mut self, span: &Span) {
        self.push_with(span, &Facts::of(span));
    }

    /// [`push`](Self::push) for a caller that has the facts of the span.
    pub fn push_with(&mut self, span: &Span, facts: &Facts<'_>) {
        let counters = Counters::of(span, facts, Cost::of(facts, self.pricing));
        let rollup = &mut self.rollup;
        let totals = &mut rollup.totals;
        if let Some(model) = &facts.model {
            add_to(&mut totals.by_model, model, &counters);
        }
        if let Some(provider) = &facts.provider {
            add_to(&mut totals.by_provider, provider, &counters);
        }
        add_to(&mut totals.by_service, &span.service, &counters);
        add_to(&mut totals.by_day, &day_of(span.start_time_ns), &counters);
        if let Some(session) = &facts.session {
            let id = SessionId {
                tenant: span.tenant.to_string(),
                session: session.id.to_string(),
            };
            let span_totals = SessionTotals {
                counters,
                first_start_ns: span.start_time_ns,
                last_end_ns: span.end_time_ns,
                trace_ids: BTreeSet::from([span.trace_id.to_string()]),
                key: Some(session.key),
            };
            totals
                .sessions
                .entry(id)
                .and_modify(|known| known.add(&span_totals))
                .or_insert(span_totals);
        }
        rollup.min_end_ns = rollup.min_end_ns.min(span.end_time_ns);
        rollup.max_end_ns = rollup.max_end_ns.max(span.end_time_ns);
        let hash = key_hash(&span.tenant, &span.trace_id, &span.span_id);
        rollup.key_hashes.push(hash);
        for reference in live_references(span) {
            if !rollup.payload_references.contains(reference) {
                rollup.payload_references.insert(reference.to_owned());
            }
        }
    }

    /// The rollup of all spans that were added.
    pub fn finish(mut self) -> Rollup {
        self.rollup.key_hashes.sort_unstable();
        self.rollup.key_hashes.dedup();
        self.rollup
    }
}

impl Rollup {
    /// The rollup of spans in the order of their records, with costs derived by `pricing`.
    ///
    /// ```
    /// use traza::{llm::Pricing, rollup::Rollup, span::Span};
    /// let span = Span::from_json(br#"{"trace_id":"t","span_id":"s","name":"chat","service":"bot",
    ///     "start_time_ns":1,"end_time_ns":2,"attributes":{"llm.model":"m","llm.cost_usd":0.25}}"#)?;
    /// let rollup = Rollup::fold([&span], &Pricing::default());
    /// assert_eq!(rollup.totals.by_model["m"].cost_metered_calls, 1);
    /// assert_eq!(rollup.totals.by_day["1970-01-01"].spans, 1);
    /// assert!(rollup.may_hold("", "t", "s"));
    /// # Ok::<(), traza::span::SpanError>(())
    /// ```
    pub fn fold(spans: impl IntoIterator<Item: Borrow<Span>>, pricing: &Pricing) -> Self {
        let mut fold = Fold::new(pricing);
        for span in spans {
            fold.push(span.borrow());
        }
        fold.finish()
    }
}

/// The hash of a span's identity: FNV-1a 64 of tenant, trace id and span id with a zero byte between them. The tenant
/// and its zero byte are there even for the default one.
pub fn key_hash(tenant: &str, trace_id: &str, span_id: &str) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(tenant.as_bytes());
    hasher.write(&[0]);
    hasher.write(trace_id.as_bytes());
    hasher.write(&[0]);
    hasher.write(span_id.as_bytes());
    hasher.finish()
}
