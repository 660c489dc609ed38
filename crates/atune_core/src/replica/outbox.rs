//! Operations on outboxes: what happens after a trial ended, each effect at most once.

use super::{Applied, NewTrial, Outbox, OutboxEffect, Refusal, Replica};
use crate::outbox::{Effect, EffectKey, Intent, OutboxKey, Phase};
use crate::storage::journal::record::{OutboxAdvance, OutboxEffectComplete, OutboxReplacement};
use crate::trial::StateScope;

impl Replica {
    /// Opens the outbox of an ending. Records before version 4 carry no intent: nothing is owed.
    pub(super) fn open_outbox(&mut self, key: OutboxKey, intent: Option<&Intent>) {
        if let Some(intent) = intent {
            let outbox = Outbox {
                intent: intent.clone(),
                phase: Phase::Sampler,
                effects: Vec::new(),
            };
            self.outboxes.insert(key, outbox);
        }
    }

    pub(super) fn outbox_advance(&mut self, op: &OutboxAdvance) -> Applied {
        let outbox = self
            .outboxes
            .get(&op.key)
            .ok_or(Refusal::UnknownOutbox(op.key))?;
        if op.phase <= outbox.phase {
            return Err(Refusal::PhaseBackwards {
                current: outbox.phase,
                found: op.phase,
            });
        }
        let open = outbox.open_effects().count();
        if op.phase == Phase::Done && open + op.effects.len() > 0 {
            return Err(Refusal::EffectsOpen(open + op.effects.len()));
        }
        for effect in &op.effects {
            // Its replacement would name a parent that does not exist, and nothing could complete it.
            if let Effect::Exploit { source, .. } = effect {
                self.trial(*source)?;
            }
        }
        let study = self.trial(op.key.trial)?.study;
        if let Some(state) = &op.sampler_state {
            self.states
                .insert(StateScope::Sampler(study), state.clone());
        }
        if let Some(state) = &op.scheduler_state {
            self.states
                .insert(StateScope::Scheduler(study), state.clone());
        }
        let outbox = self
            .outboxes
            .get_mut(&op.key)
            .ok_or(Refusal::UnknownOutbox(op.key))?;
        outbox.phase = op.phase;
        let new = op.effects.iter().cloned();
        outbox.effects.extend(new.map(|effect| OutboxEffect {
            effect,
            is_complete: false,
        }));
        Ok(())
    }

    pub(super) fn effect_complete(&mut self, op: &OutboxEffectComplete) -> Applied {
        self.open_effect(op.key)?;
        self.complete(op.key)
    }

    pub(super) fn replacement(&mut self, op: &OutboxReplacement, at_millis: u64) -> Applied {
        let effect = self.open_effect(op.effect)?;
        match (effect, op.retry_of) {
            (Effect::Retry {}, Some(source)) if source == op.effect.trial => {}
            (Effect::Retry {}, _) => {
                return Err(Refusal::BadReplacement(
                    "a retry names the trial that it retries",
                ));
            }
            (Effect::Exploit { .. }, None) => {}
            (Effect::Exploit { .. }, Some(_)) => {
                return Err(Refusal::BadReplacement("an exploit retries no trial"));
            }
            _ => {
                return Err(Refusal::BadReplacement(
                    "the effect asks for no replacement",
                ));
            }
        }
        if op.attempt.number == 0 || op.attempt.number > op.attempt.max {
            return Err(Refusal::BadReplacement(
                "the attempt is not within its maximum",
            ));
        }
        if self.trial(op.effect.trial)?.study != op.study {
            return Err(Refusal::BadReplacement("a replacement stays in its study"));
        }
        self.add_trial(&NewTrial {
            study: op.study,
            trial: op.trial,
            number: op.number,
            template: op.template.as_ref(),
            managed: true,
            at_millis,
        })?;
        self.study_mut(op.study)?.uncounted += u64::from(op.retry_of.is_some());
        let rare = self.trial_mut(op.trial)?.rare_mut();
        rare.attempt = Some(op.attempt);
        rare.retry_of = op.retry_of;
        self.complete(op.effect)
    }

    /// The effect, if effects are being executed and this one is not complete.
    fn open_effect(&self, key: EffectKey) -> Result<&Effect, Refusal> {
        let outbox = self
            .outboxes
            .get(&key.outbox())
            .ok_or(Refusal::UnknownOutbox(key.outbox()))?;
        let found = super::at(&outbox.effects, key.index).ok_or(Refusal::UnknownEffect(key))?;
        if found.is_complete {
            return Err(Refusal::EffectTwice(key));
        }
        if outbox.phase != Phase::Effects {
            return Err(Refusal::UnknownEffect(key));
        }
        Ok(&found.effect)
    }

    fn complete(&mut self, key: EffectKey) -> Applied {
        let outbox = self.outboxes.get_mut(&key.outbox());
        let index = usize::try_from(key.index).ok();
        let effect = outbox
            .zip(index)
            .and_then(|(outbox, index)| outbox.effects.get_mut(index));
        effect.ok_or(Refusal::UnknownEffect(key))?.is_complete = true;
        Ok(())
    }
}
