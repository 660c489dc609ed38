//! Datasets and experiments of the store: the changes of [`Evals`](crate::logs::eval::Evals), with the questions that
//! only the store can answer.

use std::io;
use std::sync::Arc;

use super::annotations::AnnotationFilter;
use super::error::{During as _, Result, StoreError};
use super::{Shared, Store};
use crate::json::Value;
use crate::logs::annotation::Annotation;
use crate::logs::eval::scores::{self, ScoreDiff, ScoreSummary};
use crate::logs::eval::{Created, EvalState, NewVersion, PayloadRefusal};
use crate::payload::ContentAddress;

impl Store {
    /// Shows the datasets and experiments to `read`, without those of a tenant that is being erased. Changes wait until it
    /// returns.
    pub fn read_evals<R>(&self, read: impl FnOnce(&EvalState) -> R) -> R {
        let mask = Arc::clone(&self.shared.view().mask);
        let evals = self.shared.logs.evals();
        let mut hidden = mask.tenants();
        let Some(first) = hidden.next() else {
            return read(evals.state());
        };
        let left = evals.state().without_tenant(first);
        read(&hidden.fold(left, |left, tenant| left.without_tenant(tenant)))
    }

    /// Creates a dataset without versions, and answers its number. `now_unix_ns` is in nanoseconds since the Unix
    /// epoch, here and below.
    ///
    /// # Errors
    /// Those of [`Evals::create_dataset`](crate::logs::eval::Evals::create_dataset), as
    /// [`StoreError::Eval`]; here and below [`StoreError::ErasurePending`] when everything of the tenant is being erased.
    ///
    /// # Durability
    /// This change and those below survive a power loss when they return `Ok`.
    pub fn create_dataset(&self, tenant: &str, name: &str, now_unix_ns: u64) -> Result<u64> {
        self.shared.check_writable()?;
        let _gate = self.shared.gate();
        let mut evals = self.shared.logs.evals();
        self.shared.check_not_erasing(Some(tenant))?;
        Ok(evals.create_dataset(tenant, name, now_unix_ns)?)
    }

    /// Creates a version of a dataset, unless there is the same one already. Every payload that an example refers to
    /// has to be in the store; `admit` may refuse more of them, such as those that the caller must not know of.
    ///
    /// # Errors
    /// Those of [`Evals::create_version`](crate::logs::eval::Evals::create_version), as
    /// [`StoreError::Eval`]; [`StoreError::Io`] when a payload cannot be
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
        if !new.examples.is_empty() {
            shared.check_not_erasing(tenant_of_dataset(evals.state(), new.dataset_id))?;
        }
        let mask = Arc::clone(&shared.view().mask);
        let created = evals.create_version(
            new,
            |reference| {
                let address: ContentAddress =
                    reference.parse().map_err(|_| PayloadRefusal::Missing)?;
                if mask.withholds(address) {
                    return Err(PayloadRefusal::PendingErasure);
                }
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
    /// [`StoreError::Eval`].
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
        self.shared
            .check_not_erasing(tenant_of_dataset(evals.state(), dataset_id))?;
        Ok(evals.tombstone_version(dataset_id, version_id, reason, now_unix_ns)?)
    }

    /// Creates an experiment over a version and answers its number.
    ///
    /// # Errors
    /// Those of [`Evals::create_experiment`](crate::logs::eval::Evals::create_experiment), as
    /// [`StoreError::Eval`].
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
        self.shared
            .check_not_erasing(tenant_of_dataset(evals.state(), dataset_id))?;
        Ok(evals.create_experiment(dataset_id, version_id, name, config, now_unix_ns)?)
    }

    /// Records that an experiment went through an example, in that trace.
    ///
    /// # Errors
    /// Those of [`Evals::add_run`](crate::logs::eval::Evals::add_run), as [`StoreError::Eval`].
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
        let experiment = evals.state().experiment(experiment_id);
        self.shared
            .check_not_erasing(experiment.map(|found| found.tenant.as_str()))?;
        Ok(evals.add_run(experiment_id, example_id, trace_id, span_id, now_unix_ns)?)
    }
}

/// What an experiment has come to.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentSummary {
    /// How many examples the version has that it ran over.
    pub examples_total: usize,
    /// Its scores, by name.
    pub scores: Vec<ScoreSummary>,
}

impl Store {
    /// The scores of an experiment, the newest first; `None` when there is no such experiment.
    pub fn experiment_scores(&self, experiment_id: u64) -> Option<Vec<Annotation>> {
        self.read_evals(|state| state.experiment(experiment_id).is_some())
            .then(|| {
                self.annotations(&AnnotationFilter {
                    experiment_id: Some(experiment_id),
                    ..AnnotationFilter::default()
                })
            })
    }

    /// What the scores of an experiment add up to; `None` when there is no such experiment.
    pub fn summarise_experiment(&self, experiment_id: u64) -> Option<ExperimentSummary> {
        let examples_total = self.read_evals(|state| {
            let experiment = state.experiment(experiment_id)?;
            let version = state.version(experiment.dataset_id, &experiment.dataset_version);
            Some(version.map_or(0, |version| version.examples.len()))
        })?;
        Some(ExperimentSummary {
            examples_total,
            scores: scores::summarise(&self.recorded_scores(experiment_id)),
        })
    }

    /// How the scores of the experiment `candidate` compare with those of `base`, by name; `None` when one of them does
    /// not exist.
    pub fn compare_experiments(&self, base: u64, candidate: u64) -> Option<Vec<ScoreDiff>> {
        self.read_evals(|state| {
            state
                .experiment(base)
                .and(state.experiment(candidate))
                .is_some()
        })
        .then(|| {
            let (base, candidate) = (self.recorded_scores(base), self.recorded_scores(candidate));
            scores::compare(&base, &candidate)
        })
    }

    /// In the order of recording: of equal ones the last counts.
    fn recorded_scores(&self, experiment_id: u64) -> Vec<Annotation> {
        self.shared.annotations(&AnnotationFilter {
            experiment_id: Some(experiment_id),
            ..AnnotationFilter::default()
        })
    }
}

fn tenant_of_dataset(state: &EvalState, dataset_id: u64) -> Option<&str> {
    let dataset = state.dataset(dataset_id)?;
    Some(&dataset.tenant)
}

impl Shared {
    /// Refuses a change for a tenant that is being erased. Under the gate, so that no erasure begins meanwhile.
    fn check_not_erasing(&self, tenant: Option<&str>) -> Result<()> {
        match tenant.filter(|tenant| self.view().mask.erases_tenant(tenant)) {
            Some(tenant) => Err(StoreError::ErasurePending {
                tenant: tenant.to_owned(),
            }),
            None => Ok(()),
        }
    }

    fn has_payload(&self, address: ContentAddress) -> io::Result<bool> {
        self.fs()
            .exists(&self.home.dir.join(address.relative_path()))
    }
}
