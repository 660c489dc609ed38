//! Which records of a segment may match, as its indexes have it.

use std::ops::Range;

use crate::content;
use crate::json::Value;
use crate::llm::SessionKey;
use crate::record::{NAME_KEY, SERVICE_KEY, TENANT_KEY, attribute_texts};
use crate::segment::{Postings, Result, Segment};
use crate::store::filter::Filter;

/// A further posting list is read when it is at most so many times as long as what is left: reading a posting takes a
/// few nanoseconds, parsing a span that it would have ruled out some microseconds.
const WORTH_READING: usize = 256;

/// What of a filter the indexes can narrow.
#[derive(Debug)]
pub(in crate::store) struct Plan<'f> {
    trace_ids: &'f [String],
    /// Every one of these must hold: a record carries one of the texts under one of the keys.
    pairs: Vec<Vec<(&'f str, String)>>,
    content: Option<&'f content::Query>,
}

/// Ordinals of records, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) enum Candidates {
    /// All of these ranges.
    Ranges(Vec<Range<usize>>),
    /// These.
    Ordinals(Vec<usize>),
}

impl<'f> Plan<'f> {
    pub(in crate::store) fn of(filter: &'f Filter) -> Self {
        let mut pairs = Vec::new();
        let raw = |key, text: &String| vec![(key, text.clone())];
        pairs.extend(filter.service.as_ref().map(|text| raw(SERVICE_KEY, text)));
        pairs.extend(filter.name.as_ref().map(|text| raw(NAME_KEY, text)));
        // The default tenant is in no record.
        let tenant = filter.tenant.as_ref().filter(|tenant| !tenant.is_empty());
        pairs.extend(tenant.map(|text| raw(TENANT_KEY, text)));
        for (key, wanted) in &filter.attributes {
            // Keys that begin with NUL are not indexed: they could pass for the three above.
            if !key.starts_with('\0') {
                let texts = attribute_texts(wanted).into_iter();
                pairs.push(texts.map(|text| (key.as_str(), text)).collect());
            }
        }
        if let Some(session) = &filter.session {
            let texts = attribute_texts(&Value::from(session.as_str()));
            pairs.push(
                SessionKey::ALL
                    .iter()
                    .flat_map(|key| texts.iter().map(|text| (key.attribute(), text.clone())))
                    .collect(),
            );
        }
        Self {
            trace_ids: &filter.trace_ids,
            pairs,
            content: filter.content.as_ref(),
        }
    }

    /// The records of `segment` that may match and start in the window. Candidates: the span decides.
    pub(in crate::store) fn candidates(
        &self,
        segment: &Segment,
        since: Option<u64>,
        until: Option<u64>,
    ) -> Result<Candidates> {
        let none = Candidates::Ordinals(Vec::new());
        if let Some(content) = self.content
            && !segment.may_contain_words(content)
        {
            return Ok(none);
        }
        let Some(offsets) = self.offsets(segment) else {
            let window = segment.ordinal_range_for_window(since, until)?;
            let ranges = match self.content {
                Some(content) => segment.content_candidates(content)?,
                None => vec![window.clone()],
            };
            return Ok(Candidates::Ranges(clip(&ranges, &window)));
        };
        if offsets.is_empty() {
            return Ok(none);
        }
        let mut ordinals = segment.ordinals(offsets.into_iter())?;
        let window = segment.ordinal_range_for_window(since, until)?;
        ordinals.retain(|ordinal| window.contains(ordinal));
        if let Some(content) = self.content
            && !ordinals.is_empty()
        {
            let ranges = segment.content_candidates(content)?;
            ordinals.retain(|ordinal| holds(&ranges, *ordinal));
        }
        Ok(Candidates::Ordinals(ordinals))
    }

    /// Logical offsets of the records that the posting lists propose; `None` when there is nothing to look up.
    fn offsets(&self, segment: &Segment) -> Option<Vec<u64>> {
        let mut lists: Vec<Vec<Postings<'_>>> = Vec::new();
        if !self.trace_ids.is_empty() {
            let of = |trace_id: &String| segment.trace_candidate_offsets(trace_id);
            lists.push(self.trace_ids.iter().map(of).collect());
        }
        for alternatives in &self.pairs {
            let of = |(key, text): &(&str, String)| segment.attribute_candidate_offsets(key, text);
            lists.push(alternatives.iter().map(of).collect());
        }
        let len =
            |list: &Vec<Postings<'_>>| list.iter().map(|one| one.size_hint().0).sum::<usize>();
        lists.sort_by_key(len);
        let mut lists = lists.into_iter();
        let mut offsets = merged(lists.next()?);
        for list in lists {
            if len(&list) > offsets.len().saturating_mul(WORTH_READING) {
                break;
            }
            let others = merged(list);
            offsets.retain(|offset| others.binary_search(offset).is_ok());
        }
        Some(offsets)
    }

    /// False when the payload cannot be that of a match, so that it need not be parsed: it lacks a word. Letters and
    /// digits are never escaped in it.
    pub(in crate::store) fn payload_may_match(&self, payload: &[u8]) -> bool {
        self.content.is_none_or(|content| {
            content
                .words()
                .iter()
                .all(|word| contains_ignoring_case(payload, word.as_bytes()))
        })
    }
}

impl Candidates {
    pub(in crate::store) fn iter(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let (ranges, ordinals): (&[Range<usize>], &[usize]) = match self {
            Self::Ranges(ranges) => (ranges, &[]),
            Self::Ordinals(ordinals) => (&[], ordinals),
        };
        ranges
            .iter()
            .flat_map(Clone::clone)
            .chain(ordinals.iter().copied())
    }

    /// How many there are.
    pub(in crate::store) fn len(&self) -> usize {
        match self {
            Self::Ranges(ranges) => ranges.iter().map(Range::len).sum(),
            Self::Ordinals(ordinals) => ordinals.len(),
        }
    }

    /// [`iter`](Self::iter) for one who keeps them, ascending.
    pub(in crate::store) fn into_ordinals(self) -> Box<dyn Iterator<Item = usize>> {
        match self {
            Self::Ranges(ranges) => Box::new(ranges.into_iter().flatten()),
            Self::Ordinals(ordinals) => Box::new(ordinals.into_iter()),
        }
    }
}

/// Several ascending lists as one, each offset once.
fn merged(lists: Vec<Postings<'_>>) -> Vec<u64> {
    let mut offsets: Vec<u64> = lists.into_iter().flatten().collect();
    if !offsets.is_sorted_by(|a, b| a < b) {
        offsets.sort_unstable();
        offsets.dedup();
    }
    offsets
}

fn clip(ranges: &[Range<usize>], window: &Range<usize>) -> Vec<Range<usize>> {
    ranges
        .iter()
        .map(|range| range.start.max(window.start)..range.end.min(window.end))
        .filter(|range| !range.is_empty())
        .collect()
}

fn holds(ranges: &[Range<usize>], ordinal: usize) -> bool {
    let behind = ranges.partition_point(|range| range.end <= ordinal);
    ranges
        .get(behind)
        .is_some_and(|range| range.contains(&ordinal))
}

/// True when `bytes` hold `word`, which is lower-case ASCII, in any case.
fn contains_ignoring_case(bytes: &[u8], word: &[u8]) -> bool {
    let Some((first, rest)) = word.split_first() else {
        return true;
    };
    memchr::memchr2_iter(*first, first.to_ascii_uppercase(), bytes).any(|at| {
        bytes
            .get(at + 1..at + 1 + rest.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_in_any_case_and_anywhere() {
        assert!(contains_ignoring_case(b"a RefUnD was", b"refund"));
        assert!(contains_ignoring_case(b"refund", b"refund"));
        assert!(!contains_ignoring_case(b"refun", b"refund"));
        assert!(!contains_ignoring_case(b"", b"r"));
    }

    #[test]
    fn ranges_are_clipped_to_the_window_and_searched() {
        let ranges = [0..10, 20..30];
        assert_eq!(clip(&ranges, &(5..22)), vec![5..10, 20..22]);
        assert!(holds(&ranges, 20) && !holds(&ranges, 10) && !holds(&ranges, 30));
    }
}
