//! Collecting what was found.

use std::path::Path;

use durable::{Finding, Severity};

use crate::segment::error::{Result, Section, SegmentError};

/// Of one code this many findings are told; the others are counted.
const TOLD_MAX: u64 = 16;

/// Everything found so far, and how much of it is told.
pub(super) struct Findings<'p> {
    path: &'p Path,
    list: Vec<Finding>,
    counts: Vec<(&'static str, Severity, u64)>,
}

impl<'p> Findings<'p> {
    /// Nothing found yet in the file at `path`.
    pub(super) fn new(path: &'p Path) -> Self {
        Self {
            path,
            list: Vec::new(),
            counts: Vec::new(),
        }
    }

    /// Adds something that was found at byte `offset` of the file.
    pub(super) fn add(
        &mut self,
        severity: Severity,
        code: &'static str,
        offset: u64,
        what: String,
    ) {
        let counted = self.counts.iter_mut().find(|(known, _, _)| *known == code);
        let count = if let Some((_, _, count)) = counted {
            *count = count.saturating_add(1);
            *count
        } else {
            self.counts.push((code, severity, 1));
            1
        };
        if count <= TOLD_MAX {
            self.list.push(Finding {
                code,
                severity,
                place: format!("{} byte {offset}", self.path.display()),
                what,
            });
        }
    }

    /// Adds damage that an error tells of; every other error ends the check.
    pub(super) fn take(&mut self, error: SegmentError) -> Result<()> {
        let SegmentError::Corrupt {
            section,
            offset,
            fault,
        } = error
        else {
            return Err(error);
        };
        let what = format!("{section}: {fault}");
        self.add(Severity::Damage, damage_code(section), offset, what);
        Ok(())
    }

    /// All that is told, in the order in which it was found.
    pub(super) fn into_list(mut self) -> Vec<Finding> {
        for (code, severity, count) in self.counts {
            if let Some(more) = count.checked_sub(TOLD_MAX).filter(|more| *more > 0) {
                self.list.push(Finding {
                    code,
                    severity,
                    place: self.path.display().to_string(),
                    what: format!("{more} more of the kind {code}"),
                });
            }
        }
        self.list
    }
}

/// The stable word for damage of a section.
fn damage_code(section: Section) -> &'static str {
    match section {
        Section::Header => "header_damaged",
        Section::Records => "records_damaged",
        Section::BlockDirectory => "block_directory_damaged",
        Section::RecordOffsets => "record_offsets_damaged",
        Section::TraceIndex => "trace_index_damaged",
        Section::AttributeIndex => "attribute_index_damaged",
        Section::ContentIndex => "content_index_damaged",
        Section::ContentRows => "content_rows_damaged",
    }
}
