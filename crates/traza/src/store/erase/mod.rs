//! Erasure: something is to be forgotten, in every place where the store keeps it.

use super::Store;
use crate::logs::tombstone::Erasure;

impl Store {
    /// All erasures, the oldest first.
    pub fn erasures(&self) -> Vec<Erasure> {
        self.shared.logs.tombstones().all().cloned().collect()
    }
}
