//! The tokenizer: format bytes depend on it.

use std::borrow::Cow;

/// The tokens of `text`, in order: its longest runs of ASCII letters and digits, in lower case.
///
/// Every other byte separates, so also every byte of a character outside ASCII. A token is never shortened.
///
/// ```
/// let words: Vec<_> = traza::content::tokens("Cancel my BOOKING: seat 14C!").collect();
/// assert_eq!(words, ["cancel", "my", "booking", "seat", "14c"]);
/// ```
pub fn tokens(text: &str) -> Tokens<'_> {
    Tokens { rest: text }
}

/// See [`tokens`].
#[derive(Clone, Debug)]
pub struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Cow<'a, str>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self
            .rest
            .bytes()
            .position(|byte| byte.is_ascii_alphanumeric())?;
        let (_, from_start) = self.rest.split_at_checked(start)?;
        let len = from_start
            .bytes()
            .position(|byte| !byte.is_ascii_alphanumeric())
            .unwrap_or(from_start.len());
        let (token, rest) = from_start.split_at_checked(len)?;
        self.rest = rest;
        Some(if token.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(token.to_ascii_lowercase())
        } else {
            Cow::Borrowed(token)
        })
    }
}
