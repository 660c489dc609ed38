//! Which records of a segment do not count, because a newer segment holds their spans.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

use crate::digest::Digest;
use crate::store::analytics::totals::intersect;
use crate::store::error::Result;
use crate::store::sealed::Sealed;
use crate::store::{Shared, View};

use super::{Binding, Columns};

/// What is known of that, with the newer segments that were looked at. Segments never change, so that only those that
/// came since have to be looked at.
#[derive(Debug, Default)]
pub(in crate::store) struct Replaced(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by: Vec<(u64, u32)>,
    /// For each record; empty when all of them count.
    is_replaced: Arc<[bool]>,
    /// The newer segments whose identities were compared as a whole.
    compared: Vec<(u64, u32)>,
    /// True when one of those may hold an identity of this one.
    is_shadowed: bool,
}

impl Sealed {
    fn known(&self) -> MutexGuard<'_, Known> {
        let known = self.replaced().0.lock();
        known.unwrap_or_else(PoisonError::into_inner)
    }

    /// What tells one segment from another that once had its name.
    fn name(&self) -> (u64, u32) {
        (self.id(), Binding::of(self.segment()).header_crc)
    }
}

impl View {
    /// False when surely no newer segment holds an identity of the segment at `index`. Compared once for each two segments.
    pub(in crate::store) fn may_be_replaced(&self, index: usize) -> Result<bool> {
        let segments = self.segments.get(index..);
        let Some((sealed, newer)) = segments.and_then(|segments| segments.split_first()) else {
            return Ok(false);
        };
        let names: Vec<(u64, u32)> = newer.iter().map(|other| other.name()).collect();
        let (mut compared, mut is_shadowed) = {
            let known = sealed.known();
            if names.starts_with(&known.compared) {
                (known.compared.len(), known.is_shadowed)
            } else {
                (0, false)
            }
        };
        while !is_shadowed && let Some(other) = newer.get(compared) {
            is_shadowed = intersect(&sealed.rollup()?.key_hashes, &other.rollup()?.key_hashes);
            compared += 1;
        }
        let mut known = sealed.known();
        known.compared = names.get(..compared).unwrap_or_default().to_vec();
        known.is_shadowed = is_shadowed;
        Ok(is_shadowed)
    }
}

impl Shared {
    /// For each record of the segment at `index`, whose columns are `columns`, whether a newer segment holds its span;
    /// empty when none does.
    pub(in crate::store) fn replaced(
        &self,
        view: &View,
        index: usize,
        columns: &Columns,
    ) -> Result<Arc<[bool]>> {
        let Some((sealed, newer)) = view
            .segments
            .get(index..)
            .and_then(|segments| segments.split_first())
        else {
            return Ok(Arc::default());
        };
        let by: Vec<(u64, u32)> = newer.iter().map(|other| other.name()).collect();
        let (mut known_by, mut flags_before) = {
            let known = sealed.known();
            (known.by.clone(), Arc::clone(&known.is_replaced))
        };
        if !by.starts_with(&known_by) {
            (known_by, flags_before) = (Vec::new(), Arc::default());
        }
        let mut is_replaced: Option<Vec<bool>> = None;
        for other in newer.get(known_by.len()..).unwrap_or_default() {
            if !intersect(&sealed.rollup()?.key_hashes, &other.rollup()?.key_hashes) {
                continue;
            }
            let theirs = self.columns(other)?;
            let theirs: HashSet<Digest, RandomState> =
                (0..theirs.len()).map(|at| theirs.identity(at)).collect();
            let flags = is_replaced.get_or_insert_with(|| match flags_before.len() {
                0 => vec![false; columns.len()],
                _ => flags_before.to_vec(),
            });
            for (ordinal, flag) in flags.iter_mut().enumerate() {
                *flag |= theirs.contains(&columns.identity(ordinal));
            }
        }
        let answer = is_replaced.map_or(flags_before, Arc::from);
        if known_by.len() < by.len() {
            let mut known = sealed.known();
            (known.by, known.is_replaced) = (by, Arc::clone(&answer));
        }
        Ok(answer)
    }
}
