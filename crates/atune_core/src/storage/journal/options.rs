//! How a study is written.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::history::PAYLOAD_LEN_READ_MAX;
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
    /// The longest record, in bytes. At most 256 MiB, which is what readers take.
    pub record_len_max: usize,
    /// The longest payload of an extent, in bytes. At most 256 MiB, which is what readers take.
    pub extent_len_max: usize,
    /// Whether the handle has threads of its own, that keep the lease between commits and sync two files
    /// side by side. Without, every call is made by the caller's thread.
    pub threads: bool,
}

impl JournalOptions {
    /// With caps that keep to what readers take.
    pub(super) fn within_readers(self) -> Self {
        let max = usize::try_from(PAYLOAD_LEN_READ_MAX).unwrap_or(usize::MAX);
        Self {
            record_len_max: self.record_len_max.min(max),
            extent_len_max: self.extent_len_max.min(max),
            ..self
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cap_exceeds_what_readers_take() {
        let given = JournalOptions {
            record_len_max: usize::MAX,
            extent_len_max: usize::MAX,
            ..JournalOptions::default()
        };
        let kept = given.within_readers();
        assert_eq!(kept.record_len_max as u64, PAYLOAD_LEN_READ_MAX);
        assert_eq!(kept.extent_len_max as u64, PAYLOAD_LEN_READ_MAX);
        let default = JournalOptions::default();
        let kept = default.clone().within_readers();
        assert_eq!(kept.record_len_max, default.record_len_max);
        assert_eq!(kept.extent_len_max, default.extent_len_max);
    }
}
