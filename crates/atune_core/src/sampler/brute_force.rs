//! Every combination of values, once, of a space that only running the objective shows.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{JointSpace, Result, Sampler, SamplerError, SamplerView, random};
use crate::replica::ParamKey;
use crate::space::{Distribution, ParamValue};
use crate::study::History;

/// The name of [`BruteForceSampler`].
pub(super) const KIND: &str = "brute-force";

/// Tries every combination of values. Parameters may hang on the values of others; all must have values that
/// can be counted. A combination counts as tried once a trial of it was started, whatever became of that.
#[derive(Clone, Debug, Default)]
pub struct BruteForceSampler;

/// A trial's parameters in the order it asked for them.
type Path<'a> = Vec<(&'a Arc<ParamKey>, f64)>;

/// The paths of all trials but one, of which nothing was asked yet, by number.
fn paths(history: &History, without: u64) -> Vec<Path<'_>> {
    (0..history.trials().len() as u64)
        .filter(|number| *number != without)
        .map(|number| history.params_of(number).collect::<Path<'_>>())
        .filter(|path| !path.is_empty())
        .collect()
}

/// Whether these paths, which are alike up to `depth`, leave nothing to try below that.
fn is_exhausted(paths: &[&Path<'_>], depth: usize) -> bool {
    // One that ends here ended the objective, or is just running: then what it leads to is not known yet.
    if paths.iter().any(|path| path.len() <= depth) {
        return !paths.is_empty();
    }
    let Some((key, _)) = paths.first().and_then(|path| path.get(depth)) else {
        return false;
    };
    let Some(count) = key.dist.value_count() else {
        return false;
    };
    (0..count).all(|place| is_value_exhausted(paths, depth, &key.dist.value_at(place)))
}

fn is_value_exhausted(paths: &[&Path<'_>], depth: usize, value: &ParamValue) -> bool {
    let value = value.as_f64();
    let has_value = |path: &&&Path<'_>| {
        path.get(depth)
            .is_some_and(|(_, found)| found.to_bits() == value.to_bits())
    };
    let below: Vec<&Path<'_>> = paths.iter().filter(has_value).copied().collect();
    !below.is_empty() && is_exhausted(&below, depth + 1)
}

impl Sampler for BruteForceSampler {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn options(&self) -> Value {
        json!({})
    }

    fn joint_space(&self, _view: &SamplerView<'_>) -> JointSpace {
        JointSpace::empty()
    }

    fn sample_joint(&self, view: &SamplerView<'_>, space: &JointSpace) -> Result<Vec<ParamValue>> {
        let single = |key: &Arc<ParamKey>| self.sample_single(view, &key.name, &key.dist);
        space.params().iter().map(single).collect()
    }

    fn sample_single(
        &self,
        view: &SamplerView<'_>,
        name: &str,
        dist: &Distribution,
    ) -> Result<ParamValue> {
        let count = dist.value_count().ok_or_else(|| SamplerError::Unfit {
            kind: KIND,
            what: format!("parameter {name:?}"),
            fault: format!("the values of {dist} cannot be counted: give it a step"),
        })?;
        let depth = view.asked_count;
        let all = paths(view.history, view.number);
        let is_alike = |path: &&Path<'_>| {
            let mut so_far = path.iter().take(depth);
            path.len() > depth
                && so_far.all(|(key, value)| {
                    let own = view.set.get(&key.name);
                    own.is_some_and(|own| own.as_f64().to_bits() == value.to_bits())
                })
        };
        let alike: Vec<&Path<'_>> = all.iter().filter(is_alike).collect();
        let mut rng = view.rng(name);
        // From a random place on, the first value that has something left.
        let start = rng.below(count);
        let places = (start..count).chain(0..start);
        let free = places
            .map(|place| dist.value_at(place))
            .find(|value| !is_value_exhausted(&alike, depth, value));
        // Others may be at all of them just now.
        Ok(free.unwrap_or_else(|| random::draw(dist, &mut rng)))
    }

    fn trials_max(&self, view: &SamplerView<'_>) -> Option<u64> {
        let all = paths(view.history, view.number);
        let all: Vec<&Path<'_>> = all.iter().collect();
        let is_over = !all.is_empty() && is_exhausted(&all, 0);
        Some(if is_over { 0 } else { u64::MAX })
    }
}
