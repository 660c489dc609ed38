//! Which values a field or an attribute has.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::GROUPS_MAX;
use crate::json::Value;
use crate::span::Span;
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

impl ValueOf<'_> {
    fn value(self, span: &Span) -> Option<Value> {
        match self {
            Self::Service => Some(Value::from(span.service.as_str())),
            Self::Name => Some(Value::from(span.name.as_str())),
            Self::Status => Some(Value::from(span.status.as_str())),
            Self::Attribute(key) => span.attributes.get(key).cloned(),
        }
    }
}

impl SnapshotView {
    /// The values that the spans have that `filter` takes, and how often; at most `limit` of them.
    ///
    /// # Errors
    /// [`StoreError::Deadline`](crate::store::StoreError::Deadline); damage of a segment that had to be read.
    pub fn values(&self, of: ValueOf<'_>, filter: &Filter, limit: usize) -> Result<Values> {
        // By their JSON, which is canonical.
        let mut counts: BTreeMap<String, ValueCount> = BTreeMap::new();
        let mut found = Values::default();
        self.view
            .each_match(filter, &mut self.budget(), &mut |span| {
                let Some(value) = of.value(span) else {
                    return;
                };
                found.total += 1;
                let is_full = counts.len() == GROUPS_MAX;
                let text = value.to_string();
                if let Some(known) = counts.get_mut(&text) {
                    known.count += 1;
                } else if is_full {
                    found.spans_untracked += 1;
                } else {
                    counts.insert(text, ValueCount { value, count: 1 });
                }
            })?;
        found.distinct = counts.len();
        found.values = counts.into_values().collect();
        // Stable: they are in the order of their JSON.
        found.values.sort_by_key(|value| Reverse(value.count));
        found.values.truncate(limit);
        found.values_omitted = found.distinct - found.values.len();
        Ok(found)
    }
}
