//! The tree-structured Parzen estimator: parameters are drawn near those of good trials, and where a good
//! trial is likelier than any other.
//!
//! A tenth of the trials are good ones. A density over their parameters and one over those of the others
//! are made of a kernel per trial ([`mixture`]); of some points drawn from the first the one is taken where
//! it exceeds the second by most (Bergstra et al., Algorithms for Hyper-Parameter Optimization, 2011).
//! Parameters that always occur together are drawn together; those of a space with conditions by groups,
//! each from the trials that have it, and some trials look into a branch that is drawn ([`branch`]).
//! Running trials count as others, so that workers keep away from each other. Kernels are narrower than the
//! usual rules make them: with the few hundred trials of a study this converges faster, and the wide kernel
//! keeps the rest of the space in play.

mod branch;
mod mixture;
mod split;
mod volume;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::random::draw;
use super::{JointSpace, Result, Sampler, SamplerError, SamplerView, registry};
use crate::replica::ParamKey;
use crate::scale::Scale;
use crate::space::{Distribution, ParamValue};
use crate::study::{Column, History};
use branch::Held;
use mixture::{Axis, Mixture, Widths};
use split::Split;

/// The name of [`TpeSampler`].
pub(super) const KIND: &str = "tpe";

/// Kernels around good trials, and around others.
const BELOW: Widths = Widths {
    first: 0.04,
    least: 0.002,
};
const ABOVE: Widths = Widths {
    first: 0.05,
    least: 0.002,
};

/// How a [`TpeSampler`] works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TpeOptions {
    /// Trials that must have ended complete or pruned before it looks at them; until then it draws at
    /// random.
    pub startup_trials: u64,
    /// Points that are drawn for each suggestion, of which the best is taken. At least 1.
    pub candidates: u32,
    /// Whether parameters are drawn together. Otherwise each is drawn as if there were no others.
    pub multivariate: bool,
    /// Whether parameters that do not occur in every trial are drawn together with those that occur in the
    /// same ones. Otherwise they are drawn alone.
    pub group: bool,
    /// Whether running trials are kept away from.
    pub constant_liar: bool,
}

impl Default for TpeOptions {
    fn default() -> Self {
        Self {
            startup_trials: 10,
            candidates: 24,
            multivariate: true,
            group: true,
            constant_liar: true,
        }
    }
}

/// The tree-structured Parzen estimator.
#[derive(Clone, Debug, Default)]
pub struct TpeSampler {
    options: TpeOptions,
}

impl TpeSampler {
    /// With these options.
    ///
    /// # Errors
    /// [`SamplerError::BadOption`] without candidates, or with more than 100,000.
    pub fn new(options: TpeOptions) -> Result<Self> {
        if !(1..=100_000).contains(&options.candidates) {
            return Err(SamplerError::BadOption {
                kind: KIND,
                option: "candidates",
                fault: format!("{} where 1 to 100000 make sense", options.candidates),
            });
        }
        Ok(Self { options })
    }

    pub(super) fn of(options: &Value) -> Result<Arc<dyn Sampler>> {
        let options: TpeOptions = registry::options(KIND, options)?;
        Ok(Arc::new(Self::new(options)?))
    }

    fn is_starting(&self, history: &History) -> bool {
        (history.finished_count() as u64) < self.options.startup_trials
    }

    /// Draws parameters together, of which one may be held.
    fn draw(
        &self,
        view: &SamplerView<'_>,
        keys: &[Arc<ParamKey>],
        held: Option<&Held>,
    ) -> Vec<ParamValue> {
        let name = keys.first().map_or("", |key| key.name.as_str());
        let mut rng = view.rng(&format!("tpe/{name}"));
        let split = Split::of(view, keys, held, self.options.constant_liar);
        if split.below.is_empty() {
            let random = |key: &Arc<ParamKey>| match held {
                Some(held) if held.key.name == key.name => key.dist.nearest(held.value),
                _ => draw(&key.dist, &mut view.rng(&key.name)),
            };
            return keys.iter().map(random).collect();
        }
        let column = |key: &Arc<ParamKey>| view.history.column(&key.name);
        let lines: Vec<Line<'_>> = keys
            .iter()
            .filter_map(|key| Some(Line::new(&key.dist, column(key)?)))
            .collect();
        let axes: Vec<Axis> = lines.iter().map(|line| line.axis).collect();
        let points = |numbers: &mut dyn Iterator<Item = u64>| {
            let mut points = Vec::new();
            for number in numbers {
                points.extend(lines.iter().map(|line| line.place_of(number)));
            }
            points
        };
        let below = Mixture::new(
            &axes,
            points(&mut split.below.iter().copied()),
            &rank_weights(split.below.len()),
            BELOW,
        );
        let weights: Vec<f64> = split.above.iter().map(|(_, weight)| *weight).collect();
        let numbers = &mut split.above.iter().map(|(number, _)| *number);
        let above = Mixture::new(&axes, points(numbers), &weights, ABOVE);
        let mut best: (f64, Vec<f64>) = (f64::NEG_INFINITY, Vec::new());
        let mut point = Vec::new();
        for _ in 0..self.options.candidates {
            below.draw(&mut rng, &mut point);
            for ((line, key), place) in lines.iter().zip(keys).zip(&mut point) {
                *place = match held {
                    Some(held) if held.key.name == key.name => line.place(held.value),
                    _ => line.settle(*place),
                };
            }
            let gain = libm::log(below.density(&point) / above.density(&point));
            if gain > best.0 || best.1.is_empty() {
                best.0 = gain;
                best.1.clone_from(&point);
            }
        }
        let value = |(line, place): (&Line<'_>, &f64)| line.value(*place);
        lines.iter().zip(&best.1).map(value).collect()
    }
}

/// Better trials count for more: by the logarithm of their rank, and 1 on average.
#[expect(clippy::cast_precision_loss, reason = "a few good trials")]
fn rank_weights(count: usize) -> Vec<f64> {
    let highest = libm::log(count as f64 + 0.5);
    let weight = |rank: usize| (highest - libm::log(rank as f64)).max(0.05);
    let total: f64 = (1..=count).map(weight).sum();
    (1..=count)
        .map(|rank| weight(rank) * count as f64 / total)
        .collect()
}

/// A parameter as an axis of a density.
struct Line<'a> {
    dist: &'a Distribution,
    column: &'a Column,
    scale: Scale,
    axis: Axis,
}

impl<'a> Line<'a> {
    fn new(dist: &'a Distribution, column: &'a Column) -> Self {
        let count = dist.value_count();
        #[expect(clippy::cast_precision_loss, reason = "only sizes a kernel")]
        let axis = match (dist.is_numerical(), count) {
            (true, Some(count)) if !dist.is_log() => Axis::Line {
                grain: 1.0 / count.max(1) as f64,
            },
            (true, _) => Axis::Line { grain: 0.0 },
            (false, count) => Axis::Choices(
                count
                    .and_then(|count| usize::try_from(count).ok())
                    .unwrap_or(1),
            ),
        };
        Self {
            dist,
            column,
            scale: dist.scale(),
            axis,
        }
    }

    /// The place of a trial that has the parameter.
    fn place_of(&self, number: u64) -> f64 {
        self.place(self.column.get(number).unwrap_or_default())
    }

    /// The place of a plain number on the axis.
    fn place(&self, number: f64) -> f64 {
        match self.axis {
            Axis::Line { .. } => self.scale.unit(number),
            Axis::Choices(_) => number,
        }
    }

    /// The place of the value that a place stands for.
    fn settle(&self, place: f64) -> f64 {
        match (self.axis, self.dist) {
            (Axis::Line { grain }, dist) if grain > 0.0 || matches!(dist, Distribution::Int(_)) => {
                self.place(self.value(place).as_f64())
            }
            _ => place,
        }
    }

    fn value(&self, place: f64) -> ParamValue {
        match self.axis {
            Axis::Line { .. } => self.dist.at_unit(place),
            Axis::Choices(_) => self.dist.nearest(place),
        }
    }
}

impl Sampler for TpeSampler {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn options(&self) -> Value {
        serde_json::to_value(&self.options).unwrap_or_default()
    }

    fn joint_space(&self, view: &SamplerView<'_>) -> JointSpace {
        if self.is_starting(view.history) || !self.options.multivariate {
            return JointSpace::empty();
        }
        if self.options.group {
            JointSpace::new(view.history.groups().into_iter().flatten())
        } else {
            JointSpace::new(view.history.common_params())
        }
    }

    fn sample_joint(&self, view: &SamplerView<'_>, space: &JointSpace) -> Result<Vec<ParamValue>> {
        let groups = if self.options.group {
            view.history.groups()
        } else {
            vec![space.params().to_vec()]
        };
        let held = branch::drawn(view.history, &groups, &mut view.rng("tpe/branch"))
            .filter(|held| space.place(&held.key.name).is_some());
        let mut values: Vec<Option<ParamValue>> = vec![None; space.len()];
        for mut group in groups {
            group.retain(|key| space.place(&key.name).is_some());
            let held = held.as_ref().filter(|held| group.contains(&held.key));
            for (key, value) in group.iter().zip(self.draw(view, &group, held)) {
                let place = space.place(&key.name).and_then(|at| values.get_mut(at));
                if let Some(place) = place {
                    *place = Some(value);
                }
            }
        }
        let random = |(value, key): (Option<ParamValue>, &Arc<ParamKey>)| {
            value.unwrap_or_else(|| draw(&key.dist, &mut view.rng(&key.name)))
        };
        Ok(values.into_iter().zip(space.params()).map(random).collect())
    }

    fn sample_single(
        &self,
        view: &SamplerView<'_>,
        name: &str,
        dist: &Distribution,
    ) -> Result<ParamValue> {
        let key = Arc::new(ParamKey {
            name: name.to_owned(),
            dist: dist.clone(),
        });
        if self.is_starting(view.history) {
            return Ok(draw(dist, &mut view.rng(name)));
        }
        let drawn = self.draw(view, &[key], None).pop();
        Ok(drawn.unwrap_or_else(|| draw(dist, &mut view.rng(name))))
    }
}
