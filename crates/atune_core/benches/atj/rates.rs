//! Trials per second: by processes, by threads, on a fresh study and on one that holds many trials.

use std::path::Path;

use serde_json::{Value, json};

use crate::crew;
use crate::engine::Engine;
use crate::load::Prepared;
use crate::peers::Peers;
use crate::report::Report;
use crate::stats::{float, median, quantile};
use crate::{Group, Plan, Result};

/// One way to run trials, and what each round said.
#[derive(Debug)]
pub(crate) struct Rate {
    engine: Engine,
    /// Trials that the study holds before.
    held: u64,
    processes: u64,
    threads: u64,
    trials: u64,
    per_second: Vec<f64>,
    /// How long the slowest process took, divided by the quickest.
    fairness: Vec<f64>,
    commit_micros: Vec<f64>,
    failed: Option<String>,
}

impl Rate {
    fn new(plan: &Plan, engine: Engine, held: u64, processes: u64, threads: u64) -> Self {
        let part = if plan.quick { 10 } else { 1 };
        // All threads together run as many trials as eight processes.
        let trials = if threads > 1 { 8 } else { 1 } * engine.trials() / part;
        Self {
            engine,
            held,
            processes,
            threads,
            trials: (trials / threads).max(1) * threads,
            per_second: Vec::new(),
            fairness: Vec::new(),
            commit_micros: Vec::new(),
            failed: None,
        }
    }

    fn round(&mut self, dir: &Path, peers: &Peers, prepared: Option<&Prepared>) -> Result<()> {
        let scratch = tempfile::tempdir_in(dir)?;
        let fresh = scratch.path().join("study");
        let path = if self.held > 0 {
            let largest = prepared.and_then(Prepared::largest);
            largest.ok_or("no study was prepared")?
        } else {
            self.engine.create(peers, &fresh)?;
            &fresh
        };
        let commands = (0..self.processes)
            .map(|process| {
                let numbers = [self.trials, self.threads, 1 + process * self.threads];
                self.engine.work(peers, path, numbers)
            })
            .collect::<Result<Vec<_>>>()?;
        let answers = crew::run(commands)?;
        let times = |name| answers.iter().filter_map(move |a| a.get(name)?.as_u64());
        let first = times("start_ns").min().ok_or("no start")?;
        let last = times("end_ns").max().ok_or("no end")?;
        let seconds = |ns: u64| float(ns) / 1e9;
        self.per_second
            .push(float(times("trials").sum()) / seconds(last - first));
        let each = times("start_ns").zip(times("end_ns"));
        let each: Vec<f64> = each.map(|(start, end)| seconds(end - start)).collect();
        self.fairness
            .push(quantile(&each, 1, 1) / quantile(&each, 0, 1));
        let micros = answers
            .iter()
            .filter_map(|a| a.get("commit_us")?.as_array());
        self.commit_micros
            .extend(micros.flatten().filter_map(Value::as_f64));
        Ok(())
    }

    fn json(&self, floor_us: f64) -> Value {
        let rate = median(&self.per_second);
        json!({
            "engine": self.engine.name(),
            "held": self.held,
            "processes": self.processes,
            "threads": self.threads,
            "trials": self.trials * self.processes,
            "per_s": rate,
            "per_s_min": quantile(&self.per_second, 0, 1),
            "per_s_max": quantile(&self.per_second, 1, 1),
            "floors": 1e6 / rate / floor_us,
            "fairness": median(&self.fairness),
            "commits": self.commit_micros.len(),
            "commit_p50_us": median(&self.commit_micros),
            "commit_p99_us": quantile(&self.commit_micros, 99, 100),
            "rounds": self.per_second.len(),
        })
    }
}

/// What is measured in each round.
pub(crate) fn rates(plan: &Plan, held: u64) -> Vec<Rate> {
    let mut rates = Vec::new();
    let mut add = |engine, held, processes, threads| {
        rates.push(Rate::new(plan, engine, held, processes, threads));
    };
    if plan.has(Group::Rate) {
        for processes in [1, 2, 4, 8] {
            add(Engine::Managed, 0, processes, 1);
        }
        add(Engine::Managed, 0, 1, 32);
        for processes in [1, 8] {
            add(Engine::Raw, 0, processes, 1);
        }
    }
    if plan.has(Group::Held) {
        for processes in [1, 8] {
            add(Engine::Managed, held, processes, 1);
        }
    }
    if plan.has(Group::Peers) {
        for engine in Engine::PEERS {
            for processes in [1, 8] {
                add(engine, 0, processes, 1);
            }
        }
    }
    rates
}

/// Takes every measurement once. One that failed is not taken again; the report says so.
pub(crate) fn round(
    rates: &mut [Rate],
    dir: &Path,
    peers: &Peers,
    prepared: Option<&Prepared>,
) -> Result<()> {
    for rate in rates.iter_mut().filter(|rate| rate.failed.is_none()) {
        if let Err(error) = rate.round(dir, peers, prepared) {
            if !Engine::PEERS.contains(&rate.engine) {
                return Err(error);
            }
            rate.failed = Some(error.to_string());
        }
    }
    Ok(())
}

pub(crate) fn add_to(report: &mut Report, rates: &[Rate]) {
    for rate in rates {
        match &rate.failed {
            None => {
                let row = rate.json(report.floor_us());
                report.add("rates", row);
            }
            Some(why) => report.skip(rate.engine.name(), why),
        }
    }
}
