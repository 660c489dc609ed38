//! Sessions: spans that belong together across traces.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Scope;
use crate::json::Text;
use crate::llm::{Cost, Facts, Pricing, SessionKey};
use crate::rollup::{Counters, SessionId, SessionTotals};
use crate::span::Span;
use crate::store::SnapshotView;
use crate::store::error::Result;
use crate::store::filter::Filter;

/// What the spans of a session add up to.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSummary {
    /// Which session.
    pub id: SessionId,
    /// The attribute that named it; when several did, the one that goes first.
    pub key: Option<SessionKey>,
    /// The sums over its spans.
    pub counters: Counters,
    /// The earliest start of a span, in nanoseconds since the Unix epoch.
    pub first_start_ns: u64,
    /// The latest end of a span.
    pub last_end_ns: u64,
    /// How many traces its spans are in.
    pub trace_count: usize,
}

/// A session with its traces.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionDetail {
    /// The sums. The tenant is empty also when the spans are of several tenants.
    pub summary: SessionSummary,
    /// Its traces in the order of their first starts.
    pub traces: Vec<SessionTrace>,
}

/// What the spans of a session within one trace add up to.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionTrace {
    /// Which trace.
    pub trace_id: String,
    /// The name of the earliest of these spans.
    pub root_name: String,
    /// The sums over these spans.
    pub counters: Counters,
    /// The earliest start of one of them, in nanoseconds since the Unix epoch.
    pub first_start_ns: u64,
    /// The latest end of one of them.
    pub last_end_ns: u64,
}

impl SessionSummary {
    fn of(id: SessionId, totals: &SessionTotals) -> Self {
        Self {
            id,
            key: totals.key,
            counters: totals.counters,
            first_start_ns: totals.first_start_ns,
            last_end_ns: totals.last_end_ns,
            trace_count: totals.trace_ids.len(),
        }
    }
}

impl SnapshotView {
    /// The sessions of the scope, at most `limit`: those first whose last end is the latest, then in the order of tenant and
    /// name. Only spans of the scope count.
    ///
    /// # Errors
    /// [`StoreError::Deadline`](crate::store::StoreError::Deadline); damage of a segment that had to be read.
    pub fn sessions(&self, scope: &Scope, limit: usize) -> Result<Vec<SessionSummary>> {
        let tenant = scope.tenant.as_deref();
        let mut sums: BTreeMap<SessionId, SessionTotals> = BTreeMap::new();
        self.each_totals(scope, true, &mut |totals| {
            for (id, session) in &totals.sessions {
                if tenant.is_some_and(|tenant| tenant != id.tenant) {
                    continue;
                }
                match sums.get_mut(id) {
                    Some(known) => known.add(session),
                    None => {
                        sums.insert(id.clone(), session.clone());
                    }
                }
            }
        })?;
        let mut sessions: Vec<SessionSummary> = sums
            .into_iter()
            .map(|(id, totals)| SessionSummary::of(id, &totals))
            .collect();
        // Stable: they are in the order of tenant and name.
        sessions.sort_by_key(|session| Reverse(session.last_end_ns));
        sessions.truncate(limit);
        Ok(sessions)
    }

    /// The session with this name, of one tenant or merged of all; `Some("")` is the default one. `None` when no span
    /// belongs to it.
    ///
    /// # Errors
    /// [`StoreError::Deadline`](crate::store::StoreError::Deadline); damage of a segment that had to be read.
    pub fn session(&self, name: &str, tenant: Option<&str>) -> Result<Option<SessionDetail>> {
        let filter = Filter {
            session: Some(name.to_owned()),
            tenant: tenant.map(str::to_owned),
            ..Filter::default()
        };
        let pricing = self.shared.options.pricing.as_ref();
        let mut found: Option<Found> = None;
        self.view
            .each_match(&filter, &mut self.budget(), &mut |span| match &mut found {
                Some(found) => found.add(span, pricing),
                None => found = Some(Found::first(span, pricing)),
            })?;
        Ok(found.map(|found| found.finish(name)))
    }
}

/// A session in the making.
struct Found {
    /// The one tenant of its spans, while they have one.
    tenant: Option<String>,
    totals: SessionTotals,
    /// The traces by their ids, each with the place of its root in the order of spans.
    traces: BTreeMap<String, (Place, SessionTrace)>,
}

/// Start, end, tenant and span id: the order of the spans of a trace.
type Place = (u64, u64, Text, Text);

impl Found {
    fn first(span: &Span, pricing: &Pricing) -> Self {
        let mut found = Self {
            tenant: Some(span.tenant.to_string()),
            totals: SessionTotals {
                counters: Counters::default(),
                first_start_ns: u64::MAX,
                last_end_ns: 0,
                trace_ids: std::collections::BTreeSet::new(),
                key: None,
            },
            traces: BTreeMap::new(),
        };
        found.add(span, pricing);
        found
    }

    fn add(&mut self, span: &Span, pricing: &Pricing) {
        let facts = Facts::of(span);
        let counters = Counters::of(span, &facts, Cost::of(&facts, pricing));
        self.tenant.take_if(|tenant| *tenant != span.tenant);
        self.totals.add(&SessionTotals {
            counters,
            first_start_ns: span.start_time_ns,
            last_end_ns: span.end_time_ns,
            trace_ids: std::iter::once(span.trace_id.to_string()).collect(),
            key: facts.session.map(|session| session.key),
        });
        let place = (
            span.start_time_ns,
            span.end_time_ns,
            span.tenant.clone(),
            span.span_id.clone(),
        );
        let trace = SessionTrace {
            trace_id: span.trace_id.to_string(),
            root_name: span.name.to_string(),
            counters,
            first_start_ns: span.start_time_ns,
            last_end_ns: span.end_time_ns,
        };
        match self.traces.get_mut(span.trace_id.as_str()) {
            Some((root, known)) => {
                known.counters.add(&counters);
                known.first_start_ns = known.first_start_ns.min(trace.first_start_ns);
                known.last_end_ns = known.last_end_ns.max(trace.last_end_ns);
                if place < *root {
                    *root = place;
                    known.root_name = trace.root_name;
                }
            }
            None => {
                self.traces.insert(trace.trace_id.clone(), (place, trace));
            }
        }
    }

    fn finish(self, name: &str) -> SessionDetail {
        let id = SessionId {
            tenant: self.tenant.unwrap_or_default(),
            session: name.to_owned(),
        };
        let traces = self.traces.into_values().map(|(_, trace)| trace);
        let mut traces: Vec<SessionTrace> = traces.collect();
        traces.sort_by_key(|trace| trace.first_start_ns);
        SessionDetail {
            summary: SessionSummary::of(id, &self.totals),
            traces,
        }
    }
}
