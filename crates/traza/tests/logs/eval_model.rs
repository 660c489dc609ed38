//! Random changes against a plain model: lists that are searched from the front.

use proptest::prelude::*;
use traza::logs::eval::{EvalError, Evals, NewExample};

use crate::evals::{anything, example, open, version};

/// Small numbers, so that they meet; what does not exist is to be refused by both.
#[derive(Clone, Debug)]
enum Change {
    Dataset {
        tenant: usize,
    },
    Version {
        dataset: u64,
        parent: Option<usize>,
        examples: Examples,
    },
    Tombstone {
        dataset: u64,
        version: usize,
    },
    Experiment {
        dataset: u64,
        version: usize,
    },
    Run {
        experiment: u64,
        example: usize,
    },
    Erase {
        tenant: usize,
    },
    Reopen,
}

const TENANTS: [&str; 3] = ["", "acme", "beta"];
const EXAMPLES: [&str; 3] = ["a", "b", "c"];

fn change() -> impl Strategy<Value = Change> {
    let example = (0..EXAMPLES.len(), 0u8..3);
    prop_oneof![
        2 => (0..TENANTS.len()).prop_map(|tenant| Change::Dataset { tenant }),
        5 => (1u64..5, proptest::option::of(0..3usize), proptest::collection::vec(example, 0..3))
            .prop_map(|(dataset, parent, examples)| Change::Version { dataset, parent, examples }),
        1 => (1u64..5, 0..3usize).prop_map(|(dataset, version)| Change::Tombstone { dataset, version }),
        3 => (1u64..5, 0..3usize).prop_map(|(dataset, version)| Change::Experiment { dataset, version }),
        3 => (1u64..5, 0..EXAMPLES.len()).prop_map(|(experiment, example)| Change::Run { experiment, example }),
        1 => (1..TENANTS.len()).prop_map(|tenant| Change::Erase { tenant }),
        1 => Just(Change::Reopen),
    ]
}

/// Which id, and which input.
type Examples = Vec<(usize, u8)>;

#[derive(Debug, Default)]
struct Model {
    datasets: Vec<(u64, usize)>,
    /// Dataset, name, examples.
    versions: Vec<(u64, String, Examples)>,
    tombstones: Vec<(u64, String)>,
    /// Number, dataset, version.
    experiments: Vec<(u64, u64, String)>,
    runs: Vec<(u64, usize)>,
    dataset_count: u64,
    experiment_count: u64,
}

impl Model {
    /// The name of the nth version of a dataset, or one that no version has.
    fn name(&self, dataset: u64, nth: usize) -> String {
        let mut versions = self.versions.iter().filter(|(of, ..)| *of == dataset);
        versions
            .nth(nth)
            .map_or_else(|| "none".to_owned(), |(_, name, _)| name.clone())
    }

    fn has(&self, dataset: u64, name: &str) -> bool {
        self.versions
            .iter()
            .any(|(of, known, _)| *of == dataset && known == name)
    }

    fn is_buried(&self, dataset: u64, name: &str) -> bool {
        self.tombstones.contains(&(dataset, name.to_owned()))
    }

    fn change(&mut self, evals: &mut Evals, change: Change) {
        match change {
            Change::Dataset { tenant } => {
                self.dataset_count += 1;
                let id = evals.create_dataset(TENANTS[tenant], "d", 1).unwrap();
                assert_eq!(id, self.dataset_count);
                self.datasets.push((id, tenant));
            }
            Change::Version {
                dataset,
                parent,
                mut examples,
            } => {
                let parent = parent.map(|nth| self.name(dataset, nth));
                let body = |(id, input): &(usize, u8)| example(EXAMPLES[*id], &input.to_string());
                let new: Vec<NewExample> = examples.iter().map(body).collect();
                let made =
                    evals.create_version(version(dataset, parent.as_deref(), &new), anything, 2);
                let twice = examples.len() == 2 && examples[0].0 == examples[1].0;
                let parent_usable = parent
                    .as_deref()
                    .is_none_or(|name| self.has(dataset, name) && !self.is_buried(dataset, name));
                let allowed = !examples.is_empty()
                    && !twice
                    && parent_usable
                    && self.datasets.iter().any(|(id, _)| *id == dataset);
                assert_eq!(made.is_ok(), allowed, "{made:?}");
                let Ok(made) = made else { return };
                examples.sort_unstable();
                assert_eq!(made.examples, examples.len());
                assert_eq!(made.created, !self.has(dataset, &made.version_id));
                if made.created {
                    self.versions.push((dataset, made.version_id, examples));
                }
            }
            Change::Tombstone { dataset, version } => {
                let name = self.name(dataset, version);
                let known = self.is_buried(dataset, &name);
                match evals.tombstone_version(dataset, &name, "", 3) {
                    Ok(already) => {
                        assert!(self.has(dataset, &name));
                        assert_eq!(already, known);
                        if !already {
                            self.tombstones.push((dataset, name));
                        }
                    }
                    Err(_) => assert!(!self.has(dataset, &name)),
                }
            }
            Change::Experiment { dataset, version } => {
                let name = self.name(dataset, version);
                let made = evals.create_experiment(dataset, &name, "", None, 4);
                let allowed = self.has(dataset, &name) && !self.is_buried(dataset, &name);
                assert_eq!(made.is_ok(), allowed, "{made:?}");
                if let Ok(id) = made {
                    self.experiment_count += 1;
                    assert_eq!(id, self.experiment_count);
                    self.experiments.push((id, dataset, name));
                }
            }
            Change::Run {
                experiment,
                example,
            } => {
                let over = self.experiments.iter().find(|(id, ..)| *id == experiment);
                let listed = over.is_some_and(|(_, dataset, name)| {
                    let found = self
                        .versions
                        .iter()
                        .find(|(of, known, _)| of == dataset && known == name);
                    found
                        .is_some_and(|(.., examples)| examples.iter().any(|(id, _)| *id == example))
                });
                match evals.add_run(experiment, EXAMPLES[example], "t", "", 5) {
                    Ok(()) => {
                        assert!(listed);
                        self.runs.push((experiment, example));
                    }
                    Err(EvalError::NoExperiment(_)) => assert!(over.is_none()),
                    Err(_) => assert!(over.is_some() && !listed),
                }
            }
            Change::Erase { tenant } => {
                evals.erase_tenant(TENANTS[tenant]).unwrap();
                self.datasets.retain(|(_, of)| *of != tenant);
                let datasets = &self.datasets;
                let is_left = |dataset: u64| datasets.iter().any(|(id, _)| *id == dataset);
                self.versions.retain(|(dataset, ..)| is_left(*dataset));
                self.tombstones.retain(|(dataset, _)| is_left(*dataset));
                self.experiments.retain(|(_, dataset, _)| is_left(*dataset));
                let experiments = &self.experiments;
                self.runs
                    .retain(|(of, _)| experiments.iter().any(|(id, ..)| id == of));
            }
            Change::Reopen => {}
        }
    }

    fn compare(&self, evals: &Evals) {
        let state = evals.state();
        let datasets: Vec<_> = state
            .datasets()
            .map(|d| (d.dataset_id, d.tenant.as_str()))
            .collect();
        let wanted: Vec<_> = self
            .datasets
            .iter()
            .map(|(id, tenant)| (*id, TENANTS[*tenant]))
            .collect();
        assert_eq!(datasets, wanted);
        for (dataset, _) in &self.datasets {
            let found: Vec<_> = state
                .versions(*dataset)
                .iter()
                .map(|v| v.version_id.as_str())
                .collect();
            let of_dataset = self.versions.iter().filter(|(of, ..)| of == dataset);
            assert_eq!(
                found,
                of_dataset
                    .map(|(_, name, _)| name.as_str())
                    .collect::<Vec<_>>()
            );
            for name in found {
                assert_eq!(
                    state.tombstone(*dataset, name).is_some(),
                    self.is_buried(*dataset, name)
                );
            }
        }
        for (dataset, name, examples) in &self.versions {
            let version = state.version(*dataset, name).unwrap();
            let found: Vec<_> = version
                .examples
                .iter()
                .map(|(id, digest)| {
                    (
                        id.as_str(),
                        state.example(digest).unwrap().input.to_string(),
                    )
                })
                .collect();
            let wanted: Vec<_> = examples
                .iter()
                .map(|(id, input)| (EXAMPLES[*id], input.to_string()))
                .collect();
            assert_eq!(found, wanted);
        }
        let experiments: Vec<_> = state
            .experiments()
            .map(|e| (e.experiment_id, e.dataset_id, e.dataset_version.clone()))
            .collect();
        assert_eq!(experiments, self.experiments);
        for (experiment, ..) in &self.experiments {
            let found = state
                .runs(*experiment)
                .iter()
                .map(|run| run.example_id.as_str());
            let wanted = self
                .runs
                .iter()
                .filter(|(of, _)| of == experiment)
                .map(|(_, id)| EXAMPLES[*id]);
            assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
        }
        assert_eq!(state.counters().dataset_highest, self.dataset_count);
        assert_eq!(state.counters().experiment_highest, self.experiment_count);
        assert_eq!(state.misnamed().count(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_changes_do_what_plain_lists_do(changes in proptest::collection::vec(change(), 1..40)) {
        let fs = durable_sim::SimFs::new();
        let mut evals = open(&fs).unwrap();
        let mut model = Model::default();
        for change in changes {
            if matches!(change, Change::Reopen) {
                let before = evals.state().clone();
                drop(evals);
                evals = open(&fs).unwrap();
                prop_assert_eq!(evals.state(), &before);
            }
            model.change(&mut evals, change);
            model.compare(&evals);
        }
    }
}
