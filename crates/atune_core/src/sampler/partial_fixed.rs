//! Some parameters held, the others chosen by another sampler.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{JointSpace, Result, Sampler, SamplerError, SamplerView, registry};
use crate::replica::Trial;
use crate::space::{Distribution, ParamValue};

/// The name of [`PartialFixedSampler`].
pub(super) const KIND: &str = "partial-fixed";

/// Holds some parameters at values, and leaves the others to another sampler.
#[derive(Clone, Debug)]
pub struct PartialFixedSampler {
    fixed: BTreeMap<String, Value>,
    base: Arc<dyn Sampler>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Options {
    fixed: BTreeMap<String, Value>,
    base: Base,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Base {
    kind: String,
    #[serde(default)]
    options: Value,
}

impl Default for Base {
    fn default() -> Self {
        Self {
            kind: super::tpe::KIND.to_owned(),
            options: Value::Null,
        }
    }
}

impl PartialFixedSampler {
    /// Holds the parameters in `fixed`, by name: a choice is given as its value.
    pub fn new(fixed: BTreeMap<String, Value>, base: Arc<dyn Sampler>) -> Self {
        Self { fixed, base }
    }

    pub(super) fn of(options: &Value) -> Result<Arc<dyn Sampler>> {
        let Options { fixed, base } = registry::options(KIND, options)?;
        let base = registry::by_kind(&base.kind, &base.options)?;
        Ok(Arc::new(Self::new(fixed, base)))
    }
}

impl Sampler for PartialFixedSampler {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn options(&self) -> Value {
        let base = json!({ "kind": self.base.kind(), "options": self.base.options() });
        json!({ "fixed": self.fixed, "base": base })
    }

    fn joint_space(&self, view: &SamplerView<'_>) -> JointSpace {
        let space = self.base.joint_space(view);
        space.filter(|key| !self.fixed.contains_key(&key.name))
    }

    fn sample_joint(&self, view: &SamplerView<'_>, space: &JointSpace) -> Result<Vec<ParamValue>> {
        self.base.sample_joint(view, space)
    }

    fn sample_single(
        &self,
        view: &SamplerView<'_>,
        name: &str,
        dist: &Distribution,
    ) -> Result<ParamValue> {
        let Some(value) = self.fixed.get(name) else {
            return self.base.sample_single(view, name, dist);
        };
        dist.value_from_json(value)
            .ok_or_else(|| SamplerError::Unfit {
                kind: KIND,
                what: format!("parameter {name:?}"),
                fault: format!("it is held at {value}, which is none of the values of {dist}"),
            })
    }

    fn trials_max(&self, view: &SamplerView<'_>) -> Option<u64> {
        self.base.trials_max(view)
    }

    fn wants_endings(&self) -> bool {
        self.base.wants_endings()
    }

    fn after_trial(&self, view: &SamplerView<'_>, ended: &Trial) -> Option<Value> {
        self.base.after_trial(view, ended)
    }

    fn chosen(&self, view: &SamplerView<'_>) -> Option<String> {
        self.base.chosen(view)
    }
}
