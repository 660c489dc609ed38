//! Studies for the tests of schedulers: trials with curves, built by the operations that build real ones.

use std::sync::Arc;

use super::{Decision, Scheduler, SchedulerView};
use crate::number::JsonF64;
use crate::replica::{Replica, Trial, Values};
use crate::space::Param;
use crate::storage::conformance::example_config;
use crate::storage::{MemoryStorage, Storage as _};
use crate::study::History;
use crate::trial::{Direction, StudyConfig, StudyId, TrialState, WorkerId};

/// How a trial of a scene ended, or that it did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Complete,
    Pruned,
    Failed,
    Running,
}

#[derive(Debug)]
pub(super) struct Scene {
    pub(super) config: StudyConfig,
    storage: MemoryStorage,
    study: StudyId,
}

impl Scene {
    pub(super) fn new(direction: Direction) -> Self {
        let clock = Arc::new(durable::ManualClock::new(0, 0));
        let storage = MemoryStorage::new(clock, WorkerId(0));
        let config = example_config("scene", &[direction]);
        let study = storage.create_study(&config).unwrap();
        Self {
            config,
            storage,
            study,
        }
    }

    /// A trial that reported this curve. A complete one has its last value.
    pub(super) fn trial(&mut self, ended: Ended, curve: &[(u64, f64)]) -> Trial {
        self.trial_with(ended, curve, &[])
    }

    pub(super) fn trial_with(
        &mut self,
        ended: Ended,
        curve: &[(u64, f64)],
        params: &[Param],
    ) -> Trial {
        let storage = &self.storage;
        let trial = storage.create_trial(self.study, None).unwrap();
        let to = |from, to| storage.transition(trial, from, to).unwrap();
        to(TrialState::Waiting, TrialState::Running);
        storage.params_batch(trial, params).unwrap();
        for (step, value) in curve {
            storage.report(trial, *step, &[JsonF64(*value)]).unwrap();
        }
        match ended {
            Ended::Complete => {
                let last = curve.last().map_or(0.0, |(_, value)| *value);
                storage.set_values(trial, &[JsonF64(last)]).unwrap();
                to(TrialState::Running, TrialState::Complete);
            }
            Ended::Pruned => to(TrialState::Running, TrialState::Pruned),
            Ended::Failed => to(TrialState::Running, TrialState::Failed),
            Ended::Running => {}
        }
        storage.trial(trial).unwrap()
    }

    pub(super) fn history(&self) -> History {
        let mut history = History::new(self.study, &self.config);
        let mut changes = None;
        self.storage
            .read(&mut |replica: &Replica| changes = Some(history.changes(replica)))
            .unwrap();
        history.take(changes.unwrap());
        history
    }
}

/// Asks for a trial that is not in the scene.
pub(super) fn ask(scheduler: &dyn Scheduler, scene: &Scene, reports: &[(u64, f64)]) -> Decision {
    ask_as(scheduler, scene, u64::MAX, reports)
}

/// Asks for the trial with this number.
pub(super) fn ask_as(
    scheduler: &dyn Scheduler,
    scene: &Scene,
    number: u64,
    reports: &[(u64, f64)],
) -> Decision {
    let values = |value: f64| Values::from(&[JsonF64(value)][..]);
    let reports: Vec<_> = reports
        .iter()
        .map(|(step, value)| (*step, values(*value)))
        .collect();
    scheduler.decide(&SchedulerView {
        config: &scene.config,
        number,
        history: &scene.history(),
        reports: &reports,
        state: None,
        budget: None,
    })
}
