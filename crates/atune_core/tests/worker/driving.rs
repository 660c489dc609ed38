//! What is promised: whatever an ending left to do is done by whoever comes along, and replacements once.

use std::sync::Arc;
use std::time::Duration;

use atune_core::lifecycle::Outcome;
use atune_core::outbox::{Attempt, Effect, Intent, OutboxKey};
use atune_core::replica::Refusal;
use atune_core::space::ParamValue;
use atune_core::storage::Storage;
use atune_core::storage::conformance::example_param;
use atune_core::trial::{StateScope, TrialId, TrialState};
use atune_core::worker::{Outboxes, RetryPolicy, WorkerError, fail_stale};
use serde_json::{Value, json};

use crate::support::{
    Backend, Counting, Watched, World, all_of_it, complete, count_of, nothing, on_each_storage,
};

on_each_storage! {
    a_killed_worker_is_failed_as_stale_and_retried_once_though_eight_drive_its_outbox,
    an_ending_that_leaves_nothing_to_do_is_closed_in_one_commit_and_asks_nobody,
    only_who_the_intent_names_is_asked_and_in_order,
    no_ending_is_lost_to_the_samplers_state_when_eight_drive_different_outboxes,
    retries_stop_at_the_maximum_and_count_once_against_the_budget,
    a_retry_that_a_scheduler_asks_for_beyond_the_maximum_is_acknowledged_without_a_replacement,
    a_retry_that_scheduler_and_policy_both_ask_for_happens_once,
    only_failed_trials_are_retried,
    an_exploit_starts_with_the_parameters_of_its_source,
    an_exploit_of_a_trial_that_does_not_exist_is_told_and_holds_nothing_up,
    a_stopped_study_starts_no_trials_until_it_goes_on_again,
    a_callback_that_fails_is_called_again_by_the_next_driver,
    young_endings_are_left_to_those_who_ended_them,
}

const THREE: RetryPolicy = RetryPolicy { max_attempts: 3 };

fn outboxes(world: &World, retry: RetryPolicy) -> Outboxes {
    Outboxes::new(Arc::clone(&world.storage), world.study, retry)
}

fn only_scheduler() -> Intent {
    Intent {
        scheduler: true,
        ..Intent::default()
    }
}

fn a_killed_worker_is_failed_as_stale_and_retried_once_though_eight_drive_its_outbox(
    backend: Backend,
) {
    let world = World::new(backend);
    let killed = world.worker(1);
    let handle = killed
        .start(world.study, Some(10), &[example_param("x", 0.25)])
        .unwrap();
    let id = handle.id();
    std::mem::forget(handle);
    std::mem::forget(killed);
    world.pass(Duration::from_secs(61));
    let now = world.now_millis();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let storage = world.storage.as_ref();
                fail_stale(storage, world.study, now, 60_000, &all_of_it()).unwrap();
                let mut driver = outboxes(&world, THREE);
                let undone = driver.drive_open(u64::MAX, &mut Counting::default());
                assert!(undone.unwrap().is_empty());
            });
        }
    });
    assert_eq!(world.state_of(id), TrialState::Failed);
    world.assert_all_done();
    let retries = world.retries();
    assert_eq!(retries.len(), 1);
    let first = &retries[0];
    let attempt = Attempt { number: 2, max: 3 };
    assert_eq!(
        (first.retry_of(), first.attempt()),
        (Some(id), Some(attempt))
    );
    let template = first.template().unwrap();
    assert_eq!(template.parent, Some(id));
    assert_eq!(template.fixed["x"], ParamValue::F64(0.25.into()));
}

fn an_ending_that_leaves_nothing_to_do_is_closed_in_one_commit_and_asks_nobody(backend: Backend) {
    let world = World::new(backend);
    let key = world.failed_trial(&nothing());
    let watched = Watched::new(&world.storage);
    let mut seen = Counting::default();
    let storage: Arc<dyn Storage> = watched.clone();
    Outboxes::new(storage, world.study, RetryPolicy::default())
        .drive(key, &mut seen)
        .unwrap();
    world.assert_all_done();
    assert_eq!(watched.commit_count(), 1);
    assert_eq!((seen.sampled, seen.scheduled, seen.called.len()), (0, 0, 0));
}

fn only_who_the_intent_names_is_asked_and_in_order(backend: Backend) {
    for (sampler, scheduler) in [(true, false), (false, true), (true, true)] {
        let world = World::new(backend);
        let callbacks = vec!["a".to_owned(), "b".to_owned()];
        let key = world.failed_trial(&Intent {
            sampler,
            scheduler,
            callbacks,
        });
        let mut seen = Counting::default();
        outboxes(&world, RetryPolicy::default())
            .drive(key, &mut seen)
            .unwrap();
        assert_eq!(
            (seen.sampled, seen.scheduled),
            (u64::from(sampler), u64::from(scheduler))
        );
        assert_eq!(seen.called, ["a", "b"]);
        world.assert_all_done();
    }
}

fn no_ending_is_lost_to_the_samplers_state_when_eight_drive_different_outboxes(backend: Backend) {
    let world = World::new(backend);
    let intent = Intent {
        sampler: true,
        ..Intent::default()
    };
    let keys: Vec<OutboxKey> = (0..80).map(|_| world.failed_trial(&intent)).collect();
    std::thread::scope(|scope| {
        for keys in keys.chunks(10) {
            let world = &world;
            scope.spawn(move || {
                let outboxes = outboxes(world, RetryPolicy::default());
                for key in keys {
                    outboxes.drive(*key, &mut Counting::default()).unwrap();
                }
            });
        }
    });
    world.assert_all_done();
    let mut count = 0;
    let scope = StateScope::Sampler(world.study);
    world
        .storage
        .read(&mut |replica| count = count_of(replica.state(scope)))
        .unwrap();
    assert_eq!(count, 80);
}

fn retries_stop_at_the_maximum_and_count_once_against_the_budget(backend: Backend) {
    let world = World::new(backend);
    let worker = world.worker(1);
    let mut driver = outboxes(&world, THREE);
    let mut seen = Counting::default();
    let mut next = Some(
        worker
            .start(world.study, Some(1), &[example_param("x", 0.5)])
            .unwrap(),
    );
    let mut attempts = 0;
    while let Some(trial) = next {
        attempts += 1;
        // Attempts that fail before they set a parameter hand on what they were given.
        trial.finish(&Outcome::failed("boom"), &nothing()).unwrap();
        driver.drive_open(u64::MAX, &mut seen).unwrap();
        next = worker.claim_waiting(world.study).unwrap();
    }
    assert_eq!(attempts, 3);
    let trials = world.trials();
    let sources: Vec<_> = trials.iter().map(|t| t.retry_of().map(|id| id.0)).collect();
    assert_eq!(sources, [None, Some(0), Some(1)]);
    for retry in &trials[1..] {
        assert_eq!(
            retry.template().unwrap().fixed["x"],
            ParamValue::F64(0.5.into())
        );
    }
    let over = worker.start(world.study, Some(1), &[]).unwrap_err();
    assert!(matches!(
        over,
        WorkerError::Refused(Refusal::OverBudget { count: 1, .. })
    ));
    world.assert_all_done();
}

fn a_retry_that_a_scheduler_asks_for_beyond_the_maximum_is_acknowledged_without_a_replacement(
    backend: Backend,
) {
    let world = World::new(backend);
    let key = world.failed_trial(&only_scheduler());
    let mut seen = Counting {
        effects: vec![Effect::Retry {}],
        ..Counting::default()
    };
    outboxes(&world, RetryPolicy::default())
        .drive(key, &mut seen)
        .unwrap();
    world.assert_all_done();
    assert_eq!(world.trials().len(), 1);
}

fn a_retry_that_scheduler_and_policy_both_ask_for_happens_once(backend: Backend) {
    let world = World::new(backend);
    let key = world.failed_trial(&only_scheduler());
    let mut seen = Counting {
        effects: vec![Effect::Retry {}],
        ..Counting::default()
    };
    outboxes(&world, THREE).drive(key, &mut seen).unwrap();
    assert_eq!(world.retries().len(), 1);
}

fn only_failed_trials_are_retried(backend: Backend) {
    let world = World::new(backend);
    let worker = world.worker(1);
    for outcome in [complete(0.5), Outcome::pruned(None)] {
        worker
            .start(world.study, None, &[])
            .unwrap()
            .finish(&outcome, &all_of_it())
            .unwrap();
    }
    outboxes(&world, THREE)
        .drive_open(u64::MAX, &mut Counting::default())
        .unwrap();
    world.assert_all_done();
    assert_eq!(world.trials().len(), 2);
}

fn an_exploit_starts_with_the_parameters_of_its_source(backend: Backend) {
    let world = World::new(backend);
    let source = world.worker(1).start(world.study, None, &[]).unwrap();
    source.finish(&complete(0.1), &nothing()).unwrap();
    let key = world.failed_trial(&only_scheduler());
    let params = [("x".to_owned(), ParamValue::F64(0.75.into()))];
    let effect = Effect::Exploit {
        source: source.id(),
        params: params.clone().into(),
    };
    let mut seen = Counting {
        effects: vec![effect],
        ..Counting::default()
    };
    outboxes(&world, RetryPolicy::default())
        .drive_open(u64::MAX, &mut seen)
        .unwrap();
    world.assert_all_done();
    let next = world.worker(2).claim_waiting(world.study).unwrap().unwrap();
    let template = next.before().template().unwrap();
    assert_eq!(
        (template.parent, &template.fixed),
        (Some(source.id()), &params.into())
    );
    assert_eq!(next.before().retry_of(), None);
    assert!(next.id() > key.trial);
}

fn an_exploit_of_a_trial_that_does_not_exist_is_told_and_holds_nothing_up(backend: Backend) {
    let world = World::new(backend);
    let key = world.failed_trial(&only_scheduler());
    let effect = Effect::Exploit {
        source: TrialId(99),
        params: [].into(),
    };
    let mut seen = Counting {
        effects: vec![effect],
        ..Counting::default()
    };
    let undone = outboxes(&world, RetryPolicy::default())
        .drive(key, &mut seen)
        .unwrap();
    assert_eq!(undone.len(), 1);
    assert_eq!(undone[0].why.to_string(), "no trial 99");
    world.assert_all_done();
}

fn a_stopped_study_starts_no_trials_until_it_goes_on_again(backend: Backend) {
    let world = World::new(backend);
    let worker = world.worker(1);
    let paused = worker.start(world.study, None, &[]).unwrap();
    paused.pause(None).unwrap();
    let waiting = world.storage.reserve(world.study, None, None).unwrap();
    let key = world.failed_trial(&only_scheduler());
    let effects = vec![Effect::StopStudy {
        reason: "good enough".to_owned(),
    }];
    let mut seen = Counting {
        effects,
        ..Counting::default()
    };
    outboxes(&world, RetryPolicy::default())
        .drive(key, &mut seen)
        .unwrap();
    world.assert_all_done();
    assert_eq!(world.study_attr("stopped"), Some(json!("good enough")));

    let is_stopped = |error: WorkerError| matches!(error, WorkerError::Stopped { reason, .. } if reason == "good enough");
    assert!(is_stopped(
        worker.start(world.study, None, &[]).unwrap_err()
    ));
    assert!(is_stopped(worker.claim_waiting(world.study).unwrap_err()));
    assert!(is_stopped(worker.claim(waiting, &[]).unwrap_err()));
    assert_eq!(world.trials().len(), 3);
    // It was started before.
    worker
        .claim(paused.id(), &[])
        .unwrap()
        .finish(&complete(1.0), &nothing())
        .unwrap();

    world
        .storage
        .set_study_user_attr(world.study, "stopped", &Value::Null)
        .unwrap();
    assert_eq!(
        worker.claim_waiting(world.study).unwrap().unwrap().id(),
        waiting
    );
}

fn a_callback_that_fails_is_called_again_by_the_next_driver(backend: Backend) {
    let world = World::new(backend);
    world.failed_trial(&all_of_it());
    let mut failing = Counting {
        fails: true,
        ..Counting::default()
    };
    let mut driver = outboxes(&world, THREE);
    let undone = driver.drive_open(u64::MAX, &mut failing).unwrap();
    assert_eq!((undone.len(), undone[0].effect.index), (1, 0));
    assert_eq!(undone[0].why.to_string(), "unreachable");
    // What else there was to do was done.
    assert_eq!(world.retries().len(), 1);
    let mut seen = Counting::default();
    assert!(driver.drive_open(u64::MAX, &mut seen).unwrap().is_empty());
    assert_eq!(
        (seen.sampled, seen.called.as_slice()),
        (0, ["tell".to_owned()].as_slice())
    );
    world.assert_all_done();
    let mut nobody = Counting::default();
    assert!(driver.drive_open(u64::MAX, &mut nobody).unwrap().is_empty());
    assert!(nobody.called.is_empty());
}

fn young_endings_are_left_to_those_who_ended_them(backend: Backend) {
    let world = World::new(backend);
    let ended = world.now_millis();
    world.failed_trial(&all_of_it());
    let mut driver = outboxes(&world, THREE);
    let mut seen = Counting::default();
    driver.drive_open(ended - 1, &mut seen).unwrap();
    assert_eq!(seen.sampled, 0);
    driver.drive_open(ended, &mut seen).unwrap();
    assert_eq!(seen.sampled, 1);
    world.assert_all_done();
}
