//! Why an operation is refused.

use crate::outbox::{EffectKey, OutboxKey, Phase};
use crate::space::SpaceFault;
use crate::trial::{StateScope, StudyId, TrialId, TrialState, WorkerId};

/// Why the state machine refuses an operation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A record, or the records of one call together, that are longer than the journal takes.
    #[error("{what} of {len} bytes; the journal takes {max}, which can be configured")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The cap.
        max: usize,
    },
    /// A record of the history is missing or stands twice.
    #[error("sequence number {found} where {expected} is next")]
    WrongSeq {
        /// The next number.
        expected: u64,
        /// The number of the record.
        found: u64,
    },
    /// No study has this identity.
    #[error("no study {0}")]
    UnknownStudy(StudyId),
    /// No trial has this identity.
    #[error("no trial {0}")]
    UnknownTrial(TrialId),
    /// An identity or ordinal is not the next one.
    #[error("{what} {found} where {expected} is next")]
    WrongIdentity {
        /// `study`, `trial` or `trial number`.
        what: &'static str,
        /// The next one.
        expected: u64,
        /// The one in the record.
        found: u64,
    },
    /// A study of this name exists.
    #[error("a study named {0:?} exists")]
    NameTaken(String),
    /// A study without a name or without directions, or with another number of metric names.
    #[error("{0}")]
    BadConfig(&'static str),
    /// The trial is in another state than the operation says.
    #[error("trial {trial} is {found:?}, not {expected:?}")]
    WrongFrom {
        /// The trial.
        trial: TrialId,
        /// What the operation says.
        expected: TrialState,
        /// What it is.
        found: TrialState,
    },
    /// The state machine has no such move.
    #[error("a trial cannot go from {from:?} to {to:?}")]
    ForbiddenMove {
        /// The state it is in.
        from: TrialState,
        /// The state it should go to.
        to: TrialState,
    },
    /// A raw operation on a trial that the lifecycle manages.
    #[error("trial {0} is managed; only lifecycle operations may change it")]
    Managed(TrialId),
    /// A lifecycle operation on a raw trial.
    #[error("trial {0} is not managed")]
    NotManaged(TrialId),
    /// The trial has ended.
    #[error("trial {0} has ended")]
    Ended(TrialId),
    /// The trial has not ended.
    #[error("trial {0} has not ended")]
    NotEnded(TrialId),
    /// The number of values is not the number of directions.
    #[error("{found} values for {expected} directions")]
    ValueCount {
        /// The study's directions.
        expected: usize,
        /// The values in the record.
        found: usize,
    },
    /// A parameter that the trial has already, or twice in one batch.
    #[error("parameter {0:?} is set already")]
    ParamTaken(String),
    /// A parameter that does not belong to its distribution.
    #[error("parameter {name:?}: {fault}")]
    BadParam {
        /// The parameter.
        name: String,
        /// Why.
        fault: SpaceFault,
    },
    /// The `atune:` namespace of attributes is reserved.
    #[error("attribute key {0:?} is in the reserved namespace atune:")]
    ReservedKey(String),
    /// The state blob belongs to something else.
    #[error("state scope {0:?} does not belong here")]
    WrongScope(StateScope),
    /// The worker does not own the trial.
    #[error("trial {trial} is owned by {owner:?}, not by worker {found}")]
    WrongWorker {
        /// The trial.
        trial: TrialId,
        /// Its owner.
        owner: Option<WorkerId>,
        /// The worker in the record.
        found: WorkerId,
    },
    /// The ownership epoch is another one: the owner lost the trial.
    #[error("trial {trial} is in epoch {current}, not {found}")]
    WrongEpoch {
        /// The trial.
        trial: TrialId,
        /// Its epoch (or the next one, for a claim).
        current: u64,
        /// The epoch in the record.
        found: u64,
    },
    /// The heartbeat sequence must rise by one.
    #[error("heartbeat sequence {found} where {expected} is next")]
    HeartbeatSeq {
        /// The next one.
        expected: u64,
        /// The one in the record.
        found: u64,
    },
    /// The observation does not match the trial any more.
    #[error("trial {0} is not as it was observed")]
    ObservationChanged(TrialId),
    /// The heartbeat is not older than the grace threshold.
    #[error("trial {trial} is not stale: age {age_millis} ms, grace {grace_millis} ms")]
    NotStale {
        /// The trial.
        trial: TrialId,
        /// Age of its heartbeat.
        age_millis: u64,
        /// How old it may get.
        grace_millis: u64,
    },
    /// The study has all the trials that it may have.
    #[error("study {study} has {count} of {budget} trials")]
    OverBudget {
        /// The study.
        study: StudyId,
        /// Trials that count.
        count: u64,
        /// Trials that there may be.
        budget: u64,
    },
    /// The terminal payload does not fit its state.
    #[error("{0}")]
    BadOutcome(&'static str),
    /// No such outbox.
    #[error("no outbox for trial {} epoch {}", .0.trial, .0.epoch)]
    UnknownOutbox(OutboxKey),
    /// An outbox only goes forward.
    #[error("the outbox is at {current:?} and cannot go to {found:?}")]
    PhaseBackwards {
        /// Where it is.
        current: Phase,
        /// Where it should go.
        found: Phase,
    },
    /// An outbox is done when all its effects are.
    #[error("{0} effects are not complete")]
    EffectsOpen(usize),
    /// No such effect, or effects are not being executed yet.
    #[error("no effect {} of trial {} epoch {} to complete", .0.index, .0.trial, .0.epoch)]
    UnknownEffect(EffectKey),
    /// The effect was completed before.
    #[error("effect {} of trial {} epoch {} is complete already", .0.index, .0.trial, .0.epoch)]
    EffectTwice(EffectKey),
    /// A replacement for an effect that asks for none, or with other metadata than the effect's.
    #[error("{0}")]
    BadReplacement(&'static str),
}
