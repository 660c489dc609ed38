//! What is promised: changes share commits, keep their order, and become durable without anybody's help.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use atune_core::number::JsonF64;
use atune_core::replica::Refusal;
use atune_core::storage::Storage;
use atune_core::storage::conformance::example_param;
use atune_core::trial::{StateBlob, StateScope, StudyId, TrialState, WorkerId};
use atune_core::worker::{Worker, WorkerError, WorkerSettings};
use serde_json::json;

use crate::support::{Backend, Watched, World, complete, nothing, on_each_storage};

on_each_storage! {
    a_trial_takes_two_commits,
    all_trials_of_a_worker_are_renewed_in_one_commit,
    changes_wait_for_others_and_not_longer_than_the_settings_say,
    reports_that_nobody_flushes_become_durable_by_the_workers_thread,
    the_workers_thread_renews_its_trials,
    what_can_be_checked_is_refused_at_once_and_harms_nothing_else,
    a_gathered_change_that_is_refused_is_told_by_the_next_call_and_the_others_are_kept,
    a_storage_that_fails_for_a_time_loses_no_change_and_the_objective_is_told,
}

fn watched(world: &World) -> (Arc<Watched>, Worker) {
    let watched = Watched::new(&world.storage);
    let storage: Arc<dyn Storage> = watched.clone();
    let worker = world.worker_on(&storage, 1);
    (watched, worker)
}

fn a_trial_takes_two_commits(backend: Backend) {
    let world = World::new(backend);
    let (watched, worker) = watched(&world);
    let handle = worker
        .start(world.study, Some(1), &[example_param("x", 0.5)])
        .unwrap();
    assert_eq!(watched.commit_count(), 1);
    for step in 0..10 {
        handle.report(step, &[JsonF64(0.5)]).unwrap();
    }
    handle.set_user_attr("run", json!("trial-0.omni")).unwrap();
    handle.finish(&complete(0.5), &nothing()).unwrap();
    assert_eq!(watched.commit_count(), 2);
    let trial = world.storage.trial(handle.id()).unwrap();
    let steps: Vec<u64> = trial.reports.iter().map(|r| r.step).collect();
    assert_eq!(steps, (0..10).collect::<Vec<_>>());
    assert_eq!(trial.user_attrs().count(), 1);
}

fn all_trials_of_a_worker_are_renewed_in_one_commit(backend: Backend) {
    let world = World::new(backend);
    let (watched, worker) = watched(&world);
    let handles: Vec<_> = (0..5)
        .map(|_| worker.start(world.study, None, &[]).unwrap())
        .collect();
    handles[3].report(1, &[JsonF64(0.5)]).unwrap();
    let before = watched.commit_count();
    world.pass(Duration::from_secs(10));
    worker.tick().unwrap();
    assert_eq!(watched.commit_count(), before + 1);
    for trial in world.trials() {
        assert_eq!(trial.heartbeat_millis, Some(world.now_millis()));
    }
    assert_eq!(world.trials()[3].reports.len(), 1);
    drop(handles);
}

fn changes_wait_for_others_and_not_longer_than_the_settings_say(backend: Backend) {
    let world = World::new(backend);
    let (watched, worker) = watched(&world);
    let handle = worker.start(world.study, None, &[]).unwrap();
    handle.report(1, &[JsonF64(0.5)]).unwrap();
    world.pass(Duration::from_millis(4));
    handle.report(2, &[JsonF64(0.5)]).unwrap();
    worker.tick().unwrap();
    assert_eq!(watched.commit_count(), 1);
    world.pass(Duration::from_millis(1));
    worker.tick().unwrap();
    assert_eq!(watched.commit_count(), 2);
    assert_eq!(world.storage.trial(handle.id()).unwrap().reports.len(), 2);
}

fn reports_that_nobody_flushes_become_durable_by_the_workers_thread(backend: Backend) {
    let world = World::new(backend);
    let clock = Arc::new(durable::SystemClock::start());
    let storage = Arc::clone(&world.storage);
    let worker = Worker::new(storage, clock, WorkerId(1), WorkerSettings::default()).unwrap();
    let handle = worker.start(world.study, None, &[]).unwrap();
    for step in 1..=3 {
        handle.report(step, &[JsonF64(0.5)]).unwrap();
        let start = Instant::now();
        while (world.storage.trial(handle.id()).unwrap().reports.len() as u64) < step {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "nobody wrote the report"
            );
            std::thread::yield_now();
        }
    }
    assert!(worker.take_error().is_none());
}

fn the_workers_thread_renews_its_trials(backend: Backend) {
    let world = World::new(backend);
    let clock = Arc::new(durable::SystemClock::start());
    let settings = WorkerSettings {
        heartbeat_interval: Duration::from_millis(2),
        ..WorkerSettings::default()
    };
    let storage = Arc::clone(&world.storage);
    let worker = Worker::new(storage, clock, WorkerId(1), settings).unwrap();
    let handle = worker.start(world.study, None, &[]).unwrap();
    let start = Instant::now();
    while world.storage.trial(handle.id()).unwrap().heartbeat_seq < 5 {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "nobody renewed the trial"
        );
        std::thread::yield_now();
    }
}

fn what_can_be_checked_is_refused_at_once_and_harms_nothing_else(backend: Backend) {
    let world = World::new(backend);
    let handle = world
        .worker(1)
        .start(world.study, None, &[example_param("x", 0.5)])
        .unwrap();
    let refused = |result: Result<(), WorkerError>| match result {
        Err(WorkerError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    let two = [JsonF64(1.0), JsonF64(2.0)];
    assert!(matches!(
        refused(handle.report(1, &two)),
        Refusal::ValueCount { .. }
    ));
    let reserved = handle.set_user_attr("atune:x", json!(1));
    assert!(matches!(refused(reserved), Refusal::ReservedKey(_)));
    let again = handle.set_params(&[example_param("y", 0.5), example_param("x", 0.5)]);
    assert!(matches!(refused(again), Refusal::ParamTaken(_)));
    let outside = handle.set_params(&[example_param("y", 7.0)]);
    assert!(matches!(refused(outside), Refusal::BadParam { .. }));
    let blob = StateBlob {
        kind: "k".to_owned(),
        version: 1,
        data: json!(1),
    };
    let foreign = handle.put_state(StateScope::Sampler(StudyId(0)), blob);
    assert!(matches!(refused(foreign), Refusal::WrongScope(_)));
    handle.set_params(&[example_param("y", 0.5)]).unwrap();
    handle.finish(&complete(0.5), &nothing()).unwrap();
    assert_eq!(world.storage.trial(handle.id()).unwrap().params.len(), 2);
}

fn a_gathered_change_that_is_refused_is_told_by_the_next_call_and_the_others_are_kept(
    backend: Backend,
) {
    let world = World::new(backend);
    let worker = world.worker(1);
    let handle = worker.start(world.study, None, &[]).unwrap();
    handle.set_params(&[example_param("x", 0.5)]).unwrap();
    handle.report(1, &[JsonF64(0.5)]).unwrap();
    // Somebody who shows the same fence is faster with the parameter.
    let params = vec![example_param("x", 0.25)];
    let mutation = atune_core::lifecycle::FencedMutation::ParamsBatch { params };
    world.storage.fenced(handle.fence(), &mutation).unwrap();
    match handle.finish(&complete(0.5), &nothing()) {
        Err(WorkerError::NotKept { refusals, .. }) => {
            assert_eq!(refusals, [Refusal::ParamTaken("x".to_owned())]);
        }
        other => panic!("{other:?}"),
    }
    let trial = world.storage.trial(handle.id()).unwrap();
    assert_eq!(
        (trial.state, trial.reports.len()),
        (TrialState::Complete, 1)
    );
}

fn a_storage_that_fails_for_a_time_loses_no_change_and_the_objective_is_told(backend: Backend) {
    let world = World::new(backend);
    let (watched, worker) = watched(&world);
    let handle = worker.start(world.study, None, &[]).unwrap();
    handle.report(1, &[JsonF64(0.1)]).unwrap();
    watched.is_broken.store(true, Ordering::SeqCst);
    world.pass(Duration::from_millis(5));
    assert!(matches!(worker.tick(), Err(WorkerError::Storage(_))));
    assert!(matches!(
        handle.report(2, &[JsonF64(0.2)]),
        Err(WorkerError::Storage(_))
    ));
    handle.report(2, &[JsonF64(0.2)]).unwrap();
    let outcome = complete(0.2);
    assert!(matches!(
        handle.finish(&outcome, &nothing()),
        Err(WorkerError::Storage(_))
    ));
    watched.is_broken.store(false, Ordering::SeqCst);
    handle.finish(&outcome, &nothing()).unwrap();
    let steps: Vec<u64> = world
        .storage
        .trial(handle.id())
        .unwrap()
        .reports
        .iter()
        .map(|r| r.step)
        .collect();
    assert_eq!(steps, [1, 2]);
}
