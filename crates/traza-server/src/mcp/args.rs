//! The arguments of a call.

use serde_json::{Map, Value};

use super::clean;
use super::error::ToolError;
use super::time;

/// The arguments of one call of a tool. One that is `null` is as if it were not there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Args<'a> {
    values: &'a Map<String, Value>,
    now_ns: u64,
}

/// A window of time; both ends belong to it, in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) since: Option<u64>,
    pub(super) until: Option<u64>,
}

impl<'a> Args<'a> {
    /// `now_ns` is what ages are counted back from.
    pub(super) fn new(values: &'a Map<String, Value>, now_ns: u64) -> Self {
        Self { values, now_ns }
    }

    /// Refuses arguments that the tool does not have.
    pub(super) fn only(&self, tool: &str, accepted: &[&str]) -> Result<(), ToolError> {
        match self
            .values
            .keys()
            .find(|name| !accepted.contains(&name.as_str()))
        {
            None => Ok(()),
            Some(unknown) => Err(ToolError::new(format!(
                "{tool} has no argument {:?}. Accepted: {}.",
                clean::line(unknown, 64),
                accepted.join(", ")
            ))),
        }
    }

    pub(super) fn value(&self, name: &str) -> Option<&'a Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Also one that is `null`.
    pub(super) fn raw(&self, name: &str) -> Option<&'a Value> {
        self.values.get(name)
    }

    pub(super) fn string(&self, name: &str) -> Result<Option<&'a str>, ToolError> {
        self.value(name)
            .map(|value| {
                value
                    .as_str()
                    .ok_or_else(|| ToolError::new(format!("{name} must be a string.")))
            })
            .transpose()
    }

    /// A string that must be there, and not be empty.
    pub(super) fn required(&self, name: &str) -> Result<&'a str, ToolError> {
        match self.string(name)? {
            None => Err(ToolError::new(format!("{name} is required."))),
            Some("") => Err(ToolError::new(format!("{name} must not be empty."))),
            Some(text) => Ok(text),
        }
    }

    /// One of `words`, if it is there.
    pub(super) fn word(
        &self,
        name: &str,
        words: &[&'static str],
    ) -> Result<Option<&'static str>, ToolError> {
        let Some(found) = self.string(name)? else {
            return Ok(None);
        };
        let known = words.iter().copied().find(|word| *word == found);
        known.map(Some).ok_or_else(|| {
            ToolError::new(format!(
                "{name} must be one of {}; {:?} is none of them.",
                words.join(", "),
                clean::line(found, 64)
            ))
        })
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, ToolError> {
        match self.value(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(ToolError::new(format!("{name} must be true or false."))),
        }
    }

    /// A whole number, brought into the range from 1 to `max`.
    pub(super) fn limit(&self, name: &str, default: usize, max: usize) -> Result<usize, ToolError> {
        let Some(value) = self.value(name) else {
            return Ok(default.min(max));
        };
        let found = value.as_u64().or_else(|| {
            // `1e9` and `20.0` are whole numbers too.
            let number = value
                .as_f64()
                .filter(|number| number.fract() == 0.0 && *number >= 0.0)?;
            Some(if number >= 1e15 {
                u64::MAX
            } else {
                format!("{number:.0}").parse().ok()?
            })
        });
        match found {
            Some(found) => Ok(usize::try_from(found)
                .unwrap_or(usize::MAX)
                .clamp(1, max.max(1))),
            None => Err(ToolError::new(format!(
                "{name} must be a whole number of at least 0."
            ))),
        }
    }

    /// An array of strings; empty when it is not there.
    pub(super) fn strings(&self, name: &str) -> Result<Vec<String>, ToolError> {
        let wrong = || ToolError::new(format!("{name} must be an array of strings."));
        let Some(value) = self.value(name) else {
            return Ok(Vec::new());
        };
        let items = value.as_array().ok_or_else(wrong)?;
        items
            .iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong))
            .collect()
    }

    /// An object of attribute values; empty when it is not there.
    pub(super) fn attributes(
        &self,
        name: &str,
    ) -> Result<Vec<(String, traza::json::Value)>, ToolError> {
        let Some(value) = self.value(name) else {
            return Ok(Vec::new());
        };
        let members = value.as_object().ok_or_else(|| {
            ToolError::new(format!(
                "{name} must be an object of keys and values, such as {{\"gen_ai.request.model\": \"gpt-4o\"}}."
            ))
        })?;
        members
            .iter()
            .map(|(key, value)| Ok((key.clone(), stored_value(name, value)?)))
            .collect()
    }

    /// A number of milliseconds, in nanoseconds. `round_up` decides to which side of a nanosecond.
    pub(super) fn milliseconds(
        &self,
        name: &str,
        round_up: bool,
    ) -> Result<Option<u64>, ToolError> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let wrong = || {
            ToolError::new(format!(
                "{name} must be a number of milliseconds, 0 or more."
            ))
        };
        if let Some(whole) = value.as_u64() {
            return Ok(Some(whole.saturating_mul(1_000_000)));
        }
        let number = value
            .as_f64()
            .filter(|number| *number >= 0.0)
            .ok_or_else(wrong)?;
        let ns = number * 1e6;
        let ns = if round_up { ns.ceil() } else { ns.floor() };
        // Beyond the range of integers every bound is as good as the last one.
        Ok(Some(format!("{ns:.0}").parse().unwrap_or(u64::MAX)))
    }

    /// The arguments `since` and `until`.
    pub(super) fn window(&self) -> Result<Window, ToolError> {
        let time = |name: &str| {
            self.value(name)
                .map(|value| time::parse(name, value, self.now_ns).map_err(ToolError::new))
                .transpose()
        };
        let window = Window {
            since: time("since")?,
            until: time("until")?,
        };
        match window {
            Window {
                since: Some(since),
                until: Some(until),
            } if until < since => Err(ToolError::new(format!(
                "'until' ({}) is before 'since' ({}), so nothing can match. An age counts back from now: the longer one is \
                 the earlier one.",
                super::format::time(until),
                super::format::time(since)
            ))),
            window => Ok(window),
        }
    }
}

/// The value as the store has it.
pub(super) fn stored_value(name: &str, value: &Value) -> Result<traza::json::Value, ToolError> {
    traza::json::Value::parse(value.to_string().as_bytes()).map_err(|error| {
        ToolError::new(format!(
            "{name} holds a value that cannot be stored: {error}."
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with<T>(values: &Value, read: impl Fn(Args<'_>) -> T) -> T {
        read(Args::new(
            values.as_object().unwrap(),
            1_800_000_000_000_000_000,
        ))
    }

    #[test]
    fn a_limit_out_of_range_is_brought_into_it() {
        for (value, expected) in [
            (json!(null), 20),
            (json!(5), 5),
            (json!(0), 1),
            (json!(101), 100),
            (json!(u64::MAX), 100),
            (json!(1e300), 100),
            (json!(7.0), 7),
        ] {
            let found = with(&json!({ "limit": value }), |args| {
                args.limit("limit", 20, 100)
            })
            .unwrap();
            assert_eq!(found, expected);
        }
        for value in [json!("5"), json!(-1), json!(2.5), json!(true), json!([])] {
            assert!(
                with(&json!({ "limit": value }), |args| args
                    .limit("limit", 20, 100))
                .is_err()
            );
        }
    }

    #[test]
    fn milliseconds_may_have_fractions() {
        for (value, up, expected) in [
            (json!(1), true, 1_000_000),
            (json!(0.5), true, 500_000),
            (json!(0.000_000_1), true, 1),
            (json!(0.000_000_1), false, 0),
            (json!(1e300), false, u64::MAX),
            (json!(u64::MAX), false, u64::MAX),
        ] {
            let found = with(&json!({ "d": value }), |args| args.milliseconds("d", up)).unwrap();
            assert_eq!(found, Some(expected));
        }
        assert!(with(&json!({"d": -1}), |args| args.milliseconds("d", true)).is_err());
        assert!(with(&json!({"d": "1"}), |args| args.milliseconds("d", true)).is_err());
    }

    #[test]
    fn a_window_that_ends_before_it_begins_is_refused_with_the_reason() {
        let error = with(&json!({"since": "1h", "until": "2h"}), |args| args.window()).unwrap_err();
        assert!(error.text().contains("before 'since'"));
        assert!(with(&json!({"since": "2h", "until": "1h"}), |args| args.window()).is_ok());
        assert!(with(&json!({"since": "1h", "until": "1h"}), |args| args.window()).is_ok());
    }

    #[test]
    fn an_unknown_argument_is_refused_with_the_list_of_those_that_exist() {
        let error = with(&json!({"sevice": "x"}), |args| {
            args.only("search_spans", &["service", "name"])
        })
        .unwrap_err();
        assert_eq!(
            error.text(),
            "search_spans has no argument \"sevice\". Accepted: service, name."
        );
    }
}
