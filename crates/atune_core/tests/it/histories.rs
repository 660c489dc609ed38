//! What is promised: a history that goes through a journal is the one that a storage in memory has: the
//! same answers, the same refusals, and after opening it from the disk the same state, numbers that are
//! not finite included. Random operations, legal and illegal, one by one and several at a time, from
//! several handles that come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use atune_core::replica::{Refusal, Replica};
use atune_core::storage::journal::record::Op;
use atune_core::storage::journal::{Identity, JournalReader, JournalStorage, verify_study};
use atune_core::storage::{MemoryStorage, Plan, Storage};
use atune_core::trial::WorkerId;
use durable::{Clock, Outcome};
use durable_sim::SimFs;
use proptest::prelude::*;

use crate::draw::Draw;
use crate::journal::PATH;
use crate::random::Random;
use crate::shared::unthreaded;

/// A wall clock that stands still until the test moves it: both storages write the same times.
#[derive(Debug, Default)]
struct StandingClock {
    mono: AtomicU64,
    wall_ns: AtomicU64,
}

impl Clock for StandingClock {
    fn mono_ns(&self) -> u64 {
        self.mono.fetch_add(900_000_000, Ordering::Relaxed)
    }

    fn wall_ns(&self) -> u64 {
        self.wall_ns.load(Ordering::Relaxed)
    }
}

/// A study on a disk, the handles that write it, and the storage in memory that it must agree with.
struct World {
    random: Random,
    fs: SimFs,
    clock: Arc<StandingClock>,
    memory: MemoryStorage,
    handles: Vec<JournalStorage>,
    opened: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let (fs, clock) = (SimFs::new(), Arc::new(StandingClock::default()));
        let first = JournalStorage::create_on(
            Arc::new(fs.clone()),
            clock.clone(),
            Identity::fixed(0),
            PATH,
            unthreaded(),
        );
        Self {
            random: Random(seed),
            memory: MemoryStorage::new(clock.clone(), WorkerId(0)),
            handles: vec![first.unwrap()],
            opened: 1,
            fs,
            clock,
        }
    }

    fn open(&mut self) {
        let identity = Identity::fixed(self.opened);
        self.opened += 1;
        let fs = Arc::new(self.fs.clone());
        let opened = JournalStorage::open_on(fs, self.clock.clone(), identity, PATH, unthreaded());
        self.handles.push(opened.unwrap());
    }

    /// Operations that the present state mostly allows.
    fn draw(&mut self, count: u64) -> Vec<Op> {
        let random = &mut self.random;
        let mut ops = Vec::new();
        self.memory
            .read(&mut |replica| {
                // The later ones of a batch meet the state that the earlier ones lead to.
                let mut replica = replica.clone();
                for _ in 0..count {
                    let draw = Draw {
                        r: random,
                        replica: &replica,
                    };
                    let op = { draw }.op();
                    replica.apply(&op).ok();
                    ops.push(op);
                }
            })
            .unwrap();
        ops
    }

    /// One step: a handle comes, or goes, or some handle commits.
    fn step(&mut self) {
        let passed = self.random.below(5_000_000_000);
        self.clock.wall_ns.fetch_add(passed, Ordering::Relaxed);
        match self.random.below(12) {
            0 if self.handles.len() < 4 => self.open(),
            1 if self.handles.len() > 1 => {
                let at = self.some_handle();
                drop(self.handles.swap_remove(at));
            }
            _ => {
                let count = self.random.pick(&[1, 1, 1, 2, 5]);
                let ops = self.draw(count);
                let at = self.some_handle();
                let is = commit(&self.handles[at], &ops);
                assert_eq!(is, commit(&self.memory, &ops), "{ops:?}");
            }
        }
    }

    fn some_handle(&mut self) -> usize {
        let at = self.random.below(self.handles.len() as u64);
        usize::try_from(at).unwrap()
    }
}

fn commit(storage: &dyn Storage, ops: &[Op]) -> Vec<Result<u64, Refusal>> {
    let mut plans: Vec<_> = ops.iter().map(|op| |_: &Replica| Ok(op.clone())).collect();
    let mut plans: Vec<&mut Plan<'_>> = plans.iter_mut().map(|plan| plan as _).collect();
    storage.commit_batch(&mut plans).unwrap()
}

fn state(storage: &dyn Storage) -> Replica {
    let mut state = Replica::new();
    storage
        .read(&mut |replica| state = replica.clone())
        .unwrap();
    state
}

fn play(seed: u64, steps: usize) -> Replica {
    let mut world = World::new(seed);
    for _ in 0..steps {
        world.step();
    }
    let expected = state(&world.memory);
    for handle in &world.handles {
        assert_eq!(state(handle), expected);
    }
    world.handles.clear();
    let fs = Arc::new(world.fs.clone());
    let verdict = verify_study(fs.clone(), PATH.as_ref()).unwrap();
    assert_eq!(verdict.verdict, Outcome::Intact, "{:?}", verdict.findings);
    let reader = JournalReader::open_on(fs, PATH).unwrap();
    assert_eq!(*reader.replica(), expected);
    world.open();
    assert_eq!(state(&world.handles[0]), expected);
    expected
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_journal_of_any_history_agrees_with_a_storage_in_memory(seed: u64) {
        play(seed, 120);
    }
}

#[test]
fn the_random_histories_hold_numbers_that_are_not_finite() {
    let states: Vec<Replica> = (0..6).map(|seed| play(seed, 150)).collect();
    let trials = || states.iter().flat_map(Replica::trials);
    let reported: Vec<f64> = trials()
        .flat_map(|trial| &trial.reports)
        .flat_map(|report| &report.values)
        .map(|value| value.0)
        .collect();
    let last = trials().filter_map(|trial| trial.values.as_deref());
    let last: Vec<f64> = last.flatten().map(|value| value.0).collect();
    for values in [reported, last] {
        assert!(values.iter().any(|v| v.is_nan()), "{values:?}");
        assert!(values.contains(&f64::INFINITY), "{values:?}");
        assert!(values.contains(&f64::NEG_INFINITY), "{values:?}");
    }
}
