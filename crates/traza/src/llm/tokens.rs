//! The counts of tokens of a call, and where each is from.

use super::facts::{count, first};
use crate::json::{Object, Value};

const PROMPT: &[&str] = &[
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.prompt_tokens",
    OPENINFERENCE_PROMPT,
];
const COMPLETION: &[&str] = &[
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.completion_tokens",
    "llm.token_count.completion",
];
const TOTAL: &[&str] = &[
    "llm.usage.total_tokens",
    "gen_ai.usage.total_tokens",
    "llm.total_tokens",
    "llm.token_count.total",
];
const CACHE_READ: &[&str] = &[
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
];
const CACHE_WRITE: &[&str] = &[
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "llm.token_count.prompt_details.cache_write",
];
const REASONING: &[&str] = &[
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "llm.usage.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
];
/// All of these.
#[cfg(test)]
pub(super) const LISTS: [&[&str]; 6] = [
    PROMPT,
    COMPLETION,
    TOTAL,
    CACHE_READ,
    CACHE_WRITE,
    REASONING,
];
/// By its convention what is cached is a part of it, whoever the provider is.
const OPENINFERENCE_PROMPT: &str = "llm.token_count.prompt";
/// Providers whose count of prompt tokens leaves out what came from the cache or went into it.
const APART_FROM_CACHE: [&str; 3] = ["anthropic", "aws.bedrock", "gcp.vertex_ai"];
/// Providers whose count of prompt tokens has these in it.
const WITH_CACHE: [&str; 2] = ["openai", "azure.ai.openai"];

/// A count, and the attribute that told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// How many tokens.
    pub count: u64,
    /// The name of the attribute.
    pub key: &'static str,
}

/// The counts of tokens that a span states. What no attribute tells in a usable way is absent; the rules are those of
/// [`Facts`](super::Facts).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// That went in.
    pub prompt: Option<Told>,
    /// That came out.
    pub completion: Option<Told>,
    /// All, where that is stated.
    pub total: Option<Told>,
    /// That were read from the provider's cache instead of being worked on again.
    pub cache_read: Option<Told>,
    /// That were written to that cache.
    pub cache_write: Option<Told>,
    /// Of those that came out: the ones that the model only thought.
    pub reasoning: Option<Told>,
}

/// How many tokens a model was given to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// So many, cached ones included.
    Tokens(u64),
    /// The span does not say.
    Absent,
    /// There are counts, and whether the cached ones are a part of the others depends on a provider that is not known.
    Unclear,
}

impl Tokens {
    /// What these attributes state.
    pub fn of(attributes: &Object) -> Self {
        let told = |keys: &[&'static str]| {
            keys.iter().find_map(|key| {
                let count = first(attributes, &[*key], |value: &Value| count(value))?;
                Some(Told { count, key })
            })
        };
        Self {
            prompt: told(PROMPT),
            completion: told(COMPLETION),
            total: told(TOTAL),
            cache_read: told(CACHE_READ),
            cache_write: told(CACHE_WRITE),
            reasoning: told(REASONING),
        }
    }

    /// How much was read of a model of this provider.
    pub fn context(&self, provider: Option<&str>) -> Context {
        let Some(prompt) = self.prompt else {
            return Context::Absent;
        };
        let cached = [self.cache_read, self.cache_write].into_iter().flatten();
        let cached = cached.fold(0_u64, |sum, told| sum.saturating_add(told.count));
        match provider {
            _ if prompt.key == OPENINFERENCE_PROMPT || cached == 0 => Context::Tokens(prompt.count),
            Some(provider) if APART_FROM_CACHE.contains(&provider) => {
                Context::Tokens(prompt.count.saturating_add(cached))
            }
            Some(provider) if WITH_CACHE.contains(&provider) => Context::Tokens(prompt.count),
            _ => Context::Unclear,
        }
    }

    /// What is told, in words, each with its name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, Told)> {
        [
            ("in", self.prompt),
            ("read from the cache", self.cache_read),
            ("written to the cache", self.cache_write),
            ("out", self.completion),
            ("reasoning", self.reasoning),
            ("in all", self.total),
        ]
        .into_iter()
        .filter_map(|(name, told)| Some((name, told?)))
    }
}
