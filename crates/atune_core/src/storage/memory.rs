//! A storage that lasts as long as its process.

use std::sync::{Arc, PoisonError, RwLock};

use durable::Clock;

use super::{Plan, Result, Storage, StorageError};
use crate::replica::{Refusal, Replica};
use crate::storage::journal::record::OpLine;
use crate::trial::WorkerId;

/// Keeps a replica and no history. Shared by the threads of one process.
#[derive(Debug)]
pub struct MemoryStorage {
    replica: RwLock<Replica>,
    clock: Arc<dyn Clock>,
    worker: WorkerId,
    process: u32,
}

impl MemoryStorage {
    /// An empty store whose operations carry the times of `clock`.
    pub fn new(clock: Arc<dyn Clock>, worker: WorkerId) -> Self {
        Self {
            replica: RwLock::new(Replica::new()),
            clock,
            worker,
            process: std::process::id(),
        }
    }

    /// A forked child has a copy that nobody shares, and whose lock a thread of the parent may have held.
    fn check_process(&self) -> Result<()> {
        let process = self.process;
        if process == std::process::id() {
            Ok(())
        } else {
            Err(StorageError::Forked { process })
        }
    }
}

impl Storage for MemoryStorage {
    fn commit_batch(
        &self,
        plans: &mut [&mut Plan<'_>],
    ) -> Result<Vec<std::result::Result<u64, Refusal>>> {
        self.check_process()?;
        // A refused operation leaves no trace, so a panic elsewhere leaves the replica whole too.
        let mut replica = self.replica.write().unwrap_or_else(PoisonError::into_inner);
        let mut commit = |plan: &mut Plan<'_>| {
            let op = plan(&replica)?;
            let at_millis = self.clock.wall_ns() / 1_000_000;
            let seq = replica.seq() + 1;
            replica.apply_line(&OpLine {
                seq,
                worker: self.worker,
                at_millis,
                op,
            })?;
            Ok(seq)
        };
        Ok(plans.iter_mut().map(|plan| commit(plan)).collect())
    }

    fn read(&self, look: &mut dyn FnMut(&Replica)) -> Result<()> {
        self.check_process()?;
        look(&self.replica.read().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}
