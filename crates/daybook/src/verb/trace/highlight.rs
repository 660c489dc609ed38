//! Where words stand in the texts of a span.

use std::fmt;
use std::ops::{ControlFlow, Range};

use traza::json::Value;
use traza::span::{PAYLOAD_MEMBER, Span};

use crate::styles::HINT;
use crate::text::clean;

/// So many characters are shown before the first word and behind it.
const BEFORE: usize = 32;
const BEHIND: usize = 96;
/// Longer texts are not looked through for more than their first place.
const PER_SPAN_MAX: usize = 8;

/// A text with some of the words.
pub(super) struct Highlight {
    /// Such as `attributes.llm.prompt` or `events[0].name`.
    pub(super) field: String,
    pub(super) snippet: Snippet,
}

/// A part of a text, and the words in it.
pub(super) struct Snippet {
    text: String,
    words: Vec<Range<usize>>,
    is_cut: (bool, bool),
}

impl Snippet {
    /// Without styles.
    pub(super) fn plain(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Snippet {
    /// On one line, the words in colour.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |part: Option<&str>| clean(part.unwrap_or_default()).replace(['\n', '\t'], " ");
        let (before, behind) = self.is_cut;
        f.write_str(if before { "…" } else { "" })?;
        let mut at = 0;
        for word in &self.words {
            let plain = show(self.text.get(at..word.start));
            let found = show(self.text.get(word.clone()));
            write!(f, "{plain}{HINT}{found}{HINT:#}")?;
            at = word.end;
        }
        f.write_str(&show(self.text.get(at..)))?;
        f.write_str(if behind { "…" } else { "" })
    }
}

/// The first texts of a span that hold some of the words, which are in lower case.
pub(super) fn highlights<'s>(
    span: &'s Span,
    words: &'s [String],
) -> impl Iterator<Item = Highlight> + 's {
    let mut found = Vec::new();
    let _: ControlFlow<()> = each_text(span, &mut |field, text| {
        if let Some(snippet) = snippet(text, words) {
            let field = field.to_owned();
            found.push(Highlight { field, snippet });
        }
        if found.len() == PER_SPAN_MAX || words.is_empty() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    found.into_iter()
}

type Visit<'v> = &'v mut dyn FnMut(&str, &str) -> ControlFlow<()>;

/// The texts that [`Span::each_text`] hands out, with their fields.
fn each_text(span: &Span, visit: Visit<'_>) -> ControlFlow<()> {
    for (key, value) in &span.attributes {
        strings(&format!("attributes.{key}"), value, visit)?;
    }
    for (index, event) in span.events.iter().enumerate() {
        visit(&format!("events[{index}].name"), &event.name)?;
        for (key, value) in &event.attributes {
            strings(&format!("events[{index}].attributes.{key}"), value, visit)?;
        }
    }
    ControlFlow::Continue(())
}

fn strings(field: &str, value: &Value, visit: Visit<'_>) -> ControlFlow<()> {
    match value {
        Value::String(text) => visit(field, text),
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| strings(field, item, visit)),
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| *name != PAYLOAD_MEMBER)
            .try_for_each(|(_, member)| strings(field, member, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) => ControlFlow::Continue(()),
    }
}

fn snippet(text: &str, words: &[String]) -> Option<Snippet> {
    let first = occurrences(text, words).next()?;
    let start = text
        .get(..first.start)?
        .char_indices()
        .rev()
        .nth(BEFORE - 1);
    let start = start.map_or(0, |(at, _)| at);
    let end = text.get(first.end..)?.char_indices().nth(BEHIND);
    let end = end.map_or(text.len(), |(at, _)| first.end + at);
    Some(Snippet {
        text: text.get(start..end)?.to_owned(),
        words: occurrences(text, words)
            .take_while(|word| word.end <= end)
            .map(|word| word.start - start..word.end - start)
            .collect(),
        is_cut: (start > 0, end < text.len()),
    })
}

/// The places of whole words: runs of ASCII letters and digits.
fn occurrences<'t>(text: &'t str, words: &'t [String]) -> impl Iterator<Item = Range<usize>> + 't {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.as_bytes().get(at..)?;
        let start = at + rest.iter().position(u8::is_ascii_alphanumeric)?;
        let run = text.as_bytes().get(start..)?;
        let len = run
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count();
        at = start + len;
        Some(start..at)
    })
    .filter(|place| {
        let token = text.get(place.clone()).unwrap_or_default();
        words.iter().any(|word| token.eq_ignore_ascii_case(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_are_found_in_either_case_and_shown_with_what_stands_around_them() {
        let words = ["refund".to_owned(), "order".to_owned()];
        let text = format!(
            "{}Refund of ORDER 7, refunds\n{}",
            "ä ".repeat(40),
            "x".repeat(200)
        );
        let snippet = snippet(&text, &words).unwrap();
        let found: Vec<&str> = snippet
            .words
            .iter()
            .map(|at| &snippet.text[at.clone()])
            .collect();
        assert_eq!(found, ["Refund", "ORDER"]);
        let shown = anstream::adapter::strip_str(&snippet.to_string()).to_string();
        assert!(shown.starts_with("…ä") && shown.ends_with("x…"), "{shown}");
        assert!(!shown.contains('\n'), "{shown}");
        assert!(super::snippet("refunds", &words).is_none());
    }
}
