//! Samplers and schedulers as the command line spells them: `asha(reduction_factor=3)`.

use std::sync::Arc;

use atune_core::sampler::{self, Sampler};
use atune_core::scheduler::{self, Scheduler};
use serde_json::{Map, Value};

use crate::failure::{Failure, chain_text};

pub(super) fn sampler_of(text: &str) -> Result<Arc<dyn Sampler>, Failure> {
    let (kind, options) = split("--sampler", text)?;
    sampler::by_kind(kind, &options)
        .map_err(|error| Failure::new(format!("--sampler {text}: {}", chain_text(&error))))
}

pub(super) fn scheduler_of(text: &str) -> Result<Arc<dyn Scheduler>, Failure> {
    let (kind, options) = split("--scheduler", text)?;
    scheduler::by_kind(kind, &options)
        .map_err(|error| Failure::new(format!("--scheduler {text}: {}", chain_text(&error))))
}

/// The kind and an object of its options. An option's value is JSON, or else a word, or a kind with options
/// of its own: `patient(wrapped=median(startup_trials=3))`.
fn split<'a>(flag: &str, text: &'a str) -> Result<(&'a str, Value), Failure> {
    let wrong = |what: &str| {
        let hint = "KIND, or KIND(name=value,…) with values in JSON";
        Failure::new(format!("{flag} {text:?}: {what}")).with_hint(hint)
    };
    let Some((kind, rest)) = text.split_once('(') else {
        return Ok((text.trim(), Value::Object(Map::new())));
    };
    let inside = rest
        .trim_end()
        .strip_suffix(')')
        .ok_or_else(|| wrong("the options do not end in \")\""))?;
    let mut options = Map::new();
    for option in pieces(inside) {
        let (name, value) = option
            .split_once('=')
            .ok_or_else(|| wrong(&format!("{option:?} is no name=value")))?;
        let (name, value) = (name.trim().to_owned(), value.trim());
        let value = match serde_json::from_str(value) {
            Ok(value) => value,
            Err(_) if name == "wrapped" => {
                let (kind, options) = split(flag, value)?;
                serde_json::json!({ "kind": kind, "options": options })
            }
            Err(_) => Value::from(value),
        };
        if options.insert(name.clone(), value).is_some() {
            return Err(wrong(&format!("{name:?} is there twice")));
        }
    }
    Ok((kind.trim(), Value::Object(options)))
}

/// What stands between commas that are in no parentheses, brackets or quotes.
fn pieces(text: &str) -> Vec<&str> {
    let (mut depth, mut in_text, mut from) = (0i32, false, 0);
    let mut pieces = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '"' => in_text = !in_text,
            '(' | '[' | '{' if !in_text => depth += 1,
            ')' | ']' | '}' if !in_text => depth -= 1,
            ',' if !in_text && depth == 0 => {
                pieces.extend(text.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    pieces.extend(text.get(from..).filter(|last| !last.trim().is_empty()));
    pieces
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_json_words_or_kinds_of_their_own() {
        let options = |text| split("--scheduler", text).unwrap();
        assert_eq!(options("median"), ("median", json!({})));
        assert_eq!(options("median()"), ("median", json!({})));
        assert_eq!(
            options("x( a = 3, b=[1,2], c=\"p,q\", d=word )"),
            ("x", json!({"a": 3, "b": [1, 2], "c": "p,q", "d": "word"}))
        );
        assert_eq!(
            options("patient(patience=3,wrapped=median(startup_trials=2,warmup_steps=1))"),
            (
                "patient",
                json!({"patience": 3, "wrapped": {
                "kind": "median", "options": {"startup_trials": 2, "warmup_steps": 1}}})
            )
        );
    }

    #[test]
    fn a_scheduler_that_makes_no_sense_is_refused_with_what_there_is() {
        for (text, what) in [
            ("medain", "median"),
            ("median(", "do not end"),
            ("median(3)", "no name=value"),
            ("median(a=1,a=2)", "twice"),
            ("median(startup=2)", "startup_trials"),
            ("median(startup_trials=\"two\")", "startup_trials"),
        ] {
            let told = scheduler_of(text).expect_err(text).message;
            assert!(told.contains(what), "{text}: {told}");
        }
    }
}
