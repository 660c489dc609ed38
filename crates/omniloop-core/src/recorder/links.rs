//! What a run belongs to: the names that studies, runs and traces have for each other.
//!
//! A command that is recorded finds them in its environment, as resource attributes of OpenTelemetry
//! (`OTEL_RESOURCE_ATTRIBUTES`) and as a trace context (`TRACEPARENT`); the start record of its run keeps
//! them (`docs/formats/omni.md`, "Links").

use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::{Map, Value, json};

use durable::digest::hex;

use crate::journal::{FrameKind, SegmentedPlayer};

/// The attribute that names a study: 32 hexadecimal digits.
pub const STUDY_ID: &str = "study.id";
/// The attribute that numbers a trial within its study.
pub const TRIAL_NUMBER: &str = "trial.number";
/// The attribute that names a run: 32 hexadecimal digits.
pub const RUN_ID: &str = "run.id";
/// The attribute of a span that says at which tick of its run it was.
pub const RUN_TICK: &str = "run.tick";
/// The attribute that names a session.
pub const SESSION_ID: &str = "session.id";

/// The attribute of a trial that says which file its run is, relative to the folder of the study file if it
/// lies in it.
pub const RUN_PATH: &str = "run.path";
/// The attribute of a trial that keeps the head of its run's hash chain, in hexadecimal, once the run is
/// sealed.
pub const RUN_HEAD: &str = "run.head";

/// The environment variable in which SDKs of OpenTelemetry look for attributes of everything they emit.
pub const RESOURCE_VARIABLE: &str = "OTEL_RESOURCE_ATTRIBUTES";
/// The environment variable that holds a trace context, as W3C Trace Context spells it.
pub const TRACE_VARIABLE: &str = "TRACEPARENT";

/// What may stand in a value of [`RESOURCE_VARIABLE`] as it is.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'/');
/// The start of a run is among its first records.
const START_WITHIN: usize = 64;
/// Longer names of sessions are no names.
const SESSION_LEN_MAX: usize = 256;

/// What a run is called, and what it belongs to. Everything may be unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// The run itself.
    pub run_id: Option<String>,
    /// The study that it is part of.
    pub study_id: Option<String>,
    /// The trial of that study.
    pub trial_number: Option<u64>,
    /// The session that it is part of.
    pub session_id: Option<String>,
    /// The trace that its spans belong to.
    pub trace_id: Option<String>,
}

impl Links {
    /// What an environment says, in the two variables' values. Whatever is not well formed says nothing.
    ///
    /// ```
    /// use omniloop_core::recorder::Links;
    /// let links = Links::from_environment(Some("study.id=ab,trial.number=3,service.name=x"), None);
    /// assert_eq!((links.study_id.as_deref(), links.trial_number), (Some("ab"), Some(3)));
    /// ```
    pub fn from_environment(resource: Option<&str>, trace_parent: Option<&str>) -> Self {
        let value = |name: &str| {
            let mut found = members(resource.unwrap_or_default()).filter(|(key, _)| *key == name);
            let (_, value) = found.next_back()?;
            let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
            Some(value.into_owned()).filter(|value| !value.is_empty())
        };
        Self {
            run_id: value(RUN_ID),
            study_id: value(STUDY_ID),
            trial_number: value(TRIAL_NUMBER).and_then(|number| number.parse().ok()),
            session_id: value(SESSION_ID).filter(|id| id.len() <= SESSION_LEN_MAX),
            trace_id: trace_parent.and_then(trace_of).map(str::to_owned),
        }
    }

    /// What the start record of a run says.
    pub fn from_start(start: &Value) -> Self {
        let text = |pointer: &str| {
            let value = start.pointer(pointer)?.as_str()?;
            Some(value.to_owned()).filter(|value| !value.is_empty())
        };
        let trace = text("/env/TRACEPARENT");
        Self {
            run_id: text("/run/id"),
            study_id: text("/study/id"),
            trial_number: start.pointer("/trial/number").and_then(Value::as_u64),
            session_id: text("/session/id"),
            trace_id: trace.as_deref().and_then(trace_of).map(str::to_owned),
        }
    }

    /// Adds what is known to the members of a start record; those that are there already stay.
    pub fn add_to_start(&self, start: &mut Map<String, Value>) {
        let mut add = |object: &str, member: &str, value: Option<Value>| {
            let Some(value) = value else {
                return;
            };
            let inner = start.entry(object).or_insert_with(|| json!({}));
            if let Some(inner) = inner.as_object_mut() {
                inner.entry(member).or_insert(value);
            }
        };
        add("run", "id", self.run_id.clone().map(Value::from));
        add("study", "id", self.study_id.clone().map(Value::from));
        add("trial", "number", self.trial_number.map(Value::from));
        add("session", "id", self.session_id.clone().map(Value::from));
    }

    /// The value of [`RESOURCE_VARIABLE`] for a command that belongs to this: what was there `before`, with
    /// these attributes in the place of older ones.
    pub fn resource_attributes(&self, before: Option<&str>) -> String {
        let number = self.trial_number.map(|number| number.to_string());
        let own = [
            (STUDY_ID, self.study_id.as_deref()),
            (TRIAL_NUMBER, number.as_deref()),
            (RUN_ID, self.run_id.as_deref()),
            (SESSION_ID, self.session_id.as_deref()),
        ];
        let is_own = |key: &str| {
            own.iter()
                .any(|(name, value)| *name == key && value.is_some())
        };
        let kept = members(before.unwrap_or_default())
            .filter(|(key, _)| !is_own(key))
            .map(|(key, value)| format!("{key}={value}"));
        let mut all: Vec<String> = kept.collect();
        for (name, value) in own {
            if let Some(value) = value {
                all.push(format!("{name}={}", utf8_percent_encode(value, ESCAPED)));
            }
        }
        all.join(",")
    }
}

/// A name for a run that no other run has: 128 random bits in hexadecimal.
pub fn new_run_id() -> String {
    let mut bytes = [0; 16];
    // Short only before the system has any randomness at all; then two runs may share a name.
    getrandom(&mut bytes, GetRandomFlags::empty()).ok();
    hex(&bytes)
}

/// The start record of the run at `path`; nothing when it has none that can be read.
pub fn start_of(path: &Path) -> Option<Value> {
    let mut player = SegmentedPlayer::open(path).ok()?;
    for _ in 0..START_WITHIN {
        let frame = player.next_data_frame().ok()??;
        if frame.kind != FrameKind::Lifecycle {
            continue;
        }
        let start: Value = serde_json::from_slice(frame.payload).ok()?;
        if start.get("event").and_then(Value::as_str) == Some("start") {
            return Some(start);
        }
    }
    None
}

/// The pairs of a list `key=value,key=value`, as they are spelled.
fn members(text: &str) -> impl DoubleEndedIterator<Item = (&str, &str)> {
    text.split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.trim(), value))
}

/// The trace that a trace context of any version names; one of zeros alone is none.
fn trace_of(parent: &str) -> Option<&str> {
    let id = parent.split('-').nth(1)?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    let is_id = id.len() == 32 && id.bytes().all(is_digit) && id.bytes().any(|byte| byte != b'0');
    is_id.then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn links() -> Links {
        Links {
            run_id: Some("aa".to_owned()),
            study_id: Some("bb".to_owned()),
            trial_number: Some(7),
            session_id: Some("Ann, = 100 %".to_owned()),
            trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned()),
        }
    }

    #[test]
    fn what_is_told_to_a_command_is_what_its_run_says() {
        let text = links().resource_attributes(None);
        let told = Links::from_environment(Some(&text), Some(PARENT));
        assert_eq!(told, links());
        let mut start = Map::from_iter([("env".to_owned(), json!({ "TRACEPARENT": PARENT }))]);
        told.add_to_start(&mut start);
        assert_eq!(Links::from_start(&Value::Object(start)), links());
    }

    #[test]
    fn attributes_of_others_are_kept_and_own_ones_replaced() {
        let one = Links {
            run_id: Some("new".to_owned()),
            ..Links::default()
        };
        let before = "service.name=a%20b, run.id=old,study.id=s";
        let text = one.resource_attributes(Some(before));
        assert_eq!(text, "service.name=a%20b,study.id=s,run.id=new");
    }

    #[test]
    fn members_of_a_start_record_that_are_there_stay() {
        let mut start = Map::from_iter([
            ("study".to_owned(), json!({ "name": "s", "id": "own" })),
            ("run".to_owned(), json!("text")),
        ]);
        links().add_to_start(&mut start);
        assert_eq!(start["study"], json!({ "name": "s", "id": "own" }));
        assert_eq!(start["run"], json!("text"));
        assert_eq!(start["trial"], json!({ "number": 7 }));
    }

    #[test]
    fn what_is_not_well_formed_says_nothing() {
        let strange = "study.id,=x,trial.number=-1,run.id=%ff,session.id=,study.id";
        let zeros = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        for parent in ["", "00", "00-4BF92F3577B34DA6A3CE929D0E0E4736-1-01", &zeros] {
            let links = Links::from_environment(Some(strange), Some(parent));
            assert_eq!(links, Links::default(), "{parent}");
        }
        assert_eq!(Links::from_environment(None, None), Links::default());
        assert_eq!(Links::from_start(&json!({ "run": 3 })), Links::default());
    }

    #[test]
    fn no_two_runs_have_one_name() {
        let (one, other) = (new_run_id(), new_run_id());
        assert_ne!(one, other);
        assert_eq!(one.len(), 32);
    }
}
