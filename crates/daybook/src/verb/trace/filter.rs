//! Which spans: the conditions that the verbs share.

use clap::{Args, ValueEnum};
use traza::content;
use traza::json::Value;
use traza::store::{Filter, Sort};

use super::server::Target;
use crate::amounts::nanos;
use crate::failure::Failure;
use crate::moment::moment;

/// All conditions must hold.
#[derive(Args, Debug)]
pub(super) struct FilterArgs {
    /// Done by this service.
    #[arg(long, value_name = "SERVICE")]
    service: Option<String>,
    /// With this name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Ended like this: error, ok, or whatever the spans say; an empty text for those that say nothing.
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Not ended like this. May be repeated.
    #[arg(long, value_name = "STATUS")]
    not_status: Vec<String>,
    /// With this attribute: the value is JSON, or else a text; 200 is found as number and as text. May be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = attribute, allow_hyphen_values = true)]
    attr: Vec<(String, Value)>,
    /// Without this attribute, compared as JSON: 200 does not exclude the text. May be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = attribute, allow_hyphen_values = true)]
    not_attr: Vec<(String, Value)>,
    /// With an attribute that is at least this number. May be repeated.
    #[arg(long, value_name = "KEY=N", value_parser = bound, allow_hyphen_values = true)]
    min_attr: Vec<(String, f64)>,
    /// With an attribute that is at most this number. May be repeated.
    #[arg(long, value_name = "KEY=N", value_parser = bound, allow_hyphen_values = true)]
    max_attr: Vec<(String, f64)>,
    /// With all these words in its texts, in whatever order. May be repeated.
    #[arg(long, value_name = "WORDS")]
    text: Vec<String>,
    /// In this session.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Of this tenant; an empty text for those without one.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// In this trace. May be repeated: in one of them. An id that no argument can hold is written as a JSON string.
    #[arg(long, value_name = "ID", value_parser = id)]
    trace_id: Vec<String>,
    /// With this span id. May be repeated: with one of them.
    #[arg(long, value_name = "ID", value_parser = id)]
    span_id: Vec<String>,
    /// Took at least this long (5ms, 1.5s, 2min).
    #[arg(long, value_name = "DURATION", value_parser = nanos)]
    min_duration: Option<u64>,
    /// Took at most this long.
    #[arg(long, value_name = "DURATION", value_parser = nanos)]
    max_duration: Option<u64>,
    /// Started then or later: an RFC 3339 time, a day, nanoseconds since 1970, or a time ago (-1h).
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    since: Option<u64>,
    /// Started then or earlier.
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    until: Option<u64>,
}

impl FilterArgs {
    /// The conditions, with `words` besides.
    pub(super) fn filter(&self, words: &[String]) -> Result<Filter, Failure> {
        let mut filter = Filter::default();
        filter.trace_ids.clone_from(&self.trace_id);
        filter.span_ids.clone_from(&self.span_id);
        filter.tenant.clone_from(&self.tenant);
        filter.service.clone_from(&self.service);
        filter.name.clone_from(&self.name);
        filter.status.clone_from(&self.status);
        filter.not_status.clone_from(&self.not_status);
        filter.attributes.clone_from(&self.attr);
        filter.not_attributes.clone_from(&self.not_attr);
        filter.min_attributes.clone_from(&self.min_attr);
        filter.max_attributes.clone_from(&self.max_attr);
        filter.session.clone_from(&self.session);
        filter.min_duration_ns = self.min_duration;
        filter.max_duration_ns = self.max_duration;
        filter.since = self.since;
        filter.until = self.until;
        filter.content = content_query(self.text.iter().chain(words))?;
        Ok(filter)
    }
}

impl FilterArgs {
    /// What a server is asked for: the spans at `path` that the conditions hold for, with `words` besides.
    pub(super) fn target(&self, path: &str, words: &[String]) -> Result<Target, Failure> {
        if !self.trace_id.is_empty() || !self.span_id.is_empty() {
            let what = "a server does not look for spans by --trace-id and --span-id";
            let hint = "`daybook trace get` shows all spans of a trace";
            return Err(Failure::new(what).with_hint(hint));
        }
        let content = content_query(self.text.iter().chain(words))?;
        let mut target = Target::new(path)
            .with_some("service", self.service.as_deref())
            .with_some("name", self.name.as_deref())
            .with_some("status", self.status.as_deref())
            .with_some("session", self.session.as_deref())
            .with_some("tenant", self.tenant.as_deref())
            .with_some("min_duration_ns", self.min_duration)
            .with_some("max_duration_ns", self.max_duration)
            .with_some("since_ns", self.since)
            .with_some("until_ns", self.until)
            .with_some("content", content.map(|query| query.words().join(" ")));
        for status in &self.not_status {
            target = target.with("not_status", status);
        }
        for (prefix, attributes) in [("attr.", &self.attr), ("not_attr.", &self.not_attr)] {
            for (key, value) in attributes {
                target = target.with(&format!("{prefix}{key}"), value);
            }
        }
        for (prefix, bounds) in [("min_attr.", &self.min_attr), ("max_attr.", &self.max_attr)] {
            for (key, bound) in bounds {
                target = target.with(&format!("{prefix}{key}"), bound);
            }
        }
        Ok(target)
    }
}

/// Text without a word would match nothing, which nobody asks for on purpose.
fn content_query<'w>(
    texts: impl Iterator<Item = &'w String>,
) -> Result<Option<content::Query>, Failure> {
    let texts: Vec<&str> = texts.map(String::as_str).collect();
    if texts.is_empty() {
        return Ok(None);
    }
    let query = content::Query::new(&texts.join(" "));
    if query.words().is_empty() {
        let what = format!("no word to look for in {:?}", texts.join(" "));
        let hint = "words are of ASCII letters and digits, and are found whole";
        return Err(Failure::new(what).with_hint(hint));
    }
    Ok(Some(query))
}

/// An order, as the command line spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Order {
    /// The earliest first.
    Start,
    /// The latest first.
    #[value(name = "-start")]
    StartDescending,
    /// The shortest first.
    Duration,
    /// The longest first.
    #[value(name = "-duration")]
    DurationDescending,
}

impl Order {
    /// For an order of starts, whether the latest is first; no other one has places to go on from.
    pub(super) fn is_descending(self) -> Option<bool> {
        match self {
            Self::Start => Some(false),
            Self::StartDescending => Some(true),
            Self::Duration | Self::DurationDescending => None,
        }
    }

    /// How a server spells it; the order that it has without being asked is not spelled.
    pub(super) fn parameter(self) -> Option<&'static str> {
        match self {
            Self::Start => None,
            Self::StartDescending => Some("-start"),
            Self::Duration => Some("duration"),
            Self::DurationDescending => Some("-duration"),
        }
    }

    pub(super) fn of(self) -> Sort {
        match self {
            Self::Start => Sort::StartAscending,
            Self::StartDescending => Sort::StartDescending,
            Self::Duration => Sort::DurationAscending,
            Self::DurationDescending => Sort::DurationDescending,
        }
    }
}

fn attribute(text: &str) -> Result<(String, Value), String> {
    let (key, value) = pair(text)?;
    let value = Value::parse(value.as_bytes()).unwrap_or_else(|_| Value::from(value));
    Ok((key.to_owned(), value))
}

fn bound(text: &str) -> Result<(String, f64), String> {
    let (key, number) = pair(text)?;
    let number = number.parse().ok().filter(|number: &f64| !number.is_nan());
    let number = number.ok_or("what follows the = is no number".to_owned())?;
    Ok((key.to_owned(), number))
}

fn pair(text: &str) -> Result<(&str, &str), String> {
    text.split_once('=')
        .ok_or("a key and a value stand around a =".to_owned())
}

/// An id as it is; one that begins with a quote is a JSON string.
pub(super) fn id(text: &str) -> Result<String, String> {
    if !text.starts_with('"') {
        return Ok(text.to_owned());
    }
    match Value::parse(text.as_bytes()) {
        Ok(Value::String(id)) => Ok(id.into()),
        _ => Err("an id that begins with a quote is a JSON string".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_json_or_else_a_text_and_a_key_ends_at_the_first_equals_sign() {
        let parsed = |text| attribute(text).map(|(key, value)| (key, value.to_string()));
        let is = |key: &str, json: &str| Ok((key.to_owned(), json.to_owned()));
        assert_eq!(parsed("a=200"), is("a", "200"));
        assert_eq!(parsed("a=two=2"), is("a", "\"two=2\""));
        assert_eq!(parsed("a=\"200\""), is("a", "\"200\""));
        assert_eq!(parsed("a="), is("a", "\"\""));
        assert_eq!(parsed("=null"), is("", "null"));
        assert!(parsed("a").is_err());
        assert_eq!(bound("a=-1.5"), Ok(("a".to_owned(), -1.5)));
        assert!(bound("a=x").is_err() && bound("a=nan").is_err());
        assert_eq!(id("abc"), Ok("abc".to_owned()));
        assert_eq!(id("\"a\\u0000\""), Ok("a\0".to_owned()));
        assert_eq!(id("12"), Ok("12".to_owned()));
        assert!(id("\"a").is_err());
    }
}
