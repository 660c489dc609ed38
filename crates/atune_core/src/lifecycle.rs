//! The payloads of operations on trials that a worker owns.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::number::JsonF64;
use crate::space::Param;
use crate::trial::{ScopedBlob, StateBlob, StateScope, TrialState};

/// A change to a trial by the worker that owns it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FencedMutation {
    /// Sampled parameters, all or nothing.
    ParamsBatch {
        /// The batch.
        params: Vec<Param>,
    },
    /// An intermediate value.
    Report {
        /// The step, in the study's resource unit.
        step: u64,
        /// The reported values.
        values: Vec<JsonF64>,
    },
    /// A user attribute.
    SetUserAttr {
        /// The user key; the `atune:` namespace is reserved.
        key: String,
        /// The value.
        #[serde(deserialize_with = "crate::portable::value")]
        value: Value,
    },
    /// A state blob of this trial.
    PutState {
        /// What it belongs to.
        scope: StateScope,
        /// The blob.
        blob: StateBlob,
    },
    /// The trial is set aside and has no owner any more.
    Pause {
        /// State of this trial that is written with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<ScopedBlob>,
    },
}

/// How a trial ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Complete, pruned or failed.
    pub state: TrialState,
    /// Final values: always for a complete trial, perhaps for a pruned one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<JsonF64>>,
    /// What went wrong, for a failed trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// State of this trial that is written with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<ScopedBlob>,
}

impl Outcome {
    /// An ending with values.
    pub fn complete(values: Vec<JsonF64>) -> Self {
        Self {
            state: TrialState::Complete,
            values: Some(values),
            error: None,
            blob: None,
        }
    }

    /// An early ending.
    pub fn pruned(values: Option<Vec<JsonF64>>) -> Self {
        Self {
            state: TrialState::Pruned,
            values,
            error: None,
            blob: None,
        }
    }

    /// An ending with an error.
    pub fn failed(error: impl Into<String>) -> Self {
        Self {
            state: TrialState::Failed,
            values: None,
            error: Some(error.into()),
            blob: None,
        }
    }
}
