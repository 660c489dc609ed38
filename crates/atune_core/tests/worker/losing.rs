//! What is promised: a worker that lost a trial is told so and lives; a result is never lost silently.

use std::sync::Arc;
use std::time::Duration;

use atune_core::lifecycle::Outcome;
use atune_core::number::JsonF64;
use atune_core::replica::Refusal;
use atune_core::storage::StorageError;
use atune_core::storage::conformance::example_param;
use atune_core::trial::{ScopedBlob, StateBlob, StateScope, TrialId, TrialState, WorkerId};
use atune_core::worker::{Lost, Worker, WorkerError, WorkerSettings, fail_stale};
use serde_json::json;

use crate::support::{Backend, World, complete, nothing, on_each_storage};

on_each_storage! {
    a_worker_that_was_silent_is_told_in_its_objective_and_goes_on_with_the_next_trial,
    a_result_that_comes_too_late_is_in_the_error_and_in_an_attribute_of_the_study,
    a_trial_that_another_worker_has_names_that_worker,
    heartbeats_keep_a_trial_for_longer_than_the_grace,
    a_worker_that_slept_renews_its_own_trials_before_it_looks_for_stale_ones,
    reservations_that_nobody_claimed_are_never_stale,
    dropping_a_handle_fails_its_trial_with_the_reason,
    a_paused_trial_goes_on_at_another_worker_with_its_params_and_state,
    a_final_value_that_is_not_a_number_fails_the_trial_and_a_report_of_one_is_kept,
    an_outcome_that_is_refused_fails_the_trial_with_the_reason,
    a_worker_is_dropped_promptly_and_its_handles_may_outlive_it,
    a_lost_observation_is_no_error_of_the_search_for_stale_trials,
}

const GRACE: Duration = Duration::from_mins(1);
const BEYOND: Duration = Duration::from_secs(61);

fn is_fence_lost<T>(result: Result<T, WorkerError>) -> Lost {
    match result {
        Err(WorkerError::FenceLost { why, .. }) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the fence holds"),
    }
}

fn a_worker_that_was_silent_is_told_in_its_objective_and_goes_on_with_the_next_trial(
    backend: Backend,
) {
    let world = World::new(backend);
    let (sleeper, other) = (world.worker(1), world.worker(2));
    let handle = sleeper.start(world.study, Some(10), &[]).unwrap();
    let watching = other.start(world.study, Some(10), &[]).unwrap();
    handle.report(1, &[JsonF64(0.5)]).unwrap();
    world.pass(BEYOND);
    other.tick().unwrap();
    assert_eq!(world.state_of(handle.id()), TrialState::Failed);
    assert_eq!(world.state_of(watching.id()), TrialState::Running);

    sleeper.tick().unwrap();
    let why = is_fence_lost(handle.report(2, &[JsonF64(0.4)]));
    assert!(
        matches!(&why, Lost::Failed { reason } if reason.contains("61000 ms")),
        "{why}"
    );
    assert_eq!(is_fence_lost(handle.flush()), why);
    let told = handle.set_user_attr("a", json!(1)).unwrap_err().to_string();
    assert!(
        told.starts_with("trial 0 was taken from this worker: it was failed: "),
        "{told}"
    );
    drop(handle);

    let next = sleeper.start(world.study, Some(10), &[]).unwrap();
    next.report(1, &[JsonF64(0.3)]).unwrap();
    assert_eq!(
        next.finish(&complete(0.3), &nothing()).unwrap(),
        TrialState::Complete
    );
    drop(watching);
}

fn a_result_that_comes_too_late_is_in_the_error_and_in_an_attribute_of_the_study(backend: Backend) {
    let world = World::new(backend);
    let worker = world.worker(1);
    let handle = worker.start(world.study, None, &[]).unwrap();
    world.pass(BEYOND);
    let failed = fail_stale(
        world.storage.as_ref(),
        world.study,
        world.now_millis(),
        60_000,
        &nothing(),
    );
    assert_eq!(failed.unwrap(), [handle.id()]);
    let outcome = complete(0.25);
    match handle.finish(&outcome, &nothing()) {
        Err(WorkerError::FenceLost { trial, late, .. }) => {
            assert_eq!((trial, late), (handle.id(), Some(Box::new(outcome))));
        }
        other => panic!("{other:?}"),
    }
    let note = world.study_attr("late-result/0/1").unwrap();
    let expected = json!({"worker": 1, "state": "Complete", "values": [0.25], "error": null});
    assert_eq!(note, expected);
    assert_eq!(world.state_of(handle.id()), TrialState::Failed);
}

fn a_trial_that_another_worker_has_names_that_worker(backend: Backend) {
    let world = World::new(backend);
    let (first, second) = (world.worker(1), world.worker(2));
    let handle = first.start(world.study, None, &[]).unwrap();
    // Somebody who holds the fence, a tool perhaps, sets the trial aside.
    let pause = atune_core::lifecycle::FencedMutation::Pause { state: None };
    world.storage.fenced(handle.fence(), &pause).unwrap();
    let again = second.claim(handle.id(), &[]).unwrap();
    let why = is_fence_lost(handle.finish(&complete(1.0), &nothing()));
    assert_eq!(
        why,
        Lost::Claimed {
            worker: WorkerId(2),
            epoch: 2
        }
    );
    drop(handle);
    assert_eq!(world.state_of(again.id()), TrialState::Running);
    again.finish(&complete(2.0), &nothing()).unwrap();
}

fn heartbeats_keep_a_trial_for_longer_than_the_grace(backend: Backend) {
    let world = World::new(backend);
    let (worker, other) = (world.worker(1), world.worker(2));
    let handle = worker.start(world.study, None, &[]).unwrap();
    for _ in 0..20 {
        world.pass(Duration::from_secs(10));
        worker.tick().unwrap();
        let now = world.now_millis();
        let failed = fail_stale(world.storage.as_ref(), world.study, now, 60_000, &nothing());
        assert_eq!(failed.unwrap(), []);
    }
    other.tick().unwrap();
    assert_eq!(world.storage.trial(handle.id()).unwrap().heartbeat_seq, 21);
    handle.finish(&complete(1.0), &nothing()).unwrap();
}

fn a_worker_that_slept_renews_its_own_trials_before_it_looks_for_stale_ones(backend: Backend) {
    let world = World::new(backend);
    let worker = world.worker(1);
    let handle = worker.start(world.study, None, &[]).unwrap();
    world.pass(10 * GRACE);
    worker.tick().unwrap();
    handle.finish(&complete(1.0), &nothing()).unwrap();
}

fn reservations_that_nobody_claimed_are_never_stale(backend: Backend) {
    let world = World::new(backend);
    let waiting = world.storage.reserve(world.study, None, None).unwrap();
    world.pass(100 * GRACE);
    let now = world.now_millis();
    let failed = fail_stale(world.storage.as_ref(), world.study, now, 60_000, &nothing());
    assert_eq!(failed.unwrap(), []);
    let worker = world.worker(1);
    let claimed = worker.claim_waiting(world.study).unwrap().unwrap();
    assert_eq!(claimed.id(), waiting);
    assert!(worker.claim_waiting(world.study).unwrap().is_none());
}

fn dropping_a_handle_fails_its_trial_with_the_reason(backend: Backend) {
    let world = World::new(backend);
    let worker = world.worker(1);
    let dropped = worker.start(world.study, None, &[]).unwrap();
    dropped.report(1, &[JsonF64(0.5)]).unwrap();
    let id = dropped.id();
    drop(dropped);
    let trial = world.storage.trial(id).unwrap();
    assert_eq!(trial.state, TrialState::Failed);
    assert_eq!(trial.error(), Some("its worker dropped it"));
    assert_eq!(trial.reports.len(), 1);

    let panicking = worker.start(world.study, None, &[]).unwrap();
    let id = panicking.id();
    std::thread::spawn(move || {
        let _held = panicking;
        std::panic::resume_unwind(Box::new("an objective's panic"));
    })
    .join()
    .unwrap_err();
    assert_eq!(
        world.storage.trial(id).unwrap().error(),
        Some("its objective panicked")
    );
}

fn a_paused_trial_goes_on_at_another_worker_with_its_params_and_state(backend: Backend) {
    let world = World::new(backend);
    let (first, second) = (world.worker(1), world.worker(2));
    let handle = first
        .start(world.study, None, &[example_param("x", 0.25)])
        .unwrap();
    let id = handle.id();
    let scope = StateScope::TrialUser(id);
    let blob = |data: u64| StateBlob {
        kind: "weights".to_owned(),
        version: 1,
        data: json!(data),
    };
    handle.set_params(&[example_param("y", 0.5)]).unwrap();
    handle.report(1, &[JsonF64(0.9)]).unwrap();
    let (foreign, own) = (
        StateScope::TrialUser(TrialId(9)),
        ScopedBlob {
            scope,
            blob: blob(7),
        },
    );
    assert!(matches!(
        handle.pause(Some(ScopedBlob {
            scope: foreign,
            blob: blob(1)
        })),
        Err(WorkerError::Refused(Refusal::WrongScope(_)))
    ));
    handle.pause(Some(own)).unwrap();
    assert!(matches!(
        handle.report(2, &[JsonF64(0.8)]),
        Err(WorkerError::Over { .. })
    ));
    drop(handle);
    assert_eq!(world.state_of(id), TrialState::Paused);

    // Long silence of a trial that nobody owns does it no harm.
    world.pass(10 * GRACE);
    second.tick().unwrap();
    let again = second.claim(id, &[example_param("z", 0.75)]).unwrap();
    let names: Vec<&str> = again
        .before()
        .params
        .iter()
        .map(|p| p.key.name.as_str())
        .collect();
    assert_eq!((names, again.before().reports.len()), (vec!["x", "y"], 1));
    assert_eq!(again.state(scope).unwrap(), Some(blob(7)));
    assert!(matches!(
        again.set_params(&[example_param("x", 0.1)]),
        Err(WorkerError::Refused(Refusal::ParamTaken(_)))
    ));
    again.put_state(scope, blob(8)).unwrap();
    again.finish(&complete(0.1), &nothing()).unwrap();
    let trial = world.storage.trial(id).unwrap();
    assert_eq!((trial.epoch, trial.params.len()), (2, 3));
    assert_eq!(again.state(scope).unwrap(), Some(blob(8)));
}

fn a_final_value_that_is_not_a_number_fails_the_trial_and_a_report_of_one_is_kept(
    backend: Backend,
) {
    let world = World::new(backend);
    let handle = world.worker(1).start(world.study, None, &[]).unwrap();
    for value in [f64::NAN, f64::INFINITY] {
        handle.report(1, &[JsonF64(value)]).unwrap();
    }
    assert_eq!(
        handle.finish(&complete(f64::NAN), &nothing()).unwrap(),
        TrialState::Failed
    );
    let trial = world.storage.trial(handle.id()).unwrap();
    assert_eq!(trial.error(), Some("final value 0 is not a number"));
    assert!(trial.reports[0].values[0].0.is_nan());
    assert!(trial.reports[1].values[0].0.is_infinite());
}

fn an_outcome_that_is_refused_fails_the_trial_with_the_reason(backend: Backend) {
    let world = World::new(backend);
    let handle = world.worker(1).start(world.study, None, &[]).unwrap();
    let two = Outcome::complete(vec![JsonF64(1.0), JsonF64(2.0)]);
    assert!(matches!(
        handle.finish(&two, &nothing()),
        Err(WorkerError::Refused(Refusal::ValueCount {
            expected: 1,
            found: 2
        }))
    ));
    let trial = world.storage.trial(handle.id()).unwrap();
    assert_eq!(trial.state, TrialState::Failed);
    assert_eq!(
        trial.error(),
        Some("its outcome was refused: 2 values for 1 directions")
    );
    assert_eq!(world.study_attr("late-result/0/1"), None);
}

fn a_worker_is_dropped_promptly_and_its_handles_may_outlive_it(backend: Backend) {
    let world = World::new(backend);
    let clock = Arc::new(durable::SystemClock::start());
    let settings = WorkerSettings {
        gather: Duration::from_hours(1),
        ..WorkerSettings::default()
    };
    let storage = Arc::clone(&world.storage);
    let worker = Worker::new(storage, clock, WorkerId(1), settings).unwrap();
    let handle = worker.start(world.study, None, &[]).unwrap();
    handle.report(1, &[JsonF64(0.5)]).unwrap();
    // Were it not woken, the thread would sleep for ten seconds and the test be found slow.
    drop(worker);
    assert_eq!(world.storage.trial(handle.id()).unwrap().reports.len(), 1);
    handle.report(2, &[JsonF64(0.4)]).unwrap();
    assert_eq!(world.storage.trial(handle.id()).unwrap().reports.len(), 2);
    handle.finish(&complete(0.4), &nothing()).unwrap();
}

fn a_lost_observation_is_no_error_of_the_search_for_stale_trials(backend: Backend) {
    let world = World::new(backend);
    let worker = world.worker(1);
    let handles: Vec<_> = (0..8)
        .map(|_| worker.start(world.study, None, &[]).unwrap())
        .collect();
    world.pass(BEYOND);
    let now = world.now_millis();
    let failed: usize = std::thread::scope(|scope| {
        let search = || {
            fail_stale(world.storage.as_ref(), world.study, now, 60_000, &nothing())
                .map(|failed| failed.len())
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(search)).collect();
        let found: Result<Vec<usize>, StorageError> =
            threads.into_iter().map(|t| t.join().unwrap()).collect();
        found.unwrap().iter().sum()
    });
    assert_eq!(failed, 8);
    drop(handles);
}
