//! What is promised: processes that are killed and stopped at random lose nothing acknowledged, keep to the
//! budget, and leave no trial stuck and no point lost. `cargo dev soak` runs it larger.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atune_core::lifecycle::FencedMutation;
use atune_core::number::JsonF64;
use atune_core::outbox::{Intent, OutboxKey, Phase};
use atune_core::replica::{Outbox, Refusal, Trial};
use atune_core::storage::Storage;
use atune_core::storage::conformance::example_param;
use atune_core::storage::journal::JournalStorage;
use atune_core::storage::journal::record::{
    LifecycleClaim, LifecycleFenced, LifecycleTerminal, Op,
};
use atune_core::trial::{TrialId, TrialState, WorkerId};
use atune_core::worker::{
    LATE_RESULT_PREFIX, Outboxes, RetryPolicy, STOPPED_KEY, TrialHandle, Worker, WorkerError,
    WorkerSettings,
};
use durable::{Clock as _, SystemClock};
use serde_json::Value;

use crate::files::{STUDY, Scratch, complete, leased};
use crate::processes::{Member, Part, part, say};
use crate::workers::{Silent, fail_the_dead, trials};

const RETRY: RetryPolicy = RetryPolicy { max_attempts: 3 };
const LEASE: Duration = Duration::from_millis(300);
const GRACE: Duration = Duration::from_secs(1);

/// How long a process is stopped: for a moment, beyond its lease, and until it is taken for dead.
const STOPS_MILLIS: [u64; 20] = [
    1, 1, 1, 2, 2, 2, 3, 3, 3, 5, 5, 5, 10, 10, 20, 20, 40, 40, 500, 1_500,
];

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().unwrap())
}

/// Numbers drawn from a seed (`SplitMix64`).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// Trials until the budget is used up or the study is stopped: those that wait first. Each acknowledgement
/// is a line.
fn work(part: &Part) {
    let budget = part.orders.parse().unwrap();
    let storage = JournalStorage::open(&part.study, leased(part.worker, LEASE)).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let clock = Arc::new(SystemClock::start());
    let settings = WorkerSettings {
        heartbeat_interval: GRACE / 8,
        grace: GRACE,
        ..WorkerSettings::default()
    };
    let id = WorkerId(part.worker);
    let worker = Worker::new(Arc::clone(&storage), clock.clone(), id, settings).unwrap();
    let mut driver = Outboxes::new(storage, STUDY, RETRY);
    let next = || match worker.claim_waiting(STUDY)? {
        Some(waiting) => Ok(waiting),
        None => worker.start(STUDY, Some(budget), &[example_param("x", 0.25)]),
    };
    loop {
        let trial = match next() {
            Ok(trial) => trial,
            Err(WorkerError::Refused(Refusal::OverBudget { .. }) | WorkerError::Stopped { .. }) => {
                return;
            }
            Err(other) => panic!("{other}"),
        };
        run(&trial);
        let fence = trial.fence();
        let own = OutboxKey {
            trial: fence.trial,
            epoch: fence.epoch,
        };
        driver.drive(own, &mut Silent).unwrap();
        // Those of the dead, not those that their owners are about to do.
        let old = (clock.wall_ns() / 1_000_000).saturating_sub(500);
        driver.drive_open(old, &mut Silent).unwrap();
    }
}

fn run(trial: &TrialHandle) {
    let fence = trial.fence();
    let told = format!("{} {}", fence.trial, fence.epoch);
    say(format!("started {told}"));
    let is_lost = |error: &WorkerError| matches!(error, WorkerError::FenceLost { .. });
    let reported = (1..=2)
        .try_for_each(|step| trial.report(step, &[JsonF64(0.5)]))
        .and_then(|()| trial.flush());
    match reported {
        Ok(()) => say(format!("reported {told}")),
        Err(error) if is_lost(&error) => {}
        Err(other) => panic!("{other}"),
    }
    match trial.finish(&complete(0.5), &Intent::default()) {
        Ok(_) => say(format!("ended {told}")),
        Err(error) if is_lost(&error) => say(format!("late {told}")),
        Err(other) => panic!("{other}"),
    }
}

/// What was done to the processes, and what they said that was done.
#[derive(Debug, Default)]
struct Story {
    kills: u64,
    stops: u64,
    long_stops: u64,
    said: Vec<String>,
    took: Duration,
}

/// Kills and stops processes at random until they have ended by themselves. When the time is up the study
/// is stopped, and they are left alone.
fn torment(test: &str, scratch: &Scratch, processes: u64, budget: u64, time: Duration) -> Story {
    let mut numbers = Numbers(setting("DAYBOOK_CRASH_SEED", 1));
    let mut story = Story::default();
    let start = |worker| Member::start(test, &scratch.path, worker, &budget.to_string());
    let mut crew: Vec<(Member, Option<Instant>)> =
        (1..=processes).map(|w| (start(w), None)).collect();
    let begun = Instant::now();
    let mut is_stopped = false;
    let mut workers = processes;
    while crew.iter_mut().any(|(member, _)| !member.is_over()) {
        assert!(
            begun.elapsed() < time + Duration::from_mins(1),
            "the workers hang"
        );
        std::thread::sleep(Duration::from_millis(5 + numbers.below(60)));
        for (member, until) in &mut crew {
            if until.is_some_and(|until| until < Instant::now() || is_stopped) {
                member.go_on();
                *until = None;
            }
        }
        if !is_stopped && begun.elapsed() > time {
            is_stopped = true;
            let storage = JournalStorage::open(&scratch.path, leased(0, LEASE)).unwrap();
            storage
                .set_study_user_attr(STUDY, STOPPED_KEY, &Value::from("time is up"))
                .unwrap();
        }
        let at = usize::try_from(numbers.below(processes)).unwrap();
        let (member, until) = &mut crew[at];
        if is_stopped || member.is_over() {
            continue;
        }
        match numbers.below(8) {
            0 => {
                member.kill();
                story.said.extend(member.rest());
                story.kills += 1;
                workers += 1;
                crew[at] = (start(workers), None);
            }
            1..=3 if until.is_none() => {
                let millis = STOPS_MILLIS[usize::try_from(numbers.below(20)).unwrap()];
                member.pause();
                *until = Some(Instant::now() + Duration::from_millis(millis));
                story.stops += 1;
                story.long_stops += u64::from(millis > 100);
            }
            _ => {}
        }
    }
    story.took = begun.elapsed();
    for (member, _) in crew {
        story.said.extend(member.finish());
    }
    story
}

/// What the journal says of the ownership of one trial in one epoch.
#[derive(Debug, Default)]
struct Kept {
    claims: usize,
    /// By step.
    reports: BTreeMap<u64, usize>,
    ends: usize,
}

fn kept(scratch: &Scratch) -> BTreeMap<(TrialId, u64), Kept> {
    let mut all: BTreeMap<_, Kept> = BTreeMap::new();
    for line in scratch.ops() {
        match line.op {
            Op::LifecycleClaim(LifecycleClaim { trial, epoch, .. }) => {
                all.entry((trial, epoch)).or_default().claims += 1;
            }
            Op::LifecycleFenced(LifecycleFenced {
                trial,
                epoch,
                mutation: FencedMutation::Report { step, .. },
                ..
            }) => {
                let reports = &mut all.entry((trial, epoch)).or_default().reports;
                *reports.entry(step).or_default() += 1;
            }
            Op::LifecycleTerminal(LifecycleTerminal { trial, epoch, .. }) => {
                all.entry((trial, epoch)).or_default().ends += 1;
            }
            _ => {}
        }
    }
    all
}

/// Asserts that every acknowledged operation is there, once. Answers how many there are.
fn assert_kept(scratch: &Scratch, said: &[String]) -> usize {
    let kept = kept(scratch);
    let notes = scratch.reader();
    let notes = &notes.replica().study(STUDY).unwrap().user_attrs;
    for line in said {
        let words: Vec<&str> = line.split(' ').collect();
        let (trial, epoch) = (
            TrialId(words[1].parse().unwrap()),
            words[2].parse().unwrap(),
        );
        let found = &kept[&(trial, epoch)];
        let is_kept = match words[0] {
            "started" => found.claims == 1,
            "reported" => found.reports == [(1, 1), (2, 1)].into(),
            "ended" => found.ends == 1,
            _ => {
                found.ends == 0
                    && notes.contains_key(&format!("{LATE_RESULT_PREFIX}{trial}/{epoch}"))
            }
        };
        assert!(is_kept, "{line}: {found:?}");
    }
    let mut sorted = said.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), said.len(), "the same was acknowledged twice");
    said.len()
}

/// Does what the dead left to do: fails their trials, retries them, and runs the retries.
fn clean_up(scratch: &Scratch) -> Vec<Trial> {
    let storage: Arc<dyn Storage> =
        Arc::new(JournalStorage::open(&scratch.path, leased(0, LEASE)).unwrap());
    storage
        .set_study_user_attr(STUDY, STOPPED_KEY, &Value::Null)
        .unwrap();
    fail_the_dead(storage.as_ref());
    let mut driver = Outboxes::new(Arc::clone(&storage), STUDY, RETRY);
    assert!(driver.drive_open(u64::MAX, &mut Silent).unwrap().is_empty());
    let clock = Arc::new(SystemClock::start());
    let worker = Worker::new(
        Arc::clone(&storage),
        clock,
        WorkerId(0),
        WorkerSettings::default(),
    )
    .unwrap();
    while let Some(trial) = worker.claim_waiting(STUDY).unwrap() {
        trial.finish(&complete(0.5), &Intent::default()).unwrap();
    }
    driver.drive_open(u64::MAX, &mut Silent).unwrap();
    trials(storage.as_ref())
}

#[test]
fn workers_that_are_killed_and_stopped_lose_nothing_and_keep_to_the_budget() {
    let test = "kill::workers_that_are_killed_and_stopped_lose_nothing_and_keep_to_the_budget";
    if let Some(part) = part() {
        return work(&part);
    }
    let processes = setting("DAYBOOK_SOAK_PROCESSES", 8);
    let budget = processes * setting("DAYBOOK_SOAK_TRIALS", 30);
    let time = Duration::from_secs(setting("DAYBOOK_SOAK_SECONDS", 15));
    let scratch = Scratch::new();
    let story = torment(test, &scratch, processes, budget, time);
    scratch.assert_intact();
    let acknowledged = assert_kept(&scratch, &story.said);

    let trials = clean_up(&scratch);
    scratch.assert_intact();
    let states = |state| trials.iter().filter(|t| t.state == state).count();
    let (complete, failed) = (states(TrialState::Complete), states(TrialState::Failed));
    assert_eq!(complete + failed, trials.len(), "a trial is stuck");
    let numbers: Vec<u64> = trials.iter().map(|t| t.number).collect();
    assert_eq!(numbers, (0..trials.len() as u64).collect::<Vec<_>>());
    let firsts = trials.iter().filter(|t| t.retry_of().is_none()).count() as u64;
    let is_timely = story.took < time;
    assert!(
        firsts == budget || (firsts < budget && !is_timely),
        "{firsts} of {budget} trials"
    );
    // Every point was either completed, once, or tried as often as it may be.
    let is_last = |trial: &&Trial| {
        let attempt = trial.attempt().map_or(1, |attempt| attempt.number);
        trial.state == TrialState::Complete || attempt == RETRY.max_attempts
    };
    assert_eq!(trials.iter().filter(is_last).count() as u64, firsts);
    let reader = scratch.reader();
    // What nobody asked for, and is not retried, needs no closing.
    let is_settled = |outbox: &Outbox| {
        outbox.phase == Phase::Done
            || (outbox.phase == Phase::Sampler && outbox.intent == Intent::default())
    };
    assert!(
        reader
            .replica()
            .outboxes()
            .all(|(_, outbox)| is_settled(outbox))
    );

    let Story {
        kills,
        stops,
        long_stops,
        took,
        ..
    } = story;
    println!(
        "{processes} processes, {kills} kills, {stops} stops ({long_stops} beyond the lease), {firsts} of {budget} \
         trials in {took:.1?}; {} attempts: {complete} complete, {failed} failed; {acknowledged} acknowledgements \
         kept among {} operations",
        trials.len(),
        reader.head().ops,
    );
    assert!(kills > 3 && stops > 3, "{kills} kills, {stops} stops");
}
