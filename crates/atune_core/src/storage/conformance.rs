//! What every backend must do. Public, so that backends elsewhere can be held to it.
//!
//! ```
//! use std::sync::Arc;
//! use atune_core::storage::{MemoryStorage, conformance};
//! use atune_core::trial::WorkerId;
//! conformance::check(&mut || {
//!     let clock = Arc::new(durable::ManualClock::new(1_000_000_000_000, 0));
//!     Box::new(MemoryStorage::new(clock, WorkerId(0)))
//! })?;
//! # Ok::<(), conformance::Broken>(())
//! ```

use serde_json::json;

use super::{Fence, Observation, Result, Storage, StorageError};
use crate::lifecycle::{FencedMutation, Outcome};
use crate::number::JsonF64;
use crate::outbox::{Attempt, Effect, EffectKey, Intent, OutboxKey, Phase};
use crate::replica::Refusal;
use crate::space::{Distribution, FloatRange, Param, ParamValue, Template};
use crate::trial::{
    Direction, ResourceUnit, ScopedBlob, StateBlob, StateScope, StudyConfig, StudyId, TrialId,
    TrialState, WorkerId,
};

/// A promise that a backend does not keep.
#[derive(Debug, thiserror::Error)]
#[error("{promise}: {what}")]
pub struct Broken {
    /// The promise.
    pub promise: &'static str,
    /// What happened instead.
    pub what: String,
}

type Check = std::result::Result<(), String>;
type Promise = (&'static str, fn(&dyn Storage) -> Check);

const PROMISES: &[Promise] = &[
    (
        "identities and numbers are given in order",
        identities_are_given_in_order,
    ),
    (
        "a name is taken once, and an unknown one lists those that exist",
        names_are_unique,
    ),
    (
        "a raw trial lives through its states and no others",
        raw_states,
    ),
    (
        "values, reports and parameters are kept as they were given",
        contents_are_kept,
    ),
    ("numbers that are not finite are kept", not_finite_is_kept),
    (
        "a refused operation changes nothing",
        refusals_change_nothing,
    ),
    (
        "raw operations do not touch managed trials, nor the other way round",
        raw_and_managed,
    ),
    (
        "of several claims of one trial one succeeds",
        one_claim_succeeds,
    ),
    (
        "only the owner in its epoch may change a trial",
        fences_hold,
    ),
    ("a budget is exact", budgets_are_exact),
    (
        "a stale trial is failed from a complete observation only",
        stale_trials_are_failed,
    ),
    (
        "a paused trial is claimed again in a later epoch",
        pause_and_resume,
    ),
    (
        "each effect of an outbox happens at most once",
        effects_happen_once,
    ),
    ("state blobs stay in their scopes", scopes_hold),
    ("reserved attribute keys are refused", reserved_keys),
    (
        "changes are told from any sequence number on",
        changes_are_told,
    ),
    ("the best trials are the best", the_best_are_best),
    (
        "many threads give every trial its own number",
        threads_share,
    ),
];

/// Runs every promise against a fresh store from `make`.
///
/// # Errors
/// The first promise that is not kept.
pub fn check(make: &mut dyn FnMut() -> Box<dyn Storage>) -> std::result::Result<(), Broken> {
    for (promise, run) in PROMISES {
        run(make().as_ref()).map_err(|what| Broken { promise, what })?;
    }
    Ok(())
}

/// A study of one direction for every need.
pub fn example_config(name: &str, directions: &[Direction]) -> StudyConfig {
    StudyConfig {
        name: name.to_owned(),
        directions: directions.to_vec(),
        seed: 7,
        space: None,
        resource_unit: ResourceUnit::Steps,
        metric_names: Vec::new(),
    }
}

/// A parameter between 0 and 1.
pub fn example_param(name: &str, value: f64) -> Param {
    let range = FloatRange {
        low: JsonF64(0.0),
        high: JsonF64(1.0),
        log: false,
        step: None,
    };
    Param {
        name: name.to_owned(),
        dist: Distribution::Float(range),
        value: ParamValue::F64(JsonF64(value)),
    }
}

fn blob(text: &str) -> StateBlob {
    StateBlob {
        kind: text.to_owned(),
        version: 1,
        data: json!({ "text": text }),
    }
}

fn values(values: &[f64]) -> Vec<JsonF64> {
    values.iter().copied().map(JsonF64).collect()
}

fn ok<T>(result: Result<T>) -> std::result::Result<T, String> {
    result.map_err(|e| format!("unexpected: {e}"))
}

fn refused<T: std::fmt::Debug>(result: Result<T>, is_right: impl Fn(&Refusal) -> bool) -> Check {
    match result {
        Err(StorageError::Refused(refusal)) if is_right(&refusal) => Ok(()),
        other => Err(format!("expected a refusal, found {other:?}")),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T) -> Check {
    if found == expected {
        Ok(())
    } else {
        Err(format!("found {found:?}, expected {expected:?}"))
    }
}

fn study(storage: &dyn Storage) -> std::result::Result<StudyId, String> {
    ok(storage.create_study(&example_config("s", &[Direction::Minimize])))
}

fn running(storage: &dyn Storage, study: StudyId) -> std::result::Result<TrialId, String> {
    let trial = ok(storage.create_trial(study, None))?;
    ok(storage.transition(trial, TrialState::Waiting, TrialState::Running))?;
    Ok(trial)
}

fn claimed(storage: &dyn Storage, study: StudyId) -> std::result::Result<Fence, String> {
    let trial = ok(storage.reserve(study, None, None))?;
    ok(storage.claim(trial, WorkerId(1), 1_000, &[], None))
}

fn identities_are_given_in_order(storage: &dyn Storage) -> Check {
    let first = study(storage)?;
    let second = ok(storage.create_study(&example_config("t", &[Direction::Maximize])))?;
    same(&(first, second), &(StudyId(0), StudyId(1)))?;
    let mut found = Vec::new();
    for study in [first, second, first] {
        let id = ok(storage.create_trial(study, None))?;
        found.push((id, ok(storage.trial(id))?.number));
    }
    same(
        &found,
        &vec![(TrialId(0), 0), (TrialId(1), 0), (TrialId(2), 1)],
    )
}

fn names_are_unique(storage: &dyn Storage) -> Check {
    let id = study(storage)?;
    let again = storage.create_study(&example_config("s", &[Direction::Minimize]));
    refused(
        again,
        |r| matches!(r, Refusal::NameTaken(name) if name == "s"),
    )?;
    same(&ok(storage.study_named("s"))?, &id)?;
    match storage.study_named("other") {
        Err(StorageError::UnknownName { existing, .. }) => same(&existing, &vec!["s".to_owned()]),
        other => Err(format!("{other:?}")),
    }
}

fn raw_states(storage: &dyn Storage) -> Check {
    use TrialState::{Complete, Failed, Paused, Pruned, Running, Waiting};
    let study = study(storage)?;
    for (path, refused_moves) in [
        (vec![Waiting], vec![Complete, Pruned, Paused, Waiting]),
        (vec![Waiting, Running], vec![Waiting, Running, Paused]),
        (vec![Waiting, Failed], vec![Running, Complete]),
        (
            vec![Waiting, Running, Complete],
            vec![Running, Failed, Waiting],
        ),
        (vec![Waiting, Running, Pruned], vec![Complete]),
    ] {
        let trial = ok(storage.create_trial(study, None))?;
        for (from, to) in path.iter().zip(path.iter().skip(1)) {
            ok(storage.transition(trial, *from, *to))?;
        }
        let last = path.last().copied().unwrap_or(Waiting);
        for to in refused_moves {
            let moved = storage.transition(trial, last, to);
            refused(moved, |r| matches!(r, Refusal::ForbiddenMove { .. }))?;
        }
        let other = if last == Running { Waiting } else { Running };
        let moved = storage.transition(trial, other, Failed);
        refused(moved, |r| matches!(r, Refusal::WrongFrom { .. }))?;
        same(&ok(storage.trial(trial))?.state, &last)?;
    }
    Ok(())
}

fn contents_are_kept(storage: &dyn Storage) -> Check {
    let study = study(storage)?;
    let template = Template {
        fixed: [("x".to_owned(), ParamValue::I64(3))].into(),
        parent: None,
    };
    let trial = ok(storage.create_trial(study, Some(&template)))?;
    ok(storage.transition(trial, TrialState::Waiting, TrialState::Running))?;
    ok(storage.params_batch(trial, &[example_param("x", 0.25), example_param("y", 1.0)]))?;
    ok(storage.report(trial, 3, &values(&[0.5])))?;
    ok(storage.heartbeat(trial, 77))?;
    ok(storage.set_trial_user_attr(trial, "note", &json!({ "a": [1, null] })))?;
    ok(storage.set_values(trial, &values(&[0.125])))?;
    ok(storage.set_error(trial, "odd\n\"quoted\" \u{1f980}"))?;
    ok(storage.transition(trial, TrialState::Running, TrialState::Failed))?;
    let found = ok(storage.trial(trial))?;
    same(&found.template(), &Some(&template))?;
    let names: Vec<&str> = found.params.iter().map(|p| p.key.name.as_str()).collect();
    same(&names, &vec!["x", "y"])?;
    same(
        &found.param("x").map(|p| p.value.clone()),
        &Some(ParamValue::F64(JsonF64(0.25))),
    )?;
    same(
        &found
            .reports
            .iter()
            .map(|r| (r.step, r.values.to_vec()))
            .collect(),
        &vec![(3, values(&[0.5]))],
    )?;
    same(
        &found.values.as_deref().map(<[_]>::to_vec),
        &Some(values(&[0.125])),
    )?;
    same(&found.error(), &Some("odd\n\"quoted\" \u{1f980}"))?;
    same(&found.heartbeat_millis, &Some(77))?;
    let attrs: Vec<_> = found
        .user_attrs()
        .map(|(k, v)| (k.to_owned(), v.clone()))
        .collect();
    same(
        &attrs,
        &vec![("note".to_owned(), json!({ "a": [1, null] }))],
    )?;
    refused(storage.report(trial, 4, &values(&[1.0])), |r| {
        matches!(r, Refusal::Ended(_))
    })
}

fn not_finite_is_kept(storage: &dyn Storage) -> Check {
    let study = study(storage)?;
    let trial = running(storage, study)?;
    for (step, value) in (0u64..).zip([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0]) {
        ok(storage.report(trial, step, &values(&[value])))?;
    }
    let found = ok(storage.trial(trial))?;
    let bits = |v: f64| {
        if v.is_nan() {
            f64::NAN.to_bits()
        } else {
            v.to_bits()
        }
    };
    let found: Vec<u64> = found
        .reports
        .iter()
        .flat_map(|r| r.values.iter().map(|v| bits(v.0)))
        .collect();
    same(
        &found,
        &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0]
            .map(bits)
            .to_vec(),
    )
}

fn refusals_change_nothing(storage: &dyn Storage) -> Check {
    let study = study(storage)?;
    let trial = running(storage, study)?;
    ok(storage.params_batch(trial, &[example_param("x", 0.5)]))?;
    let before = ok(storage.trial(trial))?;
    let twice = [example_param("y", 0.5), example_param("x", 0.5)];
    refused(
        storage.params_batch(trial, &twice),
        |r| matches!(r, Refusal::ParamTaken(n) if n == "x"),
    )?;
    let outside = [example_param("y", 0.5), example_param("z", 1.5)];
    refused(storage.params_batch(trial, &outside), |r| {
        matches!(r, Refusal::BadParam { .. })
    })?;
    let count = storage.set_values(trial, &values(&[1.0, 2.0]));
    refused(count, |r| {
        matches!(
            r,
            Refusal::ValueCount {
                expected: 1,
                found: 2
            }
        )
    })?;
    refused(storage.report(trial, 1, &[]), |r| {
        matches!(r, Refusal::ValueCount { .. })
    })?;
    refused(storage.heartbeat(TrialId(99), 1), |r| {
        matches!(r, Refusal::UnknownTrial(_))
    })?;
    refused(storage.create_trial(StudyId(99), None), |r| {
        matches!(r, Refusal::UnknownStudy(_))
    })?;
    same(&ok(storage.trial(trial))?, &before)
}

fn raw_and_managed(storage: &dyn Storage) -> Check {
    let study = study(storage)?;
    let raw = running(storage, study)?;
    let managed = claimed(storage, study)?.trial;
    let moved = storage.transition(managed, TrialState::Running, TrialState::Complete);
    refused(moved, |r| matches!(r, Refusal::Managed(_)))?;
    refused(storage.set_values(managed, &values(&[1.0])), |r| {
        matches!(r, Refusal::Managed(_))
    })?;
    let put = storage.put_state(StateScope::TrialUser(managed), &blob("a"));
    refused(put, |r| matches!(r, Refusal::Managed(_)))?;
    let claim = storage.claim(raw, WorkerId(1), 1, &[], None);
    refused(claim, |r| matches!(r, Refusal::NotManaged(_)))?;
    refused(storage.abandon(raw, "no"), |r| {
        matches!(r, Refusal::NotManaged(_))
    })
}

fn one_claim_succeeds(storage: &dyn Storage) -> Check {
    let study = study(storage)?;
    let trial = ok(storage.reserve(study, None, None))?;
    let wins = std::thread::scope(|scope| {
        let claims: Vec<_> = (0..8)
            .map(|worker| {
                scope.spawn(move || storage.claim(trial, WorkerId(worker), 1, &[], None).is_ok())
            })
            .collect();
        claims
            .into_iter()
            .filter_map(|claim| claim.join().ok())
            .filter(|won| *won)
            .count()
    });
    same(&wins, &1)
}

fn fences_hold(storage: &dyn Storage) -> Check {
    let study = study(storage)?;
    let fence = claimed(storage, study)?;
    ok(storage.renew(fence, 2_000))?;
    let report = FencedMutation::Report {
        step: 1,
        values: values(&[0.5]),
    };
    ok(storage.fenced(fence, &report))?;
    let stranger = Fence {
        worker: WorkerId(2),
        ..fence
    };
    refused(storage.fenced(stranger, &report), |r| {
        matches!(r, Refusal::WrongWorker { .. })
    })?;
    let old = Fence {
        epoch: fence.epoch - 1,
        ..fence
    };
    refused(storage.fenced(old, &report), |r| {
        matches!(r, Refusal::WrongEpoch { .. })
    })?;
    refused(storage.renew(old, 3_000), |r| {
        matches!(r, Refusal::WrongEpoch { .. })
    })?;
    let end = storage.terminal(stranger, &Outcome::pruned(None), &Intent::default());
    refused(end, |r| matches!(r, Refusal::WrongWorker { .. }))?;
    let without = Outcome {
        values: None,
        ..Outcome::complete(Vec::new())
    };
    let end = storage.terminal(fence, &without, &Intent::default());
    refused(end, |r| matches!(r, Refusal::BadOutcome(_)))?;
    ok(storage.terminal(
        fence,
        &Outcome::complete(values(&[0.25])),
        &Intent::default(),
    ))?;
    refused(storage.fenced(fence, &report), |r| {
        matches!(r, Refusal::Ended(_))
    })?;
    let found = ok(storage.trial(fence.trial))?;
    same(
        &(found.state, found.owner, found.heartbeat_seq),
        &(TrialState::Complete, None, 2),
    )
}

fn budgets_are_exact(storage: &dyn Storage) -> Check {
    let study = study(storage)?;
    let given = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    (0..20)
                        .filter(|_| storage.reserve(study, None, Some(10)).is_ok())
                        .count()
                })
            })
            .collect();
        workers
            .into_iter()
            .filter_map(|worker| worker.join().ok())
            .sum::<usize>()
    });
    same(&given, &10)?;
    let over = storage.reserve(study, None, Some(10));
    refused(over, |r| {
        matches!(
            r,
            Refusal::OverBudget {
                count: 10,
                budget: 10,
                ..
            }
        )
    })?;
    ok(storage.abandon(TrialId(0), "not needed"))?;
    ok(storage.reserve(study, None, Some(10))).map(drop)
}

fn stale_trials_are_failed(storage: &dyn Storage) -> Check {
    let study = study(storage)?;
    let fence = claimed(storage, study)?;
    let seen = Observation::from(&ok(storage.trial(fence.trial))?);
    let intent = Intent::default();
    let fail =
        |seen: &Observation, now| storage.fail_stale(seen, now, 500, "no heartbeat", &intent);
    refused(fail(&seen, 1_500), |r| {
        matches!(
            r,
            Refusal::NotStale {
                age_millis: 500,
                ..
            }
        )
    })?;
    ok(storage.renew(fence, 1_200))?;
    refused(fail(&seen, 9_000), |r| {
        matches!(r, Refusal::ObservationChanged(_))
    })?;
    let seen = Observation::from(&ok(storage.trial(fence.trial))?);
    ok(fail(&seen, 1_701))?;
    refused(storage.renew(fence, 1_800), |r| {
        matches!(r, Refusal::Ended(_))
    })?;
    let found = ok(storage.trial(fence.trial))?;
    same(
        &(found.state, found.error()),
        &(TrialState::Failed, Some("no heartbeat")),
    )
}

fn pause_and_resume(storage: &dyn Storage) -> Check {
    let study = study(storage)?;
    let fence = claimed(storage, study)?;
    let state = ScopedBlob {
        scope: StateScope::TrialUser(fence.trial),
        blob: blob("half way"),
    };
    ok(storage.fenced(
        fence,
        &FencedMutation::Pause {
            state: Some(state.clone()),
        },
    ))?;
    same(&ok(storage.trial(fence.trial))?.state, &TrialState::Paused)?;
    let late = storage.fenced(fence, &FencedMutation::Pause { state: None });
    refused(late, |r| {
        matches!(r, Refusal::WrongWorker { owner: None, .. })
    })?;
    let again = ok(storage.claim(fence.trial, WorkerId(2), 5_000, &[], None))?;
    same(&again.epoch, &2)?;
    let mut kept = None;
    ok(storage.read(&mut |replica| kept = replica.state(state.scope).cloned()))?;
    same(&kept, &Some(state.blob))
}

fn effects_happen_once(storage: &dyn Storage) -> Check {
    let study = study(storage)?;
    let fence = claimed(storage, study)?;
    let intent = Intent {
        sampler: true,
        scheduler: false,
        callbacks: vec!["log".to_owned()],
    };
    ok(storage.terminal(fence, &Outcome::failed("boom"), &intent))?;
    let key = OutboxKey {
        trial: fence.trial,
        epoch: fence.epoch,
    };
    let effect = |index| EffectKey {
        trial: key.trial,
        epoch: key.epoch,
        index,
    };
    let callback = Effect::Callback {
        name: "log".to_owned(),
        payload: json!(1),
    };
    let sampler = blob("sampler");
    ok(storage.outbox_advance(key, Phase::Scheduler, Some(&sampler), None, &[]))?;
    let early = storage.outbox_effect_complete(effect(0));
    refused(early, |r| matches!(r, Refusal::UnknownEffect(_)))?;
    ok(storage.outbox_advance(
        key,
        Phase::Effects,
        None,
        None,
        &[callback, Effect::Retry {}],
    ))?;
    let back = storage.outbox_advance(key, Phase::Scheduler, None, None, &[]);
    refused(back, |r| matches!(r, Refusal::PhaseBackwards { .. }))?;
    ok(storage.outbox_effect_complete(effect(0)))?;
    let twice = storage.outbox_effect_complete(effect(0));
    refused(twice, |r| matches!(r, Refusal::EffectTwice(_)))?;
    let done = storage.outbox_advance(key, Phase::Done, None, None, &[]);
    refused(done, |r| matches!(r, Refusal::EffectsOpen(1)))?;
    let attempt = Attempt { number: 2, max: 3 };
    let retry = ok(storage.outbox_replacement(effect(1), None, attempt))?;
    let twice = storage.outbox_replacement(effect(1), None, attempt);
    refused(twice, |r| matches!(r, Refusal::EffectTwice(_)))?;
    let found = ok(storage.trial(retry))?;
    same(
        &(found.retry_of(), found.attempt(), found.managed),
        &(Some(fence.trial), Some(attempt), true),
    )?;
    ok(storage.outbox_advance(key, Phase::Done, None, None, &[]))?;
    let mut kept = None;
    ok(storage.read(&mut |r| kept = r.state(StateScope::Sampler(study)).cloned()))?;
    same(&kept, &Some(sampler))
}

fn scopes_hold(storage: &dyn Storage) -> Check {
    let study = study(storage)?;
    let (mine, other) = (claimed(storage, study)?, claimed(storage, study)?);
    for scope in [
        StateScope::TrialUser(other.trial),
        StateScope::Sampler(study),
    ] {
        let put = FencedMutation::PutState {
            scope,
            blob: blob("x"),
        };
        refused(storage.fenced(mine, &put), |r| {
            matches!(r, Refusal::WrongScope(_))
        })?;
    }
    let unknown = storage.put_state(StateScope::Scheduler(StudyId(9)), &blob("x"));
    refused(unknown, |r| matches!(r, Refusal::UnknownStudy(_)))?;
    let early = storage.finalized_state(mine.trial, StateScope::TrialUser(mine.trial), &blob("x"));
    refused(early, |r| matches!(r, Refusal::NotEnded(_)))?;
    ok(storage.terminal(mine, &Outcome::pruned(None), &Intent::default()))?;
    ok(storage.finalized_state(mine.trial, StateScope::TrialUser(mine.trial), &blob("x")))
}

fn reserved_keys(storage: &dyn Storage) -> Check {
    let study = study(storage)?;
    let trial = running(storage, study)?;
    let fence = claimed(storage, study)?;
    let (key, value) = ("atune:x".to_owned(), json!(1));
    let is_reserved = |r: &Refusal| matches!(r, Refusal::ReservedKey(_));
    refused(
        storage.set_study_user_attr(study, &key, &value),
        is_reserved,
    )?;
    refused(
        storage.set_trial_user_attr(trial, &key, &value),
        is_reserved,
    )?;
    refused(
        storage.fenced(fence, &FencedMutation::SetUserAttr { key, value }),
        is_reserved,
    )
}

fn changes_are_told(storage: &dyn Storage) -> Check {
    let study = study(storage)?;
    let first = running(storage, study)?;
    let second = running(storage, study)?;
    let mut told = Vec::new();
    let seq = ok(storage.changes_since(0, &mut |trial| told.push(trial.id)))?;
    same(&told, &vec![second, first])?;
    ok(storage.report(first, 1, &values(&[1.0])))?;
    told.clear();
    let next = ok(storage.changes_since(seq, &mut |trial| told.push(trial.id)))?;
    same(&(told, next), &(vec![first], seq + 1))
}

fn the_best_are_best(storage: &dyn Storage) -> Check {
    let one = study(storage)?;
    let both = [Direction::Minimize, Direction::Maximize];
    let two = ok(storage.create_study(&example_config("two", &both)))?;
    let finish = |study, result: &[f64]| -> std::result::Result<TrialId, String> {
        let trial = running(storage, study)?;
        ok(storage.set_values(trial, &values(result)))?;
        ok(storage.transition(trial, TrialState::Running, TrialState::Complete))?;
        Ok(trial)
    };
    let best = |study| {
        let mut best = Vec::new();
        ok(storage.each_best_trial(study, &mut |trial| best.push(trial.id)))?;
        Ok::<_, String>(best)
    };
    same(&best(one)?, &vec![])?;
    finish(one, &[f64::NAN])?;
    finish(one, &[3.0])?;
    let winner = finish(one, &[1.0])?;
    finish(one, &[1.0])?;
    same(&best(one)?, &vec![winner])?;
    let cheap = finish(two, &[1.0, 1.0])?;
    finish(two, &[2.0, 1.0])?;
    let good = finish(two, &[3.0, 5.0])?;
    same(&best(two)?, &vec![cheap, good])
}

fn threads_share(storage: &dyn Storage) -> Check {
    let study = study(storage)?;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    (0..50).try_for_each(|_| storage.create_trial(study, None).map(drop))
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| match worker.join() {
                Ok(result) => ok(result),
                Err(_) => Err("a worker panicked".to_owned()),
            })
    })?;
    let mut numbers = Vec::new();
    ok(storage.each_trial(study, 0..u64::MAX, &[], &mut |trial| {
        numbers.push(trial.number);
    }))?;
    same(&numbers, &(0..200).collect::<Vec<u64>>())?;
    let mut some = Vec::new();
    let waiting = [TrialState::Waiting];
    ok(storage.each_trial(study, 10..13, &waiting, &mut |trial| {
        some.push(trial.number);
    }))?;
    same(&some, &vec![10, 11, 12])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::storage::MemoryStorage;

    #[test]
    fn the_memory_storage_keeps_every_promise() {
        check(&mut || {
            let clock = Arc::new(durable::ManualClock::new(1_000_000_000_000, 0));
            Box::new(MemoryStorage::new(clock, WorkerId(0)))
        })
        .unwrap();
    }
}
