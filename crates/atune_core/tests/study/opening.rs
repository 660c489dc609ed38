//! Creating and opening: what a study records of itself, and what does not go with it.

use std::sync::{Arc, Barrier};

use atune_core::sampler::{RandomSampler, TpeOptions, TpeSampler};
use atune_core::storage::journal::{Durability, JournalOptions, JournalStorage};
use atune_core::storage::{MemoryStorage, Storage};
use atune_core::study::{Study, StudyError, StudyOptions, Told};
use atune_core::trial::{SpaceEntry, WorkerId};

use crate::support::{config, sampled_by};

fn memory() -> Arc<dyn Storage> {
    let clock = Arc::new(durable::SystemClock::start());
    Arc::new(MemoryStorage::new(clock, WorkerId(1)))
}

#[test]
fn another_sampler_or_other_options_than_the_recorded_ones_are_refused_and_both_are_named() {
    let storage = memory();
    let study = Study::create(
        Arc::clone(&storage),
        &config("s", 1, 1),
        sampled_by(RandomSampler),
    );
    drop(study.unwrap());
    let tpe = sampled_by(TpeSampler::default());
    let error = Study::load(Arc::clone(&storage), "s", tpe).unwrap_err();
    assert!(matches!(
        error,
        StudyError::OtherComponent {
            what: "sampler",
            ..
        }
    ));
    let text = error.to_string();
    assert!(
        text.contains("\"random\"") && text.contains("\"tpe\""),
        "{text}"
    );

    let tpe = |startup_trials| {
        let options = TpeOptions {
            startup_trials,
            ..TpeOptions::default()
        };
        sampled_by(TpeSampler::new(options).unwrap())
    };
    Study::create(Arc::clone(&storage), &config("t", 1, 1), tpe(5)).unwrap();
    assert!(Study::load(Arc::clone(&storage), "t", tpe(6)).is_err());
    Study::load(Arc::clone(&storage), "t", tpe(5)).unwrap();
    let plain = Study::load(storage, "t", StudyOptions::default()).unwrap();
    assert_eq!(plain.sampler().options()["startup_trials"], 5);
}

#[test]
fn a_name_that_does_not_exist_is_answered_with_those_that_do() {
    let storage = memory();
    Study::create(
        Arc::clone(&storage),
        &config("here", 1, 1),
        StudyOptions::default(),
    )
    .unwrap();
    let error = Study::load(storage, "there", StudyOptions::default()).unwrap_err();
    assert!(error.to_string().contains("here"), "{error}");
}

#[test]
fn opening_writes_nothing_and_the_first_trial_records_sampler_and_scheduler() {
    let storage = memory();
    let id = storage.create_study(&config("bare", 1, 1)).unwrap();
    let seq = |storage: &Arc<dyn Storage>| {
        let mut seq = 0;
        storage.read(&mut |replica| seq = replica.seq()).unwrap();
        seq
    };
    let before = seq(&storage);
    let study = Study::load(Arc::clone(&storage), "bare", sampled_by(RandomSampler)).unwrap();
    assert_eq!(seq(&storage), before);
    let trial = study.ask().unwrap();
    study.tell(trial, Told::value(1.0)).unwrap();
    assert_eq!(study.id(), id);
    let other = sampled_by(TpeSampler::default());
    assert!(Study::load(storage, "bare", other).is_err());
}

#[test]
fn of_many_that_create_the_same_study_at_once_one_does_and_all_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.atj");
    let journal = JournalOptions {
        durability: Durability::Process,
        ..JournalOptions::default()
    };
    drop(JournalStorage::create(&path, journal.clone()).unwrap());
    let start = Barrier::new(6);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let storage = Arc::new(JournalStorage::open(&path, journal.clone()).unwrap());
                start.wait();
                let options = sampled_by(RandomSampler);
                let study = Study::load_or_create(storage, &config("s", 1, 1), options).unwrap();
                assert_eq!(study.id().0, 0);
            });
        }
    });
    let other = Study::load_or_create(
        Arc::new(JournalStorage::open(&path, journal).unwrap()),
        &config("s", 2, 1),
        sampled_by(RandomSampler),
    );
    let error = other.unwrap_err();
    assert!(matches!(
        error,
        StudyError::OtherConfig {
            what: "directions",
            ..
        }
    ));
}

#[test]
fn a_declared_space_holds_trials_to_it() {
    let mut config = config("declared", 1, 1);
    let dist = atune_core::space::Distribution::Float((0.0..=1.0).into());
    config.space = Some(vec![SpaceEntry {
        name: "x".to_owned(),
        dist,
    }]);
    let study = Study::create_in_memory(&config, sampled_by(RandomSampler)).unwrap();
    let trial = study.ask().unwrap();
    let error = trial.suggest_float("x", 0.0..=2.0).unwrap_err();
    assert!(matches!(error, StudyError::Conflict { .. }), "{error}");
    trial.suggest_float("x", 0.0..=1.0).unwrap();
    if let Some(space) = &mut config.space {
        space[0].dist = atune_core::space::Distribution::Float((1.0..=0.0).into());
    }
    let error = Study::create_in_memory(&config, StudyOptions::default()).unwrap_err();
    assert!(matches!(error, StudyError::Space { .. }), "{error}");
}
