//! The files of payloads that an erasure accounts for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::RwLockWriteGuard;

use durable::Access;

use super::super::Shared;
use super::super::error::{During as _, Result};
use super::coverage::Coverage;
use crate::logs::tombstone::Retained;
use crate::payload::ContentAddress;

/// Which payloads went, and which stay.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub(super) removed: Vec<String>,
    pub(super) retained: Vec<Retained>,
}

impl Shared {
    /// Removes the files of these payloads: all that nothing refers to any more, and the subject in any case. What is missing
    /// counts as removed.
    pub(super) fn erase_payloads(
        &self,
        coverage: &Coverage,
        doomed: &BTreeSet<ContentAddress>,
    ) -> Result<Sorted> {
        let mut sorted = Sorted::default();
        if doomed.is_empty() {
            return Ok(sorted);
        }
        let gate = self.gate_alone();
        let live = self.live_payloads()?;
        let mut removed = Vec::new();
        for address in doomed {
            match live.holder(*address) {
                Some(holder) if !coverage.erases(*address) => sorted.retained.push(Retained {
                    reference: address.to_string(),
                    reason: holder.to_owned(),
                }),
                _ => removed.push(*address),
            }
        }
        self.remove_payloads(&gate, &removed)?;
        sorted.removed = removed.iter().map(ToString::to_string).collect();
        Ok(sorted)
    }

    /// Removes the blobs, durably. One that is missing is as good as removed; the name of an earlier removal is made
    /// durable then. Under the gate, since a batch that is on its way may rely on a blob that it found.
    fn remove_payloads(
        &self,
        _gate: &RwLockWriteGuard<'_, ()>,
        doomed: &[ContentAddress],
    ) -> Result<()> {
        let fs = self.fs();
        let mut shards: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
        for address in doomed {
            let path = self.home.dir.join(address.relative_path());
            // What an unfinished write of it may have left.
            let mut unfinished = path.clone().into_os_string();
            unfinished.push(durable::TEMPORARY_SUFFIX);
            self.remove_if_there(Path::new(&unfinished))?;
            self.remove_if_there(&path)?;
            let shard = durable::parent_of(&path).to_owned();
            shards.entry(shard).or_default().push(path);
        }
        for (shard, paths) in shards {
            if !fs.exists(&shard).during("look for", &shard)? {
                continue;
            }
            let synced = fs.sync_dir(&shard);
            if synced.is_err() {
                // Another sync would not save these removals; another attempt has to have something to remove.
                for path in paths {
                    fs.create_new(&path, Access::Shared).ok();
                }
            }
            synced.during("sync", &shard)?;
        }
        Ok(())
    }
}
