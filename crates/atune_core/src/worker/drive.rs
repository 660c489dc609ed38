//! What happens after a trial ended: any worker takes its outbox on, from wherever another left it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::outbox::{Attempt, Effect, EffectKey, OutboxKey, Phase};
use crate::replica::{Outbox, Refusal, Replica, Trial};
use crate::space::Template;
use crate::storage::journal::record::{
    Op, OutboxAdvance, OutboxEffectComplete, OutboxReplacement, SetStudyUserAttr,
};
use crate::storage::{Plan, Result, Storage, StorageError};
use crate::trial::{StateBlob, StateScope, StudyId, TrialState};

/// The attribute of a study that says that it was stopped, and why. `null` says that it goes on again.
pub const STOPPED_KEY: &str = "stopped";

/// An error of a callback.
type CallbackError = Box<dyn std::error::Error + Send + Sync>;

/// Whether the state machine took it.
type Answer = std::result::Result<(), Refusal>;

/// What a sampler or scheduler answers to the ending of a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// The state that replaces its present one.
    pub state: Option<StateBlob>,
    /// What is to be done.
    pub effects: Vec<Effect>,
}

/// What a driver calls, outside of any lock of the storage.
///
/// Everything is **called at least once and acknowledged at most once**: a driver that dies between the
/// call and its commit, or two drivers at once, make the same call twice. State that a sampler or
/// scheduler answers replaces exactly the state that it was shown; if another driver was faster, it is
/// asked again.
pub trait Callbacks {
    /// Shows the sampler a trial that ended, and its state.
    fn sampler(&mut self, ended: &Trial, state: Option<&StateBlob>) -> Said;

    /// Shows the scheduler a trial that ended, and its state.
    fn scheduler(&mut self, ended: &Trial, state: Option<&StateBlob>) -> Said;

    /// Runs a callback by its name. One that the intent asked for is told `null`.
    ///
    /// # Errors
    /// Any leaves the effect open: it is tried again by the next driver.
    fn callback(
        &mut self,
        ended: &Trial,
        name: &str,
        payload: &Value,
    ) -> std::result::Result<(), CallbackError>;
}

/// How often a trial is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The most attempts, the first included: 1 never retries. A trial that is a retry keeps the
    /// maximum of its line.
    pub max_attempts: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 1 }
    }
}

impl RetryPolicy {
    /// The attempt that follows this trial, unless it was the last.
    pub fn next(self, trial: &Trial) -> Option<Attempt> {
        let first = Attempt {
            number: 1,
            max: self.max_attempts,
        };
        let Attempt { number, max } = trial.attempt().unwrap_or(first);
        (number < max).then_some(Attempt {
            number: number + 1,
            max,
        })
    }
}

/// An effect that is still open, or that was left out because it names a trial that does not exist.
#[derive(Debug)]
pub struct Undone {
    /// Which one.
    pub effect: EffectKey,
    /// Why.
    pub why: CallbackError,
}

/// Drives the outboxes of one study: what the endings of its trials left to do. Any worker takes an
/// outbox on from wherever another left it.
///
/// Sampler → Scheduler → Effects → Done, each step one commit; a phase that the intent does not
/// ask for is
/// passed over. Then the intent's callbacks and what sampler and scheduler asked for are done, each
/// acknowledged by its own commit: a callback after it was called, a replacement in the record that
/// creates it, the end of a study in the commit that sets [`STOPPED_KEY`].
///
/// Two drivers of one outbox do no harm: the state machine refuses the second step, and the loser looks
/// again and goes on from there. Every effect is acknowledged at most once, and exactly one
/// replacement is
/// created for each effect that asks for one. What [`Callbacks`] do outside may happen twice.
#[derive(Debug)]
pub struct Outboxes {
    storage: Arc<dyn Storage>,
    study: StudyId,
    retry: RetryPolicy,
    seq: u64,
    /// Outboxes that were not done when last seen, and when their trials ended.
    open: BTreeMap<OutboxKey, u64>,
}

/// What a driver sees of one outbox.
struct View {
    ended: Trial,
    outbox: Outbox,
    /// The state of whoever is next to see the ending.
    state: Option<StateBlob>,
}

impl Outboxes {
    /// The outboxes of a study. A failed trial (by an exception, or a dead worker) is tried again as long
    /// as `retry` allows; a retry that a scheduler asks for is held to the same maximum.
    pub fn new(storage: Arc<dyn Storage>, study: StudyId, retry: RetryPolicy) -> Self {
        Self {
            storage,
            study,
            retry,
            seq: 0,
            open: BTreeMap::new(),
        }
    }

    /// Drives every outbox that something is left to do for and whose trial ended at `ended_before_millis` or earlier.
    /// A worker that leaves the young ones to those who ended them calls nothing twice in vain. The cost
    /// is that of what changed since the last call. Answers the effects that are still open.
    ///
    /// # Errors
    /// The storage's.
    pub fn drive_open(
        &mut self,
        ended_before_millis: u64,
        callbacks: &mut dyn Callbacks,
    ) -> Result<Vec<Undone>> {
        let mut found = (self.seq, Vec::new());
        self.storage.read(&mut |replica| {
            let changed = replica.changed_since(self.seq);
            let open = changed
                .filter(|trial| trial.study == self.study)
                .filter_map(|trial| {
                    // A trial ends once, in its last epoch.
                    let key = OutboxKey {
                        trial: trial.id,
                        epoch: trial.epoch,
                    };
                    let outbox = replica.outbox(key)?;
                    self.is_owed(trial, outbox)
                        .then_some((key, trial.times.ended.unwrap_or_default()))
                });
            found = (replica.seq(), open.collect());
        })?;
        self.seq = found.0;
        self.open.extend(found.1);
        let is_old =
            |(key, ended): (&OutboxKey, &u64)| (*ended <= ended_before_millis).then_some(*key);
        let keys: Vec<OutboxKey> = self.open.iter().filter_map(is_old).collect();
        let mut undone = Vec::new();
        for key in keys {
            let left = self.drive(key, callbacks)?;
            if left.is_empty() {
                self.open.remove(&key);
            }
            undone.extend(left);
        }
        Ok(undone)
    }

    /// Whether an ending left something to do. Closing an outbox that nobody owes anything would be a record
    /// without a use.
    fn is_owed(&self, ended: &Trial, outbox: &Outbox) -> bool {
        let intent = &outbox.intent;
        let is_asked_for = intent.sampler || intent.scheduler || !intent.callbacks.is_empty();
        let is_retried = ended.state == TrialState::Failed && self.retry.next(ended).is_some();
        match outbox.phase {
            Phase::Sampler => is_asked_for || is_retried,
            Phase::Scheduler | Phase::Effects => true,
            Phase::Done => false,
        }
    }

    /// Drives one outbox as far as it goes, and answers its effects that are still open.
    ///
    /// # Errors
    /// [`Refusal::UnknownOutbox`], or the storage's.
    pub fn drive(&self, key: OutboxKey, callbacks: &mut dyn Callbacks) -> Result<Vec<Undone>> {
        let mut left = Vec::new();
        loop {
            let view = self.look(key)?;
            match view.outbox.phase {
                Phase::Sampler | Phase::Scheduler => {
                    left.extend(self.advance(key, &view, callbacks)?);
                }
                Phase::Effects => {
                    let undone = self.execute(key, &view, callbacks)?;
                    if !undone.is_empty() {
                        left.extend(undone);
                        return Ok(left);
                    }
                }
                Phase::Done => return Ok(left),
            }
        }
    }

    fn look(&self, key: OutboxKey) -> Result<View> {
        let mut found = Err(Refusal::UnknownOutbox(key));
        self.storage.read(&mut |replica| {
            found = replica.trial(key.trial).and_then(|ended| {
                let outbox = replica.outbox(key).ok_or(Refusal::UnknownOutbox(key))?;
                let state = scope(outbox, ended.study).and_then(|scope| replica.state(scope));
                Ok(View {
                    ended: ended.clone(),
                    outbox: outbox.clone(),
                    state: state.cloned(),
                })
            });
        })?;
        Ok(found?)
    }

    /// Takes an outbox one step on: asks whoever is next, and passes over whom nobody asked for. Answers the
    /// effects that were left out: an exploit of a trial that does not exist must not hold up the rest.
    fn advance(
        &self,
        key: OutboxKey,
        view: &View,
        callbacks: &mut dyn Callbacks,
    ) -> Result<Vec<Undone>> {
        let View {
            ended,
            outbox,
            state,
        } = view;
        let scope = scope(outbox, ended.study);
        let said = match scope {
            Some(StateScope::Sampler(_)) => callbacks.sampler(ended, state.as_ref()),
            Some(_) => callbacks.scheduler(ended, state.as_ref()),
            None => Said::default(),
        };
        let is_sampler = matches!(scope, Some(StateScope::Sampler(_)));
        let mut effects = said.effects;
        let undone = self.leave_out_strays(key, outbox, &mut effects)?;
        let phase = if is_sampler && outbox.intent.scheduler {
            Phase::Scheduler
        } else {
            self.add_last_effects(view, &mut effects);
            let is_done = effects.is_empty() && outbox.effects.is_empty();
            if is_done { Phase::Done } else { Phase::Effects }
        };
        let (sampler_state, scheduler_state) = if is_sampler {
            (said.state, None)
        } else {
            (None, said.state)
        };
        let op = OutboxAdvance {
            key,
            phase,
            sampler_state,
            scheduler_state,
            effects,
        };
        let committed = self.storage.commit(&mut |replica| {
            let current = replica.outbox(key).map(|outbox| outbox.phase);
            // Another driver was here: what was said to the earlier state would undo what was said to it.
            let is_same = scope.is_none_or(|scope| replica.state(scope) == state.as_ref());
            if current != Some(outbox.phase) || !is_same {
                return Err(Refusal::ObservationChanged(key.trial));
            }
            Ok(op.clone().into())
        });
        match committed {
            Ok(_) => Ok(undone),
            Err(StorageError::Refused(Refusal::ObservationChanged(_))) => Ok(Vec::new()),
            Err(other) => Err(other),
        }
    }

    /// Takes out the exploits whose source does not exist, which the state machine would refuse.
    fn leave_out_strays(
        &self,
        key: OutboxKey,
        outbox: &Outbox,
        effects: &mut Vec<Effect>,
    ) -> Result<Vec<Undone>> {
        let source_of = |effect: &Effect| match effect {
            Effect::Exploit { source, .. } => Some(*source),
            _ => None,
        };
        let mut undone = Vec::new();
        if !effects.iter().any(|effect| source_of(effect).is_some()) {
            return Ok(undone);
        }
        let said = std::mem::take(effects);
        self.storage.read(&mut |replica| {
            (*effects, undone) = (said.clone(), Vec::new());
            effects.retain(|effect| {
                let found = source_of(effect).map_or(Ok(()), |id| replica.trial(id).map(drop));
                let Err(refusal) = found else {
                    return true;
                };
                // The place that it would have had.
                let index = (outbox.effects.len() + undone.len()) as u64;
                let OutboxKey { trial, epoch } = key;
                undone.push(Undone {
                    effect: EffectKey {
                        trial,
                        epoch,
                        index,
                    },
                    why: refusal.into(),
                });
                false
            });
        })?;
        Ok(undone)
    }

    /// What the intent and the policy ask for, whatever sampler and scheduler say.
    fn add_last_effects(&self, view: &View, effects: &mut Vec<Effect>) {
        let callback = |name: &String| Effect::Callback {
            name: name.clone(),
            payload: Value::Null,
        };
        effects.extend(view.outbox.intent.callbacks.iter().map(callback));
        let earlier = view.outbox.effects.iter().map(|e| &e.effect);
        let is_asked_for = earlier
            .chain(&*effects)
            .any(|e| matches!(e, Effect::Retry {}));
        let is_failed = view.ended.state == TrialState::Failed;
        if is_failed && !is_asked_for && self.retry.next(&view.ended).is_some() {
            effects.push(Effect::Retry {});
        }
    }

    /// Does and acknowledges the effects that are open, and closes the outbox after the last.
    fn execute(
        &self,
        key: OutboxKey,
        view: &View,
        callbacks: &mut dyn Callbacks,
    ) -> Result<Vec<Undone>> {
        let mut undone = Vec::new();
        for (index, effect) in view.outbox.open_effects() {
            let effect_key = EffectKey {
                trial: key.trial,
                epoch: key.epoch,
                index,
            };
            let answer = match effect {
                Effect::Callback { name, payload } => {
                    if let Err(why) = callbacks.callback(&view.ended, name, payload) {
                        undone.push(Undone {
                            effect: effect_key,
                            why,
                        });
                        continue;
                    }
                    self.acknowledge(effect_key, None)?
                }
                Effect::Retry {} => match self.retry.next(&view.ended) {
                    Some(attempt) => {
                        let template = retry_template(&view.ended);
                        self.replace(effect_key, &template, attempt, true)?
                    }
                    None => self.acknowledge(effect_key, None)?,
                },
                Effect::Exploit { source, params } => {
                    let template = Template {
                        fixed: params.clone(),
                        parent: Some(*source),
                    };
                    let max = self.retry.max_attempts.max(1);
                    self.replace(effect_key, &template, Attempt { number: 1, max }, false)?
                }
                Effect::StopStudy { reason } => self.acknowledge(effect_key, Some(reason))?,
            };
            match answer {
                // Another driver did it, and perhaps all the others too.
                Ok(()) | Err(Refusal::EffectTwice(_) | Refusal::UnknownEffect(_)) => {}
                Err(refusal) => undone.push(Undone {
                    effect: effect_key,
                    why: refusal.into(),
                }),
            }
        }
        if view.outbox.open_effects().next().is_none() {
            // Nobody leaves it so, but other writers may: a journal of theirs is driven on too.
            match self.storage.commit(&mut |replica| close(replica, key)) {
                Ok(_) | Err(StorageError::Refused(Refusal::PhaseBackwards { .. })) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(undone)
    }

    /// Acknowledges an effect, and stops the study with it when that is what it asked for.
    fn acknowledge(&self, key: EffectKey, stop: Option<&String>) -> Result<Answer> {
        let mut stop = |replica: &Replica| {
            let outbox = replica.outbox(key.outbox());
            let is_open =
                outbox.is_some_and(|o| o.open_effects().any(|(index, _)| index == key.index));
            match stop {
                // Written while the effect is open, so that a driver that comes too late changes nothing.
                Some(reason) if is_open => Ok(SetStudyUserAttr {
                    study: replica.trial(key.trial)?.study,
                    key: STOPPED_KEY.to_owned(),
                    value: Value::String(reason.clone()),
                }
                .into()),
                _ => Err(Refusal::EffectTwice(key)),
            }
        };
        let mut complete = |_: &Replica| Ok(OutboxEffectComplete { key }.into());
        let mut close = |replica: &Replica| close(replica, key.outbox());
        let plans: &mut [&mut Plan<'_>] = &mut [&mut stop, &mut complete, &mut close];
        let answers = self.storage.commit_batch(plans)?;
        Ok(answers
            .into_iter()
            .nth(1)
            .map_or(Ok(()), |answer| answer.map(drop)))
    }

    /// Creates the trial that an effect asks for, which acknowledges it.
    fn replace(
        &self,
        effect: EffectKey,
        template: &Template,
        attempt: Attempt,
        is_retry: bool,
    ) -> Result<Answer> {
        let mut create = |replica: &Replica| {
            let study = replica.trial(effect.trial)?.study;
            let (trial, number) = replica.next_trial(study)?;
            Ok(OutboxReplacement {
                effect,
                study,
                trial,
                number,
                template: Some(template.clone()),
                attempt,
                retry_of: is_retry.then_some(effect.trial),
            }
            .into())
        };
        let mut close = |replica: &Replica| close(replica, effect.outbox());
        let answers = self.storage.commit_batch(&mut [&mut create, &mut close])?;
        Ok(answers
            .into_iter()
            .next()
            .map_or(Ok(()), |answer| answer.map(drop)))
    }
}

/// Whose state counts at this step: of the sampler or of the scheduler, if the intent asks for either.
fn scope(outbox: &Outbox, study: StudyId) -> Option<StateScope> {
    match outbox.phase {
        Phase::Sampler if outbox.intent.sampler => Some(StateScope::Sampler(study)),
        Phase::Sampler | Phase::Scheduler if outbox.intent.scheduler => {
            Some(StateScope::Scheduler(study))
        }
        _ => None,
    }
}

/// Closes an outbox whose effects are all complete.
fn close(replica: &Replica, key: OutboxKey) -> std::result::Result<Op, Refusal> {
    let outbox = replica.outbox(key).ok_or(Refusal::UnknownOutbox(key))?;
    match outbox.open_effects().count() {
        0 => Ok(OutboxAdvance {
            key,
            phase: Phase::Done,
            sampler_state: None,
            scheduler_state: None,
            effects: Vec::new(),
        }
        .into()),
        open => Err(Refusal::EffectsOpen(open)),
    }
}

/// All that is known of a failed trial's parameters: a point of a grid is not lost with its trial, even
/// when that failed before it looked at its parameters.
fn retry_template(failed: &Trial) -> Template {
    let mut fixed = failed
        .template()
        .map(|t| t.fixed.clone())
        .unwrap_or_default();
    let set = failed.params.iter();
    fixed.extend(set.map(|param| (param.key.name.clone(), param.value.clone())));
    Template {
        fixed,
        parent: Some(failed.id),
    }
}
