//! How good samplers are, and how long they think.
//!
//! `quality regret [--sampler KIND]… [--seeds N] [--trials N]` prints the median regret on each function, 1
//! being that of random search, and the geometric mean. `quality latency [--sampler KIND]…` prints the time
//! of asking for a trial with three parameters and telling it, after some trials.

mod functions;

use std::io::Write as _;
use std::time::Instant;

use atune_core::rng::KeyedRng;
use atune_core::sampler::by_kind;
use atune_core::study::{FinishedTrial, Study, StudyOptions, Told};
use atune_core::trial::{Direction, ResourceUnit, StudyConfig};
use clap::{Parser, Subcommand};

use functions::{FUNCTIONS, Function};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// What cargo passes to benchmarks.
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Verb {
    /// Regret on functions, 1 for that of random search.
    Regret {
        /// A sampler, with options as JSON behind an equals sign.
        #[arg(long, default_values_t = [String::from("random"), String::from("tpe"), String::from("auto")])]
        sampler: Vec<String>,
        /// How many seeds.
        #[arg(long, default_value_t = 20)]
        seeds: u64,
        /// Trials per study.
        #[arg(long, default_value_t = 100)]
        trials: u64,
    },
    /// Milliseconds of asking and telling after 100, 1,000 and 5,000 trials.
    Latency {
        /// A sampler, as for regret.
        #[arg(long, default_values_t = [String::from("random"), String::from("tpe")])]
        sampler: Vec<String>,
        /// Parameters of the space.
        #[arg(long, default_value_t = 3)]
        params: usize,
    },
}

fn main() -> Outcome<()> {
    let regret = Verb::Regret {
        sampler: vec!["tpe".to_owned()],
        seeds: 20,
        trials: 100,
    };
    match Args::parse().verb.unwrap_or(regret) {
        Verb::Regret {
            sampler,
            seeds,
            trials,
        } => sampler
            .iter()
            .try_for_each(|sampler| regrets(sampler, seeds, trials)),
        Verb::Latency { sampler, params } => sampler
            .iter()
            .try_for_each(|sampler| latency(sampler, params)),
    }
}

fn study(sampler: &str, seed: u64) -> Outcome<Study> {
    let (kind, options) = sampler.split_once('=').unwrap_or((sampler, "null"));
    let options = StudyOptions {
        sampler: Some(by_kind(kind, &serde_json::from_str(options)?)?),
        ..StudyOptions::default()
    };
    let config = StudyConfig {
        name: "quality".to_owned(),
        directions: vec![Direction::Minimize],
        seed,
        space: None,
        resource_unit: ResourceUnit::Steps,
        metric_names: Vec::new(),
    };
    Ok(Study::create_in_memory(&config, options)?)
}

/// The best true value of one study.
fn best(function: &Function, sampler: &str, seed: u64, trials: u64) -> Outcome<f64> {
    let study = study(sampler, seed)?;
    let mut noise = KeyedRng::new(seed, 0, "noise");
    let mut best = f64::INFINITY;
    for _ in 0..trials {
        let trial = study.ask()?;
        let (told, value) = function.run(&trial, &mut noise)?;
        study.tell(trial, Told::value(told))?;
        best = best.min(value);
    }
    Ok(best)
}

fn regrets(sampler: &str, seeds: u64, trials: u64) -> Outcome<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{sampler}: {trials} trials, {seeds} seeds")?;
    let start = Instant::now();
    let mut logs = 0.0;
    for function in &FUNCTIONS {
        let run = |seed| best(function, sampler, seed, trials);
        let mut values: Vec<f64> = (0..seeds).map(run).collect::<Outcome<_>>()?;
        values.sort_by(f64::total_cmp);
        let [low, median, high] = [0.25, 0.5, 0.75].map(|at| quantile(&values, at));
        let regret = (median - function.optimum) / (function.random - function.optimum);
        logs += regret.max(1e-9).ln() / FUNCTIONS.len() as f64;
        let name = function.name;
        writeln!(
            out,
            "  {name:<18} median {median:>9.4}  quartiles {low:>9.4} {high:>9.4}  regret {regret:.4}"
        )?;
    }
    let seconds = start.elapsed().as_secs_f64();
    writeln!(
        out,
        "  geometric mean of regrets {:.4}  ({seconds:.1} s)",
        logs.exp()
    )?;
    Ok(())
}

fn quantile(sorted: &[f64], at: f64) -> f64 {
    let place = at * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * place.fract()
}

fn latency(sampler: &str, params: usize) -> Outcome<()> {
    let mut out = std::io::stdout().lock();
    for past in [100u64, 1000, 5000] {
        let study = study(sampler, 1)?;
        let names: Vec<String> = (0..params).map(|nth| format!("x{nth}")).collect();
        let dist = || atune_core::space::Distribution::Float((-5.0..=5.0).into());
        let mut rng = KeyedRng::new(past, 0, "past");
        for _ in 0..past {
            let mut sum = 0.0;
            let param = |name: &String| {
                let value = 10.0 * rng.unit() - 5.0;
                sum += value * value;
                atune_core::space::Param {
                    name: name.clone(),
                    dist: dist(),
                    value: atune_core::space::ParamValue::F64(value.into()),
                }
            };
            let params = names.iter().map(param).collect();
            study.add_trial(&FinishedTrial {
                params,
                reports: Vec::new(),
                user_attrs: std::collections::BTreeMap::new(),
                constraints: std::collections::BTreeMap::new(),
                told: Told::value(sum),
            })?;
        }
        let mut times: Vec<f64> = Vec::new();
        for _ in 0..60 {
            let start = Instant::now();
            let trial = study.ask()?;
            let mut sum = 0.0;
            for name in &names {
                sum += trial.suggest_float(name, -5.0..=5.0)?.powi(2);
            }
            study.tell(trial, Told::value(sum))?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let (median, high) = (quantile(&times, 0.5), quantile(&times, 0.9));
        writeln!(
            out,
            "{sampler}, {params} parameters, after {past} trials: median {median:.4} ms, 90 % {high:.4} ms"
        )?;
    }
    Ok(())
}
