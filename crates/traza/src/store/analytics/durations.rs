//! How long spans take.

use crate::histogram::Histogram;
use crate::store::SnapshotView;
use crate::store::error::Result;
use crate::store::filter::Filter;

/// So many durations are counted at a time.
const BATCH: usize = 4_096;

impl SnapshotView {
    /// The durations, in nanoseconds, of the spans that `filter` takes. One that ends before it starts took none.
    ///
    /// # Errors
    /// [`StoreError::Deadline`](crate::store::StoreError::Deadline); damage of a segment that had to be read.
    pub fn durations(&self, filter: &Filter) -> Result<Histogram> {
        let mut durations = Histogram::default();
        let mut batch = Vec::with_capacity(BATCH);
        self.each_row(filter, |row| {
            batch.push(row.duration_ns());
            if batch.len() == BATCH {
                durations.extend(batch.drain(..));
            }
        })?;
        durations.extend(batch);
        Ok(durations)
    }
}
