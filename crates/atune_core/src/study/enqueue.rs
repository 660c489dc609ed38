//! Trials whose parameters are given: enqueued ones, to be run before others, and ones that were run elsewhere.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Result, Study, StudyError, Told, constraints};
use crate::number::JsonF64;
use crate::replica::{self, RESERVED_PREFIX, Refusal, Replica, check_new_params};
use crate::space::{Distribution, Param, ParamValue, Template};
use crate::storage::journal::record::{
    CreateTrial, LifecycleReserve, Op, ParamsBatch, Report, SetError, SetStudyUserAttr,
    SetTrialUserAttr, SetValues, Transition,
};
use crate::storage::{Plan, StorageError};
use crate::trial::{TrialId, TrialState};

/// Attributes of a study that hold what was given for a trial before it was known what it is drawn from; the
/// trial's identity follows. The value is an object of values by name.
const GIVEN_PREFIX: &str = "given/";

/// A trial that was run elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedTrial {
    /// Its parameters.
    pub params: Vec<Param>,
    /// Its intermediate values: step, and one value per objective.
    pub reports: Vec<(u64, Vec<f64>)>,
    /// Its user attributes.
    pub user_attrs: BTreeMap<String, Value>,
    /// Its constraints.
    pub constraints: BTreeMap<String, f64>,
    /// How it ended. It cannot be [`Told::Released`].
    pub told: Told,
}

impl Study {
    /// Enqueues a trial with some parameters given as JSON: numbers, truth values, and the values of choices.
    /// The others are drawn when it runs. It counts against a budget.
    ///
    /// With `skip_if_known` nothing is done, and `None` answered, when a trial has all of these values: of
    /// several processes that enqueue the same, one does.
    ///
    /// # Errors
    /// [`StudyError::Space`] for a value that is none of a known parameter's; [`StudyError::Storage`].
    pub fn enqueue(
        &self,
        given: &Map<String, Value>,
        skip_if_known: bool,
    ) -> Result<Option<TrialId>> {
        self.refresh()?;
        let mut fixed = BTreeMap::new();
        let mut unknown = Map::new();
        for (name, json) in given {
            let Some(dist) = self.known_dist(name) else {
                unknown.insert(name.clone(), json.clone());
                continue;
            };
            let value = dist
                .value_from_json(json)
                .ok_or_else(|| StudyError::Space {
                    name: name.clone(),
                    dist: dist.to_string(),
                    fault: crate::space::SpaceFault::OutOfRange,
                })?;
            fixed.insert(name.clone(), value);
        }
        let study = self.id();
        let trial = std::cell::Cell::new(None);
        let mut reserve = |replica: &Replica| {
            trial.set(None);
            if skip_if_known && is_known(replica, study, &fixed, &unknown)? {
                return Err(KNOWN);
            }
            let (next, number) = replica.next_trial(study)?;
            trial.set(Some(next));
            Ok(LifecycleReserve {
                study,
                trial: next,
                number,
                template: Some(Template {
                    fixed: fixed.clone(),
                    parent: None,
                }),
                managed: true,
            }
            .into())
        };
        let mut note = |_: &Replica| {
            let trial = trial.get().ok_or(KNOWN)?;
            if unknown.is_empty() {
                return Err(KNOWN);
            }
            Ok(SetStudyUserAttr {
                study,
                key: format!("{GIVEN_PREFIX}{trial}"),
                value: Value::Object(unknown.clone()),
            }
            .into())
        };
        let answers = self
            .storage()
            .commit_batch(&mut [&mut reserve, &mut note])?;
        for answer in answers {
            match answer {
                Ok(_) | Err(KNOWN) => {}
                Err(refusal) => return Err(StorageError::from(refusal).into()),
            }
        }
        Ok(trial.get())
    }

    /// What a parameter is drawn from, as far as the study knows.
    fn known_dist(&self, name: &str) -> Option<Distribution> {
        let mut declared = self.config().space.iter().flatten();
        if let Some(entry) = declared.find(|entry| entry.name == name) {
            return Some(entry.dist.clone());
        }
        let seen = self.seen();
        seen.history
            .column(name)
            .map(|column| column.dist().clone())
    }

    /// What was given for a trial, or for the one that it retries, before it was known what it is drawn from.
    pub(super) fn given(&self, trial: &replica::Trial) -> Result<Map<String, Value>> {
        let mut given = Map::new();
        if trial.template().is_none() {
            return Ok(given);
        }
        let parent = trial.template().and_then(|template| template.parent);
        let ids = [Some(trial.id), parent];
        self.storage().read(&mut |replica| {
            let attrs = replica.study(self.id()).map(|study| &study.user_attrs);
            let mut found = ids.iter().flatten().filter_map(|id| {
                let attr = attrs.as_ref().ok()?.get(&format!("{GIVEN_PREFIX}{id}"))?;
                attr.as_object()
            });
            given = found.next().cloned().unwrap_or_default();
        })?;
        Ok(given)
    }

    /// Adds a trial that was run elsewhere. It counts against a budget.
    ///
    /// # Errors
    /// [`StudyError::BadTrial`], [`StudyError::Conflict`] and [`StudyError::Storage`]. Nothing is kept then.
    pub fn add_trial(&self, finished: &FinishedTrial) -> Result<TrialId> {
        self.refresh()?;
        self.check_finished(finished)?;
        let study = self.id();
        let trial = std::cell::Cell::new(TrialId(0));
        let mut ops: Vec<Box<dyn Fn(TrialId) -> Op>> = Vec::new();
        let running = |from, to| move |trial| Transition { trial, from, to }.into();
        ops.push(Box::new(running(TrialState::Waiting, TrialState::Running)));
        if !finished.params.is_empty() {
            let params = finished.params.clone();
            ops.push(Box::new(move |trial| {
                let params = params.clone();
                ParamsBatch { trial, params }.into()
            }));
        }
        for (step, values) in &finished.reports {
            let (step, values) = (*step, numbers(values));
            ops.push(Box::new(move |trial| {
                let values = values.clone();
                Report {
                    trial,
                    step,
                    values,
                }
                .into()
            }));
        }
        let mut attrs = finished.user_attrs.clone();
        if !finished.constraints.is_empty() {
            let all = constraints::to_json(&finished.constraints);
            attrs.insert(constraints::CONSTRAINTS_KEY.to_owned(), all);
        }
        for (key, value) in attrs {
            ops.push(Box::new(move |trial| {
                let (key, value) = (key.clone(), value.clone());
                SetTrialUserAttr { trial, key, value }.into()
            }));
        }
        let (state, values, error) = match &finished.told {
            Told::Complete(values) => (TrialState::Complete, Some(numbers(values)), None),
            Told::Pruned(values) => (TrialState::Pruned, values.as_deref().map(numbers), None),
            Told::Failed(error) => (TrialState::Failed, None, Some(error.clone())),
            Told::Released => return Err(StudyError::BadTrial("it has not ended".to_owned())),
        };
        if let Some(values) = values {
            ops.push(Box::new(move |trial| {
                let values = values.clone();
                SetValues { trial, values }.into()
            }));
        }
        if let Some(message) = error {
            ops.push(Box::new(move |trial| {
                let message = message.clone();
                SetError { trial, message }.into()
            }));
        }
        ops.push(Box::new(running(TrialState::Running, state)));
        let mut create = |replica: &Replica| {
            let (next, number) = replica.next_trial(study)?;
            trial.set(next);
            Ok(CreateTrial {
                study,
                trial: next,
                number,
                template: None,
            }
            .into())
        };
        let trial = &trial;
        let plan = |op: &'_ dyn Fn(TrialId) -> Op| op(trial.get());
        let mut plans: Vec<Box<Plan<'_>>> = vec![Box::new(&mut create)];
        for op in &ops {
            plans.push(Box::new(move |_: &Replica| Ok(plan(&**op))));
        }
        let mut plans: Vec<&mut Plan<'_>> = plans.iter_mut().map(|plan| &mut **plan).collect();
        for answer in self.storage().commit_batch(&mut plans)? {
            answer.map_err(StorageError::from)?;
        }
        Ok(trial.get())
    }

    /// Checks all that could be refused once the trial is created.
    fn check_finished(&self, finished: &FinishedTrial) -> Result<()> {
        check_new_params(&finished.params).map_err(StorageError::from)?;
        for param in &finished.params {
            self.check_dist(&param.name, &param.dist)?;
        }
        let expected = self.config().directions.len();
        let last = match &finished.told {
            Told::Complete(values) | Told::Pruned(Some(values)) => Some(values),
            _ => None,
        };
        let lists = finished
            .reports
            .iter()
            .map(|(_, values)| values)
            .chain(last);
        for values in lists {
            if values.len() != expected {
                let found = values.len();
                let text = format!("{found} values for {expected} objectives");
                return Err(StudyError::BadTrial(text));
            }
        }
        if let Told::Complete(values) = &finished.told
            && values.iter().any(|value| value.is_nan())
        {
            let text = "a complete trial whose value is not a number";
            return Err(StudyError::BadTrial(text.to_owned()));
        }
        let mut keys = finished.user_attrs.keys();
        if let Some(key) = keys.find(|key| key.starts_with(RESERVED_PREFIX)) {
            let refusal = Refusal::ReservedKey(key.clone());
            return Err(StorageError::from(refusal).into());
        }
        Ok(())
    }
}

/// Stands for "a trial like this is there": no refusal of the state machine says so.
const KNOWN: Refusal = Refusal::BadConfig("known");

/// Whether a trial of the study has all of these values.
fn is_known(
    replica: &Replica,
    study: crate::trial::StudyId,
    fixed: &BTreeMap<String, ParamValue>,
    unknown: &Map<String, Value>,
) -> std::result::Result<bool, Refusal> {
    let attrs = &replica.study(study)?.user_attrs;
    let mut trials = replica.trials_of(study)?;
    Ok(trials.any(|trial| {
        let has = |(name, value): (&String, &ParamValue)| {
            let own = trial.param(name).map(|param| &param.value);
            let own = own.or_else(|| trial.template()?.fixed.get(name));
            own == Some(value)
        };
        let given = || {
            attrs
                .get(&format!("{GIVEN_PREFIX}{}", trial.id))?
                .as_object()
        };
        let was_given = |(name, value): (&String, &Value)| {
            given().is_some_and(|given| given.get(name) == Some(value))
        };
        fixed.iter().all(has) && unknown.iter().all(was_given)
    }))
}

fn numbers(values: &[f64]) -> Vec<JsonF64> {
    values.iter().copied().map(JsonF64).collect()
}
