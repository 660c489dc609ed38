//! Which spans a question is about.

use crate::content;
use crate::json::Value;
use crate::llm::Facts;
use crate::record::value_matches;
use crate::span::Span;

/// Conditions on a span; all of them must hold. The default takes every span.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Filter {
    /// In one of these traces; empty for any.
    pub trace_ids: Vec<String>,
    /// With one of these span ids; empty for any.
    pub span_ids: Vec<String>,
    /// Of this tenant; `Some("")` is the default one, `None` all.
    pub tenant: Option<String>,
    /// Done by this service.
    pub service: Option<String>,
    /// With this name.
    pub name: Option<String>,
    /// Ended like this; `Some("")` for those that say nothing.
    pub status: Option<String>,
    /// Not ended like one of these.
    pub not_status: Vec<String>,
    /// With these attributes. Strings, numbers and booleans are compared by their text; see
    /// [`value_matches`].
    pub attributes: Vec<(String, Value)>,
    /// Without these attributes. Compared as values: `200` does not exclude `"200"`.
    pub not_attributes: Vec<(String, Value)>,
    /// With a number of this size at least under the key, also one that is written as a string.
    pub min_attributes: Vec<(String, f64)>,
    /// With a number of this size at most under the key.
    pub max_attributes: Vec<(String, f64)>,
    /// With all these words in its texts.
    pub content: Option<content::Query>,
    /// In this session; see [`Facts::session`].
    pub session: Option<String>,
    /// Took so many nanoseconds at least; a span that ends before it starts took none.
    pub min_duration_ns: Option<u64>,
    /// Took so many nanoseconds at most.
    pub max_duration_ns: Option<u64>,
    /// Started then or later, in nanoseconds since the Unix epoch.
    pub since: Option<u64>,
    /// Started then or earlier.
    pub until: Option<u64>,
}

impl Filter {
    /// True when all conditions hold.
    pub fn matches(&self, span: &Span) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        self.since.is_none_or(|since| span.start_time_ns >= since)
            && self.until.is_none_or(|until| span.start_time_ns <= until)
            && is(&self.service, &span.service)
            && is(&self.name, &span.name)
            && is(&self.status, &span.status)
            && is(&self.tenant, &span.tenant)
            && is_one_of(&self.trace_ids, &span.trace_id)
            && is_one_of(&self.span_ids, &span.span_id)
            && !self.not_status.iter().any(|s| *s == span.status)
            && self.duration_matches(span)
            && self.attributes_match(span)
            && self.session.as_deref().is_none_or(|wanted| {
                Facts::of(span)
                    .session
                    .is_some_and(|found| found.id == wanted)
            })
            && self
                .content
                .as_ref()
                .is_none_or(|content| content.matches(span))
    }

    fn duration_matches(&self, span: &Span) -> bool {
        let duration = duration_ns(span);
        self.min_duration_ns.is_none_or(|min| duration >= min)
            && self.max_duration_ns.is_none_or(|max| duration <= max)
    }

    fn attributes_match(&self, span: &Span) -> bool {
        let has = |(key, wanted): &(String, Value)| {
            span.attributes
                .get(key)
                .is_some_and(|stored| value_matches(stored, wanted))
        };
        let has_exactly =
            |(key, unwanted): &(String, Value)| span.attributes.get(key) == Some(unwanted);
        let number = |key: &str| span.attributes.get(key).and_then(number_of);
        self.attributes.iter().all(has)
            && !self.not_attributes.iter().any(has_exactly)
            && self
                .min_attributes
                .iter()
                .all(|(key, min)| number(key).is_some_and(|found| found >= *min))
            && self
                .max_attributes
                .iter()
                .all(|(key, max)| number(key).is_some_and(|found| found <= *max))
    }
}

fn is_one_of(wanted: &[String], found: &str) -> bool {
    wanted.is_empty() || wanted.iter().any(|wanted| wanted == found)
}

/// How long a span took in nanoseconds; 0 for one that ends before it starts.
pub(crate) fn duration_ns(span: &Span) -> u64 {
    span.end_time_ns.saturating_sub(span.start_time_ns)
}

/// The number that an attribute is, or that it spells.
fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(number.as_f64()),
        Value::String(text) => text
            .trim()
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
