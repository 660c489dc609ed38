//! A trial as its objective sees it: parameters are asked for while it runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::constraints::{self, CONSTRAINTS_KEY};
use super::history::Compared;
use super::{Result, Study, StudyError};
use crate::number::JsonF64;
use crate::replica::Values;
use crate::sampler::{JointSpace, SamplerView};
use crate::scheduler::{Decision, SchedulerView};
use crate::space::{
    Categories, Choice, Distribution, FloatRange, IntRange, Param, ParamValue, SpaceFault,
};
use crate::trial::TrialId;
use crate::worker::TrialHandle;

/// A running trial. Threads may share it.
#[derive(Debug)]
pub struct Trial {
    study: Study,
    pub(super) handle: TrialHandle,
    drawn: Mutex<Drawn>,
}

/// What was drawn and reported so far.
#[derive(Debug, Default)]
struct Drawn {
    /// Parameters that the trial asked for.
    asked: BTreeMap<String, (Distribution, ParamValue)>,
    /// Parameters that it has, by whatever way, and those that are fixed for it.
    set: BTreeMap<String, ParamValue>,
    /// Values that were given before their distributions were known.
    given: serde_json::Map<String, Value>,
    joint: Option<(JointSpace, Vec<ParamValue>)>,
    /// Whether the history was brought up to date since the trial was started.
    is_fresh: bool,
    reports: Vec<(u64, Values)>,
    constraints: BTreeMap<String, f64>,
}

impl Trial {
    pub(super) fn new(
        study: Study,
        handle: TrialHandle,
        given: serde_json::Map<String, Value>,
    ) -> Self {
        let before = handle.before();
        let mut set = before
            .template()
            .map(|template| template.fixed.clone())
            .unwrap_or_default();
        let own = before.params.iter();
        set.extend(own.map(|param| (param.key.name.clone(), param.value.clone())));
        let own = before.params.iter().map(|param| {
            let drawn = (param.key.dist.clone(), param.value.clone());
            (param.key.name.clone(), drawn)
        });
        let reports = before.reports.iter();
        let drawn = Drawn {
            asked: own.collect(),
            set,
            given,
            joint: None,
            is_fresh: false,
            reports: reports.map(|r| (r.step, r.values.clone())).collect(),
            constraints: constraints::of(before).unwrap_or_default(),
        };
        Self {
            study,
            handle,
            drawn: Mutex::new(drawn),
        }
    }

    /// What was drawn so far, unless this is a forked child, where a thread that is not there may have it.
    fn lock(&self) -> Result<MutexGuard<'_, Drawn>> {
        self.study.check_process()?;
        Ok(self.drawn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Its study.
    pub fn study(&self) -> &Study {
        &self.study
    }

    /// Its identity in the storage.
    pub fn id(&self) -> TrialId {
        self.handle.id()
    }

    /// Its number within its study, from 0.
    pub fn number(&self) -> u64 {
        self.handle.number()
    }

    /// The worker's handle of it.
    pub fn handle(&self) -> &TrialHandle {
        &self.handle
    }

    /// A real number of a range: `-5.0..=5.0`, [`FloatRange::log`], [`FloatRange::stepped`].
    ///
    /// # Errors
    /// As [`suggest`](Self::suggest).
    pub fn suggest_float(&self, name: &str, range: impl Into<FloatRange>) -> Result<f64> {
        match self.suggest(name, &Distribution::Float(range.into()))? {
            ParamValue::F64(value) => Ok(value.0),
            other => Err(wrong_type(name, &other)),
        }
    }

    /// A whole number of a range: `1..=8`, [`IntRange::log`], [`IntRange::stepped`].
    ///
    /// # Errors
    /// As [`suggest`](Self::suggest).
    pub fn suggest_int(&self, name: &str, range: impl Into<IntRange>) -> Result<i64> {
        match self.suggest(name, &Distribution::Int(range.into()))? {
            ParamValue::I64(value) => Ok(value),
            other => Err(wrong_type(name, &other)),
        }
    }

    /// True or false.
    ///
    /// # Errors
    /// As [`suggest`](Self::suggest).
    pub fn suggest_bool(&self, name: &str) -> Result<bool> {
        match self.suggest(name, &Distribution::Bool)? {
            ParamValue::Bool(value) => Ok(value),
            other => Err(wrong_type(name, &other)),
        }
    }

    /// One of a list.
    ///
    /// # Errors
    /// As [`suggest`](Self::suggest).
    pub fn suggest_categorical<T>(&self, name: &str, choices: &[T]) -> Result<T>
    where
        T: Clone + Into<Choice>,
    {
        let dist = Distribution::Cat(Categories::of(choices.iter().cloned()));
        let value = self.suggest(name, &dist)?;
        let place = match value {
            ParamValue::Cat(place) => usize::try_from(place).ok(),
            _ => None,
        };
        let chosen = place.and_then(|place| choices.get(place));
        chosen.cloned().ok_or_else(|| wrong_type(name, &value))
    }

    /// A value of any distribution. One that was asked for before is answered again.
    ///
    /// # Errors
    /// - [`StudyError::Space`]: the distribution has no values, or the value that is fixed for the
    ///   trial is none of its.
    /// - [`StudyError::AskedTwice`]: the trial asked for it before, from another distribution.
    /// - [`StudyError::Conflict`]: the study's other trials draw it from something else altogether. Other
    ///   ranges and longer or shorter lists of choices are none.
    /// - [`StudyError::Sampler`], [`StudyError::Worker`], [`StudyError::Storage`].
    pub fn suggest(&self, name: &str, dist: &Distribution) -> Result<ParamValue> {
        dist.check().map_err(|fault| space(name, dist, fault))?;
        let mut drawn = self.lock()?;
        if let Some((first, value)) = drawn.asked.get(name) {
            // A claim after a pause may find a list of choices that has grown meanwhile.
            let is_same = matches!(
                first.compare(dist),
                Compared::Same | Compared::Grown | Compared::Shrunk
            );
            if is_same && dist.check_value(value).is_ok() {
                return Ok(value.clone());
            }
            return Err(StudyError::AskedTwice {
                name: name.to_owned(),
                first: first.to_string(),
                second: dist.to_string(),
            });
        }
        if !drawn.is_fresh {
            self.study.refresh()?;
            drawn.is_fresh = true;
        }
        self.study.check_dist(name, dist)?;
        let value = if let Some(fixed) = drawn.set.get(name) {
            let checked = dist.check_value(fixed);
            checked.map_err(|fault| space(name, dist, fault))?;
            fixed.clone()
        } else if let Some(given) = drawn.given.get(name) {
            let value = dist.value_from_json(given);
            value.ok_or_else(|| space(name, dist, SpaceFault::OutOfRange))?
        } else {
            self.draw(&mut drawn, name, dist)?
        };
        self.handle.set_params(&[Param {
            name: name.to_owned(),
            dist: dist.clone(),
            value: value.clone(),
        }])?;
        let both = (dist.clone(), value.clone());
        drawn.asked.insert(name.to_owned(), both);
        drawn.set.insert(name.to_owned(), value.clone());
        Ok(value)
    }

    /// Draws a parameter that is not fixed.
    fn draw(&self, drawn: &mut Drawn, name: &str, dist: &Distribution) -> Result<ParamValue> {
        let study = &self.study;
        let seen = study.seen();
        let view = SamplerView {
            config: study.config(),
            number: self.number(),
            history: &seen.history,
            state: seen.sampler_state.as_ref(),
            set: &drawn.set,
            asked_count: drawn.asked.len(),
            budget: study.budget(),
        };
        let sampler = study.sampler();
        let (space, values) = if let Some(joint) = drawn.joint.take() {
            joint
        } else {
            let is_free =
                |name: &str| !drawn.set.contains_key(name) && !drawn.given.contains_key(name);
            let space = sampler.joint_space(&view);
            let space = space.filter(|key| is_free(&key.name));
            let values = if space.is_empty() {
                Vec::new()
            } else {
                sampler.sample_joint(&view, &space)?
            };
            (space, values)
        };
        let joint = space.place(name).and_then(|place| values.get(place));
        let joint = joint.filter(|value| dist.check_value(value).is_ok());
        let value = match joint {
            Some(value) => Ok(value.clone()),
            None => sampler.sample_single(&view, name, dist),
        };
        drawn.joint = Some((space, values));
        Ok(value?)
    }

    /// Records an intermediate value of the first objective.
    ///
    /// # Errors
    /// [`StudyError::Worker`], also when the trial was taken from this worker.
    pub fn report(&self, step: u64, value: f64) -> Result<()> {
        self.report_all(step, &[value])
    }

    /// Records intermediate values, one per objective.
    ///
    /// # Errors
    /// As [`report`](Self::report).
    pub fn report_all(&self, step: u64, values: &[f64]) -> Result<()> {
        let values: Vec<JsonF64> = values.iter().copied().map(JsonF64).collect();
        self.handle.report(step, &values)?;
        self.lock()?.reports.push((step, values.as_slice().into()));
        Ok(())
    }

    /// Asks the scheduler whether the trial should end early. It answers no for a trial that reported
    /// nothing.
    ///
    /// # Errors
    /// [`StudyError::Storage`].
    pub fn should_prune(&self) -> Result<bool> {
        Ok(self.decide()? == Decision::Prune)
    }

    /// Asks the scheduler what becomes of the trial.
    ///
    /// # Errors
    /// [`StudyError::Storage`].
    pub fn decide(&self) -> Result<Decision> {
        let drawn = self.lock()?;
        if drawn.reports.is_empty() {
            return Ok(Decision::Continue);
        }
        let study = &self.study;
        study.refresh()?;
        let seen = study.seen();
        Ok(study.scheduler().decide(&SchedulerView {
            config: study.config(),
            number: self.number(),
            history: &seen.history,
            reports: &drawn.reports,
            state: seen.scheduler_state.as_ref(),
            budget: study.budget(),
        }))
    }

    /// What it reported so far, in order, with what earlier owners did.
    ///
    /// # Errors
    /// As [`Study::check_process`].
    pub fn reports(&self) -> Result<Vec<(u64, Values)>> {
        Ok(self.lock()?.reports.clone())
    }

    /// Its parameters so far, and those that are fixed for it.
    ///
    /// # Errors
    /// As [`Study::check_process`].
    pub fn params(&self) -> Result<BTreeMap<String, ParamValue>> {
        Ok(self.lock()?.set.clone())
    }

    /// Records how a constraint is met: it is when `value` is not above 0.
    ///
    /// # Errors
    /// As [`report`](Self::report).
    pub fn set_constraint(&self, name: &str, value: f64) -> Result<()> {
        let mut drawn = self.lock()?;
        drawn.constraints.insert(name.to_owned(), value);
        let all = constraints::to_json(&drawn.constraints);
        drop(drawn);
        Ok(self.handle.set_user_attr(CONSTRAINTS_KEY, all)?)
    }

    /// Sets a user attribute.
    ///
    /// # Errors
    /// As [`report`](Self::report).
    pub fn set_user_attr(&self, key: &str, value: Value) -> Result<()> {
        Ok(self.handle.set_user_attr(key, value)?)
    }

    /// Whether whoever runs it was asked to stop: an objective that looks can end at once with
    /// [`Told::Released`](super::Told::Released).
    pub fn is_interrupted(&self) -> bool {
        self.study.stop_flag().is_set()
    }
}

fn space(name: &str, dist: &Distribution, fault: SpaceFault) -> StudyError {
    StudyError::Space {
        name: name.to_owned(),
        dist: dist.to_string(),
        fault,
    }
}

/// What only a sampler that breaks its promise leads to.
fn wrong_type(name: &str, value: &ParamValue) -> StudyError {
    StudyError::BadTrial(format!("parameter {name:?} has the value {value:?}"))
}

impl Study {
    /// Refuses a distribution that those of other trials, or of the declared space, do not go with.
    pub(super) fn check_dist(&self, name: &str, dist: &Distribution) -> Result<()> {
        let declared = self.config().space.iter().flatten();
        let declared = declared.filter(|entry| entry.name == name);
        for entry in declared {
            let compared = entry.dist.compare(dist);
            if matches!(compared, Compared::Conflict | Compared::OtherRange) {
                return Err(conflict(name, &entry.dist, dist));
            }
        }
        let seen = self.seen();
        if let Some(column) = seen.history.column(name)
            && column.dist().compare(dist) == Compared::Conflict
        {
            return Err(conflict(name, column.dist(), dist));
        }
        Ok(())
    }
}

fn conflict(name: &str, known: &Distribution, asked: &Distribution) -> StudyError {
    let (known, asked) = (known.to_string(), asked.to_string());
    let name = name.to_owned();
    StudyError::Conflict { name, known, asked }
}
