//! The files of a store that are no segments: sidecars, column caches, the log, the logs of lines, manifests.

use std::path::{Component, Path};

use durable::Field;
use durable::checksum::{crc32, fnv1a_64};

use super::OpenFile;
use crate::logs::file::{Healed, LineFormat, scan};
use crate::logs::{annotation, eval, tombstone};
use crate::rollup::{self, layout::prologue as sidecar};
use crate::segment::codec::len_u64;
use crate::span::Span;
use crate::store::columns::{self, layout::prologue as column_file};
use crate::store::generation::Manifest;
use crate::wal::{self, FrameFault, Stamp, frame_header};

/// More records than a fuzzer's segment would have: the columns of none take no bytes, so nothing else bounds them here.
const RECORDS_MAX: u64 = 1 << 12;

fn word(bytes: &[u8], field: Field) -> u64 {
    field.u64(bytes).unwrap_or(0)
}

/// Decodes `bytes` as the sidecar of the segment that they name themselves; then once more with both checksums made true.
/// Answers whether they are one.
///
/// # Panics
/// When a sidecar that is taken is not the one that is written for what it says.
pub fn rollup(bytes: &[u8]) -> bool {
    let is_sound = decoded_rollup(bytes);
    let mut mended = bytes.to_vec();
    for (covered, at) in [
        (sidecar::CHECKSUM.offset, sidecar::CHECKSUM.offset),
        (bytes.len().saturating_sub(8), bytes.len().saturating_sub(8)),
    ] {
        let checksum = fnv1a_64(mended.get(..covered).unwrap_or_default());
        if let Some(place) = mended.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *place = checksum.to_le_bytes();
        }
    }
    decoded_rollup(&mended);
    is_sound
}

fn decoded_rollup(bytes: &[u8]) -> bool {
    let binding = rollup::Binding {
        segment_len: word(bytes, sidecar::SEGMENT_LEN),
        record_count: word(bytes, sidecar::RECORD_COUNT),
        min_timestamp: word(bytes, sidecar::MIN_TIMESTAMP),
        max_timestamp: word(bytes, sidecar::MAX_TIMESTAMP),
        pricing_fingerprint: word(bytes, sidecar::PRICING_FINGERPRINT),
    };
    let Ok(found) = rollup::decode(bytes, &binding) else {
        return false;
    };
    assert!(rollup::encode(&found, &binding) == bytes, "one encoding");
    true
}

/// Decodes `bytes` as the columns of the segment that they name themselves; then once more with the checksum made true.
/// Answers whether they are columns.
///
/// # Panics
/// When columns that are taken do not survive being written and read, or cannot be asked for a record.
pub fn columns(bytes: &[u8]) -> bool {
    let is_sound = decoded_columns(bytes);
    let mut mended = bytes.to_vec();
    if let Some((front, checksum)) = mended.split_last_chunk_mut() {
        *checksum = crc32(front).to_le_bytes();
    }
    decoded_columns(&mended);
    is_sound
}

fn decoded_columns(bytes: &[u8]) -> bool {
    let binding = columns::Binding {
        segment_len: word(bytes, column_file::SEGMENT_LEN),
        record_count: word(bytes, column_file::RECORD_COUNT),
        min_timestamp: word(bytes, column_file::MIN_TIMESTAMP),
        max_timestamp: word(bytes, column_file::MAX_TIMESTAMP),
        header_crc: column_file::HEADER_CRC.u32(bytes).unwrap_or(0),
    };
    if binding.record_count > RECORDS_MAX {
        return false;
    }
    let Ok(found) = columns::decode(bytes, &binding) else {
        return false;
    };
    let written = columns::encode(&found, &binding);
    let again = columns::decode(&written, &binding);
    assert_eq!(again.as_ref(), Ok(&found), "columns survive their file");
    let records = usize::try_from(binding.record_count).unwrap_or(0);
    // One more than there are: whoever asks got the number from elsewhere.
    for ordinal in 0..=records {
        found.facts(ordinal);
        found.duration_ns(ordinal);
    }
    assert!(
        found.window(Some(5), Some(9)).end <= records,
        "within the records"
    );
    true
}

/// Reads `bytes` as a write-ahead log; then once more with the checksums of the frames made true. Answers whether an opening
/// would take it.
///
/// # Panics
/// When lengths do not add up, a frame is handed out that is not as it was written, or the log without its torn end is
/// not the same frames again.
pub fn wal(bytes: &[u8]) -> bool {
    let is_sound = scanned(bytes);
    let mut mended = bytes.to_vec();
    let mut at = wal::MAGIC.len();
    while let Some(frame) = mended.get_mut(at..)
        && let Ok(len) = frame_header::PAYLOAD_LEN.u32(frame)
        && len > 0
    {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let end = frame_header::LEN.saturating_add(len);
        let Some(payload) = frame.get(frame_header::LEN..end) else {
            break;
        };
        let checksum = crc32(payload).to_le_bytes();
        frame_header::CRC32.put(frame, &checksum).ok();
        at = at.saturating_add(end);
    }
    scanned(&mended);
    is_sound
}

/// The stamps and payloads of a log.
type Frames = Vec<(Stamp, Vec<u8>)>;

/// The frames of a log, with what the scan says of it.
fn frames_of(bytes: &[u8]) -> Option<(Frames, wal::Recovered)> {
    let mut frames = Frames::new();
    let found = wal::scan(&OpenFile(bytes.into()), &mut |frame| {
        // As replaying it does.
        let spans = Span::batch_from_json(frame.payload);
        spans.map_err(|error| FrameFault::Spans {
            reason: error.to_string(),
        })?;
        let at = usize::try_from(frame.offset).unwrap_or(usize::MAX);
        let stored = bytes.get(at..).unwrap_or_default();
        let checksum = frame_header::CRC32.u32(stored);
        assert_eq!(checksum, Ok(crc32(frame.payload)), "as it was written");
        frames.push((frame.stamp, frame.payload.to_vec()));
        Ok(())
    });
    Some((frames, found.ok()?))
}

fn scanned(bytes: &[u8]) -> bool {
    let Some((frames, found)) = frames_of(bytes) else {
        return false;
    };
    assert_eq!(found.frames, len_u64(frames.len()));
    let whole = found.len.saturating_add(found.torn_len);
    assert_eq!(whole, len_u64(bytes.len()), "every byte is accounted for");
    let highest = frames.iter().map(|(stamp, _)| *stamp).max();
    assert_eq!(found.last, highest);
    let kept = usize::try_from(found.len).unwrap_or(usize::MAX);
    let kept = bytes.get(..kept).unwrap_or_default();
    let again = frames_of(kept);
    let cut = wal::Recovered {
        torn_len: 0,
        ..found
    };
    assert!(
        again == Some((frames, cut)),
        "the same without its torn end"
    );
    true
}

/// Reads `bytes` behind the first one as a log of lines; the first byte says of which kind. Answers whether an opening would
/// take it.
///
/// # Panics
/// When what is left after healing is not the same records with nothing to heal, or a record cannot be written and read.
pub fn lines(bytes: &[u8]) -> bool {
    let [kind, log @ ..] = bytes else {
        return false;
    };
    match kind % 3 {
        0 => healed_lines(log, &annotation::FORMAT, annotation::Annotation::to_json),
        1 => healed_lines(log, &eval::FORMAT, eval::record::Record::to_json),
        _ => healed_lines(log, &tombstone::FORMAT, tombstone::Line::to_json),
    }
}

fn healed_lines<R: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    format: &LineFormat<R>,
    to_json: fn(&R) -> String,
) -> bool {
    let path = Path::new("log.jsonl");
    let Ok(found) = scan(path, bytes, format) else {
        return false;
    };
    let mut healed = bytes.to_vec();
    match found.healed {
        None => {}
        Some(Healed::Newline { .. }) => healed.push(b'\n'),
        Some(Healed::TornTail { offset, len, .. }) => {
            let end = offset.saturating_add(len);
            assert_eq!(end, len_u64(bytes.len()), "only the end is cut off");
            healed.truncate(usize::try_from(offset).unwrap_or(usize::MAX));
        }
    }
    let again = scan(path, &healed, format);
    let again = again.unwrap_or_else(|error| panic!("healed, it is {error}"));
    assert_eq!(again.healed, None, "healed once");
    assert_eq!(again.records, found.records, "the same records");
    for record in &found.records {
        // Not always the same one: a double with many digits may come back one unit in the last place off.
        let line = to_json(record);
        let back = (format.decode)(line.as_bytes());
        assert!(back.is_ok(), "a record can be written: {line}");
    }
    true
}

/// Reads `bytes` as a manifest. Answers whether they are one.
///
/// # Panics
/// When a manifest that is taken does not survive being written, or names a file outside the store.
pub fn manifest(bytes: &[u8]) -> bool {
    let Ok(found) = Manifest::from_bytes(bytes) else {
        return false;
    };
    for file in &found.files {
        let mut components = Path::new(&file.path).components();
        let is_inside = components.all(|part| matches!(part, Component::Normal(_)));
        assert!(is_inside && !file.path.is_empty(), "{:?}", file.path);
    }
    let again = Manifest::from_bytes(&found.to_bytes());
    assert_eq!(again.as_ref(), Ok(&found), "a manifest survives its file");
    true
}
