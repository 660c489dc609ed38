//! Comparing the leaves that a journal gives with a size and a root that somebody signed.

use durable::digest::Digest;

use super::derive::LeafCollector;
use super::leaf::{Leaf, LeafKind};
use super::merkle::Frontier;

/// A signed state that the journal does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disagreement {
    /// The code of the finding.
    pub(super) code: &'static str,
    /// What it means, for a person.
    pub(super) what: String,
}

/// The leaves of the run in the order in which they were signed, the first `size` of which have
/// `root`; those after them are what the journal gives beyond.
///
/// The journal's own leaves are tried alone first. Only when they do not have the root are the
/// leaves that no journal gives (a key change) taken from the file of leaves, at their places there.
pub(super) fn matching(
    derived: &LeafCollector,
    file: &[Leaf],
    size: u64,
    root: &Digest,
) -> Result<Vec<Leaf>, Disagreement> {
    let pure = derived.all();
    if has_root(&pure, size, root) {
        return Ok(pure);
    }
    let merged = merge(&pure, file);
    if merged.len() > pure.len() && has_root(&merged, size, root) {
        return Ok(merged);
    }
    Err(explain(derived, &merged, file, size, root))
}

/// True when the first `size` of `leaves` have `root`.
pub(super) fn has_root(leaves: &[Leaf], size: u64, root: &Digest) -> bool {
    let first = usize::try_from(size)
        .ok()
        .and_then(|size| leaves.get(..size));
    first.is_some_and(|first| Frontier::of(first).root() == *root)
}

/// The journal's leaves, with those of the file that no journal gives put in at their places.
fn merge(pure: &[Leaf], file: &[Leaf]) -> Vec<Leaf> {
    let mut pure = pure.iter().copied();
    let mut merged = Vec::new();
    for leaf in file {
        if leaf.kind.is_derivable() {
            merged.extend(pure.next());
        } else {
            merged.push(*leaf);
        }
    }
    merged.extend(pure);
    merged
}

/// Why the journal does not have the root. A file of leaves that has it is as good as signed, and
/// tells the place.
fn explain(
    derived: &LeafCollector,
    merged: &[Leaf],
    file: &[Leaf],
    size: u64,
    root: &Digest,
) -> Disagreement {
    let count = usize::try_from(size).unwrap_or(usize::MAX);
    let signed = file.get(..count).filter(|_| has_root(file, size, root));
    if let Some(signed) = signed {
        let agreed = signed
            .iter()
            .zip(merged)
            .take_while(|(a, b)| a == b)
            .count();
        let missing = signed.get(agreed);
        let ends = merged
            .get(agreed)
            .is_none_or(|leaf| leaf.kind == LeafKind::RunClosed);
        let last = agreed.checked_sub(1).and_then(|last| signed.get(last));
        let place = missing.map_or_else(String::new, |leaf| {
            format!(
                "the signed {} leaf {agreed} stands at byte {} of segment {}, after {} records",
                leaf.kind, leaf.offset, leaf.segment, leaf.records
            )
        });
        let agree = last.map_or_else(
            || "nothing of it agrees".to_owned(),
            |leaf| {
                format!(
                    "they agree up to byte {} of segment {}, after {} records",
                    leaf.offset, leaf.segment, leaf.records
                )
            },
        );
        return if ends {
            short(derived, &format!("{place}; {agree}"))
        } else {
            Disagreement {
                code: "root_mismatch",
                what: format!("the journal was changed after it was signed: {place}; {agree}"),
            }
        };
    }
    if count > merged.len() {
        let place = format!(
            "the note covers {size} leaves, the journal gives {}",
            merged.len()
        );
        return short(derived, &place);
    }
    Disagreement {
        code: "root_mismatch",
        what: format!(
            "the journal does not give the root over {size} leaves that was signed: it was changed, \
             cut or written anew since, or the note covers a key change whose leaf is lost"
        ),
    }
}

/// The journal ends, or breaks, before the signed leaves do.
fn short(derived: &LeafCollector, place: &str) -> Disagreement {
    match derived.stopped() {
        Some(stop) => Disagreement {
            code: "broken_below_signed_size",
            what: format!(
                "{} at byte {} of segment {}, so nothing beyond can be compared with what was signed: \
                 {place}",
                stop.what, stop.offset, stop.segment
            ),
        },
        None => Disagreement {
            code: "cut_below_signed_size",
            what: format!("the records that hold end before what was signed does: {place}"),
        },
    }
}
