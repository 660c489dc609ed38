//! Studies: the native half of the package `atune`.

mod convert;
mod file;
mod raise;
mod run;
mod study;

pub(crate) use file::{StudyFile, param_fits};
pub(crate) use study::{Study, Trial, open_study};
