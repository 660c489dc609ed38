//! Reads the facts of a span: for each fact a list of attributes, of which the first usable one counts.

use std::borrow::Cow;

use super::Tokens;
use crate::json::{Number, Object, Value};
use crate::span::Span;

// Of each list the names of OpenInference stand last: a span that has others too reads as it always has.
const MODEL: &[&str] = &[
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.model",
    "llm.model_name",
];
const PROVIDER: &[&str] = &[
    "gen_ai.provider.name",
    "gen_ai.system",
    "llm.system",
    "llm.provider",
];
const COST_USD: &[&str] = &["llm.cost_usd", "gen_ai.usage.cost", "llm.cost.total"];
/// Attributes that make a span a call, whatever their value is.
const CALL_MARKS: &[&str] = &["gen_ai.operation.name", "llm.request.type"];
/// Attributes that make a span a call by this value.
const SPAN_KINDS: [(&str, &str); 2] = [
    ("traceloop.span.kind", "llm"),
    ("openinference.span.kind", "LLM"),
];

/// The facts of one span. What no attribute tells in a usable way is absent.
///
/// An attribute of the wrong type, or an empty text, is as if it were not there: the next one of its list is tried.
///
/// ```
/// use traza::{llm::Facts, span::Span};
/// let span = Span::from_json(br#"{"trace_id":"t","span_id":"s","name":"chat","service":"bot",
///     "start_time_ns":1,"end_time_ns":2,"attributes":{"gen_ai.request.model":"gpt-4o",
///     "gen_ai.usage.input_tokens":7,"llm.completion_tokens":"5"}}"#)?;
/// let facts = Facts::of(&span);
/// assert_eq!(facts.model.as_deref(), Some("gpt-4o"));
/// assert_eq!(facts.total_tokens, Some(12));
/// assert!(facts.is_llm);
/// # Ok::<(), traza::span::SpanError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts<'a> {
    /// The model that answered, else the one that was asked.
    pub model: Option<Cow<'a, str>>,
    /// Who serves the model.
    pub provider: Option<Cow<'a, str>>,
    /// Tokens that went in.
    pub prompt_tokens: Option<u64>,
    /// Tokens that came out.
    pub completion_tokens: Option<u64>,
    /// All tokens: as the span says, else the sum of those in and out (at most 2^64 - 1) if either is known.
    pub total_tokens: Option<u64>,
    /// What the span itself says that it cost, in US dollars. Finite; nothing keeps it from being negative.
    pub reported_cost_usd: Option<f64>,
    /// The session that the span belongs to.
    pub session: Option<Session<'a>>,
    /// True when the span is a call of a model: it has a model, a provider or any count of tokens, or is marked as a call.
    /// A cost or a session alone does not make it one.
    pub is_llm: bool,
}

/// A session as a span names it. Together with the tenant it identifies the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session<'a> {
    /// Its name.
    pub id: Cow<'a, str>,
    /// The attribute that told.
    pub key: SessionKey,
}

/// An attribute that names a session. Ordered by precedence: the first usable one decides alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionKey {
    /// `session.id`.
    SessionId,
    /// `gen_ai.conversation.id`.
    ConversationId,
    /// `traceloop.association.properties.session_id`.
    AssociationSessionId,
    /// `traceloop.association.properties.chat_id`.
    AssociationChatId,
}

impl SessionKey {
    /// All of them, in order of precedence.
    pub const ALL: [Self; 4] = [
        Self::SessionId,
        Self::ConversationId,
        Self::AssociationSessionId,
        Self::AssociationChatId,
    ];

    /// The name of the attribute.
    pub fn attribute(self) -> &'static str {
        match self {
            Self::SessionId => "session.id",
            Self::ConversationId => "gen_ai.conversation.id",
            Self::AssociationSessionId => "traceloop.association.properties.session_id",
            Self::AssociationChatId => "traceloop.association.properties.chat_id",
        }
    }
}

impl<'a> Facts<'a> {
    /// The facts of `span`.
    pub fn of(span: &'a Span) -> Self {
        let attributes = &span.attributes;
        if !attributes.keys().any(|key| may_tell(key)) {
            return Self::default();
        }
        let model = first(attributes, MODEL, text);
        let provider = first(attributes, PROVIDER, text);
        let tokens = Tokens::of(attributes);
        let [prompt_tokens, completion_tokens, stated_total] =
            [tokens.prompt, tokens.completion, tokens.total]
                .map(|told| told.map(|told| told.count));
        let is_llm = model.is_some()
            || provider.is_some()
            || prompt_tokens.is_some()
            || completion_tokens.is_some()
            || stated_total.is_some()
            || is_marked_as_call(attributes);
        Self {
            model,
            provider,
            prompt_tokens,
            completion_tokens,
            total_tokens: stated_total.or_else(|| sum(prompt_tokens, completion_tokens)),
            reported_cost_usd: first(attributes, COST_USD, amount),
            session: session(attributes),
            is_llm,
        }
    }
}

/// False for most names that no fact is read from. Most spans are no calls, and this is quicker than looking for each name
/// of every list.
fn may_tell(key: &str) -> bool {
    let family = match key.as_bytes().first() {
        Some(b'g') => "gen_ai.",
        Some(b'l') => "llm.",
        Some(b'o') => "openinference.",
        Some(b's') => "session.",
        Some(b't') => "traceloop.",
        _ => return false,
    };
    key.starts_with(family)
}

/// The text that the first usable one of `keys` states, by the rules of [`Facts`].
pub fn first_text<'a>(attributes: &'a Object, keys: &[&str]) -> Option<Cow<'a, str>> {
    first(attributes, keys, text)
}

/// What the first attribute of `keys` that `read` can use says.
pub(super) fn first<'a, T>(
    attributes: &'a Object,
    keys: &[&str],
    read: impl Fn(&'a Value) -> Option<T>,
) -> Option<T> {
    keys.iter()
        .find_map(|key| attributes.get(key).and_then(&read))
}

fn session(attributes: &Object) -> Option<Session<'_>> {
    SessionKey::ALL.into_iter().find_map(|key| {
        let id = attributes.get(key.attribute()).and_then(text)?;
        Some(Session { id, key })
    })
}

fn is_marked_as_call(attributes: &Object) -> bool {
    CALL_MARKS.iter().any(|key| attributes.contains_key(key))
        || SPAN_KINDS
            .iter()
            .any(|(key, kind)| attributes.get(key).and_then(Value::as_str) == Some(*kind))
}

fn sum(prompt: Option<u64>, completion: Option<u64>) -> Option<u64> {
    match (prompt, completion) {
        (Some(prompt), Some(completion)) => Some(prompt.saturating_add(completion)),
        (one, other) => one.or(other),
    }
}

/// A string that is not empty, or a number as it is written.
fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) if !text.is_empty() => Some(Cow::Borrowed(text)),
        Value::Number(_) => Some(Cow::Owned(value.to_string())),
        _ => None,
    }
}

/// A number without its fraction, and at least 0; or a string of decimal digits, with white space around them.
pub(super) fn count(value: &Value) -> Option<u64> {
    match value {
        Value::Number(Number::Unsigned(count)) => Some(*count),
        Value::Number(number) => Some(whole(number.as_f64())),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast does what is wanted: it drops the fraction and stops at the ends of the range"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

/// A number, or a string that spells one with white space around it; finite.
fn amount(value: &Value) -> Option<f64> {
    let amount = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    amount.is_finite().then_some(amount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::tokens;

    #[test]
    fn no_name_that_a_fact_is_read_from_is_passed_over() {
        let lists = [MODEL, PROVIDER, COST_USD, CALL_MARKS];
        let names = lists.into_iter().chain(tokens::LISTS).flatten().copied();
        let names = names
            .chain(SPAN_KINDS.map(|(key, _)| key))
            .chain(SessionKey::ALL.map(SessionKey::attribute));
        for name in names {
            assert!(may_tell(name), "{name}");
        }
        for other in ["", "http.method", "llmx", "sessions", "gen_ai"] {
            assert!(!may_tell(other), "{other}");
        }
    }
}
