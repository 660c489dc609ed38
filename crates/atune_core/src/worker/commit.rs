//! The one way in which a worker's trials are changed: what each of them gathered and what follows it,
//! for any number of trials, as one batch.

use std::cell::{Cell, RefCell};
use std::sync::MutexGuard;

use serde_json::json;

use super::handle::LATE_RESULT_PREFIX;
use super::slot::Slot;
use super::{Lost, RETRY_AFTER, Shared, nanos};
use crate::lifecycle::{FencedMutation, Outcome};
use crate::outbox::Intent;
use crate::replica::{Refusal, Replica, Trial};
use crate::storage::journal::record::{
    LifecycleFenced, LifecycleRenew, LifecycleTerminal, Op, SetStudyUserAttr,
};
use crate::storage::{self, Fence, Plan};
use crate::trial::{ScopedBlob, StudyId};

/// What follows a trial's gathered changes.
#[derive(Debug)]
pub(super) enum Tail {
    Nothing,
    Renew,
    Pause(Option<ScopedBlob>),
    End(Outcome, Intent),
}

pub(super) struct Entry<'a> {
    pub(super) slot: &'a Slot,
    pub(super) tail: &'a Tail,
    pub(super) _order: MutexGuard<'a, ()>,
}

/// What the plans of one trial saw, the last time they were called.
#[derive(Default)]
struct Seen {
    lost: RefCell<Option<Lost>>,
    /// The trial has ended as this worker wanted, by an earlier commit whose answer was an error.
    is_settled: Cell<bool>,
}

type Planned = std::result::Result<Op, Refusal>;

impl Shared {
    /// Commits the entries together. Answers for each whether its tail was accepted; losses and refusals
    /// of gathered changes are left in the slots.
    ///
    /// # Errors
    /// The storage's. What was gathered is in the slots again.
    pub(super) fn commit(
        &self,
        entries: &[Entry<'_>],
    ) -> storage::Result<Vec<std::result::Result<(), Refusal>>> {
        let taken: Vec<_> = entries.iter().map(|e| e.slot.take_gathered()).collect();
        let seen: Vec<_> = entries.iter().map(|_| Seen::default()).collect();
        let answers = match self.commit_plans(entries, &taken, &seen) {
            Ok(answers) => answers,
            Err(error) => {
                let now = self.clock.mono_ns();
                let due_ns = now.saturating_add(nanos(self.settings.gather.max(RETRY_AFTER)));
                for (entry, taken) in entries.iter().zip(taken) {
                    entry.slot.put_back(taken, due_ns);
                }
                return Err(error);
            }
        };
        let mut answers = answers.into_iter();
        let settle = |((entry, taken), seen): ((&Entry<'_>, Vec<_>), Seen)| {
            let gathered = answers.by_ref().take(taken.len());
            let refusals: Vec<_> = gathered.filter_map(std::result::Result::err).collect();
            let mut tail = answers.by_ref().take(entry.tail.plan_count());
            let accepted = tail.next().map_or(Ok(()), |answer| answer.map(drop));
            // The other says whether a late result was kept. It is in the caller's error anyway.
            tail.for_each(drop);
            entry.settle(refusals, accepted, &seen)
        };
        Ok(entries.iter().zip(taken).zip(seen).map(settle).collect())
    }

    fn commit_plans(
        &self,
        entries: &[Entry<'_>],
        taken: &[Vec<FencedMutation>],
        seen: &[Seen],
    ) -> storage::Result<Vec<std::result::Result<u64, Refusal>>> {
        let mut plans: Vec<Box<Plan<'_>>> = Vec::new();
        for ((entry, taken), seen) in entries.iter().zip(taken).zip(seen) {
            for mutation in taken {
                plans.push(Box::new(|r| seen.fenced(r, entry.slot.fence, mutation)));
            }
            self.plan_tail(&mut plans, entry, seen);
        }
        let mut plans: Vec<&mut Plan<'_>> = plans.iter_mut().map(|plan| &mut **plan).collect();
        if plans.is_empty() {
            return Ok(Vec::new());
        }
        self.storage.commit_batch(&mut plans)
    }

    fn plan_tail<'a>(
        &'a self,
        plans: &mut Vec<Box<Plan<'a>>>,
        entry: &'a Entry<'_>,
        seen: &'a Seen,
    ) {
        let Slot { fence, study, .. } = *entry.slot;
        match entry.tail {
            Tail::Nothing => {}
            Tail::Renew => plans.push(Box::new(move |replica| {
                let trial = seen.owned(replica, fence)?;
                Ok(LifecycleRenew {
                    trial: fence.trial,
                    worker: fence.worker,
                    epoch: fence.epoch,
                    heartbeat_millis: self.now_millis(),
                    heartbeat_seq: trial.heartbeat_seq + 1,
                }
                .into())
            })),
            Tail::Pause(state) => {
                let pause = FencedMutation::Pause {
                    state: state.clone(),
                };
                plans.push(Box::new(move |replica| seen.fenced(replica, fence, &pause)));
            }
            Tail::End(outcome, intent) => {
                plans.push(Box::new(move |replica| {
                    seen.is_settled.set(has_ended_as(replica, fence, outcome));
                    seen.owned(replica, fence)?;
                    Ok(LifecycleTerminal {
                        trial: fence.trial,
                        worker: fence.worker,
                        epoch: fence.epoch,
                        outcome: outcome.clone(),
                        intent: Some(intent.clone()),
                    }
                    .into())
                }));
                plans.push(Box::new(move |r| late_result(r, fence, study, outcome)));
            }
        }
    }
}

impl Tail {
    fn plan_count(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Renew | Self::Pause(_) => 1,
            Self::End(..) => 2,
        }
    }
}

impl Entry<'_> {
    fn settle(
        &self,
        refusals: Vec<Refusal>,
        tail: std::result::Result<(), Refusal>,
        seen: &Seen,
    ) -> std::result::Result<(), Refusal> {
        let mut state = self.slot.lock();
        state.unsaved = None;
        if seen.is_settled.get() {
            state.is_over = true;
            return Ok(());
        }
        if let Some(lost) = seen.lost.take() {
            state.lost = Some(lost);
            state.gathered.clear();
            state.due_ns = None;
            return tail;
        }
        state.not_kept.extend(refusals);
        state.is_over |= tail.is_ok() && matches!(self.tail, Tail::Pause(_) | Tail::End(..));
        tail
    }
}

impl Seen {
    /// The trial, if it is this worker's.
    fn owned<'r>(
        &self,
        replica: &'r Replica,
        fence: Fence,
    ) -> std::result::Result<&'r Trial, Refusal> {
        let trial = replica.trial(fence.trial)?;
        let lost = lost(trial, fence);
        let is_lost = lost.is_some();
        self.lost.replace(lost);
        if is_lost {
            return Err(Refusal::WrongWorker {
                trial: fence.trial,
                owner: trial.owner,
                found: fence.worker,
            });
        }
        Ok(trial)
    }

    fn fenced(&self, replica: &Replica, fence: Fence, mutation: &FencedMutation) -> Planned {
        self.owned(replica, fence)?;
        Ok(LifecycleFenced {
            trial: fence.trial,
            worker: fence.worker,
            epoch: fence.epoch,
            mutation: mutation.clone(),
        }
        .into())
    }
}

/// Keeps a result that came too late, if it did.
fn late_result(replica: &Replica, fence: Fence, study: StudyId, outcome: &Outcome) -> Planned {
    let trial = replica.trial(fence.trial)?;
    if lost(trial, fence).is_none() || has_ended_as(replica, fence, outcome) {
        return Err(Refusal::BadOutcome("the result is not late"));
    }
    Ok(SetStudyUserAttr {
        study,
        key: format!("{LATE_RESULT_PREFIX}{}/{}", fence.trial, fence.epoch),
        value: json!({
            "worker": fence.worker,
            "state": outcome.state,
            "values": outcome.values,
            "error": outcome.error,
        }),
    }
    .into())
}

fn has_ended_as(replica: &Replica, fence: Fence, outcome: &Outcome) -> bool {
    replica.trial(fence.trial).is_ok_and(|trial| {
        trial.epoch == fence.epoch
            && trial.state == outcome.state
            && trial.values.as_deref() == outcome.values.as_deref()
            && trial.error() == outcome.error.as_deref()
    })
}

/// What became of a trial that this fence does not hold any more.
fn lost(trial: &Trial, fence: Fence) -> Option<Lost> {
    if trial.state.is_terminal() {
        return Some(match trial.error() {
            Some(reason) => Lost::Failed {
                reason: reason.to_owned(),
            },
            None => Lost::Ended { state: trial.state },
        });
    }
    let epoch = trial.epoch;
    match trial.owner {
        Some(worker) if worker == fence.worker && epoch == fence.epoch => None,
        Some(worker) => Some(Lost::Claimed { worker, epoch }),
        None => Some(Lost::Unowned { epoch }),
    }
}
