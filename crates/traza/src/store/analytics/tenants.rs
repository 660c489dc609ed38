//! What each tenant has in the store.

use std::collections::{BTreeMap, BTreeSet};

use crate::payload::live_payloads;
use crate::span::Span;
use crate::store::SnapshotView;
use crate::store::error::Result;
use crate::store::filter::Filter;

/// What a tenant has in the store. Older versions of a span do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantUsage {
    /// Who; empty for the default tenant.
    pub tenant: String,
    /// Number of spans.
    pub spans: u64,
    /// Number of traces.
    pub traces: u64,
    /// Length of the spans as JSON.
    pub span_bytes: u64,
    /// Length of the payloads that the spans refer to, as the references have it, each payload once. One that two tenants
    /// refer to counts for both.
    pub payload_bytes: u64,
    /// The earliest start, in nanoseconds since the Unix epoch.
    pub first_start_ns: u64,
    /// The latest end.
    pub last_end_ns: u64,
}

#[derive(Default)]
struct Tally {
    usage: TenantUsage,
    traces: BTreeSet<String>,
    payloads: BTreeMap<String, u64>,
}

impl Tally {
    fn add(&mut self, span: &Span, json_len: u64) {
        let usage = &mut self.usage;
        usage.first_start_ns = match usage.spans {
            0 => span.start_time_ns,
            _ => usage.first_start_ns.min(span.start_time_ns),
        };
        usage.last_end_ns = usage.last_end_ns.max(span.end_time_ns);
        usage.spans += 1;
        usage.span_bytes = usage.span_bytes.saturating_add(json_len);
        if !self.traces.contains(span.trace_id.as_str()) {
            self.traces.insert(span.trace_id.to_string());
        }
        for (reference, bytes) in live_payloads(span) {
            let known = self.payloads.entry(reference.to_owned()).or_default();
            *known = (*known).max(bytes.unwrap_or(0));
        }
    }

    fn finish(self, tenant: String) -> TenantUsage {
        let bytes = self.payloads.values().copied();
        TenantUsage {
            tenant,
            traces: self.traces.len() as u64,
            payload_bytes: bytes.fold(0, u64::saturating_add),
            ..self.usage
        }
    }
}

impl SnapshotView {
    /// What each tenant that has any span uses, in the order of their names; or what one of them does. Reads every span.
    ///
    /// # Errors
    /// [`StoreError::Deadline`](crate::store::StoreError::Deadline); damage of a segment.
    pub fn tenants(&self, only: Option<&str>) -> Result<Vec<TenantUsage>> {
        let filter = Filter {
            tenant: only.map(str::to_owned),
            ..Filter::default()
        };
        let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
        let mut json = String::new();
        self.view
            .each_match(&filter, &mut self.budget(), &mut |span| {
                json.clear();
                span.write(&mut json);
                let tally = tallies.entry(span.tenant.to_string()).or_default();
                tally.add(span, json.len() as u64);
            })?;
        Ok(tallies
            .into_iter()
            .map(|(tenant, tally)| tally.finish(tenant))
            .collect())
    }
}
