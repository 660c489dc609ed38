//! Checking everything that a segment file proves about itself.
//!
//! Nothing here steers by an index: every block is decoded, every record is derived anew from its payload,
//! and the indexes are then compared with what the records say, entry by entry, in both directions.

mod content;
mod findings;
mod legacy;
mod walk;

use std::path::Path;

use durable::{Fs, Severity, Verdict, read_all};
use serde_json::{Map, Value, json};

use self::findings::Findings;
use super::codec::{PostingBounds, len_u64, unwrap};
use super::directory::{self, Block};
use super::error::{Fault, Result, Section, SegmentError};
use super::header::{Header, version_of};
use super::index::attribute::AttributeIndex;
use super::index::offsets::RecordOffsets;
use super::index::trace::TraceIndex;
use super::layout::header;
use crate::migration::{v6, v7};

/// Walks the whole segment at `path`, of version 8, 7 or 6.
///
/// # Errors
/// [`SegmentError::Io`], [`SegmentError::NotASegment`], [`SegmentError::Version`] and
/// [`SegmentError::Unsupported`]: nothing could be checked. Damage is in the verdict.
pub fn verify(fs: &dyn Fs, path: &Path) -> Result<Verdict> {
    let bytes = read_all(fs, path, u64::MAX).map_err(|source| SegmentError::Io {
        op: "read",
        path: path.to_owned(),
        source,
    })?;
    verify_bytes(&bytes, path)
}

/// [`verify`] for a segment in memory; `path` is what the verdict calls it.
///
/// # Errors
/// As [`verify`].
pub fn verify_bytes(bytes: &[u8], path: &Path) -> Result<Verdict> {
    let mut findings = Findings::new(path);
    let mut facts = Map::new();
    facts.insert("bytes".into(), json!(bytes.len()));
    match version_of(bytes) {
        Ok(version) => {
            facts.insert("format".into(), version.into());
            match version {
                v6::VERSION | v7::VERSION => legacy::check(bytes, &mut findings, &mut facts)?,
                _ => check(bytes, &mut findings, &mut facts)?,
            }
        }
        Err(error) => findings.take(error)?,
    }
    let what =
        "checksums tell accidents: whoever can write the file can change it and compute new ones";
    findings.add(Severity::Note, "not_authenticated", 0, what.to_owned());
    let findings = findings.into_list();
    Ok(Verdict {
        path: path.to_owned(),
        kind: "segment",
        verdict: Verdict::outcome_of(&findings),
        findings,
        facts,
    })
}

/// The parts of a segment that the walk over the records needs, and those that it is compared with.
struct Parts<'a> {
    bytes: &'a [u8],
    header: Header,
    offsets: RecordOffsets,
    blocks: Box<[Block]>,
    traces: Option<TraceIndex>,
    attributes: Option<AttributeIndex>,
}

/// A section as stored.
#[derive(Clone, Copy)]
struct Stored<'a> {
    section: Section,
    offset: u64,
    bytes: &'a [u8],
}

impl<'a> Stored<'a> {
    /// The body; a fault goes to the findings.
    fn body(&self, findings: &mut Findings<'_>) -> Result<Option<std::borrow::Cow<'a, [u8]>>> {
        match unwrap(self.section, self.offset, self.bytes) {
            Ok(body) => Ok(Some(body)),
            Err(error) => findings.take(error).map(|()| None),
        }
    }

    /// What `decode` makes of the body.
    fn decode<T>(
        &self,
        findings: &mut Findings<'_>,
        decode: impl FnOnce(Vec<u8>) -> Result<T, Fault>,
    ) -> Result<Option<T>> {
        let Some(body) = self.body(findings)? else {
            return Ok(None);
        };
        match decode(body.into_owned()) {
            Ok(decoded) => Ok(Some(decoded)),
            Err(fault) => {
                findings.take(SegmentError::corrupt(self.section, self.offset, fault))?;
                Ok(None)
            }
        }
    }
}

/// Checks a version 8 segment. Each section is judged by itself, so that one damaged section does not hide
/// another.
fn check(bytes: &[u8], findings: &mut Findings<'_>, facts: &mut Map<String, Value>) -> Result<()> {
    let head = bytes.get(..header::LEN).unwrap_or(bytes);
    let header = match Header::decode(head, len_u64(bytes.len())) {
        Ok(header) => header,
        Err(error) => return findings.take(error),
    };
    header_facts(&header, facts);
    let [_, _, directory, offsets, traces, attributes, content] = header
        .sections(len_u64(bytes.len()))
        .map(|(section, range)| {
            let start = usize::try_from(range.start).unwrap_or(usize::MAX);
            let end = usize::try_from(range.end).unwrap_or(usize::MAX);
            Stored {
                section,
                offset: range.start,
                bytes: bytes.get(start..end).unwrap_or_default(),
            }
        });
    let bounds = PostingBounds {
        record_count: header.record_count,
        logical_len: header.logical_len,
    };
    let directory_body = directory.body(findings)?;
    let offsets = offsets.decode(findings, |body| RecordOffsets::decode(&body, bounds))?;
    let traces = traces.decode(findings, |body| TraceIndex::decode(body, bounds))?;
    let attributes = attributes.decode(findings, |body| AttributeIndex::decode(body, bounds))?;
    let content_body = content.body(findings)?;
    let content = match content_body {
        Some(body) => content::Content::decode(body, &header, content.offset, findings)?,
        None => content::Content::Unknown,
    };
    if let Some(traces) = &traces {
        facts.insert("traces".into(), traces.len().into());
    }
    if let Some(attributes) = &attributes {
        facts.insert("keys".into(), attributes.keys().len().into());
        facts.insert("pairs".into(), attributes.len().into());
    }
    let (Some(body), Some(offsets)) = (directory_body, offsets) else {
        return Ok(());
    };
    match directory::decode(&body, &header, &offsets) {
        Ok(blocks) => {
            facts.insert("blocks".into(), blocks.len().into());
            let parts = Parts {
                bytes,
                header,
                offsets,
                blocks,
                traces,
                attributes,
            };
            walk::walk(&parts, content, findings)
        }
        Err(fault) => findings.take(SegmentError::corrupt(
            directory.section,
            directory.offset,
            fault,
        )),
    }
}

fn header_facts(header: &Header, facts: &mut Map<String, Value>) {
    facts.insert("codec".into(), header.codec.as_str().into());
    facts.insert("records".into(), header.record_count.into());
    facts.insert("logical_bytes".into(), header.logical_len.into());
    if header.record_count > 0 {
        facts.insert("first_timestamp_ns".into(), header.min_timestamp.into());
        facts.insert("last_timestamp_ns".into(), header.max_timestamp.into());
    }
}
