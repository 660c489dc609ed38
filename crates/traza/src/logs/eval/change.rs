//! The changes that are allowed, each durable when it returns.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use durable::Fs;

use super::record::{
    Dataset, ExampleBody, Experiment, FORMAT, Record, Run, Version, VersionTombstone,
};
use super::state::EvalState;
use crate::json::Value;
use crate::logs::file::{Healed, LineFault, LineLog, LogError, Opened};
use crate::logs::members::{shape, string};
use crate::span::{TENANT_LEN_MAX, is_tenant_name};

/// A version to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct NewVersion {
    /// The dataset.
    pub dataset_id: u64,
    /// The version that it is made from.
    pub parent: Option<String>,
    /// How it was made; `null` is the same as nothing.
    pub provenance: Option<Value>,
    /// The examples, in any order.
    pub examples: Vec<NewExample>,
}

/// An example of a version to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct NewExample {
    /// What it is called in the version.
    pub example_id: String,
    /// What it says.
    pub body: ExampleBody,
}

impl NewExample {
    /// Reads an example from JSON as clients send it: `example_id` and the members of its body. Unknown members are ignored.
    ///
    /// # Errors
    /// See [`LineFault`].
    pub fn from_json(bytes: &[u8]) -> Result<Self, LineFault> {
        Self::from_value(Value::parse(bytes)?)
    }

    /// [`NewExample::from_json`] of JSON that has been read.
    ///
    /// # Errors
    /// See [`LineFault`].
    pub fn from_value(value: Value) -> Result<Self, LineFault> {
        let Value::Object(mut members) = value else {
            return Err(shape("example", "an object"));
        };
        let example_id = members.remove("example_id").ok_or(LineFault::Missing {
            field: "example_id",
        })?;
        Ok(Self {
            example_id: string(example_id, "example_id")?,
            body: ExampleBody::from_value(Value::Object(members))?,
        })
    }
}

/// The version that there is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Its name.
    pub version_id: String,
    /// How many examples it has.
    pub examples: usize,
    /// False when the dataset had the very same version before, which then stays as it was.
    pub created: bool,
}

/// What a tenant leaves behind when it is erased.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantErasure {
    /// Its datasets.
    pub datasets: Vec<u64>,
    /// Its experiments.
    pub experiments: Vec<u64>,
    /// What the examples that go with it refer to; other examples may refer to the same.
    pub payload_refs: BTreeSet<String>,
    /// How many records go: of datasets, examples, versions, experiments, runs and tombstones.
    pub records_removed: u64,
}

/// Why an example must not refer to a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadRefusal {
    /// It is being erased.
    PendingErasure,
    /// The store has no such bytes.
    Missing,
    /// The tenant of the dataset does not hold it.
    Unreachable,
}

/// Why a change was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// The dataset has no name.
    #[error("dataset name is empty")]
    EmptyName,
    /// The tenant is neither empty nor a name.
    #[error("tenant must be lowercase [a-z0-9][a-z0-9._-], at most {TENANT_LEN_MAX} bytes")]
    Tenant,
    /// There is no such dataset.
    #[error("no dataset {0}")]
    NoDataset(u64),
    /// There is no such experiment.
    #[error("no experiment {0}")]
    NoExperiment(u64),
    /// The version has no examples.
    #[error("a version needs at least one example")]
    NoExamples,
    /// The parent is no version of the dataset.
    #[error("parent version {parent} is not a version of dataset {dataset_id}")]
    NoParent {
        /// The parent.
        parent: String,
        /// The dataset.
        dataset_id: u64,
    },
    /// The parent is not to be used any more.
    #[error("parent version {0} is tombstoned")]
    ParentTombstoned(String),
    /// An example has no id.
    #[error("example_id is empty")]
    EmptyExampleId,
    /// Two examples have one id.
    #[error("example {0} appears twice in the manifest")]
    ExampleTwice(String),
    /// An example refers to a payload that it must not refer to.
    #[error("{}", payload_text(reference, *refusal))]
    Payload {
        /// The payload.
        reference: String,
        /// Why.
        refusal: PayloadRefusal,
    },
    /// The dataset has no such version.
    #[error("version {version_id} is not a version of dataset {dataset_id}")]
    NoVersion {
        /// The version.
        version_id: String,
        /// The dataset.
        dataset_id: u64,
    },
    /// The version is not to be used any more.
    #[error("version {0} is tombstoned; new experiments cannot run against it")]
    Tombstoned(String),
    /// The run has no trace.
    #[error("run trace_id is empty")]
    EmptyTraceId,
    /// The version of the experiment does not list the example.
    #[error("example {example_id} is not in experiment {experiment_id}'s dataset version")]
    NoExample {
        /// The example.
        example_id: String,
        /// The experiment.
        experiment_id: u64,
    },
    /// A score names an experiment of another tenant.
    #[error("a score's tenant must be its experiment's; experiment {0} disagrees")]
    ForeignExperiment(u64),
    /// There are no more numbers.
    #[error("the eval log has used up its numbers")]
    NumbersUsedUp,
    /// The log cannot be written.
    #[error(transparent)]
    Log(#[from] LogError),
}

fn payload_text(reference: &str, refusal: PayloadRefusal) -> String {
    let why = match refusal {
        PayloadRefusal::PendingErasure => "is pending erasure; the promotion conflicts with it",
        PayloadRefusal::Missing => "is not in the store; the example would be born dangling",
        PayloadRefusal::Unreachable => "is not reachable from this dataset's tenant",
    };
    format!("payload {reference} {why}")
}

/// The datasets and experiments of a store, and their log.
///
/// A change that is refused or fails changes nothing; one that returns `Ok` survives a power loss. Whether the tenant is being
/// erased is for the caller to ask before.
#[derive(Debug)]
pub struct Evals {
    log: LineLog,
    state: EvalState,
}

impl Evals {
    /// Opens the log at `path`, and tells what was healed: see [`LineLog::open`].
    ///
    /// # Errors
    /// As [`LineLog::open`].
    pub fn open(fs: Arc<dyn Fs>, path: PathBuf) -> Result<(Self, Option<Healed>), LogError> {
        let opened = LineLog::open(fs, path, &FORMAT)?;
        let healed = opened.healed;
        Ok((Self::of(opened), healed))
    }

    /// Reads the log at `path`: see [`LineLog::read_only`].
    ///
    /// # Errors
    /// As [`LineLog::read_only`].
    pub fn read_only(fs: Arc<dyn Fs>, path: PathBuf) -> Result<Self, LogError> {
        Ok(Self::of(LineLog::read_only(fs, path, &FORMAT)?))
    }

    fn of(opened: Opened<Record>) -> Self {
        Self {
            log: opened.log,
            state: EvalState::replay(opened.records),
        }
    }

    /// The file, for its place and its length.
    pub fn log(&self) -> &LineLog {
        &self.log
    }

    /// What there is.
    pub fn state(&self) -> &EvalState {
        &self.state
    }

    /// Creates a dataset without versions, and answers its number. Names need not be unique. `now_unix_ns` is in nanoseconds
    /// since the Unix epoch, here and below.
    ///
    /// # Errors
    /// [`EvalError::EmptyName`], [`EvalError::Tenant`], [`EvalError::NumbersUsedUp`], [`EvalError::Log`].
    pub fn create_dataset(
        &mut self,
        tenant: &str,
        name: &str,
        now_unix_ns: u64,
    ) -> Result<u64, EvalError> {
        if name.is_empty() {
            return Err(EvalError::EmptyName);
        }
        if !tenant.is_empty() && !is_tenant_name(tenant) {
            return Err(EvalError::Tenant);
        }
        let dataset_id = next(self.state.counters().dataset_highest)?;
        self.write(vec![Record::Dataset(Dataset {
            dataset_id,
            tenant: tenant.to_owned(),
            name: name.to_owned(),
            created_unix_ns: now_unix_ns,
        })])?;
        Ok(dataset_id)
    }

    /// Creates a version of a dataset, unless there is the same one already. `admit` is asked about every payload that an
    /// example refers to.
    ///
    /// # Errors
    /// In this order: [`EvalError::NoExamples`], [`EvalError::NoDataset`], [`EvalError::NoParent`],
    /// [`EvalError::ParentTombstoned`], [`EvalError::EmptyExampleId`] and [`EvalError::ExampleTwice`] by example,
    /// [`EvalError::Payload`], [`EvalError::Log`].
    pub fn create_version(
        &mut self,
        new: NewVersion,
        mut admit: impl FnMut(&str) -> Result<(), PayloadRefusal>,
        now_unix_ns: u64,
    ) -> Result<Created, EvalError> {
        let NewVersion {
            dataset_id,
            parent,
            provenance,
            mut examples,
        } = new;
        if examples.is_empty() {
            return Err(EvalError::NoExamples);
        }
        let tenant = self.existing_dataset(dataset_id)?.tenant.clone();
        if let Some(parent) = &parent {
            if self.state.version(dataset_id, parent).is_none() {
                let parent = parent.clone();
                return Err(EvalError::NoParent { parent, dataset_id });
            }
            if self.state.tombstone(dataset_id, parent).is_some() {
                return Err(EvalError::ParentTombstoned(parent.clone()));
            }
        }
        check_ids(&examples)?;
        for example in &mut examples {
            // Otherwise a body would have another digest when it is read again.
            example.body.expected = unless_null(example.body.expected.take());
        }
        let mut references = BTreeSet::new();
        for example in &examples {
            example.body.payload_references(&mut references);
        }
        for reference in references {
            admit(reference).map_err(|refusal| EvalError::Payload {
                reference: reference.to_owned(),
                refusal,
            })?;
        }

        examples.sort_by(|a, b| a.example_id.cmp(&b.example_id));
        let mut records = Vec::new();
        let mut fresh = BTreeSet::new();
        let mut pairs = Vec::new();
        for NewExample { example_id, body } in examples {
            let digest = body.digest();
            pairs.push((example_id, digest.clone()));
            if self.state.example(&digest).is_none() && fresh.insert(digest.clone()) {
                records.push(Record::Example { digest, body });
            }
        }
        let version_id = Version::id_of(dataset_id, parent.as_deref(), &pairs);
        let known = self.state.version(dataset_id, &version_id).is_some();
        let created = Created {
            version_id: version_id.clone(),
            examples: pairs.len(),
            created: !known,
        };
        if !known {
            records.push(Record::Version(Version {
                tenant,
                dataset_id,
                version_id,
                parent,
                provenance: unless_null(provenance),
                examples: pairs,
                created_unix_ns: now_unix_ns,
            }));
            self.write(records)?;
        }
        Ok(created)
    }

    /// Says that a version is not to be used any more: no new experiments and no children. Answers whether that was said
    /// before; then nothing is written. Its examples, and what ran over it, stay.
    ///
    /// # Errors
    /// [`EvalError::NoDataset`], [`EvalError::NoVersion`], [`EvalError::Log`].
    pub fn tombstone_version(
        &mut self,
        dataset_id: u64,
        version_id: &str,
        reason: &str,
        now_unix_ns: u64,
    ) -> Result<bool, EvalError> {
        let tenant = self.existing_dataset(dataset_id)?.tenant.clone();
        self.existing_version(dataset_id, version_id)?;
        if self.state.tombstone(dataset_id, version_id).is_some() {
            return Ok(true);
        }
        self.write(vec![Record::VersionTombstone(VersionTombstone {
            tenant,
            dataset_id,
            version_id: version_id.to_owned(),
            requested_unix_ns: now_unix_ns,
            reason: reason.to_owned(),
        })])?;
        Ok(false)
    }

    /// Creates an experiment over a version and answers its number. `name` may be empty; a `config` of `null` is none.
    ///
    /// # Errors
    /// [`EvalError::NoDataset`], [`EvalError::NoVersion`], [`EvalError::Tombstoned`], [`EvalError::NumbersUsedUp`],
    /// [`EvalError::Log`].
    pub fn create_experiment(
        &mut self,
        dataset_id: u64,
        version_id: &str,
        name: &str,
        config: Option<Value>,
        now_unix_ns: u64,
    ) -> Result<u64, EvalError> {
        let tenant = self.existing_dataset(dataset_id)?.tenant.clone();
        self.existing_version(dataset_id, version_id)?;
        if self.state.tombstone(dataset_id, version_id).is_some() {
            return Err(EvalError::Tombstoned(version_id.to_owned()));
        }
        let experiment_id = next(self.state.counters().experiment_highest)?;
        self.write(vec![Record::Experiment(Experiment {
            experiment_id,
            tenant,
            dataset_id,
            dataset_version: version_id.to_owned(),
            name: name.to_owned(),
            config: unless_null(config),
            created_unix_ns: now_unix_ns,
        })])?;
        Ok(experiment_id)
    }

    /// Records that an experiment went through an example, in that trace. `span_id` may be empty. Every call adds a run.
    ///
    /// # Errors
    /// [`EvalError::EmptyTraceId`], [`EvalError::NoExperiment`], [`EvalError::NoExample`], [`EvalError::Log`].
    pub fn add_run(
        &mut self,
        experiment_id: u64,
        example_id: &str,
        trace_id: &str,
        span_id: &str,
        now_unix_ns: u64,
    ) -> Result<(), EvalError> {
        if trace_id.is_empty() {
            return Err(EvalError::EmptyTraceId);
        }
        let tenant = self
            .existing_example(experiment_id, example_id)?
            .tenant
            .clone();
        self.write(vec![Record::Run(Run {
            tenant,
            experiment_id,
            example_id: example_id.to_owned(),
            trace_id: trace_id.to_owned(),
            span_id: span_id.to_owned(),
            created_unix_ns: now_unix_ns,
        })])
    }

    /// Checks what a score says about its experiment; the annotation is recorded elsewhere.
    ///
    /// # Errors
    /// [`EvalError::NoExperiment`], [`EvalError::ForeignExperiment`], [`EvalError::NoExample`].
    pub fn check_score(
        &self,
        tenant: &str,
        experiment_id: u64,
        example_id: &str,
    ) -> Result<(), EvalError> {
        let found = self.state.experiment(experiment_id);
        let experiment = found.ok_or(EvalError::NoExperiment(experiment_id))?;
        if experiment.tenant != tenant {
            return Err(EvalError::ForeignExperiment(experiment_id));
        }
        self.existing_example(experiment_id, example_id).map(drop)
    }

    /// What erasing a tenant would take away. Nothing is changed.
    pub fn survey_tenant(&self, tenant: &str) -> TenantErasure {
        self.survey(tenant, &self.state.without_tenant(tenant))
    }

    /// Removes everything of a tenant from the log, and answers what that was. The numbers are not given out again. When the
    /// tenant has nothing, the log stays as it is.
    ///
    /// # Errors
    /// [`LogError`], as [`LineLog::rewrite`].
    pub fn erase_tenant(&mut self, tenant: &str) -> Result<TenantErasure, LogError> {
        let left = self.state.without_tenant(tenant);
        let erasure = self.survey(tenant, &left);
        if erasure.records_removed > 0 {
            let lines: Vec<_> = left
                .clone()
                .into_records()
                .map(|record| record.to_json())
                .collect();
            self.log.rewrite(&lines)?;
            self.state = left;
        }
        Ok(erasure)
    }

    fn survey(&self, tenant: &str, left: &EvalState) -> TenantErasure {
        let mut references = BTreeSet::new();
        for (digest, body) in self.state.examples() {
            if left.example(digest).is_none() {
                body.payload_references(&mut references);
            }
        }
        let datasets = self.state.datasets().filter(|each| each.tenant == tenant);
        let experiments = self.state.experiments();
        let experiments = experiments.filter(|each| left.experiment(each.experiment_id).is_none());
        let removed = self.state.record_count() - left.record_count();
        TenantErasure {
            datasets: datasets.map(|each| each.dataset_id).collect(),
            experiments: experiments.map(|each| each.experiment_id).collect(),
            payload_refs: references.into_iter().map(str::to_owned).collect(),
            records_removed: u64::try_from(removed).unwrap_or(u64::MAX),
        }
    }

    fn existing_dataset(&self, dataset_id: u64) -> Result<&Dataset, EvalError> {
        let found = self.state.dataset(dataset_id);
        found.ok_or(EvalError::NoDataset(dataset_id))
    }

    fn existing_version(&self, dataset_id: u64, version_id: &str) -> Result<&Version, EvalError> {
        let found = self.state.version(dataset_id, version_id);
        found.ok_or_else(|| EvalError::NoVersion {
            version_id: version_id.to_owned(),
            dataset_id,
        })
    }

    /// The experiment, if it ran over a version that lists the example.
    fn existing_example(
        &self,
        experiment_id: u64,
        example_id: &str,
    ) -> Result<&Experiment, EvalError> {
        let found = self.state.experiment(experiment_id);
        let experiment = found.ok_or(EvalError::NoExperiment(experiment_id))?;
        if self.state.lists_example(experiment, example_id) {
            return Ok(experiment);
        }
        Err(EvalError::NoExample {
            example_id: example_id.to_owned(),
            experiment_id,
        })
    }

    fn write(&mut self, records: Vec<Record>) -> Result<(), EvalError> {
        let lines: Vec<_> = records.iter().map(Record::to_json).collect();
        self.log.append(&lines)?;
        for record in records {
            self.state.apply(record);
        }
        Ok(())
    }
}

fn check_ids(examples: &[NewExample]) -> Result<(), EvalError> {
    let mut seen = BTreeSet::new();
    for NewExample { example_id, .. } in examples {
        if example_id.is_empty() {
            return Err(EvalError::EmptyExampleId);
        }
        if !seen.insert(example_id) {
            return Err(EvalError::ExampleTwice(example_id.clone()));
        }
    }
    Ok(())
}

fn next(highest: u64) -> Result<u64, EvalError> {
    highest.checked_add(1).ok_or(EvalError::NumbersUsedUp)
}

fn unless_null(value: Option<Value>) -> Option<Value> {
    value.filter(|value| *value != Value::Null)
}
