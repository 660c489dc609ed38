//! What is promised: real processes that are killed and stopped at random lose nothing acknowledged, keep
//! to the budget, and leave no trial stuck.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use atune_core::lifecycle::Outcome as Ending;
use atune_core::number::JsonF64;
use atune_core::outbox::Intent;
use atune_core::storage::conformance::{example_config, example_param};
use atune_core::storage::journal::{JournalOptions, JournalReader, JournalStorage, verify_study};
use atune_core::storage::{Observation, Storage};
use atune_core::trial::{Direction, StudyId, TrialState, WorkerId};
use durable::{Outcome, RealFs};
use rustix::process::{Pid, Signal, kill_process};

const WORKERS: u64 = 8;
const BUDGET: u64 = 400;
const PATH_VARIABLE: &str = "ATUNE_KILL_TEST_PATH";
const WORKER_VARIABLE: &str = "ATUNE_KILL_TEST_WORKER";

fn options(worker: u64) -> JournalOptions {
    JournalOptions {
        worker: WorkerId(worker),
        lease: Duration::from_millis(300),
        ..JournalOptions::default()
    }
}

/// The work of one process: trials until the budget is used up. Each acknowledgement is a line.
fn work(path: &str, worker: u64) {
    let storage = JournalStorage::open(path, options(worker)).unwrap();
    let params = [example_param("x", 0.25)];
    loop {
        let Ok(fence) = storage.start(StudyId(0), Some(BUDGET), WorkerId(worker), 1, &params)
        else {
            return;
        };
        println!("started {}", fence.trial);
        let ending = Ending::complete(vec![JsonF64(0.5)]);
        storage
            .terminal(fence, &ending, &Intent::default())
            .unwrap();
        println!("ended {}", fence.trial);
    }
}

fn spawn(path: &Path, worker: u64) -> Child {
    let name = "kill::workers_that_are_killed_and_stopped_lose_nothing_and_keep_to_the_budget";
    Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(PATH_VARIABLE, path)
        .env(WORKER_VARIABLE, worker.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).ok();
}

#[test]
fn workers_that_are_killed_and_stopped_lose_nothing_and_keep_to_the_budget() {
    if let (Ok(path), Ok(worker)) = (std::env::var(PATH_VARIABLE), std::env::var(WORKER_VARIABLE)) {
        work(&path, worker.parse().unwrap());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("study.atj");
    let storage = JournalStorage::create(&path, options(99)).unwrap();
    let config = example_config("killed", &[Direction::Minimize]);
    storage.create_study(&config).unwrap();
    let (mut readers, mut children) = (Vec::new(), Vec::new());
    let start = |worker: u64, readers: &mut Vec<_>| {
        let mut child = spawn(&path, worker);
        let lines = BufReader::new(child.stdout.take().unwrap());
        readers.push(std::thread::spawn(move || {
            lines.lines().map_while(Result::ok).collect::<Vec<String>>()
        }));
        child
    };
    for worker in 0..WORKERS {
        children.push(start(worker, &mut readers));
    }
    let begun = Instant::now();
    let mut turn = 0u64;
    let mut killed = 0;
    while children
        .iter_mut()
        .any(|child| child.try_wait().unwrap().is_none())
    {
        assert!(begun.elapsed() < Duration::from_mins(2), "the workers hang");
        std::thread::sleep(Duration::from_millis(7 + turn % 13));
        turn += 1;
        let at = usize::try_from(turn * 5 % WORKERS).unwrap();
        let still_killing = killed < 25;
        if children[at].try_wait().unwrap().is_some() {
            continue;
        }
        if turn.is_multiple_of(3) && still_killing {
            children[at].kill().unwrap();
            children[at].wait().unwrap();
            killed += 1;
            children[at] = start(100 + turn, &mut readers);
        } else if turn.is_multiple_of(7) {
            send(&children[at], Signal::STOP);
            // Longer than the lease now and then: the others must take it.
            let pause = if turn.is_multiple_of(2) { 450 } else { 20 };
            std::thread::sleep(Duration::from_millis(pause));
            send(&children[at], Signal::CONT);
        }
    }
    assert!(killed > 3, "{killed} kills");
    let acknowledged: Vec<String> = readers
        .into_iter()
        .flat_map(|r| r.join().unwrap())
        .collect();
    let numbers = |what: &str| -> Vec<u64> {
        let lines = acknowledged
            .iter()
            .filter_map(|line| line.split(what).nth(1));
        lines.filter_map(|n| n.trim().parse().ok()).collect()
    };
    let (started, ended) = (numbers("started "), numbers("ended "));
    assert_eq!(started.iter().collect::<BTreeSet<_>>().len(), started.len());
    assert_eq!(ended.iter().collect::<BTreeSet<_>>().len(), ended.len());

    let verdict = verify_study(Arc::new(RealFs), &path).unwrap();
    assert_eq!(verdict.verdict, Outcome::Intact, "{:?}", verdict.findings);
    let reader = JournalReader::open(&path).unwrap();
    let trials = reader.replica().trials();
    assert_eq!(trials.len() as u64, BUDGET);
    for trial in &ended {
        let found = &trials[usize::try_from(*trial).unwrap()];
        assert_eq!(
            found.state,
            TrialState::Complete,
            "trial {trial} was acknowledged"
        );
    }
    let running = trials.iter().filter(|t| t.state == TrialState::Running);
    let stuck: Vec<Observation> = running.map(Observation::from).collect();
    for observed in &stuck {
        let failed = storage.fail_stale(
            observed,
            1_000_000,
            10,
            "its worker died",
            &Intent::default(),
        );
        failed.unwrap();
    }
    let mut left = 0;
    let count = &mut |_: &_| left += 1;
    storage
        .each_trial(StudyId(0), 0..u64::MAX, &[TrialState::Running], count)
        .unwrap();
    assert_eq!(left, 0);
}
