//! The twelve counters.

use crate::llm::{Cost, Facts};
use crate::span::Span;

/// The status of a span that failed, spelled just so.
const STATUS_ERROR: &str = "error";

/// What some spans add up to. Integers stop at 2^64 - 1, amounts at the largest finite double.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// All spans.
    pub spans: u64,
    /// Those that are calls of a model.
    pub llm_calls: u64,
    /// Tokens that went in.
    pub prompt_tokens: u64,
    /// Tokens that came out.
    pub completion_tokens: u64,
    /// All tokens, as each span has them.
    pub total_tokens: u64,
    /// What is known of the cost, metered and derived, in US dollars.
    pub cost_usd: f64,
    /// The part of it that was derived from a price list.
    pub cost_derived_usd: f64,
    /// Spans that state their cost.
    pub cost_metered_calls: u64,
    /// Spans whose cost was derived.
    pub cost_derived_calls: u64,
    /// Calls whose cost nobody knows.
    pub cost_unpriced_calls: u64,
    /// Spans whose status is `error`.
    pub errors: u64,
    /// How long the calls took in nanoseconds; one that ends before its start took none.
    pub llm_duration_ns: u64,
}

impl Counters {
    /// The counters of one span, with its facts and its cost.
    pub fn of(span: &Span, facts: &Facts<'_>, cost: Cost) -> Self {
        let duration_ns = span.end_time_ns.saturating_sub(span.start_time_ns);
        Self::of_facts(facts, cost, &span.status, duration_ns)
    }

    /// The counters of a span of which only this is known.
    pub(crate) fn of_facts(facts: &Facts<'_>, cost: Cost, status: &str, duration_ns: u64) -> Self {
        let (cost_usd, cost_derived_usd) = match cost {
            Cost::Metered(usd) => (usd, 0.0),
            Cost::Derived(usd) => (usd, usd),
            Cost::Unknown => (0.0, 0.0),
        };
        Self {
            spans: 1,
            llm_calls: facts.is_llm.into(),
            prompt_tokens: facts.prompt_tokens.unwrap_or(0),
            completion_tokens: facts.completion_tokens.unwrap_or(0),
            total_tokens: facts.total_tokens.unwrap_or(0),
            // A sum begins at 0, so that a cost of -0 is none.
            cost_usd: cost_usd + 0.0,
            cost_derived_usd: cost_derived_usd + 0.0,
            cost_metered_calls: matches!(cost, Cost::Metered(_)).into(),
            cost_derived_calls: matches!(cost, Cost::Derived(_)).into(),
            cost_unpriced_calls: (facts.is_llm && cost == Cost::Unknown).into(),
            errors: (status == STATUS_ERROR).into(),
            llm_duration_ns: if facts.is_llm { duration_ns } else { 0 },
        }
    }

    /// Adds other spans.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.spans, other.spans),
            (&mut self.llm_calls, other.llm_calls),
            (&mut self.prompt_tokens, other.prompt_tokens),
            (&mut self.completion_tokens, other.completion_tokens),
            (&mut self.total_tokens, other.total_tokens),
            (&mut self.cost_metered_calls, other.cost_metered_calls),
            (&mut self.cost_derived_calls, other.cost_derived_calls),
            (&mut self.cost_unpriced_calls, other.cost_unpriced_calls),
            (&mut self.errors, other.errors),
            (&mut self.llm_duration_ns, other.llm_duration_ns),
        ] {
            *mine = mine.saturating_add(theirs);
        }
        for (mine, theirs) in [
            (&mut self.cost_usd, other.cost_usd),
            (&mut self.cost_derived_usd, other.cost_derived_usd),
        ] {
            *mine = (*mine + theirs).clamp(f64::MIN, f64::MAX);
        }
    }
}
