//! What samplers and schedulers see of a study: its trials in columns, kept up to date at the cost of
//! what changed.
//!
//! Everything here is a function of the trials themselves, never of the order in which they were seen: a
//! study that is resumed shows the same history as one that was never interrupted.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use crate::number::JsonF64;
use crate::replica::{ParamKey, Replica, Trial, TrialParam, TrialReport, Values};
use crate::space::{Distribution, ParamValue};
use crate::trial::{Direction, StudyConfig, StudyId, TrialId, TrialState};

use super::constraints;
use super::fronts::Fronts;

/// The trials of one study.
#[derive(Debug)]
pub struct History {
    study: StudyId,
    directions: Vec<Direction>,
    seq: u64,
    trials: Vec<PastTrial>,
    columns: Vec<Column>,
    places: HashMap<String, usize>,
    ranking: Vec<Rank>,
    with_values: BTreeSet<u64>,
    active: BTreeSet<u64>,
    finished_count: usize,
    given_count: u64,
    groups: Vec<Vec<usize>>,
    fronts: OnceLock<Fronts>,
}

/// A trial, without its parameters: these are in the columns.
#[derive(Clone, Debug)]
pub struct PastTrial {
    /// Its identity.
    pub id: TrialId,
    /// Where it is in its life.
    pub state: TrialState,
    /// Its final values.
    pub values: Option<Values>,
    /// Its intermediate values, in the order they were reported. A step may stand twice.
    pub reports: Vec<(u64, Values)>,
    /// How far it misses its constraints, added up: 0 when all are met, `None` when it has none.
    pub violation: Option<f64>,
    /// The values of its constraints, in the order of their names.
    pub constraints: Vec<f64>,
    /// Whether its parameters were given, some of them at least: enqueued, added, or taken over from the
    /// trial that it replaces.
    pub is_given: bool,
    /// Its columns, in the order its parameters were set.
    params: Vec<u32>,
}

/// The values of one parameter.
#[derive(Debug)]
pub struct Column {
    key: Arc<ParamKey>,
    values: Vec<f64>,
    finished_count: usize,
    is_steady: bool,
}

/// The place of an ended trial among all, the best first. The fields are compared in order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rank {
    /// What it is ranked as.
    pub class: RankClass,
    /// The value, signed so that less is better; for a pruned trial minus its last step; the violation of
    /// an infeasible one.
    pub value: f64,
    /// The last reported value of a pruned trial, signed so that less is better; otherwise 0.
    pub second: f64,
    /// The trial's number.
    pub number: u64,
}

/// What a trial is ranked as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RankClass {
    /// Complete, with all constraints met.
    Feasible,
    /// Ended early.
    Pruned,
    /// Complete, with constraints that are not met.
    Infeasible,
}

impl History {
    /// The history of a study of which nothing was seen yet.
    pub fn new(study: StudyId, config: &StudyConfig) -> Self {
        Self {
            study,
            directions: config.directions.clone(),
            seq: 0,
            trials: Vec::new(),
            columns: Vec::new(),
            places: HashMap::new(),
            ranking: Vec::new(),
            with_values: BTreeSet::new(),
            active: BTreeSet::new(),
            finished_count: 0,
            given_count: 0,
            groups: Vec::new(),
            fronts: OnceLock::new(),
        }
    }

    /// What changed since it was followed last, at the cost of just that.
    ///
    /// Looking and taking are two steps, since a storage may show a state that does not last.
    pub fn changes(&self, replica: &Replica) -> Changes {
        let seq = replica.seq();
        let changed = replica.changed_since(self.seq);
        let of_study = changed.filter(|trial| trial.study == self.study);
        Changes {
            seq,
            trials: of_study.map(|trial| self.change(trial)).collect(),
        }
    }

    fn change(&self, trial: &Trial) -> Change {
        let past = self.trial(trial.number);
        let (params, reports) = past.map_or((0, 0), |p| (p.params.len(), p.reports.len()));
        let param = |p: &TrialParam| (Arc::clone(&p.key), p.value.as_f64());
        let report = |r: &TrialReport| (r.step, r.values.clone());
        let has_ended = trial.state.is_terminal();
        Change {
            number: trial.number,
            id: trial.id,
            state: trial.state,
            params: trial.params.iter().skip(params).map(param).collect(),
            reports: trial.reports.iter().skip(reports).map(report).collect(),
            values: trial.values.clone().filter(|_| has_ended),
            violation: constraints::violation(trial).filter(|_| has_ended),
            constraints: constraints::of(trial)
                .filter(|_| has_ended)
                .map_or_else(Vec::new, |by_name| by_name.into_values().collect()),
            is_given: trial.template().is_some() || !trial.managed,
            is_retry: trial.retry_of().is_some(),
        }
    }

    /// Takes in what changed.
    pub fn take(&mut self, changes: Changes) {
        // The trials that changed last come first, but numbers have no gaps.
        let end = changes.trials.iter().map(|change| change.number + 1).max();
        let end = usize::try_from(end.unwrap_or_default()).unwrap_or(usize::MAX);
        if end > self.trials.len() {
            self.trials.resize(end, PastTrial::unseen());
        }
        for change in changes.trials {
            self.take_one(change);
        }
        self.seq = changes.seq;
    }

    fn take_one(&mut self, change: Change) {
        let Ok(at) = usize::try_from(change.number) else {
            return;
        };
        let mut added = Vec::with_capacity(change.params.len());
        for (key, value) in &change.params {
            let column = self.column_of(key);
            if let Some(column) = self.columns.get_mut(column) {
                column.set(at, *value);
            }
            added.push(u32::try_from(column).unwrap_or(u32::MAX));
        }
        let Some(past) = self.trials.get_mut(at) else {
            return;
        };
        past.params.extend(added);
        past.reports.extend(change.reports);
        let was_over = past.state.is_terminal();
        past.id = change.id;
        past.state = change.state;
        if change.is_given && !past.is_given {
            past.is_given = true;
            self.given_count += u64::from(!change.is_retry);
        }
        if matches!(change.state, TrialState::Running | TrialState::Paused) {
            self.active.insert(change.number);
        } else {
            self.active.remove(&change.number);
        }
        if change.state.is_terminal() && !was_over {
            past.values = change.values;
            past.violation = change.violation;
            past.constraints = change.constraints;
            self.end(at, change.number);
        }
    }

    /// Notes that a trial ended.
    fn end(&mut self, at: usize, number: u64) {
        let Some(past) = self.trials.get(at) else {
            return;
        };
        if past.state == TrialState::Failed {
            return;
        }
        self.finished_count += 1;
        for column in &past.params {
            let column = self.columns.get_mut(*column as usize);
            if let Some(column) = column {
                column.finished_count += 1;
            }
        }
        let is_number = |values: &Values| values.iter().all(|value| !value.0.is_nan());
        if past.state == TrialState::Complete && past.values.as_ref().is_some_and(is_number) {
            self.with_values.insert(number);
            self.fronts = OnceLock::new();
        }
        if let Some(rank) = self.rank_of(past, number) {
            let place = self.ranking.partition_point(|other| other.is_before(&rank));
            self.ranking.insert(place, rank);
        }
        refine(&mut self.groups, &past.params);
    }

    fn rank_of(&self, past: &PastTrial, number: u64) -> Option<Rank> {
        let [direction] = self.directions.as_slice() else {
            return None;
        };
        let signed = |values: &Values| values.first().map(|value| direction.signed(value.0));
        let violation = past.violation.unwrap_or_default();
        let (class, value, second) = match past.state {
            TrialState::Complete if violation > 0.0 => (RankClass::Infeasible, violation, 0.0),
            TrialState::Complete => (RankClass::Feasible, signed(past.values.as_ref()?)?, 0.0),
            TrialState::Pruned => {
                let (step, values) = past.reports.iter().max_by_key(|(step, _)| *step)?;
                #[expect(clippy::cast_precision_loss, reason = "only the order counts")]
                let step = *step as f64;
                let value = signed(values)?;
                let value = if value.is_nan() { f64::INFINITY } else { value };
                (RankClass::Pruned, -step, value)
            }
            _ => return None,
        };
        (!value.is_nan()).then_some(Rank {
            class,
            value,
            second,
            number,
        })
    }

    fn column_of(&mut self, key: &Arc<ParamKey>) -> usize {
        if let Some(place) = self.places.get(&key.name) {
            if let Some(column) = self.columns.get_mut(*place) {
                column.meet(key);
            }
            return *place;
        }
        let place = self.columns.len();
        self.places.insert(key.name.clone(), place);
        self.columns.push(Column {
            key: Arc::clone(key),
            values: Vec::new(),
            finished_count: 0,
            is_steady: true,
        });
        place
    }

    /// Up to which operation of the storage it was followed.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Which way each objective gets better.
    pub fn directions(&self) -> &[Direction] {
        &self.directions
    }

    /// All trials, by number.
    pub fn trials(&self) -> &[PastTrial] {
        &self.trials
    }

    /// The trial with this number.
    pub fn trial(&self, number: u64) -> Option<&PastTrial> {
        usize::try_from(number)
            .ok()
            .and_then(|at| self.trials.get(at))
    }

    /// Trials of one objective that ended complete or pruned, the best first. Empty for several objectives.
    pub fn ranking(&self) -> &[Rank] {
        &self.ranking
    }

    /// The numbers of the trials that are complete with values that are numbers, ascending.
    pub fn with_values(&self) -> impl ExactSizeIterator<Item = u64> {
        self.with_values.iter().copied()
    }

    /// The numbers of the trials that are running or paused, ascending.
    pub fn active(&self) -> impl ExactSizeIterator<Item = u64> {
        self.active.iter().copied()
    }

    /// How many trials ended complete or pruned.
    pub fn finished_count(&self) -> usize {
        self.finished_count
    }

    /// How many trials count against a budget although their parameters were given.
    pub fn given_count(&self) -> u64 {
        self.given_count
    }

    /// The values of a trial, signed so that less is better.
    pub fn signed_values(&self, number: u64) -> Option<Vec<f64>> {
        let values = self.trial(number)?.values.as_ref()?;
        let signed = values.iter().zip(&self.directions);
        Some(signed.map(|(value, way)| way.signed(value.0)).collect())
    }

    /// The trials with values in fronts: the first holds those that no feasible trial dominates. Sorted once
    /// per ending of a trial, however often it is asked for.
    pub fn fronts(&self) -> &Fronts {
        self.fronts.get_or_init(|| Fronts::of(self))
    }

    /// The column of a parameter.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.places
            .get(name)
            .and_then(|place| self.columns.get(*place))
    }

    /// All columns, in the order their parameters were first seen.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The parameters of a trial with their values, in the order they were set.
    pub fn params_of(&self, number: u64) -> impl Iterator<Item = (&Arc<ParamKey>, f64)> {
        let places = self.trial(number).map(|past| past.params.as_slice());
        places.unwrap_or_default().iter().filter_map(move |place| {
            let column = self.columns.get(*place as usize)?;
            Some((&column.key, column.get(number)?))
        })
    }

    /// The parameters that every trial which ended complete or pruned has, from the same distribution, in
    /// the order of their names.
    pub fn common_params(&self) -> Vec<Arc<ParamKey>> {
        if self.finished_count == 0 {
            return Vec::new();
        }
        let common =
            |column: &&Column| column.is_steady && column.finished_count == self.finished_count;
        let mut keys: Vec<_> = self
            .columns
            .iter()
            .filter(common)
            .map(Column::key)
            .collect();
        keys.sort_by(|a, b| a.name.cmp(&b.name));
        keys
    }

    /// Parameters that were never set without each other, in the order of their names: each group of a
    /// space with conditions. Those whose distribution was not always the same are left out.
    pub fn groups(&self) -> Vec<Vec<Arc<ParamKey>>> {
        let steady = |place: &usize| self.columns.get(*place).filter(|column| column.is_steady);
        let mut groups: Vec<Vec<Arc<ParamKey>>> = Vec::new();
        for group in &self.groups {
            let mut keys: Vec<_> = group.iter().filter_map(steady).map(Column::key).collect();
            keys.sort_by(|a, b| a.name.cmp(&b.name));
            if !keys.is_empty() {
                groups.push(keys);
            }
        }
        groups.sort_by(|a, b| a.first().map(|k| &k.name).cmp(&b.first().map(|k| &k.name)));
        groups
    }
}

/// What changed in a history: see [`History::changes`].
#[derive(Debug)]
pub struct Changes {
    seq: u64,
    trials: Vec<Change>,
}

/// What is new of one trial.
#[derive(Debug)]
struct Change {
    number: u64,
    id: TrialId,
    state: TrialState,
    params: Vec<(Arc<ParamKey>, f64)>,
    reports: Vec<(u64, Values)>,
    values: Option<Values>,
    violation: Option<f64>,
    constraints: Vec<f64>,
    is_given: bool,
    is_retry: bool,
}

impl PastTrial {
    fn unseen() -> Self {
        Self {
            id: TrialId::default(),
            state: TrialState::Waiting,
            values: None,
            reports: Vec::new(),
            violation: None,
            constraints: Vec::new(),
            is_given: false,
            params: Vec::new(),
        }
    }
}

impl Rank {
    fn is_before(&self, other: &Self) -> bool {
        self.class
            .cmp(&other.class)
            .then(self.value.total_cmp(&other.value))
            .then(self.second.total_cmp(&other.second))
            .then(self.number.cmp(&other.number))
            .is_lt()
    }
}

impl Direction {
    /// The value of an objective, signed so that less is better.
    pub fn signed(self, value: f64) -> f64 {
        match self {
            Self::Minimize => value,
            Self::Maximize => -value,
        }
    }
}

impl Column {
    /// Name and distribution, that of the trial seen last; of lists of choices the longest.
    pub fn key(&self) -> Arc<ParamKey> {
        Arc::clone(&self.key)
    }

    /// The distribution.
    pub fn dist(&self) -> &Distribution {
        &self.key.dist
    }

    /// The value of a trial as a plain number, if it has the parameter.
    pub fn get(&self, number: u64) -> Option<f64> {
        let at = usize::try_from(number).ok()?;
        self.values.get(at).copied().filter(|value| !value.is_nan())
    }

    /// How many trials that ended complete or pruned have the parameter.
    pub fn finished_count(&self) -> usize {
        self.finished_count
    }

    /// Whether all trials drew from the same distribution, lists of choices that grew aside.
    pub fn is_steady(&self) -> bool {
        self.is_steady
    }

    fn set(&mut self, at: usize, value: f64) {
        if self.values.len() <= at {
            self.values.resize(at + 1, f64::NAN);
        }
        if let Some(place) = self.values.get_mut(at) {
            *place = value;
        }
    }

    /// Takes in the distribution of a further trial.
    fn meet(&mut self, key: &Arc<ParamKey>) {
        if Arc::ptr_eq(&self.key, key) || self.key.dist == key.dist {
            return;
        }
        match self.key.dist.compare(&key.dist) {
            Compared::Grown => self.key = Arc::clone(key),
            Compared::Shrunk => {}
            Compared::Same | Compared::OtherRange | Compared::Conflict => {
                self.is_steady = false;
            }
        }
    }
}

/// How a distribution compares with an earlier one of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// It is the same.
    Same,
    /// A list of choices with further ones at its end.
    Grown,
    /// A list of choices that lacks some of the end.
    Shrunk,
    /// Numbers of the same type, with another range or other steps.
    OtherRange,
    /// Another type, another scale, or other choices.
    Conflict,
}

impl Distribution {
    /// Compares a later distribution with this one.
    pub fn compare(&self, later: &Self) -> Compared {
        match (self, later) {
            (a, b) if a == b => Compared::Same,
            (Self::Cat(a), Self::Cat(b)) => {
                let (a, b) = (&a.choices.choices, &b.choices.choices);
                if b.starts_with(a) {
                    Compared::Grown
                } else if a.starts_with(b) {
                    Compared::Shrunk
                } else {
                    Compared::Conflict
                }
            }
            (Self::Float(a), Self::Float(b)) if a.log == b.log => Compared::OtherRange,
            (Self::Int(a), Self::Int(b)) if a.log == b.log => Compared::OtherRange,
            _ => Compared::Conflict,
        }
    }
}

/// Splits groups so that none holds both parameters that a trial has and such that it lacks.
fn refine(groups: &mut Vec<Vec<usize>>, params: &[u32]) {
    let mut has: HashSet<usize> = params.iter().map(|place| *place as usize).collect();
    let mut split = Vec::new();
    for group in groups.iter_mut() {
        let (inside, outside): (Vec<_>, Vec<_>) = group.iter().partition(|at| has.remove(at));
        if !inside.is_empty() && !outside.is_empty() {
            *group = inside;
            split.push(outside);
        }
    }
    groups.extend(split);
    if !has.is_empty() {
        let mut new: Vec<_> = has.into_iter().collect();
        new.sort_unstable();
        groups.push(new);
    }
}

impl Column {
    /// The value of a trial, if it has the parameter.
    pub fn value(&self, number: u64) -> Option<ParamValue> {
        Some(match (self.dist(), self.get(number)?) {
            (Distribution::Float(_), value) => ParamValue::F64(JsonF64(value)),
            (dist, value) => dist.nearest(value),
        })
    }
}
