//! What is promised: a process that was forked off one with an open study cannot use it, is told so, and
//! harms nobody. Real forks, as `multiprocessing` makes them.

use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;

use atune_core::number::JsonF64;
use atune_core::outbox::Intent;
use atune_core::storage::journal::{JournalError, JournalStorage};
use atune_core::storage::{Storage, StorageError};
use atune_core::trial::{TrialState, WorkerId};
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
