//! Parameters that are drawn together.

use std::sync::Arc;

use crate::replica::ParamKey;

/// Parameters that are drawn together, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JointSpace {
    params: Vec<Arc<ParamKey>>,
}

impl JointSpace {
    /// A space of these parameters.
    pub fn new(params: impl IntoIterator<Item = Arc<ParamKey>>) -> Self {
        let mut params: Vec<_> = params.into_iter().collect();
        params.sort_by(|a, b| a.name.cmp(&b.name));
        Self { params }
    }

    /// A space without parameters: each is drawn alone.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The parameters.
    pub fn params(&self) -> &[Arc<ParamKey>] {
        &self.params
    }

    /// The place of a parameter.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.params
            .binary_search_by(|key| key.name.as_str().cmp(name))
            .ok()
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.params.is_empty()
    }

    /// How many parameters there are.
    pub fn len(&self) -> usize {
        self.params.len()
    }

    /// Keeps those parameters for which `keep` answers true.
    #[must_use]
    pub fn filter(mut self, keep: impl Fn(&ParamKey) -> bool) -> Self {
        self.params.retain(|key| keep(key));
        self
    }
}
