//! The walk over all records, and the comparison of the indexes with what they say.

use std::collections::HashMap;
use std::iter::Peekable;
use std::ops::Range;

use durable::Severity;
use durable::checksum::crc32;

use super::Parts;
use super::content::Content;
use super::findings::Findings;
use crate::digest::{Digest, pair_digest};
use crate::record;
use crate::segment::codec::{Codec, Postings, len_u64};
use crate::segment::directory::Block;
use crate::segment::error::{Fault, Result, Section, SegmentError};
use crate::segment::index::attribute::AttributeIndex;
use crate::segment::layout::header;
use crate::segment::records::RecordView;
use crate::span::Span;

/// Decodes every block, derives every record anew, and accounts for every posting.
pub(super) fn walk(
    parts: &Parts<'_>,
    content: Content<'_>,
    findings: &mut Findings<'_>,
) -> Result<()> {
    let mut walk = Walk::new(parts, content, findings);
    let mut decoded = Vec::new();
    for (index, block) in parts.blocks.iter().enumerate() {
        match decode(parts, block, &mut decoded) {
            Ok(()) => walk.block(index, block, &decoded)?,
            Err(fault) => {
                let error = damaged(parts, block, fault);
                walk.findings.take(error)?;
                walk.unread.push(logical_range(block));
            }
        }
    }
    walk.finish()
}

fn logical_range(block: &Block) -> Range<u64> {
    block.logical_start..block.logical_start.saturating_add(block.logical_len)
}

fn damaged(parts: &Parts<'_>, block: &Block, fault: Fault) -> SegmentError {
    SegmentError::corrupt(Section::Records, file_offset(parts, block), fault)
}

fn file_offset(parts: &Parts<'_>, block: &Block) -> u64 {
    parts
        .header
        .records_offset
        .saturating_add(block.stored_offset)
}

/// Checksum, codec and length of a block.
fn decode(parts: &Parts<'_>, block: &Block, out: &mut Vec<u8>) -> Result<(), Fault> {
    let start = usize::try_from(file_offset(parts, block)).unwrap_or(usize::MAX);
    let len = usize::try_from(block.stored_len).unwrap_or(usize::MAX);
    let stored = parts.bytes.get(start..start.saturating_add(len));
    let stored = stored.unwrap_or_default();
    let computed = crc32(stored);
    if computed != block.crc {
        return Err(Fault::Checksum {
            stored: block.crc,
            computed,
        });
    }
    let codec = if block.is_raw {
        Codec::Raw
    } else {
        parts.header.codec
    };
    codec.check_declared(stored, block.logical_len)?;
    out.clear();
    out.resize(usize::try_from(block.logical_len).unwrap_or(usize::MAX), 0);
    codec.decompress_into(stored, out)
}

/// A posting list of which some entries are accounted for.
type Cursor<'a> = Peekable<Postings<'a>>;

struct Walk<'p, 'f, 'path> {
    parts: &'p Parts<'p>,
    findings: &'f mut Findings<'path>,
    content: Content<'p>,
    traces: Option<HashMap<&'p str, Cursor<'p>>>,
    pairs: Option<HashMap<(u32, Digest), Cursor<'p>>>,
    /// Ids of the keys, by name.
    key_ids: HashMap<&'p str, u32>,
    /// Logical ranges of blocks that could not be decoded: their postings cannot be judged.
    unread: Vec<Range<u64>>,
    first_timestamp: Option<u64>,
    last_timestamp: u64,
    has_text: bool,
}

impl<'p, 'f, 'path> Walk<'p, 'f, 'path> {
    fn new(parts: &'p Parts<'p>, content: Content<'p>, findings: &'f mut Findings<'path>) -> Self {
        let traces = parts.traces.as_ref().map(|traces| {
            let lists = traces.iter();
            lists.map(|(id, list)| (id, list.peekable())).collect()
        });
        let pairs = parts.attributes.as_ref().map(|attributes| {
            let ids = (0u32..).take(attributes.keys().len());
            ids.flat_map(|id| {
                let values = attributes.values(id);
                values.map(move |(digest, list)| ((id, digest), list.peekable()))
            })
            .collect()
        });
        let keys = parts.attributes.iter().flat_map(AttributeIndex::keys);
        Self {
            key_ids: keys.zip(0u32..).collect(),
            parts,
            findings,
            content,
            traces,
            pairs,
            unread: Vec::new(),
            first_timestamp: None,
            last_timestamp: 0,
            has_text: false,
        }
    }

    fn block(&mut self, index: usize, block: &Block, decoded: &[u8]) -> Result<()> {
        let starts = self.parts.offsets.starts().get(block.first_ordinal..);
        let end = logical_range(block).end;
        let ordinals = starts
            .unwrap_or_default()
            .iter()
            .take_while(|start| **start < end)
            .count();
        for ordinal in block.first_ordinal..block.first_ordinal.saturating_add(ordinals) {
            let Some(range) = self.parts.offsets.range(ordinal) else {
                continue;
            };
            let place = |at: u64| {
                let at = at.saturating_sub(block.logical_start);
                usize::try_from(at).unwrap_or(usize::MAX)
            };
            let bytes = decoded.get(place(range.start)..place(range.end));
            let Some(bytes) = bytes else {
                let logical = range.start;
                self.findings
                    .take(damaged(self.parts, block, Fault::NoRecord { logical }))?;
                continue;
            };
            match RecordView::decode(bytes) {
                Ok(view) => {
                    if ordinal == block.first_ordinal && view.timestamp() != block.min_timestamp {
                        let fault = Fault::Fence {
                            block: len_u64(index),
                            declared: block.min_timestamp,
                            found: view.timestamp(),
                        };
                        self.findings.take(damaged(self.parts, block, fault))?;
                    }
                    self.record(block, ordinal, range, &view)?;
                }
                Err(fault) => {
                    self.findings.take(damaged(self.parts, block, fault))?;
                    self.unread.push(range);
                }
            }
        }
        Ok(())
    }

    fn record(
        &mut self,
        block: &Block,
        ordinal: usize,
        range: Range<u64>,
        view: &RecordView<'_>,
    ) -> Result<()> {
        let timestamp = view.timestamp();
        if timestamp < self.last_timestamp {
            let fault = Fault::Order {
                field: "timestamps of the records",
                entry: len_u64(ordinal),
            };
            self.findings.take(damaged(self.parts, block, fault))?;
        }
        self.first_timestamp.get_or_insert(timestamp);
        self.last_timestamp = timestamp;
        if view.slack_len() > 0 {
            let what = format!(
                "{} bytes between record {ordinal} and the next one",
                view.slack_len()
            );
            self.tell(Severity::Unproven, "bytes_between_records", block, what);
        }
        self.take_postings(block, ordinal, range.start, view);
        self.compare_with_span(block, ordinal, view);
        Ok(())
    }

    fn tell(&mut self, severity: Severity, code: &'static str, block: &Block, what: String) {
        let offset = file_offset(self.parts, block);
        self.findings.add(severity, code, offset, what);
    }

    /// The indexes must lead to the record from its trace and from each of its pairs.
    fn take_postings(
        &mut self,
        block: &Block,
        ordinal: usize,
        logical: u64,
        view: &RecordView<'_>,
    ) {
        let is_found = |cursor: Option<&mut Cursor<'_>>, unread: &[Range<u64>]| {
            cursor.is_some_and(|cursor| {
                let in_unread = |at: &u64| unread.iter().any(|range| range.contains(at));
                while cursor.next_if(in_unread).is_some() {}
                cursor.next_if_eq(&logical).is_some()
            })
        };
        if let Some(traces) = &mut self.traces
            && !is_found(traces.get_mut(view.trace_id()), &self.unread)
        {
            let what = format!("the trace index does not lead to record {ordinal}");
            self.tell(Severity::Damage, "record_not_in_trace_index", block, what);
        }
        let Some(pairs) = &mut self.pairs else {
            return;
        };
        let missing = view
            .pairs()
            .filter(|pair| !is_found(pairs.get_mut(pair), &self.unread))
            .count();
        if missing > 0 {
            let what = format!(
                "the attribute index does not lead to record {ordinal} from {missing} of its pairs"
            );
            self.tell(
                Severity::Damage,
                "record_not_in_attribute_index",
                block,
                what,
            );
        }
    }

    /// What the record stores beside its span must follow from the span.
    fn compare_with_span(&mut self, block: &Block, ordinal: usize, view: &RecordView<'_>) {
        let span = match Span::from_json(view.payload()) {
            Ok(span) => span,
            Err(error) => {
                let what = format!("the payload of record {ordinal} is no span: {error}");
                self.tell(Severity::Unproven, "payload_is_no_span", block, what);
                return;
            }
        };
        let record = record::derive(&span);
        if record.timestamp != view.timestamp() || record.trace_id != view.trace_id() {
            let what = format!("record {ordinal} has another trace or time than its span");
            self.tell(Severity::Damage, "record_contradicts_span", block, what);
        }
        if self.pairs.is_some() {
            let derived = record.attributes.iter().map(|(key, text)| {
                let id = self.key_ids.get(key).copied();
                (id, pair_digest(key, text))
            });
            if !derived.eq(view.pairs().map(|(id, digest)| (Some(id), digest))) {
                let what = format!("the pairs of record {ordinal} are not those of its span");
                self.tell(Severity::Damage, "pairs_contradict_span", block, what);
            }
        }
        if record.payload != view.payload() {
            let what = format!("the payload of record {ordinal} is not in canonical form");
            self.tell(Severity::Note, "payload_not_canonical", block, what);
        }
        self.has_text |= record.content.text().is_some();
        self.content.see(len_u64(ordinal), &record, self.findings);
    }

    fn finish(mut self) -> Result<()> {
        self.check_range()?;
        let header = self.parts.header;
        let sections = header.sections(len_u64(self.parts.bytes.len()));
        let [_, _, _, _, traces_at, attributes_at, content_at] =
            sections.map(|(_, range)| range.start);
        let unread = std::mem::take(&mut self.unread);
        let left_over = |cursor: Cursor<'_>| {
            let is_read = |at: &u64| !unread.iter().any(|range| range.contains(at));
            cursor.filter(is_read).count()
        };
        let traces = self.traces.take().into_iter().flatten();
        let stray: usize = traces.map(|(_, cursor)| left_over(cursor)).sum();
        if stray > 0 {
            let what = format!("{stray} postings lead to records that do not belong to the trace");
            self.findings
                .add(Severity::Damage, "stray_trace_posting", traces_at, what);
        }
        let pairs = self.pairs.take().into_iter().flatten();
        let stray: usize = pairs.map(|(_, cursor)| left_over(cursor)).sum();
        if stray > 0 {
            let what = format!("{stray} postings lead to records that do not carry the pair");
            self.findings.add(
                Severity::Damage,
                "stray_attribute_posting",
                attributes_at,
                what,
            );
        }
        if matches!(self.content, Content::Absent) && self.has_text {
            let what = "no content index, though there is text: word searches read every record";
            self.findings.add(
                Severity::Note,
                "no_content_index",
                content_at,
                what.to_owned(),
            );
        }
        self.content.finish(self.findings);
        Ok(())
    }

    /// The declared range is that of the records, as far as they could be read.
    fn check_range(&mut self) -> Result<()> {
        let Some(first) = self.first_timestamp else {
            return Ok(());
        };
        let declared = self.parts.header;
        let is_unread = |logical: u64| self.unread.iter().any(|range| range.contains(&logical));
        let last_is_unread = is_unread(declared.logical_len.saturating_sub(1));
        for (field, declared, found, unread) in [
            (
                header::MIN_TIMESTAMP,
                declared.min_timestamp,
                first,
                is_unread(0),
            ),
            (
                header::MAX_TIMESTAMP,
                declared.max_timestamp,
                self.last_timestamp,
                last_is_unread,
            ),
        ] {
            if declared != found && !unread {
                let fault = Fault::Range {
                    field: field.name,
                    declared,
                    found,
                };
                self.findings
                    .take(SegmentError::corrupt(Section::Header, 0, fault))?;
            }
        }
        Ok(())
    }
}
