//! How a study is written.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::trial::WorkerId;

/// What an acknowledgement promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// It survives a power cut.
    #[default]
    Full,
    /// It survives the end of the process, not of the machine.
    Process,
}

/// How a study is written.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Who writes.
    pub worker: WorkerId,
    /// What an acknowledgement promises.
    pub durability: Durability,
    /// How long the holder of the lease may stay silent before others take it.
    pub lease: Duration,
    /// The longest record, in bytes.
    pub record_len_max: usize,
    /// The longest payload of an extent, in bytes.
    pub extent_len_max: usize,
    /// Whether the handle has threads of its own, that keep the lease between commits and sync two files
    /// side by side. Without, every call is made by the caller's thread.
    pub threads: bool,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self {
            worker: WorkerId(0),
            durability: Durability::Full,
            lease: Duration::from_secs(10),
            record_len_max: 1 << 20,
            extent_len_max: 8 << 20,
            threads: true,
        }
    }
}
