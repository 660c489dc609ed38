//! Every question that a segment answers, and what plain loops over the records say to each.

use std::collections::BTreeSet;
use std::ops::Range;

use traza::content::{Query, tokens};
use traza::record::Record;
use traza::segment::{Result, Segment, SegmentError, StoredRecord};
use traza::span::Span;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Question {
    Trace(String),
    Attribute(String, String),
    Word(String),
    Window(u64, u64),
    All,
}

/// The records that an oracle answers from, and its answers: the ordinals of records. They are in the
/// order of their timestamps.
pub(crate) struct Oracle {
    questions: Vec<(Question, Vec<usize>)>,
    payloads: Vec<Vec<u8>>,
}

impl Oracle {
    /// Every question that the records suggest, and some that none of them answers.
    pub(crate) fn of(records: &[Record]) -> Self {
        let words: Vec<BTreeSet<String>> = records.iter().map(words_of).collect();
        let mut traces: BTreeSet<&str> = ["trace-none", ""].into();
        let mut attributes: BTreeSet<(&str, &str)> = [("model", "\"m-9\""), ("none", "1")].into();
        let mut times: BTreeSet<u64> = [0, u64::MAX].into();
        for record in records {
            traces.insert(&record.trace_id);
            attributes.extend(record.attributes.iter());
            let time = record.timestamp;
            times.extend([time - 1, time, time + 1]);
        }
        let times: Vec<u64> = times.into_iter().step_by(2).collect();
        let ordinals = |holds: &dyn Fn(usize, &Record) -> bool| -> Vec<usize> {
            let numbered = records.iter().enumerate();
            numbered
                .filter(|(at, record)| holds(*at, record))
                .map(|(at, _)| at)
                .collect()
        };
        let mut questions = vec![(Question::All, ordinals(&|_, _| true))];
        for id in traces {
            let answer = ordinals(&|_, record| record.trace_id == id);
            questions.push((Question::Trace(id.to_owned()), answer));
        }
        for (key, text) in attributes {
            let answer = ordinals(&|_, record| record.attributes.text(key) == Some(text));
            questions.push((Question::Attribute(key.to_owned(), text.to_owned()), answer));
        }
        let all_words: BTreeSet<&String> = words.iter().flatten().collect();
        for word in all_words.into_iter().chain([&"nowhere".to_owned()]) {
            let answer = ordinals(&|at, _| words[at].contains(word));
            questions.push((Question::Word(word.clone()), answer));
        }
        for since in &times {
            for until in &times {
                let answer = ordinals(&|_, record| (*since..=*until).contains(&record.timestamp));
                questions.push((Question::Window(*since, *until), answer));
            }
        }
        Self {
            questions,
            payloads: records
                .iter()
                .map(|record| record.payload.clone())
                .collect(),
        }
    }

    /// The segment answers every question, and rightly.
    #[track_caller]
    pub(crate) fn is_answered_by(&self, segment: &Segment) {
        let errors = self.errors_of(segment);
        assert!(errors.is_empty(), "{}", errors[0]);
    }

    /// Asks every question; panics at an answer that is wrong or short, and returns the errors: a
    /// damaged segment may refuse to answer.
    #[track_caller]
    pub(crate) fn errors_of(&self, segment: &Segment) -> Vec<SegmentError> {
        let mut errors = Vec::new();
        for (question, expected) in &self.questions {
            match self.ask(segment, question) {
                Ok(found) => assert_eq!(found, *expected, "{question:?}"),
                Err(error) => errors.push(error),
            }
        }
        errors
    }

    fn ask(&self, segment: &Segment, question: &Question) -> Result<Vec<usize>> {
        match question {
            Question::All => self.ordinals(segment.scan()),
            Question::Trace(id) => self.ordinals(segment.trace(id)?.into_iter().map(Ok)),
            Question::Attribute(key, text) => {
                let found = segment.query_attribute(key, text)?;
                self.ordinals(found.into_iter().map(Ok))
            }
            Question::Word(word) => Self::confirmed(segment, &Query::new(word)),
            Question::Window(since, until) => {
                let range = segment.ordinal_range_for_window(Some(*since), Some(*until))?;
                let may = segment.may_contain_timestamps(Some(*since), Some(*until));
                assert!(may || range.is_empty());
                Ok(range.collect())
            }
        }
    }

    /// Candidates confirmed from the records, as every user of a segment does.
    fn confirmed(segment: &Segment, query: &Query) -> Result<Vec<usize>> {
        let candidates: Vec<Range<usize>> = segment.content_candidates(query)?;
        assert!(candidates.is_empty() || segment.may_contain_words(query));
        let mut found = Vec::new();
        for range in candidates {
            for record in segment.scan_range(range) {
                let record = record?;
                let span = Span::from_json(record.payload()).unwrap();
                if query.matches(&span) {
                    found.push(record.ordinal());
                }
            }
        }
        Ok(found)
    }

    /// The ordinals of the records, which are those that were written.
    fn ordinals(&self, records: impl Iterator<Item = Result<StoredRecord>>) -> Result<Vec<usize>> {
        records
            .map(|record| {
                let record = record?;
                let ordinal = record.ordinal();
                assert!(
                    record.payload() == self.payloads[ordinal],
                    "record {ordinal}"
                );
                Ok(ordinal)
            })
            .collect()
    }
}

fn words_of(record: &Record) -> BTreeSet<String> {
    let text = record.content.text().unwrap_or_default();
    tokens(text).map(std::borrow::Cow::into_owned).collect()
}
