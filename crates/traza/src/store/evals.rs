//! Datasets and experiments of the store: the changes of [`Evals`](crate::logs::eval::Evals), with the questions that
//! only the store can answer.

use std::io;

use super::error::{During as _, Result};
use super::{Shared, Store};
use crate::json::Value;
use crate::logs::eval::{Created, EvalState, NewVersion, PayloadRefusal};
use crate::payload::ContentAddress;

impl Store {
    /// Shows the datasets and experiments to `read`. Changes wait until it returns.
    pub fn read_evals<R>(&self, read: impl FnOnce(&EvalState) -> R) -> R {
        read(self.shared.logs.evals().state())
    }

    /// Creates a dataset without versions, and answers its number. `now_unix_ns` is in nanoseconds since the Unix
    /// epoch, here and below.
    ///
    /// # Errors
    /// Those of [`Evals::create_dataset`](crate::logs::eval::Evals::create_dataset), as
    /// [`StoreError::Eval`](super::StoreError::Eval).
    ///
    /// # Durability
    /// This change and those below survive a power loss when they return `Ok`.
    pub fn create_dataset(&self, tenant: &str, name: &str, now_unix_ns: u64) -> Result<u64> {
        self.shared.check_writable()?;
        let _gate = self.shared.gate();
        let mut evals = self.shared.logs.evals();
        Ok(evals.create_dataset(tenant, name, now_unix_ns)?)
    }

    /// Creates a version of a dataset, unless there is the same one already. Every payload that an example refers to
    /// has to be in the store; `admit` may refuse more of them, such as those that the caller must not know of.
    ///
    /// # Errors
    /// Those of [`Evals::create_version`](crate::logs::eval::Evals::create_version), as
    /// [`StoreError::Eval`](super::StoreError::Eval); [`StoreError::Io`](super::StoreError::Io) when a payload cannot be
    /// looked for.
    pub fn create_version(
        &self,
        new: NewVersion,
        mut admit: impl FnMut(ContentAddress) -> Result<(), PayloadRefusal>,
        now_unix_ns: u64,
    ) -> Result<Created> {
        self.shared.check_writable()?;
        let shared = &self.shared;
        let mut failure = None;
        let _gate = shared.gate();
        let mut evals = shared.logs.evals();
        let created = evals.create_version(
            new,
            |reference| {
                let address: ContentAddress =
                    reference.parse().map_err(|_| PayloadRefusal::Missing)?;
                match shared.has_payload(address) {
                    Ok(true) => admit(address),
                    Ok(false) => Err(PayloadRefusal::Missing),
                    Err(error) => {
                        failure = Some((address, error));
                        Err(PayloadRefusal::Missing)
                    }
                }
            },
            now_unix_ns,
        );
        if let Some((address, error)) = failure {
            let path = shared.home.dir.join(address.relative_path());
            return Err(error).during("look for", &path);
        }
        Ok(created?)
    }

    /// Says that a version is not to be used any more. Answers whether that was said before.
    ///
    /// # Errors
    /// Those of [`Evals::tombstone_version`](crate::logs::eval::Evals::tombstone_version), as
    /// [`StoreError::Eval`](super::StoreError::Eval).
    pub fn tombstone_version(
        &self,
        dataset_id: u64,
        version_id: &str,
        reason: &str,
        now_unix_ns: u64,
    ) -> Result<bool> {
        self.shared.check_writable()?;
        let _gate = self.shared.gate();
        let mut evals = self.shared.logs.evals();
        Ok(evals.tombstone_version(dataset_id, version_id, reason, now_unix_ns)?)
    }

    /// Creates an experiment over a version and answers its number.
    ///
    /// # Errors
    /// Those of [`Evals::create_experiment`](crate::logs::eval::Evals::create_experiment), as
    /// [`StoreError::Eval`](super::StoreError::Eval).
    pub fn create_experiment(
        &self,
        dataset_id: u64,
        version_id: &str,
        name: &str,
        config: Option<Value>,
        now_unix_ns: u64,
    ) -> Result<u64> {
        self.shared.check_writable()?;
        let _gate = self.shared.gate();
        let mut evals = self.shared.logs.evals();
        Ok(evals.create_experiment(dataset_id, version_id, name, config, now_unix_ns)?)
    }

    /// Records that an experiment went through an example, in that trace.
    ///
    /// # Errors
    /// Those of [`Evals::add_run`](crate::logs::eval::Evals::add_run), as [`StoreError::Eval`](super::StoreError::Eval).
    pub fn add_run(
        &self,
        experiment_id: u64,
        example_id: &str,
        trace_id: &str,
        span_id: &str,
        now_unix_ns: u64,
    ) -> Result<()> {
        self.shared.check_writable()?;
        let _gate = self.shared.gate();
        let mut evals = self.shared.logs.evals();
        Ok(evals.add_run(experiment_id, example_id, trace_id, span_id, now_unix_ns)?)
    }
}

impl Shared {
    fn has_payload(&self, address: ContentAddress) -> io::Result<bool> {
        self.fs()
            .exists(&self.home.dir.join(address.relative_path()))
    }
}
