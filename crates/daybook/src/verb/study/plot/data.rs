//! What the charts of a study are drawn from: every value as a place on an axis.

use std::collections::BTreeMap;

use atune_core::replica::{Study, Trial};
use atune_core::space::{Distribution, ParamValue};
use atune_core::trial::{Direction, TrialState};

use super::super::values::param_text;
use crate::text::number;

/// The most labels of a list of choices that an axis shows.
const LABELS_MAX: usize = 64;

/// A study in numbers.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) name: String,
    pub(super) objectives: Vec<Objective>,
    pub(super) axes: Vec<Axis>,
    pub(super) rows: Vec<Row>,
    /// How much of the first objective's differences each parameter explains, the largest share first.
    pub(super) importance: Vec<(String, f64)>,
}

#[derive(Clone, Debug)]
pub(super) struct Objective {
    pub(super) name: String,
    pub(super) direction: Direction,
}

/// A parameter.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) scale: Scale,
    /// The ends, as places; never equal.
    pub(super) from: f64,
    pub(super) to: f64,
}

/// What a place on an axis means.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scale {
    Linear,
    /// The place is the decimal logarithm.
    Log,
    /// The place is that in the list.
    Labels(Vec<String>),
}

/// A trial.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) number: u64,
    pub(super) state: TrialState,
    /// Of a complete trial, one per objective; finite or not.
    pub(super) values: Option<Vec<f64>>,
    /// Places on the axes.
    pub(super) places: BTreeMap<usize, f64>,
    /// Steps and values of the first objective.
    pub(super) reports: Vec<(u64, f64)>,
    /// Unix milliseconds.
    pub(super) started: Option<u64>,
    pub(super) ended: Option<u64>,
}

impl Data {
    pub(super) fn new<'a>(study: &Study, trials: impl Iterator<Item = &'a Trial>) -> Self {
        let directions = study.config.directions.iter().enumerate();
        let objective = |(at, direction): (usize, &Direction)| Objective {
            name: match study.config.metric_names.get(at) {
                Some(name) => name.clone(),
                None => format!("value {at}"),
            },
            direction: *direction,
        };
        let mut data = Self {
            name: study.config.name.clone(),
            objectives: directions.map(objective).collect(),
            axes: Vec::new(),
            rows: Vec::new(),
            importance: Vec::new(),
        };
        for trial in trials {
            data.add(trial);
        }
        for axis in &mut data.axes {
            axis.widen();
        }
        data
    }

    fn add(&mut self, trial: &Trial) {
        let mut places = BTreeMap::new();
        for param in &trial.params {
            let at = self
                .axes
                .iter()
                .position(|axis| axis.name == param.key.name);
            let at = at.unwrap_or_else(|| {
                self.axes.push(Axis::new(&param.key.name, &param.key.dist));
                self.axes.len() - 1
            });
            let Some(axis) = self.axes.get_mut(at) else {
                continue;
            };
            if let Some(place) = axis.place(&param.value, || param_text(param)) {
                axis.take(place);
                places.insert(at, place);
            }
        }
        let values = trial
            .values
            .as_ref()
            .filter(|_| trial.state == TrialState::Complete);
        let first = |values: &atune_core::replica::Values| values.first().map(|value| value.0);
        self.rows.push(Row {
            number: trial.number,
            state: trial.state,
            values: values.map(|values| values.iter().map(|value| value.0).collect()),
            places,
            reports: trial
                .reports
                .iter()
                .filter_map(|report| Some((report.step, first(&report.values)?)))
                .collect(),
            started: trial.times.started,
            ended: trial.times.ended,
        });
    }

    /// Keeps these parameters only, in this order; with none, keeps all.
    ///
    /// # Errors
    /// Names the one that there is not.
    pub(super) fn choose(&mut self, names: &[String]) -> Result<(), String> {
        if names.is_empty() {
            return Ok(());
        }
        let place = |name: &String| {
            let found = self.axes.iter().position(|axis| axis.name == *name);
            found.ok_or_else(|| name.clone())
        };
        let chosen = names
            .iter()
            .map(place)
            .collect::<Result<Vec<usize>, String>>()?;
        self.axes = chosen
            .iter()
            .filter_map(|at| self.axes.get(*at).cloned())
            .collect();
        for row in &mut self.rows {
            let places = chosen.iter().enumerate();
            row.places = places
                .filter_map(|(new, old)| Some((new, *row.places.get(old)?)))
                .collect();
        }
        Ok(())
    }

    /// Complete trials with a finite value of an objective.
    pub(super) fn complete(&self, objective: usize) -> impl Iterator<Item = (&Row, f64)> {
        self.rows.iter().filter_map(move |row| {
            let value = *row.values.as_ref()?.get(objective)?;
            value.is_finite().then_some((row, value))
        })
    }
}

impl Objective {
    /// Whether `a` is better than `b`.
    pub(super) fn is_better(&self, a: f64, b: f64) -> bool {
        match self.direction {
            Direction::Minimize => a < b,
            Direction::Maximize => a > b,
        }
    }
}

impl Axis {
    fn new(name: &str, dist: &Distribution) -> Self {
        let scale = match dist {
            Distribution::Float(range) if range.log => Scale::Log,
            Distribution::Int(range) if range.log => Scale::Log,
            Distribution::Float(_) | Distribution::Int(_) => Scale::Linear,
            Distribution::Bool => Scale::Labels(vec!["false".to_owned(), "true".to_owned()]),
            Distribution::Cat(_) => Scale::Labels(Vec::new()),
        };
        Self {
            name: name.to_owned(),
            scale,
            from: f64::INFINITY,
            to: f64::NEG_INFINITY,
        }
    }

    /// Where a value lies; `None` when it has no place here, because the parameter once was another one.
    fn place(&mut self, value: &ParamValue, label: impl FnOnce() -> String) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
        let plain = match value {
            ParamValue::F64(value) => value.0,
            ParamValue::I64(value) => *value as f64,
            ParamValue::Bool(value) => f64::from(u8::from(*value)),
            ParamValue::Cat(place) => f64::from(*place),
        };
        let place = match &mut self.scale {
            Scale::Linear => plain,
            Scale::Log => plain.log10(),
            Scale::Labels(labels) => {
                let at = match value {
                    ParamValue::Cat(place) => usize::try_from(*place).ok()?,
                    ParamValue::Bool(value) => usize::from(*value),
                    _ => return None,
                };
                if at < LABELS_MAX {
                    if labels.len() <= at {
                        labels.resize(at + 1, String::new());
                    }
                    if let Some(place) = labels.get_mut(at).filter(|place| place.is_empty()) {
                        *place = label();
                    }
                }
                plain
            }
        };
        place.is_finite().then_some(place)
    }

    fn take(&mut self, place: f64) {
        self.from = self.from.min(place);
        self.to = self.to.max(place);
    }

    /// Leaves some room at the ends.
    fn widen(&mut self) {
        if let Scale::Labels(labels) = &self.scale {
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            let last = labels.len().saturating_sub(1) as f64;
            (self.from, self.to) = (-0.5, self.to.max(last) + 0.5);
            return;
        }
        (self.from, self.to) = widened(self.from, self.to);
    }

    /// A place in words.
    pub(super) fn text(&self, place: f64) -> String {
        match &self.scale {
            Scale::Linear => number(place),
            // A power of ten is shorter as one.
            Scale::Log if (place - place.round()).abs() < 1e-6 && place.abs() > 2.5 => {
                format!("1e{place:.0}")
            }
            Scale::Log => number(10f64.powf(place)),
            Scale::Labels(labels) => {
                let near = place.round();
                if (place - near).abs() > 0.01 || near < 0.0 {
                    return String::new();
                }
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a place in a short list"
                )]
                let label = labels.get(near as usize);
                label.map(|label| short(label)).unwrap_or_default()
            }
        }
    }

    /// From 0 to 1.
    pub(super) fn share(&self, place: f64) -> f64 {
        ((place - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// How many labels fit it.
    pub(super) fn label_count(&self) -> usize {
        match &self.scale {
            Scale::Labels(labels) => labels.len().clamp(2, 12),
            _ => 5,
        }
    }
}

/// A range with room at its ends, and never empty.
pub(super) fn widened(from: f64, to: f64) -> (f64, f64) {
    if !(from.is_finite() && to.is_finite()) {
        return (0.0, 1.0);
    }
    let room = (to - from) * 0.05;
    let room = if room > 0.0 && room.is_finite() {
        room
    } else {
        from.abs().max(1.0) * 0.1
    };
    ((from - room).max(f64::MIN), (to + room).min(f64::MAX))
}

/// The range of some numbers.
pub(super) fn range_of(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    let (from, to) = finite.fold(ends, |(from, to), value| (from.min(value), to.max(value)));
    widened(from, to)
}

fn short(label: &str) -> String {
    const LEN: usize = 14;
    if label.chars().count() <= LEN {
        return label.to_owned();
    }
    let start: String = label.chars().take(LEN - 1).collect();
    format!("{start}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_never_empty_and_keeps_its_values_inside() {
        for (from, to) in [
            (0.0, 0.0),
            (5.0, 5.0),
            (-1.0, 1.0),
            (f64::MIN, f64::MAX),
            (1e-300, 2e-300),
        ] {
            let (low, high) = widened(from, to);
            assert!(
                low < high && low <= from && high >= to,
                "{from} {to}: {low} {high}"
            );
            assert!(low.is_finite() && high.is_finite());
        }
        assert_eq!(range_of([f64::NAN, f64::INFINITY].into_iter()), (0.0, 1.0));
    }
}
