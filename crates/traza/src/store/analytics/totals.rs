//! What spans add up to: rollups where a whole segment counts, else its spans.

use super::Scope;
use crate::rollup::{Fold, Totals, key_hash};
use crate::store::error::Result;
use crate::store::query::candidates::Plan;
use crate::store::sealed::Sealed;
use crate::store::{SnapshotView, View};

impl SnapshotView {
    /// Hands to `take` what the spans of the scope add up to, in parts. With `by_tenant` only those sums are looked at
    /// that are kept for each tenant; then sums of other tenants can be among them.
    pub(super) fn each_totals(
        &self,
        scope: &Scope,
        by_tenant: bool,
        take: &mut dyn FnMut(&Totals),
    ) -> Result<()> {
        let pricing = self.shared.options.pricing.as_ref();
        let budget = &mut self.budget();
        let filter = scope.filter();
        let plan = Plan::of(&filter);
        let buffered = buffered_hashes(&self.view);
        for (index, sealed) in self.view.segments.iter().enumerate() {
            budget.check()?;
            if !sealed
                .segment()
                .may_contain_timestamps(scope.since, scope.until)
            {
                continue;
            }
            let is_whole = self.view.mask.is_empty()
                && (scope.tenant.is_none() || by_tenant)
                && covers(scope, sealed);
            if is_whole && !self.view.is_shadowed(index, &buffered)? {
                take(&sealed.rollup()?.totals);
                continue;
            }
            let mut fold = Fold::new(pricing);
            self.view
                .each_match_in(sealed, &filter, &plan, budget, &mut |span| fold.push(span))?;
            take(&fold.finish().totals);
        }
        let mut fold = Fold::new(pricing);
        self.view
            .each_buffered_match(&filter, budget, &mut |span| fold.push(span))?;
        take(&fold.finish().totals);
        Ok(())
    }
}

/// True when every span of the segment starts within the window.
fn covers(scope: &Scope, sealed: &Sealed) -> bool {
    let header = sealed.segment().header();
    scope
        .since
        .is_none_or(|since| since <= header.min_timestamp)
        && scope
            .until
            .is_none_or(|until| until >= header.max_timestamp)
}

/// The hashes of the identities of all buffered spans, ascending.
fn buffered_hashes(view: &View) -> Vec<u64> {
    let mut hashes: Vec<u64> = view
        .buffer
        .in_order()
        .map(|span| key_hash(&span.tenant, &span.trace_id, &span.span_id))
        .collect();
    hashes.sort_unstable();
    hashes
}

impl View {
    /// False when surely no newer source holds an identity of the segment at `index`.
    fn is_shadowed(&self, index: usize, buffered: &[u64]) -> Result<bool> {
        let Some(sealed) = self.segments.get(index) else {
            return Ok(false);
        };
        Ok(intersect(&sealed.rollup()?.key_hashes, buffered) || self.may_be_replaced(index)?)
    }
}

/// True when two ascending lists have a number in common. Looks into the longer list for each number of the shorter one,
/// from where the last search ended.
pub(in crate::store) fn intersect(a: &[u64], b: &[u64]) -> bool {
    let (short, mut long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    for wanted in short {
        // Doubling steps: cheap when the lists are alike in length, and when they are not.
        let mut step = 1;
        while long.get(step).is_some_and(|found| found < wanted) {
            step *= 2;
        }
        let near = long.get(..=step).unwrap_or(long);
        let skipped = near.partition_point(|found| found < wanted);
        long = long.get(skipped..).unwrap_or_default();
        match long.first() {
            Some(found) if found == wanted => return true,
            Some(_) => {}
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::intersect;

    #[test]
    fn lists_intersect_when_any_number_is_in_both() {
        let evens: Vec<u64> = (0..500).map(|n| n * 2).collect();
        for odd in [1, 333, 997, 2_001] {
            assert!(!intersect(&evens, &[odd]) && !intersect(&[odd], &evens));
            assert!(!intersect(&evens, &[odd, odd + 2]));
        }
        for even in evens.iter().copied() {
            assert!(intersect(&evens, &[even, even + 1, 2_001]), "{even}");
        }
        assert!(!intersect(&[], &evens) && !intersect(&evens, &[]));
        let thirds: Vec<u64> = (0..500).map(|n| n * 6 + 1).collect();
        assert!(!intersect(&evens, &thirds));
        assert!(intersect(&thirds, &[0, 2, 4, 2_995]));
    }
}
