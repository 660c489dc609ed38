//! Steps that repeat within a trace, and the shape of each repetition.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use traza::json::Value;
use traza::span::Span;

use super::has_failed;
use super::tokens::{Contexts, Trend};
use crate::mcp::tree::{Forest, Step};

/// A step is reported from so many repeats.
const REPEATS_MIN: usize = 5;
/// A step that is nested in itself so often is a chain.
const CHAIN_DEPTH: usize = 5;
/// So many spans of a finding are named.
const EXAMPLES_MAX: usize = 5;
/// The attribute of a link that says what the link is.
const LINK_RELATION: &str = "relation";
/// Its value for a link to the attempt before.
const RETRY_OF: &str = "retry-of";

/// What a repetition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One attempt after the other, and half of them fail at least.
    RetryStorm,
    /// The context grows from call to call.
    ContextRunaway,
    /// The step is nested in itself.
    SelfSimilarChain,
    /// Links say that these are retries.
    DeclaredRetry,
    /// Ordinary work on many things.
    Iteration,
    /// Nothing tells.
    Inconclusive,
}

impl Shape {
    /// The word that structured answers use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RetryStorm => "retry_storm",
            Self::ContextRunaway => "context_runaway",
            Self::SelfSimilarChain => "self_similar_chain",
            Self::DeclaredRetry => "declared_retry",
            Self::Iteration => "iteration",
            Self::Inconclusive => "inconclusive",
        }
    }

    /// How a reader would call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::RetryStorm => "retry storm",
            Self::ContextRunaway => "context without end",
            Self::SelfSimilarChain => "step nested in itself",
            Self::DeclaredRetry => "declared retries",
            Self::Iteration => "plain iteration",
            Self::Inconclusive => "undecided",
        }
    }

    /// True for a shape that points at something to mend.
    pub fn is_fault(self) -> bool {
        !matches!(self, Self::Iteration | Self::Inconclusive)
    }
}

/// What is missing to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Sizes of contexts.
    Readings,
    /// How the provider counts cached tokens.
    Convention,
    /// A failure.
    Failure,
    /// Attempts that waited for each other.
    Order,
    /// All signals are there, and none is clear.
    Discriminator,
}

impl Missing {
    /// For a reader.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Readings => "too few attempts say how large their context was",
            Self::Convention => "the provider is not one whose counting of cached tokens is known",
            Self::Failure => "none of the attempts failed",
            Self::Order => "the attempts ran side by side, and a retry waits for what it repeats",
            Self::Discriminator => "every signal is there, and none of them is clear",
        }
    }
}

/// A step that repeats within a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What the repetition is.
    pub shape: Shape,
    /// Who does it.
    pub service: String,
    /// What is done.
    pub name: String,
    /// Where.
    pub trace_id: String,
    /// Whose it is.
    pub tenant: String,
    /// The places of its spans, in the order of their starts.
    pub places: Vec<usize>,
    /// How many of them failed.
    pub error_count: usize,
    /// How often the step is nested in itself.
    pub self_depth: usize,
    /// The part of its spans, but for the first, that began when the one before had ended; from 0 to 1.
    pub serial_fraction: f64,
    /// How the context changes.
    pub token_trend: Trend,
    /// The first and the last size of the context in tokens, when there is a trend.
    pub context: Option<(u64, u64)>,
    /// What is missing, when nothing tells.
    pub missing: Vec<Missing>,
}

impl Finding {
    /// The places of a few of its spans: the first ones and the last.
    pub fn examples(&self) -> Vec<usize> {
        let mut examples = self.places.clone();
        if let Some(last) = examples
            .last()
            .copied()
            .filter(|_| examples.len() > EXAMPLES_MAX)
        {
            examples.truncate(EXAMPLES_MAX - 1);
            examples.push(last);
        }
        examples
    }
}

/// What makes two spans the same step: service, name, trace and tenant.
type StepKey<'s> = (&'s str, &'s str, &'s str, &'s str);

fn step_of(span: &Span) -> StepKey<'_> {
    (&span.service, &span.name, &span.trace_id, &span.tenant)
}

pub(super) fn find(spans: &[Arc<Span>], forest: &Forest) -> Vec<Finding> {
    let mut groups: BTreeMap<StepKey<'_>, Vec<usize>> = BTreeMap::new();
    for (place, span) in spans.iter().enumerate() {
        groups.entry(step_of(span)).or_default().push(place);
    }
    let depths = self_depths(spans, forest);
    let mut findings: Vec<Finding> = groups
        .into_iter()
        // A step that is nested in itself often enough repeats often enough, too.
        .filter(|(_, places)| places.len() >= REPEATS_MIN)
        .map(|(step, places)| {
            let depth = depths.get(&step).copied().unwrap_or(0);
            finding(spans, step, places, depth)
        })
        .collect();
    // Stable: they are in the order of service, name and trace.
    findings.sort_by_key(|finding| (!finding.shape.is_fault(), Reverse(finding.places.len())));
    findings
}

/// For each step how often it is nested in itself at most.
fn self_depths<'s>(spans: &'s [Arc<Span>], forest: &Forest) -> HashMap<StepKey<'s>, usize> {
    let mut deepest: HashMap<StepKey<'_>, usize> = HashMap::new();
    let mut above: HashMap<StepKey<'_>, usize> = HashMap::new();
    forest.walk(|step| match step {
        Step::Enter(place, _) => {
            if let Some(span) = spans.get(place) {
                let count = above.entry(step_of(span)).or_default();
                let depth = deepest.entry(step_of(span)).or_default();
                *depth = (*depth).max(*count);
                *count += 1;
            }
        }
        Step::Leave(place) => {
            if let Some(count) = spans
                .get(place)
                .and_then(|span| above.get_mut(&step_of(span)))
            {
                *count -= 1;
            }
        }
    });
    deepest
}

fn finding(
    spans: &[Arc<Span>],
    step: StepKey<'_>,
    places: Vec<usize>,
    self_depth: usize,
) -> Finding {
    let members: Vec<&Span> = places
        .iter()
        .filter_map(|place| spans.get(*place))
        .map(Arc::as_ref)
        .collect();
    let error_count = members.iter().filter(|span| has_failed(span)).count();
    let contexts = Contexts::of(members.iter().copied());
    let signals = Signals {
        self_depth,
        contexts,
        has_retry_link: has_retry_link(&members),
        serial_fraction: serial_fraction(&members),
        error_fraction: fraction(error_count, members.len()),
    };
    let shape = signals.shape();
    let (service, name, trace_id, tenant) = step;
    Finding {
        shape,
        service: service.to_owned(),
        name: name.to_owned(),
        trace_id: trace_id.to_owned(),
        tenant: tenant.to_owned(),
        error_count,
        self_depth,
        serial_fraction: signals.serial_fraction,
        token_trend: contexts.trend,
        context: contexts.ends,
        missing: if shape == Shape::Inconclusive {
            signals.missing()
        } else {
            Vec::new()
        },
        places,
    }
}

/// What the shape follows from.
#[derive(Clone, Copy, Debug)]
struct Signals {
    self_depth: usize,
    contexts: Contexts,
    has_retry_link: bool,
    serial_fraction: f64,
    error_fraction: f64,
}

impl Signals {
    fn is_serial(&self) -> bool {
        self.serial_fraction >= 0.8
    }

    /// The first rule that fits decides.
    fn shape(&self) -> Shape {
        if self.self_depth >= CHAIN_DEPTH {
            Shape::SelfSimilarChain
        } else if self.contexts.trend == Trend::Growing {
            Shape::ContextRunaway
        } else if self.has_retry_link {
            Shape::DeclaredRetry
        } else if self.is_serial() && self.error_fraction >= 0.5 {
            Shape::RetryStorm
        } else if self.is_healthy() {
            Shape::Iteration
        } else {
            Shape::Inconclusive
        }
    }

    /// Side by side with few failures; or one after the other with hardly any, over contexts that are known not to grow.
    fn is_healthy(&self) -> bool {
        let is_known_not_to_grow = matches!(self.contexts.trend, Trend::Flat | Trend::Varying);
        (self.error_fraction < 0.5 && !self.is_serial())
            || (self.error_fraction < 0.1 && is_known_not_to_grow)
    }

    fn missing(&self) -> Vec<Missing> {
        let candidates = [
            (self.contexts.is_sparse, Missing::Readings),
            (self.contexts.trend == Trend::Unknown, Missing::Convention),
            (self.error_fraction == 0.0, Missing::Failure),
            (!self.is_serial(), Missing::Order),
        ];
        let found = candidates.into_iter().filter(|(is_missing, _)| *is_missing);
        let found: Vec<Missing> = found.map(|(_, missing)| missing).collect();
        if found.is_empty() {
            vec![Missing::Discriminator]
        } else {
            found
        }
    }
}

/// True when a link says that one member is a retry of another.
fn has_retry_link(members: &[&Span]) -> bool {
    let ids: std::collections::HashSet<(&str, &str)> = members
        .iter()
        .map(|span| (span.trace_id.as_str(), span.span_id.as_str()))
        .collect();
    members.iter().flat_map(|span| &span.links).any(|link| {
        link.attributes.get(LINK_RELATION).and_then(Value::as_str) == Some(RETRY_OF)
            && ids.contains(&(link.trace_id.as_str(), link.span_id.as_str()))
    })
}

/// The part of the members, but for the first, that began when the one before had ended.
fn serial_fraction(members: &[&Span]) -> f64 {
    let pairs = members.iter().zip(members.iter().skip(1));
    let serial = pairs.filter(|(before, span)| span.start_time_ns >= before.end_time_ns);
    fraction(serial.count(), members.len().saturating_sub(1))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a share of at most some thousand spans"
)]
fn fraction(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}
