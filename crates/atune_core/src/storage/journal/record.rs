//! The records of a `.atj` journal: header, head, extents and the 22 operations.
//!
//! `docs/formats/atj.md` is generated from the tables of this file. Member order is format bytes.

use std::fmt::Write as _;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::canonical::{Canonical, Text, members};
use crate::lifecycle::{FencedMutation, Outcome};
use crate::number::JsonF64;
use crate::outbox::{Attempt, Effect, EffectKey, Intent, OutboxKey, Phase};
use crate::portable::{self, Portable};
use crate::space::{Param, Template};
use crate::trial::{
    ScopedBlob, StateBlob, StateScope, StudyConfig, StudyId, TrialId, TrialState, WorkerId,
};

/// The format version that is written, and the newest that is read.
pub const FORMAT_VERSION: u32 = 6;
/// What the metadata line of an extent starts with.
pub const EXTENT_MAGIC: &str = "atune.extent/6";
/// The longest metadata or head line, its newline included.
pub const METADATA_LEN_MAX: usize = 2048;

/// A member of a record: its name in JSON and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name.
    pub name: &'static str,
    /// The meaning.
    pub meaning: &'static str,
}

/// A record or operation as the format page shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordTable {
    /// The `kind` of an operation, or the name of another record.
    pub name: &'static str,
    /// What it says.
    pub meaning: &'static str,
    /// Its members, in order.
    pub members: &'static [Member],
}

macro_rules! record {
    ($name:ident $wire:literal = $meaning:literal {
        $($(#[$attr:meta])* $field:ident: $ty:ty = $text:literal),+ $(,)?
    }) => {
        #[doc = $meaning]
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(#[doc = $text] $(#[$attr])* pub $field: $ty,)+
        }

        impl $name {
            /// Reads the members behind the brace, or behind the members that told which record it is.
            pub(super) fn read_members(text: &mut Text<'_>) -> Option<Self> {
                members!(text, Self { $($field),+ })
            }

            /// The record as the format page shows it.
            pub const TABLE: RecordTable = RecordTable {
                name: $wire,
                meaning: $meaning,
                members: &[$(Member { name: stringify!($field), meaning: $text }),+],
            };
        }

        impl Canonical for $name {
            fn read(text: &mut Text<'_>) -> Option<Self> {
                text.skip("{")?;
                Self::read_members(text)
            }
        }
    };
}

record! { Header "header" = "The first line of the file at the study's path." {
    format: u32 = "The on-disk format version: `FORMAT_VERSION` when this build wrote it.",
    atune: String = "The `atune_core` version that created the journal, for forensics.",
    created_at_millis: u64 = "When the journal was created, from the creator's clock.",
    created_by: WorkerId = "Which worker created it.",
}}

record! { ExtentPointer "extent pointer" = "Where an extent stands." {
    file: String = "The basename of one writer's data file under `<journal>.d/`.",
    offset: u64 = "The byte offset of the extent in that file.",
    len: u64 = "The length of the whole extent: metadata line and payload.",
}}

record! { Head "head" = "The second line of the file at the study's path: the tip, and totals." {
    tip: Option<ExtentPointer> = "The last committed extent, or null for a history of the header alone.",
    ops: u64 = "How many operations are committed.",
    bytes: u64 = "Length of the virtual stream of header and operations, in bytes.",
}}

record! { ExtentHeader "extent" = "The metadata line of an extent; its payload follows." {
    magic: String = "The literal `atune.extent/6`.",
    previous: Option<ExtentPointer> = "The extent committed before this one, or null for the first.",
    first: u64 = "The sequence number of the first operation in the payload.",
    last: u64 = "The sequence number of the last operation in the payload.",
    start: u64 = "Where the payload starts in the virtual stream, in bytes.",
    payload_len: u64 = "The length of the payload in bytes.",
    checksum: u64 = "FNV-1a, 64 bit, of the payload bytes.",
}}

record! { OpLine "op" = "One operation, a line of a payload." {
    seq: u64 = "The operation's place in the history: 1 for the first.",
    worker: WorkerId = "The worker that appended it.",
    at_millis: u64 = "The writer's clock when it did.",
    op: Op = "What happened.",
}}

/// Declares the operations: a struct for each, the enum over them, and their tables.
macro_rules! operations {
    ($($name:ident $kind:literal = $meaning:literal {
        $($(#[$attr:meta])* $field:ident: $ty:ty = $text:literal),+ $(,)?
    })+) => {
        $(record! { $name $kind = $meaning { $($(#[$attr])* $field: $ty = $text),+ } })+

        /// Something that changed a study: one variant per mutating method of `Storage`.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "kind")]
        pub enum Op {
            $(#[doc = $meaning] #[serde(rename = $kind)] $name($name),)+
        }

        impl Op {
            /// Every operation, as the format page shows it.
            pub const TABLES: &[RecordTable] = &[$($name::TABLE),+];

            /// The operation's `kind`.
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$name(_) => $kind,)+ }
            }
        }

        $(impl From<$name> for Op {
            fn from(op: $name) -> Self {
                Self::$name(op)
            }
        })+

        impl Canonical for Op {
            fn read(text: &mut Text<'_>) -> Option<Self> {
                text.skip("{\"kind\":")?;
                let kind = text.word()?;
                text.skip(",")?;
                $(if kind == $kind.as_bytes() {
                    return $name::read_members(text).map(Self::$name);
                })+
                None
            }
        }

        /// Reads the members of an operation whose `kind` came first, without keeping them aside.
        fn members_of<'de, A: MapAccess<'de>>(kind: &str, map: A) -> Result<Op, A::Error> {
            match kind {
                $($kind => $name::deserialize(MapAccessDeserializer::new(map)).map(Op::$name),)+
                other => Err(A::Error::custom(format_args!(
                    "unknown operation {other:?}: written by a newer version?"
                ))),
            }
        }
    };
}

operations! {
    CreateStudy "create-study" = "A study was created." {
        study: StudyId = "The identity assigned by the writer, derived from the replay position.",
        config: StudyConfig = "The stored configuration.",
    }
    CreateTrial "create-trial" = "A trial was created." {
        study: StudyId = "The owning study.",
        trial: TrialId = "The identity assigned by the writer.",
        number: u64 = "The per-study ordinal assigned by the writer.",
        #[serde(default, skip_serializing_if = "Option::is_none")]
        template: Option<Template> = "The template it was created from, if any.",
    }
    Transition "transition" = "A trial changed state; written only by the caller that won the transition." {
        trial: TrialId = "The trial.",
        from: TrialState = "The state it was in.",
        to: TrialState = "The state it is in now.",
    }
    ParamsBatch "params-batch" = "Sampled parameters were recorded, all or nothing." {
        trial: TrialId = "The trial.",
        params: Vec<Param> = "The whole batch, in the order it was written.",
    }
    Report "report" = "An intermediate value was reported." {
        trial: TrialId = "The trial.",
        step: u64 = "The step, in the study's resource unit.",
        values: Vec<JsonF64> = "The reported values.",
    }
    SetValues "set-values" = "Final objective values were recorded." {
        trial: TrialId = "The trial.",
        values: Vec<JsonF64> = "The values, one per direction.",
    }
    SetError "set-error" = "A failure message was recorded." {
        trial: TrialId = "The trial.",
        message: String = "The message, verbatim.",
    }
    Heartbeat "heartbeat" = "A heartbeat was recorded." {
        trial: TrialId = "The trial.",
        at_millis: u64 = "The caller's timestamp, never the writer's clock.",
    }
    SetStudyUserAttr "set-study-user-attr" = "A study's user attribute was inserted or replaced." {
        study: StudyId = "The owning study.",
        key: String = "The user key; the `atune:` namespace is reserved.",
        #[serde(deserialize_with = "portable::value")]
        value: Value = "The portable JSON value.",
    }
    SetTrialUserAttr "set-trial-user-attr" = "A raw trial's user attribute was inserted or replaced." {
        trial: TrialId = "The owning trial.",
        key: String = "The user key; the `atune:` namespace is reserved.",
        #[serde(deserialize_with = "portable::value")]
        value: Value = "The portable JSON value.",
    }
    PutState "put-state" = "A state blob was written." {
        scope: StateScope = "What it belongs to.",
        blob: StateBlob = "The blob.",
    }
    LifecycleReserve "lifecycle-reserve" = "A managed trial was reserved and created under the budget." {
        study: StudyId = "The owning study.",
        trial: TrialId = "The identity assigned by the writer.",
        number: u64 = "The per-study ordinal assigned by the writer.",
        #[serde(default, skip_serializing_if = "Option::is_none")]
        template: Option<Template> = "The template it was created from, if any.",
        #[serde(default)]
        managed: bool = "Marks lifecycle records apart from raw `create-trial` records.",
    }
    LifecycleAbandon "lifecycle-abandon" = "A reserved managed trial was conditionally abandoned." {
        trial: TrialId = "The reserved trial.",
        reason: String = "The durable failure reason.",
    }
    LifecycleClaim "lifecycle-claim" = "A reservation or a paused trial was claimed and started at a new epoch." {
        trial: TrialId = "The trial being claimed.",
        from: TrialState = "The state that the claim requires.",
        worker: WorkerId = "The new owner.",
        heartbeat_millis: u64 = "The first heartbeat, supplied by the owner.",
        epoch: u64 = "The new ownership epoch.",
        heartbeat_seq: u64 = "The first heartbeat sequence in the new epoch.",
        params: Vec<Param> = "Parameters written with the claim.",
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<ScopedBlob> = "State of the trial written with the claim.",
    }
    LifecycleRenew "lifecycle-renew" = "An owner renewed its heartbeat." {
        trial: TrialId = "The owned trial.",
        worker: WorkerId = "The owner fence.",
        epoch: u64 = "The ownership epoch.",
        heartbeat_millis: u64 = "The caller's new heartbeat timestamp.",
        heartbeat_seq: u64 = "The resulting heartbeat sequence.",
    }
    LifecycleFailStale "lifecycle-fail-stale" = "A stale trial was conditionally failed from a complete observation." {
        trial: TrialId = "The observed trial.",
        observed_state: TrialState = "The observed state.",
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<WorkerId> = "The observed owner marker.",
        epoch: u64 = "The observed epoch.",
        #[serde(default, skip_serializing_if = "Option::is_none")]
        heartbeat_millis: Option<u64> = "The observed heartbeat timestamp.",
        heartbeat_seq: u64 = "The observed heartbeat sequence.",
        now_millis: u64 = "The timestamp used for the stale comparison.",
        grace_millis: u64 = "The stale grace threshold.",
        reason: String = "The durable failure reason.",
        #[serde(default, skip_serializing_if = "Option::is_none")]
        intent: Option<Intent> = "The initial outbox intent, absent on records before version 4.",
    }
    LifecycleFenced "lifecycle-fenced" = "One ownership-fenced mutation." {
        trial: TrialId = "The owned trial.",
        worker: WorkerId = "The owner fence.",
        epoch: u64 = "The ownership epoch.",
        mutation: FencedMutation = "The mutation.",
    }
    LifecycleTerminal "lifecycle-terminal" = "One ownership-fenced terminal transition." {
        trial: TrialId = "The owned trial.",
        worker: WorkerId = "The owner fence.",
        epoch: u64 = "The ownership epoch.",
        outcome: Outcome = "The terminal payload, including values or error and state.",
        #[serde(default, skip_serializing_if = "Option::is_none")]
        intent: Option<Intent> = "The initial outbox intent, absent on records before version 4.",
    }
    OutboxAdvance "outbox-advance" = "Callback state and effects were persisted, and one outbox advanced, atomically." {
        key: OutboxKey = "The durable terminal-finalization key.",
        phase: Phase = "The phase being committed.",
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sampler_state: Option<StateBlob> = "Replacement sampler state, if supplied.",
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scheduler_state: Option<StateBlob> = "Replacement scheduler state, if supplied.",
        effects: Vec<Effect> = "Effects discovered at this callback boundary.",
    }
    OutboxEffectComplete "outbox-effect-complete" = "One externally executed effect was acknowledged." {
        key: EffectKey = "The effect being acknowledged.",
    }
    OutboxReplacement "outbox-replacement" = "A replacement was created and its effect marked complete, atomically." {
        effect: EffectKey = "The idempotency key of the replacement effect.",
        study: StudyId = "The study receiving the replacement.",
        trial: TrialId = "The identity assigned by the writer.",
        number: u64 = "The per-study ordinal assigned by the writer.",
        #[serde(default, skip_serializing_if = "Option::is_none")]
        template: Option<Template> = "The replacement's fixed template, if any.",
        attempt: Attempt = "The retry attempt metadata.",
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_of: Option<TrialId> = "The failed source trial when this is a retry.",
    }
    LifecycleFinalizedState "lifecycle-finalized-state" = "A state blob of a terminal managed trial was replaced." {
        trial: TrialId = "The terminal trial receiving the state.",
        scope: StateScope = "The exact trial-owned scope.",
        blob: StateBlob = "The replacement blob.",
    }
}

impl Op {
    /// The trials that the operation changes.
    pub fn trials(&self) -> impl Iterator<Item = TrialId> {
        let (first, second) = match self {
            Self::CreateStudy(_) | Self::SetStudyUserAttr(_) => (None, None),
            Self::CreateTrial(op) => (Some(op.trial), None),
            Self::Transition(op) => (Some(op.trial), None),
            Self::ParamsBatch(op) => (Some(op.trial), None),
            Self::Report(op) => (Some(op.trial), None),
            Self::SetValues(op) => (Some(op.trial), None),
            Self::SetError(op) => (Some(op.trial), None),
            Self::Heartbeat(op) => (Some(op.trial), None),
            Self::SetTrialUserAttr(op) => (Some(op.trial), None),
            Self::PutState(op) => (op.scope.trial(), None),
            Self::LifecycleReserve(op) => (Some(op.trial), None),
            Self::LifecycleAbandon(op) => (Some(op.trial), None),
            Self::LifecycleClaim(op) => (Some(op.trial), None),
            Self::LifecycleRenew(op) => (Some(op.trial), None),
            Self::LifecycleFailStale(op) => (Some(op.trial), None),
            Self::LifecycleFenced(op) => (Some(op.trial), None),
            Self::LifecycleTerminal(op) => (Some(op.trial), None),
            Self::OutboxAdvance(op) => (Some(op.key.trial), None),
            Self::OutboxEffectComplete(op) => (Some(op.key.trial), None),
            Self::OutboxReplacement(op) => (Some(op.effect.trial), Some(op.trial)),
            Self::LifecycleFinalizedState(op) => (Some(op.trial), None),
        };
        first.into_iter().chain(second)
    }
}

impl<'de> Deserialize<'de> for Op {
    /// Reads an operation in one pass when `kind` is its first member, as every writer puts it, and
    /// from a buffer otherwise.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ByKind;
        impl<'de> Visitor<'de> for ByKind {
            type Value = Op;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an operation with its kind")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Op, A::Error> {
                let mut kept = serde_json::Map::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name != "kind" {
                        keep(&mut kept, name, &mut map)?;
                        continue;
                    }
                    let kind: String = map.next_value()?;
                    if kept.is_empty() {
                        return members_of(&kind, map);
                    }
                    while let Some(name) = map.next_key()? {
                        keep(&mut kept, name, &mut map)?;
                    }
                    return reordered(&kind, kept).map_err(A::Error::custom);
                }
                Err(A::Error::missing_field("kind"))
            }
        }
        deserializer.deserialize_map(ByKind)
    }
}

/// Keeps a member that came before `kind`, or after it when others came before.
fn keep<'de, A: MapAccess<'de>>(
    kept: &mut serde_json::Map<String, Value>,
    name: String,
    map: &mut A,
) -> Result<(), A::Error> {
    if kept.contains_key(&name) {
        return Err(portable::twice(&name));
    }
    let Portable(value) = map.next_value()?;
    kept.insert(name, value);
    Ok(())
}

/// Reads an operation again with its `kind` first: some other writer put it elsewhere.
fn reordered(kind: &str, kept: serde_json::Map<String, Value>) -> Result<Op, serde_json::Error> {
    let mut text = format!(r#"{{"kind":{}"#, Value::from(kind));
    for (name, value) in kept {
        write!(text, ",{}:{value}", Value::from(name)).ok();
    }
    text.push('}');
    serde_json::from_str(&text)
}
