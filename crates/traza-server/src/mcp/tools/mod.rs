//! The tools, one file each.

pub(super) mod annotate;
pub(super) mod cost;
pub(super) mod diagnose;
pub(super) mod failures;
pub(super) mod payload;
pub(super) mod promote;
pub(super) mod search;
pub(super) mod sessions;
pub(super) mod slowest;
pub(super) mod trace;
