//! The Python module `daybook._native`: what the packages in `python/` are built upon.
//! Its stub, `python/daybook/_native.pyi`, is the documentation of its names.
//!
//! Every call that reads, writes or waits lets go of the interpreter meanwhile; locks are taken after
//! that, so that no thread waits for a lock with the interpreter in its hands.
#![forbid(unsafe_code)]

mod atune;
mod omniloop;
mod owned;
mod raise;

/// What the packages are built upon.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::atune::{Study, StudyFile, Trial, open_study, param_fits};
    #[pymodule_export]
    use crate::omniloop::{
        Control, Durability, FrameRecord, InputReplayer, JournalPlayer, Recorder, RotationPolicy,
        SegmentedPlayer, Stamp, StateJournal, cause_of, effects_of, find_divergence,
        journal_segments, verify_chain,
    };
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
