//! Sums and statistics over spans (`docs/formats/traza-store.md`, statistics). One file per question, each of them a method
//! of [`SnapshotView`](super::SnapshotView).
//!
//! Every answer is about the last version of each span, buffered ones included. It is exact but for percentiles, which are
//! those of [`Histogram`](crate::histogram::Histogram), for amounts, whose last digits depend on the order of adding, and
//! for what is beyond [`GROUPS_MAX`], which is counted but not told apart.

mod durations;
mod failures;
mod llm;
mod matches;
mod rows;
mod series;
mod sessions;
mod slowest;
mod tenants;
pub(super) mod totals;
mod values;

pub use failures::{FailureGroup, Failures};
pub use llm::{Group, LlmRow};
pub use series::{BUCKETS_DEFAULT, BUCKETS_MAX, Bucket, Series};
pub use sessions::{SessionDetail, SessionSummary, SessionTrace};
pub use slowest::SLOWEST_MAX;
pub use tenants::TenantUsage;
pub use values::{ValueCount, ValueOf, Values};

use super::filter::Filter;

/// So many groups of failures, or values of a key, are told apart at most: memory is bounded whatever the spans hold.
pub const GROUPS_MAX: usize = 4_096;

/// Which spans sums are about. The default is all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Started then or later, in nanoseconds since the Unix epoch.
    pub since: Option<u64>,
    /// Started then or earlier.
    pub until: Option<u64>,
    /// Of this tenant; `Some("")` is the default one, `None` all.
    pub tenant: Option<String>,
}

impl Scope {
    fn filter(&self) -> Filter {
        Filter {
            since: self.since,
            until: self.until,
            tenant: self.tenant.clone(),
            ..Filter::default()
        }
    }
}
