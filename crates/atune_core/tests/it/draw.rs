//! Random sequences of operations, drawn so that most of them fit the state they meet.

use std::collections::BTreeMap;

use atune_core::lifecycle::{FencedMutation, Outcome};
use atune_core::number::JsonF64;
use atune_core::outbox::{Attempt, Effect, EffectKey, Intent, OutboxKey, Phase};
use atune_core::replica::{Replica, Trial};
use atune_core::space::{
    Categories, Choice, ChoiceList, ChoiceValue, Distribution, Param, Template,
};
use atune_core::storage::conformance::{example_config, example_param};
use atune_core::storage::journal::record::{
    CreateStudy, CreateTrial, Heartbeat, LifecycleAbandon, LifecycleClaim, LifecycleFailStale,
    LifecycleFenced, LifecycleFinalizedState, LifecycleRenew, LifecycleReserve, LifecycleTerminal,
    Op, OutboxAdvance, OutboxEffectComplete, OutboxReplacement, ParamsBatch, PutState, Report,
    SetError, SetStudyUserAttr, SetTrialUserAttr, SetValues, Transition,
};
use atune_core::trial::{
    Direction, ScopedBlob, SpaceEntry, StateBlob, StateScope, StudyId, TrialId, TrialState,
    WorkerId,
};
use serde_json::Value;

use crate::random::Random;

/// Draws operations that the state mostly allows; now and then one number is wrong.
pub(crate) struct Draw<'a> {
    pub(crate) r: &'a mut Random,
    pub(crate) replica: &'a Replica,
}

impl Draw<'_> {
    fn is_rare(&mut self) -> bool {
        self.r.below(12) == 0
    }

    /// The number, or now and then one beside it.
    fn near(&mut self, number: u64) -> u64 {
        if self.is_rare() {
            number.wrapping_add(self.r.pick(&[1, u64::MAX])) & 0xff
        } else {
            number
        }
    }

    fn study(&mut self) -> StudyId {
        let study = self.r.below(2);
        StudyId(self.near(study))
    }

    /// A trial, rarely one that does not exist.
    fn trial(&mut self) -> Option<Trial> {
        let id = self.r.below(self.replica.trials().len() as u64 + 1);
        self.replica.trial(TrialId(id)).ok().cloned()
    }

    fn next_trial(&mut self, study: StudyId) -> (TrialId, u64) {
        let (trial, number) = self.replica.next_trial(study).unwrap_or((TrialId(0), 0));
        (TrialId(self.near(trial.0)), self.near(number))
    }

    fn template(&mut self) -> Option<Template> {
        let parent = Some(TrialId(self.r.below(6)));
        let fixed = BTreeMap::new();
        self.is_rare().then_some(Template { fixed, parent })
    }

    fn values(&mut self, study: StudyId) -> Vec<JsonF64> {
        let directions = self
            .replica
            .study(study)
            .map_or(1, |s| s.config.directions.len());
        let count = self.near(directions as u64).min(3);
        (0..count)
            .map(|_| {
                let values = [0.5, -1.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
                JsonF64(self.r.pick(&values))
            })
            .collect()
    }

    fn params(&mut self) -> Vec<Param> {
        let value = if self.is_rare() { 2.0 } else { 0.5 };
        let names = ["x", "y", "z", "u", "v", "w"];
        let count = self.r.below(3);
        (0..count)
            .map(|_| example_param(self.r.pick(&names), value))
            .collect()
    }

    /// Parameters known beforehand; now and then a name stands twice, or a list has another version.
    fn space(&mut self) -> Vec<SpaceEntry> {
        let names = ["x", "y", "z", "u", "v", "w"];
        let count = usize::try_from(self.r.below(4)).unwrap();
        (0..count)
            .map(|at| {
                let name = if self.is_rare() { "x" } else { names[at] };
                let version = if self.is_rare() { 2 } else { 1 };
                let choice = |label: &str| Choice {
                    label: label.to_owned(),
                    value: ChoiceValue {
                        value_type: "string".to_owned(),
                        value: label.into(),
                    },
                };
                let choices = vec![choice("adam"), choice("sgd")];
                let choices = ChoiceList { version, choices };
                SpaceEntry {
                    name: name.to_owned(),
                    dist: Distribution::Cat(Categories { choices }),
                }
            })
            .collect()
    }

    fn key(&mut self) -> String {
        if self.is_rare() {
            "atune:x".to_owned()
        } else {
            self.r.pick(&["a", "b", "atune"]).to_owned()
        }
    }

    fn blob(&mut self) -> StateBlob {
        let data = Value::from(self.r.below(100));
        StateBlob {
            kind: "b".to_owned(),
            version: 1,
            data,
        }
    }

    fn scope(&mut self, trial: TrialId) -> StateScope {
        let trial = TrialId(self.near(trial.0));
        let scopes = [
            StateScope::TrialSampler(trial),
            StateScope::TrialScheduler(trial),
            StateScope::TrialUser(trial),
        ];
        if self.is_rare() {
            StateScope::Sampler(StudyId(0))
        } else {
            self.r.pick(&scopes)
        }
    }

    fn scoped(&mut self, trial: TrialId) -> Option<ScopedBlob> {
        let (scope, blob) = (self.scope(trial), self.blob());
        self.r.coin().then_some(ScopedBlob { scope, blob })
    }

    fn intent(&mut self) -> Option<Intent> {
        (!self.is_rare()).then(Intent::default)
    }

    fn state(&mut self, is: TrialState) -> TrialState {
        use TrialState::{Complete, Failed, Paused, Pruned, Running, Waiting};
        if self.is_rare() {
            self.r
                .pick(&[Waiting, Running, Paused, Complete, Pruned, Failed])
        } else {
            is
        }
    }

    pub(crate) fn op(&mut self) -> Op {
        if self.replica.studies().len() < 2 || self.r.below(60) == 0 {
            let next = self.replica.studies().len() as u64;
            let name = self.r.pick(&["one", "two", "three", "one", ""]);
            let directions = [Direction::Minimize, Direction::Maximize];
            let count = usize::try_from(self.r.below(6).min(2)).unwrap();
            let mut config = example_config(name, &directions[..count]);
            config.space = self.r.coin().then(|| self.space());
            return CreateStudy {
                study: StudyId(self.near(next)),
                config,
            }
            .into();
        }
        match self.r.below(10) {
            0 => self.new_trial(),
            1 | 2 => self.raw_op(),
            3 | 4 => self.outbox_op(),
            _ => self.managed_op(),
        }
    }

    fn new_trial(&mut self) -> Op {
        let study = self.study();
        let (trial, number) = self.next_trial(study);
        let template = self.template();
        if self.r.below(3) == 0 {
            return CreateTrial {
                study,
                trial,
                number,
                template,
            }
            .into();
        }
        let managed = !self.is_rare();
        LifecycleReserve {
            study,
            trial,
            number,
            template,
            managed,
        }
        .into()
    }

    fn raw_op(&mut self) -> Op {
        let raw: Vec<Trial> = self
            .replica
            .trials()
            .iter()
            .filter(|t| !t.managed)
            .cloned()
            .collect();
        let chosen = if raw.is_empty() || self.is_rare() {
            self.trial()
        } else {
            Some(self.r.pick(&raw))
        };
        let (trial, study, is) = chosen
            .map_or((TrialId(99), StudyId(0), TrialState::Waiting), |t| {
                (t.id, t.study, t.state)
            });
        let value = Value::from(self.r.below(9));
        match self.r.below(10) {
            0..3 => {
                use TrialState::{Complete, Failed, Pruned, Running, Waiting};
                let to = self
                    .r
                    .pick(&[Running, Running, Complete, Pruned, Failed, Waiting]);
                Transition {
                    trial,
                    from: self.state(is),
                    to,
                }
                .into()
            }
            3 => ParamsBatch {
                trial,
                params: self.params(),
            }
            .into(),
            4 => Report {
                trial,
                step: self.r.below(9),
                values: self.values(study),
            }
            .into(),
            5 => SetValues {
                trial,
                values: self.values(study),
            }
            .into(),
            6 => SetError {
                trial,
                message: "m".to_owned(),
            }
            .into(),
            7 => Heartbeat {
                trial,
                at_millis: self.r.below(99),
            }
            .into(),
            8 if self.r.coin() => SetStudyUserAttr {
                study: self.study(),
                key: self.key(),
                value,
            }
            .into(),
            8 => SetTrialUserAttr {
                trial,
                key: self.key(),
                value,
            }
            .into(),
            _ => PutState {
                scope: self.scope(trial),
                blob: self.blob(),
            }
            .into(),
        }
    }

    fn managed_op(&mut self) -> Op {
        let Some(at) = self.trial() else {
            return LifecycleAbandon {
                trial: TrialId(99),
                reason: "r".to_owned(),
            }
            .into();
        };
        let trial = at.id;
        let epoch = self.near(at.epoch);
        let worker = WorkerId(self.near(at.owner.map_or(1, |w| w.0)));
        let heartbeat_seq = self.near(at.heartbeat_seq + 1);
        let heartbeat_millis = self.r.below(100);
        match (at.state, self.r.below(12)) {
            (TrialState::Waiting, 0) | (_, 1) => LifecycleAbandon {
                trial,
                reason: "r".to_owned(),
            }
            .into(),
            (TrialState::Waiting | TrialState::Paused, _) | (_, 2) => LifecycleClaim {
                trial,
                from: self.state(at.state),
                worker: WorkerId(self.r.below(3)),
                heartbeat_millis,
                epoch: self.near(at.epoch + 1),
                heartbeat_seq,
                params: self.params(),
                state: self.scoped(trial),
            }
            .into(),
            (_, 3) => LifecycleRenew {
                trial,
                worker,
                epoch,
                heartbeat_millis,
                heartbeat_seq,
            }
            .into(),
            (_, 4) => LifecycleFailStale {
                trial,
                observed_state: self.state(at.state),
                owner: at.owner.map(|_| worker),
                epoch,
                heartbeat_millis: at.heartbeat_millis,
                heartbeat_seq: self.near(at.heartbeat_seq),
                now_millis: at.heartbeat_millis.unwrap_or(0) + self.r.below(30),
                grace_millis: 10,
                reason: "stale".to_owned(),
                intent: self.intent(),
            }
            .into(),
            (_, 5 | 6) => LifecycleFinalizedState {
                trial,
                scope: self.scope(trial),
                blob: self.blob(),
            }
            .into(),
            (_, 7 | 8) => {
                let mut outcome = match self.r.below(3) {
                    0 => Outcome::complete(self.values(at.study)),
                    1 => Outcome::pruned(None),
                    _ => Outcome::failed("boom"),
                };
                outcome.state = self.state(outcome.state);
                outcome.blob = self.scoped(trial);
                LifecycleTerminal {
                    trial,
                    worker,
                    epoch,
                    outcome,
                    intent: self.intent(),
                }
                .into()
            }
            _ => {
                let mutation = match self.r.below(5) {
                    0 => FencedMutation::ParamsBatch {
                        params: self.params(),
                    },
                    1 => FencedMutation::Report {
                        step: self.r.below(9),
                        values: self.values(at.study),
                    },
                    2 => FencedMutation::SetUserAttr {
                        key: self.key(),
                        value: Value::from(1),
                    },
                    3 => FencedMutation::PutState {
                        scope: self.scope(trial),
                        blob: self.blob(),
                    },
                    _ => FencedMutation::Pause {
                        state: self.scoped(trial),
                    },
                };
                LifecycleFenced {
                    trial,
                    worker,
                    epoch,
                    mutation,
                }
                .into()
            }
        }
    }

    fn outbox_op(&mut self) -> Op {
        let keys: Vec<OutboxKey> = self.replica.outboxes().map(|(key, _)| key).collect();
        if keys.is_empty() {
            return self.managed_op();
        }
        let OutboxKey { trial, epoch } = self.r.pick(&keys);
        let key = OutboxKey {
            trial,
            epoch: self.near(epoch),
        };
        let outbox = self.replica.outbox(OutboxKey { trial, epoch }).unwrap();
        let study = self.replica.trial(trial).unwrap().study;
        if outbox.phase != Phase::Effects || self.r.below(4) == 0 {
            let effects = [
                Effect::Callback {
                    name: "n".to_owned(),
                    payload: Value::Null,
                },
                Effect::Retry {},
                Effect::Exploit {
                    source: TrialId(self.near(trial.0)),
                    params: BTreeMap::new(),
                },
            ];
            let count = if outbox.phase == Phase::Effects {
                0
            } else {
                self.r.below(3)
            };
            let effects = (0..count).map(|_| self.r.pick(&effects)).collect();
            let phase = self.r.pick(&[
                Phase::Scheduler,
                Phase::Effects,
                Phase::Effects,
                Phase::Done,
            ]);
            let states = (self.blob(), self.blob());
            let (sampler_state, scheduler_state) = (
                self.r.coin().then_some(states.0),
                self.r.coin().then_some(states.1),
            );
            return OutboxAdvance {
                key,
                phase,
                sampler_state,
                scheduler_state,
                effects,
            }
            .into();
        }
        let index = self.r.below(outbox.effects.len() as u64 + 1);
        let effect = EffectKey {
            trial: key.trial,
            epoch: key.epoch,
            index,
        };
        if self.r.below(3) == 0 {
            return OutboxEffectComplete { key: effect }.into();
        }
        let (new, number) = self.next_trial(study);
        let is_retry = outbox
            .open_effects()
            .any(|(i, e)| i == index && matches!(e, Effect::Retry {}));
        let retry_of = (is_retry != self.is_rare()).then_some(TrialId(self.near(trial.0)));
        let attempt = Attempt {
            number: u32::from(!self.is_rare()),
            max: 2,
        };
        OutboxReplacement {
            effect,
            study,
            trial: new,
            number,
            template: self.template(),
            attempt,
            retry_of,
        }
        .into()
    }
}
