//! Running an objective: budgets, errors, interruptions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use atune_core::sampler::RandomSampler;
use atune_core::storage::MemoryStorage;
use atune_core::storage::journal::{Durability, JournalOptions, JournalStorage};
use atune_core::study::{Catch, Ended, Optimize, Study, StudyError, StudyOptions, Told};
use atune_core::trial::{TrialState, WorkerId};
use atune_core::worker::{RetryPolicy, WorkerSettings};
use serde_json::json;

use crate::support::{config, in_memory, sampled_by};

fn trials(count: u64) -> Optimize<'static> {
    Optimize {
        trials: Some(count),
        ..Optimize::default()
    }
}

#[test]
fn a_budget_is_exact_with_many_threads_on_many_handles_of_one_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.atj");
    let journal = JournalOptions {
        durability: Durability::Process,
        ..JournalOptions::default()
    };
    drop(JournalStorage::create(&path, journal.clone()).unwrap());
    let runs = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let storage = Arc::new(JournalStorage::open(&path, journal.clone()).unwrap());
                let options = sampled_by(RandomSampler);
                let study = Study::load_or_create(storage, &config("s", 1, 1), options).unwrap();
                let options = Optimize {
                    threads: 3,
                    ..trials(30)
                };
                let objective = |trial: &atune_core::study::Trial| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    Ok(Told::value(trial.suggest_float("x", 0.0..=1.0)?))
                };
                let summary = study.optimize(objective, &options).unwrap();
                assert_eq!(summary.ended, Ended::BudgetSpent);
            });
        }
    });
    assert_eq!(runs.load(Ordering::Relaxed), 30);
    let storage = Arc::new(JournalStorage::open(&path, journal).unwrap());
    let study = Study::load(storage, "s", StudyOptions::default()).unwrap();
    let all = study.trials().unwrap();
    assert!(all.iter().map(|trial| trial.number).eq(0..30));
    assert!(all.iter().all(|trial| trial.state == TrialState::Complete));
    // Once more, and nothing is left to do.
    let summary = study
        .optimize(|_| Ok(Told::value(0.0)), &trials(30))
        .unwrap();
    assert_eq!(summary.trials, 0);
}

#[test]
fn enqueued_trials_count_against_the_budget_and_are_not_run_beyond_it() {
    let study = in_memory(RandomSampler, 1);
    for nth in 0..5 {
        let point = json!({ "x": f64::from(nth) / 10.0 });
        study
            .enqueue(point.as_object().unwrap(), true)
            .unwrap()
            .unwrap();
    }
    let objective =
        |trial: &atune_core::study::Trial| Ok(Told::value(trial.suggest_float("x", 0.0..=1.0)?));
    assert_eq!(study.optimize(objective, &trials(3)).unwrap().trials, 3);
    assert_eq!(study.optimize(objective, &trials(7)).unwrap().trials, 4);
    assert_eq!(study.trials().unwrap().len(), 7);
}

#[test]
fn an_error_fails_its_trial_and_ends_the_run_unless_it_is_caught() {
    let study = in_memory(RandomSampler, 1);
    let failing = |trial: &atune_core::study::Trial| match trial.number() {
        0 => Err("the first fails".into()),
        _ => Ok(Told::value(1.0)),
    };
    let error = study.optimize(failing, &trials(3)).unwrap_err();
    let StudyError::Objective { number: 0, message } = error else {
        panic!("{error}");
    };
    assert_eq!(message, "the first fails");
    assert_eq!(study.optimize(failing, &trials(3)).unwrap().trials, 2);
    let first = &study.trials().unwrap()[0];
    assert_eq!(
        (first.state, first.error()),
        (TrialState::Failed, Some("the first fails"))
    );

    let study = in_memory(RandomSampler, 1);
    let is_mild = |error: &(dyn std::error::Error + 'static)| error.to_string().contains("first");
    for catch in [Catch::If(&is_mild), Catch::Everything] {
        let options = Optimize { catch, ..trials(3) };
        study.optimize(failing, &options).unwrap();
    }
    assert_eq!(study.trials().unwrap().len(), 3);
}

#[test]
fn a_panic_fails_its_trial_with_its_text_and_ends_the_run() {
    let study = in_memory(RandomSampler, 1);
    let options = Optimize {
        catch: Catch::Everything,
        ..trials(3)
    };
    let error = study.optimize(|_| panic!("broken"), &options).unwrap_err();
    assert!(error.to_string().contains("panicked: broken"), "{error}");
    assert_eq!(study.trials().unwrap()[0].state, TrialState::Failed);
}

#[test]
fn values_that_are_none_fail_their_trial() {
    let study = in_memory(RandomSampler, 1);
    let objective = |trial: &atune_core::study::Trial| {
        Ok(match trial.number() {
            0 => Told::value(f64::NAN),
            1 => Told::value(f64::INFINITY),
            2 => Told::Complete(Vec::new()),
            3 => Told::Complete(vec![1.0, 2.0]),
            _ => Told::value(0.5),
        })
    };
    let options = Optimize {
        catch: Catch::Everything,
        ..trials(5)
    };
    study.optimize(objective, &options).unwrap();
    let states: Vec<TrialState> = study.trials().unwrap().iter().map(|t| t.state).collect();
    let [failed, complete] = [TrialState::Failed, TrialState::Complete];
    assert_eq!(states, [failed, complete, failed, failed, complete]);
    assert_eq!(study.best_trial().unwrap().number, 4);
}

#[test]
fn an_interrupted_run_releases_its_trials_and_the_next_goes_on_with_them() {
    let study = in_memory(RandomSampler, 1);
    let stop = study.stop_flag().clone();
    let first_x = std::sync::Mutex::new(None);
    let objective = |trial: &atune_core::study::Trial| {
        let x = trial.suggest_float("x", 0.0..=1.0)?;
        if trial.number() == 2 && first_x.lock().unwrap().is_none() {
            *first_x.lock().unwrap() = Some(x);
            trial.report(1, x)?;
            stop.set();
        }
        if trial.is_interrupted() {
            return Ok(Told::Released);
        }
        Ok(Told::value(x))
    };
    let summary = study.optimize(objective, &trials(5)).unwrap();
    assert_eq!((summary.ended, summary.trials), (Ended::Interrupted, 2));
    assert_eq!(study.trials().unwrap()[2].state, TrialState::Paused);
    study.stop_flag().clear();
    let summary = study.optimize(objective, &trials(5)).unwrap();
    assert_eq!((summary.ended, summary.trials), (Ended::BudgetSpent, 3));
    let trial = &study.trials().unwrap()[2];
    assert_eq!(trial.state, TrialState::Complete);
    assert_eq!(
        Some(trial.values.as_ref().unwrap()[0].0),
        *first_x.lock().unwrap()
    );
}

#[test]
fn callbacks_see_each_trial_as_it_ended_and_may_stop_the_run() {
    let study = in_memory(RandomSampler, 1);
    let seen = AtomicU64::new(0);
    let options = Optimize {
        callbacks: vec![Box::new(|study, trial| {
            assert_eq!(trial.state, TrialState::Complete);
            if seen.fetch_add(1, Ordering::Relaxed) == 3 {
                study.stop_flag().set();
            }
        })],
        ..trials(50)
    };
    let summary = study.optimize(|_| Ok(Told::value(1.0)), &options).unwrap();
    assert_eq!((summary.ended, summary.trials), (Ended::Interrupted, 4));
}

#[test]
fn no_trial_starts_after_the_timeout() {
    let clock = Arc::new(durable::ManualClock::new(0, 0));
    let options = StudyOptions {
        clock: Some(clock.clone()),
        ..sampled_by(RandomSampler)
    };
    let study = Study::create_in_memory(&config("timed", 1, 1), options).unwrap();
    let options = Optimize {
        timeout: Some(Duration::from_secs(10)),
        ..Optimize::default()
    };
    let objective = |_: &atune_core::study::Trial| {
        clock.advance(3_000_000_000);
        Ok(Told::value(1.0))
    };
    let summary = study.optimize(objective, &options).unwrap();
    assert_eq!((summary.ended, summary.trials), (Ended::TimeOut, 4));
}

#[test]
fn retries_are_run_by_the_same_run_and_do_not_count() {
    let options = StudyOptions {
        retry: RetryPolicy { max_attempts: 3 },
        ..sampled_by(RandomSampler)
    };
    let study = Study::create_in_memory(&config("retried", 1, 1), options).unwrap();
    let objective = |trial: &atune_core::study::Trial| {
        trial.suggest_float("x", 0.0..=1.0)?;
        match trial.number() {
            0..=2 => Err("flaky".into()),
            _ => Ok(Told::value(1.0)),
        }
    };
    let options = Optimize {
        catch: Catch::Everything,
        ..trials(4)
    };
    study.optimize(objective, &options).unwrap();
    let all = study.trials().unwrap();
    let retries = all
        .iter()
        .filter(|trial| trial.retry_of().is_some())
        .count();
    assert_eq!(all.len() - retries, 4);
    // The first trial and its two retries fail, each with the same parameter.
    assert_eq!(retries, 2);
    assert!(all[1].params[0].value == all[0].params[0].value);
}

#[test]
fn the_trials_of_a_worker_that_died_are_failed_and_retried_by_the_next_run() {
    let clock = Arc::new(durable::ManualClock::new(1_000_000_000_000, 0));
    let storage = Arc::new(MemoryStorage::new(clock.clone(), WorkerId(1)));
    let options = || StudyOptions {
        retry: RetryPolicy { max_attempts: 2 },
        clock: Some(clock.clone()),
        worker: WorkerSettings {
            threads: false,
            gather: Duration::ZERO,
            ..WorkerSettings::default()
        },
        ..sampled_by(RandomSampler)
    };
    let dead = Study::create(storage.clone(), &config("s", 1, 1), options()).unwrap();
    let trial = dead.ask_within(Some(2)).unwrap();
    let x = trial.suggest_float("x", 0.0..=1.0).unwrap();
    // It never comes back to its trial.
    std::mem::forget(trial);
    clock.advance(120_000_000_000);
    let study = Study::load(storage, "s", options()).unwrap();
    let objective =
        |trial: &atune_core::study::Trial| Ok(Told::value(trial.suggest_float("x", 0.0..=1.0)?));
    let summary = study.optimize(objective, &trials(2)).unwrap();
    assert_eq!(summary.trials, 2);
    let all = study.trials().unwrap();
    assert_eq!(all[0].state, TrialState::Failed);
    let retry = all.iter().find(|trial| trial.retry_of().is_some()).unwrap();
    assert_eq!(retry.values.as_ref().unwrap()[0].0, x);
}
