//! What is promised: a journal is a storage like any other, for the threads of many handles at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use atune_core::number::JsonF64;
use atune_core::outbox::Intent;
use atune_core::storage::Storage;
use atune_core::storage::conformance::{self, example_config, example_param};
use atune_core::storage::journal::{
    Identity, JournalError, JournalOptions, JournalReader, JournalStorage, lease_facts,
    verify_study,
};
use atune_core::trial::{Direction, TrialState, WorkerId};
use durable::{ManualClock, Outcome, RealFs};
use durable_sim::SimFs;

pub(crate) fn on_sim(fs: &SimFs, seed: u64) -> (Arc<SimFs>, Arc<ManualClock>, Identity) {
    // A second passes with every look: nobody waits long for the lease of a dead owner.
    let clock = ManualClock::new(1_000_000_000_000, 900_000_000);
    (Arc::new(fs.clone()), Arc::new(clock), Identity::fixed(seed))
}

pub(crate) fn unthreaded() -> JournalOptions {
    JournalOptions {
        threads: false,
        ..JournalOptions::default()
    }
}

pub(crate) fn options(worker: u64) -> JournalOptions {
    JournalOptions {
        worker: WorkerId(worker),
        ..JournalOptions::default()
    }
}

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("study.atj");
    (dir, path)
}

fn intact(path: &Path) {
    let verdict = verify_study(Arc::new(RealFs), path).unwrap();
    assert_eq!(verdict.verdict, Outcome::Intact, "{:?}", verdict.findings);
}

#[test]
fn a_journal_on_a_real_disk_passes_the_conformance_suite() {
    let (_dir, path) = scratch();
    let next = std::sync::atomic::AtomicU64::new(0);
    conformance::check(&mut || {
        let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = path.with_extension(format!("{number}.atj"));
        Box::new(JournalStorage::create(path, options(0)).unwrap())
    })
    .unwrap();
}

#[test]
fn a_journal_without_threads_of_its_own_passes_the_conformance_suite() {
    conformance::check(&mut || {
        let (fs, clock, identity) = on_sim(&SimFs::new(), 1);
        let made = JournalStorage::create_on(fs, clock, identity, "/study.atj", unthreaded());
        Box::new(made.unwrap())
    })
    .unwrap();
}

#[test]
fn many_handles_with_many_threads_keep_to_one_budget_and_lose_nothing() {
    let (_dir, path) = scratch();
    let first = JournalStorage::create(&path, options(0)).unwrap();
    let study = first
        .create_study(&example_config("shared", &[Direction::Minimize]))
        .unwrap();
    let handles: Vec<_> = (1..5)
        .map(|n| JournalStorage::open(&path, options(n)).unwrap())
        .collect();
    let started: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..12u64)
            .map(|n| {
                let storage = &handles[usize::try_from(n).unwrap() % handles.len()];
                scope.spawn(move || {
                    let mut started = 0;
                    let params = [example_param("x", 0.5)];
                    while let Ok(fence) = storage.start(study, Some(60), WorkerId(n), 1, &params) {
                        let ended = atune_core::lifecycle::Outcome::complete(vec![JsonF64(1.0)]);
                        storage.terminal(fence, &ended, &Intent::default()).unwrap();
                        started += 1;
                    }
                    started
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(started, 60);
    drop(handles);
    intact(&path);
    let reader = JournalReader::open(&path).unwrap();
    let trials = reader.replica().trials();
    assert_eq!(trials.len(), 60);
    assert!(trials.iter().all(|t| t.state == TrialState::Complete));
    assert_eq!(reader.head().ops, 1 + 3 * 60);
}

#[test]
fn a_reader_sees_what_another_handle_acknowledged() {
    let (_dir, path) = scratch();
    let (one, two) = (
        JournalStorage::create(&path, options(0)).unwrap(),
        JournalStorage::open(&path, options(1)).unwrap(),
    );
    let study = one
        .create_study(&example_config("a", &[Direction::Minimize]))
        .unwrap();
    assert_eq!(two.study_named("a").unwrap(), study);
    let trial = two.create_trial(study, None).unwrap();
    assert_eq!(one.trial(trial).unwrap().number, 0);
}

#[test]
fn a_study_that_exists_is_not_created_again() {
    let (_dir, path) = scratch();
    drop(JournalStorage::create(&path, options(0)).unwrap());
    let again = JournalStorage::create(&path, options(0)).unwrap_err();
    assert!(matches!(again, JournalError::Io { source, .. }
        if source.kind() == std::io::ErrorKind::AlreadyExists));
}

#[test]
fn the_lease_is_given_back_when_nobody_writes() {
    let (_dir, path) = scratch();
    let storage = JournalStorage::create(&path, options(7)).unwrap();
    storage
        .create_study(&example_config("a", &[Direction::Minimize]))
        .unwrap();
    for _ in 0..2000 {
        let facts = lease_facts(&RealFs, &path).unwrap().unwrap();
        assert_eq!(facts.owner.unwrap().worker, 7);
        if !facts.is_held {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the lease is still held");
}

#[test]
fn a_handle_that_lost_its_lease_publishes_nothing_and_tries_again() {
    let fs = SimFs::new();
    let path = Path::new("/study.atj");
    let (shared, clock, identity) = on_sim(&fs, 1);
    let storage =
        JournalStorage::create_on(shared, clock.clone(), identity, path, unthreaded()).unwrap();
    let study = storage
        .create_study(&example_config("a", &[Direction::Minimize]))
        .unwrap();
    let (shared, clock, identity) = on_sim(&fs, 2);
    let other = JournalStorage::open_on(shared, clock, identity, path, unthreaded()).unwrap();
    let mut interfere = Some(|| {
        // In the middle of the first one's plan, its generation is fenced, and another publishes.
        let gen_of = |p: &PathBuf| p.to_str().unwrap().contains("/gen-");
        let held = fs.contents().into_keys().find(gen_of).unwrap();
        let held = held
            .to_str()
            .unwrap()
            .split("/by-")
            .next()
            .unwrap()
            .to_owned();
        let fenced = held.replace("/gen-", "/fenced-");
        durable::Fs::rename(&fs, Path::new(&held), Path::new(&fenced)).unwrap();
        other.create_trial(study, None).unwrap();
    });
    storage
        .commit(&mut |replica| {
            if let Some(interfere) = interfere.take() {
                interfere();
            }
            let (trial, number) = replica.next_trial(study)?;
            Ok(atune_core::storage::journal::record::CreateTrial {
                study,
                trial,
                number,
                template: None,
            }
            .into())
        })
        .unwrap();
    let reader = JournalReader::open_on(Arc::new(fs.clone()), path).unwrap();
    assert_eq!(reader.head().ops, 3);
    assert_eq!(reader.replica().trials().len(), 2);
}
