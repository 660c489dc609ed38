//! What the lines amount to.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{
    Counters, Dataset, ExampleBody, Experiment, Record, Run, Version, VersionTombstone,
};

/// Everything that the log says, without the log: also for one that was scanned and not opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvalState {
    datasets: BTreeMap<u64, Dataset>,
    examples: BTreeMap<String, ExampleBody>,
    /// By dataset, in the order of creation.
    versions: BTreeMap<u64, Vec<Version>>,
    experiments: BTreeMap<u64, Experiment>,
    /// By experiment, in the order of recording.
    runs: BTreeMap<u64, Vec<Run>>,
    tombstones: BTreeMap<(u64, String), VersionTombstone>,
    floor: Counters,
}

impl EvalState {
    /// Takes the records of a log in.
    pub fn replay(records: Vec<Record>) -> Self {
        let mut state = Self::default();
        for record in records {
            state.apply(record);
        }
        state
    }

    /// Takes one record in. A later one takes the place of an earlier one with the same name; a version moves to the end.
    pub(super) fn apply(&mut self, record: Record) {
        match record {
            Record::Dataset(dataset) => {
                self.datasets.insert(dataset.dataset_id, dataset);
            }
            Record::Example { digest, body } => {
                self.examples.insert(digest, body);
            }
            Record::Version(version) => {
                let versions = self.versions.entry(version.dataset_id).or_default();
                versions.retain(|earlier| earlier.version_id != version.version_id);
                versions.push(version);
            }
            Record::Experiment(experiment) => {
                self.experiments
                    .insert(experiment.experiment_id, experiment);
            }
            Record::Run(run) => {
                self.runs.entry(run.experiment_id).or_default().push(run);
            }
            Record::VersionTombstone(tombstone) => {
                let name = (tombstone.dataset_id, tombstone.version_id.clone());
                self.tombstones.insert(name, tombstone);
            }
            Record::Counters(Counters {
                dataset_highest,
                experiment_highest,
            }) => {
                // Never down: a number that was given out once is not given out again.
                let floor = &mut self.floor;
                floor.dataset_highest = floor.dataset_highest.max(dataset_highest);
                floor.experiment_highest = floor.experiment_highest.max(experiment_highest);
            }
        }
    }

    /// The datasets, by number.
    pub fn datasets(&self) -> impl Iterator<Item = &Dataset> {
        self.datasets.values()
    }

    /// The dataset of that number.
    pub fn dataset(&self, dataset_id: u64) -> Option<&Dataset> {
        self.datasets.get(&dataset_id)
    }

    /// The versions of a dataset, oldest first, with those that are not to be used any more.
    pub fn versions(&self, dataset_id: u64) -> &[Version] {
        self.versions
            .get(&dataset_id)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// A version of a dataset, also one that is not to be used any more.
    pub fn version(&self, dataset_id: u64, version_id: &str) -> Option<&Version> {
        let mut versions = self.versions(dataset_id).iter();
        versions.find(|version| version.version_id == version_id)
    }

    /// What says that a version is not to be used any more.
    pub fn tombstone(&self, dataset_id: u64, version_id: &str) -> Option<&VersionTombstone> {
        self.tombstones.get(&(dataset_id, version_id.to_owned()))
    }

    /// The examples of all datasets, by digest.
    pub fn examples(&self) -> impl Iterator<Item = (&str, &ExampleBody)> {
        let examples = self.examples.iter();
        examples.map(|(digest, body)| (digest.as_str(), body))
    }

    /// The body that a digest names.
    pub fn example(&self, digest: &str) -> Option<&ExampleBody> {
        self.examples.get(digest)
    }

    /// The experiments, by number.
    pub fn experiments(&self) -> impl Iterator<Item = &Experiment> {
        self.experiments.values()
    }

    /// The experiment of that number.
    pub fn experiment(&self, experiment_id: u64) -> Option<&Experiment> {
        self.experiments.get(&experiment_id)
    }

    /// The runs of an experiment, in the order of recording.
    pub fn runs(&self, experiment_id: u64) -> &[Run] {
        self.runs
            .get(&experiment_id)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// Whether the version that an experiment ran over lists the example.
    pub fn lists_example(&self, experiment: &Experiment, example_id: &str) -> bool {
        self.version(experiment.dataset_id, &experiment.dataset_version)
            .is_some_and(|version| version.digest_of(example_id).is_some())
    }

    /// The highest numbers that were ever given out.
    pub fn counters(&self) -> Counters {
        let highest = |last: Option<&u64>, floor: u64| last.map_or(floor, |last| floor.max(*last));
        Counters {
            dataset_highest: highest(self.datasets.keys().next_back(), self.floor.dataset_highest),
            experiment_highest: highest(
                self.experiments.keys().next_back(),
                self.floor.experiment_highest,
            ),
        }
    }

    /// Every payload that an example refers to. Those are in use, whatever became of the versions.
    pub fn payload_references(&self) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        for body in self.examples.values() {
            body.payload_references(&mut found);
        }
        found
    }

    /// The examples and versions whose content gives another name than the one they go by: damage, or a number that an older
    /// release spelt otherwise or that does not read back as it was written.
    pub fn misnamed(&self) -> impl Iterator<Item = &str> {
        let examples = self.examples.iter();
        let examples = examples.filter(|(digest, body)| body.digest() != **digest);
        let versions = self.versions.values().flatten().filter(|version| {
            let parent = version.parent.as_deref();
            Version::id_of(version.dataset_id, parent, &version.examples) != version.version_id
        });
        examples
            .map(|(digest, _)| digest.as_str())
            .chain(versions.map(|version| version.version_id.as_str()))
    }

    /// The state without a tenant. Bodies go when no version that is left lists them, those that no version ever listed too:
    /// nobody can say whose they are.
    pub(crate) fn without_tenant(&self, tenant: &str) -> Self {
        let mut left = self.clone();
        left.floor = self.counters();
        left.datasets.retain(|_, dataset| dataset.tenant != tenant);
        let erased = |id: u64| self.datasets.contains_key(&id) && !left.datasets.contains_key(&id);
        for (id, versions) in &mut left.versions {
            versions.retain(|version| version.tenant != tenant && !erased(*id));
        }
        left.tombstones
            .retain(|(id, _), tombstone| tombstone.tenant != tenant && !erased(*id));
        left.experiments
            .retain(|_, each| each.tenant != tenant && !erased(each.dataset_id));
        let experiments = &left.experiments;
        let erased = |id: u64| self.experiments.contains_key(&id) && !experiments.contains_key(&id);
        for (id, runs) in &mut left.runs {
            runs.retain(|run| run.tenant != tenant && !erased(*id));
        }
        left.versions.retain(|_, versions| !versions.is_empty());
        left.runs.retain(|_, runs| !runs.is_empty());
        let listed: BTreeSet<&str> = left
            .versions
            .values()
            .flatten()
            .flat_map(|version| version.examples.iter().map(|(_, digest)| digest.as_str()))
            .collect();
        left.examples
            .retain(|digest, _| listed.contains(digest.as_str()));
        left
    }

    /// How many records there are, the counters not counted.
    pub(super) fn record_count(&self) -> usize {
        let versions: usize = self.versions.values().map(Vec::len).sum();
        let runs: usize = self.runs.values().map(Vec::len).sum();
        let named = self.datasets.len() + self.examples.len() + self.experiments.len();
        named + versions + runs + self.tombstones.len()
    }

    /// The records of a log that amounts to this state: the counters, then datasets, examples, versions, experiments, runs
    /// and tombstones, each by name; versions of a dataset and runs of an experiment stay in their order.
    pub(super) fn into_records(self) -> impl Iterator<Item = Record> {
        let counters = self.counters();
        let examples = self.examples.into_iter();
        std::iter::once(Record::Counters(counters))
            .chain(self.datasets.into_values().map(Record::Dataset))
            .chain(examples.map(|(digest, body)| Record::Example { digest, body }))
            .chain(self.versions.into_values().flatten().map(Record::Version))
            .chain(self.experiments.into_values().map(Record::Experiment))
            .chain(self.runs.into_values().flatten().map(Record::Run))
            .chain(self.tombstones.into_values().map(Record::VersionTombstone))
    }
}
