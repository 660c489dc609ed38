//! The trial that everybody runs: three parameters, three reports and one value, without an objective.

use std::path::Path;

use atune_core::lifecycle::{FencedMutation, Outcome};
use atune_core::number::JsonF64;
use atune_core::outbox::Intent;
use atune_core::replica::Replica;
use atune_core::space::{Distribution, FloatRange, Param, ParamValue};
use atune_core::storage::journal::record::{LifecycleFenced, LifecycleTerminal, Op};
use atune_core::storage::journal::{Durability, JournalOptions, JournalStorage};
use atune_core::storage::{Plan, Storage, conformance::example_config};
use atune_core::trial::{Direction, StudyId, TrialState, WorkerId};

use crate::Result;
use crate::machine::{now_millis, now_ns};
use crate::stats::{Numbers, float};

/// The only study of every file.
pub(crate) const STUDY: StudyId = StudyId(0);

/// Creates a file with one study without trials.
pub(crate) fn create(path: &Path, durability: Durability) -> Result<JournalStorage> {
    let options = JournalOptions {
        durability,
        ..JournalOptions::default()
    };
    let store = JournalStorage::create(path, options)?;
    store.create_study(&example_config("bench", &[Direction::Minimize]))?;
    Ok(store)
}

/// Runs trials for one worker, and keeps how long each commit took.
#[derive(Debug)]
pub(crate) struct Runner<'a> {
    store: &'a JournalStorage,
    worker: WorkerId,
    numbers: Numbers,
    pub(crate) commit_micros: Vec<f64>,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(store: &'a JournalStorage, worker: u64) -> Self {
        Self {
            store,
            worker: WorkerId(worker),
            numbers: Numbers::from_seed(worker + 1),
            commit_micros: Vec::new(),
        }
    }

    fn params(&mut self) -> Vec<Param> {
        let unit = || {
            Distribution::Float(FloatRange {
                low: JsonF64(-1.0),
                high: JsonF64(1.0),
                log: false,
                step: None,
            })
        };
        let param = |name: &str| Param {
            name: name.to_owned(),
            dist: unit(),
            value: ParamValue::F64(JsonF64(self.numbers.unit())),
        };
        ["x0", "x1", "x2"].map(param).to_vec()
    }

    fn commit<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = now_ns();
        let done = work()?;
        self.commit_micros.push(float(now_ns() - start) / 1e3);
        Ok(done)
    }

    /// A trial under the lifecycle: two commits.
    pub(crate) fn managed(&mut self) -> Result<()> {
        let (store, worker) = (self.store, self.worker);
        let params = self.params();
        let value = JsonF64(self.numbers.unit());
        let fence =
            self.commit(|| Ok(store.start(STUDY, None, worker, now_millis(), &params)?))?;
        let (trial, epoch) = (fence.trial, fence.epoch);
        let report = |step| {
            move |_: &Replica| {
                let values = vec![value];
                Ok(Op::from(LifecycleFenced {
                    trial,
                    worker,
                    epoch,
                    mutation: FencedMutation::Report { step, values },
                }))
            }
        };
        let [mut first, mut second, mut third] = [0, 1, 2].map(report);
        let mut end = |_: &Replica| {
            Ok(Op::from(LifecycleTerminal {
                trial,
                worker,
                epoch,
                outcome: Outcome::complete(vec![value]),
                intent: Some(Intent::default()),
            }))
        };
        let mut plans: [&mut Plan<'_>; 4] = [&mut first, &mut second, &mut third, &mut end];
        for answer in self.commit(|| Ok(store.commit_batch(&mut plans)?))? {
            answer?;
        }
        Ok(())
    }

    /// A trial of single operations: eight commits.
    pub(crate) fn raw(&mut self) -> Result<()> {
        let store = self.store;
        let params = self.params();
        let values = [JsonF64(self.numbers.unit())];
        let trial = self.commit(|| Ok(store.create_trial(STUDY, None)?))?;
        let (waiting, running) = (TrialState::Waiting, TrialState::Running);
        self.commit(|| Ok(store.transition(trial, waiting, running)?))?;
        self.commit(|| Ok(store.params_batch(trial, &params)?))?;
        for step in 0..3 {
            self.commit(|| Ok(store.report(trial, step, &values)?))?;
        }
        self.commit(|| Ok(store.set_values(trial, &values)?))?;
        self.commit(|| Ok(store.transition(trial, running, TrialState::Complete)?))
    }
}
