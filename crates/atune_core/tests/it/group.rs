//! What is promised: operations that several threads commit at once share an extent, and a crash at any
//! call leaves that extent whole or not at all: of one commit everything survives, or nothing, and
//! nothing that was acknowledged is missing.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use atune_core::storage::journal::record::{Op, SetStudyUserAttr};
use atune_core::storage::journal::{JournalReader, JournalStorage, verify_study};
use atune_core::storage::{Plan, Storage};
use atune_core::trial::StudyId;
use durable::{Fs, Outcome};
use durable_sim::{BoxError, Image, Ledger, SimFs, Sweep};

use crate::crash::{PATH, open, started};
use crate::shared::{on_sim, unthreaded};
use crate::tap::{Tap, Tapped};

fn note(value: u64) -> Op {
    SetStudyUserAttr {
        study: StudyId(0),
        key: format!("k{value}"),
        value: value.into(),
    }
    .into()
}

/// The values that the study holds, by extent.
fn extents(fs: &SimFs) -> Result<Vec<Vec<u64>>, BoxError> {
    let fs: Arc<dyn Fs> = Arc::new(fs.clone());
    let verdict = verify_study(Arc::clone(&fs), Path::new(PATH))?;
    if verdict.verdict != Outcome::Intact {
        return Err(format!("not intact: {:?}", verdict.findings).into());
    }
    let mut found: Vec<(u64, Vec<u64>)> = Vec::new();
    let mut line_end = 0;
    JournalReader::open_watched(fs, PATH, &mut |line, offset| {
        let Op::SetStudyUserAttr(op) = &line.op else {
            return;
        };
        let value = op.value.as_u64().unwrap();
        let len = serde_json::to_string(line).unwrap().len() as u64 + 15;
        // Lines of one extent follow one another; between extents is a metadata line.
        match found.last_mut() {
            Some((_, values)) if offset == line_end => values.push(value),
            _ => found.push((offset, vec![value])),
        }
        line_end = offset + len;
    })?;
    Ok(found.into_iter().map(|(_, values)| values).collect())
}

/// Whole extents only, in order, nothing acknowledged missing, and the study goes on.
fn check(image: &Image, ledger: &Ledger<u64>, groups: &[&[u64]]) -> Result<(), BoxError> {
    let found = extents(&image.fs)?;
    for extent in &found {
        if !groups.contains(&extent.as_slice()) {
            return Err(format!("an extent of {extent:?}").into());
        }
    }
    ledger.check_in_order(&found.concat())?;
    let storage = open(&image.fs, 99)?;
    storage.commit(&mut |_| Ok(note(99)))?;
    Ok(())
}

const BATCHES: [&[u64]; 3] = [&[0, 1, 2], &[3], &[4, 5]];

fn commit_batches(fs: &SimFs, ledger: &mut Ledger<u64>) -> Result<(), BoxError> {
    let storage = open(fs, 2)?;
    for batch in BATCHES {
        for value in batch {
            ledger.submit(*value);
        }
        let mut plans: Vec<_> = batch.iter().map(|value| |_: &_| Ok(note(*value))).collect();
        let mut plans: Vec<&mut Plan<'_>> = plans.iter_mut().map(|plan| plan as _).collect();
        for answer in storage.commit_batch(&mut plans)? {
            answer?;
        }
        for value in batch {
            ledger.acknowledge(*value);
        }
    }
    Ok(())
}

#[test]
fn a_crash_at_any_call_leaves_each_batch_whole_or_not_at_all() {
    let swept = Sweep::default()
        .starting_from(&started())
        .for_each_crash(commit_batches, |image, ledger| {
            check(image, ledger, &BATCHES)
        })
        .unwrap();
    assert!(swept.calls > 30, "{swept:?}");
}

#[test]
fn a_failure_of_any_call_leaves_each_batch_whole_or_not_at_all() {
    Sweep::default()
        .starting_from(&started())
        .for_each_failure(
            |fs, ledger| {
                // What fails is not tried again: it may be there nevertheless.
                commit_batches(fs, ledger).ok();
                Ok(())
            },
            |image, ledger| check(image, ledger, &BATCHES),
        )
        .unwrap();
}

/// What holds the first append of a data file back until two more threads have planned their
/// operations.
#[derive(Debug)]
struct Gate {
    start: Sender<()>,
    planned: Receiver<()>,
    is_open: bool,
}

impl Gate {
    fn pass(&mut self) {
        if !std::mem::replace(&mut self.is_open, true) {
            for _ in 0..2 {
                self.start.send(()).unwrap();
                self.planned.recv().unwrap();
            }
        }
    }
}

/// Three threads: the second and the third plan, in this order, while the first one writes.
fn commit_from_threads(fs: &SimFs, ledger: &mut Ledger<u64>) -> Result<(), BoxError> {
    let (start, started) = channel();
    let (tell, planned) = channel();
    let gate = Mutex::new(Some(Gate {
        start,
        planned,
        is_open: false,
    }));
    let gate = Arc::new(gate);
    let held = Arc::clone(&gate);
    let tap = Tap::new(Arc::new(fs.clone()), move |call| {
        if matches!(call, Tapped::Append { path } if path.to_string_lossy().contains("/data-")) {
            let mut gate = held.lock().unwrap_or_else(PoisonError::into_inner);
            gate.iter_mut().for_each(Gate::pass);
        }
        Ok(())
    });
    let (_, clock, identity) = on_sim(fs, 2);
    let storage = JournalStorage::open_on(Arc::new(tap), clock, identity, PATH, unthreaded())?;
    for value in 0..3 {
        ledger.submit(value);
    }
    let commit = |value: u64, planned: &dyn Fn()| {
        let plan = &mut |_: &_| {
            planned();
            Ok(note(value))
        };
        storage.commit(plan).map(drop)
    };
    let ended = std::thread::scope(|scope| {
        let later = [1, 2].map(|value| (value, tell.clone()));
        let commit = &commit;
        let starter = scope.spawn(move || {
            let mut threads = Vec::new();
            for (value, tell) in later {
                // The gate is gone when the first commit failed before it wrote anything.
                if started.recv().is_err() {
                    break;
                }
                threads.push(scope.spawn(move || {
                    // A plan is asked again after a lost lease: nobody listens then.
                    commit(value, &|| {
                        tell.send(()).ok();
                    })
                }));
            }
            threads
        });
        let first = commit(0, &|| {});
        drop(gate.lock().unwrap_or_else(PoisonError::into_inner).take());
        let threads = starter.join().unwrap();
        let later = threads.into_iter().map(|thread| thread.join().unwrap());
        std::iter::once(first).chain(later).collect::<Vec<_>>()
    });
    for (value, ended) in (0..).zip(&ended) {
        if ended.is_ok() {
            ledger.acknowledge(value);
        }
    }
    for ended in ended {
        ended?;
    }
    Ok(())
}

const SHARED: [&[u64]; 2] = [&[0], &[1, 2]];

#[test]
fn threads_that_commit_while_another_writes_share_the_next_extent() {
    let fs = started();
    let mut ledger = Ledger::default();
    commit_from_threads(&fs, &mut ledger).unwrap();
    assert_eq!(ledger.acknowledged(), [0, 1, 2]);
    assert_eq!(extents(&fs).unwrap(), SHARED);
}

#[test]
fn a_crash_at_any_call_leaves_what_threads_share_whole_or_not_at_all() {
    let swept = Sweep::default()
        .starting_from(&started())
        .for_each_crash(commit_from_threads, |image, ledger| {
            check(image, ledger, &SHARED)
        })
        .unwrap();
    assert!(swept.calls > 15, "{swept:?}");
}

#[test]
fn a_failure_of_any_call_fails_all_that_share_it_or_none() {
    Sweep::default()
        .starting_from(&started())
        .for_each_failure(
            |fs, ledger| {
                commit_from_threads(fs, ledger).ok();
                let shared = [1, 2].map(|value| ledger.acknowledged().contains(&value));
                assert_eq!(shared[0], shared[1]);
                Ok(())
            },
            |image, ledger| check(image, ledger, &SHARED),
        )
        .unwrap();
}
