//! Which records of a segment do not count, because a newer segment holds their spans.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

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

#[derive(Clone, Debug, Default)]
struct Known {
    by: Vec<(u64, u32)>,
    /// For each record; empty when all of them count.
    is_replaced: Arc<[bool]>,
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
        let id = |sealed: &Arc<Sealed>| (sealed.id(), Binding::of(sealed.segment()).header_crc);
        let by: Vec<(u64, u32)> = newer.iter().map(id).collect();
        let lock = || {
            sealed
                .replaced()
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let mut known = lock().clone();
        if !by.starts_with(&known.by) {
            known = Known::default();
        }
        let mut is_replaced: Option<Vec<bool>> = None;
        for other in newer.get(known.by.len()..).unwrap_or_default() {
            if !intersect(&sealed.rollup()?.key_hashes, &other.rollup()?.key_hashes) {
                continue;
            }
            let theirs = self.columns(other)?;
            let theirs: HashSet<Digest, RandomState> =
                (0..theirs.len()).map(|at| theirs.identity(at)).collect();
            let flags = is_replaced.get_or_insert_with(|| match known.is_replaced.len() {
                0 => vec![false; columns.len()],
                _ => known.is_replaced.to_vec(),
            });
            for (ordinal, flag) in flags.iter_mut().enumerate() {
                *flag |= theirs.contains(&columns.identity(ordinal));
            }
        }
        if let Some(flags) = is_replaced {
            known.is_replaced = flags.into();
        }
        let answer = Arc::clone(&known.is_replaced);
        if known.by.len() < by.len() {
            known.by = by;
            *lock() = known;
        }
        Ok(answer)
    }
}
