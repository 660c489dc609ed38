//! atune: hyperparameter search by many workers on one crash-safe journal.
//!
//! * [`storage::journal::record`]: the records of a `.atj` journal, as `docs/formats/atj.md` shows them.
//! * [`replica`]: the state machine. Pure: every operation, and why it may be refused.
//! * [`storage`]: where operations are kept; every backend passes [`storage::conformance`].
//! * [`storage::journal`]: reading and checking a study file.
//! * [`study`]: studies as people use them, with a [`sampler`] and a [`scheduler`].
//! * [`analysis`]: what a study has shown: best so far, Pareto front, hypervolume, importance.
//! * [`worker`]: starting trials, keeping them alive, and what happens after they ended.
//!
//! ```
//! use std::sync::Arc;
//! use atune_core::number::JsonF64;
//! use atune_core::storage::{MemoryStorage, Storage, conformance::example_config};
//! use atune_core::trial::{Direction, TrialState, WorkerId};
//!
//! let store = MemoryStorage::new(Arc::new(durable::SystemClock::start()), WorkerId(0));
//! let study = store.create_study(&example_config("demo", &[Direction::Minimize]))?;
//! let trial = store.create_trial(study, None)?;
//! store.transition(trial, TrialState::Waiting, TrialState::Running)?;
//! store.set_values(trial, &[JsonF64(0.5)])?;
//! store.transition(trial, TrialState::Running, TrialState::Complete)?;
//! assert_eq!(store.trial(trial)?.state, TrialState::Complete);
//! # Ok::<(), atune_core::storage::StorageError>(())
//! ```

pub mod analysis;
pub mod lifecycle;
pub mod number;
pub mod outbox;
mod portable;
pub mod replica;
pub mod rng;
pub mod sampler;
mod scale;
pub mod scheduler;
pub mod space;
pub mod storage;
pub mod study;
pub mod trial;
pub mod worker;

pub use storage::journal::fuzzing;
