//! How large the context of a call was, and how that changes from call to call.

use traza::llm::{Context, Facts, Tokens};
use traza::span::Span;

/// With fewer readings there is no trend.
const READINGS_MIN: usize = 3;
/// A context that has grown by so many tokens grows, however large it was.
const GROWTH_TOKENS: u64 = 20_000;

/// How the context changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trend {
    /// It never shrinks, and ends twice as large or 20,000 tokens larger.
    Growing,
    /// It ends within a tenth of where it began.
    Flat,
    /// Neither.
    Varying,
    /// Too few spans say how large it is.
    Absent,
    /// It cannot be worked out.
    Unknown,
}

impl Trend {
    /// The word that answers use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Growing => "growing",
            Self::Flat => "flat",
            Self::Varying => "varying",
            Self::Absent => "absent",
            Self::Unknown => "unknown",
        }
    }
}

/// The contexts of some spans, in the order of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contexts {
    pub(super) trend: Trend,
    /// The first and the last size in tokens, when there is a trend.
    pub(super) ends: Option<(u64, u64)>,
    /// Too few spans say how large theirs is.
    pub(super) is_sparse: bool,
}

impl Contexts {
    pub(super) fn of<'s>(spans: impl Iterator<Item = &'s Span>) -> Self {
        let mut sizes = Vec::new();
        let mut is_unknown = false;
        for span in spans {
            match reading(span) {
                Context::Tokens(tokens) => sizes.push(tokens),
                Context::Absent => {}
                Context::Unclear => is_unknown = true,
            }
        }
        let is_sparse = sizes.len() < READINGS_MIN;
        let ends = sizes.first().copied().zip(sizes.last().copied());
        let trend = match ends {
            _ if is_unknown => Trend::Unknown,
            Some((first, last)) if !is_sparse => trend(&sizes, first, last),
            _ => Trend::Absent,
        };
        Self {
            trend,
            ends: ends.filter(|_| !matches!(trend, Trend::Unknown | Trend::Absent)),
            is_sparse,
        }
    }
}

fn reading(span: &Span) -> Context {
    let provider = Facts::of(span).provider;
    Tokens::of(&span.attributes).context(provider.as_deref())
}

fn trend(sizes: &[u64], first: u64, last: u64) -> Trend {
    let doubled = first > 0 && last >= first.saturating_mul(2);
    let grown = last.saturating_sub(first) >= GROWTH_TOKENS;
    if sizes.is_sorted() && (doubled || grown) {
        Trend::Growing
    } else if u128::from(first.abs_diff(last)) * 10 <= u128::from(first) {
        Trend::Flat
    } else {
        Trend::Varying
    }
}
