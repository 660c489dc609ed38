//! Every point of a grid, once.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JointSpace, Result, Sampler, SamplerError, SamplerView, random, registry};
use crate::space::{Distribution, ParamValue};

/// The name of [`GridSampler`].
pub(super) const KIND: &str = "grid";

/// Which grid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GridOptions {
    /// The values of each parameter; `None` takes all values of the study's declared space.
    pub grid: Option<BTreeMap<String, Vec<Value>>>,
}

/// Goes through all points of a grid, far ones after each other. A trial's point follows from how many
/// trials before it were given no point from outside, so which worker runs it does not matter, and a retry
/// has the point of the trial that it retries.
#[derive(Clone, Debug, Default)]
pub struct GridSampler {
    options: GridOptions,
}

impl GridSampler {
    /// Over this grid.
    ///
    /// # Errors
    /// [`SamplerError::BadOption`] for a parameter without values, and for more points than can be counted.
    pub fn new(options: GridOptions) -> Result<Self> {
        let bad = |fault: String| SamplerError::BadOption {
            kind: KIND,
            option: "grid",
            fault,
        };
        let mut size = 1u64;
        for (name, values) in options.grid.iter().flatten() {
            if values.is_empty() {
                return Err(bad(format!("parameter {name:?} has no values")));
            }
            let product = size.checked_mul(values.len() as u64);
            size = product.ok_or_else(|| bad("more than 2^64 points".to_owned()))?;
        }
        Ok(Self { options })
    }

    pub(super) fn of(options: &Value) -> Result<Arc<dyn Sampler>> {
        Ok(Arc::new(Self::new(registry::options(KIND, options)?)?))
    }

    /// The parameters with their numbers of values, in the order of their names. `None` when they cannot be
    /// counted.
    fn axes(&self, view: &SamplerView<'_>) -> Option<Vec<(String, u64)>> {
        if let Some(grid) = &self.options.grid {
            let axis = |(name, values): (&String, &Vec<Value>)| (name.clone(), values.len() as u64);
            return Some(grid.iter().map(axis).collect());
        }
        let space = view.config.space.as_ref()?;
        let axis = |entry: &crate::trial::SpaceEntry| {
            Some((entry.name.clone(), entry.dist.value_count()?))
        };
        let mut axes: Vec<_> = space.iter().map(axis).collect::<Option<_>>()?;
        axes.sort();
        Some(axes)
    }

    fn size(&self, view: &SamplerView<'_>) -> Option<u64> {
        let axes = self.axes(view)?;
        let mut counts = axes.iter().map(|(_, count)| *count);
        counts.try_fold(1u64, u64::checked_mul)
    }

    fn unfit(what: &str, fault: &str) -> SamplerError {
        SamplerError::Unfit {
            kind: KIND,
            what: what.to_owned(),
            fault: fault.to_owned(),
        }
    }
}

/// The place in the grid of the trial that comes after `ordinal` others: each place once, neighbours far
/// apart.
fn place(ordinal: u64, size: u64) -> u64 {
    fn common_divisor(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { common_divisor(b, a % b) }
    }
    // Steps of about the golden part of the grid leave no gap for long.
    let golden = u128::from(size) * 618_034 / 1_000_000;
    let mut step = u64::try_from(golden).unwrap_or(1).max(1);
    while common_divisor(step, size) != 1 {
        step += 1;
    }
    let at = u128::from(ordinal % size.max(1)) * u128::from(step) % u128::from(size.max(1));
    u64::try_from(at).unwrap_or_default()
}

impl Sampler for GridSampler {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn options(&self) -> Value {
        serde_json::to_value(&self.options).unwrap_or_default()
    }

    fn joint_space(&self, _view: &SamplerView<'_>) -> JointSpace {
        JointSpace::empty()
    }

    fn sample_joint(&self, view: &SamplerView<'_>, space: &JointSpace) -> Result<Vec<ParamValue>> {
        let single =
            |key: &Arc<crate::replica::ParamKey>| self.sample_single(view, &key.name, &key.dist);
        space.params().iter().map(single).collect()
    }

    fn sample_single(
        &self,
        view: &SamplerView<'_>,
        name: &str,
        dist: &Distribution,
    ) -> Result<ParamValue> {
        let axes = self.axes(view).ok_or_else(|| {
            Self::unfit(
                "this study",
                "it has no grid, and no declared space whose values can be counted",
            )
        })?;
        let size = self
            .size(view)
            .ok_or_else(|| Self::unfit("this study", "its grid has more than 2^64 points"))?;
        let is_given = |number| view.history.trial(number).is_some_and(|past| past.is_given);
        if is_given(view.number) {
            // Some of its parameters were given, but not this one: it is no point of the grid anyway.
            return Ok(random::draw(dist, &mut view.rng(name)));
        }
        let ordinal = (0..view.number).filter(|number| !is_given(*number)).count() as u64;
        if ordinal >= size {
            return Err(SamplerError::Exhausted {
                kind: KIND,
                count: size,
            });
        }
        let mut rest = place(ordinal, size);
        for (axis, count) in &axes {
            let at = rest % count;
            rest /= count;
            if axis != name {
                continue;
            }
            let Some(grid) = &self.options.grid else {
                return Ok(dist.value_at(at));
            };
            let value = usize::try_from(at).ok();
            let value = value.and_then(|at| grid.get(name)?.get(at));
            return value
                .and_then(|value| dist.value_from_json(value))
                .ok_or_else(|| {
                    let value = value.map(Value::to_string).unwrap_or_default();
                    let fault = format!("{value} of the grid is none of the values of {dist}");
                    Self::unfit(&format!("parameter {name:?}"), &fault)
                });
        }
        Err(Self::unfit(
            &format!("parameter {name:?}"),
            "it is not in the grid",
        ))
    }

    fn trials_max(&self, view: &SamplerView<'_>) -> Option<u64> {
        Some(self.size(view)?.saturating_add(view.history.given_count()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_grid_comes_once() {
        for size in [1u64, 2, 3, 10, 12, 97, 360] {
            let mut places: Vec<u64> = (0..size).map(|ordinal| place(ordinal, size)).collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..size));
        }
        assert!(place(u64::MAX, u64::MAX) < u64::MAX);
    }
}
