//! What the fuzz targets call, over bytes in memory. The tests replay the committed corpora through the
//! same functions.
//!
//! Each function takes bytes that nobody vouches for and panics when a promise of the reading side is
//! broken: that is how a fuzzer learns of it. None of them is of use to a program.

mod store;

pub use store::{columns, lines, manifest, rollup, wal};

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use durable::checksum::crc32;
use durable::{FsFile, Outcome};

use crate::content::Query;
use crate::digest::Digest;
use crate::migration::{self, v7::header_v7};
use crate::payload;
use crate::segment::codec::{PostingBounds, Postings, len_u64};
use crate::segment::index::attribute::{self, AttributeIndex};
use crate::segment::index::content::ContentIndex;
use crate::segment::index::offsets::{self, RecordOffsets};
use crate::segment::index::trace::{self, TraceIndex};
use crate::segment::layout::{BLOCK_RAW_FLAG, directory_entry, header, wrapper};
use crate::segment::{Segment, StoredRecord, verify_bytes};

/// What errors call the file.
const NAME: &str = "segment.seg";

/// An open file of these bytes.
#[derive(Debug)]
struct OpenFile(Arc<[u8]>);

fn refused<T>() -> io::Result<T> {
    Err(ErrorKind::ReadOnlyFilesystem.into())
}

impl FsFile for OpenFile {
    fn append(&mut self, _: &[u8]) -> io::Result<()> {
        refused()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.0.get(start..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..len), rest.get(..len)) {
            to.copy_from_slice(from);
        }
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(len_u64(self.0.len()))
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        refused()
    }

    fn sync_data(&mut self) -> io::Result<()> {
        refused()
    }

    fn sync(&mut self) -> io::Result<()> {
        refused()
    }
}

/// Opens `bytes` as a segment in both ways, asks everything, and verifies it; then once more with all
/// checksums made true, so that what is behind them is reached. Answers whether the bytes are a segment.
///
/// # Panics
/// When a segment that opens whole does not open lazily, when the two answer differently, when records are
/// out of order or outside the declared range, when a segment that `verify` calls intact does not open, or
/// when one of its records is not found by its trace, its pairs or its time.
pub fn open(bytes: &[u8]) -> bool {
    let is_sound = opened(bytes);
    let mut mended = bytes.to_vec();
    mend(&mut mended);
    opened(&mended);
    is_sound
}

fn opened(bytes: &[u8]) -> bool {
    let file = Box::new(OpenFile(bytes.into()));
    let lazy = Segment::open_file(file, Path::new(NAME));
    let eager = Segment::from_bytes(bytes.to_vec());
    let verdict = verify_bytes(bytes, Path::new(NAME));
    let is_intact = verdict.as_ref().is_ok_and(|v| v.verdict == Outcome::Intact);
    let Ok(lazy) = lazy else {
        assert!(eager.is_err(), "what opens whole opens lazily");
        assert!(!is_intact || migration::walk(bytes, &mut |_| Ok(())).is_ok());
        return false;
    };
    ask(&lazy);
    let Ok(eager) = eager else {
        assert!(!is_intact, "what is intact opens");
        return false;
    };
    let records: Vec<StoredRecord> = eager.scan().map_while(Result::ok).collect();
    assert_eq!(
        records.len(),
        eager.record_count(),
        "an eager open reads every record"
    );
    let again: Vec<StoredRecord> = lazy.scan().map_while(Result::ok).collect();
    assert_eq!(records, again, "both opens give the same records");
    for (before, record) in records.iter().zip(records.iter().skip(1)) {
        assert!(
            before.timestamp() <= record.timestamp(),
            "records are in order"
        );
    }
    let range = eager.header();
    for record in &records {
        assert!(
            range.contains_timestamp(record.timestamp()),
            "within the range"
        );
        let found = eager.record_at(record.logical_offset());
        assert_eq!(found.ok().as_ref(), Some(record));
        let time = Some(record.timestamp());
        let window = eager.ordinal_range_for_window(time, time);
        assert!(window.is_ok_and(|window| window.contains(&record.ordinal())));
    }
    for (trace_id, _) in eager.traces() {
        let (one, two) = (eager.trace(trace_id), lazy.trace(trace_id));
        assert_eq!(one.ok(), two.ok(), "both opens answer alike");
    }
    if is_intact {
        for record in &records {
            is_found(&eager, record);
        }
    }
    true
}

/// The indexes of an intact segment lead to each of its records.
fn is_found(segment: &Segment, record: &StoredRecord) {
    let trace = segment.trace(record.trace_id()).unwrap_or_default();
    assert!(trace.contains(record), "found by its trace");
    for (key_id, digest) in record.view().pairs() {
        let mut values = segment.values(key_id);
        let postings = values.find_map(|(value, list)| (value == digest).then_some(list));
        let is_listed =
            postings.is_some_and(|mut list| list.any(|at| at == record.logical_offset()));
        assert!(is_listed, "found by its pairs");
    }
}

/// Asks a segment that may be damaged behind its checksums: errors are fine, panics are not.
fn ask(segment: &Segment) {
    for words in ["refund", "a b c", ""] {
        let query = Query::new(words);
        segment.content_candidates(&query).ok();
    }
    for bound in [
        0,
        1,
        segment.header().min_timestamp,
        segment.header().max_timestamp,
        u64::MAX,
    ] {
        segment.ordinal_range_for_window(Some(bound), None).ok();
        segment.ordinal_range_for_window(None, Some(bound)).ok();
    }
    for key in segment.keys() {
        segment.query_attribute(key, "\"x\"").ok();
    }
    for (key_id, _) in (0u32..).zip(segment.keys()) {
        for (_, list) in segment.values(key_id) {
            follow(segment, list);
        }
    }
    for (trace_id, list) in segment.traces() {
        segment.trace(trace_id).ok();
        follow(segment, list);
    }
}

fn follow(segment: &Segment, list: Postings<'_>) {
    let mut reader = segment.reader();
    for logical in list.take(64) {
        reader.record_at(logical).ok();
    }
}

/// Makes the checksums of the header, of the metadata sections and, where the directory is not compressed,
/// of the blocks true, as far as the header's places can be followed.
fn mend(bytes: &mut [u8]) {
    let places = [
        header::DIRECTORY_OFFSET,
        header::OFFSETS_OFFSET,
        header::TRACE_OFFSET,
        header::ATTRIBUTE_OFFSET,
        header::CONTENT_OFFSET,
    ]
    .map(|field| place(bytes, field));
    let records_at = place(bytes, header::RECORDS_OFFSET);
    let [directory_at, offsets_at, ..] = places;
    let directory = bytes.get(directory_at..).unwrap_or_default();
    if wrapper::FLAGS.u32(directory) == Ok(0) {
        let start = directory_at.saturating_add(wrapper::LEN);
        mend_blocks(bytes, records_at, start, offsets_at);
    }
    let ends = places.iter().skip(1).copied().chain([bytes.len()]);
    for (start, end) in places.into_iter().zip(ends) {
        if let Some(section) = bytes.get_mut(start..end) {
            let crc = crc32(section.get(wrapper::FLAGS.offset..).unwrap_or_default());
            wrapper::CRC32.put(section, &crc.to_le_bytes()).ok();
        }
    }
    let crc = crc32(bytes.get(..header::CRC32.offset).unwrap_or_default());
    header::CRC32.put(bytes, &crc.to_le_bytes()).ok();
}

/// Makes the checksums of the blocks true whose directory entries stand at `start` to `end`.
fn mend_blocks(bytes: &mut [u8], records_at: usize, start: usize, end: usize) {
    let mut at = start;
    while at < end
        && let Some(entry) = bytes.get(at..at.saturating_add(directory_entry::LEN))
    {
        let offset = directory_entry::STORED_OFFSET.u64(entry).ok();
        let offset = offset.and_then(|at| usize::try_from(at).ok());
        let start = records_at.saturating_add(offset.unwrap_or(usize::MAX));
        let len = directory_entry::STORED_LEN.u32(entry).unwrap_or(0) & !BLOCK_RAW_FLAG;
        let end = start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
        let crc = crc32(bytes.get(start..end).unwrap_or_default());
        if let Some(entry) = bytes.get_mut(at..) {
            directory_entry::CRC32.put(entry, &crc.to_le_bytes()).ok();
        }
        at = at.saturating_add(directory_entry::LEN);
    }
}

/// A word of a header, as a place in the bytes.
fn place(bytes: &[u8], field: durable::Field) -> usize {
    let word = field
        .u64(bytes)
        .ok()
        .and_then(|at| usize::try_from(at).ok());
    word.unwrap_or(usize::MAX)
}

/// Decodes `bytes` as the body of an index section. The first byte says of which one, the second how many
/// records there are and the third how many bytes each has. Answers whether the body is sound.
///
/// # Panics
/// When a body that is taken, and whose entries are in order, is not the one that is written for what it
/// says: an encoding must be the only one.
pub fn section(bytes: &[u8]) -> bool {
    let [which, count, len, body @ ..] = bytes else {
        return false;
    };
    let record_count = u64::from(*count);
    let bounds = PostingBounds {
        record_count,
        logical_len: record_count.saturating_mul(u64::from(*len).saturating_add(24)),
    };
    match which % 4 {
        0 => RecordOffsets::decode(body, bounds).is_ok_and(|index| {
            assert_eq!(offsets::encode(index.starts()), body, "one encoding");
            true
        }),
        1 => TraceIndex::decode(body.to_vec(), bounds).is_ok_and(|index| {
            let lists: Vec<(&str, Vec<u64>)> = index
                .iter()
                .map(|(id, list)| (id, list.collect()))
                .collect();
            for (id, list) in &lists {
                assert!(
                    index.postings(id).eq(list.iter().copied()),
                    "found by its id"
                );
                assert!(list.is_sorted_by(|a, b| a < b), "ascending");
            }
            let entries = lists.iter().map(|(id, list)| (*id, list.as_slice()));
            assert_eq!(trace::encode(entries), body, "one encoding");
            true
        }),
        2 => AttributeIndex::decode(body.to_vec(), bounds).is_ok_and(|index| {
            attributes(&index, body);
            true
        }),
        _ => ContentIndex::decode(body, record_count, 0).is_ok_and(|index| {
            if let Some(index) = index {
                let geometry = index.geometry();
                let end = geometry.rows_at().saturating_add(geometry.rows_len());
                assert_eq!(end, len_u64(body.len()), "the sizes account for the body");
            }
            true
        }),
    }
}

fn attributes(index: &AttributeIndex, body: &[u8]) {
    let keys: Vec<&str> = index.keys().collect();
    let mut entries: Vec<(u32, Digest, Vec<u64>)> = Vec::new();
    for (key_id, key) in (0u32..).zip(&keys) {
        assert_eq!(
            index.key_id(key),
            Some(key_id),
            "a key is found by its name"
        );
        let values = index.values(key_id);
        entries.extend(values.map(|(digest, list)| (key_id, digest, list.collect())));
    }
    assert_eq!(entries.len(), index.len(), "every pair belongs to a key");
    for (key_id, digest, list) in &entries {
        let found = index.postings(*key_id, *digest);
        assert!(
            found.eq(list.iter().copied()),
            "a pair is found by its digest"
        );
    }
    let lists = entries
        .iter()
        .map(|(id, digest, list)| (*id, *digest, list.iter().copied()));
    let written = attribute::encode(keys.iter().copied(), entries.len(), lists);
    // Entries in another order are taken too; sorted they take as many bytes.
    assert_eq!(written.len(), body.len(), "one encoding");
}

/// Decodes `bytes` as a payload blob. Answers whether it is one.
///
/// # Panics
/// When a content that was decoded does not come back from a blob of its own.
pub fn blob(bytes: &[u8]) -> bool {
    let Ok(content) = payload::decode(bytes) else {
        return false;
    };
    let again = payload::decode(&payload::encode(&content));
    assert_eq!(again.as_ref(), Ok(&content), "a content survives its blob");
    true
}

/// Converts `bytes`, a segment of version 6 or 7, as the migration does; then once more with the block
/// checksums of version 7 made true. Answers whether it can be converted.
///
/// # Panics
/// When the records of the new segment are not those of the old one, or the new one is not intact.
pub fn legacy(bytes: &[u8]) -> bool {
    let is_sound = converted(bytes);
    let mut mended = bytes.to_vec();
    let [records_at, directory_at, offsets_at] = [
        header_v7::RECORDS_OFFSET,
        header_v7::DIRECTORY_OFFSET,
        header_v7::OFFSETS_OFFSET,
    ]
    .map(|field| place(bytes, field));
    mend_blocks(&mut mended, records_at, directory_at, offsets_at);
    converted(&mended);
    is_sound
}

fn converted(bytes: &[u8]) -> bool {
    let mut count = 0u64;
    let walked = migration::walk(bytes, &mut |legacy| {
        assert_eq!(legacy.ordinal, count, "records come one after the other");
        count = count.saturating_add(1);
        Ok(())
    });
    let Ok(summary) = walked else {
        assert!(
            migration::to_current(bytes).is_err(),
            "nothing is converted over a fault"
        );
        return false;
    };
    assert_eq!(summary.record_count, count);
    let Ok(current) = migration::to_current(bytes) else {
        return false;
    };
    let segment = Segment::from_bytes(current.clone());
    let found = segment.as_ref().map(Segment::record_count);
    assert_eq!(found.ok().map(len_u64), Some(count), "no record is lost");
    let verdict = verify_bytes(&current, Path::new(NAME));
    assert!(
        verdict.is_ok_and(|v| v.verdict == Outcome::Intact),
        "the new segment is intact"
    );
    true
}
