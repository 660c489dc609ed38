//! How long the survivors stand still after one of eight writers was killed, and what it left behind.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use atune_core::outbox::Intent;
use atune_core::storage::journal::{Durability, JournalOptions, JournalStorage};
use atune_core::storage::{Observation, Storage};
use atune_core::trial::{TrialState, WorkerId};
use serde_json::{Value, json};

use crate::crew::{self, Member};
use crate::engine::itself;
use crate::machine::{now_millis, now_ns};
use crate::stats::{Numbers, float, median, quantile};
use crate::trial::{self, STUDY};
use crate::{Plan, Result};

const PROCESSES: u64 = 8;
const WARM_UP_MILLIS: u64 = 300;
/// The kill comes at some moment of this time after the warm-up.
const SPREAD_MICROS: u64 = 500_000;
/// How long the survivors are watched before they are told to stop.
const WATCH: Duration = Duration::from_millis(1500);
const GRACE_MILLIS: u64 = 1;

/// What one kill did.
#[derive(Debug)]
struct Kill {
    /// Without an acknowledgement by anybody, before the kill and after it.
    gap_before_ms: f64,
    gap_after_ms: f64,
    /// The longest time after the kill that one survivor was without an acknowledgement.
    gap_of_one_ms: f64,
    /// Trials that were left running, before and after stale ones were failed.
    left: usize,
    stuck: usize,
    /// Acknowledged by survivors, but not complete in the study.
    lost: u64,
}

pub(crate) fn measure(plan: &Plan, dir: &Path) -> Result<Value> {
    let count = if plan.quick { 5 } else { 20 };
    let mut numbers = Numbers::from_seed(count);
    let kills = (0..count)
        .map(|_| kill_one(dir, &mut numbers))
        .collect::<Result<Vec<_>>>()?;
    let of = |part: fn(&Kill) -> f64| kills.iter().map(part).collect::<Vec<_>>();
    let (before, after) = (of(|k| k.gap_before_ms), of(|k| k.gap_after_ms));
    let one = of(|k| k.gap_of_one_ms);
    Ok(json!({
        "processes": PROCESSES,
        "kills": count,
        "gap_before_median_ms": median(&before),
        "gap_before_max_ms": quantile(&before, 1, 1),
        "gap_after_median_ms": median(&after),
        "gap_after_max_ms": quantile(&after, 1, 1),
        "gap_of_one_median_ms": median(&one),
        "gap_of_one_max_ms": quantile(&one, 1, 1),
        "left_running": kills.iter().map(|k| k.left).sum::<usize>(),
        "stuck_running": kills.iter().map(|k| k.stuck).sum::<usize>(),
        "lost": kills.iter().map(|k| k.lost).sum::<u64>(),
    }))
}

fn kill_one(dir: &Path, numbers: &mut Numbers) -> Result<Kill> {
    let scratch = tempfile::tempdir_in(dir)?;
    let path = scratch.path().join("study.atj");
    drop(trial::create(&path, Durability::Full)?);
    let commands = (1..=PROCESSES)
        .map(|worker| {
            let mut command = itself("repeat")?;
            command.arg(&path).arg(worker.to_string());
            Ok(command)
        })
        .collect::<Result<Vec<_>>>()?;
    let mut crew = crew::begin(commands)?;
    sleep(Duration::from_millis(WARM_UP_MILLIS));
    let warm_ns = now_ns();
    sleep(Duration::from_micros(numbers.below(SPREAD_MICROS)));
    let mut victim = crew.remove(usize::try_from(numbers.below(PROCESSES))?);
    let killed_ns = now_ns();
    victim.kill()?;
    sleep(WATCH);
    crew.iter_mut().try_for_each(Member::signal)?;
    let acknowledged = crew
        .iter_mut()
        .map(|member| {
            let answer = member.answer()?;
            let times = answer.get("acknowledged_ns").and_then(Value::as_array);
            let times = times.ok_or("no times")?.iter().filter_map(Value::as_u64);
            Ok(times.collect::<Vec<_>>())
        })
        .collect::<Result<Vec<_>>>()?;
    let mut all = acknowledged.concat();
    all.sort_unstable();
    let of_one = acknowledged
        .iter()
        .map(|times| gap_ms(times, killed_ns, u64::MAX));
    let settled = settle(&path)?;
    Ok(Kill {
        gap_before_ms: gap_ms(&all, warm_ns, killed_ns),
        gap_after_ms: gap_ms(&all, killed_ns, u64::MAX),
        gap_of_one_ms: of_one.fold(0.0, f64::max),
        left: settled.left,
        stuck: settled.stuck,
        lost: (all.len() as u64).saturating_sub(settled.complete),
    })
}

/// The longest time between neighbours of `times` from `start` to `end`, and before the first of them.
fn gap_ms(times: &[u64], start: u64, end: u64) -> f64 {
    let mut last = start;
    let mut longest = 0;
    for &time in times.iter().filter(|&&t| t > start && t <= end) {
        longest = longest.max(time - last);
        last = time;
    }
    float(longest) / 1e6
}

#[derive(Debug)]
struct Settled {
    left: usize,
    stuck: usize,
    complete: u64,
}

/// Fails the trials that nobody runs any more.
fn settle(path: &Path) -> Result<Settled> {
    let options = JournalOptions {
        worker: WorkerId(PROCESSES + 1),
        ..JournalOptions::default()
    };
    let store = JournalStorage::open(path, options)?;
    let with = |state| -> Result<Vec<Observation>> {
        let mut found = Vec::new();
        store.each_trial(STUDY, 0..u64::MAX, &[state], &mut |trial| {
            found.push(trial.into());
        })?;
        Ok(found)
    };
    let left = with(TrialState::Running)?;
    sleep(Duration::from_millis(10 * GRACE_MILLIS));
    for observed in &left {
        let now = now_millis();
        store.fail_stale(observed, now, GRACE_MILLIS, "killed", &Intent::default())?;
    }
    Ok(Settled {
        left: left.len(),
        stuck: with(TrialState::Running)?.len(),
        complete: with(TrialState::Complete)?.len() as u64,
    })
}
