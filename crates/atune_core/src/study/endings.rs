//! What the endings of trials leave to do: sampler and scheduler see them, and failed trials are retried.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;

use super::{Result, Seen, Study, component};
use crate::outbox::{Intent, OutboxKey};
use crate::replica::Trial;
use crate::sampler::SamplerView;
use crate::scheduler::SchedulerView;
use crate::storage::Fence;
use crate::trial::{StateBlob, TrialState};
use crate::worker::{Callbacks, Said, fail_stale};

/// How long the endings of others are left to them, and how often they are looked for.
const OTHERS_NS: u64 = 1_000_000_000;

impl Study {
    /// What must happen after a trial of this study ended.
    pub(super) fn intent(&self) -> Intent {
        Intent {
            sampler: self.sampler().wants_endings(),
            scheduler: self.scheduler().wants_endings(),
            callbacks: Vec::new(),
        }
    }

    /// Does what the ending of one of its own trials left to do.
    pub(super) fn drive(&self, fence: Fence, state: TrialState) -> Result<()> {
        self.check_process()?;
        let intent = self.intent();
        let may_retry = state == TrialState::Failed && self.shared.retry.max_attempts > 1;
        // Nothing is owed: closing the outbox would be a record without a use.
        if !(intent.sampler || intent.scheduler || may_retry) {
            return Ok(());
        }
        let key = OutboxKey {
            trial: fence.trial,
            epoch: fence.epoch,
        };
        let undone = self.outboxes().drive(key, &mut Driver(self))?;
        log_undone(&undone);
        Ok(())
    }

    /// Does what others left, from time to time: those that died, or whose trials went
    /// stale. When it is forced, trials that are stale now are failed first.
    pub(super) fn drive_others(&self, is_forced: bool) -> Result<()> {
        self.check_process()?;
        let now = self.shared.clock.mono_ns();
        let due = self.shared.drive_at_ns.load(Ordering::Relaxed);
        if now < due && !is_forced {
            return Ok(());
        }
        let next = now.saturating_add(OTHERS_NS);
        self.shared.drive_at_ns.store(next, Ordering::Relaxed);
        let now = self.shared.clock.wall_ns();
        if is_forced {
            let (now, grace) = (now / 1_000_000, self.shared.grace_millis);
            fail_stale(&**self.storage(), self.id(), now, grace, &self.intent())?;
        }
        let young = if is_forced { 0 } else { OTHERS_NS };
        let before = now.saturating_sub(young) / 1_000_000;
        let undone = self.outboxes().drive_open(before, &mut Driver(self))?;
        log_undone(&undone);
        Ok(())
    }

    /// Fails the running trials that nobody renewed for longer than `grace`, does what this and other endings
    /// left to do, and answers how many it failed. The worker does so by itself at its heartbeats; whoever
    /// waits for the study to be done need not wait for them.
    ///
    /// # Errors
    /// [`StudyError::Storage`](super::StudyError::Storage).
    pub fn fail_stale(&self, grace: Duration) -> Result<usize> {
        let now_millis = self.shared.clock.wall_ns() / 1_000_000;
        let grace_millis = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let storage = self.storage().as_ref();
        let failed = fail_stale(storage, self.id(), now_millis, grace_millis, &self.intent())?;
        self.drive_others(true)?;
        Ok(failed.len())
    }
}

fn log_undone(undone: &[crate::worker::Undone]) {
    for effect in undone {
        log::warn!("trial {}: {}", effect.effect.trial, effect.why);
    }
}

/// Shows endings to the sampler and scheduler of a study.
struct Driver<'a>(&'a Study);

impl Driver<'_> {
    /// The study as of now: an ending is shown with a history that has it.
    fn seen(&self) -> std::sync::RwLockReadGuard<'_, Seen> {
        if let Err(error) = self.0.refresh() {
            // The next commit will say so too.
            log::warn!("study {}: {error}", self.0.name());
        }
        self.0.seen()
    }
}

impl Callbacks for Driver<'_> {
    fn sampler(&mut self, ended: &Trial, state: Option<&StateBlob>) -> Said {
        let (study, seen) = (self.0, self.seen());
        let sampler = study.sampler();
        let answer = sampler.after_trial(
            &SamplerView {
                config: study.config(),
                number: ended.number,
                history: &seen.history,
                state: component::state(state),
                set: &BTreeMap::new(),
                asked_count: ended.params.len(),
                budget: study.budget(),
            },
            ended,
        );
        let blob = |state| component::blob(sampler.kind(), &sampler.options(), Some(state));
        Said {
            state: answer.map(blob),
            effects: Vec::new(),
        }
    }

    fn scheduler(&mut self, ended: &Trial, state: Option<&StateBlob>) -> Said {
        let (study, seen) = (self.0, self.seen());
        let scheduler = study.scheduler();
        let reports: Vec<_> = ended
            .reports
            .iter()
            .map(|report| (report.step, report.values.clone()))
            .collect();
        let answer = scheduler.after_trial(
            &SchedulerView {
                config: study.config(),
                number: ended.number,
                history: &seen.history,
                reports: &reports,
                state: component::state(state),
                budget: study.budget(),
            },
            ended,
        );
        let blob = |state| component::blob(scheduler.kind(), &scheduler.options(), Some(state));
        Said {
            state: answer.state.map(blob),
            effects: answer.effects,
        }
    }

    fn callback(
        &mut self,
        ended: &Trial,
        name: &str,
        _payload: &Value,
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Err(format!(
            "trial {} wants callback {name:?}, which nobody has",
            ended.number
        )
        .into())
    }
}
