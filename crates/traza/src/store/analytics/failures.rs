//! What fails, and how often.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::GROUPS_MAX;
use super::rows::{Place, Row};
use crate::histogram::Histogram;
use crate::store::buffer::in_order;
use crate::store::error::Result;
use crate::store::filter::Filter;
use crate::store::{SnapshotView, View};

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
type Signature = (String, String, String);

/// A group in the making.
struct Tracked {
    first_seen_ns: u64,
    /// The latest start, and the latest end of a span that starts then.
    last: (u64, u64),
    /// The spans that start and end then: which of them is the example is told by the spans themselves.
    examples: Vec<Place>,
    durations: Histogram,
}

/// Counts failures.
#[derive(Default)]
struct Tally {
    groups: BTreeMap<Signature, Tracked>,
    total: u64,
    spans_untracked: u64,
}

impl Tally {
    fn add(&mut self, row: &Row<'_>) {
        self.total += 1;
        let is_full = self.groups.len() == GROUPS_MAX;
        let signature = (
            row.service().to_owned(),
            row.name().to_owned(),
            row.status().to_owned(),
        );
        let (start_ns, time) = (row.start_ns(), (row.start_ns(), row.end_ns()));
        if let Some(group) = self.groups.get_mut(&signature) {
            group.first_seen_ns = group.first_seen_ns.min(start_ns);
            if time > group.last {
                group.last = time;
                group.examples.clear();
            }
            if time == group.last {
                group.examples.push(row.place());
            }
            group.durations.record(row.duration_ns());
        } else if is_full {
            self.spans_untracked += 1;
        } else {
            let mut durations = Histogram::default();
            durations.record(row.duration_ns());
            let group = Tracked {
                first_seen_ns: start_ns,
                last: time,
                examples: vec![row.place()],
                durations,
            };
            self.groups.insert(signature, group);
        }
    }

    fn finish(self, view: &View, limit: usize) -> Result<Failures> {
        let distinct = self.groups.len();
        let mut groups: Vec<(Signature, Tracked)> = self.groups.into_iter().collect();
        // Stable: what is equal in both stays in the order of service, name and status.
        groups.sort_by_key(|(_, group)| Reverse((group.durations.count(), group.last.0)));
        groups.truncate(limit);
        let finished = groups.into_iter().map(|group| finish(view, group));
        let groups: Vec<FailureGroup> = finished.collect::<Result<_>>()?;
        Ok(Failures {
            total: self.total,
            distinct,
            groups_omitted: distinct - groups.len(),
            spans_untracked: self.spans_untracked,
            groups,
        })
    }
}

fn finish(view: &View, (signature, tracked): (Signature, Tracked)) -> Result<FailureGroup> {
    let (service, name, status) = signature;
    let examples = view.fetch(&tracked.examples)?;
    let example = examples.iter().max_by(|a, b| in_order(a, b));
    let (tenant, trace_id, span_id) = example.map_or_else(Default::default, |span| {
        (
            span.tenant.clone(),
            span.trace_id.clone(),
            span.span_id.clone(),
        )
    });
    Ok(FailureGroup {
        service,
        name,
        status,
        first_seen_ns: tracked.first_seen_ns,
        last_seen_ns: tracked.last.0,
        example_tenant: tenant.into(),
        example_trace_id: trace_id.into(),
        example_span_id: span_id.into(),
        durations: tracked.durations,
    })
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
        let mut tally = Tally::default();
        self.each_row(&filter, |row| tally.add(row))?;
        tally.finish(&self.view, limit)
    }
}
