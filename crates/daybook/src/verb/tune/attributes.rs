//! The names under which a tuned study keeps what is not a trial's values: see `docs/guide/tuning-a-command.md`.

/// Of a study: its parameters, one text each, as the command line spells them.
pub(super) const SPACE: &str = "tune.space";

/// Of a trial: the trace that its command's spans belong to, in hexadecimal.
pub(crate) const TRACE_ID: &str = "run.trace_id";
