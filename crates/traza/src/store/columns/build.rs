//! Makes columns from spans.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::Columns;
use super::layout::{COLUMN_COUNT, mark};
use super::packed::Packed;
use crate::digest::{Digest, pair_digest};
use crate::llm::{Facts, SessionKey};
use crate::span::Span;

/// The columns that hold texts, by their place in the file.
const TEXTS: std::ops::Range<usize> = 4..11;

/// The digest of what identifies a span: trace id, tenant and span id. Two spans with one digest pass for one; that takes
/// chance of one in 2^128, or 2^64 tries of somebody who means it, and concerns statistics only.
pub(in crate::store) fn identity(span: &Span) -> Digest {
    // No tenant holds a zero byte, and the length of the trace id is in the digest.
    let rest = [&span.tenant, "\0", &span.span_id].concat();
    pair_digest(&span.trace_id, &rest)
}

/// Columns in the making, for spans in the order of their records.
#[derive(Debug, Default)]
pub(in crate::store) struct Builder {
    /// The texts so far, and the number that each was given.
    texts: HashMap<Box<str>, u64, RandomState>,
    values: [Vec<u64>; COLUMN_COUNT],
}

impl Builder {
    /// Adds a span with these facts.
    pub(in crate::store) fn push(&mut self, span: &Span, facts: &Facts<'_>) {
        let (low, high) = identity(span).halves();
        let session = facts.session.as_ref();
        let values = [
            span.start_time_ns,
            span.end_time_ns,
            low,
            high,
            self.id(Some(&span.tenant)),
            self.id(Some(&span.service)),
            self.id(Some(&span.name)),
            self.id(Some(&span.status)),
            self.id(facts.model.as_deref()),
            self.id(facts.provider.as_deref()),
            self.id(session.map(|session| session.id.as_ref())),
            facts.prompt_tokens.unwrap_or(0),
            facts.completion_tokens.unwrap_or(0),
            facts.total_tokens.unwrap_or(0),
            facts.reported_cost_usd.unwrap_or(0.0).to_bits(),
            marks(facts),
        ];
        for (column, value) in self.values.iter_mut().zip(values) {
            column.push(value);
        }
    }

    fn id(&mut self, text: Option<&str>) -> u64 {
        let Some(text) = text else {
            return 0;
        };
        if let Some(id) = self.texts.get(text) {
            return *id;
        }
        let id = self.texts.len() as u64 + 1;
        self.texts.insert(text.into(), id);
        id
    }

    pub(in crate::store) fn finish(mut self) -> Columns {
        let count = self.values.first().map_or(0, Vec::len);
        // From the order in which they came to that of their bytes.
        let mut texts: Vec<(Box<str>, u64)> = self.texts.into_iter().collect();
        texts.sort_unstable();
        let mut sorted = vec![0; texts.len() + 1];
        for (position, (_, given)) in (1..).zip(&texts) {
            if let Some(slot) = usize::try_from(*given).ok().and_then(|g| sorted.get_mut(g)) {
                *slot = position;
            }
        }
        for column in self.values.get_mut(TEXTS).unwrap_or_default() {
            for id in column {
                let given = usize::try_from(*id).unwrap_or(0);
                *id = sorted.get(given).copied().unwrap_or(0);
            }
        }
        let dictionary = texts.into_iter().map(|(text, _)| text).collect();
        let columns = self.values.map(|values| Packed::of(&values));
        Columns::assemble(count, dictionary, columns)
    }
}

fn marks(facts: &Facts<'_>) -> u64 {
    let bit = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
    let key = facts.session.as_ref().map(|session| session.key);
    let index = SessionKey::ALL.iter().position(|known| Some(*known) == key);
    bit(facts.is_llm, mark::LLM)
        | bit(facts.prompt_tokens.is_some(), mark::PROMPT)
        | bit(facts.completion_tokens.is_some(), mark::COMPLETION)
        | bit(facts.total_tokens.is_some(), mark::TOTAL)
        | bit(facts.reported_cost_usd.is_some(), mark::COST)
        | (index.unwrap_or(0) as u64) << mark::SESSION_KEY_SHIFT
}
