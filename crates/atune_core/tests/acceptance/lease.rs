//! Storage 6 to 8: the right to write passes on at once when its holder is dead, safely when it only seems to
//! be, and to everybody in turn.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atune_core::outbox::Intent;
use atune_core::storage::journal::record::{LifecycleRenew, Op};
use atune_core::storage::journal::{JournalStorage, lease_facts};
use atune_core::storage::{Fence, Observation, Storage};
use atune_core::trial::{TrialId, TrialState, WorkerId};
use atune_core::worker::{LATE_RESULT_PREFIX, Lost, Worker, WorkerError, WorkerSettings};
use durable::{RealFs, SystemClock};
use serde_json::json;

use crate::disk::{Countdown, WatchedDisk};
use crate::files::{STUDY, Scratch, complete, leased, open_on, options, start};
use crate::processes::{Member, Part, begin, hear, part, say, until};

/// Commits one operation, and is killed at the change of the disk that the orders name.
fn commit_and_die(part: &Part) {
    let deadly: u64 = part.orders.parse().unwrap();
    let lease = leased(part.worker, Duration::from_hours(1));
    let storage = open_on(WatchedDisk::deadly(deadly), &part.study, lease);
    storage
        .set_study_user_attr(STUDY, "k", &deadly.into())
        .unwrap();
    say("acknowledged");
    drop(storage);
    say("lived");
}

#[test]
fn storage_06_the_lock_of_a_killed_writer_is_taken_over_at_once_wherever_it_was() {
    let test =
        "lease::storage_06_the_lock_of_a_killed_writer_is_taken_over_at_once_wherever_it_was";
    if let Some(part) = part() {
        return commit_and_die(&part);
    }
    let scratch = Scratch::new();
    let survivor = scratch.open(2);
    let mut waits = Vec::new();
    for number in 1.. {
        let said = Member::start(test, &scratch.path, 1, &number.to_string()).rest();
        let begun = Instant::now();
        survivor
            .set_study_user_attr(STUDY, "survivor", &number.into())
            .unwrap();
        waits.push((begun.elapsed(), number));
        if said.contains(&"acknowledged".to_owned()) {
            let kept = survivor.study(STUDY).unwrap().user_attrs["k"].clone();
            assert_eq!(kept, json!(number));
        }
        if said.contains(&"lived".to_owned()) {
            break;
        }
    }
    assert!(waits.len() > 10, "{waits:?}");
    // Its lease would have lasted for an hour.
    let (longest, number) = waits.iter().max().unwrap();
    assert!(
        *longest < Duration::from_secs(2),
        "{longest:?} after a death at change {number}: {waits:?}"
    );
    scratch.assert_intact();
}

/// Ends a trial, and is held up at the change of the disk that the orders name, counted from there. Then
/// runs another trial.
fn end_late(part: &Part) {
    let countdown = Countdown::default();
    let counting = countdown.clone();
    let disk = WatchedDisk::new(move |touch| {
        if counting.is_at(touch) {
            say("held up");
            hear();
        }
        Ok(())
    });
    let lease = leased(part.worker, Duration::from_millis(100));
    let storage = Arc::new(open_on(disk, &part.study, lease));
    let (clock, id) = (Arc::new(SystemClock::start()), WorkerId(part.worker));
    let worker = Worker::new(storage, clock, id, WorkerSettings::default()).unwrap();
    let trial = worker.start(STUDY, None, &[]).unwrap();
    say(trial.id());
    countdown.start(part.orders.parse().unwrap());
    let ended = trial.finish(&complete(0.25), &Intent::default());
    if !countdown.stop() {
        return say("not held up");
    }
    match ended {
        Ok(TrialState::Complete) => say("in time"),
        Err(WorkerError::FenceLost {
            why: Lost::Failed { reason },
            late: Some(_),
            ..
        }) => say(format!("too late: {reason}")),
        other => panic!("{other:?}"),
    }
    let next = worker.start(STUDY, None, &[]).unwrap();
    next.finish(&complete(0.125), &Intent::default()).unwrap();
    say("went on");
}

/// Renews a trial with a lease that is held until another process waits for it. Asserts that nobody takes
/// it away meanwhile.
fn renew_while_another_waits(
    storage: &dyn Storage,
    path: &Path,
    fence: Fence,
    begin: impl FnOnce(),
) {
    let (mut planned, mut begin) = (0, Some(begin));
    storage
        .commit(&mut |replica| {
            planned += 1;
            let held = lease_facts(&RealFs, path).unwrap().unwrap();
            if let Some(begin) = begin.take() {
                begin();
            }
            until("another waits", || {
                let now = lease_facts(&RealFs, path).unwrap().unwrap();
                assert_eq!((now.generation, now.is_held), (held.generation, true));
                assert_eq!(now.owner.as_ref().unwrap().worker, fence.worker.0);
                now.waiting > 0
            });
            let heartbeat_seq = replica.trial(fence.trial)?.heartbeat_seq + 1;
            Ok(LifecycleRenew {
                trial: fence.trial,
                worker: fence.worker,
                epoch: fence.epoch,
                heartbeat_millis: 2,
                heartbeat_seq,
            }
            .into())
        })
        .unwrap();
    assert_eq!(planned, 1, "the lease was taken from its holder");
}

#[test]
fn storage_07_a_writer_stopped_beyond_its_lease_is_too_late_and_leaves_the_new_holder_alone() {
    let test = "lease::storage_07_a_writer_stopped_beyond_its_lease_is_too_late_and_leaves_the_new_holder_alone";
    if let Some(part) = part() {
        return end_late(&part);
    }
    let scratch = Scratch::new();
    let innocent = scratch.open(0);
    let mut late = BTreeSet::new();
    let mut in_time = 0;
    for number in 1.. {
        let mut stopped = Member::start(test, &scratch.path, number, &number.to_string());
        let id = TrialId(stopped.listen().unwrap().parse().unwrap());
        if stopped.listen().unwrap() == "not held up" {
            break;
        }
        stopped.stop();
        // An innocent one gets the lease without the stopped one's help, and starts a trial.
        let own = start(&innocent, 0);
        let observed = Observation::from(&innocent.trial(id).unwrap());
        let is_late = observed.state == TrialState::Running;
        if is_late {
            let why = "it was silent";
            let failed = innocent.fail_stale(&observed, u64::MAX, 1, why, &Intent::default());
            failed.unwrap();
            late.insert(id);
        }
        // While it has the lease, the stopped one goes on, and comes to wait for it like anybody else.
        renew_while_another_waits(&innocent, &scratch.path, own, || {
            stopped.tell("go on");
            stopped.go_on();
        });
        let told = if is_late {
            "too late: it was silent"
        } else {
            "in time"
        };
        assert_eq!(
            stopped.finish(),
            [told, "went on"],
            "stopped at change {number}"
        );
        innocent
            .terminal(own, &complete(0.5), &Intent::default())
            .unwrap();
        in_time += usize::from(!is_late);
        scratch.assert_intact();
    }
    assert!(
        late.len() > 3 && in_time > 0,
        "{} late, {in_time} in time",
        late.len()
    );
    let ends_late = |op: &Op| matches!(op, Op::LifecycleTerminal(op) if late.contains(&op.trial));
    assert_eq!(scratch.count(ends_late), 0);
    let reader = scratch.reader();
    let attrs = &reader.replica().study(STUDY).unwrap().user_attrs;
    assert_eq!(attrs.len(), late.len());
    for trial in reader.replica().trials() {
        if late.contains(&trial.id) {
            assert_eq!(trial.state, TrialState::Failed);
            let note = &attrs[&format!("{LATE_RESULT_PREFIX}{}/1", trial.id)];
            assert_eq!(note["values"], json!([0.25]));
        } else {
            assert_eq!(trial.state, TrialState::Complete);
        }
    }
}

#[test]
fn storage_08_of_eight_writers_none_starves() {
    const BUDGET: u64 = 400;
    if let Some(part) = part() {
        let storage = JournalStorage::open(&part.study, options(part.worker)).unwrap();
        let worker = WorkerId(part.worker);
        say("ready");
        hear();
        let mut count = 0;
        while let Ok(fence) = storage.start(STUDY, Some(BUDGET), worker, 1, &[]) {
            storage
                .terminal(fence, &complete(0.5), &Intent::default())
                .unwrap();
            count += 1;
        }
        return say(count);
    }
    let scratch = Scratch::new();
    let start = |worker| {
        Member::start(
            "lease::storage_08_of_eight_writers_none_starves",
            &scratch.path,
            worker,
            "",
        )
    };
    let mut writers: Vec<Member> = (1..=8).map(start).collect();
    begin(&mut writers);
    let counts: Vec<u64> = writers
        .into_iter()
        .map(|writer| writer.finish()[0].parse().unwrap())
        .collect();
    assert_eq!(counts.iter().sum::<u64>(), BUDGET);
    // An equal share is 50. How equal it really is, a benchmark measures on a quiet machine.
    assert!(counts.iter().all(|count| *count >= 10), "{counts:?}");
    scratch.assert_intact();
}
