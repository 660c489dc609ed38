//! `cargo dev bench tuner-functions`: how good samplers are on some functions, and, as
//! `cargo dev bench tuner-quality -- --latency`, how long they think.
//!
//! The regret on each function is the median over the seeds, 1 being that of random search; the geometric
//! mean stands for all functions. The latency is that of asking for a trial, drawing its parameters and
//! telling it, in memory.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "small counts, and places in a list"
)]

mod functions;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use atune_core::rng::KeyedRng;
use atune_core::sampler::by_kind;
use atune_core::study::{FinishedTrial, Study, StudyOptions, Told};
use atune_core::trial::{Direction, ResourceUnit, StudyConfig};
use clap::Parser;
use serde_json::{Value, json};

use functions::{FUNCTIONS, Function};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
struct Args {
    /// Three seeds only, to see that everything works.
    #[arg(long)]
    quick: bool,
    /// Also writes the results there, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A sampler, with options as JSON behind an equals sign. May be repeated.
    #[arg(long)]
    sampler: Vec<String>,
    /// How many seeds.
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// Trials per study.
    #[arg(long, default_value_t = 100)]
    trials: u64,
    /// Only these functions. May be repeated.
    #[arg(long)]
    function: Vec<String>,
    /// Measures latencies instead.
    #[arg(long)]
    latency: bool,
    /// What cargo passes to benchmarks.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Outcome<()> {
    let args = Args::parse();
    let mut results = Vec::new();
    let usual: &[&str] = if args.latency {
        &["random", "tpe", "cma-es", "nsga2", "gp"]
    } else {
        &["random", "tpe", "auto"]
    };
    let usual = usual.iter().map(|kind| (*kind).to_owned()).collect();
    let samplers: Vec<String> = Some(args.sampler.clone())
        .filter(|given| !given.is_empty())
        .unwrap_or(usual);
    for sampler in &samplers {
        if !args.latency {
            results.push(regrets(sampler, &args)?);
            continue;
        }
        let pasts: &[u64] = if args.quick {
            &[100]
        } else {
            &[100, 1000, 5000, 20_000]
        };
        for past in pasts {
            results.push(latency(sampler, 3, *past)?);
        }
        if !args.quick {
            results.push(latency(sampler, 10, 500)?);
        }
    }
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&json!({ "results": results }))? + "\n";
        durable::publish(&durable::RealFs, file, text.as_bytes())?;
    }
    Ok(())
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

fn regrets(sampler: &str, args: &Args) -> Outcome<Value> {
    let mut out = std::io::stdout().lock();
    let seeds = if args.quick { 3 } else { args.seeds };
    writeln!(out, "{sampler}: {} trials, {seeds} seeds", args.trials)?;
    let is_wanted = |function: &&Function| {
        args.function.is_empty() || args.function.iter().any(|name| name == function.name)
    };
    let start = Instant::now();
    let mut logs = Vec::new();
    let mut rows = Vec::new();
    for function in FUNCTIONS.iter().filter(is_wanted) {
        let run = |seed| best(function, sampler, seed, args.trials);
        let mut values: Vec<f64> = (0..seeds).map(run).collect::<Outcome<_>>()?;
        values.sort_by(f64::total_cmp);
        let [low, median, high] = [0.25, 0.5, 0.75].map(|at| quantile(&values, at));
        let regret = (median - function.optimum) / (function.random - function.optimum);
        logs.push(regret.max(1e-9).ln());
        let name = function.name;
        writeln!(
            out,
            "  {name:<18} median {median:>9.4}  quartiles {low:>9.4} {high:>9.4}  regret {regret:.4}"
        )?;
        rows.push(json!({ "function": name, "median": median, "low": low, "high": high, "regret": regret }));
    }
    let seconds = start.elapsed().as_secs_f64();
    let mean = (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp();
    writeln!(
        out,
        "  geometric mean of regrets {mean:.4}  ({seconds:.1} s)"
    )?;
    Ok(
        json!({ "sampler": sampler, "trials": args.trials, "seeds": seeds, "functions": rows, "regret": mean }),
    )
}

fn quantile(sorted: &[f64], at: f64) -> f64 {
    let place = at * (sorted.len().saturating_sub(1)) as f64;
    let value = |place: f64| sorted.get(place as usize).copied().unwrap_or(f64::NAN);
    let (low, high) = (value(place.floor()), value(place.ceil()));
    low + (high - low) * place.fract()
}

fn latency(sampler: &str, params: usize, past: u64) -> Outcome<Value> {
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
        std::io::stdout().lock(),
        "{sampler}, {params} parameters, after {past} trials: median {median:.4} ms, 90 % {high:.4} ms"
    )?;
    Ok(
        json!({ "sampler": sampler, "params": params, "past": past, "median_ms": median, "p90_ms": high }),
    )
}
