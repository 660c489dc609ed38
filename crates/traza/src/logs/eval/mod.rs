//! Datasets of examples, their versions, and the experiments that ran over them
//! (`docs/formats/traza-store-logs.md`, evals).
//!
//! [`record`] has the lines, [`EvalState`] what they amount to, [`Evals`] the log with the changes that are allowed, and
//! [`scores`] what the judgments of an experiment add up to.

mod change;
pub mod record;
pub mod scores;
mod state;

pub use change::{
    Created, EvalError, Evals, NewExample, NewVersion, PayloadRefusal, TenantErasure,
};
pub use record::FORMAT;
pub use state::EvalState;

/// The name of the log in the folder of a store.
pub const FILE_NAME: &str = "evals.jsonl";
