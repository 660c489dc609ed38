//! What is promised: every operation is read back from its line as it was written, however its members
//! are ordered, and a line with other members than the format's is refused. Contents are random and
//! need not be legal: the state machine judges those, not the reading of lines.

use atune_core::lifecycle::{FencedMutation, Outcome};
use atune_core::outbox::{Attempt, Effect, EffectKey, Intent, OutboxKey, Phase};
use atune_core::space::{Distribution, Param, ParamValue, Template};
use atune_core::storage::journal::record::{Op, OpLine};
use atune_core::trial::{
    Direction, ResourceUnit, ScopedBlob, StateBlob, StateScope, StudyConfig, TrialState, WorkerId,
};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::random::Random;

/// Members that may be left out, in any operation.
const OPTIONAL: [&str; 9] = [
    "template",
    "managed",
    "state",
    "owner",
    "heartbeat_millis",
    "intent",
    "sampler_state",
    "scheduler_state",
    "retry_of",
];

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

fn members(op: &Op) -> Vec<(String, Value)> {
    let object: Map<String, Value> = serde_json::from_str(&text(op)).unwrap();
    object.into_iter().collect()
}

fn object<'a>(members: impl IntoIterator<Item = &'a (String, Value)>) -> String {
    let members: Vec<String> = members
        .into_iter()
        .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// The members with `kind` first, or last.
fn with_kind(op: &Op, is_first: bool) -> Vec<(String, Value)> {
    let (kind, mut rest): (Vec<_>, Vec<_>) = members(op)
        .into_iter()
        .partition(|(name, _)| name == "kind");
    rest.splice(
        if is_first {
            0..0
        } else {
            rest.len()..rest.len()
        },
        kind,
    );
    rest
}

fn read(text: &str) -> Result<Op, serde_json::Error> {
    serde_json::from_str(text)
}

/// The value with the members of every object in another order, and with one member of the object
/// numbered `repeated` twice. Objects are counted by `count`.
fn varied(
    value: &Value,
    random: &mut Random,
    repeated: Option<usize>,
    count: &mut usize,
) -> String {
    match value {
        Value::Array(items) => {
            let mut vary = |item| varied(item, random, repeated, count);
            let items: Vec<String> = items.iter().map(&mut vary).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let is_repeated = repeated == Some(*count);
            *count += 1;
            let mut texts: Vec<String> = members
                .iter()
                .map(|(name, value)| {
                    let name = Value::from(name.as_str());
                    format!("{name}:{}", varied(value, random, repeated, count))
                })
                .collect();
            for at in 1..texts.len() {
                texts.swap(at, usize::try_from(random.below(at as u64 + 1)).unwrap());
            }
            if is_repeated && !texts.is_empty() {
                let again = random.pick(&texts);
                texts.push(again);
            }
            format!("{{{}}}", texts.join(","))
        }
        plain => plain.to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_operation_is_read_back_as_it_was_written(seed: u64) {
        let mut random = Random(seed);
        for kind in 0..22 {
            let op = random.op(kind);
            prop_assert_eq!(op.kind(), Op::TABLES[kind].name);
            let (seq, worker, at_millis) = (random.next(), WorkerId(random.next()), random.next());
            let line = OpLine { seq, worker, at_millis, op };
            let written = text(&line);
            let back: OpLine = serde_json::from_str(&written).unwrap();
            prop_assert_eq!(&back, &line);
            prop_assert_eq!(text(&back), written);
        }
    }

    #[test]
    fn members_may_stand_in_any_order(seed: u64) {
        let mut random = Random(seed);
        for kind in 0..22 {
            let op = random.op(kind);
            let last = read(&object(&with_kind(&op, false))).unwrap();
            prop_assert_eq!(text(&last), text(&op));
            let mut shuffled = members(&op);
            for at in 1..shuffled.len() {
                shuffled.swap(at, usize::try_from(random.below(at as u64 + 1)).unwrap());
            }
            prop_assert_eq!(text(&read(&object(&shuffled)).unwrap()), text(&op));
        }
    }

    #[test]
    fn members_of_nested_objects_may_stand_in_any_order_and_none_twice(seed: u64) {
        let mut random = Random(seed);
        for kind in 0..22 {
            let op = random.op(kind);
            let value = serde_json::to_value(&op).unwrap();
            let mut count = 0;
            let other = varied(&value, &mut random, None, &mut count);
            prop_assert_eq!(text(&read(&other).unwrap()), text(&op), "{}", other);
            for repeated in 0..count {
                let twice = varied(&value, &mut random, Some(repeated), &mut 0);
                let is_empty = twice.len() == other.len();
                prop_assert_eq!(read(&twice).is_ok(), is_empty, "{}", twice);
            }
        }
    }

    #[test]
    fn unknown_missing_and_repeated_members_are_refused(seed: u64) {
        let mut random = Random(seed);
        for kind in 0..22 {
            let op = random.op(kind);
            for is_first in [true, false] {
                let whole = with_kind(&op, is_first);
                let extra = ("surprise".to_owned(), Value::from(1));
                prop_assert!(read(&object(whole.iter().chain([&extra]))).is_err());
                for (at, member) in whole.iter().enumerate() {
                    let twice = object(whole.iter().chain([member]));
                    prop_assert!(read(&twice).is_err(), "{}", twice);
                    let without = whole.iter().enumerate().filter(|(i, _)| *i != at);
                    let without = object(without.map(|(_, member)| member));
                    let may_miss = OPTIONAL.contains(&member.0.as_str()) && !(member.0 == "heartbeat_millis" && op.kind() != "lifecycle-fail-stale");
                    prop_assert_eq!(read(&without).is_ok(), may_miss, "{}", without);
                }
            }
        }
    }
}

#[test]
fn an_unknown_kind_says_that_a_newer_version_wrote_it() {
    for text in [
        r#"{"kind":"merge-studies","study":0}"#,
        r#"{"study":0,"kind":"merge-studies"}"#,
        r#"{"kind":"merge-studies"}"#,
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(
            error.contains("newer version") && error.contains("merge-studies"),
            "{error}"
        );
    }
}

#[test]
fn what_is_no_operation_is_refused() {
    for text in [
        "null",
        "[]",
        "{}",
        "1",
        r#"{"study":0}"#,
        r#"{"kind":7}"#,
        r#"{"kind":null}"#,
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}

/// Reads the text as a `T` and writes it again: it must be the same.
fn spelled<T: Serialize + DeserializeOwned>(texts: &[&str]) {
    for given in texts {
        let value: T = serde_json::from_str(given).unwrap_or_else(|e| panic!("{given}: {e}"));
        assert_eq!(text(&value), *given);
    }
}

#[test]
fn nested_types_are_spelled_as_the_format_says() {
    spelled::<ParamValue>(&[
        r#"{"F64":0.01}"#,
        r#"{"I64":4}"#,
        r#"{"Bool":true}"#,
        r#"{"Cat":0}"#,
    ]);
    spelled::<Distribution>(&[
        r#"{"Float":{"low":0.00001,"high":0.1,"log":true,"step":null}}"#,
        r#"{"Int":{"low":1,"high":8,"log":false,"step":1}}"#,
        r#""Bool""#,
        r#"{"Cat":{"choices":{"version":1,"choices":[{"label":"adam","value":{"type":"string","value":"adam"}}]}}}"#,
    ]);
    spelled::<TrialState>(&[
        r#""Waiting""#,
        r#""Running""#,
        r#""Paused""#,
        r#""Complete""#,
        r#""Pruned""#,
        r#""Failed""#,
    ]);
    spelled::<Direction>(&[r#""Minimize""#, r#""Maximize""#]);
    spelled::<ResourceUnit>(&[r#""Steps""#, r#""Epochs""#, r#""Seconds""#, r#""Samples""#]);
    spelled::<StateScope>(&[
        r#"{"Sampler":0}"#,
        r#"{"Scheduler":0}"#,
        r#"{"TrialSampler":3}"#,
        r#"{"TrialScheduler":3}"#,
        r#"{"TrialUser":3}"#,
    ]);
    spelled::<StateBlob>(&[r#"{"kind":"tpe","version":1,"data":{"gamma":0.25}}"#]);
    spelled::<ScopedBlob>(&[
        r#"{"scope":{"TrialUser":3},"blob":{"kind":"mine","version":1,"data":null}}"#,
    ]);
    spelled::<Template>(&[
        r#"{"fixed":{"lr":{"F64":0.001}},"parent":null}"#,
        r#"{"fixed":{},"parent":4}"#,
    ]);
    spelled::<Param>(&[r#"{"name":"use_bn","dist":"Bool","value":{"Bool":true}}"#]);
    spelled::<StudyConfig>(&[
        r#"{"name":"n","directions":["Minimize"],"seed":1,"space":null,"resource_unit":"Steps","metric_names":[]}"#,
        r#"{"name":"n","directions":["Maximize"],"seed":1,"space":[{"name":"b","dist":"Bool"}],"resource_unit":"Epochs","metric_names":["loss"]}"#,
    ]);
}

#[test]
fn lifecycle_payloads_are_spelled_as_the_format_says() {
    spelled::<FencedMutation>(&[
        r#"{"kind":"params-batch","params":[]}"#,
        r#"{"kind":"report","step":3,"values":["NaN","Infinity","-Infinity",-0.0]}"#,
        r#"{"kind":"set-user-attr","key":"k","value":[1,{"a":null}]}"#,
        r#"{"kind":"put-state","scope":{"TrialUser":3},"blob":{"kind":"b","version":1,"data":1}}"#,
        r#"{"kind":"pause"}"#,
        r#"{"kind":"pause","state":{"scope":{"TrialUser":3},"blob":{"kind":"b","version":1,"data":1}}}"#,
    ]);
    spelled::<Outcome>(&[
        r#"{"state":"Complete","values":[0.5]}"#,
        r#"{"state":"Pruned"}"#,
        r#"{"state":"Pruned","values":[1e-7]}"#,
        r#"{"state":"Failed","error":"boom"}"#,
        r#"{"state":"Pruned","blob":{"scope":{"TrialSampler":3},"blob":{"kind":"b","version":1,"data":1}}}"#,
    ]);
    spelled::<OutboxKey>(&[r#"{"trial":3,"epoch":1}"#]);
    spelled::<EffectKey>(&[r#"{"trial":3,"epoch":1,"index":0}"#]);
    spelled::<Intent>(&[r#"{"sampler":true,"scheduler":false,"callbacks":["notify"]}"#]);
    spelled::<Phase>(&[
        r#""Sampler""#,
        r#""Scheduler""#,
        r#""Effects""#,
        r#""Done""#,
    ]);
    spelled::<Effect>(&[
        r#"{"kind":"callback","name":"notify","payload":{"x":1}}"#,
        r#"{"kind":"retry"}"#,
        r#"{"kind":"exploit","source":2,"params":{"lr":{"F64":0.001}}}"#,
        r#"{"kind":"stop-study","reason":"good enough"}"#,
    ]);
    spelled::<Attempt>(&[r#"{"number":1,"max":3}"#]);
}

#[test]
fn unknown_members_of_nested_objects_are_refused() {
    fn refused<T: DeserializeOwned>(text: &str) {
        assert!(serde_json::from_str::<T>(text).is_err(), "{text}");
    }
    refused::<Template>(r#"{"fixed":{},"parent":4,"x":1}"#);
    refused::<StateBlob>(r#"{"kind":"tpe","version":1,"data":null,"x":1}"#);
    refused::<Intent>(r#"{"sampler":true,"scheduler":false,"callbacks":[],"x":1}"#);
    refused::<Outcome>(r#"{"state":"Complete","values":[0.5],"x":1}"#);
    refused::<FencedMutation>(r#"{"kind":"report","step":1,"values":[],"x":1}"#);
    refused::<FencedMutation>(r#"{"kind":"pause","x":1}"#);
    refused::<Effect>(r#"{"kind":"stop-study","reason":"r","x":1}"#);
    refused::<Effect>(r#"{"kind":"retry","x":1}"#);
    refused::<Effect>(r#"{"kind":"dance"}"#);
    refused::<Distribution>(r#"{"Int":{"low":1,"high":8,"log":false,"step":1,"x":1}}"#);
    refused::<ParamValue>(r#"{"F64":0.01,"I64":1}"#);
}
