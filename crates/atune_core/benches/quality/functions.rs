//! Objectives with a known optimum, all to be minimised.

use std::f64::consts::{E, PI, TAU};

use atune_core::rng::KeyedRng;
use atune_core::space::{FloatRange, IntRange};
use atune_core::study::{Result, Trial};

/// An objective: what the sampler is told, and what the point is really worth.
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: &'static str,
    /// The lowest value.
    pub(crate) optimum: f64,
    /// What random search reaches in 100 trials, the median of 20 seeds: the measure of regret.
    pub(crate) random: f64,
    /// The standard deviation of what is added to what the sampler is told.
    noise: f64,
    value: fn(&Trial) -> Result<f64>,
}

impl Function {
    /// Runs it: what the sampler is told, and the true value.
    pub(crate) fn run(&self, trial: &Trial, noise: &mut KeyedRng) -> Result<(f64, f64)> {
        let value = (self.value)(trial)?;
        Ok((value + self.noise * noise.normal(), value))
    }
}

/// The functions. Where optima would lie in the middle of the space they are moved away from it, since that
/// would flatter some samplers.
pub(crate) const FUNCTIONS: [Function; 8] = [
    Function {
        name: "sphere_5d",
        optimum: 0.0,
        random: 7.46,
        noise: 0.0,
        value: |trial| Ok(sphere(&shifted(trial, 5.0, &SPHERE_AT)?)),
    },
    Function {
        name: "rosenbrock_4d",
        optimum: 0.0,
        random: 33.1,
        noise: 0.0,
        value: |trial| Ok(rosenbrock(&shifted(trial, 2.0, &[0.0; 4])?)),
    },
    Function {
        name: "rastrigin_5d",
        optimum: 0.0,
        random: 38.5,
        noise: 0.0,
        value: |trial| Ok(rastrigin(&shifted(trial, 5.12, &RASTRIGIN_AT)?)),
    },
    Function {
        name: "ackley_5d",
        optimum: 0.0,
        random: 9.39,
        noise: 0.0,
        value: |trial| Ok(ackley(&shifted(trial, 10.0, &ACKLEY_AT)?)),
    },
    Function {
        name: "branin_2d",
        optimum: 0.397_887_357_729_738_16,
        random: 0.778,
        noise: 0.0,
        value: branin,
    },
    Function {
        name: "hartmann6_6d",
        optimum: -3.322_368_011_391_339,
        random: -2.12,
        noise: 0.0,
        value: hartmann,
    },
    Function {
        name: "mixed_conditional",
        optimum: 0.0,
        random: 0.163,
        noise: 0.0,
        value: mixed,
    },
    Function {
        name: "noisy_sphere_5d",
        optimum: 0.0,
        random: 7.89,
        noise: 1.0,
        value: |trial| Ok(sphere(&shifted(trial, 5.0, &NOISY_AT)?)),
    },
];

const SPHERE_AT: [f64; 5] = [-0.238_102, 0.298_862, 2.121_053, -0.171_750, 0.039_206];
const RASTRIGIN_AT: [f64; 5] = [-0.101_717, 0.629_890, 0.665_642, -1.429_599, -1.956_558];
const ACKLEY_AT: [f64; 5] = [-2.409_915, 1.852_580, 1.840_819, 3.493_362, -3.142_758];
const NOISY_AT: [f64; 5] = [-1.965_857, 1.012_928, 0.760_210, 2.201_762, -1.144_424];

/// A point of a cube from `-half` to `half`, as seen from `at`.
fn shifted(trial: &Trial, half: f64, at: &[f64]) -> Result<Vec<f64>> {
    let coordinate = |(nth, at): (usize, &f64)| {
        let x = trial.suggest_float(&format!("x{nth}"), -half..=half)?;
        Ok(x - at)
    };
    at.iter().enumerate().map(coordinate).collect()
}

fn sphere(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum()
}

fn rosenbrock(x: &[f64]) -> f64 {
    let pairs = x.iter().zip(x.iter().skip(1));
    pairs
        .map(|(a, b)| 100.0 * (b - a * a).powi(2) + (1.0 - a).powi(2))
        .sum()
}

fn rastrigin(x: &[f64]) -> f64 {
    x.iter()
        .map(|x| 10.0 + x * x - 10.0 * (TAU * x).cos())
        .sum()
}

fn ackley(x: &[f64]) -> f64 {
    let n = x.len() as f64;
    let waves = x.iter().map(|x| (TAU * x).cos()).sum::<f64>() / n;
    20.0 + E - 20.0 * (-0.2 * (sphere(x) / n).sqrt()).exp() - waves.exp()
}

fn branin(trial: &Trial) -> Result<f64> {
    let a = trial.suggest_float("x0", -5.0..=10.0)?;
    let b = trial.suggest_float("x1", 0.0..=15.0)?;
    let bowl = b - 5.1 / (4.0 * PI * PI) * a * a + 5.0 / PI * a - 6.0;
    Ok(bowl * bowl + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * a.cos() + 10.0)
}

/// Weight, widths and centre of each hill.
const HILLS: [(f64, [f64; 6], [f64; 6]); 4] = [
    (
        1.0,
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
    ),
    (
        1.2,
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
    ),
    (
        3.0,
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
    ),
    (
        3.2,
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
        [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
    ),
];

fn hartmann(trial: &Trial) -> Result<f64> {
    let mut x = [0.0; 6];
    for (nth, x) in x.iter_mut().enumerate() {
        *x = trial.suggest_float(&format!("x{nth}"), 0.0..=1.0)?;
    }
    let hill = |(weight, widths, centre): &(f64, [f64; 6], [f64; 6])| {
        let distances = x.iter().zip(centre).zip(widths);
        let sum: f64 = distances.map(|((x, at), a)| a * (x - at).powi(2)).sum();
        weight * (-sum).exp()
    };
    Ok(-HILLS.iter().map(hill).sum::<f64>())
}

/// A made-up choice among three kinds of models with parameters of their own, and one parameter without a use.
fn mixed(trial: &Trial) -> Result<f64> {
    let algo = trial.suggest_categorical("algo", &["tree", "linear", "net"])?;
    trial.suggest_float("unused", 0.0..=1.0)?;
    match algo {
        "tree" => {
            let depth = trial.suggest_int("depth", 1..=16)? as f64;
            let lr = trial.suggest_float("tree_lr", FloatRange::log(1e-4..=1.0))?;
            Ok(0.3 + 0.01 * (depth - 9.0).powi(2) / 4.0 + 0.25 * (lr.log10() + 1.3).powi(2))
        }
        "linear" => {
            let c = trial.suggest_float("C", FloatRange::log(1e-5..=1e5))?;
            let penalty = trial.suggest_categorical("penalty", &["l1", "l2", "none"])?;
            let penalty = match penalty {
                "l1" => 0.1,
                "l2" => 0.0,
                _ => 0.3,
            };
            Ok(0.5 + penalty + 0.03 * (c.log10() - 0.7).powi(2))
        }
        _ => {
            let layers = trial.suggest_int("layers", 1..=4)? as f64;
            let lr = trial.suggest_float("net_lr", FloatRange::log(1e-5..=1e-1))?;
            let act = trial.suggest_categorical("act", &["relu", "tanh", "gelu", "sigmoid"])?;
            let width = trial.suggest_int("width", IntRange::log(8..=1024))? as f64;
            let act = match act {
                "relu" => 0.05,
                "tanh" => 0.2,
                "gelu" => 0.0,
                _ => 0.6,
            };
            Ok(0.15 * (layers - 3.0).powi(2)
                + 0.3 * (lr.log10() + 3.2).powi(2)
                + act
                + 0.1 * (width.log2() - 7.5).powi(2) / 4.0)
        }
    }
}
