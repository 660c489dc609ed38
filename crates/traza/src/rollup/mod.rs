//! What spans add up to, by model, provider, service, day and session, and the sidecar that keeps it beside a segment
//! (`docs/formats/traza-store.md`, rollup sidecar). No files.
//!
//! A sidecar is a cache: whatever is wrong with one, it is made again from its segment. That is why [`decode`] knows no
//! leniency, and why its error needs no repair but this.

mod codec;
mod counters;
mod day;
mod error;
mod fold;
pub mod layout;
mod prologue;

pub use codec::{decode, encode};
pub use counters::Counters;
pub use error::RollupError;
pub use fold::{Fold, key_hash};
pub use prologue::{Binding, Prologue};

use std::collections::{BTreeMap, BTreeSet};

use crate::llm::SessionKey;

/// What some spans add up to, and what else a store wants to know of a segment without decoding it.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollup {
    /// The sums.
    pub totals: Totals,
    /// Smallest end of a span in nanoseconds since the Unix epoch; 2^64 - 1 without spans.
    pub min_end_ns: u64,
    /// Largest end of a span in nanoseconds since the Unix epoch; 0 without spans.
    pub max_end_ns: u64,
    /// The [`key_hash`] of every span, ascending.
    pub key_hashes: Vec<u64>,
    /// The offloaded payloads that the spans refer to, but for erased ones.
    pub payload_references: BTreeSet<String>,
}

/// Sums over spans, grouped in five ways. A span that lacks what a group is named by is not in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// By the model that was called.
    pub by_model: BTreeMap<String, Counters>,
    /// By who serves the model.
    pub by_provider: BTreeMap<String, Counters>,
    /// By service; every span has one, maybe the empty one.
    pub by_service: BTreeMap<String, Counters>,
    /// By the day in UTC on which the span started, written `YYYY-MM-DD`; every span has one.
    pub by_day: BTreeMap<String, Counters>,
    /// By session.
    pub sessions: BTreeMap<SessionId, SessionTotals>,
}

/// What identifies a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// Whose it is; empty for the default tenant.
    pub tenant: String,
    /// Its name.
    pub session: String,
}

/// What the spans of a session add up to.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionTotals {
    /// The sums.
    pub counters: Counters,
    /// Smallest start of its spans in nanoseconds since the Unix epoch.
    pub first_start_ns: u64,
    /// Largest end of its spans in nanoseconds since the Unix epoch.
    pub last_end_ns: u64,
    /// The traces that its spans belong to.
    pub trace_ids: BTreeSet<String>,
    /// The attribute that named the session; when several did, the one that goes first. A sidecar can leave it open.
    pub key: Option<SessionKey>,
}

impl Default for Rollup {
    /// The rollup of no spans.
    fn default() -> Self {
        Self {
            totals: Totals::default(),
            min_end_ns: u64::MAX,
            max_end_ns: 0,
            key_hashes: Vec::new(),
            payload_references: BTreeSet::new(),
        }
    }
}

impl Rollup {
    /// True unless there is certainly no span of this identity. A span that is found this way has still to be looked at:
    /// two identities can have one hash.
    pub fn may_hold(&self, tenant: &str, trace_id: &str, span_id: &str) -> bool {
        let hash = key_hash(tenant, trace_id, span_id);
        self.key_hashes.binary_search(&hash).is_ok()
    }

    /// Adds what other spans add up to, as if they had been folded behind these: everything is the same, but that sums of
    /// doubles round in another order.
    pub fn add(&mut self, other: &Self) {
        self.totals.add(&other.totals);
        self.min_end_ns = self.min_end_ns.min(other.min_end_ns);
        self.max_end_ns = self.max_end_ns.max(other.max_end_ns);
        self.key_hashes.extend_from_slice(&other.key_hashes);
        self.key_hashes.sort_unstable();
        self.key_hashes.dedup();
        self.payload_references
            .extend(other.payload_references.iter().cloned());
    }
}

impl Totals {
    /// Adds other sums, group by group. This is all of [`Rollup::add`] that sums over many segments need.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.by_model, &other.by_model),
            (&mut self.by_provider, &other.by_provider),
            (&mut self.by_service, &other.by_service),
            (&mut self.by_day, &other.by_day),
        ] {
            for (name, counters) in theirs {
                add_to(mine, name, counters);
            }
        }
        for (id, session) in &other.sessions {
            match self.sessions.get_mut(id) {
                Some(mine) => mine.add(session),
                None => {
                    self.sessions.insert(id.clone(), session.clone());
                }
            }
        }
    }
}

impl SessionTotals {
    /// Adds what other spans of the same session add up to.
    pub fn add(&mut self, other: &Self) {
        self.counters.add(&other.counters);
        self.first_start_ns = self.first_start_ns.min(other.first_start_ns);
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
        self.trace_ids.extend(other.trace_ids.iter().cloned());
        self.key = [self.key, other.key].into_iter().flatten().min();
    }
}

/// Adds to the counters under `name`; allocates only for a new one.
fn add_to(groups: &mut BTreeMap<String, Counters>, name: &str, counters: &Counters) {
    match groups.get_mut(name) {
        Some(known) => known.add(counters),
        None => {
            groups.insert(name.to_owned(), *counters);
        }
    }
}
