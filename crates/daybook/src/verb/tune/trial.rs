//! One trial from its parameters to its end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use atune_core::scheduler::Decision;
use atune_core::space::ParamValue;
use atune_core::study::{StudyError, Told, Trial};
use atune_core::trial::TrialState;
use atune_core::worker::WorkerError;
use durable::digest::hex;
use durable::{Fs as _, RealFs};
use omniloop_core::recorder::{
    Links, RESOURCE_VARIABLE, RUN_HEAD, RUN_ID, RUN_PATH, TRACE_VARIABLE, new_run_id,
};
use serde_json::{Map, Value, json};

use super::attributes::TRACE_ID;
use super::child::{self, Ended, Ending, Job, Verdict};
use super::command::variables;
use super::interrupt::Interrupt;
use super::session::{Session, told};
use super::space::word_of;
use crate::failure::{Failure, chain_text};
use crate::trace_parent::TraceParent;

/// How a trial ended, for people.
#[derive(Clone, Debug)]
pub(super) struct Finished {
    pub(super) number: u64,
    pub(super) state: TrialState,
    pub(super) values: Vec<f64>,
    pub(super) error: Option<String>,
    /// `name=value`, in the order of the space.
    pub(super) params: Vec<String>,
    /// What went wrong besides: a recording that is incomplete, a result that came too late.
    pub(super) warning: Option<String>,
    /// The command could not be started: nor can that of any other trial.
    pub(super) is_unstartable: bool,
}

/// Runs a trial.
///
/// # Errors
/// What keeps any trial from being run: the study or the runs cannot be written, the sampler draws nothing.
pub(super) fn run(
    session: &Session<'_>,
    trial: Trial,
    interrupt: &Interrupt,
) -> Result<Finished, Failure> {
    let number = trial.number();
    let chosen = match choose(session, &trial) {
        Ok(chosen) => chosen,
        Err(error) => return not_run(session, trial, &error),
    };
    let run = run_path(session, &trial)?;
    let trace = TraceParent::new();
    let links = links(session, &trial);
    let run_id = links.run_id.clone().unwrap_or_default();
    let attr = |key, value: String| trial.set_user_attr(key, Value::from(value));
    let noted = attr(RUN_PATH, session.kept_path(&run))
        .and_then(|()| attr(RUN_ID, run_id))
        .and_then(|()| attr(TRACE_ID, trace.id.clone()));
    let mut finished = Finished {
        number,
        state: TrialState::Running,
        values: Vec::new(),
        error: None,
        params: spelled(session, &chosen),
        warning: None,
        is_unstartable: false,
    };
    noted.map_err(|error| told(&error))?;
    let job = Job {
        argv: session.template.argv(number, &session.space, &chosen),
        environment: environment(session, &trial, &chosen, &trace, &links),
        run,
        context: context(session, &trial, &chosen, &links),
        names: &session.names,
        timeout: session.args.timeout,
        grace: session.args.grace,
    };
    let ended = child::run(&job, interrupt, &mut |step, values| {
        on_report(&trial, step, values)
    });
    let Ended {
        ending,
        constraints,
        recorded,
        unrecorded,
    } = match ended {
        Ok(ended) => ended,
        Err(error) => {
            let failure = Failure::from(error);
            session
                .study
                .tell(trial, Told::Failed(failure.message.clone()))
                .ok();
            return Err(failure);
        }
    };
    if let Some(closed) = &recorded {
        // A trial that was lost on the way says so below.
        trial
            .set_user_attr(RUN_HEAD, Value::from(hex(closed.sealed.head.as_ref())))
            .ok();
    }
    for (name, value) in &constraints {
        trial.set_constraint(name, *value).ok();
    }
    finished.warning = unrecorded.map(|what| format!("the recording is incomplete: {what}"));
    let outcome = match ending {
        Ending::Values(values) => {
            finished.values.clone_from(&values);
            Told::Complete(values)
        }
        Ending::Pruned => Told::Pruned(None),
        Ending::Interrupted => Told::Released,
        Ending::CannotStart(why) => {
            finished.is_unstartable = true;
            finished.error = Some(why.clone());
            Told::Failed(why)
        }
        Ending::Failed(why) => {
            finished.error = Some(why.clone());
            Told::Failed(why)
        }
        // Telling it finds out whose it is now.
        Ending::Abandoned(why) => Told::Failed(why),
    };
    match session.study.tell(trial, outcome) {
        Ok(state) => finished.state = state,
        Err(error) if is_lost(&error) => {
            finished.state = TrialState::Failed;
            finished.error = Some(chain_text(&error));
        }
        Err(error) => return Err(told(&error)),
    }
    Ok(finished)
}

fn choose(
    session: &Session<'_>,
    trial: &Trial,
) -> Result<BTreeMap<String, ParamValue>, StudyError> {
    let mut chosen = BTreeMap::new();
    for param in session.space.params() {
        if param.is_active(&chosen) {
            chosen.insert(param.name.clone(), trial.suggest(&param.name, &param.dist)?);
        }
    }
    Ok(chosen)
}

/// A trial whose parameters could not be chosen has failed. When that is its own fault, such as a fixed value
/// outside of the space, the next one may do better.
fn not_run(session: &Session<'_>, trial: Trial, error: &StudyError) -> Result<Finished, Failure> {
    let finished = Finished {
        number: trial.number(),
        state: TrialState::Failed,
        values: Vec::new(),
        error: Some(chain_text(error)),
        params: Vec::new(),
        warning: None,
        is_unstartable: false,
    };
    let failed = session.study.tell(trial, Told::Failed(chain_text(error)));
    let is_its_own = matches!(
        error,
        StudyError::Space { .. } | StudyError::AskedTwice { .. }
    );
    match failed {
        Ok(_) if is_its_own => Ok(finished),
        Err(lost) if is_lost(&lost) => Ok(finished),
        _ => Err(told(error)),
    }
}

fn on_report(trial: &Trial, step: u64, values: &[f64]) -> Verdict {
    let decided = trial.report_all(step, values).and_then(|()| trial.decide());
    match decided {
        Ok(Decision::Continue) => Verdict::GoOn,
        Ok(Decision::Prune) => Verdict::Prune("it is behind other trials".to_owned()),
        Err(error) => Verdict::Abandon(chain_text(&error)),
    }
}

/// Whether somebody else ended the trial, or took it over: this worker goes on with the next.
fn is_lost(error: &StudyError) -> bool {
    match error {
        StudyError::Worker(error) => {
            matches!(
                **error,
                WorkerError::FenceLost { .. } | WorkerError::Over { .. }
            )
        }
        _ => false,
    }
}

/// Where the trial is recorded. A trial that goes on after it was released is recorded anew.
fn run_path(session: &Session<'_>, trial: &Trial) -> Result<PathBuf, Failure> {
    let number = trial.number();
    let first = session.runs.join(format!("trial-{number}.omni"));
    let exists = |path: &Path| {
        let found = RealFs.exists(path);
        found.map_err(|e| Failure::io(&format!("cannot look at {}", path.display()), &e))
    };
    if !exists(&first)? {
        return Ok(first);
    }
    let epoch = trial.handle().fence().epoch;
    let again = session.runs.join(format!("trial-{number}-{epoch}.omni"));
    if epoch > 1 && !exists(&again)? {
        return Ok(again);
    }
    let what = format!(
        "{} is there already, and belongs to another study",
        first.display()
    );
    Err(Failure::new(what).with_hint("--runs DIR: a folder for each study"))
}

fn spelled(session: &Session<'_>, chosen: &BTreeMap<String, ParamValue>) -> Vec<String> {
    let params = session.space.params().iter();
    let one = |param: &super::space::Declared| {
        let value = word_of(&param.dist, chosen.get(&param.name)?);
        Some(format!("{}={value}", param.name))
    };
    params.filter_map(one).collect()
}

/// What the run of a trial belongs to. The session is that of the tuner itself.
fn links(session: &Session<'_>, trial: &Trial) -> Links {
    let around = std::env::var(RESOURCE_VARIABLE).ok();
    Links {
        run_id: Some(new_run_id()),
        study_id: Some(session.study_id.clone()),
        trial_number: Some(trial.number()),
        ..Links::from_environment(around.as_deref(), None)
    }
}

/// The members of the start record of a run.
fn context(
    session: &Session<'_>,
    trial: &Trial,
    chosen: &BTreeMap<String, ParamValue>,
    links: &Links,
) -> Map<String, Value> {
    let value = |(name, value): (&String, &ParamValue)| {
        let dist = &session.space.get(name)?.dist;
        Some((name.clone(), super::space::json_of(dist, value)))
    };
    let params: Map<String, Value> = chosen.iter().filter_map(value).collect();
    let study = json!({
        "path": session.args.study,
        "name": session.study.name(),
    });
    let trial = json!({
        "number": trial.number(),
        "id": trial.id(),
        "epoch": trial.handle().fence().epoch,
        "params": params,
    });
    let mut context = Map::from_iter([("study".to_owned(), study), ("trial".to_owned(), trial)]);
    links.add_to_start(&mut context);
    context
}

fn environment(
    session: &Session<'_>,
    trial: &Trial,
    chosen: &BTreeMap<String, ParamValue>,
    trace: &TraceParent,
    links: &Links,
) -> Vec<(OsString, OsString)> {
    let mut all = variables(&session.space, chosen);
    let mut set = |name: &str, value: OsString| all.push((name.into(), value));
    set("DAYBOOK_STUDY", session.args.study.clone().into());
    set("DAYBOOK_TRIAL", trial.number().to_string().into());
    set(TRACE_VARIABLE, trace.text().into());
    let around = std::env::var(RESOURCE_VARIABLE).ok();
    set(
        RESOURCE_VARIABLE,
        links.resource_attributes(around.as_deref()).into(),
    );
    if let Some((number, run)) = parent(session, trial) {
        set("DAYBOOK_PARENT_TRIAL", number.to_string().into());
        set("DAYBOOK_PARENT_RUN", run.into());
    }
    all
}

/// The trial that this one goes on from or retries, and its run.
fn parent(session: &Session<'_>, trial: &Trial) -> Option<(u64, PathBuf)> {
    let parent = trial.handle().before().template()?.parent?;
    let parent = session.study.storage().trial(parent).ok()?;
    let run = parent.user_attrs().find(|(key, _)| *key == RUN_PATH);
    let run = run
        .and_then(|(_, value)| value.as_str())
        .unwrap_or_default();
    Some((parent.number, session.real_path(run)))
}
