//! Query strings, and the conditions on spans that they spell.

use percent_encoding::percent_decode_str;
use traza::content;
use traza::json::Value;
use traza::store::{Cursor, Filter, Sort};

use crate::auth::Caller;
use crate::http::Refusal;

/// Decodes a part of a target: `+` is a space, what is no escape stays.
pub(crate) fn decode(text: &str) -> String {
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8_lossy().into_owned()
}

/// The pairs of a query string, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    pairs: Vec<(String, String)>,
}

impl Parameters {
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                (decode(key), decode(value))
            })
            .collect();
        Self { pairs }
    }

    /// Refuses a key that is not one of `known`.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Refusal> {
        match self
            .pairs
            .iter()
            .find(|(key, _)| !known.contains(&key.as_str()))
        {
            Some((key, _)) => Err(unknown(key)),
            None => Ok(()),
        }
    }

    /// The last value under a key.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        let mut pairs = self.pairs.iter().rev();
        pairs
            .find(|(found, _)| found == key)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn owned(&self, key: &str) -> Option<String> {
        self.text(key).map(str::to_owned)
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, Refusal> {
        self.text(key).map(|text| number(text, key)).transpose()
    }

    pub(crate) fn limit(&self) -> Result<Option<usize>, Refusal> {
        let limit = self.number("limit")?;
        Ok(limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)))
    }

    /// A moment under either of its names; the later pair counts.
    pub(crate) fn moment(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let with_unit = format!("{name}_ns");
        let mut pairs = self.pairs.iter().rev();
        let pair = pairs.find(|(key, _)| key == name || *key == with_unit);
        pair.map(|(_, value)| number(value, name)).transpose()
    }
}

fn unknown(key: &str) -> Refusal {
    Refusal::bad_request(format!("unknown query parameter: {key}"))
}

fn number(text: &str, name: &str) -> Result<u64, Refusal> {
    let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_decimal
        .then(|| text.parse().ok())
        .flatten()
        .ok_or_else(|| Refusal::bad_request(format!("invalid {name}")))
}

/// What a question over spans asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanQuestion {
    pub(crate) filter: Filter,
    pub(crate) limit: Option<usize>,
    pub(crate) sort: Option<Sort>,
    pub(crate) after: Option<Cursor>,
    /// The keys that were there and are no condition on spans.
    rest: Vec<(String, String)>,
}

impl SpanQuestion {
    /// Reads the conditions of the routes over spans. Keys of `more` are kept for the route.
    pub(crate) fn read(query: &str, caller: &Caller, more: &[&str]) -> Result<Self, Refusal> {
        let mut question = Self::default();
        let mut words: Option<String> = None;
        for (key, value) in Parameters::parse(query).pairs {
            if more.contains(&key.as_str()) {
                question.rest.push((key, value));
                continue;
            }
            if matches!(key.as_str(), "content" | "q") {
                words = Some(value);
                continue;
            }
            question.take(&key, value)?;
        }
        let filter = &mut question.filter;
        filter.content = words.map(|words| content::Query::new(&words));
        filter.tenant = caller.tenant_of_read(filter.tenant.take())?;
        Ok(question)
    }

    /// The parameters that the route reads itself.
    pub(crate) fn rest(&self) -> Parameters {
        Parameters {
            pairs: self.rest.clone(),
        }
    }

    fn take(&mut self, key: &str, value: String) -> Result<(), Refusal> {
        let filter = &mut self.filter;
        match key {
            "service" => filter.service = Some(value),
            "name" => filter.name = Some(value),
            "status" => filter.status = Some(value),
            "not_status" => filter.not_status.push(value),
            "session" => filter.session = Some(value),
            "tenant" => filter.tenant = Some(value),
            "min_duration_ms" => filter.min_duration_ns = Some(from_ms(number(&value, key)?)),
            "max_duration_ms" => filter.max_duration_ns = Some(from_ms(number(&value, key)?)),
            "min_duration_ns" => filter.min_duration_ns = Some(number(&value, key)?),
            "max_duration_ns" => filter.max_duration_ns = Some(number(&value, key)?),
            "since" | "since_ns" => filter.since = Some(number(&value, "since")?),
            "until" | "until_ns" => filter.until = Some(number(&value, "until")?),
            "sort" => self.sort = Some(sort(&value)?),
            "limit" => {
                let limit = number(&value, key)?;
                self.limit = Some(usize::try_from(limit).unwrap_or(usize::MAX));
            }
            "cursor" => {
                let text = "cursor is not a token this server issued";
                let cursor = Cursor::from_token(&value);
                self.after = Some(cursor.ok_or_else(|| Refusal::bad_request(text))?);
            }
            _ => return self.take_attribute(key, &value),
        }
        Ok(())
    }

    fn take_attribute(&mut self, key: &str, value: &str) -> Result<(), Refusal> {
        let filter = &mut self.filter;
        let json = || Value::parse(value.as_bytes()).unwrap_or_else(|_| Value::from(value));
        let bound = || {
            let bound = value
                .trim()
                .parse()
                .ok()
                .filter(|bound: &f64| !bound.is_nan());
            bound.ok_or_else(|| Refusal::bad_request(format!("{key} must be a number")))
        };
        if let Some(name) = key.strip_prefix("attr.") {
            filter.attributes.push((name.to_owned(), json()));
        } else if let Some(name) = key.strip_prefix("not_attr.") {
            filter.not_attributes.push((name.to_owned(), json()));
        } else if let Some(name) = key.strip_prefix("min_attr.") {
            filter.min_attributes.push((name.to_owned(), bound()?));
        } else if let Some(name) = key.strip_prefix("max_attr.") {
            filter.max_attributes.push((name.to_owned(), bound()?));
        } else {
            return Err(unknown(key));
        }
        Ok(())
    }
}

fn from_ms(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

fn sort(text: &str) -> Result<Sort, Refusal> {
    match text {
        "start" | "start_asc" => Ok(Sort::StartAscending),
        "-start" | "start_desc" => Ok(Sort::StartDescending),
        "duration" | "duration_asc" => Ok(Sort::DurationAscending),
        "-duration" | "duration_desc" => Ok(Sort::DurationDescending),
        _ => Err(Refusal::bad_request(
            "sort must be duration, -duration, start or -start",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<SpanQuestion, Refusal> {
        SpanQuestion::read(query, &Caller::operator(), &[])
    }

    fn fault(query: &str) -> String {
        let refusal = read(query).unwrap_err();
        assert_eq!(refusal.status, 400);
        refusal
            .body
            .get("error")
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    }

    #[test]
    fn keys_and_values_are_decoded_and_the_last_scalar_counts() {
        let question =
            read("service=a&&service=b+c%2B&attr.x%00y=%7B%22a%22:1%7D&attr.=%zz").unwrap();
        assert_eq!(question.filter.service.as_deref(), Some("b c+"));
        let attributes = &question.filter.attributes;
        assert_eq!(attributes[0].0, "x\0y");
        assert_eq!(attributes[0].1.to_string(), r#"{"a":1}"#);
        assert_eq!(attributes[1], (String::new(), Value::from("%zz")));
        assert_eq!(decode("%ff"), "\u{fffd}");
    }

    #[test]
    fn durations_in_both_units_replace_each_other_and_saturate() {
        let question = read("min_duration_ns=5&min_duration_ms=18446744073709551615").unwrap();
        assert_eq!(question.filter.min_duration_ns, Some(u64::MAX));
        let question = read("min_duration_ms=5&min_duration_ns=7").unwrap();
        assert_eq!(question.filter.min_duration_ns, Some(7));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(fault("x=1"), "unknown query parameter: x");
        assert_eq!(fault("limit=-1"), "invalid limit");
        assert_eq!(fault("limit=18446744073709551616"), "invalid limit");
        assert_eq!(fault("since_ns=x"), "invalid since");
        assert_eq!(fault("until="), "invalid until");
        assert_eq!(fault("min_duration_ms=-1"), "invalid min_duration_ms");
        assert_eq!(fault("min_attr.k=x"), "min_attr.k must be a number");
        assert_eq!(
            fault("cursor=x"),
            "cursor is not a token this server issued"
        );
        assert!(fault("sort=name").contains("-duration"));
    }
}
