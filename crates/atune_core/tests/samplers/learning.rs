//! Samplers find what is to be found, and stay within what they were given.

use atune_core::space::FloatRange;
use atune_core::study::{Result, Told, Trial};
use serde_json::json;

use crate::support::{least, run, study};

/// A choice of three algorithms, each with parameters of its own; the least value is 0, in the last.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn conditional(trial: &Trial) -> Result<Vec<f64>> {
    let kind = trial.suggest_categorical("kind", &["tree", "linear", "net"])?;
    trial.suggest_float("unused", 0.0..=1.0)?;
    Ok(vec![match kind {
        "tree" => {
            let depth = trial.suggest_int("depth", 1..=16)? as f64;
            0.3 + 0.01 * (depth - 9.0).powi(2)
        }
        "linear" => {
            let c = trial.suggest_float("c", FloatRange::log(1e-5..=1e5))?;
            0.5 + 0.03 * (c.log10() - 0.7).powi(2)
        }
        _ => {
            let layers = trial.suggest_int("layers", 1..=4)? as f64;
            let rate = trial.suggest_float("rate", FloatRange::log(1e-5..=1e-1))?;
            let act = trial.suggest_categorical("act", &["relu", "tanh", "gelu"])?;
            let act = if act == "gelu" { 0.0 } else { 0.2 };
            0.15 * (layers - 3.0).powi(2) + 0.3 * (rate.log10() + 3.2).powi(2) + act
        }
    }])
}

#[test]
fn a_gaussian_process_finds_the_branch_of_a_conditional_space_and_its_optimum() {
    for seed in 0..3 {
        let study = study("gp", &json!({}), 1, seed);
        run(&study, 60, conditional);
        assert!(least(&study) < 0.02, "{}", least(&study));
    }
}

#[test]
fn a_gaussian_process_meets_constraints() {
    let study = study("gp", &json!({}), 1, 1);
    let mut best = f64::INFINITY;
    for _ in 0..40 {
        let trial = study.ask().unwrap();
        let x = trial.suggest_float("x", 0.0..=1.0).unwrap();
        let y = trial.suggest_float("y", 0.0..=1.0).unwrap();
        let missed = 0.25 - x * y;
        trial.set_constraint("product", missed).unwrap();
        study.tell(trial, Told::value(x + y)).unwrap();
        if missed <= 0.0 {
            best = best.min(x + y);
        }
    }
    assert!(best < 1.02, "{best}");
}

#[test]
fn running_trials_keep_a_gaussian_process_from_asking_twice() {
    let study = study("gp", &json!({"startup_trials": 5}), 1, 1);
    let objective = |trial: &Trial| -> Result<f64> {
        let x = trial.suggest_float("x", 0.0..=1.0)?;
        Ok((37.0 * x).sin() + x)
    };
    run(&study, 8, |trial| Ok(vec![objective(trial)?]));
    let open: Vec<Trial> = (0..4).map(|_| study.ask().unwrap()).collect();
    let mut xs: Vec<f64> = open
        .iter()
        .map(|trial| trial.suggest_float("x", 0.0..=1.0).unwrap())
        .collect();
    xs.sort_by(f64::total_cmp);
    assert!(xs.windows(2).all(|pair| pair[1] - pair[0] > 1e-3), "{xs:?}");
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn an_evolution_strategy_finds_numbers_whole_numbers_and_logarithms() {
    for seed in 0..3 {
        let study = study("cma-es", &json!({}), 1, seed);
        run(&study, 500, |trial| {
            let x = trial.suggest_float("x", -5.0..=5.0)?;
            let depth = trial.suggest_int("depth", 0..=20)? as f64;
            let rate = trial.suggest_float("rate", FloatRange::log(1e-6..=1.0))?;
            Ok(vec![
                (x - 1.5).powi(2) + (depth - 13.0).abs() + (rate.log10() + 4.0).powi(2),
            ])
        });
        assert!(least(&study) < 1e-3, "{}", least(&study));
    }
}

#[test]
fn an_evolution_strategy_lives_with_choices_conditions_and_failures() {
    let study = study("cma-es", &json!({}), 1, 1);
    for number in 0..120 {
        let trial = study.ask().unwrap();
        let values = conditional(&trial).unwrap();
        let told = if number % 7 == 3 {
            Told::Failed("no".to_owned())
        } else {
            Told::Complete(values)
        };
        study.tell(trial, told).unwrap();
    }
    assert!(least(&study).is_finite());
}

#[test]
fn an_evolution_strategy_refuses_several_objectives_by_name() {
    let study = study("cma-es", &json!({}), 2, 1);
    let trial = study.ask().unwrap();
    let error = trial.suggest_float("x", 0.0..=1.0).unwrap_err().to_string();
    assert!(
        error.contains("cma-es") && error.contains("2 objectives"),
        "{error}"
    );
}

#[test]
fn genetic_searches_beat_chance_on_one_objective_and_on_a_front() {
    for kind in ["nsga2", "nsga3"] {
        let sphere = |trial: &Trial| -> Result<Vec<f64>> {
            let mut sum = 0.0;
            for name in ["a", "b", "c", "d", "e"] {
                sum += (trial.suggest_float(name, 0.0..=1.0)? - 0.3).powi(2);
            }
            Ok(vec![sum])
        };
        let (bred, random) = (
            study(kind, &json!({}), 1, 3),
            study("random", &json!({}), 1, 3),
        );
        run(&bred, 200, sphere);
        run(&random, 200, sphere);
        assert!(
            least(&bred) < 0.7 * least(&random),
            "{kind}: {}",
            least(&bred)
        );

        let front = study(kind, &json!({}), 2, 4);
        run(&front, 200, |trial| {
            let x = trial.suggest_float("x", 0.0..=1.0)?;
            let g =
                1.0 + trial.suggest_float("y", 0.0..=1.0)? + trial.suggest_float("z", 0.0..=1.0)?;
            Ok(vec![x, g * (1.0 - (x / g).sqrt())])
        });
        let best = front.best_trials().unwrap();
        assert!(best.len() > 15, "{kind}: {}", best.len());
    }
}

#[test]
fn genetic_searches_inherit_what_belongs_to_a_branch() {
    let study = study("nsga2", &json!({"population": 10}), 1, 1);
    run(&study, 150, conditional);
    assert!(least(&study) < 0.15, "{}", least(&study));
}
