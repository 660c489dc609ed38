//! What samplers draw: within bounds, distributed as they say, and better than chance where they learn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use atune_core::rng::KeyedRng;
use atune_core::sampler::{SAMPLER_KINDS, Sampler, by_kind};
use atune_core::space::{FloatRange, IntRange};
use atune_core::study::{Study, StudyError, StudyOptions, Told, Trial};
use serde_json::{Value, json};

use crate::support::config;

fn study_of(sampler: Arc<dyn Sampler>, objectives: usize, seed: u64) -> Study {
    let options = StudyOptions {
        sampler: Some(sampler),
        ..StudyOptions::default()
    };
    Study::create_in_memory(&config("s", objectives, seed), options).unwrap()
}

fn study(kind: &str, options: &Value, seed: u64) -> Study {
    study_of(by_kind(kind, options).unwrap(), 1, seed)
}

/// Runs trials of one parameter, and answers its places in the unit interval.
fn column(study: &Study, count: usize, draw: impl Fn(&Trial) -> f64) -> Vec<f64> {
    let mut places = Vec::new();
    for _ in 0..count {
        let trial = study.ask().unwrap();
        places.push(draw(&trial));
        study.tell(trial, Told::value(0.0)).unwrap();
    }
    places
}

/// The largest distance between the distribution of these places and an even one.
fn unevenness(mut places: Vec<f64>) -> f64 {
    places.sort_by(f64::total_cmp);
    let n = places.len() as f64;
    let gap = |(nth, place): (usize, &f64)| {
        let nth = nth as f64;
        (place - nth / n).abs().max(((nth + 1.0) / n - place).abs())
    };
    places.iter().enumerate().map(gap).fold(0.0, f64::max)
}

#[test]
fn random_values_are_even_over_their_scale() {
    // The bound is exceeded by an even sample with a chance of 1 in 10,000.
    let bound = 2.23 / (400f64).sqrt();
    let study = study("random", &Value::Null, 1);
    let plain = column(&study, 400, |t| t.suggest_float("x", 0.0..=1.0).unwrap());
    assert!(unevenness(plain) < bound);
    let log = column(&study, 400, |t| {
        let range = FloatRange::log(1e-6..=1.0);
        (t.suggest_float("l", range).unwrap().log10() + 6.0) / 6.0
    });
    assert!(unevenness(log) < bound);
}

#[test]
fn quasi_random_values_are_far_more_even_than_random_ones() {
    let study = study("qmc", &Value::Null, 1);
    let (mut xs, mut ys, mut quarters) = (Vec::new(), Vec::new(), [0; 16]);
    for _ in 0..64 {
        let trial = study.ask().unwrap();
        let x = trial.suggest_float("x", 0.0..=1.0).unwrap();
        let y = trial.suggest_float("y", 0.0..=1.0).unwrap();
        quarters[(x * 4.0) as usize * 4 + (y * 4.0) as usize] += 1;
        xs.push(x);
        ys.push(y);
        study.tell(trial, Told::value(0.0)).unwrap();
    }
    assert!(unevenness(xs) < 2.0 / 64.0);
    assert!(unevenness(ys) < 2.0 / 64.0);
    assert_eq!(quarters, [4; 16]);
}

#[test]
fn a_grid_is_gone_through_once_whatever_is_enqueued_and_then_ends() {
    let options = json!({"grid": {"x": [0.0, 0.5, 1.0], "c": ["a", "b"]}});
    let study = study("grid", &options, 1);
    study
        .enqueue(json!({"x": 0.25}).as_object().unwrap(), false)
        .unwrap();
    let mut seen = BTreeSet::new();
    let ended = loop {
        let trial = match study.ask() {
            Ok(trial) => trial,
            Err(error) => break error,
        };
        let x = trial.suggest_float("x", 0.0..=1.0).unwrap();
        let c = trial.suggest_categorical("c", &["a", "b"]).unwrap();
        seen.insert(format!("{x} {c}"));
        study.tell(trial, Told::value(x)).unwrap();
    };
    assert!(
        matches!(ended, StudyError::SamplerSpent { kind: "grid" }),
        "{ended}"
    );
    assert_eq!(
        seen.iter()
            .filter(|point| !point.starts_with("0.25"))
            .count(),
        6
    );
}

#[test]
fn a_grid_refuses_what_it_does_not_have() {
    let study = study("grid", &json!({"grid": {"x": [3.0]}}), 1);
    let trial = study.ask().unwrap();
    let text = |name: &str| {
        trial
            .suggest_float(name, 0.0..=1.0)
            .unwrap_err()
            .to_string()
    };
    assert!(text("y").contains("\"y\""));
    assert!(text("x").contains("3.0 of the grid"));
    assert!(by_kind("grid", &json!({"grid": {"x": []}})).is_err());
    assert!(by_kind("grid", &json!({"girt": {}})).is_err());
}

#[test]
fn brute_force_tries_every_path_of_a_space_with_conditions_once() {
    let study = study("brute-force", &Value::Null, 3);
    let mut seen = BTreeMap::new();
    while let Ok(trial) = study.ask() {
        let mut path = trial
            .suggest_categorical("kind", &["a", "b", "c"])
            .unwrap()
            .to_owned();
        match path.as_str() {
            "a" => {
                let range = IntRange::stepped(0..=4, 2);
                path += &trial.suggest_int("n", range).unwrap().to_string();
            }
            "b" => {
                let flag = trial.suggest_bool("flag").unwrap();
                path += &flag.to_string();
                if flag {
                    let range = FloatRange::stepped(0.0..=1.0, 0.5);
                    path += &trial.suggest_float("f", range).unwrap().to_string();
                }
            }
            _ => {}
        }
        *seen.entry(path).or_insert(0) += 1;
        study.tell(trial, Told::value(0.0)).unwrap();
    }
    assert_eq!(seen.len(), 3 + (1 + 3) + 1, "{seen:?}");
    assert!(seen.values().all(|count| *count == 1), "{seen:?}");
}

#[test]
fn fixed_parameters_stay_and_the_others_are_drawn() {
    let options = json!({"fixed": {"x": 0.25, "c": "b"}});
    let study = study("partial-fixed", &options, 1);
    for _ in 0..20 {
        let trial = study.ask().unwrap();
        assert_eq!(trial.suggest_float("x", 0.0..=1.0).unwrap(), 0.25);
        assert_eq!(trial.suggest_categorical("c", &["a", "b"]).unwrap(), "b");
        let y = trial.suggest_float("y", 0.0..=1.0).unwrap();
        study.tell(trial, Told::value(y)).unwrap();
    }
    assert!(study.best_trial().unwrap().values.unwrap()[0].0 < 0.2);
}

/// The best of 60 trials on a bowl that is not in the middle, over parameters of all types.
fn best_on_a_bowl(kind: &str, options: &Value, seed: u64) -> f64 {
    let study = study(kind, options, seed);
    for _ in 0..60 {
        let trial = study.ask().unwrap();
        let x = trial.suggest_float("x", -4.0..=4.0).unwrap();
        let lr = trial
            .suggest_float("lr", FloatRange::log(1e-6..=1.0))
            .unwrap();
        let n = trial.suggest_int("n", 1..=20).unwrap() as f64;
        let step = trial
            .suggest_float("step", FloatRange::stepped(0.0..=2.0, 0.25))
            .unwrap();
        let kind = trial.suggest_categorical("kind", &["a", "b", "c"]).unwrap();
        let flag = trial.suggest_bool("flag").unwrap();
        let value = (x - 1.5).powi(2)
            + (lr.log10() + 2.0).powi(2)
            + ((n - 14.0) / 5.0).powi(2)
            + (step - 0.5).powi(2)
            + if kind == "b" { 0.0 } else { 1.0 }
            + if flag { 0.0 } else { 1.0 };
        study.tell(trial, Told::value(value)).unwrap();
    }
    study.best_trial().unwrap().values.unwrap()[0].0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn samplers_that_learn_come_closer_than_chance_whatever_their_options() {
    let of = |kind: &str, options: &Value| {
        median((0..9).map(|s| best_on_a_bowl(kind, options, s)).collect())
    };
    let random = of("random", &Value::Null);
    for (kind, options) in [
        ("tpe", Value::Null),
        ("tpe", json!({"multivariate": false})),
        ("tpe", json!({"group": false})),
        ("auto", Value::Null),
    ] {
        let learned = of(kind, &options);
        assert!(
            learned < random * 0.75,
            "{kind} {options}: {learned} where chance has {random}"
        );
    }
}

#[test]
fn a_branch_that_began_poorly_is_looked_into_until_it_shows_what_it_can() {
    // Everything in the one branch is at most 1.1; the other has the best, and mostly much worse.
    let run = |options: &Value, seed: u64| {
        let study = study("tpe", options, seed);
        let mut late = 0;
        for number in 0..150 {
            let trial = study.ask().unwrap();
            trial.suggest_float("unused", 0.0..=1.0).unwrap();
            let kind = trial
                .suggest_categorical("kind", &["early", "late"])
                .unwrap();
            let value = if kind == "early" {
                1.0 + 0.1 * trial.suggest_float("x", 0.0..=1.0).unwrap()
            } else {
                late += u32::from(number >= 50);
                30.0 * (trial.suggest_float("y", 0.0..=1.0).unwrap() - 0.3).abs()
            };
            study.tell(trial, Told::value(value)).unwrap();
        }
        (study.best_trial().unwrap().values.unwrap()[0].0, late)
    };
    let runs: Vec<(f64, u32)> = (0..9).map(|seed| run(&Value::Null, seed)).collect();
    let found = runs.iter().filter(|(best, _)| *best < 1.0).count();
    assert!(found >= 7, "{runs:?}");
    assert!(runs.iter().all(|(_, late)| *late >= 3), "{runs:?}");
}

#[test]
fn running_trials_are_kept_away_from() {
    // Twelve trials that know of the same past, and of each other only that they run.
    let spread = |constant_liar: bool| {
        let study = study("tpe", &json!({"constant_liar": constant_liar}), 2);
        for _ in 0..30 {
            let trial = study.ask().unwrap();
            let x = trial.suggest_float("x", 0.0..=1.0).unwrap();
            study.tell(trial, Told::value((x - 0.3).powi(2))).unwrap();
        }
        let running: Vec<Trial> = (0..12).map(|_| study.ask().unwrap()).collect();
        let mut places: Vec<f64> = running
            .iter()
            .map(|t| t.suggest_float("x", 0.0..=1.0).unwrap())
            .collect();
        places.sort_by(f64::total_cmp);
        let gaps: Vec<f64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
        median(gaps)
    };
    assert!(spread(true) > spread(false));
}

#[test]
fn constraints_lead_to_where_they_are_met() {
    let study = study("tpe", &Value::Null, 5);
    for _ in 0..80 {
        let trial = study.ask().unwrap();
        let x = trial.suggest_float("x", 0.0..=1.0).unwrap();
        let y = trial.suggest_float("y", 0.0..=1.0).unwrap();
        trial.set_constraint("x", 0.6 - x).unwrap();
        study.tell(trial, Told::value(x + (y - 0.5).abs())).unwrap();
    }
    let best = study.best_trial().unwrap();
    let x = best.param("x").unwrap().value.as_f64();
    assert!((0.6..0.66).contains(&x), "{x}");
}

#[test]
fn several_objectives_are_led_towards_their_front() {
    // Of x and y, everything with y = 0 is on the front.
    let near_front = |kind: &str| {
        let study = study_of(by_kind(kind, &Value::Null).unwrap(), 2, 3);
        let mut near = 0;
        for number in 0..100 {
            let trial = study.ask().unwrap();
            let x = trial.suggest_float("x", 0.0..=1.0).unwrap();
            let y = trial.suggest_float("y", 0.0..=1.0).unwrap();
            let told = Told::Complete(vec![x + y, 1.0 - x + y]);
            near += u32::from(number >= 30 && y < 0.1);
            study.tell(trial, told).unwrap();
        }
        near
    };
    let (learned, random) = (near_front("tpe"), near_front("random"));
    assert!(learned > 2 * random, "{learned} where chance has {random}");
}

#[test]
fn every_sampler_keeps_to_any_space_and_says_which_it_cannot() {
    let mut rng = KeyedRng::new(1, 0, "spaces");
    for kind in SAMPLER_KINDS {
        if matches!(kind, "grid" | "brute-force") {
            continue;
        }
        let study = study(kind, &Value::Null, 1);
        for _ in 0..30 {
            let trial = study.ask().unwrap();
            let mut sum = 0.0;
            let width = 10f64.powi(rng.place(12) as i32 - 6);
            sum += trial.suggest_float("moving", -width..=width).unwrap();
            sum += trial.suggest_float("one", 2.0..=2.0).unwrap();
            sum += trial
                .suggest_float("tiny", FloatRange::log(1e-300..=1e-299))
                .unwrap();
            sum += trial
                .suggest_float("step", FloatRange::stepped(0.0..=1.0, 0.3))
                .unwrap();
            sum += trial.suggest_int("all", i64::MIN..=i64::MAX).unwrap() as f64 * 1e-300;
            sum += trial
                .suggest_int("log", IntRange::log(1..=i64::MAX))
                .unwrap() as f64
                * 1e-300;
            let choices: Vec<i64> = (0..=rng.place(4) as i64).collect();
            sum += trial.suggest_categorical("grows", &choices).unwrap() as f64;
            study.tell(trial, Told::value(sum)).unwrap();
        }
    }
}

#[test]
fn ten_thousand_choices_and_five_hundred_parameters_are_drawn() {
    let choices: Vec<i64> = (0..10_000).collect();
    let names: Vec<String> = (0..500).map(|nth| format!("p{nth}")).collect();
    for kind in ["random", "qmc", "tpe", "auto"] {
        let study = study(kind, &json!({}), 1);
        for _ in 0..13 {
            let trial = study.ask().unwrap();
            let choice = trial.suggest_categorical("choice", &choices).unwrap();
            assert!((0..10_000).contains(&choice));
            let mut sum = 0.0;
            for name in &names {
                sum += trial.suggest_float(name, 0.0..=1.0).unwrap();
            }
            study.tell(trial, Told::value(sum)).unwrap();
        }
    }
}

#[test]
fn the_automatic_sampler_says_what_it_picked() {
    let study = study("auto", &Value::Null, 1);
    assert!(
        study
            .chosen_sampler()
            .unwrap()
            .unwrap()
            .starts_with("qmc: ")
    );
    for _ in 0..10 {
        let trial = study.ask().unwrap();
        let x = trial.suggest_float("x", 0.0..=1.0).unwrap();
        study.tell(trial, Told::value(x)).unwrap();
    }
    assert!(study.chosen_sampler().unwrap().unwrap().starts_with("gp: "));
}

#[test]
fn options_that_are_none_are_refused_by_name() {
    let text = |kind: &str, options: Value| by_kind(kind, &options).unwrap_err().to_string();
    assert!(text("tpe", json!({"candidates": 0})).contains("candidates"));
    assert!(text("tpe", json!({"gamma": 1})).contains("gamma"));
    assert!(text("random", json!({"x": 1})).contains("random"));
    let unknown = text("annealing", Value::Null);
    assert!(
        unknown.contains("tpe") && unknown.contains("annealing"),
        "{unknown}"
    );
}
