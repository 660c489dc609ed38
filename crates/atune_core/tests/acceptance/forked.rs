//! What is promised: a process that was forked off one with an open study cannot use it, is told so, and
//! harms nobody. Real forks, as `multiprocessing` makes them.

use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use atune_core::number::JsonF64;
use atune_core::outbox::Intent;
use atune_core::storage::journal::{JournalError, JournalStorage};
use atune_core::storage::{MemoryStorage, Storage, StorageError};
use atune_core::study::{Study, StudyError, StudyOptions, Told};
use atune_core::trial::{Direction, ResourceUnit, StudyConfig, TrialState, WorkerId};
use atune_core::worker::{Worker, WorkerError, WorkerSettings};
use durable::SystemClock;
use fork::Fork;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::files::{STUDY, Scratch, complete, options};
use crate::processes::until;

/// Runs this in a forked child, and answers whether it said that all was well. Of the threads only the
/// calling one is in the child, which must not go on as the test.
fn in_a_child(is_well: impl FnOnce() -> bool) -> bool {
    match fork::fork().unwrap() {
        Fork::Child => {
            let is_well = catch_unwind(AssertUnwindSafe(is_well)).unwrap_or(false);
            let code = if is_well { "exit 0" } else { "exit 1" };
            drop(Command::new("sh").args(["-c", code]).exec());
            std::process::abort()
        }
        Fork::Parent(child) => {
            let mut child = Child(Pid::from_raw(child));
            let mut ended = None;
            until("the forked child has ended", || {
                ended = waitpid(child.0, WaitOptions::NOHANG).unwrap();
                ended.is_some()
            });
            child.0 = None;
            ended.unwrap().1.exit_status() == Some(0)
        }
    }
}

/// A child that did not end is killed when nobody waits for it any more.
struct Child(Option<Pid>);

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(child) = self.0 {
            kill_process(child, Signal::KILL).ok();
        }
    }
}

fn is_forked(error: &StorageError) -> bool {
    matches!(error, StorageError::Journal(JournalError::Forked { .. }))
}

#[test]
fn a_forked_child_is_refused_every_use_and_opens_the_study_again() {
    let scratch = Scratch::new();
    let storage = Arc::new(scratch.open(1));
    let clock = Arc::new(SystemClock::start());
    let worker = Worker::new(
        storage.clone(),
        clock,
        WorkerId(1),
        WorkerSettings::default(),
    );
    let worker = worker.unwrap();
    let trial = worker.start(STUDY, None, &[]).unwrap();
    let raw = storage.create_trial(STUDY, None).unwrap();
    let is_refused = || {
        let told = storage.create_trial(STUDY, None).unwrap_err();
        let seen = storage.trial(raw).unwrap_err();
        let started = worker.start(STUDY, None, &[]).unwrap_err();
        let reported = trial.report(1, &[JsonF64(0.5)]).unwrap_err();
        let ended = trial
            .finish(&complete(0.5), &Intent::default())
            .unwrap_err();
        let by_worker = [started, reported, ended];
        let by_worker = by_worker
            .iter()
            .all(|error| matches!(error, WorkerError::Storage(error) if is_forked(error)));
        by_worker && is_forked(&told) && is_forked(&seen) && told.to_string().contains("fork")
    };
    assert!(in_a_child(is_refused));
    let opens_again = || {
        let own = JournalStorage::open(&scratch.path, options(2));
        own.is_ok_and(|own| own.create_trial(STUDY, None).is_ok())
    };
    assert!(in_a_child(opens_again));

    assert_eq!(
        trial.finish(&complete(0.5), &Intent::default()).unwrap(),
        TrialState::Complete
    );
    storage.create_trial(STUDY, None).unwrap();
    assert_eq!(scratch.reader().replica().trials().len(), 4);
    scratch.assert_intact();
}

#[test]
fn a_forked_child_may_drop_what_it_inherited_and_leaves_the_trial_and_the_lease_to_its_parent() {
    for _ in 0..20 {
        let scratch = Scratch::new();
        let storage = Arc::new(scratch.open(1));
        let (clock, settings) = (Arc::new(SystemClock::start()), WorkerSettings::default());
        let worker = Worker::new(storage.clone(), clock, WorkerId(1), settings).unwrap();
        let trial = worker.start(STUDY, None, &[]).unwrap();
        let id = trial.id();
        let mut inherited = Some((trial, worker, storage));
        assert!(in_a_child(|| {
            drop(inherited.take());
            true
        }));
        let (trial, _worker, storage) = inherited.unwrap();
        assert_eq!(storage.trial(id).unwrap().state, TrialState::Running);
        trial.finish(&complete(0.5), &Intent::default()).unwrap();
        scratch.assert_intact();
    }
}

/// A study that other threads use while the process is forked.
fn studies(scratch: &Scratch) -> [Study; 2] {
    let memory = MemoryStorage::new(Arc::new(SystemClock::start()), WorkerId(7));
    let config = StudyConfig {
        name: "forked".to_owned(),
        directions: vec![Direction::Minimize],
        seed: 1,
        space: None,
        resource_unit: ResourceUnit::Steps,
        metric_names: Vec::new(),
    };
    let create = |storage: Arc<dyn Storage>| {
        Study::create(storage, &config, StudyOptions::default()).unwrap()
    };
    [create(Arc::new(scratch.open(1))), create(Arc::new(memory))]
}

fn is_told(error: &StudyError) -> bool {
    let forked = |error: &StorageError| {
        is_forked(error)
            || matches!(error, StorageError::Forked { process } if *process != std::process::id())
    };
    match error {
        StudyError::Storage(error) => forked(error),
        StudyError::Worker(error) => {
            matches!(&**error, WorkerError::Storage(error) if forked(error))
        }
        _ => false,
    }
}

#[test]
fn a_child_forked_while_threads_hold_locks_is_refused_at_once() {
    let scratch = Scratch::new();
    for study in studies(&scratch) {
        let trial = Arc::new(study.ask().unwrap());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for nth in 0..3 {
                let (study, trial, is_over) = (&study, &trial, &is_over);
                scope.spawn(move || {
                    let mut step = nth;
                    while !is_over.load(Ordering::Relaxed) {
                        let own = study.ask().unwrap();
                        own.suggest_float("x", 0.0..=1.0).unwrap();
                        trial.report(step, 0.5).unwrap();
                        study.tell(own, Told::value(0.5)).unwrap();
                        step += 3;
                    }
                });
            }
            for _ in 0..20 {
                let is_refused = || {
                    let refusals = [
                        study.ask().err(),
                        study.trials().err(),
                        study.best_trial().err(),
                        study.look(|_| ()).err(),
                        trial.suggest_float("y", 0.0..=1.0).err(),
                        trial.report(1, 0.5).err(),
                        trial.reports().err(),
                        trial.should_prune().err(),
                        trial.set_constraint("c", 0.5).err(),
                    ];
                    let refused = |error: &Option<_>| error.as_ref().is_some_and(is_told);
                    refusals.iter().all(refused)
                };
                assert!(in_a_child(is_refused));
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(study.trials().unwrap().len() > 1);
    }
    scratch.assert_intact();
}
