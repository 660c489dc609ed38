//! Failing the trials of workers that fell silent.

use crate::outbox::Intent;
use crate::replica::{Refusal, Trial};
use crate::storage::journal::record::LifecycleFailStale;
use crate::storage::{Observation, Plan, Result, Storage};
use crate::trial::{StudyId, TrialId, TrialState};

/// Fails the running trials of a study whose heartbeat is older than `grace_millis` at `now_millis`,
/// together, and answers which. `intent` is what must happen after each.
///
/// Reservations that nobody claimed have no heartbeat and are left: any worker may claim them.
///
/// # Errors
/// The storage's. That a trial changed meanwhile is none: somebody was faster, or its owner lives.
pub fn fail_stale(
    storage: &dyn Storage,
    study: StudyId,
    now_millis: u64,
    grace_millis: u64,
    intent: &Intent,
) -> Result<Vec<TrialId>> {
    let age = |heartbeat: Option<u64>| now_millis.saturating_sub(heartbeat.unwrap_or_default());
    let is_stale = |trial: &Trial| trial.managed && age(trial.heartbeat_millis) > grace_millis;
    let mut observed: Vec<Observation> = Vec::new();
    let mut known = Ok(());
    storage.read(&mut |replica| {
        observed.clear();
        known = replica.trials_of(study).map(|trials| {
            let running = trials.filter(|trial| trial.state == TrialState::Running);
            observed.extend(running.filter(|t| is_stale(t)).map(Observation::from));
        });
    })?;
    known?;
    if observed.is_empty() {
        return Ok(Vec::new());
    }
    let fail = |seen: Observation| LifecycleFailStale {
        trial: seen.trial,
        observed_state: seen.state,
        owner: seen.owner,
        epoch: seen.epoch,
        heartbeat_millis: seen.heartbeat_millis,
        heartbeat_seq: seen.heartbeat_seq,
        now_millis,
        grace_millis,
        reason: format!(
            "worker {} gave no sign of life for {} ms, more than {grace_millis} ms",
            seen.owner.unwrap_or_default(),
            age(seen.heartbeat_millis)
        ),
        intent: Some(intent.clone()),
    };
    let plan = |seen: &Observation| {
        let op = fail(*seen);
        Box::new(move |_: &_| Ok(op.clone().into())) as Box<Plan<'_>>
    };
    let mut plans: Vec<_> = observed.iter().map(plan).collect();
    let mut plans: Vec<&mut Plan<'_>> = plans.iter_mut().map(|plan| &mut **plan).collect();
    let mut failed = Vec::new();
    for (seen, answer) in observed.iter().zip(storage.commit_batch(&mut plans)?) {
        match answer {
            Ok(_) => failed.push(seen.trial),
            Err(Refusal::ObservationChanged(_) | Refusal::NotStale { .. }) => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
    Ok(failed)
}
