//! Why a variable has its value.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::values::value_of;
use super::{Evidence, Held, Place, each_record, object, object_with, place_of};
use crate::journal::{FrameKind, FrameRef, Result, SegmentedPlayer};

/// What a record has to do with the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It set the value.
    Set,
    /// It has the same correlation id and came before: the input or the command that brought it.
    Related,
    /// It names who was behind it.
    Principal,
}

/// One link of the chain that led to a value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// What the record has to do with it.
    pub role: Role,
    /// The record.
    #[serde(flatten)]
    pub record: Evidence,
    /// The value before, if the record has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// The value that it set, if it set one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
    /// Who was behind it, if the record says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

impl Cause {
    fn new(role: Role, record: Evidence) -> Self {
        let (old, new) = match (role, record.kind) {
            (Role::Set, FrameKind::Guardrail) => (
                record.payload.get("requested").cloned(),
                record.payload.get("applied").cloned(),
            ),
            (Role::Set, _) => (
                record.payload.get("old").cloned(),
                set_by_control(&record.payload)
                    .or_else(|| record.payload.get("new"))
                    .cloned(),
            ),
            _ => (None, None),
        };
        let principal = record.text("principal").map(str::to_owned);
        Self {
            role,
            record,
            old,
            new,
            principal,
        }
    }
}

/// What led to the value that `name` has at `tick` (at the end of the run if there is none), newest first:
/// the mutation, guardrail or control record that set it last, then what came before with the same
/// correlation id, then its principal. Empty when no record says that it was set.
///
/// # Errors
/// What stops reading; `Limit` when more than [`ANSWER_LEN_MAX`](super::ANSWER_LEN_MAX) bytes of records
/// share the id.
pub fn cause_of(path: impl AsRef<Path>, name: &str, tick: Option<u64>) -> Result<Vec<Cause>> {
    cause_of_with(&mut SegmentedPlayer::open(path)?, name, tick)
}

/// [`cause_of`] of a run that is open already; it is read from where it stands, which should be its start.
///
/// # Errors
/// As [`cause_of`].
pub fn cause_of_with(
    player: &mut SegmentedPlayer,
    name: &str,
    tick: Option<u64>,
) -> Result<Vec<Cause>> {
    let mut setter: Option<Evidence> = None;
    each_record(player, |segment, frame| {
        if tick.is_some_and(|last| frame.tick > last) {
            return Ok(false);
        }
        if let Some(payload) = setting(frame, name) {
            setter = Some(Evidence {
                place: place_of(segment, frame),
                kind: frame.kind,
                payload,
            });
        }
        Ok(true)
    })?;
    let Some(setter) = setter else {
        return Ok(Vec::new());
    };
    let mut causes = Vec::new();
    if let Some(id) = setter.text("correlation_id") {
        let (mut player, mut held) = (player.reopen()?, Held::default());
        let end = (setter.place.segment, setter.place.offset);
        each_record(&mut player, |segment, frame| {
            if (segment, frame.offset) >= end {
                return Ok(false);
            }
            let payload = object_with(frame.payload, id);
            let payload = payload.filter(|payload| is_correlated(payload, id));
            if let Some(payload) = payload {
                held.add(frame, "the length of all records with this correlation id")?;
                let (place, kind) = (place_of(segment, frame), frame.kind);
                let record = Evidence {
                    place,
                    kind,
                    payload,
                };
                causes.push(Cause::new(Role::Related, record));
            }
            Ok(true)
        })?;
        causes.reverse();
    }
    let principal =
        (setter.text("principal").is_some()).then(|| Cause::new(Role::Principal, setter.clone()));
    causes.insert(0, Cause::new(Role::Set, setter));
    // One that is set by a record without a principal has that of the command which brought it.
    let by_command = || {
        let behind = causes.iter().find(|cause| cause.principal.is_some())?;
        Some(Cause::new(Role::Principal, behind.record.clone()))
    };
    let principal = principal.or_else(by_command);
    causes.extend(principal);
    Ok(causes)
}

/// The payload of a record that sets the variable.
fn setting(frame: &FrameRef<'_>, name: &str) -> Option<Value> {
    let sets = match frame.kind {
        FrameKind::Mutation | FrameKind::Guardrail | FrameKind::Control => {
            object_with(frame.payload, name)?
        }
        _ => return None,
    };
    let is_of_it = sets.get("name").and_then(Value::as_str) == Some(name);
    let is_setting = frame.kind != FrameKind::Control || set_by_control(&sets).is_some();
    (is_of_it && is_setting).then_some(sets)
}

/// The value to which a `clamp` limited a variable: the one control record that sets one.
fn set_by_control(payload: &Value) -> Option<&Value> {
    (payload.get("command")?.as_str()? == "clamp").then_some(())?;
    payload.get("applied").or_else(|| payload.get("value"))
}

pub(super) fn is_correlated(payload: &Value, id: &str) -> bool {
    payload.get("correlation_id").and_then(Value::as_str) == Some(id)
}

/// The value that the telemetry shows for `name` at `tick` (at the end of the run if there is none): the last
/// one at or before it.
///
/// # Errors
/// What stops reading.
pub fn value_at(
    player: &mut SegmentedPlayer,
    name: &str,
    tick: Option<u64>,
) -> Result<Option<(Place, Value)>> {
    let mut last = None;
    // The members on the way to a nested variable stand apart.
    let is_nested = name.contains(['.', '\\']);
    each_record(player, |segment, frame| {
        if tick.is_some_and(|last| frame.tick > last) {
            return Ok(false);
        }
        if frame.kind == FrameKind::Telemetry {
            let telemetry = if is_nested {
                object(frame.payload)
            } else {
                object_with(frame.payload, name)
            };
            let value = telemetry
                .as_ref()
                .and_then(|telemetry| value_of(telemetry, name));
            if let Some(value) = value {
                last = Some((place_of(segment, frame), value.clone()));
            }
        }
        Ok(true)
    })?;
    Ok(last)
}

/// The names of the variables that the run speaks of, in its telemetry and its changes, `max` at most: for
/// whoever asked for one that is not there.
///
/// # Errors
/// What stops reading.
pub fn variables_of(player: &mut SegmentedPlayer, max: usize) -> Result<Vec<String>> {
    let mut names = std::collections::BTreeSet::new();
    each_record(player, |_, frame| {
        let mut add = |name: &str| {
            if names.len() < max {
                names.insert(name.to_owned());
            }
        };
        match frame.kind {
            FrameKind::Telemetry => {
                if let Some(value) = object(frame.payload) {
                    crate::export::flatten(&value, &mut |name, _| add(name));
                }
            }
            FrameKind::Mutation | FrameKind::Guardrail => {
                let payload = object(frame.payload);
                if let Some(name) = payload.as_ref().and_then(|p| p.get("name")?.as_str()) {
                    add(name);
                }
            }
            _ => {}
        }
        Ok(names.len() < max)
    })?;
    Ok(names.into_iter().collect())
}
