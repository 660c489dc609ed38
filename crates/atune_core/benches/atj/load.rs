//! Opening studies of several sizes: time, memory, and bytes on disk.

use std::path::{Path, PathBuf};

use atune_core::storage::journal::{Durability, data_folder};
use durable::{FileKind, Fs as _, RealFs};
use serde_json::{Value, json};

use crate::crew;
use crate::engine::Engine;
use crate::peers::Peers;
use crate::report::Report;
use crate::stats::{float, median};
use crate::trial::{self, Runner};
use crate::{Plan, Result};

/// Trials of the peers' studies: theirs take long to write.
const PEER_TRIALS: u64 = 5_000;

/// Studies of several sizes, smallest first.
#[derive(Debug)]
pub(crate) struct Prepared {
    studies: Vec<(u64, PathBuf)>,
}

impl Prepared {
    /// Writes them with two commits for each trial, one after the other, and without syncs.
    pub(crate) fn new(plan: &Plan, dir: &Path) -> Result<Self> {
        let mut studies = Vec::new();
        for &trials in sizes(plan) {
            let path = dir.join(format!("held-{trials}.atj"));
            let store = trial::create(&path, Durability::Process)?;
            let mut runner = Runner::new(&store, 0);
            for _ in 0..trials {
                runner.managed()?;
            }
            studies.push((trials, path));
        }
        Ok(Self { studies })
    }

    pub(crate) fn largest(&self) -> Option<&PathBuf> {
        self.studies.last().map(|(_, path)| path)
    }
}

/// How many trials the studies hold.
pub(crate) fn sizes(plan: &Plan) -> &'static [u64] {
    if plan.quick {
        &[500, 1_000, 5_000]
    } else {
        &[1_000, 5_000, 10_000, 50_000]
    }
}

/// Opens each study in a process of its own, once per round.
pub(crate) fn measure(
    plan: &Plan,
    dir: &Path,
    peers: &Peers,
    prepared: &Prepared,
    report: &mut Report,
) -> Result<()> {
    let empty = dir.join("empty.atj");
    Engine::Managed.create(peers, &empty)?;
    for (trials, path) in &prepared.studies {
        let row = opened(plan, peers, Engine::Managed, [&empty, path], *trials)?;
        report.add("opens", row);
    }
    Ok(())
}

/// As [`measure`], for the peers, whose studies are smaller.
pub(crate) fn measure_peers(plan: &Plan, dir: &Path, peers: &Peers, report: &mut Report) {
    let trials = if plan.quick {
        PEER_TRIALS / 10
    } else {
        PEER_TRIALS
    };
    // Rustuna reads what Optuna wrote, reports included, so that both read the same file.
    let journals = [Engine::OptunaJournal, Engine::RustunaJournal];
    let (empty, filled) = (dir.join("empty.jsonl"), dir.join("filled.jsonl"));
    let written = optuna_files(peers, &empty, &filled, trials);
    for engine in journals {
        let row = written
            .clone()
            .map_err(Into::into)
            .and_then(|()| opened(plan, peers, engine, [&empty, &filled], trials));
        report.add_or_skip("opens", engine.name(), row);
    }
    let (empty, filled) = (dir.join("empty.optimizer"), dir.join("filled.optimizer"));
    let engine = Engine::Optimizer;
    let row = engine
        .work(peers, &filled, [trials, 1, 0])
        .and_then(|command| crew::run([command]))
        .and_then(|_| opened(plan, peers, engine, [&empty, &filled], trials));
    report.add_or_skip("opens", engine.name(), row);
}

fn optuna_files(peers: &Peers, empty: &Path, filled: &Path, trials: u64) -> Result<(), String> {
    let write = || {
        Engine::OptunaJournal.create(peers, empty)?;
        let filled = filled.to_str().ok_or("a path that is not UTF-8")?;
        peers.call("fill", &["optuna-journal", filled, &trials.to_string()])
    };
    write().map_err(|e| e.to_string())
}

fn opened(
    plan: &Plan,
    peers: &Peers,
    engine: Engine,
    [empty, path]: [&PathBuf; 2],
    trials: u64,
) -> Result<Value> {
    let (mut millis, mut growth_kib) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let open = |path| -> Result<Value> {
            let answers = crew::run([engine.open(peers, path)?])?;
            Ok(answers.into_iter().next().unwrap_or_default())
        };
        let (base, full) = (open(empty)?, open(path)?);
        let found = full.get("trials").and_then(Value::as_u64);
        if found != Some(trials) {
            return Err(format!("{found:?} trials instead of {trials}").into());
        }
        let number = |answer: &Value, name| answer.get(name).and_then(Value::as_f64);
        millis.extend(number(&full, "open_ms"));
        let peaks = number(&full, "peak_kib").zip(number(&base, "peak_kib"));
        growth_kib.extend(peaks.map(|(full, base)| full - base));
    }
    Ok(json!({
        "engine": engine.name(),
        "trials": trials,
        "open_ms": median(&millis),
        "memory_mib": median(&growth_kib) / 1024.0,
        "bytes_per_trial": float(bytes_of(path)?) / float(trials),
        "rounds": millis.len(),
    }))
}

/// The length of a study's file, and of those in its folder if it has one.
fn bytes_of(path: &Path) -> Result<u64> {
    let mut bytes = RealFs.metadata(path)?.len;
    let folder = data_folder(path);
    if RealFs.exists(&folder)? {
        for file in RealFs.read_dir(&folder)? {
            let found = RealFs.metadata(&file)?;
            if found.kind == FileKind::File {
                bytes += found.len;
            }
        }
    }
    Ok(bytes)
}
