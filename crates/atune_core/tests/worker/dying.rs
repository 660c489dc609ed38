//! What is promised: a worker or driver may die between any two commits, or before it hears of one, and
//! another brings everything to its end. Attacked by a storage that fails at the n-th commit, for every n.

use std::sync::Arc;
use std::time::Duration;

use atune_core::lifecycle::Outcome;
use atune_core::outbox::{Attempt, Effect};
use atune_core::storage::Storage;
use atune_core::storage::conformance::example_param;
use atune_core::trial::{StateScope, TrialState};
use atune_core::worker::{Outboxes, RetryPolicy, WorkerError, fail_stale};

use crate::support::{
    Backend, Counting, Death, Watched, World, all_of_it, complete, count_of, nothing,
    on_each_storage,
};

on_each_storage! {
    a_driver_that_dies_between_any_two_commits_is_followed_by_another,
    a_worker_that_dies_at_any_commit_of_a_trial_leaves_one_that_is_retried_once_or_complete,
    finishing_again_after_an_answer_that_got_lost_is_no_late_result,
}

const RETRY: RetryPolicy = RetryPolicy { max_attempts: 2 };

fn callbacks() -> Counting {
    let effects = vec![
        Effect::Callback {
            name: "report".to_owned(),
            payload: 1.into(),
        },
        Effect::StopStudy {
            reason: "enough".to_owned(),
        },
    ];
    Counting {
        effects,
        ..Counting::default()
    }
}

fn a_driver_that_dies_between_any_two_commits_is_followed_by_another(backend: Backend) {
    for death in [Death::Before, Death::After] {
        let mut commits = 0;
        loop {
            let world = World::new(backend);
            let key = world.failed_trial(&all_of_it());
            let dying: Arc<dyn Storage> = Watched::dying(&world.storage, commits, death);
            let mut first = callbacks();
            let is_alive = Outboxes::new(dying, world.study, RETRY)
                .drive(key, &mut first)
                .is_ok();
            let mut second = callbacks();
            let storage = Arc::clone(&world.storage);
            let mut driver = Outboxes::new(storage, world.study, RETRY);
            assert!(driver.drive_open(u64::MAX, &mut second).unwrap().is_empty());

            world.assert_all_done();
            let retries = world.retries();
            assert_eq!(retries.len(), 1, "after {commits} commits");
            assert_eq!(retries[0].retry_of(), Some(key.trial));
            assert_eq!(retries[0].attempt(), Some(Attempt { number: 2, max: 2 }));
            assert_eq!(world.study_attr("stopped"), Some("enough".into()));
            for name in ["report", "tell"] {
                let count = |seen: &Counting| seen.called.iter().filter(|n| *n == name).count();
                let calls = count(&first) + count(&second);
                assert!((1..=2).contains(&calls), "{name} was called {calls} times");
            }
            let scope = StateScope::Sampler(world.study);
            let mut sampled = 0;
            world
                .storage
                .read(&mut |r| sampled = count_of(r.state(scope)))
                .unwrap();
            assert_eq!(sampled, 1);
            if is_alive {
                // Sampler, scheduler, and four effects, the last of which closes the outbox.
                assert_eq!(commits, 6);
                break;
            }
            commits += 1;
        }
    }
}

fn a_worker_that_dies_at_any_commit_of_a_trial_leaves_one_that_is_retried_once_or_complete(
    backend: Backend,
) {
    for death in [Death::Before, Death::After] {
        for commits in 0..3 {
            let world = World::new(backend);
            let dying: Arc<dyn Storage> = Watched::dying(&world.storage, commits, death);
            let worker = world.worker_on(&dying, 1);
            if let Ok(trial) = worker.start(world.study, Some(1), &[example_param("x", 0.5)]) {
                trial.report(1, &[0.5.into()]).unwrap();
                trial.finish(&complete(0.5), &nothing()).ok();
                std::mem::forget(trial);
            }
            world.pass(Duration::from_secs(61));
            let now = world.now_millis();
            fail_stale(world.storage.as_ref(), world.study, now, 60_000, &nothing()).unwrap();
            let storage = Arc::clone(&world.storage);
            Outboxes::new(storage, world.study, RETRY)
                .drive_open(u64::MAX, &mut Counting::default())
                .unwrap();
            let trials = world.trials();
            let Some(first) = trials.first() else {
                assert_eq!((commits, death), (0, Death::Before));
                continue;
            };
            match first.state {
                TrialState::Complete => {
                    assert_eq!((first.reports.len(), trials.len()), (1, 1));
                }
                TrialState::Failed => {
                    assert_eq!((first.reports.len(), trials.len()), (0, 2));
                    assert_eq!(trials[1].retry_of(), Some(first.id));
                }
                other => panic!("{other:?} after {commits} commits"),
            }
        }
    }
}

fn finishing_again_after_an_answer_that_got_lost_is_no_late_result(backend: Backend) {
    let world = World::new(backend);
    let storage: Arc<dyn Storage> = Watched::dying(&world.storage, 1, Death::Once);
    let worker = world.worker_on(&storage, 1);
    let trial = worker.start(world.study, None, &[]).unwrap();
    trial.report(1, &[0.5.into()]).unwrap();
    let lost = trial.finish(&complete(0.5), &nothing());
    assert!(matches!(lost, Err(WorkerError::Storage(_))));
    assert_eq!(
        trial.finish(&complete(0.5), &nothing()).unwrap(),
        TrialState::Complete
    );
    assert_eq!(world.study_attr("late-result/0/1"), None);
    assert_eq!(world.storage.trial(trial.id()).unwrap().reports.len(), 1);
    let again = trial.finish(&Outcome::failed("x"), &nothing());
    assert!(matches!(again, Err(WorkerError::Over { .. })));
}
