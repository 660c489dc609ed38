//! Why a tool could not answer.

use traza::store::StoreError;

use super::clean;

/// A text for the caller, who is expected to read it and to try something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToolError {
    text: String,
}

impl ToolError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

impl From<StoreError> for ToolError {
    fn from(error: StoreError) -> Self {
        Self::new(match error {
            StoreError::Deadline { limit_ms } => format!(
                "This question used up its compute budget of {limit_ms} ms. Narrow the window with 'since' and 'until', or \
                 add a 'service' or an attribute."
            ),
            StoreError::TooManyToSort { max } => format!(
                "More than {max} spans match, which is too many to sort. Narrow the question, or use slowest_spans, which \
                 ranks any number."
            ),
            // Its text may quote what is stored.
            other => format!(
                "The store could not answer: {}.",
                clean::line(&other.to_string(), 500)
            ),
        })
    }
}
