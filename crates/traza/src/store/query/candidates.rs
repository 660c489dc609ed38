//! Which records of a segment may match, as its indexes have it.

use std::ops::Range;

use crate::content;
use crate::json::Value;
use crate::llm::SessionKey;
use crate::record::{NAME_KEY, SERVICE_KEY, TENANT_KEY, attribute_texts};
use crate::segment::{self, Postings, Reader, Segment};
use crate::store::error::Result;
use crate::store::filter::Filter;
use crate::store::sealed::Sealed;

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
    needles: Vec<Needle<'f>>,
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
            needles: filter.content.iter().flat_map(Needle::all).collect(),
        }
    }

    /// The records of `segment` that may match and start in the window. Candidates: the span decides.
    pub(in crate::store) fn candidates(
        &self,
        sealed: &Sealed,
        since: Option<u64>,
        until: Option<u64>,
    ) -> Result<Candidates> {
        if let Some(content) = self.content
            && !sealed.segment().may_contain_words(content)
        {
            sealed.meters().segments_without_words.add(1);
            return Ok(Candidates::Ordinals(Vec::new()));
        }
        self.candidates_in(sealed.segment(), since, until)
            .map_err(sealed.error())
    }

    fn candidates_in(
        &self,
        segment: &Segment,
        since: Option<u64>,
        until: Option<u64>,
    ) -> segment::Result<Candidates> {
        let Some(offsets) = self.offsets(segment) else {
            let window = segment.ordinal_range_for_window(since, until)?;
            let ranges = match self.content {
                Some(content) => segment.content_candidates(content)?,
                None => vec![window.clone()],
            };
            return Ok(Candidates::Ranges(clip(&ranges, &window)));
        };
        if offsets.is_empty() {
            return Ok(Candidates::Ordinals(Vec::new()));
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
    pub(in crate::store) fn payload_may_match(&self, sealed: &Sealed, payload: &[u8]) -> bool {
        let has_all = self.needles.iter().all(|needle| needle.is_in(payload));
        if has_all && !self.needles.is_empty() {
            sealed.meters().records_with_words.add(1);
        }
        has_all
    }
}

/// A word to look for, in any case.
#[derive(Debug)]
struct Needle<'f> {
    /// In lower case.
    word: &'f [u8],
    /// Its byte that is the rarest in spans, and where in the word that is: the search goes from one to the next.
    rarest: u8,
    at: usize,
}

impl<'f> Needle<'f> {
    fn all(query: &'f content::Query) -> impl Iterator<Item = Self> {
        query
            .words()
            .iter()
            .filter_map(|word| Self::of(word.as_bytes()))
    }

    fn of(word: &'f [u8]) -> Option<Self> {
        // The frequent ones first; what identifies traces and spans is written in hexadecimal.
        const BY_FREQUENCY: &[u8] = b"e0123456789atcdbfnirosplmuhgvykwjxqz";
        let rank = |byte: u8| BY_FREQUENCY.iter().position(|known| *known == byte);
        let bytes = word.iter().copied().enumerate();
        let (at, rarest) = bytes.max_by_key(|(_, byte)| rank(*byte))?;
        Some(Self { word, rarest, at })
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        let upper = self.rarest.to_ascii_uppercase();
        memchr::memchr2_iter(self.rarest, upper, bytes).any(|found| {
            let start = found.checked_sub(self.at);
            let place = start.and_then(|start| bytes.get(start..)?.get(..self.word.len()));
            place.is_some_and(|place| place.eq_ignore_ascii_case(self.word))
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

    /// Before record `ordinal` is read and then those that follow it: decodes its block as far as they need it. `block_end`
    /// is where the block of the one before it ends.
    pub(in crate::store) fn reach(
        &self,
        segment: &Segment,
        reader: &mut Reader<'_>,
        ordinal: usize,
        block_end: &mut usize,
    ) -> segment::Result<()> {
        if ordinal < *block_end {
            return Ok(());
        }
        *block_end = segment.block_end_of(ordinal);
        let last = self.last_before(*block_end);
        last.map_or(Ok(()), |last| reader.reach(last))
    }

    /// The last one below `bound`.
    fn last_before(&self, bound: usize) -> Option<usize> {
        match self {
            Self::Ranges(ranges) => {
                let count = ranges.partition_point(|range| range.start < bound);
                let range = ranges.get(count.checked_sub(1)?)?;
                range.end.min(bound).checked_sub(1)
            }
            Self::Ordinals(ordinals) => {
                let count = ordinals.partition_point(|ordinal| *ordinal < bound);
                ordinals.get(count.checked_sub(1)?).copied()
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_in_any_case_and_anywhere() {
        let holds = |bytes: &[u8], word: &str| Needle::of(word.as_bytes()).unwrap().is_in(bytes);
        assert!(holds(b"a RefUnD was", "refund"));
        assert!(holds(b"refund", "refund"));
        assert!(holds(b"fund refund", "refund"));
        assert!(!holds(b"refun", "refund"));
        assert!(!holds(b"efund", "refund"));
        assert!(!holds(b"", "r"));
        assert!(holds(b"x 42Z", "42z"));
    }

    #[test]
    fn the_last_candidate_before_a_bound_is_found() {
        let ranges = Candidates::Ranges(vec![2..5, 8..10]);
        let ordinals = Candidates::Ordinals(vec![2, 3, 4, 8, 9]);
        for (bound, wanted) in [
            (0, None),
            (2, None),
            (3, Some(2)),
            (7, Some(4)),
            (9, Some(8)),
            (99, Some(9)),
        ] {
            assert_eq!(ranges.last_before(bound), wanted);
            assert_eq!(ordinals.last_before(bound), wanted);
        }
    }

    #[test]
    fn ranges_are_clipped_to_the_window_and_searched() {
        let ranges = [0..10, 20..30];
        assert_eq!(clip(&ranges, &(5..22)), vec![5..10, 20..22]);
        assert!(holds(&ranges, 20) && !holds(&ranges, 10) && !holds(&ranges, 30));
    }
}
