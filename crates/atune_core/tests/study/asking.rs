//! Asking and telling: what a trial answers, and what it refuses.

use atune_core::sampler::RandomSampler;
use atune_core::space::{Distribution, FloatRange, IntRange, SpaceFault};
use atune_core::study::{Study, StudyError, Told};
use atune_core::trial::TrialState;

use crate::support::{config, in_memory, sampled_by};

#[test]
fn a_trial_gets_what_it_asks_for_and_is_told() {
    let study = in_memory(RandomSampler, 1);
    let trial = study.ask().unwrap();
    let x = trial.suggest_float("x", -1.0..=1.0).unwrap();
    let lr = trial
        .suggest_float("lr", FloatRange::log(1e-5..=1e-1))
        .unwrap();
    let layers = trial
        .suggest_int("layers", IntRange::stepped(2..=8, 2))
        .unwrap();
    trial.suggest_bool("bias").unwrap();
    let act = trial.suggest_categorical("act", &["relu", "tanh"]).unwrap();
    assert!((-1.0..=1.0).contains(&x) && (1e-5..=1e-1).contains(&lr));
    assert!(layers % 2 == 0 && (2..=8).contains(&layers));
    assert!(["relu", "tanh"].contains(&act));
    assert_eq!(
        trial.suggest_float("x", -1.0..=1.0).unwrap(),
        x,
        "asked again"
    );
    trial.report(1, 0.5).unwrap();
    assert!(!trial.should_prune().unwrap());
    assert_eq!(
        study.tell(trial, Told::value(0.25)).unwrap(),
        TrialState::Complete
    );
    let best = study.best_trial().unwrap();
    assert_eq!(best.values.unwrap()[0].0, 0.25);
    assert_eq!(best.params.len(), 5);
    assert_eq!(best.reports.len(), 1);
}

#[test]
fn a_parameter_asked_for_twice_from_other_ranges_is_refused_and_both_are_named() {
    let study = in_memory(RandomSampler, 1);
    let trial = study.ask().unwrap();
    trial.suggest_float("x", 0.0..=1.0).unwrap();
    let error = trial.suggest_float("x", 0.0..=2.0).unwrap_err();
    assert!(matches!(error, StudyError::AskedTwice { .. }));
    let text = error.to_string();
    assert!(
        text.contains("float 0.0 to 1.0") && text.contains("float 0.0 to 2.0"),
        "{text}"
    );
    assert!(trial.suggest_int("x", 0..=1).is_err());
}

#[test]
fn a_distribution_of_another_type_than_in_earlier_trials_is_refused_and_both_are_named() {
    let study = in_memory(RandomSampler, 1);
    let trial = study.ask().unwrap();
    trial.suggest_float("x", 0.0..=1.0).unwrap();
    trial.suggest_categorical("c", &["a", "b"]).unwrap();
    study.tell(trial, Told::value(1.0)).unwrap();
    let trial = study.ask().unwrap();
    let error = trial.suggest_int("x", 0..=4).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StudyError::Conflict { .. }));
    assert!(
        text.contains("float 0.0 to 1.0") && text.contains("int 0 to 4"),
        "{text}"
    );
    let error = trial.suggest_categorical("c", &["b", "a"]).unwrap_err();
    assert!(matches!(error, StudyError::Conflict { .. }), "{error}");
    // Another range is no conflict, and a list may grow at its end.
    trial.suggest_float("x", 0.0..=2.0).unwrap();
    trial.suggest_categorical("c", &["a", "b", "z"]).unwrap();
}

#[test]
fn distributions_without_values_are_refused_by_name() {
    let study = in_memory(RandomSampler, 1);
    let trial = study.ask().unwrap();
    let fault = |dist: Distribution| match trial.suggest("x", &dist).unwrap_err() {
        StudyError::Space { name, fault, .. } if name == "x" => fault,
        other => panic!("{other}"),
    };
    let float = |range: FloatRange| fault(Distribution::Float(range));
    assert_eq!(float(FloatRange::plain(1.0..=0.0)), SpaceFault::BadRange);
    assert_eq!(
        float(FloatRange::plain(f64::NAN..=0.0)),
        SpaceFault::BadRange
    );
    assert_eq!(
        float(FloatRange::plain(0.0..=f64::INFINITY)),
        SpaceFault::BadRange
    );
    assert_eq!(
        float(FloatRange::stepped(0.0..=1.0, 0.0)),
        SpaceFault::BadRange
    );
    assert_eq!(float(FloatRange::log(0.0..=1.0)), SpaceFault::BadLog);
    let int = |range: IntRange| fault(Distribution::Int(range));
    assert_eq!(int(IntRange::log(0..=4)), SpaceFault::BadLog);
    assert_eq!(int(IntRange::stepped(0..=4, 0)), SpaceFault::BadRange);
    let none: [&str; 0] = [];
    let error = trial.suggest_categorical("x", &none).unwrap_err();
    let StudyError::Space { fault, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(fault, SpaceFault::NoChoices);
    // Nothing of this was kept.
    trial.suggest_float("x", 0.0..=1.0).unwrap();
}

#[test]
fn a_final_value_that_is_no_number_fails_the_trial_with_the_reason() {
    let study = in_memory(RandomSampler, 1);
    let trial = study.ask().unwrap();
    let id = trial.id();
    assert_eq!(
        study.tell(trial, Told::value(f64::NAN)).unwrap(),
        TrialState::Failed
    );
    let error = study
        .storage()
        .trial(id)
        .unwrap()
        .error()
        .unwrap()
        .to_owned();
    assert!(error.contains("not a number"), "{error}");
    assert!(matches!(study.best_trial(), Err(StudyError::NoBest)));
}

#[test]
fn constraints_decide_before_values_which_trial_is_best() {
    let study = in_memory(RandomSampler, 1);
    for (value, constraint) in [(1.0, 0.5), (2.0, 0.0), (3.0, -1.0), (0.5, f64::NAN)] {
        let trial = study.ask().unwrap();
        trial.set_constraint("memory", constraint).unwrap();
        study.tell(trial, Told::value(value)).unwrap();
    }
    assert_eq!(study.best_trial().unwrap().number, 1);
}

#[test]
fn of_several_objectives_the_best_are_those_that_nobody_dominates() {
    let study = Study::create_in_memory(&config("two", 2, 1), sampled_by(RandomSampler)).unwrap();
    for values in [[1.0, 4.0], [2.0, 2.0], [3.0, 3.0], [4.0, 1.0]] {
        let trial = study.ask().unwrap();
        study.tell(trial, Told::Complete(values.to_vec())).unwrap();
    }
    let numbers: Vec<u64> = study
        .best_trials()
        .unwrap()
        .iter()
        .map(|t| t.number)
        .collect();
    assert_eq!(numbers, [0, 1, 3]);
    assert!(matches!(
        study.best_trial(),
        Err(StudyError::SeveralObjectives(2))
    ));
}
