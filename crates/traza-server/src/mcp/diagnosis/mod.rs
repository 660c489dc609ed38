//! Why a session went wrong, worked out from its spans alone.
//!
//! Pure: no store, no clock. [`Ending`] takes all spans of a session and tells how it ended; [`diagnose`] takes those that are
//! to be looked at closely and tells which steps repeat, in which shape, and where the failure comes from. What cannot be told
//! apart is said to be so, with what is missing.

mod cause;
mod outcome;
mod repeats;
mod tokens;

use std::sync::Arc;

use traza::span::Span;

pub use cause::{Cause, Rule};
pub use outcome::{Ending, Outcome, Reason, Source, Verdict};
pub use repeats::{Finding, Missing, Shape};
pub use tokens::Trend;

use super::tree::Forest;

/// What the spans of a session tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnosis {
    /// Where the failure comes from; `None` when no step failed by itself.
    pub cause: Option<Cause>,
    /// The steps that repeat, the faults first and in each part the most frequent first.
    pub findings: Vec<Finding>,
}

/// Looks at `spans`, which are of one session and in the order of their starts. Places in the answer are those in `spans`.
pub fn diagnose(spans: &[Arc<Span>]) -> Diagnosis {
    let forest = Forest::of(spans);
    let findings = repeats::find(spans, &forest);
    Diagnosis {
        cause: cause::find(spans, &forest, &findings),
        findings,
    }
}

impl Diagnosis {
    /// The places of the spans that are to blame: the cause, and the examples of every fault. Each once, at most `max`.
    pub fn implicated(&self, max: usize) -> Vec<usize> {
        let mut places = Vec::new();
        let cause = self.cause.iter().map(|cause| cause.place);
        let faults = self
            .findings
            .iter()
            .filter(|finding| finding.shape.is_fault());
        for place in cause.chain(faults.flat_map(Finding::examples)) {
            if places.len() < max && !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }
}

/// True for a span that failed, however its status spells that.
fn has_failed(span: &Span) -> bool {
    span.status.eq_ignore_ascii_case("error")
}

#[cfg(test)]
mod tests;
