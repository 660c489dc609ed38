//! A study that is resumed goes on as one that was never interrupted.

#![expect(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::sync::Arc;

use atune_core::space::FloatRange;
use atune_core::study::{Result, Study, Trial};
use serde_json::{Value, json};

use crate::support::{config, options, params, run, storage};

/// Numbers, whole numbers, choices and a parameter that not every trial has.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn mixed(objectives: usize) -> impl Fn(&Trial) -> Result<Vec<f64>> {
    move |trial| {
        let x = trial.suggest_float("x", -2.0..=3.0)?;
        let rate = trial.suggest_float("rate", FloatRange::log(1e-4..=1.0))?;
        let depth = trial.suggest_int("depth", 1..=9)?;
        let kind = trial.suggest_categorical("kind", &["plain", "deep", "wide"])?;
        let extra = match kind {
            "deep" => trial.suggest_float("extra", 0.0..=1.0)?,
            _ => 0.5,
        };
        let value = (x - 1.0).powi(2) + (rate.ln() + 4.0).abs() + (depth - 4).abs() as f64 + extra;
        Ok((0..objectives)
            .map(|at| value + at as f64 * (x + 1.0).powi(2))
            .collect())
    }
}

fn resumed_alike(kind: &str, sampler: &Value, objectives: usize, trials: usize) {
    let whole = Study::create(storage(), &config(objectives, 5), options(kind, sampler)).unwrap();
    run(&whole, trials, mixed(objectives));
    for cut in [trials / 3, trials / 2 + 1] {
        let storage = storage();
        let first = Study::create(
            Arc::clone(&storage),
            &config(objectives, 5),
            options(kind, sampler),
        );
        run(&first.unwrap(), cut, mixed(objectives));
        let second = Study::load(storage, "demo", options(kind, sampler)).unwrap();
        run(&second, trials - cut, mixed(objectives));
        assert_eq!(params(&second), params(&whole), "{kind}, cut at {cut}");
    }
}

#[test]
fn a_gaussian_process_goes_on_exactly() {
    resumed_alike("gp", &json!({"startup_trials": 6}), 1, 24);
}

#[test]
fn a_gaussian_process_with_several_objectives_goes_on_exactly() {
    resumed_alike("gp", &json!({"startup_trials": 6}), 2, 16);
}

#[test]
fn an_evolution_strategy_goes_on_exactly() {
    resumed_alike("cma-es", &json!({}), 1, 40);
    resumed_alike(
        "cma-es",
        &json!({"population": 4, "restarts": "bipop"}),
        1,
        60,
    );
}

#[test]
fn genetic_searches_go_on_exactly() {
    let small = json!({"population": 6});
    resumed_alike("nsga2", &small, 1, 40);
    resumed_alike("nsga2", &small, 2, 40);
    resumed_alike("nsga3", &small, 3, 40);
}
