//! How a session ended.

use std::cmp::Ordering;
use std::time::Duration;

use traza::llm::first_text;
use traza::span::Span;

use super::has_failed;

const OUTCOME: &[&str] = &[
    "session.outcome",
    "traceloop.association.properties.outcome",
];
const GOAL: &[&str] = &["session.goal", "traceloop.association.properties.goal"];
/// A session that has ended more recently may still go on.
const STILL_ACTIVE: Duration = Duration::from_mins(15);

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It went well.
    Success,
    /// It failed.
    Failure,
    /// It was given up.
    Abandoned,
    /// Nothing tells; which does not mean that it went well.
    Unknown,
}

/// Who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A span.
    Declared,
    /// It follows from the last span.
    Derived,
    /// Nobody.
    Unknown,
}

/// Why it is thought so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A span declares it.
    Declared,
    /// The last span to end failed.
    LastSpanFailed,
    /// The last span to end did not fail.
    LastSpanSucceeded,
    /// The last end is too recent.
    StillActive,
    /// There is no span.
    NoSpans,
}

impl Verdict {
    /// The word that answers use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Abandoned => "abandoned",
            Self::Unknown => "unknown",
        }
    }

    /// What a declared word means, whatever its case.
    fn of_word(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "success" | "succeeded" | "ok" | "resolved" => Self::Success,
            "failure" | "failed" | "error" => Self::Failure,
            "abandoned" | "cancelled" | "canceled" | "timeout" => Self::Abandoned,
            _ => Self::Unknown,
        }
    }
}

impl Source {
    /// The word that answers use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::Derived => "derived",
            Self::Unknown => "unknown",
        }
    }
}

impl Reason {
    /// The word that answers use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::LastSpanFailed => "last_span_failed",
            Self::LastSpanSucceeded => "last_span_succeeded",
            Self::StillActive => "still_active",
            Self::NoSpans => "no_spans",
        }
    }
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What came out.
    pub verdict: Verdict,
    /// Who says so.
    pub source: Source,
    /// Why it is thought so.
    pub reason: Reason,
    /// The word that a span declares.
    pub declared: Option<String>,
    /// What the session was for, as a span says.
    pub goal: Option<String>,
    /// How many spans failed.
    pub error_count: u64,
    /// How many spans there are.
    pub span_count: u64,
}

/// What decides which of two spans started first or ended last: that time, tenant, trace and span id.
type Place = (u64, String, String, String);

/// Takes the spans of a session, in any order.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    span_count: u64,
    error_count: u64,
    /// The last span to end, and whether it failed.
    last: Option<(Place, bool)>,
    /// The last span to end that declares an outcome.
    declared: Option<(Place, String)>,
    /// The first span to start that tells the goal.
    goal: Option<(Place, String)>,
}

impl Ending {
    /// Takes a span.
    pub fn push(&mut self, span: &Span) {
        let failed = has_failed(span);
        self.span_count += 1;
        self.error_count += u64::from(failed);
        let at = |time_ns| -> Place {
            (
                time_ns,
                span.tenant.to_string(),
                span.trace_id.to_string(),
                span.span_id.to_string(),
            )
        };
        let (start, end) = (at(span.start_time_ns), at(span.end_time_ns));
        keep(&mut self.last, &end, Ordering::is_ge, || failed);
        if let Some(word) = first_text(&span.attributes, OUTCOME) {
            keep(&mut self.declared, &end, Ordering::is_ge, || {
                word.into_owned()
            });
        }
        if let Some(goal) = first_text(&span.attributes, GOAL) {
            keep(&mut self.goal, &start, Ordering::is_lt, || {
                goal.into_owned()
            });
        }
    }

    /// How the session ended, seen at `now_ns`, in nanoseconds since the Unix epoch.
    pub fn outcome(&self, now_ns: u64) -> Outcome {
        let declared = self.declared.as_ref().map(|(_, word)| word.clone());
        let (verdict, source, reason) = match (&declared, &self.last) {
            (Some(word), _) => (Verdict::of_word(word), Source::Declared, Reason::Declared),
            (None, None) => (Verdict::Unknown, Source::Unknown, Reason::NoSpans),
            (None, Some(((end_ns, ..), failed))) => {
                let idle_ns = now_ns.saturating_sub(*end_ns);
                if u128::from(idle_ns) < STILL_ACTIVE.as_nanos() {
                    (Verdict::Unknown, Source::Derived, Reason::StillActive)
                } else if *failed {
                    (Verdict::Failure, Source::Derived, Reason::LastSpanFailed)
                } else {
                    (Verdict::Success, Source::Derived, Reason::LastSpanSucceeded)
                }
            }
        };
        Outcome {
            verdict,
            source,
            reason,
            declared,
            goal: self.goal.as_ref().map(|(_, goal)| goal.clone()),
            error_count: self.error_count,
            span_count: self.span_count,
        }
    }
}

/// Keeps what goes with the place that compares to the kept one as it is wanted.
fn keep<T>(
    kept: &mut Option<(Place, T)>,
    place: &Place,
    wanted: fn(Ordering) -> bool,
    value: impl FnOnce() -> T,
) {
    if kept
        .as_ref()
        .is_none_or(|(known, _)| wanted(place.cmp(known)))
    {
        *kept = Some((place.clone(), value()));
    }
}
