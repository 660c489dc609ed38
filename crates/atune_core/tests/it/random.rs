//! Random operations from a seed.

use atune_core::lifecycle::{FencedMutation, Outcome};
use atune_core::number::JsonF64;
use atune_core::outbox::{Attempt, Effect, EffectKey, Intent, OutboxKey, Phase};
use atune_core::space::{
    Categories, Choice, ChoiceList, ChoiceValue, Distribution, FloatRange, IntRange, Param,
    ParamValue, Template,
};
use atune_core::storage::journal::record::{
    CreateStudy, CreateTrial, Heartbeat, LifecycleAbandon, LifecycleClaim, LifecycleFailStale,
    LifecycleFenced, LifecycleFinalizedState, LifecycleRenew, LifecycleReserve, LifecycleTerminal,
    Op, OutboxAdvance, OutboxEffectComplete, OutboxReplacement, ParamsBatch, PutState, Report,
    SetError, SetStudyUserAttr, SetTrialUserAttr, SetValues, Transition,
};
use atune_core::trial::{
    Direction, ResourceUnit, ScopedBlob, SpaceEntry, StateBlob, StateScope, StudyConfig, StudyId,
    TrialId, TrialState, WorkerId,
};
use serde_json::{Value, json};

/// A stream of numbers that its seed decides (splitmix64).
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        let at = self.below(items.len() as u64);
        items[usize::try_from(at).unwrap()].clone()
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.coin().then(|| make(self))
    }

    fn list<T>(&mut self, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(4)).map(|_| make(self)).collect()
    }

    /// Any integer, the ends of the range among them.
    fn number(&mut self) -> u64 {
        let any = self.next();
        self.pick(&[0, 1, 7, any >> 40, any, u64::MAX])
    }

    fn signed(&mut self) -> i64 {
        let any = self.next().cast_signed();
        self.pick(&[0, -1, any, i64::MIN, i64::MAX])
    }

    fn small(&mut self) -> u32 {
        u32::try_from(self.next() >> 32).unwrap()
    }

    fn float(&mut self) -> JsonF64 {
        let any = f64::from_bits(self.next());
        JsonF64(self.pick(&[
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -0.0,
            0.0,
            0.1,
            100.0,
            5e-324,
            f64::MIN_POSITIVE,
            f64::MAX,
            f64::MIN,
            any,
            any,
        ]))
    }

    fn text(&mut self) -> String {
        let texts = [
            "",
            "loss",
            "größer",
            "\u{1f4d3}",
            "\"\\\n\0\u{7f}",
            "kind",
            "a\u{2028}b",
        ];
        let (one, two) = (self.pick(&texts), self.pick(&texts));
        format!("{one}{two}")
    }

    /// A JSON value with objects and lists in it.
    fn value(&mut self, depth: u32) -> Value {
        let finite = f64::from_bits(self.next());
        match self.below(if depth == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.coin()),
            2 => json!(self.number()),
            3 => json!(self.signed()),
            4 => json!(if finite.is_finite() { finite } else { 1e300 }),
            5 => json!(self.text()),
            6 => Value::from(self.list(|r| r.value(depth - 1))),
            _ => self
                .list(|r| (r.text(), r.value(depth - 1)))
                .into_iter()
                .collect(),
        }
    }

    fn study(&mut self) -> StudyId {
        StudyId(self.number())
    }

    fn trial(&mut self) -> TrialId {
        TrialId(self.number())
    }

    fn worker(&mut self) -> WorkerId {
        WorkerId(self.number())
    }

    fn state(&mut self) -> TrialState {
        use TrialState::{Complete, Failed, Paused, Pruned, Running, Waiting};
        self.pick(&[Waiting, Running, Paused, Complete, Pruned, Failed])
    }

    fn param_value(&mut self) -> ParamValue {
        match self.below(4) {
            0 => ParamValue::F64(self.float()),
            1 => ParamValue::I64(self.signed()),
            2 => ParamValue::Bool(self.coin()),
            _ => ParamValue::Cat(self.small()),
        }
    }

    fn dist(&mut self) -> Distribution {
        match self.below(4) {
            0 => Distribution::Float(FloatRange {
                low: self.float(),
                high: self.float(),
                log: self.coin(),
                step: self.maybe(Self::float),
            }),
            1 => Distribution::Int(IntRange {
                low: self.signed(),
                high: self.signed(),
                log: self.coin(),
                step: self.maybe(Self::signed),
            }),
            2 => Distribution::Bool,
            _ => {
                let choices = self.list(|r| Choice {
                    label: r.text(),
                    value: ChoiceValue {
                        value_type: r.text(),
                        value: r.value(2),
                    },
                });
                let choices = ChoiceList {
                    version: 1,
                    choices,
                };
                Distribution::Cat(Categories { choices })
            }
        }
    }

    fn param(&mut self) -> Param {
        let (name, dist, value) = (self.text(), self.dist(), self.param_value());
        Param { name, dist, value }
    }

    fn template(&mut self) -> Template {
        let fixed = self.list(|r| (r.text(), r.param_value()));
        Template {
            fixed: fixed.into_iter().collect(),
            parent: self.maybe(Self::trial),
        }
    }

    fn scope(&mut self) -> StateScope {
        match self.below(5) {
            0 => StateScope::Sampler(self.study()),
            1 => StateScope::Scheduler(self.study()),
            2 => StateScope::TrialSampler(self.trial()),
            3 => StateScope::TrialScheduler(self.trial()),
            _ => StateScope::TrialUser(self.trial()),
        }
    }

    fn blob(&mut self) -> StateBlob {
        let (kind, version, data) = (self.text(), self.small(), self.value(3));
        StateBlob {
            kind,
            version,
            data,
        }
    }

    fn scoped(&mut self) -> ScopedBlob {
        let (scope, blob) = (self.scope(), self.blob());
        ScopedBlob { scope, blob }
    }

    fn intent(&mut self) -> Intent {
        Intent {
            sampler: self.coin(),
            scheduler: self.coin(),
            callbacks: self.list(Self::text),
        }
    }

    fn outbox_key(&mut self) -> OutboxKey {
        let (trial, epoch) = (self.trial(), self.number());
        OutboxKey { trial, epoch }
    }

    fn effect_key(&mut self) -> EffectKey {
        let (trial, epoch, index) = (self.trial(), self.number(), self.number());
        EffectKey {
            trial,
            epoch,
            index,
        }
    }

    fn effect(&mut self) -> Effect {
        match self.below(4) {
            0 => Effect::Callback {
                name: self.text(),
                payload: self.value(3),
            },
            1 => Effect::Retry {},
            2 => Effect::Exploit {
                source: self.trial(),
                params: self.template().fixed,
            },
            _ => Effect::StopStudy {
                reason: self.text(),
            },
        }
    }

    fn mutation(&mut self) -> FencedMutation {
        match self.below(5) {
            0 => FencedMutation::ParamsBatch {
                params: self.list(Self::param),
            },
            1 => FencedMutation::Report {
                step: self.number(),
                values: self.list(Self::float),
            },
            2 => FencedMutation::SetUserAttr {
                key: self.text(),
                value: self.value(3),
            },
            3 => FencedMutation::PutState {
                scope: self.scope(),
                blob: self.blob(),
            },
            _ => FencedMutation::Pause {
                state: self.maybe(Self::scoped),
            },
        }
    }

    fn outcome(&mut self) -> Outcome {
        let mut outcome = match self.below(3) {
            0 => Outcome::complete(self.list(Self::float)),
            1 => Outcome::pruned(self.maybe(|r| r.list(Self::float))),
            _ => Outcome::failed(self.text()),
        };
        outcome.blob = self.maybe(Self::scoped);
        outcome
    }

    fn config(&mut self) -> StudyConfig {
        use ResourceUnit::{Epochs, Samples, Seconds, Steps};
        StudyConfig {
            name: self.text(),
            directions: self.list(|r| r.pick(&[Direction::Minimize, Direction::Maximize])),
            seed: self.number(),
            space: self.maybe(|r| {
                r.list(|r| {
                    let (name, dist) = (r.text(), r.dist());
                    SpaceEntry { name, dist }
                })
            }),
            resource_unit: self.pick(&[Steps, Epochs, Seconds, Samples]),
            metric_names: self.list(Self::text),
        }
    }

    /// An operation with any contents, legal or not. `kind` counts through the 22 kinds.
    #[rustfmt::skip]
    pub(crate) fn op(&mut self, kind: usize) -> Op {
        let r = self;
        match kind {
            0 => CreateStudy { study: r.study(), config: r.config() }.into(),
            1 => CreateTrial { study: r.study(), trial: r.trial(), number: r.number(), template: r.maybe(Self::template) }.into(),
            2 => Transition { trial: r.trial(), from: r.state(), to: r.state() }.into(),
            3 => ParamsBatch { trial: r.trial(), params: r.list(Self::param) }.into(),
            4 => Report { trial: r.trial(), step: r.number(), values: r.list(Self::float) }.into(),
            5 => SetValues { trial: r.trial(), values: r.list(Self::float) }.into(),
            6 => SetError { trial: r.trial(), message: r.text() }.into(),
            7 => Heartbeat { trial: r.trial(), at_millis: r.number() }.into(),
            8 => SetStudyUserAttr { study: r.study(), key: r.text(), value: r.value(4) }.into(),
            9 => SetTrialUserAttr { trial: r.trial(), key: r.text(), value: r.value(4) }.into(),
            10 => PutState { scope: r.scope(), blob: r.blob() }.into(),
            11 => LifecycleReserve { study: r.study(), trial: r.trial(), number: r.number(), template: r.maybe(Self::template), managed: true }.into(),
            12 => LifecycleAbandon { trial: r.trial(), reason: r.text() }.into(),
            13 => LifecycleClaim {
                trial: r.trial(), from: r.state(), worker: r.worker(), heartbeat_millis: r.number(), epoch: r.number(),
                heartbeat_seq: r.number(), params: r.list(Self::param), state: r.maybe(Self::scoped),
            }.into(),
            14 => LifecycleRenew {
                trial: r.trial(), worker: r.worker(), epoch: r.number(), heartbeat_millis: r.number(), heartbeat_seq: r.number(),
            }.into(),
            15 => LifecycleFailStale {
                trial: r.trial(), observed_state: r.state(), owner: r.maybe(Self::worker), epoch: r.number(),
                heartbeat_millis: r.maybe(Self::number), heartbeat_seq: r.number(), now_millis: r.number(),
                grace_millis: r.number(), reason: r.text(), intent: r.maybe(Self::intent),
            }.into(),
            16 => LifecycleFenced { trial: r.trial(), worker: r.worker(), epoch: r.number(), mutation: r.mutation() }.into(),
            17 => LifecycleTerminal {
                trial: r.trial(), worker: r.worker(), epoch: r.number(), outcome: r.outcome(), intent: r.maybe(Self::intent),
            }.into(),
            18 => OutboxAdvance {
                key: r.outbox_key(), phase: r.pick(&[Phase::Sampler, Phase::Scheduler, Phase::Effects, Phase::Done]),
                sampler_state: r.maybe(Self::blob), scheduler_state: r.maybe(Self::blob), effects: r.list(Self::effect),
            }.into(),
            19 => OutboxEffectComplete { key: r.effect_key() }.into(),
            20 => OutboxReplacement {
                effect: r.effect_key(), study: r.study(), trial: r.trial(), number: r.number(),
                template: r.maybe(Self::template), attempt: Attempt { number: r.small(), max: r.small() },
                retry_of: r.maybe(Self::trial),
            }.into(),
            _ => LifecycleFinalizedState { trial: r.trial(), scope: r.scope(), blob: r.blob() }.into(),
        }
    }
}
