//! What this program does as a process of a crew. It says `ready`, waits for a line, works, and says
//! one line of JSON.

use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use atune_core::storage::journal::{JournalOptions, JournalReader, JournalStorage};
use atune_core::trial::WorkerId;
use clap::Subcommand;
use optimizer::Trial;
use optimizer::parameter::{FloatParam, Parameter as _};
use optimizer::storage::JournalStorage as OptimizerJournal;
use serde_json::{Value, json};

use crate::Result;
use crate::engine::Engine;
use crate::machine::{now_ns, peak_kib};
use crate::stats::float;
use crate::trial::Runner;

/// What a process of a crew is for.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Role {
    /// Runs trials and says when.
    #[command(hide = true)]
    Work {
        engine: Engine,
        path: PathBuf,
        trials: u64,
        threads: u64,
        worker: u64,
    },
    /// Runs trials until it is told to stop, and says when each was acknowledged.
    #[command(hide = true)]
    Repeat { path: PathBuf, worker: u64 },
    /// Opens a file and says what that took.
    #[command(hide = true)]
    Open { engine: Engine, path: PathBuf },
}

impl Role {
    pub(crate) fn run(&self) -> Result<()> {
        match self {
            Self::Work {
                engine: Engine::Optimizer,
                path,
                trials,
                ..
            } => answer(&optimizer_trials(path, *trials)?),
            Self::Work {
                engine,
                path,
                trials,
                threads,
                worker,
            } => answer(&trials_of(*engine, path, *trials, *threads, *worker)?),
            Self::Repeat { path, worker } => answer(&repeat(path, *worker)?),
            Self::Open { engine, path } => {
                wait_for_go()?;
                answer(&open(*engine, path)?)
            }
        }
    }
}

fn wait_for_go() -> Result<()> {
    writeln!(io::stdout(), "ready")?;
    io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

fn answer(value: &Value) -> Result<()> {
    Ok(writeln!(io::stdout(), "{value}")?)
}

fn open_to_write(path: &Path, worker: u64) -> Result<JournalStorage> {
    let options = JournalOptions {
        worker: WorkerId(worker),
        ..JournalOptions::default()
    };
    Ok(JournalStorage::open(path, options)?)
}

fn trials_of(engine: Engine, path: &Path, trials: u64, threads: u64, worker: u64) -> Result<Value> {
    let store = open_to_write(path, worker)?;
    let one_thread = |thread: u64| {
        let mut runner = Runner::new(&store, worker + thread);
        for _ in 0..trials / threads {
            match engine {
                Engine::Raw => runner.raw(),
                _ => runner.managed(),
            }
            .map_err(|e| e.to_string())?;
        }
        Ok::<_, String>(runner.commit_micros)
    };
    wait_for_go()?;
    let start_ns = now_ns();
    let micros = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || one_thread(thread)))
            .collect();
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .map(|micros| micros.unwrap_or_else(|_| Err("a thread panicked".to_owned())))
            .collect::<Result<Vec<_>, String>>()
    })?;
    let (end_ns, trials) = (now_ns(), trials / threads * threads);
    let commit_us = micros.concat();
    Ok(json!({"start_ns": start_ns, "end_ns": end_ns, "trials": trials, "commit_us": commit_us}))
}

fn repeat(path: &Path, worker: u64) -> Result<Value> {
    let store = open_to_write(path, worker)?;
    let mut runner = Runner::new(&store, worker);
    wait_for_go()?;
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    thread::spawn(move || {
        // An error means that nobody is there any more: stop as well.
        io::stdin().lock().read_line(&mut String::new()).ok();
        told.store(true, Ordering::Relaxed);
    });
    let mut acknowledged_ns = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        runner.managed()?;
        acknowledged_ns.push(now_ns());
    }
    Ok(json!({"acknowledged_ns": acknowledged_ns}))
}

fn open(engine: Engine, path: &Path) -> Result<Value> {
    let start = now_ns();
    let (trials, end) = if engine == Engine::Optimizer {
        let study = optimizer_study(path)?;
        (study.n_trials() as u64, now_ns())
    } else {
        let reader = JournalReader::open(path)?;
        (reader.replica().trials().len() as u64, now_ns())
    };
    let open_ms = float(end - start) / 1e6;
    Ok(json!({"open_ms": open_ms, "trials": trials, "peak_kib": peak_kib()?}))
}

fn optimizer_study(path: &Path) -> Result<optimizer::Study<f64>> {
    Ok(optimizer::Study::builder()
        .minimize()
        .sampler(optimizer::sampler::RandomSampler::new())
        .storage(OptimizerJournal::<f64>::open(path)?)
        .build())
}

fn optimizer_trials(path: &Path, trials: u64) -> Result<Value> {
    let study = optimizer_study(path)?;
    let params = ["x0", "x1", "x2"].map(|name| FloatParam::new(-1.0, 1.0).name(name));
    wait_for_go()?;
    let start_ns = now_ns();
    study.optimize(usize::try_from(trials)?, |trial: &mut Trial| {
        let mut value = 0.0;
        for param in &params {
            value += param.suggest(trial)?;
        }
        for step in 0..3 {
            trial.report(step, value);
        }
        Ok::<_, optimizer::Error>(value)
    })?;
    Ok(json!({"start_ns": start_ns, "end_ns": now_ns(), "trials": trials, "commit_us": []}))
}
