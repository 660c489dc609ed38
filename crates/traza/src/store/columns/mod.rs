//! The column cache: a few words of every record of a segment, in a file beside it, so that statistics need not parse spans
//! (`docs/formats/traza-store.md`, column cache).
//!
//! It is never an authority. Whatever is wrong with a file, the columns are made again from the segment; and a span that
//! is returned is always the one in the segment.

mod build;
mod codec;
mod conditions;
mod files;
pub mod layout;
mod packed;
mod replaced;

pub(super) use build::{Builder, identity};
pub use codec::ColumnsError;
pub(crate) use codec::{decode, encode};
pub(super) use conditions::Conditions;
pub(super) use files::{ColumnFiles, keep};
pub(super) use replaced::Replaced;

use std::borrow::Cow;

use self::layout::mark;
use self::packed::Packed;
use crate::digest::Digest;
use crate::llm::{Facts, Session, SessionKey};
use crate::segment::Segment;

/// What columns were made from. They are believed only where all of this is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Length of the segment file in bytes.
    pub(crate) segment_len: u64,
    /// Number of its records.
    pub(crate) record_count: u64,
    /// Smallest timestamp in its header.
    pub(crate) min_timestamp: u64,
    /// Largest timestamp in its header.
    pub(crate) max_timestamp: u64,
    /// CRC-32 of its header.
    pub(crate) header_crc: u32,
}

impl Binding {
    pub(crate) fn of(segment: &Segment) -> Self {
        let header = segment.header();
        Self {
            segment_len: segment.file_len(),
            record_count: header.record_count,
            min_timestamp: header.min_timestamp,
            max_timestamp: header.max_timestamp,
            header_crc: header.crc(),
        }
    }
}

/// A column whose values are texts: the position of the text in the dictionary and one more; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextColumn {
    Tenant,
    Service,
    Name,
    Status,
    Session,
}

/// The columns of a segment, in the order of its records. Every number of a record that does not exist is 0.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Columns {
    count: usize,
    /// Ascending.
    dictionary: Box<[Box<str>]>,
    start: Packed,
    end: Packed,
    identity_low: Packed,
    identity_high: Packed,
    tenant: Packed,
    service: Packed,
    name: Packed,
    status: Packed,
    model: Packed,
    provider: Packed,
    session: Packed,
    prompt: Packed,
    completion: Packed,
    total: Packed,
    cost: Packed,
    marks: Packed,
}

impl Columns {
    /// Number of records.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Bytes that they take in memory.
    pub(super) fn resident_len(&self) -> usize {
        let columns: usize = self.all().iter().map(|column| column.resident_len()).sum();
        let texts = self.dictionary.iter().map(|text| text.len());
        columns + texts.sum::<usize>() + size_of_val(self.dictionary.as_ref())
    }

    /// The columns in the order in which the file has them.
    fn all(&self) -> [&Packed; layout::COLUMN_COUNT] {
        [
            &self.start,
            &self.end,
            &self.identity_low,
            &self.identity_high,
            &self.tenant,
            &self.service,
            &self.name,
            &self.status,
            &self.model,
            &self.provider,
            &self.session,
            &self.prompt,
            &self.completion,
            &self.total,
            &self.cost,
            &self.marks,
        ]
    }

    fn assemble(
        count: usize,
        dictionary: Box<[Box<str>]>,
        columns: [Packed; layout::COLUMN_COUNT],
    ) -> Self {
        let [
            start,
            end,
            identity_low,
            identity_high,
            tenant,
            service,
            name,
            status,
            model,
            provider,
            session,
            prompt,
            completion,
            total,
            cost,
            marks,
        ] = columns;
        Self {
            count,
            dictionary,
            start,
            end,
            identity_low,
            identity_high,
            tenant,
            service,
            name,
            status,
            model,
            provider,
            session,
            prompt,
            completion,
            total,
            cost,
            marks,
        }
    }

    pub(super) fn start_ns(&self, ordinal: usize) -> u64 {
        self.start.get(ordinal)
    }

    pub(super) fn end_ns(&self, ordinal: usize) -> u64 {
        self.end.get(ordinal)
    }

    /// 0 for a span that ends before it starts.
    pub(crate) fn duration_ns(&self, ordinal: usize) -> u64 {
        self.end_ns(ordinal).saturating_sub(self.start_ns(ordinal))
    }

    /// [`identity`] of the span.
    pub(super) fn identity(&self, ordinal: usize) -> Digest {
        let low = u128::from(self.identity_low.get(ordinal));
        let high = u128::from(self.identity_high.get(ordinal));
        Digest((low | (high << 64)).to_le_bytes())
    }

    /// The value of a text column: equal for equal texts of one segment.
    pub(super) fn text_id(&self, column: TextColumn, ordinal: usize) -> u64 {
        self.text_column(column).get(ordinal)
    }

    /// What [`text_id`](Self::text_id) is for `text`; `None` when no record has it.
    pub(super) fn id_of(&self, text: &str) -> Option<u64> {
        let found = self
            .dictionary
            .binary_search_by(|known| known.as_ref().cmp(text));
        found.ok().map(|position| position as u64 + 1)
    }

    /// The text of a record; empty when it has none.
    pub(super) fn text(&self, column: TextColumn, ordinal: usize) -> &str {
        self.text_at(self.text_id(column, ordinal))
            .unwrap_or_default()
    }

    fn text_column(&self, column: TextColumn) -> &Packed {
        match column {
            TextColumn::Tenant => &self.tenant,
            TextColumn::Service => &self.service,
            TextColumn::Name => &self.name,
            TextColumn::Status => &self.status,
            TextColumn::Session => &self.session,
        }
    }

    fn text_at(&self, id: u64) -> Option<&str> {
        let position = usize::try_from(id.checked_sub(1)?).ok()?;
        self.dictionary.get(position).map(AsRef::as_ref)
    }

    /// What the span's attributes told when the columns were made.
    pub(crate) fn facts(&self, ordinal: usize) -> Facts<'_> {
        let marks = self.marks.get(ordinal);
        let count = |column: &Packed, bit| (marks & bit != 0).then(|| column.get(ordinal));
        let text = |column: &Packed| self.text_at(column.get(ordinal)).map(Cow::Borrowed);
        let key = usize::try_from(marks >> mark::SESSION_KEY_SHIFT).unwrap_or(0);
        let key = SessionKey::ALL.get(key & mark::SESSION_KEY_MAX).copied();
        Facts {
            model: text(&self.model),
            provider: text(&self.provider),
            prompt_tokens: count(&self.prompt, mark::PROMPT),
            completion_tokens: count(&self.completion, mark::COMPLETION),
            total_tokens: count(&self.total, mark::TOTAL),
            reported_cost_usd: count(&self.cost, mark::COST)
                .map(f64::from_bits)
                .filter(|usd| usd.is_finite()),
            session: text(&self.session)
                .zip(key)
                .map(|(id, key)| Session { id, key }),
            is_llm: marks & mark::LLM != 0,
        }
    }

    /// The records that start in the window; both ends belong to it.
    pub(crate) fn window(&self, since: Option<u64>, until: Option<u64>) -> std::ops::Range<usize> {
        let first = |is_before: &dyn Fn(u64) -> bool| {
            let (mut low, mut high) = (0, self.count);
            while low < high {
                let middle = low.midpoint(high);
                if is_before(self.start_ns(middle)) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            low
        };
        let begin = since.map_or(0, |since| first(&|start| start < since));
        let end = until.map_or(self.count, |until| first(&|start| start <= until));
        begin..end.max(begin)
    }
}
