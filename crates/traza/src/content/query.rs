//! A word query.

use std::ops::ControlFlow;

use super::tokens;
use crate::span::Span;

/// The words that a search asks for: every one must occur in the span.
///
/// ```
/// let query = traza::content::Query::new("Booking, cancel booking");
/// assert_eq!(query.words(), ["booking", "cancel"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    words: Vec<String>,
}

impl Query {
    /// The query for the words of `text`.
    pub fn new(text: &str) -> Self {
        let mut words: Vec<String> = tokens(text).map(std::borrow::Cow::into_owned).collect();
        words.sort_unstable();
        words.dedup();
        Self { words }
    }

    /// The distinct words, in lower case, sorted. None: the query matches nothing.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// True when every word occurs somewhere in the indexed text of `span`, in any order and in any of its strings.
    pub fn matches(&self, span: &Span) -> bool {
        let mut search = self.search();
        let end = span.each_text(&mut |text| search.see(text));
        end.is_break()
    }

    /// [`Query::matches`] over texts that are already at hand.
    pub fn matches_texts<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> bool {
        let mut search = self.search();
        !self.words.is_empty() && texts.into_iter().any(|text| search.see(text).is_break())
    }

    fn search(&self) -> Search<'_> {
        Search {
            words: &self.words,
            seen: vec![false; self.words.len()],
            missing: self.words.len(),
        }
    }
}

struct Search<'q> {
    words: &'q [String],
    seen: Vec<bool>,
    missing: usize,
}

impl Search<'_> {
    /// Breaks when the last missing word was found.
    fn see(&mut self, text: &str) -> ControlFlow<()> {
        for token in tokens(text) {
            let Ok(index) = self
                .words
                .binary_search_by(|word| word.as_str().cmp(&token))
            else {
                continue;
            };
            if let Some(seen) = self.seen.get_mut(index).filter(|seen| !**seen) {
                *seen = true;
                self.missing -= 1;
                if self.missing == 0 {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }
}
