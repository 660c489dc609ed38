//! What fails, and how often.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::GROUPS_MAX;
use crate::histogram::Histogram;
use crate::span::Span;
use crate::store::SnapshotView;
use crate::store::error::Result;
use crate::store::filter::{Filter, duration_ns};

/// The status of a span that failed.
const STATUS_ERROR: &str = "error";

/// Failed spans, those alike together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failures {
    /// The groups with the most spans first; of equally large ones the one that was seen last.
    pub groups: Vec<FailureGroup>,
    /// All spans that matched.
    pub total: u64,
    /// How many groups were told apart, at most [`GROUPS_MAX`].
    pub distinct: usize,
    /// How many of these are not in the answer because of its limit.
    pub groups_omitted: usize,
    /// Spans of groups beyond [`GROUPS_MAX`].
    pub spans_untracked: u64,
}

/// Failed spans with one service, name and status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FailureGroup {
    /// Who failed.
    pub service: String,
    /// At what.
    pub name: String,
    /// How.
    pub status: String,
    /// The earliest start, in nanoseconds since the Unix epoch.
    pub first_seen_ns: u64,
    /// The latest start.
    pub last_seen_ns: u64,
    /// Whose the example is: the span that started last, of those with one start the last in the order of answers.
    pub example_tenant: String,
    /// Its trace.
    pub example_trace_id: String,
    /// Its id.
    pub example_span_id: String,
    /// How many there were and how long they took, in nanoseconds.
    pub durations: Histogram,
}

/// Service, name and status.
pub(super) type Signature = (String, String, String);

/// A group in the making. `E` is the example, greater than those that it goes before.
#[derive(Debug)]
pub(super) struct Tracked<E> {
    pub(super) first_seen_ns: u64,
    pub(super) example: E,
    pub(super) durations: Histogram,
}

/// Counts failures.
#[derive(Debug)]
pub(super) struct Tally<E> {
    pub(super) groups: BTreeMap<Signature, Tracked<E>>,
    pub(super) total: u64,
    pub(super) spans_untracked: u64,
}

/// The start, the end and the identity of a span.
type Example = (u64, u64, String, String, String);

impl<E: Ord> Tally<E> {
    pub(super) fn new() -> Self {
        Self {
            groups: BTreeMap::new(),
            total: 0,
            spans_untracked: 0,
        }
    }

    pub(super) fn add(
        &mut self,
        signature: Signature,
        start_ns: u64,
        duration_ns: u64,
        example: E,
    ) {
        self.total += 1;
        let is_full = self.groups.len() == GROUPS_MAX;
        if let Some(group) = self.groups.get_mut(&signature) {
            group.first_seen_ns = group.first_seen_ns.min(start_ns);
            if example > group.example {
                group.example = example;
            }
            group.durations.record(duration_ns);
        } else if is_full {
            self.spans_untracked += 1;
        } else {
            let mut durations = Histogram::default();
            durations.record(duration_ns);
            let group = Tracked {
                first_seen_ns: start_ns,
                example,
                durations,
            };
            self.groups.insert(signature, group);
        }
    }
}

impl Tally<Example> {
    fn add_span(&mut self, span: &Span) {
        let signature = (span.service.clone(), span.name.clone(), span.status.clone());
        let example = (
            span.start_time_ns,
            span.end_time_ns,
            span.tenant.clone(),
            span.trace_id.clone(),
            span.span_id.clone(),
        );
        self.add(signature, span.start_time_ns, duration_ns(span), example);
    }

    fn finish(self, limit: usize) -> Failures {
        let distinct = self.groups.len();
        let mut groups: Vec<FailureGroup> = self.groups.into_iter().map(group).collect();
        // Stable: what is equal in both stays in the order of service, name and status.
        groups.sort_by_key(|group| Reverse((group.durations.count(), group.last_seen_ns)));
        groups.truncate(limit);
        Failures {
            total: self.total,
            distinct,
            groups_omitted: distinct - groups.len(),
            spans_untracked: self.spans_untracked,
            groups,
        }
    }
}

fn group((signature, tracked): (Signature, Tracked<Example>)) -> FailureGroup {
    let (service, name, status) = signature;
    let (last_seen_ns, _, example_tenant, example_trace_id, example_span_id) = tracked.example;
    FailureGroup {
        service,
        name,
        status,
        first_seen_ns: tracked.first_seen_ns,
        last_seen_ns,
        example_tenant,
        example_trace_id,
        example_span_id,
        durations: tracked.durations,
    }
}

impl SnapshotView {
    /// The spans that `filter` takes, grouped by service, name and status; at most `limit` groups. A filter without a
    /// status takes those with the status `error`.
    ///
    /// # Errors
    /// [`StoreError::Deadline`](crate::store::StoreError::Deadline); damage of a segment that had to be read.
    pub fn failures(&self, filter: &Filter, limit: usize) -> Result<Failures> {
        let mut filter = filter.clone();
        filter.status.get_or_insert_with(|| STATUS_ERROR.to_owned());
        let mut tally = Tally::new();
        self.view
            .each_match(&filter, &mut self.budget(), &mut |span| {
                tally.add_span(span);
            })?;
        Ok(tally.finish(limit))
    }
}
