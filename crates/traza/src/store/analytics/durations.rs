//! How long spans take.

use crate::histogram::Histogram;
use crate::store::SnapshotView;
use crate::store::error::Result;
use crate::store::filter::{Filter, duration_ns};

impl SnapshotView {
    /// The durations, in nanoseconds, of the spans that `filter` takes. One that ends before it starts took none.
    ///
    /// # Errors
    /// [`StoreError::Deadline`](crate::store::StoreError::Deadline); damage of a segment that had to be read.
    pub fn durations(&self, filter: &Filter) -> Result<Histogram> {
        let mut durations = Histogram::default();
        self.view
            .each_match(filter, &mut self.budget(), &mut |span| {
                durations.record(duration_ns(span));
            })?;
        Ok(durations)
    }
}
