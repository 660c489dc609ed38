//! One file per verb.

pub(crate) mod attest;
pub(crate) mod completions;
pub(crate) mod ctl;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod export;
pub(crate) mod inspect;
pub(crate) mod key;
pub(crate) mod mcp;
pub(crate) mod migrate;
pub(crate) mod omniloop;
pub(crate) mod query_run;
pub(crate) mod record;
pub(crate) mod recover;
pub(crate) mod replay;
pub(crate) mod serve;
pub(crate) mod study;
pub(crate) mod trace;
pub(crate) mod trail;
pub(crate) mod tune;
pub(crate) mod verify;
pub(crate) mod why;

use std::path::Path;

use durable::{Fs as _, RealFs};
use omniloop_core::journal::{self, SetOptions, SetVerification, segment_paths, verify_set};

use crate::progress::Progress;

/// Verifies a run and shows how far the work has come.
fn verify_run(path: &Path, options: &SetOptions) -> journal::Result<SetVerification> {
    let files = segment_paths(path).unwrap_or_default();
    let lens = files
        .iter()
        .filter_map(|file| Some(RealFs.metadata(file).ok()?.len));
    let mut progress = Progress::of_bytes(lens.sum());
    verify_set(&RealFs, path, options, &mut |file, offset, file_len| {
        progress.at(file, offset, file_len);
    })
}

/// The name of this machine.
fn host() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
