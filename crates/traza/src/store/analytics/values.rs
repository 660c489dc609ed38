//! Which values a field or an attribute has.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::GROUPS_MAX;
use crate::json::Value;
use crate::store::SnapshotView;
use crate::store::error::Result;
use crate::store::filter::Filter;

/// What the values are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueOf<'k> {
    /// The service.
    Service,
    /// The name.
    Name,
    /// The status.
    Status,
    /// The attribute with this key; spans without it are left out.
    Attribute(&'k str),
}

/// The distinct values of a field.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// Those of the most spans first, equally frequent ones in the order of their JSON.
    pub values: Vec<ValueCount>,
    /// Spans that have a value.
    pub total: u64,
    /// How many values were told apart, at most [`GROUPS_MAX`].
    pub distinct: usize,
    /// How many of these are not in the answer because of its limit.
    pub values_omitted: usize,
    /// Spans with values beyond [`GROUPS_MAX`].
    pub spans_untracked: u64,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueCount {
    /// Itself. A number and the string that spells it are two values.
    pub value: Value,
    /// How many spans have it.
    pub count: u64,
}

/// Counts values.
#[derive(Default)]
struct Tally {
    /// By their JSON, which is canonical.
    counts: BTreeMap<String, ValueCount>,
    total: u64,
    spans_untracked: u64,
}

impl Tally {
    fn add(&mut self, value: Value) {
        self.total += 1;
        let is_full = self.counts.len() == GROUPS_MAX;
        let text = value.to_string();
        if let Some(known) = self.counts.get_mut(&text) {
            known.count += 1;
        } else if is_full {
            self.spans_untracked += 1;
        } else {
            self.counts.insert(text, ValueCount { value, count: 1 });
        }
    }

    fn finish(self, limit: usize) -> Values {
        let distinct = self.counts.len();
        let mut values: Vec<ValueCount> = self.counts.into_values().collect();
        // Stable: they are in the order of their JSON.
        values.sort_by_key(|value| Reverse(value.count));
        values.truncate(limit);
        Values {
            total: self.total,
            distinct,
            values_omitted: distinct - values.len(),
            spans_untracked: self.spans_untracked,
            values,
        }
    }
}

impl SnapshotView {
    /// The values that the spans have that `filter` takes, and how often; at most `limit` of them.
    ///
    /// # Errors
    /// [`StoreError::Deadline`](crate::store::StoreError::Deadline); damage of a segment that had to be read.
    pub fn values(&self, of: ValueOf<'_>, filter: &Filter, limit: usize) -> Result<Values> {
        let mut tally = Tally::default();
        if let ValueOf::Attribute(key) = of {
            self.view
                .each_match(filter, &mut self.budget(), &mut |span| {
                    if let Some(value) = span.attributes.get(key) {
                        tally.add(value.clone());
                    }
                })?;
            return Ok(tally.finish(limit));
        }
        self.each_row(filter, |row| {
            tally.add(Value::from(match of {
                ValueOf::Service => row.service(),
                ValueOf::Name => row.name(),
                ValueOf::Status | ValueOf::Attribute(_) => row.status(),
            }));
        })?;
        Ok(tally.finish(limit))
    }
}
