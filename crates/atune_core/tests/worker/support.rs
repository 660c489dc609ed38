//! A store with one study, clocks, and storages that count or fail.

/// Makes two tests of each function: on a storage in memory and on a journal. Their names say which.
macro_rules! on_each_storage {
    ($($promise:ident),+ $(,)?) => {
        mod in_memory {
            $(#[test]
            fn $promise() {
                super::$promise($crate::support::Backend::Memory);
            })+
        }

        mod on_a_journal {
            $(#[test]
            fn $promise() {
                super::$promise($crate::support::Backend::Journal);
            })+
        }
    };
}
pub(crate) use on_each_storage;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use atune_core::lifecycle::Outcome;
use atune_core::number::JsonF64;
use atune_core::outbox::{Intent, OutboxKey, Phase};
use atune_core::replica::{Refusal, Replica, Trial};
use atune_core::storage::conformance::example_config;
use atune_core::storage::journal::{Durability, Identity, JournalOptions, JournalStorage};
use atune_core::storage::{MemoryStorage, Plan, Result, Storage, StorageError};
use atune_core::trial::{Direction, StateBlob, StudyId, TrialState, WorkerId};
use atune_core::worker::{Callbacks, Said, Worker, WorkerSettings};
use durable::{Clock, ManualClock, RealFs, SystemClock};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const START_NS: u64 = 1_700_000_000_000_000_000;

fn on_files(dir: &TempDir, clock: &Arc<ManualClock>) -> JournalStorage {
    let clock = JournalClock {
        stamps: Arc::clone(clock),
        real: SystemClock::start(),
    };
    let options = JournalOptions {
        durability: Durability::Process,
        ..JournalOptions::default()
    };
    let (clock, identity) = (Arc::new(clock), Identity::of_this_process());
    let path = dir.path().join("study.atj");
    JournalStorage::create_on(Arc::new(RealFs), clock, identity, path, options).unwrap()
}

/// An intent of everything.
pub(crate) fn all_of_it() -> Intent {
    Intent {
        sampler: true,
        scheduler: true,
        callbacks: vec!["tell".to_owned()],
    }
}

pub(crate) fn nothing() -> Intent {
    Intent::default()
}

pub(crate) fn complete(value: f64) -> Outcome {
    Outcome::complete(vec![JsonF64(value)])
}

/// Where a world keeps its operations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Backend {
    Memory,
    /// Real files. Not synced: what a power cut leaves is asked elsewhere.
    Journal,
}

/// Stamps records by the clock that is moved by hand; a lease is a matter of real time.
#[derive(Debug)]
struct JournalClock {
    stamps: Arc<ManualClock>,
    real: SystemClock,
}

impl Clock for JournalClock {
    fn mono_ns(&self) -> u64 {
        self.real.mono_ns()
    }

    fn wall_ns(&self) -> u64 {
        self.stamps.wall_ns()
    }
}

/// A store with one study, and its clock.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) study: StudyId,
    /// The files, if there are any.
    _dir: Option<TempDir>,
}

impl World {
    pub(crate) fn new(backend: Backend) -> Self {
        let clock = Arc::new(ManualClock::new(START_NS, 0));
        let (storage, dir) = match backend {
            Backend::Memory => {
                let storage = MemoryStorage::new(clock.clone(), WorkerId(0));
                (Arc::new(storage) as Arc<dyn Storage>, None)
            }
            Backend::Journal => {
                let dir = tempfile::tempdir().unwrap();
                let storage = on_files(&dir, &clock);
                (Arc::new(storage) as Arc<dyn Storage>, Some(dir))
            }
        };
        let study = storage
            .create_study(&example_config("s", &[Direction::Minimize]))
            .unwrap();
        Self {
            storage,
            clock,
            study,
            _dir: dir,
        }
    }

    pub(crate) fn now_millis(&self) -> u64 {
        self.clock.wall_ns() / 1_000_000
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.advance(u64::try_from(time.as_nanos()).unwrap());
    }

    /// A worker whose ticks are made by hand.
    pub(crate) fn worker(&self, id: u64) -> Worker {
        self.worker_on(&self.storage, id)
    }

    pub(crate) fn worker_on(&self, storage: &Arc<dyn Storage>, id: u64) -> Worker {
        let settings = WorkerSettings {
            threads: false,
            ..WorkerSettings::default()
        };
        let (storage, clock) = (Arc::clone(storage), self.clock.clone());
        Worker::new(storage, clock, WorkerId(id), settings).unwrap()
    }

    /// All trials, by number.
    pub(crate) fn trials(&self) -> Vec<Trial> {
        let mut trials = Vec::new();
        self.storage
            .each_trial(self.study, 0..u64::MAX, &[], &mut |t| {
                trials.push(t.clone());
            })
            .unwrap();
        trials
    }

    pub(crate) fn study_attr(&self, key: &str) -> Option<Value> {
        let study = self.storage.study(self.study).unwrap();
        study.user_attrs.get(key).cloned()
    }

    /// A trial of worker 1 that has failed, with this intent.
    pub(crate) fn failed_trial(&self, intent: &Intent) -> OutboxKey {
        let handle = self.worker(1).start(self.study, None, &[]).unwrap();
        handle.finish(&Outcome::failed("boom"), intent).unwrap();
        let fence = handle.fence();
        OutboxKey {
            trial: fence.trial,
            epoch: fence.epoch,
        }
    }

    /// The trials that retry another.
    pub(crate) fn retries(&self) -> Vec<Trial> {
        let trials = self.trials().into_iter();
        trials.filter(|t| t.retry_of().is_some()).collect()
    }

    /// Asserts that every effect is complete, and every outbox done or one whose ending asked for nothing.
    pub(crate) fn assert_all_done(&self) {
        self.storage
            .read(&mut |replica| {
                assert!(replica.outboxes().count() > 0);
                for (key, outbox) in replica.outboxes() {
                    let is_done = outbox.phase == Phase::Done;
                    let asks_nothing = outbox.intent == nothing() && outbox.effects.is_empty();
                    assert!(is_done || asks_nothing, "{key:?}: {outbox:?}");
                    assert_eq!(outbox.open_effects().count(), 0, "{key:?}");
                }
            })
            .unwrap();
    }

    pub(crate) fn state_of(&self, trial: atune_core::trial::TrialId) -> TrialState {
        self.storage.trial(trial).unwrap().state
    }
}

/// Counts what it is called with. Its sampler counts endings in its state blob.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub(crate) sampled: u64,
    pub(crate) scheduled: u64,
    pub(crate) called: Vec<String>,
    /// What the scheduler asks for.
    pub(crate) effects: Vec<atune_core::outbox::Effect>,
    /// Whether callbacks fail.
    pub(crate) fails: bool,
}

pub(crate) fn count_of(state: Option<&StateBlob>) -> u64 {
    state.map_or(0, |blob| blob.data.as_u64().unwrap())
}

impl Callbacks for Counting {
    fn sampler(&mut self, _: &Trial, state: Option<&StateBlob>) -> Said {
        self.sampled += 1;
        Said {
            state: Some(StateBlob {
                kind: "count".to_owned(),
                version: 1,
                data: json!(count_of(state) + 1),
            }),
            effects: Vec::new(),
        }
    }

    fn scheduler(&mut self, _: &Trial, _: Option<&StateBlob>) -> Said {
        self.scheduled += 1;
        Said {
            state: None,
            effects: self.effects.clone(),
        }
    }

    fn callback(
        &mut self,
        _: &Trial,
        name: &str,
        _: &Value,
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.called.push(name.to_owned());
        if self.fails {
            return Err("unreachable".into());
        }
        Ok(())
    }
}

/// What becomes of the commit that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// It was not made.
    Before,
    /// It was made, and the answer got lost.
    After,
    /// As `After`; those that follow are answered again.
    Once,
}

/// A storage that counts its commits, and may fail for good from the n-th on, or for a time.
#[derive(Debug)]
pub(crate) struct Watched {
    inner: Arc<dyn Storage>,
    /// Commits that kept at least one operation.
    pub(crate) commits: AtomicU64,
    left: AtomicI64,
    death: Death,
    pub(crate) is_broken: AtomicBool,
}

impl Watched {
    pub(crate) fn new(inner: &Arc<dyn Storage>) -> Arc<Self> {
        Self::dying(inner, i64::MAX, Death::Before)
    }

    /// Fails after `commits` commits.
    pub(crate) fn dying(inner: &Arc<dyn Storage>, commits: i64, death: Death) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            commits: AtomicU64::new(0),
            left: AtomicI64::new(commits),
            death,
            is_broken: AtomicBool::new(false),
        })
    }

    pub(crate) fn commit_count(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }
}

impl Storage for Watched {
    fn commit_batch(
        &self,
        plans: &mut [&mut Plan<'_>],
    ) -> Result<Vec<std::result::Result<u64, Refusal>>> {
        let gone = || Err(StorageError::Other("the storage is gone".into()));
        let left = self.left.fetch_sub(1, Ordering::SeqCst);
        if self.is_broken.load(Ordering::SeqCst) || (left < 0 && self.death != Death::Once) {
            return gone();
        }
        if left == 0 && self.death == Death::Before {
            return gone();
        }
        let answers = self.inner.commit_batch(plans)?;
        let is_kept = answers.iter().any(std::result::Result::is_ok);
        self.commits.fetch_add(u64::from(is_kept), Ordering::SeqCst);
        if left == 0 { gone() } else { Ok(answers) }
    }

    fn read(&self, look: &mut dyn FnMut(&Replica)) -> Result<()> {
        self.inner.read(look)
    }
}
