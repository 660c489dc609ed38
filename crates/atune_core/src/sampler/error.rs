//! Why a sampler draws nothing.

/// Why a sampler draws nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SamplerError {
    /// No sampler has this name.
    #[error("no sampler named {kind:?}; there are {}", .known.join(", "))]
    UnknownKind {
        /// The name that was asked for.
        kind: String,
        /// The names that exist.
        known: Vec<&'static str>,
    },
    /// The options are not such of this sampler.
    #[error("options of sampler {kind:?}: {source}")]
    BadOptions {
        /// The sampler.
        kind: &'static str,
        /// What is wrong with them.
        source: serde_json::Error,
    },
    /// An option has a value that the sampler cannot use.
    #[error("option {option:?} of sampler {kind:?}: {fault}")]
    BadOption {
        /// The sampler.
        kind: &'static str,
        /// The option.
        option: &'static str,
        /// What is wrong with it.
        fault: String,
    },
    /// The sampler cannot draw such a parameter, or not in such a study.
    #[error("sampler {kind:?} cannot draw {what}: {fault}")]
    Unfit {
        /// The sampler.
        kind: &'static str,
        /// The parameter or the study.
        what: String,
        /// Why.
        fault: String,
    },
    /// All that the sampler would ever draw was drawn.
    #[error("sampler {kind:?} has no further points: all {count} are taken")]
    Exhausted {
        /// The sampler.
        kind: &'static str,
        /// How many points it had.
        count: u64,
    },
}
