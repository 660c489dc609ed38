//! The same suggestions, whoever makes them and when: random numbers are keyed, and nothing is remembered
//! outside the study.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};

use atune_core::sampler::by_kind;
use atune_core::space::{FloatRange, ParamValue};
use atune_core::storage::journal::{Durability, JournalOptions, JournalStorage};
use atune_core::study::{Study, StudyOptions, Told, Trial};
use serde_json::{Value, json};

use crate::support::config;

/// Asks for parameters of several types, one of them under a condition.
fn objective(trial: &Trial) -> f64 {
    let x = trial.suggest_float("x", -5.0..=5.0).unwrap();
    let lr = trial
        .suggest_float("lr", FloatRange::log(1e-5..=1.0))
        .unwrap();
    let kind = trial.suggest_categorical("kind", &["a", "b"]).unwrap();
    let extra = match kind {
        "a" => trial.suggest_int("n", 1..=9).unwrap() as f64,
        _ => f64::from(u8::from(trial.suggest_bool("flag").unwrap())),
    };
    x * x + (lr.log10() + 2.0).powi(2) + extra
}

fn options(kind: &str, sampler_options: &Value) -> StudyOptions {
    StudyOptions {
        sampler: Some(by_kind(kind, sampler_options).unwrap()),
        ..StudyOptions::default()
    }
}

fn run(study: &Study, count: usize) {
    for _ in 0..count {
        let trial = study.ask().unwrap();
        let value = objective(&trial);
        study.tell(trial, Told::value(value)).unwrap();
    }
}

type Suggested = Vec<BTreeMap<String, ParamValue>>;

fn suggested(study: &Study) -> Suggested {
    let params = |trial: &atune_core::replica::Trial| {
        let params = trial.params.iter();
        params
            .map(|p| (p.key.name.clone(), p.value.clone()))
            .collect()
    };
    study.trials().unwrap().iter().map(params).collect()
}

#[test]
fn fifty_trials_are_what_twice_twenty_five_are_with_a_restart_between() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["random", "qmc", "tpe", "auto"] {
        let whole =
            Study::create_in_memory(&config("s", 1, 9), options(kind, &Value::Null)).unwrap();
        run(&whole, 50);
        let path = folder.path().join(format!("{kind}.atj"));
        let journal = JournalOptions {
            durability: Durability::Process,
            ..JournalOptions::default()
        };
        let storage = Arc::new(JournalStorage::create(&path, journal.clone()).unwrap());
        let first =
            Study::create(storage, &config("s", 1, 9), options(kind, &Value::Null)).unwrap();
        run(&first, 25);
        drop(first);
        let storage = Arc::new(JournalStorage::open(&path, journal).unwrap());
        // Sampler and options are what the study recorded.
        let second = Study::load(storage, "s", StudyOptions::default()).unwrap();
        assert_eq!(second.sampler().kind(), kind);
        run(&second, 25);
        assert_eq!(suggested(&second), suggested(&whole), "{kind}");
    }
}

#[test]
fn which_worker_runs_a_trial_does_not_matter_for_samplers_that_look_at_none() {
    let grid = json!({"grid": {
        "x": [-1.0, 0.5, 4.0], "lr": [1e-3], "kind": ["a", "b"], "n": [1, 5], "flag": [true, false],
    }});
    for (kind, sampler_options) in [
        ("random", Value::Null),
        ("qmc", Value::Null),
        ("grid", grid),
    ] {
        let make = || Study::create_in_memory(&config("s", 1, 4), options(kind, &sampler_options));
        let alone = make().unwrap();
        run(&alone, 24);
        let shared = make().unwrap();
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    run(&shared, 6);
                });
            }
        });
        assert_eq!(suggested(&shared), suggested(&alone), "{kind}");
    }
}

#[test]
fn another_seed_gives_other_suggestions() {
    let make = |seed| {
        let study = Study::create_in_memory(&config("s", 1, seed), options("random", &Value::Null));
        let study = study.unwrap();
        run(&study, 3);
        suggested(&study)
    };
    assert_ne!(make(1), make(2));
    assert_eq!(make(1), make(1));
}
