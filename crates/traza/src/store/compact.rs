//! Merges segments, so that a store has few of them however long it lives.
//!
//! Only the newest segments are merged, so that the order of names stays the order of ages. The maintenance lock is held
//! throughout, the seal permit only while the inputs are chosen and while they are replaced: spans are sealed meanwhile.

mod journal;
mod run;

use std::ops::Range;
use std::sync::{Arc, PoisonError};

pub(super) use journal::recover;

use self::journal::Journal;
use self::run::Size;
use super::buffer::in_order;
use super::error::{Result, StoreError};
use super::options::Compaction;
use super::sealed::Sealed;
use super::write::Contents;
use super::{Shared, Store, View, layout};
use crate::segment::codec::Codec;
use crate::span::Span;

/// What merging has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Segments that are gone.
    pub merged_segments: usize,
    /// Segments that took their place.
    pub written_segments: usize,
    /// Older versions of spans that are gone with them.
    pub dropped_records: u64,
}

impl Store {
    /// Merges segments until nothing is left to merge.
    ///
    /// # Errors
    /// Damage of a segment, a failing disk. The segments are as they were then, or the merge is brought to its end by the
    /// next opening.
    pub fn compact(&self) -> Result<Compacted> {
        self.shared.compact()
    }
}

/// The segments of a merge.
struct Claim {
    inputs: Vec<Arc<Sealed>>,
    /// Which of the inputs become one segment each.
    groups: Vec<Range<usize>>,
    /// The id of the first output; the others follow.
    first_id: u64,
}

impl Shared {
    pub(super) fn compact(&self) -> Result<Compacted> {
        self.check_writable()?;
        let mut total = Compacted::default();
        let Some(options) = self.options.compaction.filter(|o| o.fanout >= 2) else {
            return Ok(total);
        };
        let _maintenance = self
            .maintenance
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while !self.writer().is_closing
            && let Some(claim) = self.claim(options)
        {
            let Some(done) = self.meters.merge.time(|| self.merge(&claim))? else {
                break;
            };
            self.meters.merges.add(1);
            self.meters.merged_away.add(done.merged_segments as u64);
            total.merged_segments += done.merged_segments;
            total.written_segments += done.written_segments;
            total.dropped_records += done.dropped_records;
        }
        Ok(total)
    }

    /// Chooses the next segments to merge, and the names of those that will replace them.
    fn claim(&self, options: Compaction) -> Option<Claim> {
        let _permit = self.permit();
        let view = self.view();
        let sizes: Vec<Size> = view.segments.iter().map(|sealed| size_of(sealed)).collect();
        let run = run::pick(&sizes, options)?;
        let groups = run::groups(sizes.get(run.clone())?, options);
        let mut writer = self.writer();
        let first_id = writer.next_segment;
        writer.next_segment = first_id.saturating_add(groups.len() as u64);
        Some(Claim {
            inputs: view.segments.get(run)?.to_vec(),
            groups,
            first_id,
        })
    }

    /// Answers nothing when the inputs were changed meanwhile, and nothing was done.
    ///
    /// Crash points: until the journal is durable nothing has happened. From then on the next opening looks whether all
    /// outputs are there: then it removes the inputs, otherwise the outputs.
    fn merge(&self, claim: &Claim) -> Result<Option<Compacted>> {
        let dir = &self.home.dir;
        let ids = claim.first_id..claim.first_id.saturating_add(claim.groups.len() as u64);
        let outputs: Vec<_> = ids.map(|id| layout::segment_path(dir, id)).collect();
        let inputs: Vec<_> = claim.inputs.iter().map(|input| input.path()).collect();
        let journal = Journal::write(self.fs(), dir, &inputs, &outputs)?;
        let written = self.write_outputs(claim);
        let permit = self.permit();
        let swapped = written.map(|(sealed, dropped)| self.swap(claim, sealed).then_some(dropped));
        drop(permit);
        let mut done = None;
        if let Ok(Some(dropped_records)) = &swapped {
            for path in inputs {
                self.unlink_segment(path)?;
            }
            done = Some(Compacted {
                merged_segments: claim.inputs.len(),
                written_segments: outputs.len(),
                dropped_records: *dropped_records,
            });
        } else {
            for path in &outputs {
                self.unlink_segment(path)?;
            }
        }
        self.sync_dir()?;
        journal.remove(self.fs())?;
        self.sync_dir()?;
        swapped.map(|_| done)
    }

    /// Writes the outputs. Answers them, and how many records they do not hold any more.
    fn write_outputs(&self, claim: &Claim) -> Result<(Vec<Sealed>, u64)> {
        let mut sealed = Vec::new();
        let mut dropped = 0;
        for (id, group) in (claim.first_id..).zip(&claim.groups) {
            let inputs = claim.inputs.get(group.clone()).unwrap_or_default();
            let merged = Merge::of(inputs)?;
            let contents = Contents::of(&self.home, merged)?.with_codec(self.codec_of(inputs));
            let records: u64 = inputs
                .iter()
                .map(|input| input.segment().header().record_count)
                .sum();
            dropped += records.saturating_sub(contents.len() as u64);
            sealed.push(self.write_segment(id, contents)?);
        }
        Ok((sealed, dropped))
    }

    /// How the segment is compressed that these become. What counts is their size, since that of the output is known only
    /// once it is compressed.
    fn codec_of(&self, inputs: &[Arc<Sealed>]) -> Codec {
        let sizes = inputs.iter().map(|input| size_of(input));
        let size = sizes.fold(Size::default(), Size::and);
        let compaction = self.options.compaction;
        match self.options.cold_codec {
            Some(codec) if compaction.is_some_and(|options| run::is_top(size, options)) => codec,
            _ => Codec::Lz4,
        }
    }

    /// Shows the outputs instead of the inputs, if those are still what they were. Under the permit.
    fn swap(&self, claim: &Claim, outputs: Vec<Sealed>) -> bool {
        // Held, so that no batch is shown in between and then lost again.
        let _writer = self.writer();
        let view = self.view();
        let start = view.segments.iter().position(|sealed| {
            claim
                .inputs
                .first()
                .is_some_and(|first| Arc::ptr_eq(first, sealed))
        });
        let Some(start) = start else {
            return false;
        };
        let end = start + claim.inputs.len();
        let is_same = view.segments.get(start..end).is_some_and(|now| {
            now.iter()
                .zip(&claim.inputs)
                .all(|(now, input)| Arc::ptr_eq(now, input))
        });
        if !is_same {
            return false;
        }
        let mut segments: Vec<Arc<Sealed>> = view.segments.to_vec();
        segments.splice(start..end, outputs.into_iter().map(Arc::new));
        self.set_view(View {
            segments: segments.into(),
            ..View::clone(&view)
        });
        true
    }
}

fn size_of(sealed: &Sealed) -> Size {
    let segment = sealed.segment();
    Size {
        file: segment.file_len(),
        records: segment.header().logical_len,
    }
}

/// The spans of several segments in the order of answers, of each identity the newest version.
struct Merge<'m> {
    /// The oldest first, each with its next span.
    inputs: Vec<Input<'m>>,
}

struct Input<'m> {
    sealed: &'m Sealed,
    spans: Box<dyn Iterator<Item = Result<Span>> + 'm>,
    next: Option<Span>,
}

impl Input<'_> {
    fn advance(&mut self) -> Result<Option<Span>> {
        let following = self.spans.next().transpose()?;
        Ok(std::mem::replace(&mut self.next, following))
    }
}

impl<'m> Merge<'m> {
    fn of(inputs: &'m [Arc<Sealed>]) -> Result<Self> {
        let mut merge = Self { inputs: Vec::new() };
        for sealed in inputs {
            let mut input = Input {
                sealed,
                spans: Box::new(sealed.spans()),
                next: None,
            };
            input.advance()?;
            merge.inputs.push(input);
        }
        Ok(merge)
    }

    /// The next span that no newer input replaces.
    fn step(&mut self) -> Result<Option<Arc<Span>>> {
        loop {
            let first = self
                .inputs
                .iter()
                .enumerate()
                .filter_map(|(index, input)| Some((index, input.next.as_ref()?)))
                .min_by(|(_, a), (_, b)| in_order(a, b))
                .map(|(index, _)| index);
            let Some((input, behind)) = first.and_then(|index| {
                let (_, rest) = self.inputs.split_at_mut(index);
                rest.split_first_mut()
            }) else {
                return Ok(None);
            };
            let Some(span) = input.advance()? else {
                continue;
            };
            let mut is_newest = true;
            for newer in behind {
                is_newest &= newer.sealed.version_of(&span)?.is_none();
            }
            if is_newest {
                return Ok(Some(Arc::new(span)));
            }
        }
    }
}

impl Iterator for Merge<'_> {
    type Item = Result<Arc<Span>>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            // Nothing sensible follows damage.
            self.inputs.clear();
        }
        step.transpose()
    }
}

/// Says that a merge cannot go on because of what is in its journal.
fn damaged_journal(path: &std::path::Path, what: &str) -> StoreError {
    StoreError::Damaged {
        path: path.to_owned(),
        offset: None,
        what: what.to_owned(),
    }
}
