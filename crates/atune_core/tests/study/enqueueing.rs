//! Trials whose parameters are given, and trials that were run elsewhere.

use std::collections::BTreeMap;
use std::sync::Barrier;

use atune_core::sampler::RandomSampler;
use atune_core::space::{Distribution, Param, ParamValue};
use atune_core::study::{FinishedTrial, Study, StudyError, StudyOptions, Told};
use atune_core::trial::TrialState;
use atune_core::worker::RetryPolicy;
use serde_json::{Map, Value, json};

use crate::support::{config, in_memory, sampled_by};

fn given(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} is no object"),
    }
}

#[test]
fn enqueued_trials_come_first_with_what_was_given_even_of_unknown_parameters() {
    let study = in_memory(RandomSampler, 1);
    let point = given(json!({"x": 0.25, "opt": "sgd", "n": 3}));
    study.enqueue(&point, false).unwrap().unwrap();
    let trial = study.ask().unwrap();
    assert_eq!(trial.suggest_float("x", 0.0..=1.0).unwrap(), 0.25);
    assert_eq!(
        trial.suggest_categorical("opt", &["adam", "sgd"]).unwrap(),
        "sgd"
    );
    assert_eq!(trial.suggest_int("n", 1..=8).unwrap(), 3);
    trial.suggest_float("other", 0.0..=1.0).unwrap();
    study.tell(trial, Told::value(1.0)).unwrap();
    // Known by now, and skipped.
    assert_eq!(study.enqueue(&point, true).unwrap(), None);
    let error = study.enqueue(&given(json!({"x": 7.0})), true).unwrap_err();
    assert!(matches!(error, StudyError::Space { .. }), "{error}");
}

#[test]
fn of_many_that_enqueue_the_same_point_one_does() {
    let study = in_memory(RandomSampler, 1);
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                start.wait();
                study.enqueue(&given(json!({"x": 0.5})), true).unwrap();
            });
        }
    });
    assert_eq!(study.trials().unwrap().len(), 1);
}

#[test]
fn a_given_value_that_is_none_of_the_distributions_fails_where_it_is_asked_for() {
    let study = in_memory(RandomSampler, 1);
    study.enqueue(&given(json!({"x": 2.0})), false).unwrap();
    let trial = study.ask().unwrap();
    let error = trial.suggest_float("x", 0.0..=1.0).unwrap_err();
    assert!(matches!(error, StudyError::Space { .. }), "{error}");
}

#[test]
fn a_retry_has_the_parameters_of_the_trial_that_failed() {
    let options = StudyOptions {
        retry: RetryPolicy { max_attempts: 2 },
        ..sampled_by(RandomSampler)
    };
    let study = Study::create_in_memory(&config("retry", 1, 1), options).unwrap();
    let trial = study.ask_within(Some(1)).unwrap();
    let x = trial.suggest_float("x", 0.0..=1.0).unwrap();
    study.tell(trial, Told::Failed("no".to_owned())).unwrap();
    let again = study.ask_within(Some(1)).unwrap();
    assert_eq!(
        (again.number(), again.suggest_float("x", 0.0..=1.0).unwrap()),
        (1, x)
    );
    study.tell(again, Told::Failed("again".to_owned())).unwrap();
    let error = study.ask_within(Some(1)).unwrap_err();
    assert!(
        matches!(error, StudyError::BudgetSpent { budget: 1 }),
        "{error}"
    );
}

fn finished(x: f64, told: Told) -> FinishedTrial {
    FinishedTrial {
        params: vec![Param {
            name: "x".to_owned(),
            dist: Distribution::Float((0.0..=1.0).into()),
            value: ParamValue::F64(x.into()),
        }],
        reports: vec![(1, vec![0.5])],
        user_attrs: BTreeMap::from([("from".to_owned(), json!("elsewhere"))]),
        constraints: BTreeMap::from([("size".to_owned(), -1.0)]),
        told,
    }
}

#[test]
fn trials_from_elsewhere_are_added_whole_or_not_at_all() {
    let study = in_memory(RandomSampler, 1);
    let id = study.add_trial(&finished(0.5, Told::value(0.25))).unwrap();
    let trial = study.storage().trial(id).unwrap();
    assert_eq!(trial.state, TrialState::Complete);
    assert_eq!((trial.params.len(), trial.reports.len()), (1, 1));
    assert_eq!(study.best_trial().unwrap().id, id);
    for bad in [
        finished(0.5, Told::Released),
        finished(0.5, Told::value(f64::NAN)),
        finished(0.5, Told::Complete(vec![1.0, 2.0])),
        finished(7.0, Told::value(1.0)),
    ] {
        study.add_trial(&bad).unwrap_err();
    }
    assert_eq!(study.trials().unwrap().len(), 1);
    study.add_trial(&finished(0.1, Told::Pruned(None))).unwrap();
    study
        .add_trial(&finished(0.2, Told::Failed("there".to_owned())))
        .unwrap();
    let states: Vec<TrialState> = study.trials().unwrap().iter().map(|t| t.state).collect();
    assert_eq!(
        states,
        [TrialState::Complete, TrialState::Pruned, TrialState::Failed]
    );
}
