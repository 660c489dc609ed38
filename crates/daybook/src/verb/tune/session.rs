//! A study that is open for tuning, and everything that its trials share.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atune_core::replica::{Refusal, Replica};
use atune_core::scheduler::{MedianScheduler, NoScheduler, Scheduler};
use atune_core::storage::journal::record::SetStudyUserAttr;
use atune_core::storage::journal::{
    JournalError, JournalOptions, JournalStorage, read_header, study_id,
};
use atune_core::storage::{Storage, StorageError};
use atune_core::study::{Study, StudyError, StudyOptions};
use atune_core::trial::{Direction, ResourceUnit, SpaceEntry, StudyConfig, WorkerId};
use atune_core::worker::{RetryPolicy, WorkerSettings};
use durable::{Fs as _, RealFs};
use serde_json::Value;

use super::TuneArgs;
use super::attributes::SPACE;
use super::command::Template;
use super::components::{sampler_of, scheduler_of};
use super::result::{EXIT_CODE, Names};
use super::space::Space;
use crate::failure::{Failure, chain_text};

/// Heartbeats in the time after which a worker counts as dead.
const HEARTBEATS_PER_GRACE: u32 = 6;

#[derive(Debug)]
pub(super) struct Session<'a> {
    pub(super) args: &'a TuneArgs,
    pub(super) study: Study,
    /// The name by which runs and traces know the study.
    pub(super) study_id: String,
    pub(super) space: Space,
    pub(super) template: Template,
    pub(super) names: Names,
    pub(super) runs: PathBuf,
}

impl<'a> Session<'a> {
    pub(super) fn open(args: &'a TuneArgs) -> Result<Self, Failure> {
        let space = Space::read(args.space.as_deref(), &args.param)?;
        if space.params().is_empty() {
            return Err(Failure::new("there is no parameter to tune")
                .with_hint("--param 'lr=float(1e-5,1e-1,log)', or --space FILE.toml"));
        }
        let template = Template::new(&args.command, &space).map_err(Failure::new)?;
        let sampler = args.sampler.as_deref().map(sampler_of).transpose()?;
        let mut scheduler = args.scheduler.as_deref().map(scheduler_of).transpose()?;
        let path = &args.study;
        let exists = RealFs
            .exists(path)
            .map_err(|e| Failure::io(&format!("cannot look at {}", path.display()), &e))?;
        let objectives = [&args.minimize[..], &args.maximize[..]].concat();
        if exists {
            crate::verb::study::open(path)?;
        } else if objectives.is_empty() {
            return Err(no_objective());
        }
        let storage = storage_of(path)?;
        let name = args.name.clone().unwrap_or_else(|| {
            let stem = path.file_stem().unwrap_or_default();
            stem.to_string_lossy().into_owned()
        });
        let known = known_config(&storage, &name)?;
        let directions = directions(args);
        let config = match known {
            Some(known) => {
                check_objectives(&known, &objectives, &directions)?;
                known
            }
            None if objectives.is_empty() => return Err(no_objective()),
            None => {
                // With one objective, there is an order in which trials can be behind.
                scheduler = scheduler.or_else(|| match directions.len() {
                    1 => Some(Arc::new(MedianScheduler::default())),
                    _ => Some(Arc::new(NoScheduler)),
                });
                StudyConfig {
                    name,
                    directions,
                    seed: args.seed,
                    // A declared space has no conditions.
                    space: (!space.is_conditional()).then(|| entries(&space)),
                    resource_unit: ResourceUnit::Steps,
                    metric_names: objectives,
                }
            }
        };
        check_fit(&config, scheduler.as_deref())?;
        check_constraints(&config, &args.constraint)?;
        let names = Names {
            objectives: config.metric_names.clone(),
            constraints: args.constraint.clone(),
            step: args.step.clone(),
        };
        let options = StudyOptions {
            sampler,
            scheduler,
            retry: RetryPolicy {
                max_attempts: args.retries.saturating_add(1),
            },
            worker: WorkerSettings {
                heartbeat_interval: args.stale_after / HEARTBEATS_PER_GRACE,
                grace: args.stale_after,
                ..WorkerSettings::default()
            },
            ..StudyOptions::default()
        };
        let study = Study::load_or_create(storage, &config, options).map_err(|e| told(&e))?;
        study.set_budget(args.trials);
        remember_space(&study, &space)?;
        Ok(Self {
            runs: runs_folder(args)?,
            study_id: study_id_of(path, &study)?,
            args,
            study,
            space,
            template,
            names,
        })
    }

    /// A path as the study keeps it: relative to its folder, so that the two can be moved together.
    pub(super) fn kept_path(&self, path: &Path) -> String {
        let folder = self.args.study.parent().unwrap_or(Path::new(""));
        let kept = path.strip_prefix(folder).unwrap_or(path);
        kept.to_string_lossy().into_owned()
    }

    /// Where a path that the study keeps is.
    pub(super) fn real_path(&self, kept: &str) -> PathBuf {
        self.args.study.parent().unwrap_or(Path::new("")).join(kept)
    }
}

/// An error of a study in words.
pub(super) fn told(error: &StudyError) -> Failure {
    let failure = Failure::new(chain_text(error));
    match error {
        StudyError::OtherComponent { what, .. } => failure.with_hint(format!(
            "leave --{what} out to go on with the study's own, or begin another study"
        )),
        StudyError::OtherConfig { .. } => failure.with_hint("begin another study: --name NAME"),
        _ => failure,
    }
}

/// Refuses what cannot work with the study's objectives.
fn check_fit(config: &StudyConfig, scheduler: Option<&dyn Scheduler>) -> Result<(), Failure> {
    let count = config.directions.len();
    if config.metric_names.is_empty() {
        let what = "the study does not name its objectives, so no line of the command could";
        return Err(Failure::new(what).with_hint(
            "create it with `daybook tune`, or with `daybook study create --minimize METRIC`",
        ));
    }
    if let Some(scheduler) = scheduler.filter(|scheduler| scheduler.kind() != "none")
        && count > 1
    {
        let kind = scheduler.kind();
        let what = format!("the scheduler {kind} needs one objective, and there are {count}");
        return Err(Failure::new(what).with_hint("--scheduler none"));
    }
    if count > 1 && config.metric_names.iter().any(|name| name == EXIT_CODE) {
        let what = format!("{EXIT_CODE} can only be the one objective of a study");
        return Err(Failure::new(what));
    }
    Ok(())
}

/// Refuses a constraint that is an objective, or that is named twice.
fn check_constraints(config: &StudyConfig, constraints: &[String]) -> Result<(), Failure> {
    let mut names: Vec<&String> = config.metric_names.iter().collect();
    for name in constraints {
        if names.contains(&name) {
            let what = format!("{name} is an objective or a constraint already");
            return Err(Failure::new(what).with_hint("--constraint NAME: a member of its own"));
        }
        names.push(name);
    }
    Ok(())
}

fn no_objective() -> Failure {
    Failure::new("a study needs at least one objective")
        .with_hint("--minimize METRIC or --maximize METRIC")
}

fn storage_of(path: &Path) -> Result<Arc<dyn Storage>, Failure> {
    let options = JournalOptions {
        worker: WorkerId(u64::from(std::process::id())),
        ..JournalOptions::default()
    };
    let opened = match JournalStorage::create(path, options.clone()) {
        // Also when another process made it just now.
        Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
            JournalStorage::open(path, options)
        }
        other => other,
    };
    Ok(Arc::new(opened?))
}

fn known_config(storage: &Arc<dyn Storage>, name: &str) -> Result<Option<StudyConfig>, Failure> {
    let mut found = None;
    let read = storage.read(&mut |replica: &Replica| {
        found = replica
            .study_by_name(name)
            .map(|study| study.config.clone());
    });
    read.map_err(|e| Failure::new(chain_text(&e)))?;
    Ok(found)
}

fn directions(args: &TuneArgs) -> Vec<Direction> {
    let minimize = std::iter::repeat_n(Direction::Minimize, args.minimize.len());
    minimize
        .chain(std::iter::repeat_n(
            Direction::Maximize,
            args.maximize.len(),
        ))
        .collect()
}

/// A study that is there decides; objectives that were given must be its own.
fn check_objectives(
    known: &StudyConfig,
    objectives: &[String],
    directions: &[Direction],
) -> Result<(), Failure> {
    if objectives.is_empty() || (known.metric_names == objectives && known.directions == directions)
    {
        return Ok(());
    }
    let spell = |names: &[String], directions: &[Direction]| {
        let one = |(at, direction): (usize, &Direction)| {
            let flag = match direction {
                Direction::Minimize => "--minimize",
                Direction::Maximize => "--maximize",
            };
            format!("{flag} {}", names.get(at).map_or("?", String::as_str))
        };
        directions
            .iter()
            .enumerate()
            .map(one)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let has = spell(&known.metric_names, &known.directions);
    let given = spell(objectives, directions);
    let what = format!(
        "the study {:?} has the objectives {has}, not {given}",
        known.name
    );
    Err(Failure::new(what).with_hint("begin another study: --name NAME"))
}

fn entries(space: &Space) -> Vec<SpaceEntry> {
    let entry = |param: &super::space::Declared| SpaceEntry {
        name: param.name.clone(),
        dist: param.dist.clone(),
    };
    space.params().iter().map(entry).collect()
}

/// Keeps the space in the study. Another one than that which is kept there is an error, lists of choices that
/// have grown at their end aside.
fn remember_space(study: &Study, space: &Space) -> Result<(), Failure> {
    let spelled = space.spelled();
    let mut other = None;
    let committed = study.storage().commit(&mut |replica: &Replica| {
        other = None;
        let known = replica.study(study.id())?;
        let kept = known.user_attrs.get(SPACE).and_then(Value::as_array);
        let kept: Option<Vec<&str>> =
            kept.map(|lines| lines.iter().filter_map(Value::as_str).collect());
        let is_same = kept.as_ref().is_some_and(|kept| *kept == spelled);
        let may_follow = kept.as_ref().is_none_or(|kept| space.follows(kept));
        if !may_follow {
            other = kept.map(|kept| kept.join("; "));
        }
        if is_same || !may_follow {
            // Nothing is to be written: any refusal says so.
            return Err(Refusal::ReservedKey(SPACE.to_owned()));
        }
        Ok(SetStudyUserAttr {
            study: study.id(),
            key: SPACE.to_owned(),
            value: Value::from(spelled.clone()),
        }
        .into())
    });
    match committed {
        Ok(_) => Ok(()),
        Err(StorageError::Refused(Refusal::ReservedKey(_))) => match other {
            None => Ok(()),
            Some(kept) => {
                let given = spelled.join("; ");
                let name = study.name();
                Err(Failure::new(format!(
                    "the study {name:?} has the parameters {kept}, not {given}"
                ))
                .with_hint("repeat them as they were, or begin another study: --name NAME"))
            }
        },
        Err(error) => Err(Failure::new(chain_text(&error))),
    }
}

fn study_id_of(path: &Path, study: &Study) -> Result<String, Failure> {
    let header = read_header(&RealFs, path)?;
    let mut id = None;
    let read = study.storage().read(&mut |replica: &Replica| {
        let known = replica.study(study.id()).ok();
        id = known.map(|known| study_id(&header, known));
    });
    read.map_err(|error| Failure::new(chain_text(&error)))?;
    id.ok_or_else(|| Failure::new(format!("{} lost its study", path.display())))
}

fn runs_folder(args: &TuneArgs) -> Result<PathBuf, Failure> {
    let beside = || args.study.parent().unwrap_or(Path::new("")).join("runs");
    let folder = args.runs.clone().unwrap_or_else(beside);
    RealFs
        .create_dir_all(&folder)
        .map_err(|e| Failure::io(&format!("cannot make {}", folder.display()), &e))?;
    Ok(folder)
}
