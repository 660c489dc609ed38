//! What columns can tell about a filter.

use super::{Columns, TextColumn};
use crate::store::filter::Filter;

/// What of a filter columns can tell of one segment.
pub(in crate::store) struct Conditions<'f> {
    filter: &'f Filter,
    /// The records have these texts.
    are: Vec<(TextColumn, u64)>,
    /// The records have none of these statuses.
    not_status: Vec<u64>,
}

impl<'f> Conditions<'f> {
    /// True when columns alone can tell which spans the filter takes.
    pub(in crate::store) fn suffice(filter: &Filter) -> bool {
        filter.trace_ids.is_empty()
            && filter.span_ids.is_empty()
            && filter.attributes.is_empty()
            && filter.not_attributes.is_empty()
            && filter.min_attributes.is_empty()
            && filter.max_attributes.is_empty()
            && filter.content.is_none()
    }

    /// True when columns can rule out spans that no index can.
    pub(in crate::store) fn narrow(filter: &Filter) -> bool {
        filter.status.is_some()
            || !filter.not_status.is_empty()
            || filter.min_duration_ns.is_some()
            || filter.max_duration_ns.is_some()
    }

    /// `None` when no record of the segment can match.
    pub(in crate::store) fn of(filter: &'f Filter, columns: &Columns) -> Option<Self> {
        let mut are = Vec::new();
        for (column, wanted) in [
            (TextColumn::Tenant, &filter.tenant),
            (TextColumn::Service, &filter.service),
            (TextColumn::Name, &filter.name),
            (TextColumn::Status, &filter.status),
            (TextColumn::Session, &filter.session),
        ] {
            if let Some(wanted) = wanted {
                are.push((column, columns.id_of(wanted)?));
            }
        }
        let unwanted = filter.not_status.iter();
        Some(Self {
            filter,
            are,
            not_status: unwanted.filter_map(|text| columns.id_of(text)).collect(),
        })
    }

    /// False when the record cannot match. Its start is not looked at.
    pub(in crate::store) fn hold(&self, columns: &Columns, ordinal: usize) -> bool {
        let is =
            |(column, wanted): &(TextColumn, u64)| columns.text_id(*column, ordinal) == *wanted;
        let (min, max) = (self.filter.min_duration_ns, self.filter.max_duration_ns);
        self.are.iter().all(is)
            && (self.not_status.is_empty()
                || !self
                    .not_status
                    .contains(&columns.text_id(TextColumn::Status, ordinal)))
            && (min.is_none() && max.is_none() || {
                let duration = columns.duration_ns(ordinal);
                min.is_none_or(|min| duration >= min) && max.is_none_or(|max| duration <= max)
            })
    }
}
