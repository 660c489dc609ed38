//! Workers 13 to 18: what processes that share a study may rely on, though some of them die.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atune_core::lifecycle::Outcome as Ending;
use atune_core::number::JsonF64;
use atune_core::outbox::{Attempt, Intent};
use atune_core::replica::{Refusal, Trial};
use atune_core::space::{ParamValue, Template};
use atune_core::storage::conformance::{example_config, example_param};
use atune_core::storage::journal::{JournalError, JournalReader, JournalStorage, verify_study};
use atune_core::storage::{Storage, StorageError};
use atune_core::trial::{Direction, StateBlob, TrialId, TrialState, WorkerId};
use atune_core::worker::{
    Callbacks, Outboxes, RetryPolicy, Said, TrialHandle, Worker, WorkerError, WorkerSettings,
    fail_stale,
};
use durable::{Clock as _, Outcome, RealFs, SystemClock};
use serde_json::{Value, json};

use crate::disk::WatchedDisk;
use crate::files::{STUDY, Scratch, complete, leased, open_on, options};
use crate::processes::{Member, Part, begin, hear, part, say, until};

const GRACE: Duration = Duration::from_mins(1);
/// A lease: how fast the dead one's is taken over is not what is asked here.
const SHORT: Duration = Duration::from_millis(200);

fn worker(storage: Arc<dyn Storage>, id: u64, settings: WorkerSettings) -> Worker {
    Worker::new(
        storage,
        Arc::new(SystemClock::start()),
        WorkerId(id),
        settings,
    )
    .unwrap()
}

/// The worker of a process, on the study that its part names.
fn worker_of(part: &Part) -> Worker {
    let storage = JournalStorage::open(&part.study, options(part.worker)).unwrap();
    worker(Arc::new(storage), part.worker, WorkerSettings::default())
}

/// A while after the last heartbeat of anybody who is dead by now, in milliseconds.
fn much_later() -> u64 {
    SystemClock::start().wall_ns() / 1_000_000 + 2 * millis(GRACE)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap()
}

/// Fails the trials of workers that died, and answers which.
pub(crate) fn fail_the_dead(storage: &dyn Storage) -> Vec<TrialId> {
    fail_stale(
        storage,
        STUDY,
        much_later(),
        millis(GRACE),
        &Intent::default(),
    )
    .unwrap()
}

pub(crate) fn trials(storage: &dyn Storage) -> Vec<Trial> {
    let mut trials = Vec::new();
    storage
        .each_trial(STUDY, 0..u64::MAX, &[], &mut |trial| {
            trials.push(trial.clone());
        })
        .unwrap();
    trials
}

/// One trial from its start to its end, killed at the change of the disk that the orders name.
fn run_and_die(part: &Part) {
    let disk = WatchedDisk::deadly(part.orders.parse().unwrap());
    let storage = open_on(disk, &part.study, leased(part.worker, SHORT));
    let worker = worker(Arc::new(storage), part.worker, WorkerSettings::default());
    let trial = worker
        .start(STUDY, None, &[example_param("x", 0.5)])
        .unwrap();
    trial.report(1, &[JsonF64(0.5)]).unwrap();
    trial.flush().unwrap();
    trial.finish(&complete(0.5), &Intent::default()).unwrap();
    say("lived");
}

#[test]
fn workers_13_a_worker_killed_anywhere_in_a_trial_leaves_none_that_runs_for_ever() {
    let test =
        "workers::workers_13_a_worker_killed_anywhere_in_a_trial_leaves_none_that_runs_for_ever";
    if let Some(part) = part() {
        return run_and_die(&part);
    }
    let scratch = Scratch::new();
    let survivor = JournalStorage::open(&scratch.path, leased(99, SHORT)).unwrap();
    let mut left = Vec::new();
    for number in 1.. {
        let killed = Member::start(test, &scratch.path, number, &number.to_string()).rest();
        left.extend(fail_the_dead(&survivor));
        for trial in trials(&survivor) {
            let is_over = matches!(trial.state, TrialState::Complete | TrialState::Failed);
            assert!(is_over, "killed at change {number}: {trial:?}");
        }
        if killed == ["lived"] {
            break;
        }
    }
    let trials = trials(&survivor);
    let complete = trials
        .iter()
        .filter(|t| t.state == TrialState::Complete)
        .count();
    assert_eq!(trials.len(), left.len() + complete);
    assert!(
        left.len() > 5 && complete > 0,
        "{} failed, {complete} complete",
        left.len()
    );
    scratch.assert_intact();
}

#[test]
fn workers_14_a_living_worker_taken_for_dead_keeps_its_result_as_a_note_and_goes_on() {
    let test =
        "workers::workers_14_a_living_worker_taken_for_dead_keeps_its_result_as_a_note_and_goes_on";
    if let Some(part) = part() {
        let worker = worker_of(&part);
        let trial = worker.start(STUDY, None, &[]).unwrap();
        say("runs");
        hear();
        match trial.finish(&complete(0.25), &Intent::default()) {
            Err(error @ WorkerError::FenceLost { late: Some(_), .. }) => say(error),
            other => panic!("{other:?}"),
        }
        drop(trial);
        let next = worker.start(STUDY, None, &[]).unwrap();
        next.finish(&complete(0.125), &Intent::default()).unwrap();
        return say(format!("completed {}", next.id()));
    }
    let scratch = Scratch::new();
    let mut living = Member::start(test, &scratch.path, 1, "");
    living.expect("runs");
    let storage = Arc::new(scratch.open(2));
    let eager = WorkerSettings {
        heartbeat_interval: Duration::from_millis(10),
        grace: Duration::from_millis(30),
        ..WorkerSettings::default()
    };
    let eager = worker(storage.clone(), 2, eager);
    let own = eager.start(STUDY, None, &[]).unwrap();
    let taken = TrialId(0);
    until("the living trial is failed", || {
        storage.trial(taken).unwrap().state == TrialState::Failed
    });
    own.finish(&complete(0.5), &Intent::default()).unwrap();
    drop((own, eager));

    living.tell("go on");
    let told = living.listen().unwrap();
    assert!(
        told.starts_with("trial 0 was taken from this worker: it was failed: worker 1 "),
        "{told}"
    );
    assert_eq!(living.finish(), ["completed 2"]);
    let study = storage.study(STUDY).unwrap();
    let expected = json!({ "worker": 1, "state": "Complete", "values": [0.25], "error": null });
    assert_eq!(study.user_attrs["late-result/0/1"], expected);
    let states: Vec<_> = trials(storage.as_ref()).iter().map(|t| t.state).collect();
    assert_eq!(
        states,
        [
            TrialState::Failed,
            TrialState::Complete,
            TrialState::Complete
        ]
    );
    scratch.assert_intact();
}

/// Asks for nothing.
pub(crate) struct Silent;

impl Callbacks for Silent {
    fn sampler(&mut self, _: &Trial, _: Option<&StateBlob>) -> Said {
        Said::default()
    }

    fn scheduler(&mut self, _: &Trial, _: Option<&StateBlob>) -> Said {
        Said::default()
    }

    fn callback(
        &mut self,
        _: &Trial,
        _: &str,
        _: &Value,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
}

/// Takes the waiting trial, tells which attempt it is and at which point, and ends it as the orders say.
fn attempt(part: &Part) {
    let worker = worker_of(part);
    let trial: TrialHandle = worker.claim_waiting(STUDY).unwrap().unwrap();
    trial.report(part.worker, &[JsonF64(0.5)]).unwrap();
    trial.flush().unwrap();
    let number = trial.before().attempt().map_or(1, |attempt| attempt.number);
    let x = &trial.before().template().unwrap().fixed["x"];
    say(format!(
        "attempt {number} at {}",
        serde_json::to_string(x).unwrap()
    ));
    match part.orders.as_str() {
        "die" => {
            hear();
        }
        "fail" => {
            trial
                .finish(&Ending::failed("no convergence"), &Intent::default())
                .unwrap();
        }
        _ => {
            trial.finish(&complete(0.5), &Intent::default()).unwrap();
        }
    }
}

#[test]
fn workers_15_a_killed_worker_and_an_exception_are_retried_with_lineage_and_no_grid_point_is_lost()
{
    let test = "workers::workers_15_a_killed_worker_and_an_exception_are_retried_with_lineage_and_no_grid_point_is_lost";
    if let Some(part) = part() {
        return attempt(&part);
    }
    let scratch = Scratch::new();
    let storage: Arc<dyn Storage> = Arc::new(scratch.open(9));
    let mut driver = Outboxes::new(Arc::clone(&storage), STUDY, RetryPolicy { max_attempts: 3 });
    let point = Template {
        fixed: [("x".to_owned(), ParamValue::F64(0.75.into()))].into(),
        parent: None,
    };
    storage.reserve(STUDY, Some(&point), Some(1)).unwrap();

    let mut first = Member::start(test, &scratch.path, 1, "die");
    first.expect(r#"attempt 1 at {"F64":0.75}"#);
    first.kill();
    assert_eq!(fail_the_dead(storage.as_ref()), [TrialId(0)]);
    driver.drive_open(u64::MAX, &mut Silent).unwrap();
    let second = Member::start(test, &scratch.path, 2, "fail").finish();
    assert_eq!(second, [r#"attempt 2 at {"F64":0.75}"#]);
    driver.drive_open(u64::MAX, &mut Silent).unwrap();
    let third = Member::start(test, &scratch.path, 3, "complete").finish();
    assert_eq!(third, [r#"attempt 3 at {"F64":0.75}"#]);
    driver.drive_open(u64::MAX, &mut Silent).unwrap();

    let trials = trials(storage.as_ref());
    let lineage: Vec<_> = trials
        .iter()
        .map(|t| (t.retry_of(), t.attempt(), t.state))
        .collect();
    let attempt = |number| Some(Attempt { number, max: 3 });
    assert_eq!(
        lineage,
        [
            (None, None, TrialState::Failed),
            (Some(TrialId(0)), attempt(2), TrialState::Failed),
            (Some(TrialId(1)), attempt(3), TrialState::Complete),
        ]
    );
    // What each attempt reported, and why it failed, stays with it.
    let steps: Vec<u64> = trials
        .iter()
        .flat_map(|t| t.reports.iter().map(|r| r.step))
        .collect();
    assert_eq!(steps, [1, 2, 3]);
    let why: Vec<_> = trials
        .iter()
        .map(|t| t.error().unwrap_or_default())
        .collect();
    assert!(
        why[0].starts_with("worker 1 gave no sign of life for "),
        "{why:?}"
    );
    assert_eq!(why[1..], ["no convergence", ""]);
    // All of them are one trial of the budget.
    let over = storage.reserve(STUDY, None, Some(1)).unwrap_err();
    assert!(matches!(
        over,
        StorageError::Refused(Refusal::OverBudget { count: 1, .. })
    ));
    scratch.assert_intact();
}

/// Runs trials until the study has as many as the orders say, and says each number.
fn run_to_budget(part: &Part) {
    let (budget, ending) = part.orders.split_once(' ').unwrap();
    let budget = budget.parse().unwrap();
    let outcome = match ending {
        "pruned" => Ending::pruned(None),
        _ => complete(0.5),
    };
    let worker = worker_of(part);
    say("ready");
    hear();
    loop {
        match worker.start(STUDY, Some(budget), &[example_param("x", 0.5)]) {
            Ok(trial) => {
                say(trial.number());
                trial.report(1, &[JsonF64(0.5)]).unwrap();
                trial.finish(&outcome, &Intent::default()).unwrap();
            }
            Err(WorkerError::Refused(Refusal::OverBudget { .. })) => return,
            Err(other) => panic!("{other}"),
        }
    }
}

/// What so many processes say that begin at the same moment.
fn all_at_once(test: &str, scratch: &Scratch, count: u64, orders: &str) -> Vec<Vec<u64>> {
    let start = |worker| Member::start(test, &scratch.path, worker, orders);
    let mut crew: Vec<Member> = (1..=count).map(start).collect();
    begin(&mut crew);
    let numbers = |said: Vec<String>| said.iter().map(|line| line.parse().unwrap()).collect();
    crew.into_iter()
        .map(|member| numbers(member.finish()))
        .collect()
}

/// Asserts that these are the numbers from 0, each once.
fn assert_gapless(numbers: &[Vec<u64>], count: u64) {
    let mut all: Vec<u64> = numbers.concat();
    all.sort_unstable();
    assert_eq!(all, (0..count).collect::<Vec<_>>());
}

#[test]
fn workers_16_numbers_are_unique_and_without_gaps_among_eight_processes() {
    let test = "workers::workers_16_numbers_are_unique_and_without_gaps_among_eight_processes";
    if let Some(part) = part() {
        return run_to_budget(&part);
    }
    let scratch = Scratch::new();
    let numbers = all_at_once(test, &scratch, 8, "200 complete");
    assert!(
        numbers.iter().filter(|own| !own.is_empty()).count() > 1,
        "one did all the work"
    );
    assert_gapless(&numbers, 200);
    scratch.assert_intact();
    let reader = scratch.reader();
    for (trial, number) in reader.replica().trials().iter().zip(0..) {
        let found = (trial.number, trial.state, trial.reports.len());
        assert_eq!(found, (number, TrialState::Complete, 1));
    }
}

#[test]
fn workers_17_an_enqueued_point_is_run_once() {
    let test = "workers::workers_17_an_enqueued_point_is_run_once";
    if let Some(part) = part() {
        let worker = worker_of(&part);
        say("ready");
        hear();
        while let Some(trial) = worker.claim_waiting(STUDY).unwrap() {
            say(trial.number());
            trial.finish(&complete(0.5), &Intent::default()).unwrap();
        }
        return;
    }
    let scratch = Scratch::new();
    let storage = scratch.open(99);
    for at in 0..60u32 {
        let template = Template {
            fixed: [("x".to_owned(), ParamValue::F64(f64::from(at).into()))].into(),
            parent: None,
        };
        storage.reserve(STUDY, Some(&template), None).unwrap();
    }
    assert_gapless(&all_at_once(test, &scratch, 8, ""), 60);
    let trials = trials(&storage);
    assert_eq!(trials.len(), 60);
    assert!(
        trials
            .iter()
            .all(|t| t.state == TrialState::Complete && t.epoch == 1)
    );
}

#[test]
fn workers_17_a_budget_is_met_exactly_and_a_restart_adds_no_trial() {
    let test = "workers::workers_17_a_budget_is_met_exactly_and_a_restart_adds_no_trial";
    if let Some(part) = part() {
        return run_to_budget(&part);
    }
    let scratch = Scratch::new();
    assert_gapless(&all_at_once(test, &scratch, 8, "50 complete"), 50);
    // A restart, and one with a larger budget.
    assert_gapless(&all_at_once(test, &scratch, 4, "50 complete"), 0);
    let more = all_at_once(test, &scratch, 4, "53 complete").concat();
    assert_eq!(
        more.into_iter().collect::<BTreeSet<_>>(),
        [50, 51, 52].into()
    );
    assert_eq!(scratch.reader().replica().trials().len(), 53);
}

#[test]
fn workers_17_a_study_whose_trials_are_all_pruned_ends() {
    let test = "workers::workers_17_a_study_whose_trials_are_all_pruned_ends";
    if let Some(part) = part() {
        return run_to_budget(&part);
    }
    let scratch = Scratch::new();
    assert_gapless(&all_at_once(test, &scratch, 4, "40 pruned"), 40);
    let reader = scratch.reader();
    assert!(
        reader
            .replica()
            .trials()
            .iter()
            .all(|t| t.state == TrialState::Pruned)
    );
}

/// Creates the study or opens it, whoever is first, as a job array does, and shares its budget.
fn start_with_the_others(part: &Part) {
    say("ready");
    hear();
    let storage = match JournalStorage::create(&part.study, options(part.worker)) {
        Err(JournalError::Io { source, .. })
            if source.kind() == std::io::ErrorKind::AlreadyExists =>
        {
            JournalStorage::open(&part.study, options(part.worker))
        }
        made => made,
    };
    let storage = storage.unwrap();
    match storage.create_study(&example_config("s", &[Direction::Minimize])) {
        Ok(study) => assert_eq!(study, STUDY),
        Err(StorageError::Refused(Refusal::NameTaken(_))) => {
            assert_eq!(storage.study_named("s").unwrap(), STUDY);
        }
        Err(other) => panic!("{other}"),
    }
    let worker = worker(Arc::new(storage), part.worker, WorkerSettings::default());
    while let Ok(trial) = worker.start(STUDY, Some(96), &[]) {
        say(trial.number());
        trial.finish(&complete(0.5), &Intent::default()).unwrap();
    }
}

#[test]
fn workers_18_thirty_two_workers_start_at_once_while_a_reader_looks() {
    let test = "workers::workers_18_thirty_two_workers_start_at_once_while_a_reader_looks";
    if let Some(part) = part() {
        return start_with_the_others(&part);
    }
    let scratch = Scratch::empty();
    let is_over = AtomicBool::new(false);
    // Whatever a look shows is whole, and what was seen is never gone.
    let look = || {
        until("the study is there", || {
            JournalReader::open(&scratch.path).is_ok()
        });
        let mut reader = scratch.reader();
        let mut looks = 0;
        while !is_over.load(Ordering::SeqCst) {
            let before = reader.replica().seq();
            reader.refresh().unwrap();
            assert!(reader.replica().seq() >= before);
            let verdict = verify_study(Arc::new(RealFs), &scratch.path).unwrap();
            assert_eq!(verdict.verdict, Outcome::Intact, "{:?}", verdict.findings);
            looks += 1;
        }
        looks
    };
    let (numbers, looks) = std::thread::scope(|scope| {
        let looking = scope.spawn(look);
        let numbers = all_at_once(test, &scratch, 32, "");
        is_over.store(true, Ordering::SeqCst);
        (numbers, looking.join().unwrap())
    });
    assert_gapless(&numbers, 96);
    assert!(looks > 10, "{looks} looks");
    let reader = scratch.reader();
    assert_eq!(reader.replica().studies().len(), 1);
    assert!(
        reader
            .replica()
            .trials()
            .iter()
            .all(|t| t.state == TrialState::Complete)
    );
}
