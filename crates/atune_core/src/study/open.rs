//! Creating and opening studies.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use durable::{Clock, SystemClock};

use super::{History, Result, Seen, Shared, StopFlag, Study, StudyError, component};
use crate::outbox::Intent;
use crate::replica::{Refusal, Replica};
use crate::sampler::{self, Sampler};
use crate::scheduler::{self, Scheduler};
use crate::storage::journal::record::{CreateStudy, PutState};
use crate::storage::{MemoryStorage, Storage, StorageError};
use crate::trial::{
    Direction, ResourceUnit, StateBlob, StateScope, StudyConfig, StudyId, WorkerId,
};
use crate::worker::{Outboxes, RetryPolicy, Worker, WorkerSettings};

/// How a study is run. What is `None` is what the study has recorded, or else the default.
#[derive(Clone, Debug, Default)]
pub struct StudyOptions {
    /// What chooses parameters.
    pub sampler: Option<Arc<dyn Sampler>>,
    /// What decides which trials go on.
    pub scheduler: Option<Arc<dyn Scheduler>>,
    /// How often a failed trial is tried.
    pub retry: RetryPolicy,
    /// How running trials are kept alive. Its `failed_intent` is set by the study.
    pub worker: WorkerSettings,
    /// Who runs trials; by default a number made of the process's. It must differ from those of all
    /// workers that live.
    pub worker_id: Option<WorkerId>,
    /// The clock of heartbeats and timeouts; by default the machine's.
    pub clock: Option<Arc<dyn Clock>>,
}

/// Studies that this process opened: part of the default identity of a worker.
static OPENED: AtomicU32 = AtomicU32::new(0);

/// A worker that no other in this process is, and hardly one in another.
fn new_worker_id() -> WorkerId {
    let nth = u64::from(OPENED.fetch_add(1, Ordering::Relaxed));
    WorkerId((nth << 32) | u64::from(std::process::id()))
}

impl Study {
    /// Creates a study.
    ///
    /// # Errors
    /// [`StudyError::Storage`] when the name is taken or the configuration makes no sense.
    pub fn create(
        storage: Arc<dyn Storage>,
        config: &StudyConfig,
        options: StudyOptions,
    ) -> Result<Self> {
        for entry in config.space.iter().flatten() {
            entry.dist.check().map_err(|fault| StudyError::Space {
                name: entry.name.clone(),
                dist: entry.dist.to_string(),
                fault,
            })?;
        }
        let sampler = options.sampler.clone().unwrap_or_else(default_sampler);
        let scheduler = options.scheduler.clone().unwrap_or_else(default_scheduler);
        let id = std::cell::Cell::new(StudyId(0));
        let mut create = |replica: &Replica| {
            id.set(StudyId(replica.studies().len() as u64));
            Ok(CreateStudy {
                study: id.get(),
                config: config.clone(),
            }
            .into())
        };
        // Refused with the study, if that is: a study of this identity does not exist then.
        let mut put_sampler = |_: &Replica| {
            Ok(PutState {
                scope: StateScope::Sampler(id.get()),
                blob: sampler_blob(&*sampler),
            }
            .into())
        };
        let mut put_scheduler = |_: &Replica| {
            Ok(PutState {
                scope: StateScope::Scheduler(id.get()),
                blob: scheduler_blob(&*scheduler),
            }
            .into())
        };
        let answers =
            storage.commit_batch(&mut [&mut create, &mut put_sampler, &mut put_scheduler])?;
        for answer in answers {
            answer.map_err(StorageError::from)?;
        }
        Self::open(storage, id.get(), options)
    }

    /// Opens the study of this name. Nothing is written.
    ///
    /// # Errors
    /// [`StudyError::Storage`] with the names that exist; [`StudyError::OtherComponent`] when the study has
    /// another sampler or scheduler than the given one.
    pub fn load(storage: Arc<dyn Storage>, name: &str, options: StudyOptions) -> Result<Self> {
        let id = storage.study_named(name)?;
        Self::open(storage, id, options)
    }

    /// Opens the study of this name, or creates it. Of several processes that try at once, one creates it.
    ///
    /// # Errors
    /// As [`create`](Self::create) and [`load`](Self::load); [`StudyError::OtherConfig`] when it exists
    /// with other directions or another declared space. Seed, unit and names of metrics are the study's.
    pub fn load_or_create(
        storage: Arc<dyn Storage>,
        config: &StudyConfig,
        options: StudyOptions,
    ) -> Result<Self> {
        let name = &config.name;
        let study = match Self::load(Arc::clone(&storage), name, options.clone()) {
            Err(StudyError::Storage(error))
                if matches!(*error, StorageError::UnknownName { .. }) =>
            {
                match Self::create(Arc::clone(&storage), config, options.clone()) {
                    Err(StudyError::Storage(error)) if is_name_taken(&error) => {
                        Self::load(storage, name, options)?
                    }
                    created => return created,
                }
            }
            loaded => loaded?,
        };
        study.check_config(config)?;
        Ok(study)
    }

    /// A study that lasts as long as its process.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn in_memory(
        name: &str,
        direction: Direction,
        seed: u64,
        options: StudyOptions,
    ) -> Result<Self> {
        let config = StudyConfig {
            name: name.to_owned(),
            directions: vec![direction],
            seed,
            space: None,
            resource_unit: ResourceUnit::Steps,
            metric_names: Vec::new(),
        };
        Self::create_in_memory(&config, options)
    }

    /// A study of any configuration that lasts as long as its process.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_in_memory(config: &StudyConfig, mut options: StudyOptions) -> Result<Self> {
        let clock = options
            .clock
            .get_or_insert_with(|| Arc::new(SystemClock::start()));
        let worker = *options.worker_id.get_or_insert_with(new_worker_id);
        let storage = MemoryStorage::new(Arc::clone(clock), worker);
        // Nobody else has it: there is no one to look for a dead worker, and nothing to gather for.
        options.worker.threads = false;
        options.worker.gather = Duration::ZERO;
        Self::create(Arc::new(storage), config, options)
    }

    fn open(storage: Arc<dyn Storage>, id: StudyId, options: StudyOptions) -> Result<Self> {
        let mut found = Err(Refusal::UnknownStudy(id));
        storage.read(&mut |replica| {
            found = replica.study(id).map(|study| {
                let sampler = replica.state(StateScope::Sampler(id)).cloned();
                let scheduler = replica.state(StateScope::Scheduler(id)).cloned();
                (study.config.clone(), sampler, scheduler)
            });
        })?;
        let (config, sampler_blob, scheduler_blob) = found.map_err(StorageError::from)?;
        let sampler = chosen_sampler(options.sampler, sampler_blob.as_ref())?;
        let scheduler = chosen_scheduler(options.scheduler, scheduler_blob.as_ref())?;
        let clock = options
            .clock
            .unwrap_or_else(|| Arc::new(SystemClock::start()));
        let settings = WorkerSettings {
            failed_intent: Intent {
                sampler: sampler.wants_endings(),
                scheduler: scheduler.wants_endings(),
                callbacks: Vec::new(),
            },
            ..options.worker
        };
        let grace_millis = u64::try_from(settings.grace.as_millis()).unwrap_or(u64::MAX);
        let worker = Worker::new(
            Arc::clone(&storage),
            Arc::clone(&clock),
            options.worker_id.unwrap_or_else(new_worker_id),
            settings,
        )?;
        let seen = Seen {
            history: History::new(id, &config),
            sampler_state: None,
            scheduler_state: None,
        };
        let outboxes = Outboxes::new(Arc::clone(&storage), id, options.retry);
        let is_recorded = sampler_blob.is_some() && scheduler_blob.is_some();
        Ok(Self {
            shared: Arc::new(Shared {
                storage,
                clock,
                id,
                config,
                sampler,
                scheduler,
                is_recorded: AtomicBool::new(is_recorded),
                worker,
                seen: RwLock::new(seen),
                outboxes: Mutex::new(outboxes),
                retry: options.retry,
                grace_millis,
                budget: AtomicU64::new(u64::MAX),
                drive_at_ns: AtomicU64::new(0),
                stop: StopFlag::default(),
            }),
        })
    }

    /// Records sampler and scheduler in a study that was created without, before its first trial.
    pub(super) fn record_components(&self) -> Result<()> {
        let shared = &*self.shared;
        if shared.is_recorded.load(Ordering::Acquire) {
            return Ok(());
        }
        let blobs = [
            (
                "sampler",
                StateScope::Sampler(shared.id),
                sampler_blob(&*shared.sampler),
            ),
            (
                "scheduler",
                StateScope::Scheduler(shared.id),
                scheduler_blob(&*shared.scheduler),
            ),
        ];
        for (what, scope, blob) in blobs {
            let mut checked = Ok(());
            let committed = shared.storage.commit(&mut |replica| {
                let recorded = replica.state(scope);
                checked = component::check(what, recorded, &blob.kind, component::options(&blob));
                if recorded.is_some() {
                    return Err(Refusal::WrongScope(scope));
                }
                let blob = blob.clone();
                Ok(PutState { scope, blob }.into())
            });
            checked?;
            match committed {
                Ok(_) | Err(StorageError::Refused(Refusal::WrongScope(_))) => {}
                Err(other) => return Err(other.into()),
            }
        }
        shared.is_recorded.store(true, Ordering::Release);
        Ok(())
    }

    fn check_config(&self, wanted: &StudyConfig) -> Result<()> {
        let found = self.config();
        let other = |what, found: String, wanted: String| StudyError::OtherConfig {
            name: self.name().to_owned(),
            what,
            found,
            wanted,
        };
        if found.directions != wanted.directions {
            let (found, wanted) = (&found.directions, &wanted.directions);
            return Err(other(
                "directions",
                format!("{found:?}"),
                format!("{wanted:?}"),
            ));
        }
        if wanted.space.is_some() && found.space != wanted.space {
            let text = |config: &StudyConfig| {
                let entries = config.space.iter().flatten();
                let entries = entries.map(|entry| format!("{} from {}", entry.name, entry.dist));
                format!("[{}]", entries.collect::<Vec<_>>().join("; "))
            };
            return Err(other("space", text(found), text(wanted)));
        }
        Ok(())
    }
}

fn is_name_taken(error: &StorageError) -> bool {
    matches!(error, StorageError::Refused(Refusal::NameTaken(_)))
}

fn default_sampler() -> Arc<dyn Sampler> {
    Arc::new(sampler::AutoSampler::default())
}

fn default_scheduler() -> Arc<dyn Scheduler> {
    Arc::new(scheduler::NoScheduler)
}

fn chosen_sampler(
    given: Option<Arc<dyn Sampler>>,
    recorded: Option<&StateBlob>,
) -> Result<Arc<dyn Sampler>> {
    match (given, recorded) {
        (Some(given), recorded) => {
            component::check("sampler", recorded, given.kind(), &given.options())?;
            Ok(given)
        }
        (None, Some(blob)) => Ok(sampler::by_kind(&blob.kind, component::options(blob))?),
        (None, None) => Ok(default_sampler()),
    }
}

fn chosen_scheduler(
    given: Option<Arc<dyn Scheduler>>,
    recorded: Option<&StateBlob>,
) -> Result<Arc<dyn Scheduler>> {
    match (given, recorded) {
        (Some(given), recorded) => {
            component::check("scheduler", recorded, given.kind(), &given.options())?;
            Ok(given)
        }
        (None, Some(blob)) => scheduler::by_kind(&blob.kind, component::options(blob))
            .map_err(|error| StudyError::UnknownScheduler(error.to_string())),
        (None, None) => Ok(default_scheduler()),
    }
}

fn sampler_blob(sampler: &dyn Sampler) -> StateBlob {
    component::blob(sampler.kind(), &sampler.options(), None)
}

fn scheduler_blob(scheduler: &dyn Scheduler) -> StateBlob {
    component::blob(scheduler.kind(), &scheduler.options(), None)
}
