//! What is promised: any number of workers share a study, its budget is exact and its numbers have no gaps.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use atune_core::replica::Refusal;
use atune_core::space::{ParamValue, Template};
use atune_core::storage::conformance::example_param;
use atune_core::trial::{TrialState, WorkerId};
use atune_core::worker::{Worker, WorkerError, WorkerSettings};

use crate::support::{Backend, World, complete, nothing, on_each_storage};

on_each_storage! {
    eight_workers_start_exactly_the_budget_and_numbers_have_no_gaps,
    the_threads_of_one_worker_share_it,
    the_workers_thread_and_the_objective_write_one_trial_without_losing_its_order,
    each_waiting_trial_is_taken_once_and_those_with_a_template_come_first,
}

fn with_thread(world: &World, id: u64) -> Worker {
    let clock = Arc::new(durable::SystemClock::start());
    let storage = Arc::clone(&world.storage);
    Worker::new(storage, clock, WorkerId(id), WorkerSettings::default()).unwrap()
}

fn eight_workers_start_exactly_the_budget_and_numbers_have_no_gaps(backend: Backend) {
    let world = World::new(backend);
    let started: usize = std::thread::scope(|scope| {
        let run = |id: u64| {
            let worker = with_thread(&world, id);
            let mut count = 0;
            for _ in 0..50 {
                match worker.start(world.study, Some(200), &[example_param("x", 0.5)]) {
                    Ok(trial) => {
                        trial.report(1, &[0.5.into()]).unwrap();
                        trial.finish(&complete(0.5), &nothing()).unwrap();
                        count += 1;
                    }
                    Err(WorkerError::Refused(Refusal::OverBudget { count: 200, .. })) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            count
        };
        let threads: Vec<_> = (1..=8).map(|id| scope.spawn(move || run(id))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(started, 200);
    let trials = world.trials();
    let numbers: Vec<u64> = trials.iter().map(|t| t.number).collect();
    assert_eq!(numbers, (0..200).collect::<Vec<_>>());
    for trial in trials {
        assert_eq!(
            (trial.state, trial.reports.len()),
            (TrialState::Complete, 1)
        );
    }
}

fn the_threads_of_one_worker_share_it(backend: Backend) {
    let world = World::new(backend);
    let worker = with_thread(&world, 1);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Ok(trial) = worker.start(world.study, Some(40), &[]) {
                    trial.finish(&complete(0.5), &nothing()).unwrap();
                }
            });
        }
    });
    assert_eq!(world.trials().len(), 40);
}

fn the_workers_thread_and_the_objective_write_one_trial_without_losing_its_order(backend: Backend) {
    let world = World::new(backend);
    let clock = Arc::new(durable::SystemClock::start());
    let settings = WorkerSettings {
        heartbeat_interval: Duration::from_millis(1),
        gather: Duration::from_nanos(1),
        ..WorkerSettings::default()
    };
    let storage = Arc::clone(&world.storage);
    let worker = Worker::new(storage, clock, WorkerId(1), settings).unwrap();
    for _ in 0..200 {
        let trial = worker.start(world.study, None, &[]).unwrap();
        for step in 0..20 {
            trial.report(step, &[0.5.into()]).unwrap();
        }
        trial.finish(&complete(0.5), &nothing()).unwrap();
    }
    for trial in world.trials() {
        let steps: Vec<u64> = trial.reports.iter().map(|r| r.step).collect();
        assert_eq!(steps, (0..20).collect::<Vec<_>>());
        assert_eq!(trial.state, TrialState::Complete);
    }
    assert!(worker.take_error().is_none());
}

fn each_waiting_trial_is_taken_once_and_those_with_a_template_come_first(backend: Backend) {
    let world = World::new(backend);
    let template = |value: f64| Template {
        fixed: [("x".to_owned(), ParamValue::F64(value.into()))].into(),
        parent: None,
    };
    for at in 0..20 {
        world.storage.reserve(world.study, None, None).unwrap();
        world
            .storage
            .reserve(world.study, Some(&template(f64::from(at))), None)
            .unwrap();
    }
    let first = world.worker(9).claim_waiting(world.study).unwrap().unwrap();
    assert_eq!(
        (first.number(), first.before().template()),
        (1, Some(&template(0.0)))
    );
    let taken: Vec<u64> = std::thread::scope(|scope| {
        let run = |id: u64| {
            let worker = with_thread(&world, id);
            let mut numbers = Vec::new();
            while let Some(trial) = worker.claim_waiting(world.study).unwrap() {
                numbers.push(trial.number());
                trial.finish(&complete(0.5), &nothing()).unwrap();
            }
            // What each worker took in its turn: templates by number, then bare ones by number.
            assert!(numbers.is_sorted_by_key(|number| (number % 2 == 0, *number)));
            numbers
        };
        let threads: Vec<_> = (1..=8).map(|id| scope.spawn(move || run(id))).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(taken.len(), 39);
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>().len(), 39);
    first.finish(&complete(0.0), &nothing()).unwrap();
}
