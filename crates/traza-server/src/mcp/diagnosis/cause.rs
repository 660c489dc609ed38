//! Which step a failure comes from.

use std::sync::Arc;

use traza::span::Span;

use super::has_failed;
use super::repeats::Finding;
use crate::mcp::tree::Forest;

/// What speaks for a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It is the earliest step that failed while none of its children did.
    LeafError,
    /// It is that, and its step repeats in the shape of a fault.
    RepeatedFault,
}

impl Rule {
    /// The word that answers use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LeafError => "leaf_error",
            Self::RepeatedFault => "repeated_fault",
        }
    }

    /// How far it can be trusted: `structural` when the shape of the trace supports it, else `statistical`.
    pub fn confidence(self) -> &'static str {
        match self {
            Self::LeafError => "statistical",
            Self::RepeatedFault => "structural",
        }
    }
}

/// Where the failure comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// What speaks for it.
    pub rule: Rule,
    /// The place of the span.
    pub place: usize,
    /// Why, for a reader. Holds no stored text.
    pub because: String,
}

pub(super) fn find(spans: &[Arc<Span>], forest: &Forest, findings: &[Finding]) -> Option<Cause> {
    let failed = |place: usize| spans.get(place).is_some_and(|span| has_failed(span));
    // They are in the order of their starts.
    let place = (0..spans.len()).find(|place| {
        failed(*place) && !forest.children(*place).iter().any(|child| failed(*child))
    })?;
    let fault = findings
        .iter()
        .find(|finding| finding.shape.is_fault() && finding.places.binary_search(&place).is_ok());
    Some(match fault {
        None => Cause {
            rule: Rule::LeafError,
            place,
            because: "it failed first among the steps none of whose children failed, so that what failed above it passed \
                      its failure on"
                .to_owned(),
        },
        Some(finding) => Cause {
            rule: Rule::RepeatedFault,
            place,
            because: format!(
                "it failed first among the steps none of whose children failed, and this step occurs {} times in the trace, \
                 {} of them failing",
                finding.places.len(),
                finding.error_count
            ),
        },
    })
}
