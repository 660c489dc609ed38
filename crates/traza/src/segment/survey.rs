//! What is in a segment file, for `inspect`.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use durable::{Fs, read_all};

use super::codec::{Codec, len_u64};
use super::directory::Block;
use super::error::{Result, Section, SegmentError};
use super::header::version_of;
use super::index::content::ContentGeometry;
use super::layout::FORMAT_VERSION;
use super::{SectionPlace, Segment};
use crate::digest::{Digest, pair_digest};
use crate::migration;

/// The facts of a segment file of any version that is read.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The format version.
    pub version: u16,
    /// Length of the file in bytes.
    pub file_len: u64,
    /// How the record blocks are compressed; `None` where the version has no such thing, or was not asked.
    pub codec: Option<Codec>,
    /// Number of records.
    pub record_count: u64,
    /// Length of all records before compression.
    pub logical_len: u64,
    /// Timestamps of the first and the last record, in nanoseconds.
    pub timestamps: Option<(u64, u64)>,
    /// Where the parts lie, in file order.
    pub sections: Vec<SectionPlace>,
    /// Number of traces.
    pub trace_count: u64,
    /// The indexed keys, in the order of their ids.
    pub keys: Vec<KeyFacts>,
    /// The sizes of the content index, when there is one.
    pub content: Option<ContentGeometry>,
    /// The compression blocks, in file order.
    pub blocks: Vec<Block>,
}

/// How often a key is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFacts {
    /// The key.
    pub key: String,
    /// Number of distinct values, by digest.
    pub values: u64,
    /// Number of records that carry it.
    pub postings: u64,
}

/// Looks into the segment at `path`, of version 8, 7 or 6. Of an older one the query indexes are not read:
/// keys and traces are those that follow from the spans.
///
/// # Errors
/// As [`Segment::open`] and [`migration::walk`].
pub fn survey(fs: &dyn Fs, path: &Path) -> Result<Survey> {
    let io = |op| {
        move |source| SegmentError::Io {
            op,
            path: path.to_owned(),
            source,
        }
    };
    let mut front = [0; 10];
    let file = fs.open(path).map_err(io("open"))?;
    let is_whole = file.read_exact_at(0, &mut front).is_ok();
    match version_of(&front) {
        Ok(version) if is_whole && version < FORMAT_VERSION => {
            let bytes = read_all(fs, path, u64::MAX).map_err(io("read"))?;
            legacy(&bytes)
        }
        _ => Segment::open_file(file, path).map(|segment| current(&segment)),
    }
}

fn current(segment: &Segment) -> Survey {
    let header = segment.header();
    let ids = 0u32..;
    let keys = ids.zip(segment.keys()).map(|(id, key)| {
        let values = segment.values(id);
        KeyFacts {
            key: key.to_owned(),
            values: len_u64(values.len()),
            postings: values.map(|(_, list)| len_u64(list.len())).sum(),
        }
    });
    Survey {
        version: FORMAT_VERSION,
        file_len: segment.file_len(),
        codec: Some(header.codec),
        record_count: header.record_count,
        logical_len: header.logical_len,
        timestamps: (header.record_count > 0)
            .then_some((header.min_timestamp, header.max_timestamp)),
        sections: segment.sections(),
        trace_count: len_u64(segment.trace_count()),
        keys: keys.collect(),
        content: segment.content_geometry(),
        blocks: segment.blocks().to_vec(),
    }
}

fn legacy(bytes: &[u8]) -> Result<Survey> {
    let mut traces: HashSet<String> = HashSet::new();
    let mut keys: BTreeMap<String, (HashSet<Digest>, u64)> = BTreeMap::new();
    let summary = migration::walk(bytes, &mut |legacy| {
        let record = migration::derive(&legacy)?;
        for (key, text) in record.attributes.iter() {
            let (values, postings) = keys.entry(key.to_owned()).or_default();
            values.insert(pair_digest(key, text));
            *postings = postings.saturating_add(1);
        }
        traces.insert(record.trace_id);
        Ok(())
    })?;
    let sections = summary
        .sections
        .iter()
        .map(|(section, range)| SectionPlace {
            section: *section,
            offset: range.start,
            stored_len: range.end.saturating_sub(range.start),
            body_len: match section {
                Section::Records => summary.logical_len,
                _ => range.end.saturating_sub(range.start),
            },
        });
    Ok(Survey {
        version: summary.version,
        file_len: len_u64(bytes.len()),
        codec: None,
        record_count: summary.record_count,
        logical_len: summary.logical_len,
        timestamps: summary.timestamps,
        sections: sections.collect(),
        trace_count: len_u64(traces.len()),
        keys: keys
            .into_iter()
            .map(|(key, (values, postings))| KeyFacts {
                key,
                values: len_u64(values.len()),
                postings,
            })
            .collect(),
        content: None,
        blocks: Vec::new(),
    })
}
