//! Spans to measure with: the same for the same seed, in the shapes of real systems.

mod generic;
mod llm;
mod text;

use std::collections::VecDeque;

use clap::ValueEnum;
use traza::json::{Number, Object, Value};
use traza::span::Span;

pub(crate) use text::{Random, Text};

/// Start of all corpora, nanoseconds since the Unix epoch.
const BASE_NS: u64 = 1_750_000_000_000_000_000;
/// One millisecond.
const MS: u64 = 1_000_000;
/// One of these is in every span.
const TOPICS: [&str; 5] = ["lumen", "cobalt", "maple", "harbor", "quartz"];
/// Every so many spans one carries a rare word.
pub(crate) const RARE_EVERY: u64 = 97;
/// How many rare words there are.
pub(crate) const RARE_WORDS: u64 = 50;

/// What kind of system the spans are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// Services: an HTTP request with database, cache, RPC and queue calls below it.
    Generic,
    /// Agents: conversations with prompts and completions of 200 B to 20 KB.
    Llm,
}

impl Profile {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Llm => "llm",
        }
    }
}

/// An endless stream of spans, trace after trace, in about the order of their starts.
pub(crate) struct Spans {
    traces: Box<dyn Traces>,
    ready: VecDeque<Span>,
    made: u64,
    rare: Rare,
}

/// The attribute that holds the rare words.
struct Rare {
    key: &'static str,
    before: &'static str,
    behind: &'static str,
}

/// Makes the spans of the next trace.
trait Traces: Send {
    fn next_trace(&mut self, out: &mut VecDeque<Span>);
}

impl Spans {
    pub(crate) fn new(profile: Profile, seed: u64) -> Self {
        let random = Random::from_seed(seed);
        let (traces, rare): (Box<dyn Traces>, Rare) = match profile {
            Profile::Generic => (
                Box::new(generic::Requests::new(random)),
                Rare {
                    key: "ticket",
                    before: "see ",
                    behind: " for detail",
                },
            ),
            Profile::Llm => (
                Box::new(llm::Conversations::new(random)),
                Rare {
                    key: "memo",
                    before: "filed under ",
                    behind: " today",
                },
            ),
        };
        Self {
            traces,
            ready: VecDeque::new(),
            made: 0,
            rare,
        }
    }
}

impl Iterator for Spans {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        while self.ready.is_empty() {
            self.traces.next_trace(&mut self.ready);
        }
        let mut span = self.ready.pop_front()?;
        let topic = usize::try_from(self.made)
            .ok()
            .and_then(|made| TOPICS.get(made % TOPICS.len()));
        put(&mut span.attributes, "topic", *topic?);
        if self.made.is_multiple_of(RARE_EVERY) {
            let Rare {
                key,
                before,
                behind,
            } = self.rare;
            let word = rare_word(self.made / RARE_EVERY);
            put(&mut span.attributes, key, format!("{before}{word}{behind}"));
        }
        self.made += 1;
        Some(span)
    }
}

/// A word that about one span in 4850 carries.
pub(crate) fn rare_word(number: u64) -> String {
    format!("amber{:04}", number % RARE_WORDS)
}

/// Sets an attribute.
fn put(attributes: &mut Object, key: &str, value: impl Into<Value>) {
    attributes.insert(key.to_owned(), value.into());
}

/// A float attribute, rounded to so many decimals.
fn rounded(value: f64, decimals: i32) -> Value {
    let scale = 10f64.powi(decimals);
    Value::Number(Number::Float((value * scale).round() / scale))
}
